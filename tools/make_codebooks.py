#!/usr/bin/env python3
"""Writes src/tensor/codebooks.inc: the grids of the IQ types as llama.cpp's own Python library has them.

Needs the packages gguf and numpy. A grid entry of eight values has two bits for each, one of four values four bits,
lowest first: the place of the value among the grid's few.
"""
import sys

from gguf import quants

GRIDS = (("kGrid2xxs", quants.IQ2_XXS), ("kGrid2xs", quants.IQ2_XS), ("kGrid2s", quants.IQ2_S),
         ("kGrid3xxs", quants.IQ3_XXS), ("kGrid3s", quants.IQ3_S), ("kGrid1s", quants.IQ1_S))


def main(path):
    with open(path, "w", encoding="ascii") as out:
        out.write("// Written by tools/make_codebooks.py, which says what the numbers are.\n")
        for name, kind in GRIDS:
            kind.init_grid()
            entries = kind.grid.reshape(kind.grid_shape)
            bits = 16 // kind.grid_shape[1]
            words = [sum(kind.grid_map.index(int(v)) << (bits * i) for i, v in enumerate(entry)) for entry in entries]
            out.write(f"constexpr uint16_t {name}[{len(words)}] = {{\n")
            for at in range(0, len(words), 14):
                out.write("    " + ", ".join(f"0x{word:04x}" for word in words[at:at + 14]) + ",\n")
            out.write("};\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "src/tensor/codebooks.inc")
