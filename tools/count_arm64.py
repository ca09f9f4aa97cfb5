#!/usr/bin/env python3
"""Counts the instructions of the innermost loops of the 64-bit Arm int8 kernels (the DSP's tiles among them), as the compiler wrote them: per
multiply-add, and how many of them multiply, copy a register or touch the stack. Nothing is run, so this says nothing of
time. usage: count_arm64.py [build folder]   (after cmake --build --preset arm64)"""
import collections
import pathlib
import re
import subprocess
import sys

TYPES = {3: "q8_0", 4: "q4_0", 8: "q4_k", 10: "q6_k"}
DOTS = {"sdot": 16, "udot": 16, "smmla": 32, "ummla": 32, "usmmla": 32}  # multiply-adds of one


def functions(path):
    text = subprocess.run(["aarch64-linux-gnu-objdump", "-d", "-C", "--no-show-raw-insn", str(path)],
                          capture_output=True, text=True, check=True).stdout
    for block in text.split("\n\n"):
        name = re.search(r"^[0-9a-f]+ <(.*)>:$", block, re.M)
        code = re.findall(r"^ *([0-9a-f]+):[ \t]+(\S+)[ \t]*(.*)$", block, re.M)
        if name:
            yield name[1], [(int(at, 16), op, rest) for at, op, rest in code]


def dot_loops(code):
    """Bodies of the loops that multiply and hold no such loop inside."""
    places = {at: i for i, (at, _, _) in enumerate(code)}
    loops = []
    for i, (_, op, rest) in enumerate(code):
        target = re.search(r"([0-9a-f]+) <", rest)
        if target and re.match(r"(b\.|b$|cbn?z|tbn?z)", op):
            first = places.get(int(target[1], 16), i + 1)
            if first <= i and any(o in DOTS for _, o, _ in code[first:i + 1]):
                loops.append((first, i + 1))
    for a in loops:
        if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops):
            yield code[a[0]:a[1]]


def what(name):
    tile = re.search(r"multiply_tile<8, .*::PackedSource<\(llada::DType\)(\d+)>", name)
    if tile:
        return TYPES[int(tile[1])] + ", 8 rows"
    tile = re.search(r"tiles::.*::multiply_strips<\(dsp::Format\)(\d), (\d)", name)
    if tile:
        return f"DSP's tiles: {('q4_0', 'q8_0', 'f16')[int(tile[1])]}, {tile[2]} rows"
    part = re.search(r"digests::.*::(score_keys|mix)<32>", name)
    return part and {"score_keys": "digests: scores", "mix": "digests: values"}[part[1]]


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/arm64")
    print("| loop | instructions | multiplying | longest run of them | register copies | stack | multiply-adds | instructions per multiply-add |")
    print("|---|---|---|---|---|---|---|---|")
    for isa in ("dotprod", "i8mm"):
        for path in sorted(folder.glob(f"src/**/*neon_{isa}.cc.o")):
            rows = {}
            for name, code in functions(path):
                for body in dot_loops(code) if what(name) else ():
                    ops = collections.Counter(op for _, op, _ in body)
                    # Numbers of 16 bits are multiplied as four products of their bytes.
                    work = sum(n * ops[op] for op, n in DOTS.items()) // (4 if ": f16" in what(name) else 1)
                    marks = "".join("x" if op in DOTS else " " for _, op, _ in body)
                    copies = sum(op == "mov" and rest.startswith("v") for _, op, rest in body)
                    stack = sum("[sp" in rest for _, op, rest in body)
                    rows[what(name)] = (f"| {isa}: {what(name)} | {len(body)} | {marks.count('x')} | {max(map(len, marks.split()))} | "
                                        f"{copies} | {stack} | {work} | {len(body) / work:.3f} |")
            print("\n".join(rows[key] for key in sorted(rows)))


main()
