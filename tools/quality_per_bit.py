#!/usr/bin/env python3
"""What each mix of types costs a diffusion model, with importance matrices and without: a table of docs/lab/correctness.md.

    tools/quality_per_bit.py [--canvases 24] [--llada PROGRAM] [--study PROGRAM]

models/tiny-llada-long is converted to each mix: without an importance matrix, with one of text as a diffusion model sees
it (`llada imatrix`), and with one of text without masks, as autoregressive tools measure it. Questions and answers of
eval/long_tuning.jsonl are what is measured, those of eval/long_public.jsonl what is predicted: canvases whose answers are
masked at random rates, against the same in 16-bit floats. Columns: the divergence of the predictions of masks in millinats,
and the share of equal best tokens. Needs numpy, gguf and tokenizers.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models/tiny-llada-long"
MIXES = ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_k_s", "iq4_xs", "iq4_nl", "q4_0", "q3_k_m", "q2_k")
MATRICES = {"none": None, "masked": (), "unmasked": ("--mask-rate", "0")}
MASK = 1005


def call(*words, text=None):
    done = subprocess.run([str(word) for word in words], input=text, capture_output=True, text=True)
    if done.returncode: sys.exit(f"quality_per_bit: {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def examples(name):
    for line in (ROOT / "eval" / name).read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        yield (f"<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n{one['prompt']}<|eot_id|>"
               "<|start_header_id|>assistant<|end_header_id|>\n\n", one.get("response", one["answer"]) + "<|eot_id|>")


def canvases(words, count, rng):
    """Token ids with masks in the answer, and where these are."""
    chosen = list(examples("long_public.jsonl"))
    for at in rng.permutation(len(chosen))[:count]:
        prompt, answer = (words.encode(text, add_special_tokens=False).ids for text in chosen[at])
        hidden = rng.random(len(answer)) < rng.random()
        hidden[rng.integers(len(answer))] = True
        yield prompt + [MASK if mask else token for token, mask in zip(answer, hidden)], len(prompt) + np.flatnonzero(hidden)


def log_probabilities(study, model, ids, positions, folder):
    shape = json.loads(call(study, "logits", "-m", model, "--ids", "-", "-o", folder / "rows", "--json",
                            text=" ".join(map(str, ids))))
    rows = np.fromfile(folder / "rows", dtype=np.float32).reshape(shape["rows"], shape["vocab"])[positions].astype(np.float64)
    rows = rows[:, :MASK + 1]
    rows -= rows.max(axis=1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))


def bits(path):
    matrices = [tensor for tensor in gguf.GGUFReader(path).tensors if len(tensor.shape) > 1]
    return 8 * sum(int(t.n_bytes) for t in matrices) / sum(int(t.n_elements) for t in matrices)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llada", default=ROOT / "build/release/bin/llada", type=pathlib.Path)
    parser.add_argument("--study", default=ROOT / "build/release/bin/llada-study", type=pathlib.Path)
    parser.add_argument("--canvases", type=int, default=24)
    parser.add_argument("--calibration", type=int, default=150, help="examples that are measured (150)")
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    words = tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    with tempfile.TemporaryDirectory(prefix="llada-bits-") as name:
        folder = pathlib.Path(name)
        measured = [prompt + answer for prompt, answer in examples("long_tuning.jsonl")]
        (folder / "texts").write_text("".join(measured[at] for at in rng.permutation(len(measured))[:args.calibration]), encoding="utf-8")
        call(args.llada, "convert", MODEL, folder / "f16", "--type", "f16")
        some = list(canvases(words, args.canvases, rng))
        exact = [log_probabilities(args.study, folder / "f16", *one, folder) for one in some]
        for kind, options in MATRICES.items():
            if options is not None:
                call(args.llada, "imatrix", "-m", MODEL, "--texts", folder / "texts", "-o", folder / f"{kind}.gguf", *options)
        print("| type | bits of a weight | divergence, equal best tokens | with importance of masked text | of text without masks |\n"
              "|---|---|---|---|---|")
        for mix in MIXES:
            cells = []
            for kind, options in MATRICES.items():
                if mix == "q8_0" and options is not None: continue
                more = () if options is None else ("--imatrix", folder / f"{kind}.gguf")
                call(args.llada, "convert", MODEL, folder / "m", "--type", mix, *more)
                divergence, equal, rows = 0.0, 0, 0
                for one, reference in zip(some, exact):
                    found = log_probabilities(args.study, folder / "m", *one, folder)
                    divergence += float((np.exp(reference) * (reference - found)).sum())
                    equal += int((reference.argmax(1) == found.argmax(1)).sum())
                    rows += len(found)
                cells.append(f"{1e3 * divergence / rows:.2f}, {100 * equal / rows:.2f} %")
            print(f"| {mix.upper()} | {bits(folder / 'm'):.2f} | {' | '.join(cells)} |", flush=True)
        print(f"{sum(len(positions) for _, positions in some)} masks in {len(some)} canvases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
