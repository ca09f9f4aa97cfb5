#!/usr/bin/env python3
"""Runs the commands of docs/lab/moe.md and writes its tables.

    tools/moe_docs.py                      # all tables: some minutes of one core
    tools/moe_docs.py hybrimoe             # one of them
    LLADA=path/to/llada-study WRAP='nice' tools/moe_docs.py

A table stands between the markers `<!-- NAME: begin ... -->` and `<!-- NAME: end -->`; what stands around it is kept, and
the commands that gave it are written under it. The tables repeat bit for bit.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "lab" / "moe.md"
LLADA = os.environ.get("LLADA", str(ROOT / "build/release/bin/llada-study"))
WRAP = shlex.split(os.environ.get("WRAP", ""))
AUTOREGRESSIVE = ("mixtral", "qwen2-57b", "deepseek-v2-lite")
DIFFUSION = ("llada2-mini", "llada-moe-7b")
PROFILES = ("a6000-pcie4", "rtx4060-pcie4", "v79-8elite")

cache = {}


def run(arguments):
    """One command of the program with --json; each runs once."""
    if arguments not in cache:
        done = subprocess.run(WRAP + [LLADA] + arguments.split() + ["--json"], stdout=subprocess.PIPE, cwd=ROOT)
        if done.returncode:
            sys.exit(f"moe_docs.py: llada {arguments} ended with {done.returncode}")
        cache[arguments] = json.loads(done.stdout)
    return cache[arguments]


def line(phase, name):
    return next((l for l in phase["lines"] if l["name"] == name), None)


def times(phase, name, over="static"):
    a, b = line(phase, name), line(phase, over)
    return b["seconds_per_step"] / a["seconds_per_step"] if a and b else None


def percent(value, digits=0):
    return f"{100 * value:.{digits}f} %"


def table(head, rows):
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return out + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def commands(list_):
    return ["", *(f"    llada-study {c}" for c in list_)]


def setting(geometry, profile="a6000-pcie4", more=""):
    return f"simulate --moe {geometry} --profile {profile}{more}"


def mean(values):
    values = list(values)
    return sum(values) / len(values)


SHARES = ("25 %", "50 %", "75 %")


def by_share(rows):
    """{key cells: {share: cell}} -> lines with a column per share"""
    return [[*key, *(cells.get(share, "") for share in SHARES)] for key, cells in rows.items()]


def whole_line(p):
    return "hybrid, whole" if line(p, "hybrid, whole") else "hybrid"


def hybrimoe():
    rows, gains = {}, {}
    for name in AUTOREGRESSIVE:
        for p in run(setting(name))["phases"]:
            simple, bound = p["best_simple"], p["known_bound_seconds_per_step"]
            over = [times(p, which, base) for base in ("static", simple) for which in (whole_line(p), "hybrid")]
            limit = line(p, simple)["seconds_per_step"] / bound
            gains.setdefault(p["phase"], []).append((*over, limit))
            rows.setdefault((name, p["phase"]), {})[percent(p["experts_on_device"])] = (
                f"{1e3 * line(p, 'static')['seconds_per_step']:.0f}; {over[0]:.2f}, **{over[1]:.2f}**; {over[2]:.2f}, "
                f"{over[3]:.2f} ({limit:.2f}); {p['slices']}; {percent(bound / line(p, 'hybrid')['seconds_per_step'])}")
    means = "; ".join(f"{phase}: over static {a:.2f}, with slices {b:.2f}; over the best simple line {c:.2f}, with slices {d:.2f} "
                      f"(bound {e:.2f})" for phase, l in gains.items() for a, b, c, d, e in [map(mean, zip(*l))])
    return (table(["model", "phase", *SHARES], by_share(rows)) + ["", f"Means: {means}."] +
            commands(setting(n) for n in AUTOREGRESSIVE))


def diffusion():
    """A line per model, profile and way of starting the accelerator's kernels."""
    rows, met = {}, {}
    for name in DIFFUSION:
        for profile in PROFILES:
            for grouped, start in (("off", "expert"), ("on", "list")):
                for p in run(setting(name, profile, f" --moe-grouped {grouped}"))["phases"]:
                    static = line(p, "static")["seconds_per_step"]
                    over = times(p, "hybrid"), times(p, "hybrid", "TIDE")
                    met.setdefault(start, []).append(over)
                    rows.setdefault((name, profile, start), {})[percent(p["experts_on_device"])] = (
                        f"{1e3 * line(p, 'hybrid')['seconds_per_step']:.1f}; {over[0]:.2f} / {over[1]:.2f} "
                        f"({static / p['bound_seconds_per_step']:.2f})")
    means = "; ".join(f"a start per {start}: {sum(a >= 1.5 and b >= 1.3 for a, b in l)} of {len(l)} meet both, mean "
                      f"{mean(a for a, _ in l):.2f} / {mean(b for _, b in l):.2f}" for start, l in met.items())
    return (table(["model", "profile", "a start per", *SHARES], by_share(rows)) + ["", f"{means[0].upper()}{means[1:]}."] +
            commands([setting("MODEL", "PROFILE", " --moe-grouped off|on")]))


def gemma():
    """A line per profile: kernels are started as it says."""
    rows = {}
    for profile in PROFILES:
        whole = run(setting("diffusion-gemma-26b", profile))
        for p in whole["phases"]:
            static, hybrid = line(p, "static")["seconds_per_step"], line(p, "hybrid")
            memory = (whole["dense_bytes"] + p["resident_bytes"]) / 1e9
            rows.setdefault((profile,), {})[percent(p["experts_on_device"])] = (
                f"{memory:.1f} GB; {percent(hybrid['hit_rate'])}; {1e3 * hybrid['seconds_per_step']:.0f}; "
                f"{times(p, 'hybrid'):.2f} / {times(p, 'hybrid', 'TIDE'):.2f} ({static / p['bound_seconds_per_step']:.2f})")
    return table(["profile", *SHARES], by_share(rows)) + commands([setting("diffusion-gemma-26b", "PROFILE")])


TABLES = {"hybrimoe": hybrimoe, "diffusion": diffusion, "gemma": gemma}


def replaced(text, name, lines):
    """The page with one table replaced."""
    pattern = re.compile(rf"(<!-- {name}: begin[^\n]*-->\n).*?(<!-- {name}: end -->)", re.S)
    if len(pattern.findall(text)) != 1:
        sys.exit(f"moe_docs.py: docs/lab/moe.md: needed one place for the table '{name}'")
    lines = [l if l[:1] in "| " else textwrap.fill(l, 120, break_on_hyphens=False) for l in lines]
    return pattern.sub(lambda m: m.group(1) + "\n".join(lines) + "\n" + m.group(2), text)


def main():
    names = sys.argv[1:] or list(TABLES)
    for name in names:
        if name not in TABLES:
            sys.exit(f"moe_docs.py: found '{name}', needed some of {', '.join(TABLES)}")
    for name in names:
        lines = TABLES[name]()
        PAGE.write_text(replaced(PAGE.read_text(), name, lines))
        print(f"{name}: {len(lines)} lines", flush=True)


main()
