"""Ctrl-C: KeyboardInterrupt within a second, and the process ends by it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import llada
from conftest import QUICK, SORT

LONG = dict(steps=0, gen_length=200, early_stop="none")
WORK = {
    "generate": "model.generate(PROMPT, **LONG)",
    "stream": "for frame in model.stream(PROMPT, **LONG): pass",
    "many": "list(model.generate_many([PROMPT] * 8, **LONG))",
    "async": "import asyncio; asyncio.run(model.agenerate(PROMPT, **LONG))",
    "async many": "import asyncio\nasync def main():\n"
                  "  await asyncio.gather(*[model.agenerate(PROMPT, **LONG) for _ in range(40)])\nasyncio.run(main())",
}
PROGRAM = """
import sys, time, llada
PROMPT, LONG = {prompt!r}, {long!r}
model = llada.Model.load(sys.argv[1], threads=1, row_budget=512, streams=2)
print("begun", flush=True)
try:
{work}
finally:
    print(time.monotonic(), flush=True)  # of a clock that all processes share
print("never")
"""


@pytest.mark.parametrize("work", WORK)
def test_ctrl_c(model_path, work):
    program = PROGRAM.format(prompt=SORT, long=LONG, work=textwrap.indent(WORK[work], "    "))
    process = subprocess.Popen([sys.executable, "-c", program, model_path], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.5)
    assert process.poll() is None
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    took = time.monotonic() - begin
    raised, *rest = out.splitlines()
    assert process.returncode == -signal.SIGINT, err
    assert rest == [] and err.rstrip().endswith("KeyboardInterrupt")
    assert float(raised) - begin < 1
    assert took < 3, "the end waits for the forward that runs"


def test_ctrl_c_while_loading(model_path):
    program = "import os, signal, sys, llada\n" \
              "llada.Model.load(sys.argv[1], progress=lambda *_: os.kill(os.getpid(), signal.SIGINT))"
    run = subprocess.run([sys.executable, "-c", program, model_path], timeout=30, capture_output=True, text=True)
    assert run.returncode == -signal.SIGINT and "KeyboardInterrupt" in run.stderr


def test_the_model_goes_on(model):
    """An interrupted request is taken back, and the next one is not behind it."""
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    expected = model.generate(SORT, **QUICK).tokens
    try:
        for _ in range(5):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):
                model.generate(SORT, **LONG)
            begin = time.monotonic()
            assert model.generate(SORT, **QUICK).tokens == expected
            assert time.monotonic() - begin < 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


LEFT_BEHIND = """
import os, sys, time, llada
PROMPT, QUICK = {prompt!r}, {quick!r}

def round_trip():
    opened = llada.Model.load(sys.argv[1], threads=1, row_budget=512, streams=2)
    next(opened.stream(PROMPT, steps=0))
    next(opened.generate_many([PROMPT] * 4, streams=3, **QUICK))
    opened.generate(PROMPT, **QUICK)

def threads():
    return len(os.listdir("/proc/self/task"))

def threads_and_bytes():
    # A thread that has been joined may be listed for a moment longer: the kernel wakes the joiner first.
    end = time.monotonic() + 5
    while threads() > 1 and time.monotonic() < end:
        time.sleep(0.01)
    with open("/proc/self/statm") as numbers:
        return threads(), int(numbers.read().split()[1]) * os.sysconf("SC_PAGESIZE")

for rounds in (5, 20):
    for _ in range(rounds):
        round_trip()
    print(*threads_and_bytes())
"""


def test_nothing_is_left_behind(model_path):
    """Models, streams and requests that are given up in every way leave no memory and no thread."""
    program = LEFT_BEHIND.format(prompt=SORT, quick=QUICK)
    # One heap, and blocks of 64 KiB on go back to the system when they are freed: how much glibc's heaps of many
    # threads keep depends on the machine.
    given_back = {**os.environ, "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
    out = subprocess.run([sys.executable, "-c", program, model_path], env=given_back, timeout=120, check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    (threads, before), (threads_after, after) = [map(int, line.split()) for line in out.splitlines()]
    assert threads_after <= threads
    assert after - before < 4 << 20, "20 models are 220 MB"
