#!/usr/bin/env python3
"""The throughput of the Python package's generate_many beside the program's: the same prompts, streams and options, in
turns, so that both meet the machine in the same state. Prints seconds of each round and the medians; the program's are
the wall_seconds of `llada eval --streams` (decoding and counting alone, without loading).

    LLADA_LIBRARY=build/release/src/api/libllada.so PYTHONPATH=python tools/bench_python.py MODEL [--rounds 7]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import llada

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--program", default=str(ROOT / "build" / "release" / "bin" / "llada"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--threshold", type=float, default=0.9)
    parser.add_argument("--gen-length", type=int, default=128)
    given = parser.parse_args()

    lines = (ROOT / "eval" / "eval_public.jsonl").read_text(encoding="utf-8").splitlines()
    lines = lines[:: max(1, len(lines) // given.prompts)][: given.prompts]
    prompts = [json.loads(line)["prompt"] for line in lines]
    options = {"threshold": given.threshold, "gen_length": given.gen_length}
    flags = ["--threshold", str(given.threshold), "--gen-length", str(given.gen_length)]
    program, package = [], []
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as tasks, \
            llada.Model.load(given.model, threads=given.threads) as model:
        tasks.write("\n".join(lines) + "\n")
        tasks.flush()
        command = [given.program, "eval", "-m", given.model, "--tasks", tasks.name, "--streams", str(given.streams),
                   "--threads", str(given.threads), "--json", *flags]
        for number in range(given.rounds + 1):
            run = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            report = json.loads(run.stdout)["results"][0]
            begin = time.perf_counter()
            forwards = sum(result.stats.forwards for result in
                           model.generate_many(prompts, streams=given.streams, **options))
            seconds = time.perf_counter() - begin
            if number == 0:  # of the package the row budget is measured in the first, and memory is new
                assert abs(report["nfe_mean"] * len(prompts) - forwards) < 0.5, "not the same work"
                continue
            program.append(report["wall_seconds"])
            package.append(seconds)
            print(f"round {number}: llada eval {program[-1]:.3f} s, generate_many {package[-1]:.3f} s")
    ours, theirs = statistics.median(package), statistics.median(program)
    print(f"medians (measured, {model_line(given)}): llada eval {theirs:.3f} s, generate_many {ours:.3f} s, "
          f"{100 * (ours / theirs - 1):+.1f} %")


def model_line(given: argparse.Namespace) -> str:
    return f"{given.prompts} prompts, {given.streams} streams, {given.threads} threads"


if __name__ == "__main__":
    main()
