#!/usr/bin/env python3
"""How often `<mask:auto>` finds the length of a gap: the results of sums in the responses of eval/eval_public.jsonl.

usage: tools/gap_lengths.py LLADA MODEL [COUNT]

A gap stands for the result in the line of its sum, the first COUNT (100) lines that differ. `llada batch` fills each as
`<mask:auto>` and as `<mask:N>` of the right length.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

EVAL = pathlib.Path(__file__).resolve().parent.parent / "eval" / "eval_public.jsonl"


def sums(count: int) -> list[tuple[str, str, str]]:
    """(text before, result, text behind)"""
    found = {}
    for record in map(json.loads, EVAL.read_text().splitlines()):
        for line in record["response"].splitlines():
            if match := re.search(r"\d[-+*]\d+=(\d+)", line):
                found[line] = (line[: match.start(1)], match[1], line[match.end(1) :])
    return list(found.values())[:count]


def fill(llada: str, model: str, texts: list[str]) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = pathlib.Path(folder, "in.jsonl"), pathlib.Path(folder, "out.jsonl")
        bodies = [{"custom_id": str(i), "method": "POST", "url": "/infill", "body": {"text": t}}
                  for i, t in enumerate(texts)]
        asked.write_text("".join(json.dumps(body) + "\n" for body in bodies))
        subprocess.run([llada, "batch", "-q", model, asked, answered], check=True)
        answers = {a["custom_id"]: a["response"]["body"] for a in map(json.loads, answered.read_text().splitlines())}
    return [answers[str(i)] for i in range(len(texts))]


def main() -> None:
    texts = sums(int(sys.argv[3]) if len(sys.argv) > 3 else 100)
    chosen = fill(*sys.argv[1:3], [f"{before}<mask:auto>{behind}" for before, _, behind in texts])
    given = fill(*sys.argv[1:3], [f"{before}<mask:{len(result)}>{behind}" for before, result, behind in texts])
    right = [before + result + behind for before, result, behind in texts]
    lengths = sum(a["spans"][0]["length"] == b["spans"][0]["length"] for a, b in zip(chosen, given))
    print(f"{len(texts)} sums: {lengths} lengths right; {sum(a['content'] == r for a, r in zip(chosen, right))} texts "
          f"right, {sum(a['content'] == r for a, r in zip(given, right))} with the length given; "
          f"{sum(a['usage']['forwards'] for a in chosen)} forwards, {sum(a['usage']['forwards'] for a in given)} given")


if __name__ == "__main__":
    main()
