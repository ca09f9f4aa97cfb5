"""The small model by its name: where an installation has it, and where it has none."""

from __future__ import annotations

import pathlib
import sys

import pytest

import llada
from llada import _shipped


def test_the_name_is_the_file_below_the_prefix(model_path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "share" / "llada" / "tiny-llada.gguf"
    file.parent.mkdir(parents=True)
    file.write_bytes(pathlib.Path(model_path).read_bytes())
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(_shipped.importlib.metadata, "files", lambda name: None)
    monkeypatch.chdir(tmp_path)
    with llada.Model.load("tiny-llada", threads=1) as model:
        assert model.info.path == str(file)


def test_a_file_of_that_name_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    (tmp_path / "tiny-llada").write_bytes(b"no model")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(llada.LladaError, match="tiny-llada"):
        llada.Model.load("tiny-llada")


def test_other_names_are_paths() -> None:
    assert _shipped.model_path("dir/tiny-llada") == "dir/tiny-llada"
