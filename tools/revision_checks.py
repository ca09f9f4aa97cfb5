#!/usr/bin/env python3
"""Counts what revision's checks did, from a recording of `llada eval --record`: for each task and strategy, checks that
confirm or contradict a token, by whether the token is the right one at that position. Right is what a strategy named
'exact' (the reference) wrote there, or with --right the response of the task file, in the tokens of a model's folder.

usage: revision_checks.py RECORDING...
       revision_checks.py --right TASKS.jsonl MODEL RECORDING...
       revision_checks.py --self-test
"""
import collections
import json
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parent / "train"))
from recordings import entries, examples, refusal, refuse
from tokenizer import Tokenizer


def read(paths):
    """-> {(task, example): {strategy: [steps]}}"""
    runs = collections.defaultdict(dict)
    for path in paths:
        for record in entries(path):
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


def right_tokens(tasks, model, recordings):
    """-> {(task, example): {position: token}}. Examples of a recording are those of the file in its order, by task."""
    try:
        tokenizer = Tokenizer(pathlib.Path(model))
    except OSError as error:
        refuse(f"{error.filename}: {error.strerror}")
    responses, begins = examples(tasks, "response"), {}
    for path in recordings:
        for record in entries(path):
            if run := record.get("run"):
                begins[run["task"], run["example"]] = run["prompt_tokens"]
    found, seen = {}, collections.Counter()
    for (task, example), begin in sorted(begins.items()):
        if seen[task] >= len(responses.get(task, ())):
            refuse(f"{tasks}: found {seen[task]} examples of task {task}, needed those of the recording")
        tokens = [*tokenizer.encode(*responses[task][seen[task]]), tokenizer.eot]
        seen[task] += 1
        found[task, example] = {begin + i: token for i, token in enumerate(tokens)}
    return found


def counted(recordings, right=None):
    """-> {(task, strategy): Counter}"""
    counts = collections.defaultdict(collections.Counter)
    for run, strategies in read(recordings).items():
        if not right and "exact" not in strategies:
            refuse(f"example {run[1]} of task {run[0]}: found {', '.join(strategies)}, needed a strategy named exact "
                   "beside it, or --right")
        truth = right[run] if right else final_tokens(strategies.pop("exact"))
        for name, steps in strategies.items():
            count(steps, truth, counts[run[0], name])
    return counts


def self_test():
    model = pathlib.Path(__file__).parents[1] / "models/tiny-llada"
    a, b, eot = *Tokenizer(model).encode("78"), Tokenizer(model).eot
    step = lambda edits, trials=(): {"step": {"edits": edits, "trials": trials, "sparse_trials": []}}
    lines = [{"format": "llada-recording"},
             {"run": {"strategy": "s", "task": "t", "example": 4, "prompt_tokens": 10}}, step([[10, b, "visible", 1], [11, b, "stable", 1]]),
             step([[10, a, "stable", 1]], [[10, 1, a, 0.9], [11, 1, b, 0.9]]), step([[12, b, "visible", 1]]), step([[12, eot, "stable", 1]]),
             step([[11, a, "stable", 1]]), {"end": {}}]
    with tempfile.TemporaryDirectory() as folder:
        recording, tasks = pathlib.Path(folder, "r"), pathlib.Path(folder, "t")
        recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
        tasks.write_text(json.dumps({"task": "t", "response": "78"}) + "\n")
        counts = counted([recording], right_tokens(tasks, model, [recording]))
        assert refusal(lambda: counted([recording])) == (
            "example 4 of task t: found s, needed a strategy named exact beside it, or --right")
        tasks.write_text("")
        assert refusal(lambda: right_tokens(tasks, model, [recording])) == (
            f"{tasks}: found 0 examples of task t, needed those of the recording")
        tasks.write_text(json.dumps({"task": "t"}))
        assert refusal(lambda: right_tokens(tasks, model, [recording])) == (
            f"{tasks}:1: field 'response' is missing or no text")
        assert refusal(lambda: counted([recording.with_name("none")])).endswith("none: No such file or directory")
    assert counts["t", "s"] == {"checks": 2, "wrong, known better": 1, "right, confirmed": 1, "written: wrong to right": 2,
                                "written: right to wrong": 1}, counts
    print("self-test passed")


def main():
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        return self_test()
    if set(arguments) & {"-h", "--help"}:
        return print(__doc__.strip())
    if not arguments or arguments[0] == "--right" and len(arguments) < 4:
        raise SystemExit(__doc__)
    if arguments[0] == "--right":
        counts = counted(arguments[3:], right_tokens(arguments[1], arguments[2], arguments[3:]))
    else:
        counts = counted(arguments)
    for (task, name), counter in sorted(counts.items()):
        print(f"{task} / {name}: " + "; ".join(f"{key} {value}" for key, value in sorted(counter.items())))


if __name__ == "__main__":
    main()
