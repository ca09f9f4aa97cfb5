"""A model, and what can be asked of it."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _capi, _options, _prompts
from ._arrays import copied, id_array, numpy_module
from ._async import AsyncCalls, in_thread
from ._errors import check
from ._frames import Result, Score
from ._many import Many
from ._request import Stream
from ._waiting import interruptible

if TYPE_CHECKING:
    from ._arrays import FloatRows, Tokens
    from ._prompts import Message, Prompt


class Model(AsyncCalls):
    """An open model. Every method may be called from any thread, and many at once.

    Options are keyword arguments; `llada.options("request")` lists those of `generate`, `chat`, `stream`, `infill` and
    `generate_many`, which are the ones of `llada run --help-all` with _ for -: `gen_length`, `preset`, `threshold`,
    `temperature`, `seed`, `stop` (a text or several) ... An unknown one is a TypeError, a wrong value an InvalidError.
    """

    def generate(self, prompt: Prompt, *, raw: bool = False, system: Optional[str] = None, **options: Any) -> Result:
        """An answer. prompt: a text, which is the user's message; a list of messages; or token ids, which are taken as
        they are. raw: take the text as it is, without the model's chat template. system: a message before it."""
        return self._submit(_prompts.answer(prompt, raw, system), options).wait()

    def chat(self, messages: Sequence[Message], **options: Any) -> Result:
        """The answer to a conversation: dicts with `role` ("system" or "developer", "user", "assistant") and
        `content`, or tuples of the two; the last is the user's."""
        return self._submit(_prompts.chat(messages), options).wait()

    def stream(self, prompt: Prompt, *, raw: bool = False, system: Optional[str] = None, **options: Any) -> Stream:
        """An answer as it forms: iterate over its frames; `result` is there at the end."""
        return Stream(self._submit(_prompts.answer(prompt, raw, system), options, keep_steps=True))

    def infill(self, text: Union[str, Tokens], gaps: Optional[Tokens] = None, **options: Any) -> Result:
        """Fills the gaps of a text: `<mask:N>` is one of N tokens, `<mask>` one of one, `<mask:auto>` one whose length
        the engine chooses. Or token ids, and the positions of the gaps. The result is the whole text."""
        return self._submit(_prompts.infilling(text, gaps), options).wait()

    def stream_infill(self, text: Union[str, Tokens], gaps: Optional[Tokens] = None, **options: Any) -> Stream:
        """As `infill`, frame by frame."""
        return Stream(self._submit(_prompts.infilling(text, gaps), options, keep_steps=True))

    def generate_many(
        self,
        prompts: Iterable[Prompt],
        *,
        streams: int = 4,
        raw: bool = False,
        system: Optional[str] = None,
        **options: Any,
    ) -> Iterator[Result]:
        """The answers to many prompts, in their order, as they become ready: `streams` requests share each forward.
        Every answer is the one that the prompt has alone. `prompts` may be a generator without end: few are taken
        ahead. An error is raised where its answer would be; leaving the iterator takes back what is under way."""
        return _in_order(Many(self, prompts, streams, raw, system, options))

    # ---- Text and numbers ----

    def _filled(self, function: str, arguments: list[Any]) -> list[int]:
        """The ids that a function of the library fills a buffer with."""
        count = ctypes.c_size_t()
        call = getattr(_capi.lib, function)
        check(call(*arguments, None, 0, ctypes.byref(count)))
        ids = (ctypes.c_int32 * count.value)()
        if count.value:
            check(call(*arguments, ids, count.value, ctypes.byref(count)))
        return list(ids)

    def tokenize(self, text: str, *, bos: bool = False, control: bool = False) -> list[int]:
        """The ids of a text. bos: the token that begins a text first, where the model wants one. control: texts of
        control tokens are these tokens, as in a raw prompt; otherwise they are text."""
        data = _prompts.text_bytes("text", text)
        flags = (_capi.WITH_BOS if bos else 0) | (_capi.WITH_CONTROL if control else 0)
        return self._filled("llada_tokenize", [self._live(), data, len(data), flags])

    def chat_tokens(self, messages: Iterable[Message]) -> list[int]:
        """The ids of a conversation in the model's own format, up to where the answer begins."""
        return self._filled("llada_chat_tokens", [self._live(), *_prompts.conversation(messages)])

    def detokenize(self, tokens: Tokens, *, control: bool = False) -> str:
        """The text of token ids. control: also that of control tokens."""
        ids = id_array("tokens", tokens)
        arguments = [self._live(), ids, len(ids), _capi.SHOW_CONTROL if control else 0]
        needed = ctypes.c_size_t()
        check(_capi.lib.llada_detokenize(*arguments, None, 0, ctypes.byref(needed)))
        text = ctypes.create_string_buffer(needed.value + 1)
        check(_capi.lib.llada_detokenize(*arguments, text, len(text), ctypes.byref(needed)))
        return text.raw[: needed.value].decode("utf-8", "replace")

    def logits(self, tokens: Tokens, positions: Optional[Tokens] = None) -> FloatRows:
        """One forward over the ids as they are, masks among them; of DiffusionGemma over one canvas of them all. A float32 array of (positions, vocabulary), or a list
        of array.array where numpy is not installed. positions: ascending; all where not given."""
        ids = id_array("tokens", tokens)
        wanted = id_array("positions", range(len(ids)) if positions is None else positions)
        width = self.info.vocabulary
        numbers = (ctypes.c_float * (len(wanted) * width))()
        arguments = [self._live(), ids, len(ids), wanted, len(wanted), numbers, len(numbers)]
        interruptible(lambda: check(_capi.lib.llada_logits(*arguments)))
        numpy = numpy_module()
        if numpy is not None:
            rows: FloatRows = numpy.ctypeslib.as_array(numbers).reshape(len(wanted), width)
            return rows
        return [copied(ctypes.byref(numbers, 4 * width * row), width, "f") for row in range(len(wanted))]

    def score(self, prompt: Prompt, continuation: Union[str, Tokens], *, raw: bool = False, **options: Any) -> Score:
        """How likely the model finds a continuation behind a prompt. prompt: as of `generate`. continuation: a text, or
        token ids. options: `llada.options("score")`."""
        return self.score_many(prompt, [continuation], raw=raw, **options)[0]

    def score_many(
        self, prompt: Prompt, continuations: Iterable[Union[str, Tokens]], *, raw: bool = False, **options: Any
    ) -> list[Score]:
        """The scores of several continuations of one prompt, such as the choices of a question, each as `score` gives
        it. Forwards that several of them need are computed once."""
        ids = self._prompt_ids(prompt, raw)
        if isinstance(continuations, (str, bytes)):
            raise TypeError(f"continuations: found {type(continuations).__name__}, needed a list of texts or of ids")
        behind = [
            id_array("continuation", self.tokenize(one, control=raw) if isinstance(one, str) else one)
            for one in continuations
        ]
        if not behind:
            return []
        texts = (ctypes.POINTER(ctypes.c_int32) * len(behind))(*behind)
        counts = (ctypes.c_size_t * len(behind))(*[len(one) for one in behind])
        model, settings = self._live(), _options.pairs(_capi.FOR_SCORE, options)

        def compute() -> list[Score]:
            found = (_capi.ScoreResult * len(behind))()
            found[0].size = ctypes.sizeof(_capi.ScoreResult)
            with _options.handle(settings) as handle:
                check(
                    _capi.lib.llada_score_many(model, ids, len(ids), texts, counts, len(behind), handle, found)
                )
            return [Score(one.log_probability, one.tokens, one.forwards, one.greedy == 1) for one in found]

        return interruptible(compute)

    def decide(self, questions: Any, about: Any = "", **llada: Any) -> Any:
        """A probability for every option of typed questions, each in one forward and without a text. questions: a list
        of {"type": "predicate" | "choice" | "score", "instructions": ..., "choices" | "levels": [...]}, or a dict of
        questions by name as of /v1/systemone. about: the text, or conversation, that is asked about. llada: labels,
        rotations, joint. The value is the reply of the server's route (docs/decide.md)."""
        body = {"state" if isinstance(questions, dict) else "input": about, "questions": questions, "llada": llada}
        request, model = json.dumps(body).encode(), self._live()

        def compute() -> Any:
            answer, size = ctypes.c_void_p(), ctypes.c_size_t()
            check(
                _capi.lib.llada_decide(model, request, len(request), ctypes.byref(answer), ctypes.byref(size))
            )
            return json.loads(ctypes.string_at(answer, size.value))

        return interruptible(compute)

    async def adecide(self, questions: Any, about: Any = "", **llada: Any) -> Any:
        """As `decide`, on a thread of its own."""
        return await in_thread(self.decide, questions, about, **llada)

    def _prompt_ids(self, prompt: Any, raw: bool) -> Any:
        if isinstance(prompt, str):
            prompt = self.tokenize(prompt, bos=True, control=True) if raw else self.chat_tokens([("user", prompt)])
        elif _prompts.is_conversation(prompt):
            prompt = self.chat_tokens(prompt)
        return id_array("prompt", prompt, _prompts.PROMPTS)

    async def ascore(
        self, prompt: Prompt, continuation: Union[str, Tokens], *, raw: bool = False, **options: Any
    ) -> Score:
        """As `score`, on a thread of its own."""
        return await in_thread(self.score, prompt, continuation, raw=raw, **options)

    async def ascore_many(
        self, prompt: Prompt, continuations: Iterable[Union[str, Tokens]], *, raw: bool = False, **options: Any
    ) -> list[Score]:
        """As `score_many`, on a thread of its own."""
        return await in_thread(self.score_many, prompt, continuations, raw=raw, **options)


def _in_order(many: Many) -> Iterator[Result]:
    with many:
        for request in many:
            yield request.wait()
