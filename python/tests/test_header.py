"""The ctypes declarations against include/llada/llada.h: members and parameters in their order with their types,
constants with their values."""

from __future__ import annotations

import ctypes
import re

from conftest import ROOT
from llada import _capi

HEADER = re.sub(r"/\*.*?\*/", "", (ROOT / "include" / "llada" / "llada.h").read_text(), flags=re.S)
STRUCTS = {
    "llada_option_info": _capi.OptionInfo,
    "llada_model_info": _capi.ModelInfo,
    "llada_step": _capi.Step,
    "llada_result": _capi.Result,
    "llada_engine_stats": _capi.EngineStats,
    "llada_score_result": _capi.ScoreResult,
}
PLAIN = {
    "size_t": ctypes.c_size_t, "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64,
    "double": ctypes.c_double, "float": ctypes.c_float, "llada_status": ctypes.c_int32, "void": None,
    "llada_progress": _capi.Progress,
}


def ctype(text: str, lent: bool) -> set[object]:
    """The types that may stand for a C type; lent: of a struct's member, where a text may hold a NUL."""
    base = re.sub(r"\bconst\b", "", text).replace(" ", "")
    stars = base.count("*")
    base = base.rstrip("*")
    if stars == 0:
        return {PLAIN[base]}
    if base in STRUCTS:
        return {ctypes.POINTER(STRUCTS[base])}
    if base == "char":
        if stars == 1:
            return {ctypes.c_char_p, ctypes.c_void_p} if lent else {ctypes.c_char_p}
        return {ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(ctypes.c_void_p)}
    if base == "void" or base.startswith("llada_"):
        return {ctypes.c_void_p} if stars == 1 else {ctypes.POINTER(ctypes.c_void_p)}
    pointer = ctypes.POINTER(PLAIN[base])
    return {pointer if stars == 1 else ctypes.POINTER(pointer)}


def declarations(text: str) -> list[tuple[str, str]]:
    """(type, name) of "int64_t a, b; const char *c;" """
    found = []
    for statement in filter(None, (part.strip() for part in text.split(";"))):
        first, *others = statement.split(",")
        kind, stars, name = re.fullmatch(r"(.*?)\s*((?:\*\s*(?:const\s*)?)*)(\w+)", first.strip(), re.S).groups()
        found.append((kind + stars, name))
        for other in others:
            stars, name = re.fullmatch(r"\s*(\**)(\w+)", other).groups()
            found.append((kind + stars, name))
    return found


def test_structs():
    bodies = dict(re.findall(r"typedef struct (llada_\w+) \{(.*?)\}", HEADER, re.S))
    assert set(bodies) == set(STRUCTS)
    for name, body in bodies.items():
        members = declarations(body)
        fields = STRUCTS[name]._fields_
        assert [member for _, member in members] == [field for field, _ in fields]
        for (kind, member), (_, declared) in zip(members, fields):
            assert declared in ctype(kind, lent=True), f"{name}.{member}"


def test_functions():
    found = re.findall(r"LLADA_API (?:LLADA_MUST_CHECK )?([\w ]+?[ *]+)(llada_\w+)\(([^)]*)\);", HEADER)
    assert {name for _, name, _ in found} == set(_capi.FUNCTIONS)
    for returns, name, parameters in found:
        declared_returns, declared = _capi.FUNCTIONS[name]
        assert declared_returns in ctype(returns, lent=False), name
        kinds = [] if parameters.strip() == "void" else [declarations(one)[0][0] for one in parameters.split(",")]
        assert len(kinds) == len(declared), name
        for kind, one in zip(kinds, declared):
            assert one in ctype(kind, lent=False), f"{name}: {kind}"


def test_constants():
    values = dict(re.findall(r"LLADA_(\w+) = (-?\d+)", HEADER))
    values.update(re.findall(r"#define LLADA_(API_VERSION) (\d+)", HEADER))
    assert len(values) > 20
    for name, value in values.items():
        assert getattr(_capi, name) == int(value), name
