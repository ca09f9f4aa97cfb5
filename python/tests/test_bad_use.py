"""What is refused, and that it is refused in one line."""

from __future__ import annotations

import asyncio
import os
import pathlib
import pickle
import subprocess
import sys

import pytest

import llada
from conftest import GAPS, QUICK, ROOT, SORT
from llada import _capi


def test_options(model):
    for wrong, message in [
        ({"treshold": 0.5}, "treshold: is no option of a request; did you mean threshold"),
        ({"credit": True}, "'credit' was removed: revision=dual-path checks doubtful tokens again"),
        ({"streams": 4}, "streams: is no option of a request; it is one of engine"),
        ({"keep_steps": True}, "keep_steps: is no option"),
        ({"qqqqqq": 1}, r"llada.options\(\) lists all"),
        ({"gen_length": True}, "gen_length: found True, needed a whole number"),
        ({"gen_length": b"3"}, "gen_length: found b'3'"),
        ({"threshold": [0.5]}, "threshold: found"),
        ({"stop": [1.5, object()]}, "stop: found <object"),
    ]:
        with pytest.raises(TypeError, match=message):
            model.generate(SORT, **wrong)
    switch = next(option.key for option in llada.options("request") if option.is_switch)
    with pytest.raises(TypeError, match="needed True or False"):
        model.generate(SORT, **{switch: 1})
    for wrong in [{"gen_length": 0}, {"threshold": float("nan")}, {"stop": ""}, {"stop": "a\0"},
                  {"steps": 3, "threshold": 0.5, "accept": "entropy"}, {"gen_length": 2.5}, {"gen_length": 10**30}]:
        with pytest.raises(llada.InvalidError) as caught:
            model.generate(SORT, **wrong)
        assert isinstance(caught.value, ValueError) and "\n" not in str(caught.value)
    with pytest.raises(llada.LladaError, match="preset"):
        model.generate(SORT, preset="no such")
    assert model.generate(SORT, seed=None, **QUICK).tokens == model.generate(SORT, **QUICK).tokens


def test_list_of_options():
    keys = {option.key: option for option in llada.options()}
    assert len(keys) == len(llada.options()) > 30
    assert keys["streams"].used_for == ("engine",)
    assert set(keys["threads"].used_for) == {"model", "engine"}
    assert keys["gen_length"].help and keys["gen_length"].values and keys["gen_length"].initial
    assert {option.key for option in llada.options("model")} >= {"device", "threads"}
    with pytest.raises(ValueError, match="needed one of"):
        llada.options("sampler")


def test_prompts(model):
    for wrong, error in [
        (None, TypeError), (5, TypeError), (b"x", TypeError), ([1.5], TypeError), (["a"], TypeError),
        ([2**40], ValueError), ([-1], llada.InvalidError), ([{"role": "user"}], ValueError),
        ([{"role": "user", "content": 3}], TypeError), ([("user", "a\0b")], ValueError),
        ([("nobody", "x")], llada.InvalidError), ("\ud800", UnicodeEncodeError), ([True], TypeError),
    ]:
        with pytest.raises(error):
            model.generate(wrong)
    with pytest.raises(TypeError):
        model.chat(SORT)
    with pytest.raises(ValueError):
        model.chat([])
    with pytest.raises(ValueError, match="one of the two"):
        model.generate(SORT, raw=True, system="x")
    with pytest.raises(ValueError, match="beside token ids"):
        model.generate([1, 2], raw=True)


def test_infilling_and_numbers(model):
    with pytest.raises(TypeError, match="gaps"):
        model.infill(GAPS, [1])
    with pytest.raises(TypeError, match="gaps"):
        model.infill([1, 2])
    for wrong in [
        lambda: model.infill("no gap"), lambda: model.infill([1, 2], [2]), lambda: model.infill([1, 2], [1, 1]),
        lambda: model.logits([]), lambda: model.logits([1, 2], [2]), lambda: model.logits([1, 2], [1, 0]),
        lambda: model.logits([10**6]),
    ]:
        with pytest.raises(llada.InvalidError):
            wrong()


def test_loading(tmp_path):
    with pytest.raises(TypeError, match="Model.load"):
        llada.Model()
    with pytest.raises(llada.LladaError, match="nowhere"):
        llada.Model.load(tmp_path / "nowhere.gguf")
    (tmp_path / "noise.gguf").write_bytes(os.urandom(1000))
    with pytest.raises(llada.InvalidError, match="noise.gguf"):
        llada.Model.load(tmp_path / "noise.gguf")
    for wrong, error in [({"threads": "many"}, llada.InvalidError), ({"threads": 1.5}, llada.InvalidError),
                         ({"device": "abacus"}, llada.InvalidError), ({"streams": 0}, llada.InvalidError),
                         ({"gen_length": 5}, TypeError), ({"thread": 5}, TypeError)]:
        with pytest.raises(error):
            llada.Model.load(ROOT / "models" / "tiny-llada", **wrong)


def test_progress_that_fails(model_path):
    def progress(done, total):
        raise ArithmeticError("mine")

    with pytest.raises(ArithmeticError, match="mine"):
        llada.Model.load(model_path, progress=progress)


def test_closed(model_path):
    opened = llada.Model.load(model_path, threads=1)
    whole = opened.stream(SORT, **QUICK)
    result = whole.result
    slow = {"steps": 0, "gen_length": 200, "early_stop": "none"}
    stream, cancelled = opened.stream(SORT, **slow), opened.stream(SORT, **slow)
    cancelled.cancel()
    next(stream)
    opened.close()
    opened.close()
    assert repr(opened) == "<llada.Model, closed>"
    for call in [lambda: opened.generate(SORT, **QUICK), lambda: opened.tokenize("x"), lambda: opened.logits([1]),
                 lambda: next(opened.generate_many([SORT])), lambda: opened.info, lambda: opened.score("a", "b")]:
        with pytest.raises(llada.ClosedError, match="closed"):
            call()
    with pytest.raises(llada.ClosedError, match="closed while the request was under way"):
        for _ in stream:
            pass
    with pytest.raises(llada.ClosedError, match="closed while the request was under way"):
        print(stream.result)
    assert cancelled.result.finish_reason == "interrupted"
    assert whole.result is result and result.finish_reason == "stop"
    other = None
    with llada.Model.load(model_path, threads=1) as opened:
        other = opened.stream(SORT, **QUICK)
    other.close()
    other.close()
    with pytest.raises(llada.ClosedError):
        next(other)


def test_what_cannot_be_pickled_says_so(model):
    async def astream():
        return model.astream(SORT, **QUICK)

    for opened in [model, model.stream(SORT, **QUICK), asyncio.run(astream())]:
        with pytest.raises(TypeError, match=f"^{type(opened).__name__}: cannot be pickled, .*; needed a model"):
            pickle.dumps(opened)


def test_bytes_are_no_prompt(model):
    for call in [model.generate, model.stream, lambda prompt: model.score(prompt, "x")]:
        with pytest.raises(TypeError, match="^prompt: found bytes, needed a text, messages or token ids$"):
            call(b"x")
    with pytest.raises(TypeError, match="^text: found bytes, needed a text or token ids$"):
        model.infill(b"x")


def test_errors(model):
    with pytest.raises(llada.LladaError) as caught:
        model.generate(SORT, gen_length=0)
    assert caught.value.name == "LLADA_ERROR_INVALID" and caught.value.status == -1
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy), copy.status) == (llada.InvalidError, str(caught.value), -1)


FORKED = """
import os, sys, llada
model = llada.Model.load(sys.argv[1], threads=1, row_budget=512, streams=2)
answer = model.generate("Sort the numbers from smallest to largest: 3 1", threshold=0.9).tokens
stream = model.stream("Sort the numbers from smallest to largest: 3 1", threshold=0.9)
child = os.fork()
if child == 0:
    try:
        model.generate("x")
        os._exit(3)
    except llada.ClosedError as error:
        assert "forked" in str(error)
    model.close()
    stream.close()
    del stream, model
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert list(stream) and stream.result.tokens == answer
print("done")
"""


def test_a_fork_leaves_the_model_to_its_parent(model_path):
    run = subprocess.run([sys.executable, "-c", FORKED, model_path], timeout=60, capture_output=True, text=True)
    assert (run.stdout, run.stderr, run.returncode) == ("done\n", "", 0)


def test_no_library(tmp_path):
    environment = {**os.environ, "LLADA_LIBRARY": str(tmp_path / "libnone.so")}
    run = subprocess.run([sys.executable, "-c", "import llada"], env=environment, capture_output=True, text=True,
                         cwd=ROOT / "python")
    assert "ImportError: llada: found no library" in run.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="looks at ELF files")
def test_a_cut_library(tmp_path):
    cut = tmp_path / "libllada.so"
    cut.write_bytes(pathlib.Path(_capi._candidates()[0]).read_bytes()[: 1 << 20])
    environment = {**os.environ, "LLADA_LIBRARY": str(cut)}
    run = subprocess.run([sys.executable, "-c", "import llada"], env=environment, capture_output=True, text=True,
                         cwd=ROOT / "python")
    assert run.returncode == 1
    assert "ImportError: llada: found no library" in run.stderr and "the file is cut" in run.stderr


def test_no_ray():
    program = "import sys; sys.modules['ray'] = None; import llada.ray"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT / "python")
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: llada.ray: found no Ray, needed the extra of the package: pip install 'llada[ray]'")
