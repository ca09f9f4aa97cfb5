"""A request that is under way: waiting for it so that signals are handled, and taking it back."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Optional

from . import _capi
from ._errors import ClosedError, check, fail
from ._frames import Frame, Result

if TYPE_CHECKING:
    from ._model import Model

# Python handles a signal between two of its own instructions. So nobody waits longer than this in the library.
_SLICE_MS = 50


class Request:
    """An llada_request. It keeps its model's Python object, so that neither goes away while it is waited for."""

    def __init__(self, model: Model, engine: Any, submit: str, arguments: list[Any]):
        self._handle: Optional[ctypes.c_void_p] = None
        self._model = model
        self._engine = engine
        self._infill = submit in ("llada_submit_infill", "llada_submit_gaps")
        made = ctypes.c_void_p()
        model._check_process()
        check(getattr(_capi.lib, submit)(engine.handle, *arguments, ctypes.byref(made)))
        self._handle = made

    def live(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise ClosedError("request: found one that was closed, needed one that is open", _capi.ERROR_HANDLE)
        self._model._check_process()
        return self._handle

    def wait_slice(self) -> bool:
        """Whether it has ended, after a short wait."""
        status = check(_capi.lib.llada_request_wait(self.live(), _SLICE_MS))
        return bool(status != _capi.TIMEOUT)

    def next_slice(self) -> tuple[bool, Optional[Frame]]:
        """(whether something has come, the frame or None at the end), after a short wait."""
        step = _capi.Step()
        status = check(_capi.lib.llada_request_next(self.live(), _SLICE_MS, ctypes.byref(step)))
        if status == _capi.TIMEOUT:
            return False, None
        return True, Frame._of(step) if status == _capi.OK else None

    def result(self) -> Result:
        """Of a request that has ended."""
        result = _capi.Result()
        check(_capi.lib.llada_request_result(self.live(), ctypes.byref(result)))
        return Result._of(result, self._infill)

    def wait(self) -> Result:
        """Waits for the end; whatever interrupts the waiting takes the request back."""
        try:
            while not self.wait_slice():
                pass
            return self.result()
        finally:
            self.close()

    def cancel(self) -> None:
        if self._handle is not None and self._model._in_its_process():
            status = _capi.lib.llada_request_cancel(self._handle)
            if status not in (_capi.OK, _capi.ERROR_HANDLE):
                fail(status)

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None and self._model._in_its_process():
            _capi.lib.llada_request_free(handle)

    def __del__(self) -> None:
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
        except BaseException:
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
