"""llada: diffusion language models (DiffusionGemma, LLaDA, Dream, SDAR and others) on your own processor.

    import llada

    with llada.Model.load("model.gguf") as model:
        print(model.generate("Why is the sky blue?"))
        for frame in model.stream("A name for a cat", temperature=0.8):
            print(frame.masks_left, frame.text)

An answer does not grow word by word: all of it is masks at first, and each step decides some of them, anywhere. A
`Frame` is what there is after a step.
"""

from ._capi import lib as _lib
from ._errors import ClosedError, InvalidError, LladaError, OutOfMemoryError, UnsupportedError
from ._async import AsyncStream
from ._frames import Frame, Result, Score, Stats, Token
from ._model import Model
from ._opened import EngineStats, ModelInfo
from ._options import Option, options
from ._request import Stream

__all__ = [
    "AsyncStream",
    "ClosedError",
    "EngineStats",
    "Frame",
    "InvalidError",
    "LladaError",
    "Model",
    "ModelInfo",
    "Option",
    "OutOfMemoryError",
    "Result",
    "Score",
    "Stats",
    "Stream",
    "Token",
    "UnsupportedError",
    "has_feature",
    "options",
]

#: The version of the library, which is the package's.
__version__: str = _lib.llada_version().decode()


def has_feature(name: str) -> bool:
    """Whether the library was built with "score", "cuda", "hexagon" or "tokenizer". The device may still be absent."""
    return bool(_lib.llada_has_feature(name.encode()))
