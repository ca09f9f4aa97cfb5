#!/usr/bin/env python3
"""What a temporal vote would change: the answer that most forwards predicted, in place of the one that was decided
(temporal self-consistency, arXiv 2508.09138). From recordings of `llada eval --record`, whose steps hold every
prediction.

    tools/temporal_vote.py TASKS.jsonl RECORDING...
    tools/temporal_vote.py --self-test

A forward votes for the answer that the text would hold if all that it predicted were kept; where the answer is not
predicted to its end, it does not vote. The later of two answers with as many votes wins. Prints for each strategy and
task: answers, those right as decided and by vote, votes, and what the vote changed. Tasks: gsm-mini, json and sort;
it does not read the others' answers. LAST bounds the vote to so many last forwards (default: all). MODEL names a model
folder for its tokenizer.
"""
import collections
import json
import os
import pathlib
import re
import sys
import tempfile

from readme_svg import MODEL, token_texts
from recordings import examples, refusal, refuse
from revision_checks import read

# What the scorer reads as the answer, up to the text or token behind it.
SPANS = {"gsm-mini": re.compile(r"#### (-?\d+)(?=\D)"), "json": re.compile(r"(\{[^{}]*\})"), "sort": re.compile(r"^([\d ]+)(?=[^\d ])")}
END = "\0"  # a token without a text of its own: one that ends an answer, among others


def predicted_texts(steps, texts):
    """The text that every forward predicts, up to the first position that it says nothing of; then the decided one."""
    begin = steps[0]["wanted"][0][0]
    tokens, out = {}, []

    def text():
        position, parts = begin, []
        while position in tokens:
            parts.append(texts.get(tokens[position], "") or END)
            position += 1
        return "".join(parts)

    for step in steps:
        before = dict(tokens)
        wanted = [p for first, last in step["wanted"] for p in range(first, last)]
        tokens.update(zip(wanted, step["predicted"]))
        out.append(text())
        tokens = before
        for position, token, state, _ in step["edits"]:
            tokens.pop(position, None)
            if state != "masked":
                tokens[position] = token
    return out, text()


def vote(answers):
    """-> (winner, votes cast); None votes for nothing"""
    cast = [a for a in answers if a is not None]
    counts = collections.Counter(cast)
    last = {a: i for i, a in enumerate(cast)}
    return (max(counts, key=lambda a: (counts[a], last[a])), len(cast)) if cast else (None, 0)


def span(task, text):
    found = SPANS[task].search(text)
    return found and found.group(1).strip()


def judge(task, steps, texts, right, last):
    answers, decided = predicted_texts(steps, texts)
    decided = span(task, decided + END)
    winner, votes = vote([span(task, t) for t in answers][-last:])
    winner = decided if winner is None else winner
    return {"answers": 1, "right": decided == right, "right by vote": winner == right, "votes": votes, "changed": winner != decided,
            "mended": winner == right != decided, "spoilt": decided == right != winner}


def counted(tasks, recordings):
    """-> {(strategy, task): Counter}"""
    runs, right = read(recordings), examples(tasks, "answer")
    first = {}  # the examples of a task in the recordings, in the order of the file
    for task, index in sorted(runs, key=lambda key: key[1]):
        first.setdefault(task, []).append(index)
    for task, indices in first.items():
        if task not in SPANS:
            refuse(f"found task {task} in the recordings, needed one of {', '.join(SPANS)}")
        if len(indices) > len(right.get(task, ())):
            refuse(f"{tasks}: found {len(right.get(task, ()))} examples of task {task}, needed the {len(indices)} "
                   "recorded ones")
    texts, counts = token_texts(MODEL), collections.defaultdict(collections.Counter)
    for (task, index), strategies in runs.items():
        for name, steps in strategies.items():
            answer, = right[task][first[task].index(index)]
            counts[name, task].update(judge(task, steps, texts, answer, int(os.environ.get("LAST", 1 << 30))))
    return counts


def self_test():
    texts = {1: "#", 2: "### ", 3: "7", 4: "8", 9: ""}
    steps = [{"wanted": [[5, 9]], "predicted": [1, 2, 3, 9], "edits": [[5, 1, "stable", 1]]},
             {"wanted": [[6, 9]], "predicted": [2, 3, 9], "edits": [[6, 2, "stable", 1]]},
             {"wanted": [[7, 9]], "predicted": [4, 9], "edits": [[7, 4, "stable", 1], [8, 9, "stable", 1]]}]
    assert predicted_texts(steps, texts) == (["#### 7\0", "#### 7\0", "#### 8\0"], "#### 8\0")
    unasked = [steps[0], {**steps[1], "wanted": [[6, 8]], "predicted": [2, 3]}, steps[2]]
    assert predicted_texts(unasked, texts)[0][1] == "#### 7", "nothing is predicted behind it"
    assert judge("gsm-mini", steps, texts, "7", 9) == {
        "answers": 1, "right": False, "right by vote": True, "votes": 3, "changed": True, "mended": True, "spoilt": False}
    assert judge("gsm-mini", steps, texts, "7", 1)["right by vote"] is False, "the last forward alone"
    assert vote(["a", "b", None]) == ("b", 2) and vote([None]) == (None, 0)
    with tempfile.TemporaryDirectory() as folder:
        tasks, recording = pathlib.Path(folder, "t"), pathlib.Path(folder, "r")

        def refused(task, content):
            tasks.write_text(content)
            lines = [{"format": "llada-recording"}, {"run": {"strategy": "s", "task": task, "example": 0}},
                     *({"step": step} for step in steps), {"end": {}}]
            recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
            return refusal(lambda: counted(tasks, [recording]))
        assert refused("story", "") == "found task story in the recordings, needed one of gsm-mini, json, sort"
        assert refused("sort", "") == f"{tasks}: found 0 examples of task sort, needed the 1 recorded ones"
        assert refused("sort", '{"task": "sort"}') == f"{tasks}:1: field 'answer' is missing or no text"
    print("self-test passed")


def main():
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        return self_test()
    if set(arguments) & {"-h", "--help"}:
        return print(__doc__.strip())
    if len(arguments) < 2:
        raise SystemExit(__doc__)
    counts = counted(arguments[0], arguments[1:])
    for (name, task), counter in counts.items():
        print(f"{name} / {task}: " + "; ".join(f"{key} {value}" for key, value in counter.items()))


if __name__ == "__main__":
    main()
