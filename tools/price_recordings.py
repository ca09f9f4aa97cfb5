#!/usr/bin/env python3
"""Prices the recordings of `llada eval --record` by a device's times: seconds per answer of each strategy, forward by forward.

    tools/price_recordings.py --times ROWS:MS,ROWS:MS,... RECORDING...
    tools/price_recordings.py --self-test

The times are those of a forward of so many rows, ascending, as `--latency-table` takes them and `llada simulate --latency
ROWS,... --json` models them for a phone; between two of them time grows evenly, and beyond the last as between the last
two. A forward's rows are all that it computes: both streams of guidance, trials, drafts. A sparse plan is a forward of its
own. Seconds are modelled wherever the times are; rows and forwards are counts of the recording.
"""
import json
import sys
import tempfile


def parse_times(text):
    times = [tuple(float(n) for n in point.split(":")) for point in text.split(",")]
    if any(len(t) != 2 or t[0] <= 0 for t in times) or any(a[0] >= b[0] or a[1] > b[1] for a, b in zip(times, times[1:])):
        raise SystemExit(f"price_recordings.py: --times: found {text}, needed ROWS:MS,... ascending")
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
    if step.get("known"):
        return []
    dense = total(step["rows"]) + sum(t[1] for t in step.get("trials", [])) + sum(d[0] for d in step.get("drafts", []))
    sparse = total(step.get("sparse_rows", [])) + sum(t[1] for t in step.get("sparse_trials", []))
    return [streams * rows for rows in (dense, sparse) if rows > 0]


def price(lines, *tables):
    """-> {strategy: [answers, forwards, rows, ms by each table]}, in the order of the recording"""
    sums, current, streams = {}, None, 1
    for line in lines:
        entry = json.loads(line)
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
    lines = [json.dumps(l) for l in (
        {"format": "llada-recording"}, {"run": {"strategy": "s", "streams": 2}},
        {"step": {"rows": [[0, 4], [8, 10]], "trials": [[3, 1, 0, 0.5]], "drafts": [[9, 2]], "sparse_rows": [[5, 6]]}},
        {"step": {"rows": [[0, 4]], "known": 1}}, {"end": {}})]
    assert price(lines, times) == {"s": [1, 2, 34, 10 + 10]}, price(lines, times)
    assert price(lines, times, [(1, 3.0)]) == {"s": [1, 2, 34, 20, 6]}
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("\n".join(lines))
        file.flush()
        assert table(times, [file.name]).splitlines()[-1] == "| s | 1 | 2.0 | 34 | 0.02 |"
    print("self-test passed")


def table(times, paths):
    out = "| strategy | answers | forwards | rows | s per answer |\n|---|---|---|---|---|\n"
    for path in paths:
        with open(path) as lines:
            for name, (n, forwards, rows, ms) in price(lines, times).items():
                out += f"| {name} | {n} | {forwards / n:.1f} | {rows / n:.0f} | {ms / n / 1e3:.2f} |\n"
    return out


def main():
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) < 3 or arguments[0] != "--times":
        raise SystemExit(__doc__)
    print(table(parse_times(arguments[1]), arguments[2:]), end="")


if __name__ == "__main__":
    main()
