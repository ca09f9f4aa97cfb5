"""Every program of examples/python runs, and shows what the package gives."""

from __future__ import annotations

import os
import subprocess
import sys

from conftest import FACTS, GAPS, ROOT, SORT

EXAMPLES = ROOT / "examples" / "python"


def run(name: str, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    line = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_all_are_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "frames_to_html.py", "generate.py", "infill.py", "terminal.py",
    }


def test_generate(model, model_path):
    shown = run("generate.py", model_path, SORT, FACTS)
    assert [f"{p}\n{model.generate(p)}\n" in shown for p in (SORT, FACTS)] == [True, True]


def test_terminal(model, model_path):
    shown = run("terminal.py", model_path, SORT)
    frames = list(model.stream(SORT))
    assert shown.endswith(f"{frames[-1].masks_left} masks left\n{model.generate(SORT)}\n")
    assert shown.count("masks left") == len(frames)
    assert shown.count("\033[1m") == sum(len(frame.edits) for frame in frames)


def test_infill(model, model_path):
    shown = run("infill.py", model_path, GAPS).splitlines()
    assert shown[0] == str(model.infill(GAPS)) and len(shown) == 5


def test_frames_to_html(model, model_path, tmp_path):
    prompt = "<i>" + SORT
    run("frames_to_html.py", model_path, prompt, str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<i>" not in page and "&lt;i&gt;" in page
    assert all(frame._repr_html_() in page for frame in model.stream(prompt))
