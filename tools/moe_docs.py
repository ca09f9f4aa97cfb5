#!/usr/bin/env python3
"""Runs the commands of docs/moe.md and writes its tables.

    tools/moe_docs.py                      # all tables: some minutes of one core, a quiet machine for `bench` only
    tools/moe_docs.py hybrimoe diffusion   # some of them
    LLADA=path/to/llada WRAP='nice' tools/moe_docs.py

A table stands between the markers `<!-- NAME: begin ... -->` and `<!-- NAME: end -->`; what stands around it is kept, and
the commands that gave it are written under it. All tables but `bench` repeat bit for bit.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "moe.md"
LLADA = os.environ.get("LLADA", str(ROOT / "build/release/bin/llada"))
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
    return ["", *(f"    llada {c}" for c in list_)]


def setting(geometry, profile="a6000-pcie4", more=""):
    return f"simulate --moe {geometry} --profile {profile}{more}"


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def hits():
    published = {"mixtral": "36.2 / 30.2 %", "qwen2-57b": "52.8 / 45.0 %", "deepseek-v2-lite": "52.7 / 47.7 %"}
    rows = []
    for name in AUTOREGRESSIVE:
        phase = next(p for p in run(setting(name))["phases"] if p["phase"] == "decode")
        rate = {rule: 100 * line(phase, f"cache {rule}")["hit_rate"] for rule in ("mrs", "lru", "belady")}
        rows.append([name, published[name], f"{rate['mrs']:.1f} / {rate['lru']:.1f} %", f"{rate['belady']:.1f} %"])
    return table(["hits at 25 % (MRS / LRU)", "published", "here, *emulated*", "Belady's bound"], rows) + commands(
        setting(n) for n in AUTOREGRESSIVE)


def hybrimoe():
    rows = []
    gains = {}
    for name in AUTOREGRESSIVE:
        for p in run(setting(name))["phases"]:
            whole = "hybrid, whole" if line(p, "hybrid, whole") else "hybrid"
            h, s = line(p, "hybrid"), line(p, "static")
            gains.setdefault(p["phase"], []).append((times(p, whole), times(p, "hybrid"), times(p, "hybrid", "layer split")))
            u = h["utilisation"]
            rows.append([name, p["phase"], percent(p["experts_on_device"]), f"{1e3 * s['seconds_per_step']:.0f}",
                         *(f"{times(p, n):.2f}" for n in ("+ scheduling", "+ cache", "+ prefetch", whole)),
                         f"**{times(p, 'hybrid'):.2f}**", f"{times(p, 'hybrid', 'layer split'):.2f}", percent(p["bound_seconds_per_step"] / h["seconds_per_step"]),
                         f"{100 * s['hit_rate']:.0f} / {percent(h['hit_rate'])}", f"{h['moved_bytes_per_step'] / 1e9:.2f}",
                         " / ".join(f"{100 * u[k]:.0f}" for k in ("host", "accelerator", "link")) + " %",
                         percent(h["makespan_error_mean"], 1)])
    for phase, list_ in gains.items():
        rows.append(["**mean**", phase, "", "", "", "", "", f"{mean(a for a, _, _ in list_):.2f}",
                     f"**{mean(b for _, b, _ in list_):.2f}**", f"{mean(c for _, _, c in list_):.2f}", "", "", "", "", ""])
    head = ["model", "phase", "resident", "static ms", "scheduling", "cache", "prefetch", "all, whole experts", "all, slices",
            "over a split by layers", "bound", "hits static / all", "GB moved per step", "CPU / accel. / link busy", "prediction off"]
    return table(head, rows) + commands(setting(n) for n in AUTOREGRESSIVE)


GUESSES = (("three layers' routers", ""), ("three layers' routers, wrong more often", " --moe-guess-noise 2"),
           ("the cache's scores, as the released code has it", " --moe-guess-by-score"))


def ablation():
    rows = [["published, Qwen2", "decode", "", "1.46", "1.38", "1.15", "1.86"],
            ["published, Qwen2", "prefill", "", "1.26", "-", "1.06", "1.31"]]
    used = []
    for what, more in GUESSES:
        for phase_name in ("decode", "prefill"):
            arguments = setting("qwen2-57b", more=" --experts-on-device 25%" + more)
            p = next(p for p in run(arguments)["phases"] if p["phase"] == phase_name)
            used += [arguments] if arguments not in used else []
            right = percent(line(p, "+ prefetch")["guessed_right_share"])
            whole = "hybrid, whole" if line(p, "hybrid, whole") else "hybrid"
            rows.append([what, phase_name, right,
                         *(f"{times(p, n):.2f}" for n in ("+ scheduling", "+ cache", "+ prefetch", whole))])
    for what, more in GUESSES:
        gains = {n: [] for n in ("+ scheduling", "+ cache", "+ prefetch", "whole")}
        for name in AUTOREGRESSIVE:
            arguments = setting(name, more=more)
            used += [arguments] if arguments not in used else []
            for p in run(arguments)["phases"]:
                if p["phase"] != "decode":
                    continue
                for n in gains:
                    key = n if n != "whole" else "hybrid, whole" if line(p, "hybrid, whole") else "hybrid"
                    gains[n].append(times(p, key))
        rows.append([f"mean of nine settings: {what}", "decode", "", *(f"{mean(gains[n]):.2f}" for n in gains)])
    return table(["guesses from", "phase", "moved guesses that came true", "scheduling", "cache", "prefetch", "all, whole experts"],
                 rows) + commands(used)


def diffusion():
    rows, used = [], []
    met = {}
    for name in DIFFUSION:
        for profile in PROFILES:
            for grouped in ("off", "on"):
                arguments = setting(name, profile, f" --moe-grouped {grouped}")
                used.append(arguments)
                for p in run(arguments)["phases"]:
                    h, s, t = line(p, "hybrid"), line(p, "static"), line(p, "TIDE")
                    over = times(p, "hybrid"), times(p, "hybrid", "TIDE")
                    met.setdefault(grouped, []).append(over)
                    ms = lambda l: f"{1e3 * l['seconds_per_step']:.1f}"
                    rows.append([name, profile, "list" if grouped == "on" else "each", percent(p["experts_on_device"]), ms(s),
                                 ms(line(p, "all-cpu")), f"{ms(t)} ({t['refresh_steps']})", ms(line(p, "+ scheduling")),
                                 f"**{ms(h)}**", f"{over[0]:.2f}", f"{over[1]:.2f}",
                                 f"{1e3 * p['bound_seconds_per_step']:.1f} ({s['seconds_per_step'] / p['bound_seconds_per_step']:.2f})",
                                 percent(h["bound_seconds_per_step"] / h["seconds_per_step"]),
                                 " / ".join(f"{100 * l['hit_rate']:.0f}" for l in (s, t, h)) + " %",
                                 f"{t['moved_bytes_per_step'] / 1e6:.0f} / {h['moved_bytes_per_step'] / 1e6:.0f}",
                                 percent(h["makespan_error_mean"], 1)])
    for grouped, list_ in met.items():
        both = sum(a >= 1.5 and b >= 1.3 for a, b in list_)
        rows.append([f"**mean**, {both} of {len(list_)} meet both", "", "list" if grouped == "on" else "each", "", "", "", "", "", "",
                     f"{mean(a for a, _ in list_):.2f}", f"{mean(b for _, b in list_):.2f}", "", "", "", "", ""])
    head = ["model", "profile", "start", "resident", "static", "all-cpu", "TIDE", "scheduling alone", "hybrid", "over static",
            "over TIDE", "nobody below (over static)", "of its bound", "hits static / TIDE / hybrid", "MB moved TIDE / hybrid",
            "prediction off"]
    return table(head, rows) + commands(used)


def recorded():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "routing.jsonl"
        record = ["run", "-m", "models/tiny-llada-moe", "-p", "Ann has 3 apples and buys 4 more. How many apples does she have?",
                  "--gen-length", "64", "--block-length", "32", "--record-routing", str(path)]
        subprocess.run(WRAP + [LLADA] + record, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rows = []
        for profile in PROFILES:
            for p in run(setting("llada-moe-7b", profile, f" --routing {path}"))["phases"]:
                h = line(p, "hybrid")
                rows.append([profile, percent(p["experts_on_device"]), percent(p["routing"]["experts_touched"]),
                             f"{times(p, 'hybrid'):.2f}", f"{times(p, 'hybrid', 'TIDE'):.2f}",
                             f"{line(p, 'static')['seconds_per_step'] / p['bound_seconds_per_step']:.2f}",
                             " / ".join(f"{100 * line(p, n)['hit_rate']:.0f}" for n in ("static", "TIDE", "hybrid")) + " %",
                             f"{h['moved_bytes_per_step'] / 1e6:.0f}", percent(h["makespan_error_mean"], 1)])
    shown = " ".join(shlex.quote(a) for a in record[:-1])
    return table(["profile", "resident", "experts touched", "over static", "over TIDE", "nobody above (over static)",
                  "hits static / TIDE / hybrid", "MB moved", "prediction off"], rows) + commands(
        [f"{shown} routing.jsonl", *(setting("llada-moe-7b", p, " --routing routing.jsonl") for p in PROFILES)])


def sensitivity():
    rows, used = [], []
    for geometry, profile in (*((g, "a6000-pcie4") for g in AUTOREGRESSIVE), *((g, p) for g in DIFFUSION for p in PROFILES)):
        arguments = setting(geometry, profile, " --sensitivity")
        used.append(arguments)
        for row in run(arguments)["sensitivity"]:
            phases = [f"{p['phase']} {p['speed_up_over_static']:.2f}" +
                      (f" / {p['speed_up_over_tide']:.2f}" if "speed_up_over_tide" in p else "") for p in row["phases"]]
            value = f"{row['value']:.4g}" if row["unit"] else ""
            rows.append([geometry, profile, row["number"], value, ", ".join(phases)])
    return table(["model", "profile", "number", "value", "hybrid over static / over TIDE"], rows) + commands(used)


BENCH = ("bench --preset llada2-mini:q4_0 --moe --rows 32 --experts-on-device 25% --profile rtx4060-pcie4",
         "bench --preset llada2-mini:q4_0 --moe --rows 32 --experts-on-device 50% --profile rtx4060-pcie4",
         "bench --preset llada-moe-7b:q4_0 --moe --rows 32 --experts-on-device 25% --profile rtx4060-pcie4")


def bench():
    rows, machine = [], ""
    for arguments in BENCH:
        report = run(arguments)
        r = report["moe_hybrid"]
        c = r["host_costs"]
        machine = f"{report['machine']['cpu']}, {report['machine']['threads']} threads"
        for l in r["lines"]:
            pairs = ", ".join(f"{x['predicted_ms']:.2f} / {x['real_ms']:.2f}" for x in l["layers"])
            u = l["utilisation"]
            rows.append([arguments.split()[2], percent(r["experts_on_device"]), l["name"], pairs,
                         f"{l['step_ms']:.1f}", percent(l["makespan_error_mean"]), percent(l["hit_rate"]),
                         f"{l['moved_bytes_per_step'] / 1e6:.0f}",
                         " / ".join(f"{100 * u[k]:.0f}" for k in ("host", "accelerator", "link")) + " %"])
        rows.append([arguments.split()[2], percent(r["experts_on_device"]), "costs found",
                     f"{c['first_us']:.0f} us a layer, {c['stream_gb_per_s']:.1f} GB/s, {c['row_us']:.1f} us a row", "", "", "", "", ""])
    return [f"On {machine}.", "", *table(["model", "resident", "line", "each layer, predicted / real ms", "four layers, real ms",
                                          "off", "hits", "MB moved", "CPU / accel. / link busy"], rows)] + commands(BENCH)


TABLES = {"hits": hits, "hybrimoe": hybrimoe, "ablation": ablation, "diffusion": diffusion, "recorded": recorded,
          "sensitivity": sensitivity, "bench": bench}


def replaced(text, name, lines):
    """The page with one table replaced."""
    pattern = re.compile(rf"(<!-- {name}: begin[^\n]*-->\n).*?(<!-- {name}: end -->)", re.S)
    if len(pattern.findall(text)) != 1:
        sys.exit(f"moe_docs.py: docs/moe.md: needed one place for the table '{name}'")
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
