"""A model that is open: loading it, its engines, and its end."""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Optional, TypeVar, Union

from . import _capi, _options, _shipped
from ._errors import ClosedError, check
from ._prompts import Asking
from ._request import Request, refuse_pickling
from ._waiting import interruptible

Progress = Callable[[int, int], Any]
Self = TypeVar("Self", bound="Opened")


@dataclass(frozen=True)
class ModelInfo:
    """What is known of a model. A token's id is -1 where the model has none."""

    vocabulary: int  #: tokens; a row of logits has as many numbers
    context: int  #: positions that it was trained for; 0: not known
    layers: int
    width: int
    attention_block: int  #: of a block-causal model; 0: every position sees all
    file_bytes: int
    mask_token: int
    bos_token: int
    eos_token: int
    eot_token: int
    has_tokenizer: bool
    threads: int
    architecture: str
    device: str  #: processor, instruction set, threads
    chat_style: str  #: "llada", "chatml", "bailing" or "plain"
    path: str
    notes: tuple[str, ...]  #: sentences: what of the file is not followed


@dataclass(frozen=True)
class EngineStats:
    """What an engine has computed so far, for all of its requests."""

    forwards: int  #: shared ones
    parts: int  #: of requests in them
    rows: int
    row_budget: int
    most_rows: int  #: of one forward of several requests
    most_passed_over: int  #: forwards in a row that some request was not part of


class Engine:
    """An llada_engine. Its requests keep it, so it is freed when the last of them is gone."""

    def __init__(self, model: ctypes.c_void_p, settings: list[tuple[str, str]]):
        self.handle = ctypes.c_void_p()
        self._process = os.getpid()
        with _options.handle(settings) as options:
            check(_capi.lib.llada_engine_create(model, options, ctypes.byref(self.handle)))

    def free(self) -> None:
        if self._process == os.getpid():
            _capi.lib.llada_engine_free(self.handle)

    __del__ = free


class Opened:
    """A handle of a model, and the engines that answer its requests: one for every number of streams asked for."""

    _handle: Optional[ctypes.c_void_p]
    _process: int
    _lock: threading.RLock
    _engines: dict[int, Engine]
    _engine_options: dict[str, Any]

    def __init__(self) -> None:
        raise TypeError("Model: is made by Model.load(path)")

    @classmethod
    def load(
        cls: type[Self],
        path: Union[str, os.PathLike[str]],
        *,
        threads: Optional[int] = None,
        device: Optional[str] = None,
        streams: int = 1,
        progress: Optional[Progress] = None,
        **options: Any,
    ) -> Self:
        """Opens a GGUF file, a Hugging Face folder, or "tiny-llada", the small model that a wheel brings.

        threads: one per physical core where not given. device: "cpu", "cuda" ... streams: requests that share forwards
        where several threads or coroutines ask at once; the others wait in their order. progress: called with the
        bytes done and in all. options: `llada.options("model")` and `llada.options("engine")`. Ctrl-C, and an exception
        that `progress` raises, end the loading."""
        of_engine = {key: value for key, value in options.items() if _options.known(key, _capi.FOR_ENGINE)}
        of_model = {key: value for key, value in options.items() if key not in of_engine}
        of_engine.update(threads=threads, streams=streams)
        of_model.update(threads=threads, device=device)
        settings = _options.pairs(_capi.FOR_MODEL, of_model)
        self = object.__new__(cls)
        self._handle, self._process, self._lock, self._engines = None, os.getpid(), threading.RLock(), {}
        self._engine_options = of_engine
        with _options.handle(_options.pairs(_capi.FOR_ENGINE, of_engine)):
            pass  # a wrong value is told before the weights are read
        self._handle = _load(os.fsencode(_shipped.model_path(path)), settings, progress)
        _open_models.add(self)
        return self

    def close(self) -> None:
        """Lets go of the model. What is under way ends with a ClosedError. Again: nothing."""
        if not self._in_its_process():
            return
        with self._lock:
            handle, self._handle = self._handle, None
            engines, self._engines = list(self._engines.values()), {}
        for engine in engines:
            engine.free()
        if handle is not None:
            _capi.lib.llada_model_free(handle)

    @property
    def closed(self) -> bool:
        return self._handle is None

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_engines"):
            self.close()

    def __reduce__(self) -> Any:
        refuse_pickling("Model")

    def __repr__(self) -> str:
        return "<llada.Model, closed>" if self.closed else f"<llada.Model {self.info.path}, {self.info.device}>"

    def _in_its_process(self) -> bool:
        return self._process == os.getpid()

    def _check_process(self) -> None:
        if not self._in_its_process():
            raise ClosedError(
                f"model: was loaded by process {self._process}, from which this one was forked; needed one that this "
                "process loads",
                _capi.ERROR_HANDLE,
            )

    def _live(self) -> ctypes.c_void_p:
        """The handle. Raises ClosedError."""
        self._check_process()
        handle = self._handle
        if handle is None:
            raise ClosedError("model: found one that was closed, needed one that is open", _capi.ERROR_HANDLE)
        return handle

    def _engine(self, streams: int) -> Engine:
        """The engine with that many streams. Kept are the one of `load` and the last other."""
        settings = _options.pairs(_capi.FOR_ENGINE, {**self._engine_options, "streams": streams})
        self._live()
        with self._lock:
            engine = self._engines.get(streams)
            if engine is None:
                handle = self._live()
                engine = interruptible(lambda: Engine(handle, settings))
                kept = self._engines.get(self._engine_options["streams"])
                self._engines = {self._engine_options["streams"]: kept} if kept is not None else {}
                self._engines[streams] = engine
            return engine

    def engine_stats(self, streams: Optional[int] = None) -> EngineStats:
        """Of the engine with that many streams; where not given, of the one that `load` names."""
        stats = _capi.EngineStats()
        engine = self._engine(self._engine_options["streams"] if streams is None else streams)
        check(_capi.lib.llada_engine_describe(engine.handle, ctypes.byref(stats)))
        return EngineStats(**{name: getattr(stats, name) for name in EngineStats.__dataclass_fields__})

    def _submit(
        self, asking: Asking, options: Mapping[str, Any], *, keep_steps: bool = False, streams: Optional[int] = None
    ) -> Request:
        settings = _options.pairs(_capi.FOR_REQUEST, options)
        if keep_steps:
            settings.append(("keep_steps", "true"))
        engine = self._engine(self._engine_options["streams"] if streams is None else streams)
        with _options.handle(settings) as handle:
            return Request(self, engine, asking, handle)

    @functools.cached_property
    def info(self) -> ModelInfo:
        """What is known of the model."""
        info = _capi.ModelInfo()
        check(_capi.lib.llada_model_describe(self._live(), ctypes.byref(info)))
        values = {name: getattr(info, name) for name in ModelInfo.__dataclass_fields__}
        texts = {name: value.decode("utf-8", "replace") for name, value in values.items() if isinstance(value, bytes)}
        notes = tuple(line for line in texts["notes"].split("\n") if line)
        return ModelInfo(**{**values, **texts, "has_tokenizer": bool(info.has_tokenizer), "notes": notes})


_open_models: weakref.WeakSet[Opened] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for model in list(_open_models):
        model.close()


def _load(path: bytes, settings: list[tuple[str, str]], progress: Optional[Progress]) -> ctypes.c_void_p:
    raised: list[BaseException] = []

    # Also without `progress`: here Python looks for Ctrl-C.
    def report(_: Any, done: int, total: int) -> int:
        try:
            if progress is not None:
                progress(done, total)
            return len(raised)  # here too a signal may raise
        except BaseException as error:  # raised again below: none may leave through the library
            raised.append(error)
            return 1

    made = ctypes.c_void_p()
    with _options.handle(settings) as options:
        status = _capi.lib.llada_model_load(
            _capi.API_VERSION, path, options, _capi.Progress(report), None, ctypes.byref(made)
        )
    if raised:
        _capi.lib.llada_model_free(made)
        raise raised[0]
    if status == _capi.ERROR_ABORTED:  # by a Ctrl-C that came when report() was left, where ctypes drops it
        raise KeyboardInterrupt
    check(status)
    return made
