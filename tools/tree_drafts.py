#!/usr/bin/env python3
"""What trees of drafted states would bring (Spiffy, arXiv 2509.18085): forwards, rows and seconds of recorded runs, if each
forward had computed N probable states beside its own and every state that came true had spared one.

    tools/tree_drafts.py --times ROWS:MS,ROWS:MS,... [--strategy NAME] [--states 1,3,7] RECORDING...
    tools/tree_drafts.py --self-test

A state is told by which masks it decides beyond the forward's own: their ranks among the masks of the block, counted by
the last forward's confidence, or from left to right; it holds the tokens that this forward thinks best. A chain has the
states {1}, {1,2}, ...; a tree has those that half of the runs (even examples) would have needed most often, and is measured
on the other half, as is the chain. Where one token is decided per step --draft computes the chain and, beside its first
states, those with the next token in place of the last. A state with a second best
token cannot be looked up in a recording: `token` counts the forwards that only such a state could have spared, at most. A
forward that computes more than its block has no state; recordings with drafts, trials or sparse plans are not read.
Times: tools/price_recordings.py. Everything printed is modelled from the recording.
"""
import argparse
import collections
import json
import sys
import tempfile

from price_recordings import milliseconds, parse_times, total
from recordings import entries, refusal, refuse

MOST = 8  # a state decides at most so many masks beyond the forward's own


class Step:
    """What the question needs of a step: rows, whether these are all of its block, predictions by position, commits"""

    def __init__(self, step):
        begin, end = step["block"]
        self.rows = total(step["rows"])
        self.inside = all(begin <= a and b <= end for a, b in step["rows"])
        wanted = [p for a, b in step["wanted"] for p in range(a, b)]
        self.predicted = {p: (token, sure) for p, token, sure in zip(wanted, step["predicted"], step["confidence"])
                          if begin <= p < end}
        self.decided = {p: token for p, token, state, _ in step["edits"] if state != "masked"}


def runs_of(path, strategy=None):
    """-> (strategy, example, steps) of each run, or of each of one strategy"""
    steps = []
    for entry in entries(path):
        if "run" in entry:
            run, steps = entry["run"], []
        elif "format" in entry or strategy not in (None, run["strategy"]):
            continue
        elif "step" in entry:
            if any(entry["step"].get(field) for field in ("trials", "drafts", "sparse_rows", "sparse_trials")):
                refuse(f"{path}: found drafts or revision in '{run['strategy']}', needed a run that computes its own rows alone")
            steps.append(Step(entry["step"]))
        elif "end" in entry:
            yield run["strategy"], run["example"], steps


def ranks(last, decided, order):
    """The masks that the last forward predicted and that are not decided yet -> {position: rank from 1}"""
    left = [p for p in last.predicted if p not in decided]
    left.sort(key=(lambda p: (-last.predicted[p][1], p)) if order == "confidence" else None)
    return {p: i + 1 for i, p in enumerate(left)}


def walk(steps, states, order, missed=None):
    """-> (the rows of each forward, forwards that another token would have spared). missed: counts the states that a forward
    would have needed next."""
    forwards, other_token, i = [], 0, 0
    while i < len(steps):
        rank = {} if i == 0 else ranks(steps[i - 1], steps[i - 1].decided, order)
        reached, here, tokens, needed = i + 1, frozenset(), {}, None
        while reached < len(steps) and i > 0 and steps[reached].inside and steps[i].inside:
            tokens |= steps[reached - 1].decided
            if not tokens or any(p not in rank for p in tokens) or len(tokens) > MOST:
                break
            if any(steps[i - 1].predicted[p][0] != token for p, token in tokens.items()):
                other_token += 1
                break
            here = frozenset(rank[p] for p in tokens)
            if here not in states:
                needed = here
                break
            reached += 1
        if needed is not None and missed is not None:
            missed[needed] += 1
        # A state is of use only where its ranks are masks that were predicted.
        usable = sum(1 for s in states if steps[i].inside and i > 0 and max(s) <= len(rank))
        forwards.append(steps[i].rows * (1 + usable))
        i = reached
    return forwards, other_token


def grow_tree(runs, count, order):
    """The states that would spare most, one after the other"""
    states = []
    for _ in range(count):
        missed = collections.Counter()
        for steps in runs:
            walk(steps, set(states), order, missed)
        if not missed:
            break
        states.append(max(missed, key=lambda s: (missed[s], -len(s), [-r for r in sorted(s)])))
    return states


def chain(count):
    return [frozenset(range(1, n + 2)) for n in range(count)]


def lines(runs, counts, times):
    """runs: [(example, steps)] of even and of odd examples -> rows of the table"""
    fit = [steps for example, steps in runs if example % 2 == 0]
    held = [steps for example, steps in runs if example % 2]
    most, plain = max(counts), None

    def line(name, order, states):
        nonlocal plain
        walked = [walk(steps, set(states), order) for steps in held]
        rows = [r for forwards, _ in walked for r in forwards]
        ms = sum(milliseconds(times, r) for r in rows)
        plain = plain or ms
        return (f"| {name} | {order if states else ''} | {len(states)} | {len(rows) / len(held):.1f} | "
                f"{sum(rows) / len(held):.0f} | {ms / len(held) / 1e3:.2f} | {plain / ms:.2f} | "
                f"{sum(o for _, o in walked) / len(held):.1f} |")

    yield line("none", "confidence", [])
    for order in ("confidence", "left to right"):
        for name, states in (("chain", chain(most)), ("tree", grow_tree(fit, most, order))):
            for count in counts:
                yield line(name, order, states[:count])


def self_test():
    def step(rows, block, predicted, decided):
        wanted = [[p, p + 1] for p in predicted]
        return Step({"rows": rows, "block": block, "wanted": wanted, "predicted": [t for t, _ in predicted.values()],
                     "confidence": [c for _, c in predicted.values()], "edits": [[p, t, "stable", 1] for p, t in decided.items()]})

    # Block 0 to 4 over a prompt of no rows: 0 is decided first, then 2 before 1, as it was surer, then 1 and 3.
    steps = [step([[0, 8]], [0, 4], {0: (5, .9), 1: (6, .3), 2: (7, .8), 3: (8, .2)}, {0: 5}),
             step([[0, 4]], [0, 4], {1: (6, .3), 2: (7, .8), 3: (8, .2)}, {2: 7}),
             step([[0, 4]], [0, 4], {1: (6, .6), 3: (9, .5)}, {1: 6}),
             step([[0, 4]], [0, 4], {3: (9, .9)}, {3: 9})]
    one, two = frozenset({1}), frozenset({1, 2})
    assert walk(steps, set(), "confidence") == ([8, 4, 4, 4], 0)
    # Beside the second forward: 2 decided too, then 2 and 1; both come true, so two forwards go.
    assert walk(steps, {one}, "confidence") == ([8, 8, 8], 0)
    assert walk(steps, {one, two}, "confidence") == ([8, 12], 0)
    # From left to right 1 would be next: 2 is the second mask, and the fourth forward cannot be had from the first's 8.
    assert walk(steps, {one}, "left to right") == ([8, 8, 8], 0), walk(steps, {one}, "left to right")
    assert walk(steps, {frozenset({2}), two}, "left to right") == ([8, 12], 0)
    assert grow_tree([steps], 2, "left to right") == [one, frozenset({2})]
    assert grow_tree([steps] + 2 * [steps[:3]], 1, "left to right") == [frozenset({2})]
    # The forward of 0 to 8 is not the block's alone: nothing is drafted beside it, nor for it.
    assert walk(steps[1:3] + steps[:1], {one}, "confidence")[0] == [4, 8, 8]
    # 3 is decided as 9, but the forward before last thought 8: only a second token would have spared the last forward.
    turned = steps[:2] + [step([[0, 4]], [0, 4], {1: (6, .6), 3: (9, .7)}, {3: 9}), step([[0, 4]], [0, 4], {1: (6, .9)}, {1: 6})]
    assert walk(turned, {one}, "confidence")[1] == 1
    recorded = [{"format": "llada-recording"}]
    for name, extra in (("a", {}), ("b", {"trials": [[1, 1, 6, .5]]})):
        recorded += [{"run": {"strategy": name, "example": 4}},
                     {"step": {"rows": [[0, 4]], "block": [0, 4], "wanted": [[1, 3]], "predicted": [6, 7], "confidence": [.3, .8],
                               "edits": [[2, 7, "stable", .8], [3, 1, "masked", .1]]} | extra}, {"end": {}}]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("".join(json.dumps(line) + "\n" for line in recorded))
        file.flush()
        (name, example, read), = runs_of(file.name, "a")
        assert (name, example, read[0].predicted, read[0].decided) == ("a", 4, {1: (6, .3), 2: (7, .8)}, {2: 7})
        assert refusal(lambda: list(runs_of(file.name))) == (
            f"{file.name}: found drafts or revision in 'b', needed a run that computes its own rows alone")
    table = list(lines([(0, steps), (1, steps)], [2], parse_times("4:10,12:10,16:20")))
    assert table[0] == "| none |  | 0 | 4.0 | 20 | 0.04 | 1.00 | 0.0 |", table[0]
    assert table[1] == "| chain | confidence | 2 | 2.0 | 20 | 0.02 | 2.00 | 0.0 |", table[1]
    assert table[2] == table[1].replace("chain", "tree"), table[2]
    assert table[3].startswith("| chain | left to right | 2 | 3.0 "), table[3]
    assert table[4].startswith("| tree | left to right | 2 | 3.0 "), table[4]
    print("self-test passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", required=True, type=parse_times)
    parser.add_argument("--strategy", help="of those that were recorded (all)")
    parser.add_argument("--states", default="1,3,7", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("recording", nargs="+")
    asked = parser.parse_args()
    runs = {}
    for path in asked.recording:
        for strategy, example, steps in runs_of(path, asked.strategy):
            runs.setdefault(strategy, []).append((example, steps))
    if not runs:
        refuse(f"--strategy: found {json.dumps(asked.strategy)}, which no recording has")
    for strategy, found in runs.items():
        if {example % 2 for example, _ in found} != {0, 1}:
            refuse(f"{strategy}: found {len(found)} runs, all of even or all of odd examples, needed both: states are chosen on "
                   "even ones and counted on odd ones")
        print(f"{strategy}:\n| states | ranks by | beside a forward | forwards | rows | s per answer | times as fast | token |\n"
              "|---|---|---|---|---|---|---|---|")
        print("\n".join(lines(found, asked.states, asked.times)), flush=True)


if __name__ == "__main__":
    main()
