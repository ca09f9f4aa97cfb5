#!/usr/bin/env python3
"""Draws the lanes of a trace that `llada-study simulate --trace FILE` wrote (docs/lab/npu-lanes.svg).

usage: lanes_svg.py TRACE SVG [TITLE]"""
import html
import json
import math
import sys

WIDTH, LEFT, TOP, ROW, GAP = 960, 60, 54, 34, 12
COLOURS = {"matrix products": "#2563eb", "attention": "#0d9488", "LM head": "#7c3aed", "mapping a slab": "#d97706",
           "other": "#94a3b8"}
STYLE = ("<style>.bg{fill:#fff}text{fill:#1f2937}.axis{stroke:#9ca3af}@media(prefers-color-scheme:dark)"
         "{.bg{fill:#111827}text{fill:#e5e7eb}}</style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>")


def colour(lane, name):
    if lane in ("map", "dma"):
        return COLOURS["mapping a slab"]
    for begin, kind in (("head", "LM head"), ("matmul", "matrix products"), ("attention", "attention")):
        if name.startswith(begin):
            return COLOURS[kind]
    return COLOURS["other"]


def merged(spans, lane, scale):
    """Neighbours of one colour that touch are one rectangle: a pass has hundreds of ops."""
    out = []
    for begin, end, name in spans:
        fill = colour(lane, name)
        if out and out[-1][2] == fill and (begin - out[-1][1]) * scale < 0.2 and lane not in ("map", "dma"):
            out[-1][1] = end
        else:
            out.append([begin, end, fill])
    return out


def picture(events, title):
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    lanes = {}
    for e in events:
        if e["ph"] == "X" and e["ts"] + e["dur"] > 0:
            span = (max(0, e["ts"] / 1e6), (e["ts"] + e["dur"]) / 1e6, e["name"])
            lanes.setdefault(names[e["tid"]], []).append(span)
    order = [lane for lane in ("npu", "accelerator", "cpu", "map", "dma") if lane in lanes]
    last = max(end for spans in lanes.values() for _, end, _ in spans)
    scale = (WIDTH - LEFT - 16) / last
    axis = TOP + len(order) * (ROW + GAP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {axis + 52}" font-family="sans-serif" '
           'font-size="13">', STYLE, f'<text x="{LEFT}" y="24" font-size="15">{html.escape(title, quote=False)}</text>']
    for row, lane in enumerate(order):
        y = TOP + row * (ROW + GAP)
        out.append(f'<text x="12" y="{y + ROW * 0.62:.0f}">{lane}</text>')
        for begin, end, fill in merged(lanes[lane], lane, scale):
            out.append(f'<rect x="{LEFT + begin * scale:.2f}" y="{y}" width="{max(0.15, (end - begin) * scale):.2f}" '
                       f'height="{ROW}" fill="{fill}"/>')
    out.append(f'<line class="axis" x1="{LEFT}" y1="{axis}" x2="{WIDTH - 16}" y2="{axis}"/>')
    tick = 10 ** math.floor(math.log10(last / 4))
    step, t = tick * math.ceil(last / tick / 8), 0
    while t <= last + tick / 2:
        out.append(f'<text x="{LEFT + t * scale:.1f}" y="{axis + 18}" text-anchor="middle">{t:g} s</text>')
        t = round((t + step) / tick) * tick
    for i, (name, fill) in enumerate(COLOURS.items()):
        x = LEFT + 140 * i
        out.append(f'<rect x="{x}" y="{axis + 28}" width="12" height="12" fill="{fill}"/>'
                   f'<text x="{x + 17}" y="{axis + 39}">{name}</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    trace, svg, *title = sys.argv[1:] if len(sys.argv) in (3, 4) else sys.exit(__doc__)
    with open(trace, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    with open(svg, "w", encoding="utf-8") as file:
        file.write(picture(events, title[0] if title else "lanes of three block passes, modelled"))


if __name__ == "__main__":
    main()
