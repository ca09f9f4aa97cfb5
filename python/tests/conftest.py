"""The shipped model, once as the program has it and once as the package has it. LLADA_LIBRARY and LLADA_CLI name the
library and the program under test; LLADA_CLI's default is the newest below build/."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
if "LLADA_TEST_INSTALLED" not in os.environ:  # else the package that is installed is under test
    sys.path.insert(0, str(ROOT / "python"))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])

import llada  # noqa: E402

SORT = "Sort the numbers from smallest to largest: 38 41 6 51 3"
FACTS = "Write as JSON: Eric is 31 years old, lives in Oslo and works as a baker."
QUICK = {"threshold": 0.8, "gen_length": 48}  # some forwards of some rows
GAPS = "Ken has 20+6=<mask:2> puzzles. Theo has 26-3=<mask:2> puzzles."


def eval_prompts(count: int) -> list[str]:
    with open(ROOT / "eval" / "eval_public.jsonl", encoding="utf-8") as lines:
        examples = [json.loads(line) for line in lines]
    return [example["prompt"] for example in examples[:: max(1, len(examples) // count)]][:count]


def program() -> str:
    found = [pathlib.Path(os.environ["LLADA_CLI"])] if "LLADA_CLI" in os.environ else ROOT.glob("build/*/bin/llada")
    return str(max(found, key=lambda path: path.stat().st_mtime))


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    subprocess.run([program(), "convert", str(ROOT / "models" / "tiny-llada"), str(path), "--type", "f16"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return str(path)


@pytest.fixture(scope="session")
def model(model_path: str):
    with llada.Model.load(model_path, threads=1, row_budget=512) as opened:
        yield opened


@pytest.fixture(scope="session")
def command(model_path: str):
    """What the program prints with --json."""

    def run(name: str, *arguments: str):
        line = [program(), name, "-m", model_path, "--threads", "1", "--json", *arguments]
        return json.loads(subprocess.run(line, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL).stdout)

    return run


@pytest.fixture(scope="session")
def presets(model) -> bool:
    """Whether the library knows presets."""
    try:
        model.generate(SORT, preset="balanced")
    except llada.UnsupportedError:
        return False
    return True
