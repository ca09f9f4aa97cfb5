#!/usr/bin/env python3
"""Writes tests/data/text/tools.expected.json: conversations with tools as Jinja renders the published chat templates,
and the ids that Hugging Face's `tokenizers` gives the texts.

Never needed to build or to test: the result is committed, and the templates are not. They are copies of yours, in a
folder with the names of the models, such as TEMPLATES/Qwen/Qwen3-0.6B.jinja, each with the `chat_template` of that
repository (of a tokenizer_config.json or a chat_template.jinja). Needs `pip install tokenizers jinja2` (written with
0.23.3 and 3.1.6).

usage: tool_templates.py TEMPLATES [OUT]"""
import json
import pathlib
import sys

from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Tokenizer

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "tests/data/text"
# Of Gemma 4; the small tokenizer of the tests has none of them.
MARKS = ["<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<tool_response|>", '<|"|>']
TOOLS = {tool["name"]: tool for tool in (
    {"name": "add", "description": "Adds two numbers.", "parameters": {
        "type": "object", "properties": {"b": {"type": "integer", "description": "The second."},
                                         "a": {"type": "integer"}}, "required": ["a", "b"]}},
    {"name": "mail.send", "description": "Sends \u00e9.", "parameters": {
        "type": "object", "properties": {
            "to": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "description": "Whom"},
            "Kind": {"type": "string", "enum": ["plain", "html"], "nullable": True},
            "head": {"type": "object", "description": "", "properties": {
                "subject": {"type": "string"}, "size": {"type": "number"}}, "required": ["subject"]},
            "rows": {"type": "array", "description": "Rows.", "items": {
                "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "minProperties": 1}},
            "any": {"type": "object", "additionalProperties": {"type": "string"}},
            "null": {"type": ["string", "null"], "description": "a or b"}, "free": {}},
        "additionalProperties": False}},
    {"name": "ping", "description": "No arguments.", "parameters": {"type": "object", "properties": {}}},
    {"name": "bare"})}
# Of each template: the tokenizer of the tests, and what the format has that this tokenizer does not say.
FORMATS = {
    "Qwen/Qwen3-0.6B": {"tokenizer": "qwen2"},
    "Qwen/Qwen2.5-7B-Instruct": {
        "tokenizer": "qwen2", "default_system": "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
    "inclusionAI/Ling-1T": {"tokenizer": "bailing"},
    "google/gemma-4-E4B-it": {"tokenizer": "gemma"},
    "vllm: tool_chat_template_gemma4.jinja": {"tokenizer": "gemma", "closes_thoughts": True},
}


def says(role):
    return lambda text: {"role": role, "content": text}


def answer(text, *calls):
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {})}


def call(name, arguments):
    return {"type": "function", "id": "c" + name, "function": {"name": name, "arguments": arguments}}


def result(name, text):
    return {"role": "tool", "tool_call_id": "c" + name, "content": text}


def conversations():
    """(names of the tools, messages)"""
    system, user = says("system"), says("user")
    add = call("add", {"a": 1, "b": -2})
    send = call("mail.send", {"to": ["x"], "Kind": "plain", "head": {
        "subject": "He said \"hi\" {a:[1]}\n\u00e9", "size": 1.5}, "any": {"k": True}, "rows": [{"n": 2}, {"n": -3}]})
    ping = call("ping", {})
    return [
        (["add"], [user("What is 1 - 2?")]),
        (["add", "mail.send", "ping"], [system(" Be brief. "), user("Send.")]),
        (["add"], [user("What is 1 - 2?"), answer("", add), result("add", "-1")]),
        (["add", "mail.send"], [system("S"), user("Both."), answer("", add, send), result("add", "-1"),
                                result("mail.send", '{"ok": true}')]),
        (["add", "mail.send"], [user("Both."), answer("", add, send), result("add", "-1"), result("mail.send", "sent"),
                                answer("Done."), user("Again.")]),
        (["ping"], [user("a"), answer("", ping), result("ping", "one"), answer("", ping), result("ping", "two")]),
        ([], [user("a"), answer("", ping), result("ping", "pong"), answer("It says pong."), user("b")]),
        (["bare"], [user("a")]),
        (["ping"], [user("a"), answer("Let me see.", ping), result("ping", "pong")]),
    ]


def template_path(folder, name):
    """vLLM's file has its own name; a model's has the model's."""
    return folder / (name.split(": ")[1] if ": " in name else name + ".jinja")


def spelled(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def items_of(name, template, tokenizer, is_gemma):
    fixture = FORMATS[name]["tokenizer"]
    for tools, messages in conversations():
        for thinks in (False, True) if is_gemma else (False,):
            functions = [{"type": "function", "function": TOOLS[tool]} for tool in tools]
            text = template.render(messages=messages, tools=functions or None, add_generation_prompt=True,
                                   bos_token="<bos>" if is_gemma else "",
                                   **({"enable_thinking": thinks} if is_gemma else {}))
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            yield {"template": name, "tokenizer": fixture, "tools": tools, "messages": messages, "text": text,
                   "ids": ids, **({"think": True} if thinks else {})}


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.splitlines()[-1])
    folder = pathlib.Path(sys.argv[1])
    out = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else FIXTURES / "tools.expected.json"
    missing = [str(path) for path in (template_path(folder, name) for name in FORMATS) if not path.is_file()]
    if missing:
        sys.exit(f"tool_templates.py: needed {', '.join(missing)}")
    # As transformers has it.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                extensions=["jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    items = []
    for name, form in FORMATS.items():
        tokenizer = Tokenizer.from_file(str(FIXTURES / (form["tokenizer"] + ".json")))
        is_gemma = form["tokenizer"] == "gemma"
        if is_gemma:
            tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in MARKS])
        template = environment.from_string(template_path(folder, name).read_text(encoding="utf-8"))
        items += items_of(name, template, tokenizer, is_gemma)
    head = spelled({
        "about": "Conversations with tools as Jinja renders published templates, and the ids that the library "
                 "tokenizers gives the text.", "marks": MARKS, "formats": FORMATS, "tools": TOOLS})
    out.write_text(head[:-1] + ',\n"items":[\n' + ",\n".join(map(spelled, items)) + "\n]}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
