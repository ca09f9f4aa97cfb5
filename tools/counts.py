#!/usr/bin/env python3
"""Counts the size of the house: options, refusals, notions, lines. The numbers that a redesign is measured by.

    tools/counts.py [FOLDER of another checkout]

options     rows of the table of decoding options in docs/strategies.md, which a test compares with the program
refusals    messages in src/decode that refuse a pair of options or an option for a kind of model
notions     words defined in ARCHITECTURE.md, values of the enums of the decoding options, optional parts of a device
lines       of code, by what it is for: the engine, and study, bench and lab beside it
"""
import pathlib
import re
import sys

CODE = (".cc", ".h", ".cu", ".cuh", ".inc")


def lines(folder):
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*") if path.suffix in CODE) if folder.is_dir() else 0


def enumerators(text, enums):
    """How many values the enums of these names have."""
    text = re.sub(r"//[^\n]*", "", text)
    bodies = (re.search(rf"enum class {name}\b[^{{]*{{([^}}]*)}}", text) for name in enums)
    return sum(len([v for v in body.group(1).split(",") if v.strip()]) for body in bodies if body)


def refusals(decode):
    """Messages about pairs and kinds of models, of which each says once what is needed; a value out of its own range is no
    refusal of this kind."""
    return (decode / "pairs.cc").read_text().count("needed")


def words(architecture):
    """Terms in the first column of the table under "Words"."""
    section = architecture.split("## Words", 1)[1].split("\n## ", 1)[0]
    cells = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")]
    return sum(len([w for w in re.split(r",| and ", cell) if w.strip()]) for cell in cells[1:])


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    src, docs = root / "src", root / "docs"
    table = (docs / "strategies.md").read_text().split("| group | option |", 1)[1]
    headers = "\n".join(path.read_text() for path in sorted((src / "decode").glob("*.h")))
    enums = ("Acceptance", "EarlyStop", "KvChoice", "Revision")
    device = (src / "devices/device.h").read_text()
    capabilities = re.search(r"struct Capabilities {(.*?)\n};", device, re.DOTALL)
    notions = (words((root / "ARCHITECTURE.md").read_text()), enumerators(headers, enums),
               len(re.findall(r"\*\s*\w+\s*=", capabilities.group(1))) if capabilities else 0)
    beside = sum(lines(src / part) for part in ("study", "bench", "lab"))
    prose = {name: len(path.read_text().splitlines()) for name, path in
             (("README.md", root / "README.md"), ("ARCHITECTURE.md", root / "ARCHITECTURE.md"),
              ("docs/decoding.md", docs / "decoding.md"))}
    rows = (("options", len(re.findall(r"^\|[^|]*\| `--", table, re.MULTILINE))),
            ("refusals", refusals(src / "decode")),
            ("notions", f"{sum(notions)} ({notions[0]} words, {notions[1]} values of options, {notions[2]} of devices)"),
            ("files of src", sum(path.suffix in CODE for path in src.rglob("*"))),
            ("lines of src", lines(src)),
            ("  without study, bench, lab", lines(src) - beside),
            ("lines of tests", lines(root / "tests")),
            ("tests", sum(len(re.findall(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(", path.read_text(), re.MULTILINE))
                          for path in (root / "tests").rglob("*.cc"))),
            *prose.items(),
            ("docs/*.md", sum(len(path.read_text().splitlines()) for path in docs.glob("*.md"))),
            ("docs/*/*.md", sum(len(path.read_text().splitlines()) for path in docs.glob("*/*.md"))))
    for name, count in rows:
        print(f"{name:28} {count}")


if __name__ == "__main__":
    main()
