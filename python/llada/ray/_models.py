"""Models of a machine's processes: fetched once, packed once, found by all."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, Union

import fsspec

from .._model import Model

Place = Union[str, "os.PathLike[str]"]


def cache_folder() -> pathlib.Path:
    """Where this machine keeps what its processes share, as the program has it: $XDG_CACHE_HOME/llada."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return pathlib.Path(given if given.startswith("/") else pathlib.Path.home() / ".cache") / "llada"


@contextlib.contextmanager
def machine_lock(path: pathlib.Path) -> Iterator[None]:
    """One process of this machine at a time. The system lets go of it when its holder ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_address(model: Place) -> bool:
    return "://" in str(model) or "::" in str(model)


def _state(info: Mapping[str, Any]) -> list[str]:
    """What a store says of a file that changes with its bytes, under the names that stores have for it."""
    keys = ("size", "ETag", "etag", "mtime", "LastModified", "last_modified", "updated")
    return [str(info.get(key)) for key in keys]


def local_path(model: Place) -> str:
    """The path of a model on this machine: itself, or where the file or folder of an address was put. It is fetched
    when no process of this machine has, and again when the store says that it has changed."""
    if not is_address(model):
        return os.fspath(model)
    files, path = fsspec.core.url_to_fs(str(model))
    info = files.info(path)
    state = _state(info)
    if info["type"] == "directory":
        for name, found in sorted(files.find(path, detail=True).items()):
            state += [name, *_state(found)]
    key = hashlib.sha256("\n".join([str(model), *state]).encode()).hexdigest()[:24]
    place = cache_folder() / "models" / key / pathlib.PurePosixPath(path.rstrip("/")).name
    if place.exists():
        return str(place)
    with machine_lock(place.parent.parent / f"{key}.lock"):
        if not place.exists():
            _fetch(files, path, place, info["type"] == "directory")
    return str(place)


def _fetch(files: Any, path: str, place: pathlib.Path, is_folder: bool) -> None:
    """A process that is killed meanwhile leaves nothing under the model's name."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="part-", dir=place.parent) as folder:
        part = os.path.join(folder, "part")
        files.get(path, part, recursive=is_folder)
        shutil.move(part, place)


def open_model(model: Place, **load: Any) -> Model:
    """`Model.load` of a path or an address. The first process of a machine packs the weights into a file, unless `llada
    pack` has, and all map it: they are in memory once. pack_cache: the folder; "off": each process has a copy."""
    load.setdefault("pack_cache", str(cache_folder() / "packed"))
    path = local_path(model)
    if load["pack_cache"] == "off":
        return Model.load(path, **load)
    with machine_lock(pathlib.Path(load["pack_cache"]) / "load.lock"):
        return Model.load(path, **load)
