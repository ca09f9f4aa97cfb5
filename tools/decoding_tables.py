#!/usr/bin/env python3
"""Writes the tables of docs/decoding.md and docs/lab/decoding.md from the reports of `llada eval --json`; tools/decoding_docs.sh calls it.

usage: decoding_tables.py FOLDER DOCUMENT

FOLDER holds TABLE/TASK.json (one report per table and task). In DOCUMENT, whatever stands between "<!-- table NAME -->"
and "<!-- end -->" is replaced: TABLE by its strategies over the three tasks that were learned first, or over the six with
long answers; TABLE-tasks by each task for itself; TABLE-priced by what phones would take for the recorded forwards
(TABLE/TASK.recording), whose times are in TABLE/PROFILE.latency (`llada simulate --latency ... --json`).
"""
import json
import math
import pathlib
import re
import sys

from price_recordings import price

SOLVED = ["gsm-mini", "json", "sort"]
LONG = ["story", "records", "sort-steps", "rewrite", "form", "count"]
Z = 1.959963984540054


def wilson(right, n):
    p = right / n
    centre, half = (p + Z * Z / (2 * n)) / (1 + Z * Z / n), Z / (1 + Z * Z / n) * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    return max(0, centre - half), min(1, centre + half)


def pooled(scores):
    """Scores of several tasks as one: counts add up, log-probabilities are weighted by their tokens."""
    n = sum(s["n"] for s in scores)

    def mean(key):
        return sum(s[key] * s["n"] for s in scores) / n

    right, same = round(mean("accuracy") * n), round(mean("agreement") * n)
    tokens = sum(s.get("scored_tokens", 0) for s in scores)
    return {
        "n": n, "accuracy": right / n, "ci": wilson(right, n), "agreement": same / n, "agreement_ci": wilson(same, n),
        "edits": mean("edit_distance_mean"), "nfe": mean("nfe_mean"), "rows": mean("rows_mean"),
        "seconds": mean("cpu_seconds_mean"), "difference": mean("accuracy_difference"),
        "log_p": sum(s["log_probability_per_token"] * s["scored_tokens"] for s in scores if s.get("scored_tokens")) / tokens,
    }


def cells(s, base):
    return (f"{100 * s['accuracy']:.1f} ({100 * s['ci'][0]:.1f} to {100 * s['ci'][1]:.1f}) | {100 * s['difference']:+.1f} | "
            f"{100 * s['agreement']:.1f} ({100 * s['agreement_ci'][0]:.1f} to {100 * s['agreement_ci'][1]:.1f}) | "
            f"{s['edits']:.2f} | {s['log_p']:.4f} | {s['nfe']:.2f} (1/{base['nfe'] / s['nfe']:.1f}) | "
            f"{s['rows']:.0f} (1/{base['rows'] / s['rows']:.1f}) | {1000 * s['seconds']:.1f}")


HEAD = ("answer, % (95 %) | diff | same, % (95 %) | edits | log p | forwards | rows | CPU ms |\n",
        "---|---|---|---|---|---|---|---|\n")


def option_cell(options):
    return f"`{options}`" if options else ""


def load(folder):
    """-> ([(name, options)], {task: {name: score}}), the reference first"""
    names, scores = {}, {}
    for task in [*SOLVED, "bool", "choice", *LONG]:
        path = folder / f"{task}.json"
        if not path.exists():
            continue
        report = json.loads(path.read_text())
        for result in [report["reference"], *report["results"]]:
            options = "" if result is report["reference"] else result["options"]
            names[result["name"]] = re.sub(r"^--gen-length \S+ ?", "", options)  # it is the whole table's
            scores.setdefault(task, {})[result["name"]] = result["tasks"][task]
        times = json.loads((folder / f"{task}.times.json").read_text())
        for result in times["results"]:
            scores[task][result["name"]]["cpu_seconds_mean"] = result["tasks"][task]["cpu_seconds_mean"]
    return list(names.items()), scores


def summary(rows, scores):
    tasks = [task for task in SOLVED + LONG if task in scores]
    base = pooled([scores[task]["reference"] for task in tasks])
    out = "| strategy | options | " + HEAD[0] + "|---|---|" + HEAD[1]
    for name, options in rows:
        if all(name in scores[task] for task in tasks):
            out += f"| {name} | {option_cell(options)} | {cells(pooled([scores[task][name] for task in tasks]), base)} |\n"
    return out


def by_task(rows, scores):
    out = "| task | strategy | " + HEAD[0] + "|---|---|" + HEAD[1]
    for task in scores:
        base = pooled([scores[task]["reference"]])
        for name, _ in rows:
            if name in scores[task]:
                out += f"| {task} | {name} | {cells(pooled([scores[task][name]]), base)} |\n"
    return out


def priced(folder, base="block cache"):
    """Forwards and rows per answer of the recorded strategies, and modelled seconds with their ratio to `base`."""
    profiles, sums = sorted(path.stem for path in folder.glob("*.latency")), {}
    for profile in profiles:
        points = json.loads((folder / f"{profile}.latency").read_text())["latency"]
        times = [(point["rows"], point["ms"]) for point in points]
        for path in sorted(folder.glob("*.recording")):
            with path.open() as lines:
                for name, found in price(lines, times).items():
                    counts = sums.setdefault(name, {}).setdefault(profile, [0, 0, 0, 0.0])
                    counts[:] = [a + b for a, b in zip(counts, found)]
    if not sums:
        return ""
    out = "| strategy | forwards | rows | " + " | ".join(f"s, `{p}`" for p in profiles) + " |\n"
    out += "|---|---|---|" + "---|" * len(profiles) + "\n"
    for name, by_profile in sums.items():
        n, forwards, rows, _ = by_profile[profiles[0]]
        out += f"| {name} | {forwards / n:.1f} | {rows / n:.0f} |"
        for profile in profiles:
            seconds, first = (sums[s][profile][3] / sums[s][profile][0] / 1e3 for s in (name, base if base in sums else name))
            out += f" {seconds:.2f} ({first / seconds:.2f}x) |"
        out += "\n"
    return out


def main():
    folder, document = map(pathlib.Path, sys.argv[1:])

    def fill(match):
        name = match.group(1)
        if name.endswith("-priced"):
            table = priced(folder / name.removesuffix("-priced"))
            return f"<!-- table {name} -->\n{table}<!-- end -->" if table else match.group(0)
        rows, scores = load(folder / name.removesuffix("-tasks"))
        if not scores:  # not measured: what stands there stays
            return match.group(0)
        table = by_task(rows, scores) if name.endswith("-tasks") else summary(rows, scores)
        return f"<!-- table {name} -->\n{table}<!-- end -->"

    text = document.read_text()
    document.write_text(re.sub(r"<!-- table (\S+) -->\n.*?<!-- end -->", fill, text, flags=re.DOTALL))


if __name__ == "__main__":
    main()
