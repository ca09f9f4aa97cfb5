"""The program `llada` on a machine, which the wheel does not bring along."""

from __future__ import annotations

import os
import shutil


def program() -> str:
    """$LLADA_PROGRAM, or what the shell finds as `llada`."""
    found = shutil.which(os.environ.get("LLADA_PROGRAM") or "llada")
    if found is None:
        raise FileNotFoundError("llada: found no such program on this machine; needed it in PATH or in LLADA_PROGRAM")
    return found
