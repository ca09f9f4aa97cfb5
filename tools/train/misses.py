#!/usr/bin/env python3
"""Lists the tokens of right answers that a model would not write, each asked from the right answer before it and with
MASKS masks from it on: what stands between words that are right one by one and answers that are right as a whole.

    python tools/train/misses.py models/tiny-llada-long --tasks count,form --examples 2 [--skip 4] [--masks 8]
"""
import argparse
import json
import pathlib

import torch

from hf_folder import load_model
from tokenizer import Tokenizer

TUNING = pathlib.Path(__file__).resolve().parents[2] / "eval/long_tuning.jsonl"
SHOWN = 6  # tokens before a miss


@torch.no_grad()
def misses(model, tokenizer, prompt, answer, masks):
    """prompt, answer: token ids. -> [(index in the answer, token written, its probability, the right one's)]"""
    found = []
    for i, right in enumerate(answer):
        canvas = torch.tensor([prompt + answer[:i] + [tokenizer.mask] * masks])
        shares = model(canvas, torch.tensor([len(prompt) + i])).float().softmax(-1).view(-1)
        best = int(shares.argmax())
        if best != right:
            found.append((i, best, shares[best].item(), shares[right].item()))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--file", type=pathlib.Path, default=TUNING, help="examples (%(default)s)")
    parser.add_argument("--tasks", default="count,form,records,rewrite,sort-steps,story")
    parser.add_argument("--examples", type=int, default=1, help="of each task")
    parser.add_argument("--skip", type=int, default=0, help="that many first")
    parser.add_argument("--masks", type=int, default=8)
    args = parser.parse_args()
    model, tokenizer = load_model(args.model).eval(), Tokenizer(args.model)
    examples = [json.loads(line) for line in args.file.read_text(encoding="utf-8").splitlines()]
    for task in args.tasks.split(","):
        for example in [e for e in examples if e["task"] == task][args.skip:args.skip + args.examples]:
            answer = tokenizer.encode(example["response"]) + [tokenizer.eot]
            found = misses(model, tokenizer, tokenizer.chat(example["prompt"]), answer, args.masks)
            print(f"{task}: {len(found)} of {len(answer)} tokens", flush=True)
            for i, best, share, right in found:
                before = tokenizer.decode(answer[max(0, i - SHOWN):i])
                print(f"  {i:4} {before!r}: {tokenizer.decode([best])!r} {share:.2f}, "
                      f"needed {tokenizer.decode([answer[i]])!r} {right:.2f}")


if __name__ == "__main__":
    main()
