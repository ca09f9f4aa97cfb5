"""Reads what the tools count in: recordings of `llada eval --record` (docs/lab/recording.md) and files of tasks. A file
that is neither ends the program with one line that names the file and the line."""
import json
import pathlib
import sys


def refuse(text):
    raise SystemExit(f"{pathlib.Path(sys.argv[0]).name}: {text}")


def rows(path):
    """-> (number, object) of each line"""
    try:
        with open(path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    row = json.loads(line)
                except ValueError:
                    row = None
                if not isinstance(row, dict):
                    refuse(f"{path}:{number}: found no JSON object, needed one a line; the file may be cut off")
                yield number, row
    except OSError as error:
        refuse(f"{path}: {error.strerror}")


def entries(path):
    """The objects of a recording in their order: those of a run, of its steps and of its end."""
    number, begun, runs = 0, 0, 0  # begun: the line of the run that has not ended
    for number, row in rows(path):
        kind = next((kind for kind in ("format", "run", "step", "end") if kind in row), None)
        if begun and kind in ("format", "run"):
            refuse(f"{path}:{begun}: found a run without an end, needed a whole recording; the file may be cut off")
        headed = number > 1 or row.get("format") == "llada-recording"
        if not headed or kind is None or (kind in ("format", "run")) == bool(begun):
            refuse(f"{path}:{number}: found {', '.join(row) or 'nothing'}, needed a recording of llada eval --record")
        begun = number if kind == "run" else 0 if kind == "end" else begun
        runs += kind == "end"
        yield row
    if begun:
        refuse(f"{path}:{begun}: found a run without an end, needed a whole recording; the file may be cut off")
    if not runs:
        refuse(f"{path}: found no run, needed a recording of llada eval --record")


def examples(path, *fields):
    """-> {task: [the fields of each example]}"""
    found = {}
    for number, row in rows(path):
        for field in ("task", *fields):
            if not isinstance(row.get(field), str):
                refuse(f"{path}:{number}: field '{field}' is missing or no text")
        found.setdefault(row["task"], []).append(tuple(row[field] for field in fields))
    return found


def refusal(work):
    """For the tools' own tests: the line with which the work ends the program."""
    try:
        work()
    except SystemExit as error:
        return str(error).partition(": ")[2]
    raise AssertionError("nothing was refused")
