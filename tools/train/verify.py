#!/usr/bin/env python3
"""Compares this folder's model and sampler with a golden.json: logits, commit traces, tokens and texts.

    python3 tools/train/verify.py models/tiny-llada
"""
import argparse
import json
import pathlib
import sys

import torch

from hf_folder import load_model
from sample import generate
from tokenizer import Tokenizer

TOLERANCE = 2e-3  # of a logit: both sides compute in f32, but matrix libraries add in different orders


def logit_error(model, item):
    """Largest absolute difference of the first forward from the recorded rows and top-20 lists."""
    with torch.no_grad():
        logits = model(torch.tensor([item["canvas"]]))[0]
    rows = [(logits[row["pos"]], torch.tensor(row["values"])) for row in item["logits"]]
    rows += [(logits[row["pos"], row["ids"]], torch.tensor(row["logits"])) for row in item["top20"]]
    return max((ours - theirs).abs().max().item() for ours, theirs in rows)


def differences(model, tokenizer, item, name):
    """Which of the recorded results of one generation setting come out differently."""
    golden = item[name]
    tokens, trace = generate(
        model, tokenizer, item["canvas"][:item["prompt_len"]], length=item["gen_length"],
        block_length=golden["block_length"], steps=golden.get("steps"), threshold=golden.get("thr"))
    ours = dict(nfe=len(trace), tokens=tokens, text=tokenizer.decode_answer(tokens), trace=trace)
    return [key for key in ours if ours[key] != golden[key]]


def verify(folder):
    """Prints one line per item; -> True when everything agrees."""
    model, tokenizer, good = load_model(folder), Tokenizer(folder), True
    for item in json.loads((pathlib.Path(folder) / "golden.json").read_text())["items"]:
        if tokenizer.chat(item["prompt"]) != item["canvas"][:item["prompt_len"]]:
            print(f"{folder} {item['task']}: the prompt's token ids differ")
            good = False
        error = logit_error(model, item)
        wrong = {name: differences(model, tokenizer, item, name) for name in ("one_token_per_step", "threshold_0.9")}
        good &= error <= TOLERANCE and not any(wrong.values())
        words = [f"{name}: {'differs in ' + ', '.join(keys) if keys else 'equal'}" for name, keys in wrong.items()]
        print(f"{folder} {item['task']}: largest logit difference {error:.2e}; {'; '.join(words)}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", help="model folders with a golden.json")
    results = [verify(folder) for folder in parser.parse_args().models]
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
