#!/usr/bin/env python3
"""How time grows with a canvas, a prompt, an answer, stop texts, the fields of a schema, and the requests of a server.

Each line has one quantity at several sizes and its exponent: the slope of a straight line through the logarithms. 0 is
flat, 1 is linear. A quantity is the least of --repeats runs, since other work only adds to it. *Beside the forward* is
what a run takes outside of the model's operations: planning, forms, stop texts, the canvas. Weights are random
(`llada-study synth --preset tiny`), on one thread. Exit status 1: an exponent is above its bound.

usage: growth.py [--bin build/release/bin] [--repeats 3] [--only NAME ...]
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

FULL = "-p", "hi", "--logits-eos-inf"  # an answer as long as it may be


def schema(fields):
    names = [f"field{i}" for i in range(fields)]
    return json.dumps({"type": "object", "required": names, "additionalProperties": False,
                       "properties": {name: {"type": "string", "maxLength": 12} for name in names}})


class Bench:
    def __init__(self, programs, folder, repeats):
        self.programs, self.repeats, self.model = pathlib.Path(programs), repeats, str(pathlib.Path(folder) / "tiny.gguf")
        self.call("llada-study", "synth", "--preset", "tiny", "--type", "f16", self.model)

    def call(self, program, *options):
        done = subprocess.run([self.programs / program, *options], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"growth: {program}: {done.stderr.strip()}")
        return done.stdout

    def run(self, *options):
        """-> (statistics, ms of operations, ms beside them) of the run that took least."""
        best = None
        for _ in range(self.repeats):
            stats = json.loads(self.call("llada", "run", "-m", self.model, "--json", "-t", "1", *options))["stats"]
            ops = sum(stats["phases"].values())
            found = (stats, ops, stats["seconds"] * 1e3 - ops)
            best = found if best is None or found[0]["seconds"] < best[0]["seconds"] else best
        return best

    def whole(self, canvas):
        return self.run(*FULL, "-n", str(canvas), "--preset-decode", "exact", "--steps", "4", "--block-length", str(canvas))

    def canvas(self, n):
        stats, ops, beside = self.whole(n)
        rest = ops - stats["phases"]["attention"]
        return {"attention, us a row": stats["phases"]["attention"] / stats["rows"] * 1e3,
                "other operations, us a row": rest / stats["rows"] * 1e3,
                "beside the forward, us a row": beside / stats["rows"] * 1e3}

    def beside(self, *options):
        stats, _, beside = self.run(*options)
        return {"beside the forward, us a forward": beside / stats["nfe"] * 1e3}

    def prompt(self, n):
        return self.beside("--logits-eos-inf", "--raw", "-p", "a " * (n // 2), "-n", "32")

    def answer(self, n):
        return self.beside(*FULL, "-n", str(n))

    def stop(self, n):
        texts = [word for i in range(n) for word in ("--stop", f"never{i}")]
        return self.beside(*FULL, "-n", "256", *texts)

    def form(self, n):
        return self.beside("-p", "hi", "-n", "1024", "--json-schema", schema(n))

    def requests(self, n):
        found = json.loads(self.call("llada-study", "bench", "-m", self.model, "--only", "shared", "--requests", f"1,{n}",
                                     "--threads", "1", "--repeats", str(self.repeats), "--json"))["shared"]
        return {"a token's time beside that of one request": 1 / found[-1]["tokens_per_s_ratio"]}


# name: (sizes, the greatest exponent of each quantity)
LINES = {
    "canvas": ([256, 1024, 3840], [1.2, 0.2, 0.4]),
    "prompt": ([256, 1024, 3840], [1.1]),
    "answer": ([256, 1024, 3840], [0.8]),
    "stop": ([1, 4, 16], [0.5]),
    "form": ([5, 20, 60], [0.3]),
    "requests": ([2, 8, 32], [0.1]),
}


def exponent(sizes, values):
    x, y = [math.log(s) for s in sizes], [math.log(max(v, 1e-9)) for v in values]
    mx, my = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y)) / sum((a - mx) ** 2 for a in x)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=pathlib.Path(__file__).resolve().parents[1] / "build/release/bin")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=LINES, default=list(LINES))
    args = parser.parse_args()
    above = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args.bin, folder, args.repeats)
        print("| what grows | sizes | quantity | measured | exponent | at most |\n|---|---|---|---|---|---|")
        for name in args.only:
            sizes, bounds = LINES[name]
            found = [getattr(bench, name)(size) for size in sizes]
            for quantity, bound in zip(found[0], bounds):
                values = [one[quantity] for one in found]
                slope = exponent(sizes, values)
                above += slope > bound
                print(f"| {name} | {', '.join(map(str, sizes))} | {quantity} | {', '.join(f'{v:.3g}' for v in values)} | "
                      f"{slope:.2f}{' **above**' if slope > bound else ''} | {bound} |", flush=True)
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
