"""What may be asked for, as the function of the library that submits it and its arguments."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from ._arrays import id_array

if TYPE_CHECKING:
    from ._arrays import Tokens

    Message = Union[Mapping[str, str], tuple[str, str]]
    Prompt = Union[str, Tokens, Sequence[Message]]


PROMPTS = "a text, messages or token ids"


class Asking(NamedTuple):
    """What is submitted. The arguments are those between the engine and the options."""

    function: str
    arguments: list[Any]


def text_bytes(what: str, text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"{what}: found {type(text).__name__}, needed str")
    return text.encode()


def _message(number: int, message: Any) -> tuple[str, str]:
    if isinstance(message, Mapping):
        if set(message) != {"role", "content"}:
            raise ValueError(f"messages[{number}]: found the keys {sorted(message)}, needed role and content")
        message = (message["role"], message["content"])
    if not isinstance(message, tuple) or len(message) != 2:
        raise TypeError(f"messages[{number}]: found {message!r}, needed a dict with role and content")
    for part in message:
        if b"\0" in text_bytes(f"messages[{number}]", part):
            raise ValueError(f"messages[{number}]: found a NUL, needed text without one")
    return message


def conversation(messages: Iterable[Message]) -> list[Any]:
    """Roles, contents and their number, as the library takes them."""
    if isinstance(messages, (str, bytes, Mapping)):
        raise TypeError(f"messages: found {type(messages).__name__}, needed a list of messages")
    pairs = [_message(number, message) for number, message in enumerate(messages)]
    roles = (ctypes.c_char_p * len(pairs))(*[role.encode() for role, _ in pairs])
    contents = (ctypes.c_char_p * len(pairs))(*[content.encode() for _, content in pairs])
    return [roles, contents, len(pairs)]


def is_conversation(prompt: Any) -> bool:
    return isinstance(prompt, (list, tuple)) and bool(prompt) and isinstance(prompt[0], (Mapping, tuple))


def answer(prompt: Any, raw: bool = False, system: Optional[str] = None) -> Asking:
    """prompt: a text, which is the user's message, or with `raw` taken as it is; messages; or token ids."""
    if isinstance(prompt, str) and raw:
        if system is not None:
            raise ValueError("system: found it beside raw=True, needed one of the two")
        text = prompt.encode()
        return Asking("llada_submit_text", [text, len(text)])
    if isinstance(prompt, str) or is_conversation(prompt):
        if raw:
            raise ValueError("raw: found it beside messages, needed a text")
        messages: list[Any] = [("user", prompt)] if isinstance(prompt, str) else list(prompt)
        if system is not None:
            messages.insert(0, ("system", system))
        return chat(messages)
    if raw or system is not None:
        raise ValueError(f"{'raw' if raw else 'system'}: found it beside token ids, needed a text")
    ids = id_array("prompt", prompt, PROMPTS)
    return Asking("llada_submit_tokens", [ids, len(ids)])


def chat(messages: Iterable[Message]) -> Asking:
    return Asking("llada_submit_chat", conversation(messages))


def infilling(text: Any, gaps: Optional[Tokens]) -> Asking:
    """text: with <mask:N> where its gaps are; or token ids, with the gaps' positions."""
    if isinstance(text, str):
        if gaps is not None:
            raise TypeError("gaps: found them beside a text, needed token ids, or <mask:N> in the text")
        data = text.encode()
        return Asking("llada_submit_infill", [data, len(data)])
    ids = id_array("text", text, "a text or token ids")
    if gaps is None:
        raise TypeError("gaps: found none, needed the positions in the token ids that are to be filled")
    positions = id_array("gaps", gaps)
    return Asking("llada_submit_gaps", [ids, len(ids), positions, len(positions)])
