"""Options are keyword arguments. The list of them is the library's own (llada_option_describe), so that a keyword that
it does not know is an error here, with the names that are near."""

from __future__ import annotations

import ctypes
import difflib
import functools
import numbers
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from . import _capi
from ._errors import InvalidError, check

_KINDS = {
    "model": _capi.FOR_MODEL,
    "engine": _capi.FOR_ENGINE,
    "request": _capi.FOR_REQUEST,
    "score": _capi.FOR_SCORE,
}
_CALLS = {
    _capi.FOR_MODEL: "Model.load()",
    _capi.FOR_ENGINE: "Model.load()",
    _capi.FOR_REQUEST: "a request",
    _capi.FOR_SCORE: "score()",
}
# Whether steps are kept is what tells stream() from generate().
_INTERNAL = frozenset({"keep_steps"})
_REPEATED = frozenset({"stop"})


@dataclass(frozen=True)
class Option:
    """One option of the library: a keyword of `Model.load`, of a request (`generate`, `stream`, ...) or of `score`."""

    key: str
    used_for: tuple[str, ...]  #: of "model", "engine", "request", "score"
    is_switch: bool  #: takes True and False
    unit: str  #: what the value is, such as "N"
    values: str  #: "a whole number from 1 to 1048576"
    initial: str  #: the value where it is not given
    help: str
    group: str


@functools.lru_cache(maxsize=1)
def _all() -> dict[str, Option]:
    found: dict[str, Option] = {}
    info = _capi.OptionInfo()
    index = 0
    while check(_capi.lib.llada_option_describe(index, ctypes.byref(info))) == _capi.OK:
        index += 1
        key = info.key.decode()
        if key in _INTERNAL:
            continue
        kinds = tuple(name for name, flag in _KINDS.items() if info.used_for & flag)
        texts = [text.decode() for text in (info.unit, info.values, info.initial, info.help, info.group)]
        found[key] = Option(key, kinds, bool(info.is_switch), *texts)
    return found


def options(kind: str | None = None) -> list[Option]:
    """The options that there are: all, or those of one kind ("model", "engine", "request", "score")."""
    if kind is not None and kind not in _KINDS:
        raise ValueError(f"kind: found {kind!r}, needed one of {', '.join(_KINDS)}")
    return [option for option in _all().values() if kind is None or kind in option.used_for]


def known(key: str, kind: int) -> bool:
    """Whether options of that kind (FOR_...) have the key."""
    option = _all().get(key)
    return option is not None and any(_KINDS[name] & kind for name in option.used_for)


def _removed(key: str) -> str:
    """What the library says of an option that it once had: '...' was removed: ...; or nothing."""
    try:
        with handle([(key, "")]):
            return ""
    except InvalidError as error:
        return str(error) if " was removed: " in str(error) else ""


def _unknown(key: str, kind: int) -> TypeError:
    if key not in _all() and (removed := _removed(key)):
        return TypeError(removed)
    allowed = [name for name in _all() if known(name, kind)]
    near = difflib.get_close_matches(key, allowed, n=3)
    if key in _all():
        needed = f"it is one of {' and '.join(_all()[key].used_for)}"
    elif near:
        needed = f"did you mean {' or '.join(near)}?"
    else:
        needed = "llada.options() lists all"
    return TypeError(f"{key}: is no option of {_CALLS[kind]}; {needed}")


def _text(option: Option, value: Any) -> str:
    if option.is_switch:
        if isinstance(value, bool):
            return "true" if value else "false"
    elif isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        if isinstance(text, str):
            return text
    elif isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return str(int(value))
    elif isinstance(value, numbers.Real) and not isinstance(value, bool):
        return repr(float(value))
    needed = "True or False" if option.is_switch else option.values or option.unit
    raise TypeError(f"{option.key}: found {value!r}, needed {needed}")


def pairs(kind: int, given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Keys and values as the library takes them. None stands for an option that was not given. Raises TypeError where
    no such option is, or its value is of another type."""
    found: list[tuple[str, str]] = []
    for key, value in given.items():
        if not known(key, kind):
            raise _unknown(key, kind)
        if value is None:
            continue
        several = key in _REPEATED and isinstance(value, (list, tuple))
        found += [(key, _text(_all()[key], one)) for one in (value if several else [value])]
    return found


@contextmanager
def handle(settings: list[tuple[str, str]]) -> Iterator[ctypes.c_void_p | None]:
    """An llada_options with these settings, or null for none of them."""
    if not settings:
        yield None
        return
    made = ctypes.c_void_p()
    check(_capi.lib.llada_options_create(_capi.API_VERSION, ctypes.byref(made)))
    try:
        for key, value in settings:
            if "\0" in value:
                raise InvalidError(f"{key}: found a NUL, needed text without one", _capi.ERROR_INVALID)
            check(_capi.lib.llada_options_set(made, key.encode(), value.encode("utf-8", "surrogateescape")))
        yield made
    finally:
        _capi.lib.llada_options_free(made)
