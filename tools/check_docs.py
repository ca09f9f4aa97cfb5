#!/usr/bin/env python3
"""Checks the documents: every file that one names is there, prose wraps at 120 columns, tables have equal columns, and
pages keep to their budgets of lines.

    tools/check_docs.py [--self-test]       # the same: the documents are the test

Looked at are all *.md, and of the sources every mention of a path below docs/. Pages for users are docs/*.md. Studies
(docs/lab) have no budget.
"""
import ast
import fnmatch
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = 120
# Lines together of the files that a pattern names (* stays within a folder).
BUDGETS = {"README.md": 90, "docs/*.md": 1300, "ARCHITECTURE.md": 180}
WORDS = ("ARCHITECTURE.md", "Words", 30)  # a page, its section with a table, the most rows


def files(*patterns):
    """What git knows of, or in an archive without git what lies there."""
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            text=True).stdout.split()
    found = sorted(set(listed)) or [f for p in patterns for f in ([p] if (ROOT / p).is_file() else
                                                                 ROOT.rglob(p if "*" in p else f"{p}/**/*"))]
    return [ROOT / f for f in found if "build" not in pathlib.Path(f).parts]


def links(path, text):
    """Files that the text names: targets of its links, and paths below docs/."""
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text) if path.suffix == ".md" else []:
        yield target, path.parent / target
    for target in re.findall(r"(?<![\w/.-])docs/[\w./-]+\.(?:md|svg|png)", text):
        yield target, ROOT / target


def findings(path, text):
    for target, place in links(path, text):
        if not place.exists():
            yield f"names {target}, which is not there"
    columns, fenced = None, False
    for number, line in enumerate(text.splitlines() if path.suffix == ".md" else [], 1):
        fenced ^= line.startswith("```")
        cells = len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", line))) if line.startswith("|") else None
        if cells and columns and cells != columns:
            yield f"line {number} has {cells - 1} cells, the row above {columns - 1}"
        columns = cells
        code = fenced or line.startswith(("    ", "|")) or re.fullmatch(r"\d+\. `.*`", line)
        if len(line) > COLUMNS and not code:
            yield f"line {number} has {len(line)} columns, needed {COLUMNS} at most"


def rows(text, section):
    """Rows of the first table below a heading, without its head."""
    part = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return max(0, sum(line.startswith("|") for line in part.splitlines()) - 2)


def clients(test, page):
    """Programs of the test that writes the table of the page, and those of the table."""
    known = [key.value for node in ast.parse(test).body if isinstance(node, ast.Assign)
             and node.targets[0].id in ("CLIENTS", "OTHERS") for key in node.value.keys]
    shown = [line.split(" | ")[0][2:] for line in page.splitlines() if line.startswith("| ")][1:]
    if known != shown:
        yield f"docs/clients.md: has {shown}, tests/clients/matrix_test.py {known} (LLADA_UPDATE=1 tools/clients.sh matrix)"


def over_budget(pages):
    """What is longer than its budget. pages: {path: text}"""
    for pattern, most in BUDGETS.items():
        total = sum(text.count("\n") for path, text in pages.items()
                    if fnmatch.fnmatch(path, pattern) and path.count("/") == pattern.count("/"))
        if total > most:
            yield f"{pattern}: {total} lines, {most} at most"
    page, section, most = WORDS
    if rows(pages.get(page, ""), section) > most:
        yield f"{page}: {rows(pages[page], section)} rows in {section}, {most} at most"


def main():
    found = []
    for path in sorted(set(files("*.md", "src", "tests", "tools", "cmake", "fuzz", "Makefile", "CMakeLists.txt"))):
        if path.is_file() and path.suffix not in (".jsonl", ".json", ".bin", ".gguf") and path.name != "check_docs.py":
            found += [f"{path.relative_to(ROOT)}: {f}" for f in findings(path, path.read_text(errors="replace"))]
    found += over_budget({str(path.relative_to(ROOT)): path.read_text() for path in files("*.md") if path.is_file()})
    found += clients((ROOT / "tests/clients/matrix_test.py").read_text(), (ROOT / "docs/clients.md").read_text())
    long = {"README.md": "\n" * 91, "docs/a.md": "\n" * 1000, "docs/b.md": "\n" * 301, "docs/lab/c.md": "\n" * 9999,
            WORDS[0]: f"\n## {WORDS[1]}\n" + "|\n" * (WORDS[2] + 3)}
    assert [line.split(":")[0] for line in over_budget(long)] == ["README.md", "docs/*.md", WORDS[0]], long
    wrong = list(findings(ROOT / "x.md", "[a](nowhere.md)\n| a | b |\n|---|\n" + "x" * 121))
    assert len(wrong) == 3, wrong
    assert list(clients("CLIENTS = {'a': 1}", "| program |\n|---|\n| b | c |")), "another program"
    print("\n".join(found) or "documents are in order")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
