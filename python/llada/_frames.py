"""What a request gives: frames while it is decided, a result at its end."""

from __future__ import annotations

import array
import html
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from . import _capi
from ._arrays import bytes_at, copied, floats, text_at

if TYPE_CHECKING:
    from ._arrays import Floats

STATES = {
    _capi.TOKEN_FIXED: "fixed",
    _capi.TOKEN_MASKED: "masked",
    _capi.TOKEN_VISIBLE: "visible",
    _capi.TOKEN_STABLE: "stable",
}

FINISH_REASONS = {
    _capi.FINISH_STOP: "stop",
    _capi.FINISH_LENGTH: "length",
    _capi.FINISH_INTERRUPTED: "interrupted",
    _capi.FINISH_FILLED: "filled",
}


class Token(NamedTuple):
    """One position of the canvas."""

    id: int  #: the mask's id where masked
    text: str  #: maybe part of a character (then U+FFFD); "" where the model has no tokenizer
    state: str  #: "fixed" (given, infilling only), "masked", "visible" (may still change) or "stable"
    confidence: float  #: probability when it was decided; 0 while masked, 1 for what was given


def _names(states: array.array[int]) -> list[str]:
    return [STATES.get(state, str(state)) for state in states]


class _PerToken:
    """What frames and results know of each token."""

    _states: array.array[int]
    _confidences: array.array[float]

    @property
    def states(self) -> list[str]:
        """"fixed" (given, infilling only), "masked" (not decided), "visible" or "stable", of each token."""
        return _names(self._states)

    @property
    def confidences(self) -> Floats:
        """The probability that each token had when it was decided."""
        return floats(self._confidences)


@dataclass(frozen=True)
class Frame(_PerToken):
    """The canvas after one step. Positions count from the first token of the answer; when infilling, of the whole
    text. In a notebook it shows its tokens, coloured by their state and confidence."""

    number: int  #: of the step, from 0
    text: str  #: of all tokens; U+2591 for a mask; what follows the end of the answer is left out
    edits: list[int]  #: positions that changed in this step, ascending
    masks_left: int
    committed: int  #: so many first tokens are final; it only grows
    ids: list[int]  #: token ids; the mask's where masked
    _states: array.array[int] = field(repr=False)
    _confidences: array.array[float] = field(repr=False)
    _texts: list[bytes] = field(repr=False)

    @classmethod
    def _of(cls, step: _capi.Step) -> Frame:
        texts = [bytes_at(step.texts[i], step.text_sizes[i]) for i in range(step.count)] if step.texts else []
        return cls(
            number=step.number,
            text=text_at(step.text, step.text_size),
            edits=copied(step.edits, step.edit_count, "i").tolist(),
            masks_left=step.masked,
            committed=step.committed,
            ids=copied(step.tokens, step.count, "i").tolist(),
            _states=copied(step.states, step.count, "i"),
            _confidences=copied(step.confidences, step.count, "f"),
            _texts=texts,
        )

    @property
    def tokens(self) -> list[Token]:
        texts = [text.decode("utf-8", "replace") for text in self._texts] or [""] * len(self.ids)
        return [Token(*parts) for parts in zip(self.ids, texts, self.states, self._confidences)]

    def _repr_html_(self) -> str:
        changed = frozenset(self.edits)
        spans = [_span(token, position in changed) for position, token in enumerate(self.tokens)]
        return (
            '<div style="font-family:monospace;white-space:pre-wrap;line-height:1.6;color:#111;background:#fff;'
            f'padding:.5em">{"".join(spans)}<div style="color:#666">step {self.number + 1}, '
            f"{self.masks_left} of {len(self.ids)} masked</div></div>"
        )


def _span(token: Token, changed: bool) -> str:
    """Masks are grey; text that was given is plain; the hue of a decided token goes from red (confidence 0) to green
    (1), paler where it is final; a line is under what changed in this step."""
    if token.state == "masked":
        background = "#ddd"
    elif token.state == "fixed":
        background = "transparent"
    else:
        hue = round(120 * min(max(token.confidence, 0.0), 1.0))
        background = f"hsl({hue},80%,{90 if token.state == 'stable' else 75}%)"
    border = "border-bottom:2px solid #333;" if changed else ""
    title = html.escape(f"{token.id}, {token.state}, {token.confidence:.3f}", quote=True)
    text = html.escape(token.text or f"[{token.id}]", quote=True)
    return f'<span title="{title}" style="background:{background};{border}">{text}</span>'


@dataclass(frozen=True)
class Stats:
    """What a request took. `seconds` is wall clock, measured from its first forward's beginning to its end."""

    prompt_tokens: int
    content_tokens: int  #: decided tokens of the answer, before its end
    forwards: int  #: of the model
    steps: int
    rows: int  #: positions computed, over all forwards
    reused_positions: int  #: of the prompt, which an earlier request had computed
    seconds: float
    seed: Optional[int]  #: where random numbers took part
    full_forwards: int  #: of the forwards, those that computed every position they read
    sparse_forwards: int  #: of the forwards, those beside a step's own, which ask about decided tokens again
    logit_rows: int  #: of the rows, those whose logits were computed
    trial_rows: int  #: of the rows, those that asked what would be predicted if a token were masked
    drafts_proposed: int  #: predictions of later blocks that were kept
    drafts_accepted: int  #: of them, those that a fresh prediction confirmed
    revisions_made: int  #: decided tokens that were looked at again
    revisions_changed: int  #: of them, those that did not stay
    committed_tokens: int  #: masks that became tokens, those behind the answer's end too, less those masked again
    kv_bytes: int  #: of the request's keys and values
    canvas_hash: int  #: equal canvases, equal hashes, on every machine
    stopped_early: bool  #: an end token came, and masks behind it were left

    @property
    def tokens_per_forward(self) -> float:
        return self.content_tokens / self.forwards if self.forwards else 0.0


@dataclass(frozen=True)
class Result(_PerToken):
    """A finished request. `str()` of it is its text."""

    text: str  #: of the answer; when infilling of everything; U+2591 for what was never decided
    tokens: list[int]  #: all that were generated, what follows the end included; when infilling everything
    finish_reason: str  #: "stop" (an end token or a stop text), "length", "interrupted"; "filled" when infilling
    stopped_by: str  #: which `stop` ended it; "" for none
    stats: Stats
    _states: array.array[int] = field(repr=False)
    _confidences: array.array[float] = field(repr=False)

    @classmethod
    def _of(cls, result: _capi.Result) -> Result:
        names: dict[str, Any] = {name: getattr(result, name) for name in Stats.__dataclass_fields__}
        names["seed"] = result.seed if result.has_seed else None
        names["stopped_early"] = bool(result.stopped_early)
        return cls(
            text=text_at(result.text, result.text_size),
            tokens=copied(result.tokens, result.count, "i").tolist(),
            finish_reason=FINISH_REASONS.get(result.finish_reason, str(result.finish_reason)),
            stopped_by=text_at(result.stopped_by, result.stopped_by_size),
            stats=Stats(**names),
            _states=copied(result.states, result.count, "i"),
            _confidences=copied(result.confidences, result.count, "f"),
        )

    def __str__(self) -> str:
        return self.text



@dataclass(frozen=True)
class Score:
    """How likely the model finds a continuation."""

    log_probability: float  #: natural logarithm, summed over the continuation's tokens
    tokens: int  #: of the continuation
    forwards: int  #: of the whole call, which several continuations share
    greedy: bool  #: greedy decoding would write the continuation; false where the method cannot say
