#!/usr/bin/env python3
"""Draws how many rows the forwards of a block compute, from its first to its last, out of recordings (docs/lab/long-answers.md).

    tools/rows_chart.py RECORDING SVG [--title TEXT]    # of `llada eval --record`; a panel for each of its strategies
    tools/rows_chart.py --self-test

A forward belongs to the 32 positions of the answer in which its first mask lies, so that strategies whose blocks slide
are counted alike. A bar is the mean over the blocks that have so many forwards; the share of blocks that do stands above
it. Forwards of the whole canvas are left out of the bars and counted beside them.
"""
import argparse
import collections
import html
import pathlib
import tempfile

import recordings
from readme_svg import svg

BLOCK, TILE = 32, 32  # positions; rows of a tile of an NPU's matrix unit
PARTS = {"masks of the block": "new", "masks behind it": "ahead", "checks": "check", "other rows": "other"}
STYLE = (".axis { stroke: var(--edge); } .tile { stroke: var(--soft); stroke-dasharray: 4 4; }\n.new { fill: var(--new); } "
         ".ahead { fill: #d97706; } .check { fill: #0d9488; } .other { fill: var(--edge); }\n")
WIDTH, LEFT, PANEL, GAP, BARS = 760, 56, 170, 74, 8


def size(ranges):
    return sum(end - begin for begin, end in ranges)


def life(entries):
    """-> {strategy: ([mean rows of each part of a block's n-th forward], [blocks that have one], whole forwards, all)}"""
    sums, blocks, whole, all_steps = {}, {}, collections.Counter(), collections.Counter()
    run, first, at, nth = None, 0, None, 0
    for row in entries:
        if "run" in row:
            run = row["run"]["strategy"]
            first, at = row["run"]["prompt_tokens"], None
            sums.setdefault(run, collections.defaultdict(collections.Counter))
            blocks.setdefault(run, collections.Counter())
        elif "step" in row:
            step = row["step"]
            all_steps[run] += 1
            if not step["wanted"] and not step["trials"]:
                continue
            mask = min([begin for begin, _ in step["wanted"]], default=step["block"][0])
            block = (mask - first) // BLOCK
            at, nth = block, nth + 1 if block == at else 0
            if size(step["rows"]) >= step["keys"]:  # the canvas as far as it is read
                whole[run] += 1
                continue
            checks = sum(rows for _, rows, *_ in step["trials"])
            end = first + (block + 1) * BLOCK
            inside = sum(max(0, min(e, end) - b) for b, e in step["wanted"])
            ahead = size(step["wanted"]) - inside
            blocks[run][nth] += 1
            sums[run][nth].update(dict(zip(PARTS, (inside, ahead, checks, size(step["rows"]) - inside - ahead))))
    return {name: ([{part: sums[name][n][part] / max(1, blocks[name][n]) for part in PARTS} for n in range(BARS)],
                   [blocks[name][n] for n in range(BARS)], whole[name], all_steps[name]) for name in sums}


def panel(name, bars, counts, whole, steps, most, y0):
    def y(rows):
        return y0 + PANEL * (1 - rows / most)

    wide = (WIDTH - LEFT - 24) / BARS
    body = (f'<text class="soft" x="{LEFT}" y="{y0 - 14}">{html.escape(name)}: {steps - whole} forwards of some rows, {whole} of '
            'all</text>\n')
    for rows in range(0, int(most) + 1, TILE):
        body += (f'<line class="{"tile" if rows else "axis"}" x1="{LEFT}" x2="{WIDTH - 24}" y1="{y(rows):.1f}" y2="{y(rows):.1f}"/>\n'
                 f'<text class="soft" x="{LEFT - 8}" y="{y(rows) + 4:.1f}" text-anchor="end">{rows}</text>\n')
    for n, (bar, count) in enumerate(zip(bars, counts)):
        top, x = 0, LEFT + n * wide + wide * 0.15
        for part, kind in PARTS.items():
            body += (f'<rect class="{kind}" x="{x:.1f}" y="{y(top + bar[part]):.1f}" width="{wide * 0.7:.1f}" '
                     f'height="{y(top) - y(top + bar[part]):.1f}"/>\n')
            top += bar[part]
        share = 100 * count / max(1, max(counts))
        if count:
            body += f'<text class="soft" x="{x + wide * 0.35:.1f}" y="{y(top) - 4:.1f}" text-anchor="middle">{share:.0f} %</text>\n'
        body += f'<text class="soft" x="{x + wide * 0.35:.1f}" y="{y0 + PANEL + 17}" text-anchor="middle">{n + 1}</text>\n'
    return body


def picture(strategies, title):
    most = max(sum(bar.values()) for bars, *_ in strategies.values() for bar in bars)
    most = TILE * (int(most) // TILE + 1)
    body, y0 = f'<text x="{LEFT - 32}" y="28">{html.escape(title)}</text>\n', 78
    for name, found in strategies.items():
        body += panel(name, *found, most, y0)
        y0 += PANEL + GAP
    for n, (part, kind) in enumerate(PARTS.items()):
        x = LEFT + n * 175
        body += (f'<rect class="{kind}" x="{x}" y="{y0 - 42}" width="12" height="12"/>'
                 f'<text class="soft" x="{x + 18}" y="{y0 - 32}">{part}</text>\n')
    return svg(WIDTH, y0 - 14, STYLE, body)


def self_test():
    def step(rows, wanted, trials=()):
        return {"step": {"rows": rows, "keys": 100, "block": [20, 52], "wanted": wanted, "trials": list(trials)}}

    entries = [{"run": {"strategy": "a < b", "prompt_tokens": 20}}, step([[0, 100]], [[20, 100]]),
               step([[20, 52]], [[22, 40], [52, 60]], [[30, 4, 1, 0.5]]), step([[50, 84]], [[52, 84]]), {"end": {}}]
    ((name, (bars, counts, whole, steps)),) = life(entries).items()
    assert (name, whole, steps) == ("a < b", 1, 3) and counts[:3] == [1, 1, 0], (counts, whole, steps)
    assert bars[0] == {"masks of the block": 32, "masks behind it": 0, "checks": 0, "other rows": 2}, bars[0]
    assert bars[1] == {"masks of the block": 18, "masks behind it": 8, "checks": 4, "other rows": 6}, bars[1]
    drawn = picture(life(entries), "rows")
    assert "a &lt; b: 2 forwards of some rows, 1 of all" in drawn and drawn.count("<rect") == 4 * BARS + len(PARTS) + 1, drawn
    with tempfile.TemporaryDirectory() as folder:
        broken = pathlib.Path(folder, "r.jsonl")
        broken.write_text('{"format":"llada-recording"}\n{"run":{"strategy":"a","prompt_tokens":1}}\n')
        assert "a run without an end" in recordings.refusal(lambda: life(recordings.entries(broken)))
    print("self-test passed")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("recording", nargs="?")
    parser.add_argument("svg", nargs="?")
    parser.add_argument("--title", default="Rows of a block's forwards, from its first to its last")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if not arguments.svg:
        parser.error("needed a recording and where the picture goes")
    pathlib.Path(arguments.svg).write_text(picture(life(recordings.entries(arguments.recording)), arguments.title))


if __name__ == "__main__":
    main()
