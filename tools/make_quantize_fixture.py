#!/usr/bin/env python3
"""Writes tests/data/quantize.txt: rows quantized and groups dequantized by llama.cpp's own Python library.

Needs the packages gguf and numpy. One line each: operation, type, input bytes, output bytes (hexadecimal, little-endian).

With the path of a libggml-base that is built without fused multiply-adds (as a build for any x86-64 is), it writes
tests/data/quantize_blocks.txt, too: rows, their weights, and the bytes that ggml_quantize_chunk makes of them with and
without these.

    tools/make_quantize_fixture.py tests/data/quantize.txt FOLDER/libggml-base.so tests/data/quantize_blocks.txt
"""
import ctypes
import sys

import gguf
import numpy as np
from gguf import quants

TYPES = gguf.GGMLQuantizationType


SEARCHED = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")


def block_rows(rng):
    """Rows of one or two blocks, each with weights: usual ones, and those that a search stumbles over."""
    usual = lambda n=256, rng=rng: rng.standard_normal(n)
    spread = lambda n=256, rng=rng: rng.lognormal(0, 2, n)
    yield "normal", usual(512) * 0.02, spread(512)
    yield "cubed", usual(512) ** 3, spread(512)
    yield "zeros", np.zeros(256), spread()
    yield "constant", np.full(256, 0.37), spread()
    yield "negative", -np.abs(usual()), spread()
    yield "outlier", np.where(np.arange(256) == 100, -3000.0, usual()), spread()
    yield "denormal", usual() * 1e-41, spread()
    yield "tiny", usual() * 1e-16, spread()
    yield "some zeros", np.where(np.arange(256) // 16 % 3 == 1, 0, usual()), np.where(np.arange(256) % 5 == 0, 0, spread())
    yield "large", usual() * 1e4, np.full(256, 1e-30)
    yield "halves", rng.integers(-31, 32, 256) / 2, np.zeros(256)
    yield "two values", np.where(rng.integers(0, 2, 256) == 1, 1.0, -1.0), np.ones(256)
    # Of many rows these two need a search's last step: the lowest scale of scales, the fifth round.
    for seed in (2, 3547):
        eighths = np.random.default_rng(seed)
        yield f"eighths {seed}", np.round(usual(rng=eighths) * 8) / 8, spread(rng=eighths)


def blocks(library, path):
    library = ctypes.CDLL(library)
    chunk = library.ggml_quantize_chunk
    chunk.restype = ctypes.c_size_t
    chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    with open(path, "w", encoding="ascii") as out:
        for name, row, weights in block_rows(np.random.default_rng(20261130)):
            row, weights = (np.ascontiguousarray(x, dtype=np.float32) for x in (row, weights))
            out.write(f"row {name.replace(' ', '_')} {row.tobytes().hex()} {weights.tobytes().hex()}\n")
            for kind in SEARCHED:
                elements, size = gguf.GGML_QUANT_SIZES[TYPES[kind]]
                for given in (None, weights.ctypes.data):
                    packed = np.zeros(len(row) // elements * size, dtype=np.uint8)
                    if chunk(TYPES[kind], row.ctypes.data, packed.ctypes.data, 0, 1, len(row), given) != len(packed):
                        raise RuntimeError(f"{kind}: another size")
                    out.write(f"{'plain' if given is None else 'weighted'} {kind} {packed.tobytes().hex()} -\n")


def main(path):
    rng = np.random.default_rng(20261120)
    rows = np.stack([
        rng.standard_normal(32),
        rng.standard_normal(32) * 1e-3,
        rng.integers(-254, 255, 32) / 2.0,  # halves: rounding ties once the scale is exact
        np.where(np.arange(32) == 17, -1000.0, rng.standard_normal(32)),
        np.tile([3.0, -3.0], 16),  # which of two equal magnitudes counts
        np.tile([-3.0, 3.0], 16),
        np.zeros(32),
    ]).astype(np.float32)
    with open(path, "w", encoding="ascii") as out:
        for name in ("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"):
            for row in rows:
                if not row.any() and name in ("Q4_0", "Q5_0"):
                    continue  # the sign of a zero scale differs between this library and ggml's C code
                packed = quants.quantize(row.reshape(1, 32), TYPES[name])
                out.write(f"quantize {name} {row.tobytes().hex()} {packed.tobytes().hex()}\n")
        for name in ("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "Q2_K", "Q3_K",
                     "IQ4_NL", "IQ4_XS", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M", "TQ1_0",
                     "TQ2_0", "MXFP4", "NVFP4"):
            elements, size = gguf.GGML_QUANT_SIZES[TYPES[name]]
            raw = rng.integers(0, 256, (2 if elements < 256 else 1, size), dtype=np.uint8)
            # Scales in a sane range: no infinity or NaN in the fixture.
            halves = {"F16": [0], "Q4_1": [0, 2], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
                      "Q2_K": [80, 82], "Q3_K": [108], "TQ1_0": [52], "TQ2_0": [64], "IQ1_M": [], "MXFP4": [],
                      "NVFP4": []}
            for at in halves.get(name, [0] if name != "BF16" else []):
                raw[:, at:at + 2] = (rng.standard_normal(len(raw)) * 0.1).astype(np.float16).view(np.uint8).reshape(-1, 2)
            if name == "BF16":
                raw[:, 1] = 0x3E
            if name == "IQ1_M":
                raw[:, 55] = raw[:, 55] & 15 | 0x20  # the top nibble of its scale
            if name == "MXFP4":
                raw[:, 0] = (1, 120)  # 2^-127 and a usual exponent
            values = quants.dequantize(raw, TYPES[name]).astype(np.float32)
            out.write(f"dequantize {name} {raw.tobytes().hex()} {values.tobytes().hex()}\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "tests/data/quantize.txt")
    if len(sys.argv) > 3: blocks(sys.argv[2], sys.argv[3])
