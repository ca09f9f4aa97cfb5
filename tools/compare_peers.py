#!/usr/bin/env python3
"""Times a peer's command beside ours in one run, pair by pair.

    tools/compare_peers.py --ours 'build/release/bin/llada bench --preset llada-8b:q4_0 --only forward --rows 32 --json' \\
        --peer 'llama.cpp=./llama-bench -m model.gguf -p 32 -n 0 -o json' \\
        --value 'ours="ms_median":([0-9.]+)' --value 'llama.cpp="avg_ns": ([0-9]+)' --scale llama.cpp=1e-6

Machines drift by 10 to 20 % from minute to minute, so commands take turns (the order turns round every time) and the
ratio is the median over the pairs, not the ratio of two medians taken at different times. Without --value a
command's wall clock is its value, in seconds; with it the first number in its output that the pattern finds. Nothing is
built here: the peers' binaries are the caller's. Exit status: 0 done, 1 a command failed, 2 a wrong request.
"""
import argparse
import json
import re
import statistics
import subprocess
import sys
import time


class Failure(Exception):
    pass


def run(name, command, pattern, scale):
    """One run's value: lower is better unless the caller says otherwise."""
    begin = time.monotonic()
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    seconds = time.monotonic() - begin
    if done.returncode != 0:
        raise Failure(f"{name}: ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    if pattern is None:
        return seconds * scale
    found = re.search(pattern, done.stdout) or re.search(pattern, done.stderr)
    if not found:
        raise Failure(f"{name}: its output has nothing like {pattern}")
    return float(found.group(1)) * scale


def measure(commands, repeats, warmup, once):
    """{name: values}; once(name, command) runs one. Every round runs each command, every other one backwards."""
    values = {name: [] for name in commands}
    for index in range(warmup + repeats):
        names = list(commands)
        for name in names if index % 2 == 0 else reversed(names):
            value = once(name, commands[name])
            if index >= warmup:
                values[name].append(value)
    return values


def summary(values, higher_is_better=False):
    """Medians, and each peer's ratio: how many times better ours is, as the median over the pairs."""
    names = list(values)
    ours = values[names[0]]
    out = {"repeats": len(ours), "ours": {"median": statistics.median(ours), "values": ours}, "peers": {}}
    for name in names[1:]:
        pairs = [(a / b if higher_is_better else b / a) for a, b in zip(ours, values[name], strict=True)]
        out["peers"][name] = {"median": statistics.median(values[name]), "values": values[name],
                              "ours_is_times_better": statistics.median(pairs), "least": min(pairs), "most": max(pairs)}
    return out


def text(result):
    lines = [f"ours: {result['ours']['median']:.4g} (median of {result['repeats']})"]
    for name, peer in result["peers"].items():
        lines.append(f"{name}: {peer['median']:.4g}; ours is {peer['ours_is_times_better']:.2f} times better "
                     f"(pairs: {peer['least']:.2f} to {peer['most']:.2f})")
    return "\n".join(lines)


def assignment(word):
    name, equals, value = word.partition("=")
    if not equals or not name or not value:
        raise argparse.ArgumentTypeError(f"found '{word}', needed NAME=VALUE")
    return name, value


def self_test():
    order = []

    def scripted(name, command):
        order.append(name)
        return command.pop(0)

    values = measure({"ours": [9, 1, 2, 4], "a": [9, 3, 2, 20]}, 3, 1, scripted)
    assert values == {"ours": [1, 2, 4], "a": [3, 2, 20]}, values
    assert order == ["ours", "a", "a", "ours", "ours", "a", "a", "ours"], order
    result = summary(values)
    assert result["peers"]["a"]["ours_is_times_better"] == 3, result  # of the pairs 3, 1 and 5
    assert (result["peers"]["a"]["least"], result["peers"]["a"]["most"]) == (1, 5)
    assert summary(values, higher_is_better=True)["peers"]["a"]["ours_is_times_better"] == 1 / 3
    assert run("x", "echo 'speed 12.5 ms'", r"speed ([0-9.]+)", 2) == 25
    assert run("x", "echo 'speed 7' >&2", r"speed ([0-9.]+)", 1) == 7
    assert run("x", "true", None, 1) >= 0
    for command, pattern in (("exit 3", None), ("echo none", "([0-9]+)")):
        try:
            run("x", command, pattern, 1)
        except Failure:
            continue
        raise AssertionError(command)
    print("self-test passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", help="our command, as for a shell")
    parser.add_argument("--peer", action="append", type=assignment, default=[], metavar="NAME=COMMAND")
    parser.add_argument("--value", action="append", type=assignment, default=[], metavar="NAME=REGEX",
                        help="the number in the output of that command (of ours: ours=...)")
    parser.add_argument("--scale", action="append", type=assignment, default=[], metavar="NAME=FACTOR")
    parser.add_argument("--higher-is-better", action="store_true", help="values are speeds")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=1, help="rounds before the ones that count")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if not options.ours or not options.peer or options.repeats < 1 or options.warmup < 0:
        parser.error("needed --ours, at least one --peer and --repeats from 1")
    commands = {"ours": options.ours, **dict(options.peer)}
    patterns, scales = dict(options.value), {name: float(factor) for name, factor in options.scale}
    for name in [*patterns, *scales]:
        if name not in commands:
            parser.error(f"'{name}' is none of {', '.join(commands)}")
    try:
        values = measure(commands, options.repeats, options.warmup,
                         lambda name, command: run(name, command, patterns.get(name), scales.get(name, 1)))
    except Failure as failure:
        sys.exit(f"compare_peers.py: {failure}")
    result = summary(values, options.higher_is_better)
    print(json.dumps(result) if options.json else text(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
