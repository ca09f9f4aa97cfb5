"""Many prompts through the engine's scheduler, in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _capi, _options, _prompts
from ._request import Request

if TYPE_CHECKING:
    from ._opened import Opened
    from ._prompts import Prompt


class Many(Iterator[Request]):
    """The requests of prompts, in their order. Some are submitted ahead of the one that is given, so that every stream
    has work however long the oldest takes, and no more, so that prompts may come from a generator without end. Closing
    takes back what nobody was given."""

    def __init__(
        self,
        model: Opened,
        prompts: Iterable[Prompt],
        streams: int,
        raw: bool,
        system: Optional[str],
        options: Mapping[str, Any],
    ):
        if isinstance(prompts, (str, bytes)):
            raise TypeError(f"prompts: found {type(prompts).__name__}, needed a list of prompts")
        _options.pairs(_capi.FOR_REQUEST, options)
        model._engine(streams)
        self._model, self._streams, self._options = model, streams, options
        self._submitted = (self._submit(prompt, raw, system) for prompt in prompts)
        self._ahead = 4 * int(streams)
        self._under_way: deque[Union[Request, Exception]] = deque()

    def _submit(self, prompt: Any, raw: bool, system: Optional[str]) -> Union[Request, Exception]:
        try:
            return self._model._submit(_prompts.answer(prompt, raw, system), self._options, streams=self._streams)
        except Exception as error:  # raised where its answer would be, behind those of earlier prompts
            return error

    def __next__(self) -> Request:
        self._under_way.extend(islice(self._submitted, self._ahead - len(self._under_way)))
        if not self._under_way:
            raise StopIteration
        first = self._under_way.popleft()
        if isinstance(first, Exception):
            raise first
        return first

    def __enter__(self) -> Many:
        return self

    def __exit__(self, *_: object) -> None:
        for request in self._under_way:
            if isinstance(request, Request):
                request.close()
