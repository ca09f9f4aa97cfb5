#!/usr/bin/env python3
"""What a form is worth (docs/lab/forms.md): accuracy, validity and forwards of three ways to answer.

  none      without a form
  frontier  the usual way: the form's mask lies on the first undecided position; others commit freely, and what a valid
            beginning does not go on with is masked again, its position taking the best token that fits (as Dgrammar's
            loop). Every forward computes the whole canvas.
  form      the dynamic program of this engine

All commit what is above the threshold, in blocks of 32, at temperature 0, with the whole canvas computed.

usage: forms_quality.py MODEL [--limit 200] [--lengths 96,24] [--thresholds 0.9,0.1] [--tasks json,bool,choice,sort]
  LLADA_LIBRARY names the library; needs the Python package regex, which matches beginnings of texts
"""

import argparse
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import llada  # noqa: E402
import regex  # noqa: E402

STRING = r'"[^"\\\x00-\x1f]*"'
INT = r"(?:0|-?[1-9]\d*)"


def members(**types):
    return r"\{" + ", ".join(f'"{name}": {kind}' for name, kind in types.items()) + r"\}"


SHOP = members(customer=STRING, items=rf"\[(?:\{{[^{{}}\[\]]*\}}(?:, \{{[^{{}}\[\]]*\}})*)?\]", total=INT)
FORMS = {
    "sort": r"\d+( \d+)*",
    "bool": r"[^\n]*\n(?:yes|no)",
    "choice": r"[^\n]*\nAnswer: [ABCD]",
    "json": "(?:" + "|".join([members(name=STRING, age=INT, city=STRING, job=STRING),
                              members(item=STRING, color=STRING, price=INT, seller=STRING, city=STRING,
                                      stock="(?:true|false)"), SHOP]) + ")",
}


def is_right(example, text):
    """As eval/tasks.cc has it."""
    text, answer, task = text.strip(), example["answer"], example["task"]
    if task == "choice":
        return text.partition("Answer:")[2].partition("Answer:")[0].strip() == answer
    if task == "bool":
        return text.rpartition("\n")[2].strip() == answer
    if task == "json":
        try:
            return json.loads(text) == json.loads(answer)
        except ValueError:
            return False
    return text == answer


class Frontier:
    """A canvas of `length` masks behind the prompt, decided block by block."""

    def __init__(self, model, form, threshold):
        self.model, self.form, self.threshold = model, regex.compile(form), threshold
        self.mask, self.end = model.info.mask_token, model.info.eos_token
        self.ends = {self.end, model.info.eot_token} - {-1}
        self.pieces = [model.detokenize([i]) for i in range(model.info.vocabulary)]

    def goes_on(self, text, token):
        if token in self.ends:
            return self.form.fullmatch(text) is not None
        piece = self.pieces[token]
        return bool(piece) and token != self.mask and self.form.fullmatch(text + piece, partial=True) is not None

    def run(self, prompt, length):
        tokens, begin, forwards = list(prompt) + [self.mask] * length, len(prompt), 0
        while self.mask in tokens and forwards < 4 * length:
            open_ = [i for i in range(begin, len(tokens)) if tokens[i] == self.mask]
            block = begin + (open_[0] - begin) // 32 * 32
            open_ = [i for i in open_ if i < block + 32]
            rows = self.model.logits(tokens, positions=open_)
            forwards += 1
            seen = {}
            for at, row in zip(open_, rows):
                row = list(row)
                row[self.mask] = -math.inf
                order = sorted(range(len(row)), key=lambda t: -row[t])
                top = row[order[0]]
                seen[at] = order
                if 1 / sum(math.exp(v - top) for v in row) > self.threshold:
                    tokens[at] = order[0]
            # The valid beginning goes on as far as it can; the frontier always takes a token.
            text, took = "", False
            for at in range(begin, len(tokens)):
                token = tokens[at]
                if token == self.mask and (took or at not in seen):
                    break
                if token == self.mask or not self.goes_on(text, token):
                    if at not in seen:
                        tokens[at] = self.mask
                        break
                    token = next((t for t in seen[at] if self.goes_on(text, t)), None)
                    if token is None:
                        return text, forwards
                    took = True
                tokens[at] = token
                if token in self.ends:
                    return text, forwards
                text += self.pieces[token]
        return text, forwards


def wilson(right, n):
    z, p = 1.959963984540054, right / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return f"{100 * p:.1f} ({100 * (centre - half):.1f} to {100 * (centre + half):.1f})"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: forms_quality.py ")[1])
    parser.add_argument("model")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--lengths", default="96,24")
    parser.add_argument("--thresholds", default="0.9,0.1")
    parser.add_argument("--tasks", default="json,bool,choice,sort")
    asked = parser.parse_args()
    with open(ROOT / "eval" / "eval_public.jsonl", encoding="utf-8") as lines:
        examples = [json.loads(line) for line in lines]
    print("| task | positions | threshold | way | accuracy, % | valid, % | forwards |\n| - | - | - | - | - | - | - |")
    with llada.Model.load(asked.model) as model:
        for task in asked.tasks.split(","):
            some = [e for e in examples if e["task"] == task][:asked.limit]
            valid = regex.compile(FORMS[task])
            for length in map(int, asked.lengths.split(",")):
                for threshold in map(float, asked.thresholds.split(",")):
                    options = {"gen_length": length, "threshold": threshold, "block_length": 32, "kv": "none",
                               "preset": "exact"}
                    frontier = Frontier(model, FORMS[task], threshold)
                    for way in ("none", "frontier", "form"):
                        right = fits = forwards = 0
                        for e in some:
                            if way == "frontier":
                                text, count = frontier.run(model.chat_tokens([("user", e["prompt"])]), length)
                            else:
                                form = {"regex": FORMS[task].replace("(?:", "(")} if way == "form" else {}
                                result = model.generate(e["prompt"], **options, **form)
                                text, count = result.text, result.stats.forwards
                            right += is_right(e, text)
                            fits += valid.fullmatch(text) is not None
                            forwards += count
                        print(f"| {task} | {length} | {threshold} | {way} | {wilson(right, len(some))} | "
                              f"{100 * fits / len(some):.1f} | {forwards / len(some):.1f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
