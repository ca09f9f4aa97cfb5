"""Evaluations: every part of the examples by `llada eval` on some machine, their counts as one."""

from __future__ import annotations

import json
import math
import os
import pathlib
import shlex
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

import ray

from ._generate import least_cpus
from ._models import Place, local_path
from ._program import program

_MEANS = ("nfe_mean", "rows_mean", "committed_tokens_mean", "content_tokens_mean", "seconds_mean", "cpu_seconds_mean")
_SHARES = {"accuracy": "ci95", "whole_accuracy": "whole_ci95"}


def _wilson(right: int, n: int) -> list[float]:
    """The 95 % interval of a share, as `llada eval` has it."""
    z, share = 1.959963984540054, right / n
    middle, wide = share + z * z / (2 * n), z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return [max((middle - wide) / (1 + z * z / n), 0.0), min((middle + wide) / (1 + z * z / n), 1.0)]


def merged(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Results of `llada eval --json` over parts of the examples, as that of all of them."""
    results = [part["results"][0] for part in parts]
    tasks: dict[str, dict[str, Any]] = {}
    totals: Counter[str] = Counter()
    for name in sorted({name for result in results for name in result["tasks"]}):
        found = [result["tasks"][name] for result in results if name in result["tasks"]]
        n = sum(task["n"] for task in found)
        task: dict[str, Any] = {"n": n}
        for share, interval in _SHARES.items():
            right = sum(round(part[share] * part["n"]) for part in found)
            task[share], task[interval] = right / n, _wilson(right, n)
            totals[share] += right
        task["cut"] = sum(part["cut"] for part in found)
        for mean in _MEANS:
            total = sum(part[mean] * part["n"] for part in found)
            task[mean] = total / n
            totals[mean] += total
        task["tokens_per_forward"] = task["content_tokens_mean"] / task["nfe_mean"] if task["nfe_mean"] else 0.0
        totals.update({"n": n, "cut": task["cut"]})
        tasks[name] = task
    n = totals["n"]
    whole = {mean: totals[mean] / n for mean in ("nfe_mean", "rows_mean", "seconds_mean", "cpu_seconds_mean")}
    return {
        "tasks": tasks,
        "accuracy_mean": sum(task["accuracy"] for task in tasks.values()) / len(tasks),
        "n": n,
        "whole_accuracy": totals["whole_accuracy"] / n,
        "cut": totals["cut"],
        **whole,
        "tokens_per_forward": totals["content_tokens_mean"] / totals["nfe_mean"] if totals["nfe_mean"] else 0.0,
    }


def evaluate_part(lines: list[str], name: str, model: Place, options: list[str], threads: int) -> dict[str, Any]:
    """What `llada eval --json` says of these examples on this machine."""
    path = local_path(model)
    with tempfile.TemporaryDirectory(prefix="llada-eval-") as folder:
        tasks = pathlib.Path(folder, name)
        tasks.write_text("\n".join(lines) + "\n", encoding="utf-8")
        line = [program(), "eval", "-m", path, "--tasks", str(tasks), "--json", "--no-reference"]
        line += ["--threads", str(threads), *options]
        # Waits while another process of this machine packs them; packed weights are in its memory once.
        subprocess.run([program(), "pack", path], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode(errors="replace").strip() or f"llada eval: status {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _examples(tasks: Place, limit: Optional[int]) -> list[str]:
    """The lines of a file, of each task the first `limit`."""
    import fsspec

    with fsspec.open(str(tasks), "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\r\n") for line in file if line.strip()]
    if limit is None:
        return lines
    seen: defaultdict[Any, int] = defaultdict(int)
    kept = []
    for line in lines:
        task = json.loads(line).get("task")
        seen[task] += 1
        if seen[task] <= limit:
            kept.append(line)
    return kept


def evaluate(
    tasks: Place,
    *,
    model: Place,
    options: Union[str, Iterable[str]] = (),
    limit: Optional[int] = None,
    threads: Optional[int] = None,
    part: int = 64,
    **remote: Any,
) -> dict[str, Any]:
    """The numbers that `llada eval --no-reference --json` gives for its strategy, computed by the machines of a
    cluster: the keys of docs/json.md, but for those of wall clock beyond an example's.

    tasks: a file of examples, by its path here or an address that fsspec knows. options: of `llada eval`, as a shell
    has them. limit: examples of each task. threads: of one process, which works on `part` examples at a time; where not
    given, the smallest machine's processors. remote: options of the tasks, as of `ray.remote`."""
    words = shlex.split(options) if isinstance(options, str) else list(options)
    lines = _examples(tasks, limit)
    if not lines:
        raise ValueError(f"{tasks}: found no example, needed one or more")
    threads = threads or least_cpus()
    task = ray.remote(**{"num_cpus": threads, "max_retries": -1, **remote})(evaluate_part)
    name = os.path.basename(str(tasks)) or "tasks.jsonl"
    parts = [
        task.remote(lines[at : at + part], name, str(model), words, threads) for at in range(0, len(lines), part)
    ]
    return merged(ray.get(parts))
