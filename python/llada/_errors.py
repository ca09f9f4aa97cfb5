"""Errors: every one of the library's is an LladaError with the line that the library wrote."""

from __future__ import annotations

from typing import Any, NoReturn

from . import _capi


class LladaError(Exception):
    """What the library refused or could not do. `status` is the number of llada.h, `name` its name."""

    def __init__(self, message: str, status: int = _capi.ERROR_FAILED):
        super().__init__(message)
        self.status = status

    @property
    def name(self) -> str:
        return str(_capi.lib.llada_status_name(self.status).decode())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.status)


class InvalidError(LladaError, ValueError):
    """An argument, an option or a file's content is wrong."""


class ClosedError(LladaError):
    """A model, stream or request was used after it had been closed, or in a process that was forked."""


class UnsupportedError(LladaError, NotImplementedError):
    """This build of the library, or this model, cannot do it."""


class OutOfMemoryError(LladaError, MemoryError):
    """Memory is exhausted."""


_TYPES = {
    _capi.ERROR_INVALID: InvalidError,
    _capi.ERROR_HANDLE: ClosedError,
    _capi.ERROR_UNSUPPORTED: UnsupportedError,
    _capi.ERROR_MEMORY: OutOfMemoryError,
}


def fail(status: int) -> NoReturn:
    """Raises what this thread's last call failed with."""
    line = _capi.lib.llada_error(None) or b""
    message = line.decode("utf-8", "replace") or f"the library gave status {status} and no line"
    raise _TYPES.get(status, LladaError)(message, status)


def check(status: int) -> int:
    """The status, where it is no error."""
    if status < 0:
        fail(status)
    return status
