#!/usr/bin/env python3
"""Compares two builds of the program: every preset's answers must be equal, with their forwards and rows.

    tools/same_answers.py OLD NEW [--limit N] [--presets exact,balanced,...] [--strategies OPTIONS ...]

OLD and NEW are two programs `llada`. Each decodes the tasks of eval/ with every preset, on the first N examples of each
task (all by default), and records each forward. Equal means: of every example the same tokens, committed in the same
forwards with the same confidences, over the same rows. Prints a line per model, tasks and preset; exit status 1 where
one differs.
"""
import argparse
import hashlib
import pathlib
import subprocess
import sys
import tempfile

from recordings import entries

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRESETS = "exact,balanced,fast,long,npu"
# Short tasks with the model that was trained for them, long ones with the other. A mixture has answers of its own.
RUNS = (("models/tiny-llada", "eval/eval_public.jsonl"), ("models/tiny-llada", "eval/tuning.jsonl"),
        ("models/tiny-llada-moe", "eval/tuning.jsonl"),
        ("models/tiny-llada-long", "eval/long_public.jsonl"), ("models/tiny-llada-long", "eval/long_tuning.jsonl"))
# Of a step; what else a version of the program may write into it is no answer.
STEP = ("rows", "keys", "block", "wanted", "predicted", "confidence", "trials", "sparse_rows", "sparse_trials", "edits",
        "committed", "final")


def record(program, model, tasks, strategy, limit, folder):
    """-> ({example: digest of its steps}, forwards, rows)"""
    path = folder / "recording.jsonl"
    command = [program, "eval", "-m", ROOT / model, "--tasks", ROOT / tasks, "--no-reference", "--record", path,
               "--compare", f"run: {strategy}"] + (["--limit", str(limit)] if limit else [])
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"same_answers: {program}: {done.stderr.strip()}")
    digests, forwards, rows = {}, 0, 0
    for row in entries(path):
        if "run" in row:
            key, digest = (row["run"]["task"], row["run"]["example"]), hashlib.sha256()
        elif "step" in row:
            digest.update(repr([row["step"].get(field) for field in STEP]).encode())
        elif "end" in row:
            digests[key] = digest.digest()
            forwards += row["end"]["steps"]
            rows += row["end"]["rows"]
    return digests, forwards, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--limit", type=int, default=0, help="examples of each task (0: all)")
    parser.add_argument("--presets", default=PRESETS)
    parser.add_argument("--strategies", nargs="*", default=[], help="options of further runs")
    args = parser.parse_args()
    strategies = [f"--preset-decode {name}" for name in args.presets.split(",") if name] + args.strategies
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        for model, tasks in RUNS:
            for strategy in strategies:
                old, new = (record(program, model, tasks, strategy, args.limit, pathlib.Path(folder))
                            for program in (args.old, args.new))
                wrong = sum(old[0].get(key) != new[0].get(key) for key in old[0].keys() | new[0].keys())
                different += wrong
                print(f"{'DIFFERENT' if wrong else 'equal':9} {model} {tasks} {strategy}: {len(old[0])} answers, "
                      f"{wrong} differ; forwards {old[1]} and {new[1]}, rows {old[2]} and {new[2]}", flush=True)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
