"""The same calls for asyncio. Requests are submitted at once, so the engine sees all of them; threads only wait."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union

from . import _prompts
from ._frames import Frame, Result
from ._many import Many
from ._opened import Opened
from ._request import Request, refuse_pickling

if TYPE_CHECKING:
    from ._arrays import Tokens
    from ._prompts import Message, Prompt

T = TypeVar("T")

# As waits are short (_request.py), so many threads serve any number of requests in turn.
_WAITING_THREADS = 16


@functools.lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_WAITING_THREADS, "llada-wait")


async def in_thread(call: Callable[..., T], *arguments: Any, **named: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(_threads(), functools.partial(call, *arguments, **named))


async def _waited(request: Request) -> Result:
    try:
        while not await in_thread(request.wait_slice):
            pass
        return request.result()
    finally:
        request.close()


class AsyncStream(AsyncIterator[Frame]):
    """The frames of a request as they come; `result` is there at the end. Cancelling the task, or leaving an `async
    with` block, takes the request back."""

    def __init__(self, request: Request):
        self._request = request
        self._result: Optional[Result] = None

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> Frame:
        if self._result is not None:
            raise StopAsyncIteration
        come, frame = False, None
        try:
            while not come:
                come, frame = await in_thread(self._request.next_slice)
        except asyncio.CancelledError:
            self._request.close()
            raise
        if frame is None:
            self._result = self._request.result()
            self._request.close()
            raise StopAsyncIteration
        return frame

    @property
    def result(self) -> Optional[Result]:
        """Of the whole request; None before its last frame was taken."""
        return self._result

    def cancel(self) -> None:
        """No further forward. The frames that there are can still be read, and `result` is what was decided."""
        self._request.cancel()

    def __reduce__(self) -> Any:
        refuse_pickling("AsyncStream")

    async def aclose(self) -> None:
        self._request.close()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class AsyncCalls(Opened):
    """agenerate is generate, and so on: the arguments are the same. Cancelling a task takes its request back."""

    async def _awaited(self, asking: _prompts.Asking, options: dict[str, Any]) -> Result:
        await in_thread(self._engine, self._engine_options["streams"])  # the first call may compute
        return await _waited(self._submit(asking, options))

    async def agenerate(
        self, prompt: Prompt, *, raw: bool = False, system: Optional[str] = None, **options: Any
    ) -> Result:
        return await self._awaited(_prompts.answer(prompt, raw, system), options)

    async def achat(self, messages: Sequence[Message], **options: Any) -> Result:
        return await self._awaited(_prompts.chat(messages), options)

    async def ainfill(self, text: Union[str, Tokens], gaps: Optional[Tokens] = None, **options: Any) -> Result:
        return await self._awaited(_prompts.infilling(text, gaps), options)

    def astream(
        self, prompt: Prompt, *, raw: bool = False, system: Optional[str] = None, **options: Any
    ) -> AsyncStream:
        """`async for frame in model.astream(...)`"""
        return AsyncStream(self._submit(_prompts.answer(prompt, raw, system), options, keep_steps=True))

    def agenerate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        streams: int = 4,
        raw: bool = False,
        system: Optional[str] = None,
        **options: Any,
    ) -> AsyncIterator[Result]:
        """`async for result in model.agenerate_many(...)`"""
        return _in_order(Many(self, prompts, streams, raw, system, options))


async def _in_order(many: Many) -> AsyncIterator[Result]:
    with many:
        for request in many:
            yield await _waited(request)
