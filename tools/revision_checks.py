#!/usr/bin/env python3
"""Counts what revision's checks did, from a recording of `llada eval --record` that holds a strategy named 'exact' (the
reference) beside others: for each task and strategy, checks that confirm or contradict a token, by whether the token is
the reference run's at that position.

usage: revision_checks.py RECORDING...
"""
import collections
import json
import sys


def read(paths):
    """-> {(task, example): {strategy: [steps]}}"""
    runs = collections.defaultdict(dict)
    for path in paths:
        for line in open(path):
            record = json.loads(line)
            if "run" in record:
                run, steps = record["run"], []
            elif "step" in record:
                steps.append(record["step"])
            elif "end" in record:
                runs[run["task"], run["example"]][run["strategy"]] = steps
    return runs


def final_tokens(steps):
    return {position: token for step in steps for position, token, state, _ in step["edits"] if state != "masked"}


def count(steps, truth, counts):
    tokens = {}
    for step in steps:
        for position, _, seen, _ in step["trials"] + step["sparse_trials"]:
            if position not in tokens or position not in truth:
                continue
            right, same = tokens[position] == truth[position], tokens[position] == seen
            verdict = "confirmed" if same else "contradicted" if right or seen != truth[position] else "known better"
            counts["checks"] += 1
            counts[f"{'right' if right else 'wrong'}, {verdict}"] += 1
        for position, token, state, _ in step["edits"]:
            before = tokens.get(position)
            if state == "masked":
                counts["masked again"] += 1
                counts["masked again though right"] += before == truth.get(position)
                continue
            if before is not None and before != token and position in truth:
                kind = {True: "right", False: "wrong"}
                counts[f"written: {kind[before == truth[position]]} to {kind[token == truth[position]]}"] += 1
            tokens[position] = token


def main():
    counts = collections.defaultdict(collections.Counter)
    for (task, _), strategies in read(sys.argv[1:]).items():
        truth = final_tokens(strategies.pop("exact"))
        for name, steps in strategies.items():
            count(steps, truth, counts[task, name])
    for (task, name), counter in sorted(counts.items()):
        print(f"{task} / {name}: " + "; ".join(f"{key} {value}" for key, value in sorted(counter.items())))


if __name__ == "__main__":
    main()
