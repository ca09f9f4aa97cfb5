"""A request that is under way: waiting for it so that signals are handled, and taking it back."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, Optional, Protocol

from . import _capi
from ._errors import ClosedError, check
from ._frames import Frame, Result

if TYPE_CHECKING:
    from ._prompts import Asking

# Python handles a signal between two of its own instructions. So nobody waits longer than this in the library.
_SLICE_MS = 50


class Owner(Protocol):
    """Of a model, what its requests ask."""

    @property
    def closed(self) -> bool: ...
    def _in_its_process(self) -> bool: ...
    def _check_process(self) -> None: ...


class Answering(Protocol):
    """Of an engine."""

    handle: ctypes.c_void_p


def refuse_pickling(what: str) -> NoReturn:
    raise TypeError(f"{what}: cannot be pickled, its memory and its threads belong to this process; needed a model that "
                    "the other process loads, or what a Result holds")


class Request:
    """An llada_request. It keeps its model and engine, so that neither goes away while it is waited for. What the
    library lends is copied within `_borrowed`, and the handle is freed when nobody is there any more."""

    def __init__(self, model: Owner, engine: Answering, asking: Asking, options: Optional[ctypes.c_void_p]):
        self._model, self._engine = model, engine
        self._lock = threading.RLock()  # one of a kind that a signal's handler may take again
        self._users, self._closed, self._cancelled = 0, True, False
        self._handle = ctypes.c_void_p()
        submit = getattr(_capi.lib, asking.function)
        check(submit(engine.handle, *asking.arguments, options, ctypes.byref(self._handle)))
        self._closed = False

    @contextmanager
    def _borrowed(self) -> Iterator[ctypes.c_void_p]:
        with self._lock:
            if self._closed:
                raise ClosedError("request: found one that was closed, needed one that is open", _capi.ERROR_HANDLE)
            self._model._check_process()
            self._users += 1
        try:
            yield self._handle
        finally:
            with self._lock:
                self._users -= 1
                self._free_unused()

    def _free_unused(self) -> None:
        if self._closed and self._users == 0 and self._model._in_its_process():
            _capi.lib.llada_request_free(self._handle)

    def wait_slice(self) -> bool:
        """Whether it has ended, after a short wait."""
        with self._borrowed() as handle:
            return bool(check(_capi.lib.llada_request_wait(handle, _SLICE_MS)) != _capi.TIMEOUT)

    def next_slice(self) -> tuple[bool, Optional[Frame]]:
        """(whether something has come, the frame or None at the end), after a short wait."""
        step = _capi.Step()
        with self._borrowed() as handle:
            status = check(_capi.lib.llada_request_next(handle, _SLICE_MS, ctypes.byref(step)))
            return status != _capi.TIMEOUT, Frame._of(step) if status == _capi.OK else None

    def result(self) -> Result:
        """Of a request that has ended. Raises ClosedError where its model's end was its own."""
        result = _capi.Result()
        with self._borrowed() as handle:
            check(_capi.lib.llada_request_result(handle, ctypes.byref(result)))
            found = Result._of(result)
        if found.finish_reason == "interrupted" and self._model.closed and not self._cancelled:
            raise ClosedError("model: it was closed while the request was under way", _capi.ERROR_HANDLE)
        return found

    def wait(self) -> Result:
        """Waits for the end; whatever interrupts the waiting takes the request back."""
        try:
            while not self.wait_slice():
                pass
            return self.result()
        finally:
            self.close()

    def cancel(self) -> None:
        """No further forward. Nothing where it has ended or was closed."""
        self._cancelled = True
        if self._model._in_its_process():
            _capi.lib.llada_request_cancel(self._handle)

    def close(self) -> None:
        """Takes it back. Again: nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self.cancel()
                self._free_unused()

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            self.close()


class Stream(Iterator[Frame]):
    """The frames of a request, one per step, as they come. At its end `result` is there. Leaving a loop over it early,
    or its `with` block, takes the request back. One thread at a time iterates; any may `cancel()`."""

    def __init__(self, request: Request):
        self._request = request
        self._result: Optional[Result] = None

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Frame:
        if self._result is not None:
            raise StopIteration
        try:
            come, frame = False, None
            while not come:
                come, frame = self._request.next_slice()
        except Exception:
            raise
        except BaseException:  # such as KeyboardInterrupt
            self._request.cancel()
            raise
        if frame is None:
            self._result = self._request.result()
            self._request.close()
            raise StopIteration
        return frame

    @property
    def result(self) -> Result:
        """Of the whole request; the frames that nobody has taken are left out, and the end is waited for."""
        if self._result is None:
            while not self._request.wait_slice():
                pass
            self._result = self._request.result()
            self._request.close()
        return self._result

    def cancel(self) -> None:
        """No further forward. The frames that there are can still be read, and `result` is what was decided."""
        self._request.cancel()

    def close(self) -> None:
        """Takes the request back. Again: nothing."""
        self._request.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        refuse_pickling("Stream")
