"""Calls of the library that compute and cannot be taken back, made so that Ctrl-C does not wait for them."""

from __future__ import annotations

import threading
from typing import Callable, Generic, Optional, TypeVar

T = TypeVar("T")


class _Call(threading.Thread, Generic[T]):
    def __init__(self, call: Callable[[], T]):
        super().__init__(name="llada-call")
        self._call = call
        self.found: Optional[T] = None
        self.error: Optional[BaseException] = None

    def run(self) -> None:
        try:
            self.found = self._call()
        except BaseException as error:  # raised again where it is waited for
            self.error = error


def interruptible(call: Callable[[], T]) -> T:
    """The call's result. Signals are handled on the main thread alone, between two of Python's instructions: there the
    call is made on another thread, and is left to itself where the waiting is interrupted. The process ends behind
    it."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    thread = _Call(call)
    thread.start()
    thread.join()
    if thread.error is not None:
        raise thread.error
    return thread.found  # type: ignore[return-value]
