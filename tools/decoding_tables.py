#!/usr/bin/env python3
"""Writes the tables of docs/lab/decoding.md and long-answers.md from reports of `llada eval --json`; decoding_docs.sh calls it.

usage: decoding_tables.py FOLDER DOCUMENT
       decoding_tables.py --self-test

FOLDER holds TABLE/TASK.json (one report per table and task). In DOCUMENT, whatever stands between "<!-- table NAME -->"
and "<!-- end -->" is replaced: TABLE by its strategies over the three tasks that were learned first, or over the six with
long answers; TABLE-tasks by each task for itself. Where the reports of a table have no reference, its one is that of the
reports in TABLE-reference, of fewer examples, and the table has modelled seconds in place of what compares answers: what
phones would take for the recorded forwards (TABLE/TASK.recording), by the times in TABLE/PROFILE.latency
(`llada-study simulate --latency ... --json`).
"""
import json
import math
import pathlib
import re
import sys
import tempfile

from price_recordings import milliseconds, price
from recordings import entries

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

    right = round(mean("accuracy") * n)
    out = {"n": n, "accuracy": right / n, "ci": wilson(right, n), "nfe": mean("nfe_mean"), "rows": mean("rows_mean")}
    if "agreement" not in scores[0]:  # measured without a reference
        return out
    same, tokens = round(mean("agreement") * n), sum(s.get("scored_tokens", 0) for s in scores)
    return out | {
        "agreement": same / n, "agreement_ci": wilson(same, n),
        "edits": mean("edit_distance_mean"), "difference": mean("accuracy_difference"),
        "log_p": sum(s["log_probability_per_token"] * s["scored_tokens"] for s in scores if s.get("scored_tokens")) / tokens,
    }


def share(s):
    return f"{100 * s['accuracy']:.1f} ({100 * s['ci'][0]:.1f} to {100 * s['ci'][1]:.1f})"


def cells(s, base):
    return (f"{share(s)} | {100 * s['difference']:+.1f} | "
            f"{100 * s['agreement']:.1f} ({100 * s['agreement_ci'][0]:.1f} to {100 * s['agreement_ci'][1]:.1f}) | "
            f"{s['edits']:.2f} | {s['log_p']:.4f} | {s['nfe']:.2f} (1/{base['nfe'] / s['nfe']:.1f}) | "
            f"{s['rows']:.0f} (1/{base['rows'] / s['rows']:.1f})")


HEAD = ("answer, % (95 %) | diff | same, % (95 %) | edits | log p | forwards | rows |\n",
        "---|---|---|---|---|---|---|\n")


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
        reference = report.get("reference")
        for result in [*([reference] if reference else []), *report["results"]]:
            options = "" if result is reference else result["options"]
            names[result["name"]] = re.sub(r"^(--preset-decode exact )?--gen-length \S+ ?", "", options)  # it is the whole table's
            scores.setdefault(task, {})[result["name"]] = result["tasks"][task]
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


def seconds_of(folder, profiles, total):
    """-> {strategy: modelled seconds of an answer by each profile}. total: the reference's scores. It is not recorded: its
    forwards have about the same rows each."""
    sums = {}
    for path in sorted(folder.glob("*.recording")):
        for name, counts in price(entries(path), *profiles.values()).items():
            sums[name] = [a + b for a, b in zip(sums.get(name, [0] * len(counts)), counts)]
    out = {name: [ms / answers / 1e3 for ms in each] for name, (answers, _, _, *each) in sums.items()}
    if total:
        out["reference"] = [total["nfe"] * milliseconds(times, total["rows"] / total["nfe"]) / 1e3 for times in profiles.values()]
    return out


def ladder(folder, rows, scores, base="block cache"):
    """Accuracy, forwards, rows and modelled seconds with their ratio to `base`, the reference of fewer examples first."""
    totals = {name: pooled([task[name] for task in scores.values() if name in task]) for name, _ in rows}
    profiles = {path.stem: [(p["rows"], p["ms"]) for p in json.loads(path.read_text())["latency"]]
                for path in sorted(folder.glob("*.latency"))}
    of_reference = load(folder.with_name(f"{folder.name}-reference"))[1]
    if of_reference:
        totals["reference"] = pooled([task["reference"] for task in of_reference.values()])
        rows = [("reference", ""), *rows]
    seconds = seconds_of(folder, profiles, totals.get("reference"))
    head = ["strategy", "options", "answers", "answer, % (95 %)", "forwards", "rows", *(f"s, `{p}`" for p in profiles)]
    out = f"| {' | '.join(head)} |\n" + "|---" * len(head) + "|\n"
    for name, options in rows:
        s, mine = totals[name], seconds.get(name)
        out += (f"| {name} | {option_cell(options)} | {s['n']} | {share(s)} | {s['nfe']:.1f} | {s['rows']:.0f} |")
        for i in range(len(profiles)):  # not recorded: an empty cell
            out += f" {mine[i]:.1f} ({seconds.get(base, mine)[i] / mine[i]:.1f}x) |" if mine else " |"
        out += "\n"
    return out


def ladder_tasks(rows, scores):
    """Right answers in per cent, a column a task."""
    out = "| strategy | " + " | ".join(f"{task} ({next(iter(scores[task].values()))['n']})" for task in scores) + " |\n|---|"
    out += "---|" * len(scores) + "\n"
    for name, _ in rows:
        out += f"| {name} | " + " | ".join(f"{100 * scores[task][name]['accuracy']:.1f}" for task in scores) + " |\n"
    return out


def filled(folder, text):
    """The document's text with every table that was measured."""
    def fill(match):
        name = match.group(1)
        of, each = folder / name.removesuffix("-tasks"), name.endswith("-tasks")
        rows, scores = load(of)
        if not scores:  # not measured: what stands there stays
            return match.group(0)
        if all("reference" not in found for found in scores.values()):
            table = ladder_tasks(rows, scores) if each else ladder(of, rows, scores)
        else:
            table = by_task(rows, scores) if each else summary(rows, scores)
        return f"<!-- table {name} -->\n{table}<!-- end -->"

    return re.sub(r"<!-- table (\S+) -->\n.*?<!-- end -->", fill, text, flags=re.DOTALL)


def self_test():
    task = {"n": 10, "accuracy": 0.5, "nfe_mean": 20.0, "rows_mean": 640.0}
    other = {**task, "n": 30, "accuracy": 0.9, "nfe_mean": 40.0, "rows_mean": 2560.0}
    compared = {**task, "agreement": 1.0, "edit_distance_mean": 0, "accuracy_difference": 0, "scored_tokens": 7,
                "log_probability_per_token": -0.25}
    result = lambda name, task_name, scores: {"name": name, "options": f"--gen-length auto:384 --{name[0]}", "tasks": {task_name: scores}}
    recorded = [{"format": "llada-recording"},
                {"run": {"strategy": "block cache"}}, *[{"step": {"rows": [[0, 48]]}}] * 20, {"end": {}},
                {"run": {"strategy": "b"}}, *[{"step": {"rows": [[0, 32]]}}] * 14, {"end": {}}]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for table in ("long", "long-reference"):
            (folder / table).mkdir()
        (folder / "long/p.latency").write_text(json.dumps({"latency": [{"rows": 32, "ms": 50}, {"rows": 64, "ms": 90}]}))
        for of, scores in (("story", task), ("count", other)):
            (folder / f"long/{of}.json").write_text(json.dumps({"results": [result("block cache", of, scores), result("b", of, scores)]}))
            (folder / f"long/{of}.recording").write_text("".join(json.dumps(line) + "\n" for line in recorded))
            report = {"reference": {"name": "reference", "tasks": {of: compared}}, "results": [result("b", of, compared)]}
            (folder / f"long-reference/{of}.json").write_text(json.dumps(report))
        text = filled(folder, "".join(f"<!-- table {t} -->\nold\n<!-- end -->\n" for t in ("long", "long-tasks", "long-reference", "none")))
    assert "| reference |  | 20 | 50.0 (29.9 to 70.1) | 20.0 | 640 | 1.0 (1.4x) |" in text, text
    assert "| b | `--b` | 40 | 80.0 (65.2 to 89.5) | 35.0 | 2080 | 0.7 (2.0x) |" in text, text
    assert "| strategy | story (10) | count (30) |\n|---|---|---|\n| block cache | 50.0 | 90.0 |" in text, text
    assert "| b | `--b` | 50.0 (29.9 to 70.1) | +0.0 | 100.0 (83.9 to 100.0) | 0.00 | -0.2500 |" in text, text
    assert text.endswith("<!-- table none -->\nold\n<!-- end -->\n"), text
    print("self-test passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    folder, document = map(pathlib.Path, sys.argv[1:])
    document.write_text(filled(folder, document.read_text()))


if __name__ == "__main__":
    main()
