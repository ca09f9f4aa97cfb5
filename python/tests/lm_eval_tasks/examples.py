"""The examples in eval/, and when an answer is right: the rules that `llada eval` has (docs/evaluation.md)."""

import json
import os
import pathlib

import datasets

EVAL = pathlib.Path(__file__).resolve().parents[3] / "eval"
LIMIT = int(os.environ.get("LLADA_EVAL_LIMIT", "8"))  # of each task, as llada eval --limit


def load(**_):
    taken, kept = {}, []
    for line in (EVAL / "eval_public.jsonl").read_text(encoding="utf-8").splitlines():
        example = json.loads(line)
        taken[example["task"]] = taken.get(example["task"], 0) + 1
        if taken[example["task"]] <= LIMIT:
            kept.append(example)
    return {"test": datasets.Dataset.from_list(kept)}


def choices(**_):
    examples = [example for example in load()["test"] if example["task"] == "choice"]
    return {
        "test": datasets.Dataset.from_list([
            {
                "question": example["prompt"] + "\nAnswer:",
                "choices": [f" {letter}" for letter in "ABCD"],
                "answer": "ABCD".index(example["answer"]),
            }
            for example in examples
        ])
    }


def after(text, mark):
    return text.split(mark, 2)[1].strip() if mark in text else ""


def as_json(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def is_right(doc, results):
    task, answer, text = doc["task"], doc["answer"], results[0].strip()
    if task == "gsm-mini":
        right = after(text, "####") == answer
    elif task == "choice":
        right = after(text, "Answer:") == answer
    elif task == "bool":
        right = text.split("\n")[-1].strip() == answer
    elif task == "json":
        right = as_json(text) is not None and as_json(text) == json.loads(answer)
    else:
        right = text == answer
    return {task: float(right)}
