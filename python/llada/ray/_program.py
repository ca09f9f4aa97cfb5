"""The program `llada` on a machine: a release's wheel brings it along, a package built from source does not."""

from __future__ import annotations

import os
import shutil
import sysconfig


def program() -> str:
    """$LLADA_PROGRAM, or `llada` in PATH, or what pip put beside this Python: PATH need not have an environment's folder."""
    given = os.environ.get("LLADA_PROGRAM")
    found = shutil.which(given) if given else shutil.which("llada") or shutil.which("llada", path=sysconfig.get_path("scripts"))
    if found is None:
        raise FileNotFoundError("llada: found no such program on this machine; needed it in PATH or in LLADA_PROGRAM")
    return found
