#!/usr/bin/env python3
"""Draws accuracy against forwards and against rows per example, both on logarithmic axes, with 95 % intervals.

    tools/decoding_chart.py                                   # those of docs/img, from the tables of the documents
    tools/decoding_chart.py -o FILE.svg SOURCE...             # a source is DOCUMENT.md:TABLE, a table that
                                                              # tools/decoding_tables.py wrote, or a report of
                                                              # `llada eval --json` (all its tasks together)
    tools/decoding_chart.py --self-test

What has one name in several sources, or costs and answers the same, is drawn once. The line joins what nothing else
beats at its cost. The picture depends on its sources alone and follows the reader's light or dark colours.
"""
import argparse
import html
import json
import math
import pathlib
import re
import tempfile

from decoding_tables import wilson
from readme_svg import IMAGES, ROOT, svg

# Those of docs/img: title and sources.
PICTURES = {
    "decoding.svg": ("Accuracy and cost of decoding (tiny-llada, 600 examples, 95 % intervals)",
                     ["docs/lab/decoding.md:presets", "docs/lab/decoding.md:ladder"]),
    "long.svg": ("Long answers: accuracy and cost of decoding (tiny-llada-long, 95 % intervals)",
                 ["docs/lab/long-answers.md:long"]),
}
WIDTH, LEFT, RIGHT, TOP, HEIGHT, GAP, LINE = 760, 56, 24, 44, 230, 66, 19
STYLE = (".axis { stroke: var(--edge); } .ci { stroke: var(--soft); stroke-width: 1.2; } .dot { fill: var(--soft); }\n"
         ".best { fill: var(--new); } .front { stroke: var(--new); stroke-width: 1.5; fill: none; opacity: 0.6; }\n")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def from_table(source):
    """-> [strategy] of DOCUMENT.md:TABLE"""
    path, name = source.rsplit(":", 1)
    match = re.search(rf"<!-- table {re.escape(name)} -->\n(.*?)<!-- end -->", pathlib.Path(ROOT, path).read_text(), re.DOTALL)
    if match is None:
        raise SystemExit(f"decoding_chart.py: {path}: found no table {name}")
    lines = [[c.strip() for c in l.strip("| ").split("|")] for l in match.group(1).splitlines()]
    head, rows = lines[0], lines[2:]
    at = {key: next(i for i, cell in enumerate(head) if cell.startswith(key)) for key in ("strategy", "answer,", "forwards", "rows")}
    out = []
    for row in rows:
        right, low, high = (float(n) for n in NUMBER.findall(row[at["answer,"]])[:3])
        out.append({"name": row[at["strategy"]], "right": right, "low": low, "high": high,
                    "forwards": float(NUMBER.match(row[at["forwards"]])[0]), "rows": float(NUMBER.match(row[at["rows"]])[0])})
    return out


def from_report(path):
    """-> [strategy] of a report of llada eval --json"""
    report = json.loads(pathlib.Path(path).read_text())
    results = ([report["reference"]] if report.get("reference") else []) + report["results"]
    out = []
    for result in results:
        tasks = list(result["tasks"].values())
        n = sum(t["n"] for t in tasks)
        right = round(sum(t["accuracy"] * t["n"] for t in tasks))
        low, high = wilson(right, n)
        out.append({"name": result["name"], "right": 100 * right / n, "low": 100 * low, "high": 100 * high,
                    "forwards": sum(t["nfe_mean"] * t["n"] for t in tasks) / n,
                    "rows": sum(t["rows_mean"] * t["n"] for t in tasks) / n})
    return out


def strategies_of(sources):
    found = []
    for source in sources:
        for new in from_report(source) if source.endswith(".json") else from_table(source):
            same = (new["right"], new["forwards"], new["rows"])
            if all(new["name"] != s["name"] and same != (s["right"], s["forwards"], s["rows"]) for s in found):
                found.append(new)
    return found


def frontier(strategies, cost):
    """What is more accurate than everything cheaper."""
    out = []
    for s in sorted(strategies, key=lambda s: (s[cost], -s["right"])):
        if not out or s["right"] > out[-1]["right"]:
            out.append(s)
    return out


def ticks(low, high):
    """1, 2 and 5 times powers of ten."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [v for p in powers for v in (10 ** p, 2 * 10 ** p, 5 * 10 ** p) if low <= v <= high]


def panel(strategies, cost, y0):
    """One pair of axes whose upper left corner is at (LEFT, y0)."""
    low, high = min(s[cost] for s in strategies) / 1.25, max(s[cost] for s in strategies) * 1.25
    floor = 5 * math.floor(min(s["low"] for s in strategies) / 5)

    def x(value):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(value / low) / math.log(high / low)

    def y(percent):
        return y0 + HEIGHT * (100 - percent) / (100 - floor)

    body = f'<text class="soft" x="{LEFT}" y="{y0 - 12}">right answers, % over {cost} per example (logarithmic)</text>\n'
    for percent in range(floor, 101, 5):
        body += (f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(percent):.1f}" y2="{y(percent):.1f}"/>\n'
                 f'<text class="soft" x="{LEFT - 8}" y="{y(percent) + 4:.1f}" text-anchor="end">{percent}</text>\n')
    for value in ticks(low, high):
        body += f'<text class="soft" x="{x(value):.1f}" y="{y0 + HEIGHT + 18}" text-anchor="middle">{value:g}</text>\n'
    best = frontier(strategies, cost)
    points = " ".join(f"{x(s[cost]):.1f},{y(s['right']):.1f}" for s in best)
    body += f'<polyline class="front" points="{points}"/>\n'
    taken = [(x(s[cost]) - 4, y(s["right"]) + 4) for s in strategies]  # by dots, then by numbers too
    for number, s in enumerate(strategies, 1):
        cx, cy = x(s[cost]), y(s["right"])
        kind = "best" if s in best else "dot"
        body += (f"<line class='ci' x1='{cx:.1f}' x2='{cx:.1f}' y1='{y(s['high']):.1f}' y2='{y(s['low']):.1f}'/>\n"
                 f'<circle class="{kind}" cx="{cx:.1f}" cy="{cy:.1f}" r="5"/>\n')
        spots = [(cx + dx, cy + dy) for far in (0, 16, 32, 48) for dy in (4 - far, 4 + far) for dx in (9 + far / 2, -24 - far / 2)]
        spot = next((p for p in spots if all(abs(p[0] - q[0]) > 17 or abs(p[1] - q[1]) > 12 for q in taken)), spots[0])
        taken.append(spot)
        body += f'<text class="soft" x="{spot[0]:.1f}" y="{spot[1]:.1f}">{number}</text>\n'
    return body


def picture(strategies, title):
    body = f'<text x="{LEFT - 32}" y="28">{html.escape(title)}</text>\n'
    y0 = TOP + 24
    for cost in ("forwards", "rows"):
        body += panel(strategies, cost, y0)
        y0 += HEIGHT + GAP
    for number, s in enumerate(strategies, 1):
        text = f"{number:2} {s['name']}: {s['right']:.1f} % right, {s['forwards']:.1f} forwards, {s['rows']:.0f} rows"
        body += f'<text class="soft" x="{LEFT - 32}" y="{y0 - 16 + (number - 1) * LINE}">{html.escape(text)}</text>\n'
    return svg(WIDTH, y0 + len(strategies) * LINE - 8, STYLE, body)


def self_test():
    assert ticks(2, 60) == [2, 5, 10, 20, 50], ticks(2, 60)
    made = [{"name": n, "right": r, "low": r - 5, "high": r + 4, "forwards": f, "rows": f * 100}
            for n, r, f in (("a", 90, 10), ("b", 80, 2), ("c", 79, 3), ("d", 90, 50))]
    assert [s["name"] for s in frontier(made, "forwards")] == ["b", "a"], "c and d are beaten"
    drawn = picture(made, "a < b")
    assert drawn.count("<circle") == 8 and drawn.count('class="best"') == 4 and "a &lt; b" in drawn, drawn
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "r.json")
        task = {"n": 10, "accuracy": 0.9, "nfe_mean": 3.0, "rows_mean": 300.0}
        report.write_text(json.dumps({"results": [{"name": "x", "tasks": {"t": task, "u": {**task, "n": 30, "nfe_mean": 7.0}}}]}))
        (one,) = strategies_of([str(report), str(report)])
        assert (one["right"], one["forwards"], one["rows"]) == (90, 6, 300) and one["low"] < 90 < one["high"], one
    for name, (title, sources) in PICTURES.items():
        tables = strategies_of(sources)
        assert len(tables) > 8 and tables[0]["name"] in ("reference", "block cache"), name
        assert all(t["low"] <= t["right"] <= t["high"] for t in tables), name
        assert (IMAGES / name).read_text() == picture(tables, title), f"docs/img/{name} is not of the present tables"
    print("self-test passed")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("-o", help="where the picture of the sources goes")
    parser.add_argument("--title", default="Accuracy and cost of decoding")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("sources", nargs="*")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if bool(arguments.sources) != bool(arguments.o):
        parser.error("needed both -o FILE and sources, or neither")
    if arguments.o:
        pathlib.Path(arguments.o).write_text(picture(strategies_of(arguments.sources), arguments.title))
        return
    for name, (title, sources) in PICTURES.items():
        (IMAGES / name).write_text(picture(strategies_of(sources), title))


if __name__ == "__main__":
    main()
