"""llada.h as ctypes sees it: the library, its structs, its functions. Nothing else of the package knows ctypes' types
of functions. tests/test_header.py compares every line of this with the header."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import pathlib
import struct
import sys
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any

API_VERSION = 4  # LLADA_API_VERSION of the header that this file was written after

OK, END, TIMEOUT = 0, 1, 2
ERROR_INVALID, ERROR_FAILED, ERROR_HANDLE, ERROR_BUSY, ERROR_VERSION = -1, -2, -3, -4, -5
ERROR_MEMORY, ERROR_ABORTED, ERROR_UNSUPPORTED, ERROR_FILE, ERROR_SPACE = -6, -7, -8, -9, -10
FOR_MODEL, FOR_ENGINE, FOR_REQUEST, FOR_SCORE = 1, 2, 4, 8
WITH_BOS = 1
WITH_CONTROL = 2
SHOW_CONTROL = 1
TOKEN_FIXED, TOKEN_MASKED, TOKEN_VISIBLE, TOKEN_STABLE = 0, 1, 2, 3
FINISH_STOP, FINISH_LENGTH, FINISH_INTERRUPTED, FINISH_FILLED = 1, 2, 3, 4

Progress = ctypes.CFUNCTYPE(c_int32, c_void_p, c_int64, c_int64)


class Struct(ctypes.Structure):
    """Its first member is its size, which tells the library how much of it there is to fill."""

    def __init__(self) -> None:
        super().__init__()
        self.size = ctypes.sizeof(self)


class OptionInfo(Struct):
    _fields_ = [
        ("size", c_size_t), ("used_for", c_int32), ("is_switch", c_int32), ("key", c_char_p), ("unit", c_char_p),
        ("values", c_char_p), ("initial", c_char_p), ("help", c_char_p), ("group", c_char_p),
    ]


class ModelInfo(Struct):
    _fields_ = [
        ("size", c_size_t), ("vocabulary", c_int64), ("context", c_int64), ("layers", c_int64), ("width", c_int64),
        ("attention_block", c_int64), ("file_bytes", c_int64), ("mask_token", c_int32), ("bos_token", c_int32),
        ("eos_token", c_int32), ("eot_token", c_int32), ("has_tokenizer", c_int32), ("threads", c_int32),
        ("architecture", c_char_p), ("device", c_char_p), ("chat_style", c_char_p), ("path", c_char_p),
        ("notes", c_char_p),
    ]


class Step(Struct):
    _fields_ = [
        ("size", c_size_t), ("number", c_int64), ("committed", c_int64), ("masked", c_int64), ("edit_count", c_size_t),
        ("edits", POINTER(c_int32)), ("count", c_size_t), ("tokens", POINTER(c_int32)), ("states", POINTER(c_int32)),
        ("confidences", POINTER(c_float)), ("texts", POINTER(c_void_p)), ("text_sizes", POINTER(c_size_t)),
        ("text", c_void_p), ("text_size", c_size_t),
    ]


class Result(Struct):
    _fields_ = [
        ("size", c_size_t), ("text", c_void_p), ("text_size", c_size_t), ("count", c_size_t),
        ("tokens", POINTER(c_int32)), ("states", POINTER(c_int32)), ("confidences", POINTER(c_float)),
        ("stopped_by", c_void_p), ("stopped_by_size", c_size_t), ("prompt_tokens", c_int64),
        ("content_tokens", c_int64), ("forwards", c_int64), ("steps", c_int64), ("rows", c_int64),
        ("reused_positions", c_int64), ("seconds", c_double), ("seed", c_uint64), ("has_seed", c_int32),
        ("cancelled", c_int32), ("full_forwards", c_int64), ("sparse_forwards", c_int64), ("logit_rows", c_int64),
        ("trial_rows", c_int64), ("drafts_proposed", c_int64), ("drafts_accepted", c_int64),
        ("revisions_made", c_int64), ("revisions_changed", c_int64), ("committed_tokens", c_int64),
        ("kv_bytes", c_int64), ("canvas_hash", c_uint64), ("finish_reason", c_int32), ("stopped_early", c_int32),
    ]


class EngineStats(Struct):
    _fields_ = [
        ("size", c_size_t), ("forwards", c_int64), ("parts", c_int64), ("rows", c_int64), ("row_budget", c_int64),
        ("most_rows", c_int64), ("most_passed_over", c_int64),
    ]


class ScoreResult(Struct):
    _fields_ = [
        ("size", c_size_t), ("log_probability", c_double), ("tokens", c_int64), ("forwards", c_int64),
        ("greedy", c_int32),
    ]


Handle = c_void_p
_OUT = POINTER(c_void_p)
_TEXTS = POINTER(c_char_p)
_IDS = POINTER(c_int32)
_COUNT = POINTER(c_size_t)

# name: (what it returns, what it takes)
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "llada_error": (c_char_p, [Handle]),
    "llada_status_name": (c_char_p, [c_int32]),
    "llada_version": (c_char_p, []),
    "llada_api_version": (c_int32, []),
    "llada_has_feature": (c_int32, [c_char_p]),
    "llada_options_create": (c_int32, [c_int32, _OUT]),
    "llada_options_free": (None, [Handle]),
    "llada_options_set": (c_int32, [Handle, c_char_p, c_char_p]),
    "llada_options_clear": (None, [Handle]),
    "llada_option_describe": (c_int32, [c_size_t, POINTER(OptionInfo)]),
    "llada_model_load": (c_int32, [c_int32, c_char_p, Handle, Progress, c_void_p, _OUT]),
    "llada_model_free": (None, [Handle]),
    "llada_model_describe": (c_int32, [Handle, POINTER(ModelInfo)]),
    "llada_tokenize": (c_int32, [Handle, c_char_p, c_size_t, c_int32, _IDS, c_size_t, _COUNT]),
    "llada_detokenize": (c_int32, [Handle, _IDS, c_size_t, c_int32, c_char_p, c_size_t, _COUNT]),
    "llada_token_text": (c_int32, [Handle, c_int32, POINTER(c_void_p), _COUNT]),
    "llada_chat_tokens": (c_int32, [Handle, _TEXTS, _TEXTS, c_size_t, _IDS, c_size_t, _COUNT]),
    "llada_engine_create": (c_int32, [Handle, Handle, _OUT]),
    "llada_engine_free": (None, [Handle]),
    "llada_submit_chat": (c_int32, [Handle, _TEXTS, _TEXTS, c_size_t, Handle, _OUT]),
    "llada_submit_text": (c_int32, [Handle, c_char_p, c_size_t, Handle, _OUT]),
    "llada_submit_tokens": (c_int32, [Handle, _IDS, c_size_t, Handle, _OUT]),
    "llada_submit_infill": (c_int32, [Handle, c_char_p, c_size_t, Handle, _OUT]),
    "llada_submit_gaps": (c_int32, [Handle, _IDS, c_size_t, _IDS, c_size_t, Handle, _OUT]),
    "llada_request_next": (c_int32, [Handle, c_int32, POINTER(Step)]),
    "llada_request_wait": (c_int32, [Handle, c_int32]),
    "llada_request_done": (c_int32, [Handle]),
    "llada_request_cancel": (c_int32, [Handle]),
    "llada_request_free": (None, [Handle]),
    "llada_request_result": (c_int32, [Handle, POINTER(Result)]),
    "llada_engine_describe": (c_int32, [Handle, POINTER(EngineStats)]),
    "llada_logits": (c_int32, [Handle, _IDS, c_size_t, _IDS, c_size_t, POINTER(c_float), c_size_t]),
    "llada_score": (c_int32, [Handle, _IDS, c_size_t, _IDS, c_size_t, Handle, POINTER(ScoreResult)]),
    "llada_score_many": (
        c_int32, [Handle, _IDS, c_size_t, POINTER(_IDS), _COUNT, c_size_t, Handle, POINTER(ScoreResult)],
    ),
    "llada_decide": (c_int32, [Handle, c_char_p, c_size_t, POINTER(c_void_p), POINTER(c_size_t)]),
}


def _candidates() -> list[str]:
    """Where the library may be: LLADA_LIBRARY alone where it is set; else beside this file, as a wheel has it; else
    where the system's linker looks."""
    chosen = os.path.expanduser(os.environ.get("LLADA_LIBRARY", ""))
    if chosen:
        return [chosen]
    name = {"darwin": "libllada.dylib", "win32": "llada.dll"}.get(sys.platform, "libllada.so")
    bundled = pathlib.Path(__file__).with_name(name)
    return [str(bundled)] if bundled.exists() else [ctypes.util.find_library("llada") or name]


def _refuse_cut(path: str) -> None:
    """A cut library would end the process when the linker touches a page behind its end. An ELF file ends with its
    table of sections, which the header places. A name without a folder is the linker's to find."""
    if not os.path.dirname(path):
        return
    try:
        with open(path, "rb") as file:
            head = file.read(64)
    except OSError:  # the linker says it
        return
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
        return
    (table,) = struct.unpack_from("<Q", head, 40)
    entry_size, entries = struct.unpack_from("<HH", head, 58)
    needed, found = table + entry_size * entries, os.path.getsize(path)
    if found < needed:
        raise OSError(f"{path}: found {found} bytes of {needed}: the file is cut")


def _open() -> Any:
    tried = _candidates()
    try:
        _refuse_cut(tried[0])
        library = ctypes.CDLL(tried[0])
    except OSError as error:
        raise ImportError(
            f"llada: found no library that can be loaded ({error}), needed libllada beside the package, where the "
            "system's linker looks, or at $LLADA_LIBRARY"
        ) from None
    for name, (returns, takes) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"llada: {tried[0]} has no function {name}: it is older than this package") from None
        function.restype, function.argtypes = returns, takes
    if library.llada_api_version() < API_VERSION:
        raise ImportError(
            f"llada: found version {library.llada_api_version()} of the C API in {tried[0]}, needed {API_VERSION} "
            "or newer"
        )
    return library


lib = _open()
