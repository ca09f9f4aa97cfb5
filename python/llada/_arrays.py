"""Numbers that cross to and from the library. numpy is used where it is installed, and imported when it is needed."""

from __future__ import annotations

import array
import ctypes
import functools
import importlib
import numbers
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    import numpy

    #: A numpy array of 32-bit floats; an array.array of them where numpy is not installed.
    Floats = Union["numpy.ndarray[Any, numpy.dtype[numpy.float32]]", "array.array[float]"]
    #: Rows of them: one array of two dimensions, or a list where numpy is not installed.
    FloatRows = Union["numpy.ndarray[Any, numpy.dtype[numpy.float32]]", "list[array.array[float]]"]
    Tokens = Union[Sequence[int], "numpy.ndarray[Any, Any]"]

_INT32 = range(-(2**31), 2**31)
_SIZES = {"i": 4, "f": 4}


@functools.lru_cache(maxsize=1)
def numpy_module() -> Any:
    """numpy, or None where it is not installed."""
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


def copied(pointer: Any, count: int, code: str) -> array.array[Any]:
    """A copy of `count` numbers that the library lends; code: "i" or "f"."""
    made = array.array(code)
    if count:
        made.frombytes(ctypes.string_at(pointer, count * _SIZES[code]))
    return made


def bytes_at(pointer: Any, size: int) -> bytes:
    return ctypes.string_at(pointer, size) if size else b""


def text_at(pointer: Any, size: int) -> str:
    return bytes_at(pointer, size).decode("utf-8", "replace")


def floats(values: array.array[float]) -> Floats:
    numpy = numpy_module()
    return values if numpy is None else numpy.frombuffer(values, dtype=numpy.float32)


def id_array(what: str, values: Iterable[Any], needed: str = "token ids") -> Any:
    """The ids as the library takes them: a ctypes array of int32_t. Raises TypeError for what is no whole number.
    needed: what errors name, where it may be something else as well."""
    if isinstance(values, (str, bytes, bytearray)):
        raise TypeError(f"{what}: found {type(values).__name__}, needed {needed}")
    try:
        ids = list(values)
    except TypeError:
        raise TypeError(f"{what}: found {type(values).__name__}, needed {needed}") from None
    for value in ids:
        if not isinstance(value, numbers.Integral) or isinstance(value, bool):
            raise TypeError(f"{what}: found {value!r}, needed token ids, which are whole numbers")
        if int(value) not in _INT32:
            raise ValueError(f"{what}: found {value!r}, needed a token id of 32 bits")
    return (ctypes.c_int32 * len(ids))(*[int(value) for value in ids])
