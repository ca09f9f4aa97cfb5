"""llada on Ray (https://docs.ray.io): data sets, evaluations and servers over the machines of a cluster.

    import ray, llada.ray

    prompts = ray.data.read_json("s3://data/prompts.jsonl")
    answers = llada.ray.generate(prompts, model="/models/llada-8b.gguf", options={"gen_length": 256})
    answers.write_parquet("s3://data/answers")

    result = llada.ray.evaluate("s3://data/eval.jsonl", model="s3://models/llada-8b.gguf", options="--gen-length 256")

    serve run llada.ray:application model=/models/llada-8b.gguf replicas=2      # OpenAI's routes

A model is a path on every machine, or an address that fsspec knows, which each machine fetches once. Processes of one
machine map one file of packed weights. Needs what the package's extra `ray` names (`pip install '.[ray]'`); evaluate()
and application() also need the program `llada` on every machine, which a release's wheel brings.
"""

from __future__ import annotations

from typing import Any

try:
    import ray as _ray  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "ray":
        raise
    raise ModuleNotFoundError("llada.ray: found no Ray, needed the extra of the package: pip install 'llada[ray]'",
                              name="ray") from None

from ._evaluate import evaluate
from ._generate import Generator, generate
from ._models import local_path, open_model

__all__ = ["Generator", "application", "evaluate", "generate", "local_path", "open_model"]


def __getattr__(name: str) -> Any:
    """application(), whose module imports Ray Serve: a third of the time that an actor's imports take, for nothing."""
    if name == "application":
        from ._serve import application

        return application
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
