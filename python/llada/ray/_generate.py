"""Answers to the rows of a data set."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Optional, Union

import pyarrow as pa
import ray

from .. import _capi, _options, _prompts
from .._async import in_thread
from .._errors import InvalidError
from ._models import Place, open_model

#: What is added to a row; each null where there is no answer, but for the last, which says why.
COLUMNS = {
    "generated_text": pa.string(),
    "generated_tokens": pa.list_(pa.int32()),
    "finish_reason": pa.string(),
    "forwards": pa.int64(),
    "error": pa.string(),
}


def check_options(options: Mapping[str, Any]) -> None:
    """A wrong one is told before a model is loaded, not by every row."""
    with _options.handle(_options.pairs(_capi.FOR_REQUEST, options)):
        pass


def _seed(prompt: Any) -> int:
    """Of a row without one: a row that is computed again, since its machine was lost, has the same answer."""
    text = json.dumps(prompt, sort_keys=True, default=str)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


class Generator:
    """A model that answers batches of rows: what `generate` gives to Ray Data, and an actor class of its own
    (`ray.remote(Generator)`). Each answer is the one that `Model.generate` gives to its prompt."""

    def __init__(
        self,
        model: Place,
        options: Optional[Mapping[str, Any]] = None,
        *,
        prompt: str = "prompt",
        raw: bool = False,
        system: Optional[str] = None,
        load: Optional[Mapping[str, Any]] = None,
    ):
        self._options, self._prompt, self._raw, self._system = dict(options or {}), prompt, raw, system
        check_options(self._options)
        self._model = open_model(model, **dict(load or {}))

    async def __call__(self, rows: pa.Table) -> AsyncIterator[pa.Table]:
        """A generator, since older releases of Ray Data know no other coroutine: they take several batches at a time
        from it, so that the engine has the next requests while it computes some."""
        yield await in_thread(self.answer, rows)

    def answer(self, rows: pa.Table) -> pa.Table:
        """The rows with the columns of an answer. What is wrong with a row is its error; other errors are raised."""
        taken = [name for name in COLUMNS if name in rows.column_names]
        if self._prompt not in rows.column_names or taken:
            raise ValueError(f"dataset: found the columns {', '.join(rows.column_names)}, needed {self._prompt} and "
                             f"none of {', '.join(COLUMNS)}")
        prompts = rows.column(self._prompt).to_pylist()
        seeds = rows.column("seed").to_pylist() if "seed" in rows.column_names else [None] * len(prompts)
        asked = [self._ask(prompt, seed) for prompt, seed in zip(prompts, seeds)]
        found: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        for request in asked:
            for name, value in zip(COLUMNS, self._values(request)):
                found[name].append(value)
        for name, kind in COLUMNS.items():
            rows = rows.append_column(name, pa.array(found[name], kind))
        return rows

    def _ask(self, prompt: Any, seed: Optional[int]) -> Any:
        options = dict(self._options)
        if "seed" not in options:
            options["seed"] = _seed(prompt) if seed is None else seed
        try:
            return self._model._submit(_prompts.answer(prompt, self._raw, self._system), options)
        except (InvalidError, TypeError) as error:
            return error

    @staticmethod
    def _values(request: Any) -> tuple[Any, ...]:
        try:
            if isinstance(request, Exception):
                raise request
            result = request.wait()
        except (InvalidError, TypeError) as error:
            return None, None, None, None, str(error)
        return result.text, result.tokens, result.finish_reason, result.stats.forwards, None


def least_cpus() -> int:
    """Of the cluster's machines that have some."""
    if not ray.is_initialized():
        ray.init()
    counts = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    return min([count for count in counts if count > 0], default=1)


def generate(
    dataset: Any,
    *,
    model: Place,
    options: Optional[Mapping[str, Any]] = None,
    prompt: str = "prompt",
    raw: bool = False,
    system: Optional[str] = None,
    threads: Optional[int] = None,
    streams: int = 8,
    actors: Union[int, tuple[int, Optional[int]]] = (1, None),
    load: Optional[Mapping[str, Any]] = None,
    **remote: Any,
) -> Any:
    """The rows of a `ray.data.Dataset` with the columns of their answers: generated_text, generated_tokens,
    finish_reason, forwards, error. Lazy, as Ray Data is.

    prompt: the column of prompts, each as of `Model.generate`: a text, a list of messages, or token ids; raw, system:
    likewise. options: of `Model.generate`. A column `seed` has the rows' seeds; a row without one has one that is made
    of its prompt. threads: of an actor; where not given, one less than the smallest machine's processors, since reading
    takes one. streams: answers that share forwards. actors: how many, or from how many to how many, None for as many as
    the cluster has room for. load: options of `Model.load`. remote: options of the actors, as of `ray.remote`."""
    options = dict(options or {})
    check_options(options)
    threads = threads or max(least_cpus() - 1, 1)
    least, most = (actors, actors) if isinstance(actors, int) else actors
    return dataset.map_batches(
        Generator,
        batch_format="pyarrow",
        batch_size=streams,
        compute=ray.data.ActorPoolStrategy(min_size=least, max_size=most),
        fn_constructor_args=(str(model), options),
        fn_constructor_kwargs={
            "prompt": prompt,
            "raw": raw,
            "system": system,
            "load": {**dict(load or {}), "threads": threads, "streams": streams},
        },
        **{"num_cpus": threads, "max_restarts": -1, "max_task_retries": -1, "max_concurrency": 2, **remote},
    )
