#!/usr/bin/env python3
"""Counts the instructions of the innermost loops of the 64-bit Arm int8 kernels (the DSP's tiles among them), as the compiler wrote them: per
multiply-add, and how many of them multiply, copy a register or touch the stack. Nothing is run, so this says nothing of
time. usage: count_arm64.py [--check] [build folder]   (after cmake --build --preset arm64)
--check: prints nothing unless a loop's instructions per multiply-add are more than 3 % above RECORDED, or a loop is
missing; then the exit status is 1. A kernel that got better: its new figure is recorded. The figures are g++ 12.2's."""
import collections
import pathlib
import re
import subprocess
import sys

TYPES = {3: "q8_0", 4: "q4_0", 5: "q4_1", 8: "q4_k", 10: "q6_k", 26: "q8_m"}
DOTS = {"sdot": 16, "udot": 16, "smmla": 32, "ummla": 32, "usmmla": 32, "fmopa": 512}  # multiply-adds of one
FILES = {"dotprod": "neon_dotprod", "i8mm": "neon_i8mm", "sme": "sme_matmul"}  # fmopa: of F16, with SVL = 512 bits
FORMS = ("q8_0", "q4_0", "q4_0 by SME2")


# Instructions per multiply-add, by instruction set and loop.
RECORDED = {
    ("dotprod", "digests: scores"): 80 / 1024, ("dotprod", "digests: values"): 80 / 1024,
    ("dotprod", "q4_0, 8 rows"): 132 / 1024, ("dotprod", "q8_0, 8 rows"): 123 / 1024,
    ("dotprod", "q4_1, 8 rows"): 141 / 1024, ("dotprod", "q8_m, 8 rows"): 133 / 1024,
    ("dotprod", "q4_k, 8 rows"): 165 / 1024, ("dotprod", "q6_k, 8 rows"): 181 / 1024,
    ("i8mm", "digests: scores"): 26 / 512, ("i8mm", "digests: values"): 26 / 512,
    ("i8mm", "q4_0, 8 rows"): 100 / 1024, ("i8mm", "q8_0, 8 rows"): 93 / 1024,
    ("i8mm", "q4_1, 8 rows"): 116 / 1024, ("i8mm", "q8_m, 8 rows"): 107 / 1024,
    ("i8mm", "q4_k, 8 rows"): 135 / 1024, ("i8mm", "q6_k, 8 rows"): 149 / 1024,
    ("sme", "q4_0, 16 rows"): 383 / 32768, ("sme", "q8_0, 16 rows"): 315 / 32768,
    ("sme", "q4_0, 32 rows"): 265 / 32768, ("sme", "q8_0, 32 rows"): 231 / 32768,
    ("sme", "q4_0, 64 rows"): 230 / 32768, ("sme", "q8_0, 64 rows"): 213 / 32768,
    ("sme", "q4_0 by SME2, 16 rows"): 223 / 32768, ("sme", "q4_0 by SME2, 32 rows"): 185 / 32768,
    ("sme", "q4_0 by SME2, 64 rows"): 166 / 32768,
    ("dotprod", "DSP's tiles: q4_0, 8 rows"): 158 / 1024, ("dotprod", "DSP's tiles: q8_0, 8 rows"): 177 / 1024,
    ("i8mm", "DSP's tiles: q4_0, 8 rows"): 127 / 1024, ("i8mm", "DSP's tiles: q8_0, 8 rows"): 119 / 1024,
}
MOST_RISE = 1.03


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
    tile = re.search(r"sme::.*multiply_pass<\(.*\)(\d), (\d)>", name)
    if tile:
        return f"{FORMS[int(tile[1])]}, {16 * int(tile[2])} rows"
    tile = re.search(r"tiles::.*::multiply_strips<\(dsp::Format\)(\d), (\d)", name)
    if tile:
        return f"DSP's tiles: {('q4_0', 'q8_0', 'f16')[int(tile[1])]}, {tile[2]} rows"
    part = re.search(r"digests::.*::(score_keys|mix)<32>", name)
    return part and {"score_keys": "digests: scores", "mix": "digests: values"}[part[1]]


def measure(folder):
    """{(instruction set, loop): its row} of the objects below a build folder. A row: instructions, multiplying ones,
    their longest run, register copies, touches of the stack, multiply-adds."""
    rows = {}
    for isa, file in FILES.items():
        for path in sorted(folder.glob(f"src/**/*{file}.cc.o")):
            for name, code in functions(path):
                for body in dot_loops(code) if what(name) else ():
                    ops = collections.Counter(op for _, op, _ in body)
                    # Numbers of 16 bits are multiplied as four products of their bytes.
                    work = sum(n * ops[op] for op, n in DOTS.items()) // (4 if ": f16" in what(name) else 1)
                    marks = "".join("x" if op in DOTS else " " for _, op, _ in body)
                    copies = sum(op == "mov" and rest.startswith("v") for _, op, rest in body)
                    stack = sum("[sp" in rest for _, op, rest in body)
                    rows[isa, what(name)] = (len(body), marks.count("x"), max(map(len, marks.split())), copies, stack,
                                             work)
    return rows


def check(rows):
    """Lines that say where a loop is missing or has more instructions per multiply-add than it may have."""
    problems = []
    tiles = any("DSP's tiles" in loop for _, loop in rows)  # a build without the Hexagon compiler has none
    for key, recorded in RECORDED.items():
        if "DSP's tiles" in key[1] and not tiles:
            continue
        if key not in rows:
            problems.append(f"{key[0]}: {key[1]}: the loop was not found, {recorded:.3f} recorded")
        elif rows[key][0] / rows[key][-1] > MOST_RISE * recorded:
            problems.append(f"{key[0]}: {key[1]}: {rows[key][0] / rows[key][-1]:.3f} instructions per multiply-add, "
                            f"{recorded:.3f} recorded and 3 % more allowed")
    return problems


def self_test():
    good = {key: (round(figure * 10000), 1, 1, 0, 0, 10000) for key, figure in RECORDED.items()}
    assert check(good) == [] and len(RECORDED) >= 8
    for key in RECORDED:
        worse = {**good, key: (round(RECORDED[key] * 10400), 1, 1, 0, 0, 10000)}
        assert len(check(worse)) == 1 and key[1] in check(worse)[0]
        assert len(check({k: v for k, v in good.items() if k != key})) == 1


def main():
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    if "--self-test" in sys.argv:
        return self_test()
    rows = measure(pathlib.Path(words[0] if words else "build/arm64"))
    if "--check" in sys.argv:
        problems = check(rows)
        print("".join(f"{line}\n" for line in problems), end="")
        return sys.exit(1 if problems else 0)
    print("| loop | instructions | multiplying | longest run of them | register copies | stack | multiply-adds | instructions per multiply-add |")
    print("|---|---|---|---|---|---|---|---|")
    for isa, loop in sorted(rows):
        row = rows[isa, loop]
        print(f"| {isa}: {loop} | {' | '.join(map(str, row))} | {row[0] / row[-1]:.3f} |")


main()
