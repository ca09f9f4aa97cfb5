#!/usr/bin/env python3
"""What packed weights on disk change: when the first forward begins, the memory of several processes, speed.

usage: tools/pack_numbers.py LLADA MODEL.gguf [--processes 4] [--repeats 5]

MODEL should be one of 8 billion parameters (llada-study synth --preset llada-8b --type q4_0). A folder beside the model holds
the packed weights and is removed at the end. The file cache is warm: every file is read once before. Prints the table
of docs/lab/benchmarks.md.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

PROMPT = ["-p", "Why is the sky blue?", "--gen-length", "8", "--steps", "1", "--block-length", "8", "--quiet"]


def run(llada, words, **more):
    return subprocess.run([llada, *words], check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          **more).stdout


def first_forward_seconds(llada, model, cache, folder):
    """Seconds from the start of the process to the first op, as its trace has it, and until the process has ended."""
    trace = os.path.join(folder, "trace.json")
    begin = time.monotonic()
    run(llada, ["--version"])
    before_trace = time.monotonic() - begin  # what a process does before it opens anything
    begin = time.monotonic()
    run(llada, ["run", "-m", model, "--pack-cache", cache, "--trace", trace, *PROMPT])
    whole = time.monotonic() - begin
    with open(trace, encoding="utf-8") as file:
        events = json.load(file)
    events = events.get("traceEvents", events) if isinstance(events, dict) else events
    ops = [e["ts"] for e in events if str(e.get("name", "")).startswith("embed")]
    return before_trace + min(ops) / 1e6, whole


def pss_bytes(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))


def together(llada, model, cache, count):
    """Sum of the PSS of so many processes in the middle of their first answer."""
    words = ["run", "-m", model, "--pack-cache", cache, "--threads", "1", "-p", "Why?", "--gen-length", "48", "--quiet"]
    started = [subprocess.Popen([llada, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
               for _ in range(count)]
    try:
        last, same = -1, 0
        while same < 5:  # until every weight has been read once
            time.sleep(4)
            now = sum(pss_bytes(p.pid) for p in started)
            same = same + 1 if abs(now - last) < 0.001 * now else 0
            last = now
        return last
    finally:
        for p in started:
            p.kill()
            p.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("llada")
    parser.add_argument("model")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="start,memory")
    o = parser.parse_args()
    weights = os.path.getsize(o.model)
    folder = tempfile.mkdtemp(prefix="packed-", dir=os.path.dirname(os.path.abspath(o.model)))
    try:
        begin = time.monotonic()
        run(o.llada, ["pack", o.model, "--pack-cache", folder])
        print(f"llada pack: {time.monotonic() - begin:.1f} s", file=sys.stderr)
        os.sync()  # 4.3 GB that are still being written disturb what follows
        for root, _, names in os.walk(folder):
            for name in names:
                with open(os.path.join(root, name), "rb") as file:
                    while file.read(1 << 24):
                        pass
        print("| | first forward begins after | whole process | " f"{o.processes} processes, copies of the weights |")
        print("|---|---|---|---|")
        for title, cache in (("packed in memory", "off"), ("packed on disk", folder)):
            starts = [first_forward_seconds(o.llada, o.model, cache, folder) for _ in range(o.repeats)]
            begins, wholes = (statistics.median(s[i] for s in starts) for i in (0, 1))
            copies = "-"
            if "memory" in o.only:
                copies = f"{together(o.llada, o.model, cache, o.processes) / weights:.2f}"
            print(f"| {title} | {begins:.2f} s | {wholes:.2f} s | {copies} |", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
