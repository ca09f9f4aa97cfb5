"""The small model that comes with the program, for a first try."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import sys
from typing import Union

NAME = "tiny-llada"
FILE = f"share/llada/{NAME}.gguf"


def model_path(path: Union[str, os.PathLike[str]]) -> Union[str, os.PathLike[str]]:
    """A path as it is; for NAME, where no file here is called so, that of the model that the package or the program
    brought. The name itself where there is none, so that the library says what it did not find."""
    if os.fspath(path) != NAME or os.path.exists(NAME):
        return path
    found = [pathlib.Path(prefix) / FILE for prefix in (sys.prefix, "/usr/local", "/usr")]
    try:
        files = importlib.metadata.files("llada") or []
        found = [pathlib.Path(str(file.locate())) for file in files if file.as_posix().endswith(FILE)] + found
    except importlib.metadata.PackageNotFoundError:  # used out of a checkout
        pass
    return next((str(one.resolve()) for one in found if one.exists()), NAME)
