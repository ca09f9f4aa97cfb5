#!/usr/bin/env python3
"""Draws the pictures of README.md: docs/img/answer.svg and docs/img/peers.svg.

    tools/readme_svg.py                          # both; the answer is decoded anew with build/release/bin/llada
    tools/readme_svg.py answer [RECORDING]       # one prompt as `llada eval --record` wrote it, its first run
    tools/readme_svg.py peers                    # speed beside peers, from the table of docs/lab/benchmarks.md
    tools/readme_svg.py --self-test

LLADA names another program, MODEL another model folder. The pictures depend on the recording and the document alone,
so they are the same on every machine. They follow the reader's light or dark colours; whoever asks for less motion
sees the finished answer.
"""
import html
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "img"
BENCHMARKS = ROOT / "docs" / "lab" / "benchmarks.md"
MODEL = pathlib.Path(os.environ.get("MODEL", ROOT / "models" / "tiny-llada"))
LLADA = os.environ.get("LLADA", str(ROOT / "build/release/bin/llada"))
EXAMPLE = {"task": "gsm-mini", "answer": "43", "response": "", "prompt":
           "Fred has 20 puzzles. Ken has 6 more than Fred. Theo has 3 fewer than Ken. "
           "How many puzzles do Fred and Theo have together?"}
OPTIONS = "--preset-decode balanced"

STYLE = """
svg { --card: #f6f8fa; --edge: #d0d7de; --text: #1f2328; --soft: #59636e; --new: #1a7f37; --mask: #c8d1da; }
@media (prefers-color-scheme: dark) {
  svg { --card: #161b22; --edge: #30363d; --text: #e6edf3; --soft: #9198a1; --new: #3fb950; --mask: #3d444d; }
}
.card { fill: var(--card); stroke: var(--edge); }
text { fill: var(--text); font: 15px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; }
.soft { fill: var(--soft); font-size: 13px; }
.mask { fill: var(--mask); }
"""


def svg(width, height, style, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
            f"<style>{STYLE}{style}</style>\n"
            f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>\n{body}</svg>\n')


# The answer ----------------------------------------------------------------------------------------------------------

def byte_alphabet():
    """Byte-level BPE writes a byte as one printable character: this maps the character back to the byte."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in kept]
    return {**{chr(b): b for b in kept}, **{chr(256 + i): b for i, b in enumerate(others)}}


def token_texts(folder):
    """Token id -> text; special tokens have none."""
    alphabet = byte_alphabet()
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    texts = {i: bytes(alphabet[c] for c in t if c in alphabet).decode(errors="replace")
             for t, i in tokenizer["model"]["vocab"].items()}
    texts.update({t["id"]: "" for t in tokenizer["added_tokens"] if t["special"]})
    return texts


def first_run(lines):
    """-> (first generated position, [edits of each forward]) of the first run of a recording"""
    steps, start = [], None
    for line in map(json.loads, lines):
        if "run" in line:
            start = line["run"]["prompt_tokens"]
        elif "step" in line:
            steps.append(line["step"]["edits"])
        elif "end" in line:
            break
    return start, steps


CELL, LINE, LEFT, TOP = 9.0, 24, 24, 66  # pixels: a character, a line, where the answer begins
SECONDS, START, HOLD = 0.9, 1.2, 4.0     # of a forward, of the masks before the first one, of the finished answer


def answer_picture(lines, texts, prompt, options):
    start, steps = first_run(lines)
    shown = {}  # position -> [(forward, text)], forwards counted from 1
    for number, edits in enumerate(steps, 1):
        for position, token, state, _ in edits:
            history = shown.setdefault(position, [])
            text = None if state == "masked" else texts.get(token, "")
            if not history or history[-1][1] != text:  # else it was only looked at again
                history.append((number, text))
    total = START + SECONDS * (len(steps) - 1) + HOLD

    def at(number):  # when forward `number` is done, in percent of the loop
        return f"{100 * (START + SECONDS * (number - 1)) / total:.2f}%"

    style = f"text, rect {{ animation-duration: {total:.1f}s; animation-timing-function: step-end; " \
            "animation-iteration-count: infinite; }\n.off { opacity: 0; }\n"
    for n in range(1, len(steps) + 1):
        ends = at(n + 1) if n < len(steps) else f"{100 * (total - HOLD + SECONDS) / total:.2f}%"
        style += (f"@keyframes t{n} {{ 0% {{ opacity: 0 }} {at(n)} {{ opacity: 1; fill: var(--new) }} "
                  f"{ends} {{ opacity: 1; fill: var(--text) }} }}\n.t{n} {{ animation-name: t{n} }}\n"
                  f"@keyframes m{n} {{ 0% {{ opacity: 1 }} {at(n)} {{ opacity: 0 }} }}\n.m{n} {{ animation-name: m{n} }}\n")
    style += "@media (prefers-reduced-motion: reduce) { text, rect { animation: none !important } }\n"

    # The finished text gives every token its place; end tokens and padding stand one cell wide behind it.
    body, column, row, columns, decided = "", 0, 0, 0, []
    for position in sorted(p for p in shown if p >= start):
        history = shown[position]
        if len(history) > 1:
            raise SystemExit(f"readme_svg.py: position {position} was decided {len(history)} times; needed a run that decides once")
        number, text = history[0]
        decided.append(number)
        visible = text.rstrip("\n")
        width = max(1, len(visible))
        x, y = LEFT + column * CELL, TOP + row * LINE
        body += (f'<rect class="mask off m{number}" x="{x + 1:.0f}" y="{y - 14}" width="{width * CELL - 2:.0f}" '
                 f'height="18" rx="3"/>\n')
        if visible.strip():
            body += (f'<text class="t{number}" x="{x:.0f}" y="{y}" textLength="{width * CELL:.0f}" '
                     f'xml:space="preserve">{html.escape(visible)}</text>\n')
        column += width
        columns = max(columns, column)
        if "\n" in text:
            column, row = 0, row + 1
    for n in range(0, len(steps) + 1):  # one caption for the masks, one for every forward
        until = f"{at(n + 1)} {{ opacity: 0 }}" if n < len(steps) else ""
        begin = "0% { opacity: 1 }" if n == 0 else f"0% {{ opacity: 0 }} {at(n)} {{ opacity: 1 }}"
        style += f"@keyframes c{n} {{ {begin} {until} }}\n.c{n} {{ animation-name: c{n} }}\n"
        done = sum(d <= n for d in decided)
        last = " off" if n < len(steps) else ""
        body += (f'<text class="soft c{n}{last}" x="{LEFT}" y="{TOP + (row + 1) * LINE + 12}">'
                 f"forward {n} of {len(steps)}: {done} of {len(decided)} positions decided</text>\n")
    words, prompts = prompt.split(), [""]
    width = int(max(660, 2 * LEFT + columns * CELL))
    for word in words:
        if len(prompts[-1]) + len(word) + 1 > (width - 2 * LEFT) / 7.9:
            prompts.append("")
        prompts[-1] += (" " if prompts[-1] else "") + word
    head = "".join(f'<text class="soft" x="{LEFT}" y="{26 + 18 * i}">{"&gt; " if i == 0 else "  "}{html.escape(p)}</text>\n'
                   for i, p in enumerate(prompts))
    foot = (f'<text class="soft" x="{LEFT}" y="{TOP + (row + 2) * LINE + 8}">recorded from {MODEL.name}, {html.escape(options)}; '
            "shown slower than it runs</text>\n")
    shift = 18 * (len(prompts) - 1)
    body = head + f'<g transform="translate(0 {shift})">\n{body}{foot}</g>\n'
    return svg(width, TOP + (row + 2) * LINE + 28 + shift, style, body)


def record():
    with tempfile.TemporaryDirectory() as folder:
        tasks, out = pathlib.Path(folder) / "tasks.jsonl", pathlib.Path(folder) / "recording.jsonl"
        tasks.write_text(json.dumps(EXAMPLE) + "\n")
        command = [LLADA, "eval", "-m", str(MODEL), "--tasks", str(tasks), "--no-reference", "--record", str(out)]
        subprocess.run(command + OPTIONS.split(), check=True, stdout=subprocess.DEVNULL)
        return out.read_text().splitlines()


# The peers -----------------------------------------------------------------------------------------------------------

def speeds(document):
    """-> [(rows, llada.cpp, best peer)], forwards per second with llama.cpp's as 1, from the table of whole forwards"""
    table = document.split("### Whole forwards")[1].split("###")[0]
    lines = [[c.strip() for c in l.strip("| \n").split("|")] for l in table.splitlines() if l.startswith("|")]
    head, rows = lines[0], lines[2:]
    column = {name: head.index(name) for name in ("rows", "to the best peer", "to llama.cpp")}
    out = []
    for cells in rows:
        best, ours = (float(cells[column[name]].rstrip("x")) for name in ("to the best peer", "to llama.cpp"))
        out.append((int(cells[column["rows"]]), ours, ours / best))
    return out


def peers_picture(document):
    machine = re.search(r"^Machine: (.*?)\. All \*measured\*\s+on\s+(\S+),", document, re.M)
    day = re.search(r"another day \((\S+)\)", document).group(1)
    rows = [row for row in speeds(document) if row[0] in (1, 8, 32, 128)]
    width, left, scale = 660, 104, 142.0
    body = (f'<text x="{LEFT}" y="30">Forwards per second, llama.cpp = 1 (LLaDA-8B, Q4_0; more is better)</text>\n')
    y = 50
    for count, ours, best in rows:
        body += f'<text class="soft" x="{LEFT}" y="{y + 31}">{count} row{"s" if count > 1 else ""}</text>\n'
        for name, value, kind in (("llada.cpp", ours, "ours"), ("ik_llama.cpp", best, "other"), ("llama.cpp", 1.0, "other")):
            body += (f'<rect class="{kind}" x="{left}" y="{y}" width="{value * scale:.0f}" height="13" rx="2"/>\n'
                     f'<text class="soft" x="{left + value * scale + 8:.0f}" y="{y + 11}">{name} {value:.2f}</text>\n')
            y += 16
        y += 14
    body += (f'<text class="soft" x="{LEFT}" y="{y + 8}">measured on {machine.group(2)}: {html.escape(machine.group(1))};</text>\n'
             f'<text class="soft" x="{LEFT}" y="{y + 26}">peers on the same kind of machine on another day ({day})</text>\n')
    return svg(width, y + 44, ".ours { fill: var(--new) } .other { fill: var(--mask) }\n", body)


def self_test():
    texts = token_texts(ROOT / "models" / "tiny-llada")
    assert texts[198] == "\n" and texts[1005] == "" and texts[220] == " ", (texts[198], texts[1005], texts[220])
    lines = [json.dumps(l) for l in (
        {"format": "llada-recording"}, {"run": {"prompt_tokens": 2}},
        {"step": {"edits": [[2, 42, "visible", 0.9], [4, 1001, "stable", 0.9]]}},
        {"step": {"edits": [[2, 42, "stable", 1], [3, 198, "stable", 0.9]]}},
        {"end": {}}, {"run": {"prompt_tokens": 9}}, {"step": {"edits": [[9, 42, "stable", 0.9]]}})]
    picture = answer_picture(lines, texts, "a < b", "--o")
    assert picture.count("<rect") == 4 and "a &lt; b" in picture and ">K</text>" in picture, picture
    assert "forward 1 of 2: 2 of 3 positions decided" in picture and "forward 2 of 2: 3 of 3" in picture, picture
    document = BENCHMARKS.read_text()
    assert all(ours > 0 and best > 0 for _, ours, best in speeds(document)) and len(speeds(document)) >= 4
    assert (IMAGES / "peers.svg").read_text() == peers_picture(document), "docs/img/peers.svg is not of the present table"
    print("self-test passed")


def main():
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        return self_test()
    IMAGES.mkdir(exist_ok=True)
    if not arguments or arguments[0] == "answer":
        lines = pathlib.Path(arguments[1]).read_text().splitlines() if len(arguments) > 1 else record()
        (IMAGES / "answer.svg").write_text(answer_picture(lines, token_texts(MODEL), EXAMPLE["prompt"], OPTIONS))
    if not arguments or arguments[0] == "peers":
        (IMAGES / "peers.svg").write_text(peers_picture(BENCHMARKS.read_text()))


if __name__ == "__main__":
    main()
