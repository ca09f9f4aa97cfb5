#!/usr/bin/env python3
"""Prices the recordings of `llada eval --record` by a device's times: seconds per answer of each strategy, forward by forward.

    tools/price_recordings.py --times ROWS:MS,ROWS:MS,... RECORDING...
    tools/price_recordings.py --self-test

The times are those of a forward of so many rows, ascending, as `--latency-table` takes them and `llada-study simulate
--latency ROWS,... --json` models them for a phone; between two of them time grows evenly, and beyond the last as between the last
two. A forward's rows are all that it computes: both streams of guidance, trials. A sparse plan is a forward of its
own. Seconds are modelled wherever the times are; rows and forwards are counts of the recording.
"""
import json
import math
import sys
import tempfile

from recordings import entries, refusal, refuse


def parse_times(text):
    try:
        times = [tuple(float(n) for n in point.split(":")) for point in text.split(",")]
    except ValueError:
        times = [()]
    if any(len(t) != 2 or t[0] <= 0 or not all(map(math.isfinite, t)) for t in times) or any(
            a[0] >= b[0] or a[1] > b[1] for a, b in zip(times, times[1:])):
        refuse(f"--times: found {text}, needed ROWS:MS,... ascending")
    return times


def milliseconds(times, rows):
    """Below the first point a forward takes as long as there."""
    if rows <= times[0][0] or len(times) == 1:
        return times[0][1]
    (r0, t0), (r1, t1) = next((pair for pair in zip(times, times[1:]) if rows <= pair[1][0]), (times[-2], times[-1]))
    return t0 + (t1 - t0) * (rows - r0) / (r1 - r0)


def total(ranges):
    return sum(end - begin for begin, end in ranges)


def forwards_of(step, streams):
    """-> the rows of each forward that the step took"""
    dense = total(step["rows"]) + sum(t[1] for t in step.get("trials", []))
    sparse = total(step.get("sparse_rows", [])) + sum(t[1] for t in step.get("sparse_trials", []))
    return [streams * rows for rows in (dense, sparse) if rows > 0]


def price(recording, *tables):
    """-> {strategy: [answers, forwards, rows, ms by each table]}, in the order of the recording"""
    sums, current, streams = {}, None, 1
    for entry in recording:
        if "run" in entry:
            current, streams = sums.setdefault(entry["run"]["strategy"], [0, 0, 0] + [0.0] * len(tables)), entry["run"].get("streams", 1)
            current[0] += 1
        elif "step" in entry:
            for rows in forwards_of(entry["step"], streams):
                current[1] += 1
                current[2] += rows
                for i, times in enumerate(tables):
                    current[3 + i] += milliseconds(times, rows)
    return sums


def self_test():
    times = parse_times("8:10,32:10,64:26")
    assert [milliseconds(times, rows) for rows in (1, 20, 48, 64, 96)] == [10, 10, 18, 26, 42]
    for text in ("1:x", "1", "1:nan", "8:10,4:20", ""):
        assert refusal(lambda: parse_times(text)) == f"--times: found {text}, needed ROWS:MS,... ascending", text
    recording = [
        {"format": "llada-recording"}, {"run": {"strategy": "s", "streams": 2}},
        {"step": {"rows": [[0, 4], [8, 10]], "trials": [[3, 10, 0, 0.5]], "sparse_rows": [[5, 6]]}}, {"end": {}}]
    assert price(recording, times) == {"s": [1, 2, 34, 10 + 10]}, price(recording, times)
    assert price(recording, times, [(1, 3.0)]) == {"s": [1, 2, 34, 20, 6]}
    text = "".join(json.dumps(line) + "\n" for line in recording)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        def table_of(content):
            file.seek(0)
            file.truncate()
            file.write(content)
            file.flush()
            return table(times, [file.name])
        assert table_of(text).splitlines()[-1] == "| s | 1 | 2.0 | 34 | 0.02 |"
        refused = lambda content: refusal(lambda: table_of(content)).removeprefix(file.name)
        assert refused(text[:-4]) == ":4: found no JSON object, needed one a line; the file may be cut off"
        assert refused(text.partition('{"end"')[0]) == (
            ":2: found a run without an end, needed a whole recording; the file may be cut off")
        assert refused("") == ": found no run, needed a recording of llada eval --record"
        assert refused(text.partition("\n")[2]) == ":1: found run, needed a recording of llada eval --record"
    assert refusal(lambda: table(times, [file.name])) == f"{file.name}: No such file or directory"
    print("self-test passed")


def table(times, paths):
    out = "| strategy | answers | forwards | rows | s per answer |\n|---|---|---|---|---|\n"
    for path in paths:
        for name, (n, forwards, rows, ms) in price(entries(path), times).items():
            out += f"| {name} | {n} | {forwards / n:.1f} | {rows / n:.0f} | {ms / n / 1e3:.2f} |\n"
    return out


def main():
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        return self_test()
    if set(arguments) & {"-h", "--help"}:
        return print(__doc__.strip())
    if len(arguments) < 3 or arguments[0] != "--times":
        raise SystemExit(__doc__)
    print(table(parse_times(arguments[1]), arguments[2:]), end="")


if __name__ == "__main__":
    main()
