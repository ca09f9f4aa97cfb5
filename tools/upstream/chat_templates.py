#!/usr/bin/env python3
"""Published chat templates beside what `llada serve` lays out: 58 conversations, 18 of them with tools.

Each template is rendered by Jinja2 as transformers has it, and asked of /apply-template of a server whose small model
has that template; the texts must be equal. A template is a file with its text, a tokenizer_config.json, or a folder
with one of these; without any, the templates of tests/data/text/templates.expected.json, which are shortened and
compared without tools. Where a template raises an error, there is nothing to compare.

Different by design, and counted apart: a content of several parts, which are one text here before a template could trim
each; the role developer, which is the system's here; a last message of the assistant, which is closed here; and tools
where a template has none.

Needs `pip install jinja2`.

usage: chat_templates.py [--llada PROGRAM] [--verbose] [TEMPLATE ...]"""
import argparse
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Token texts that a vocabulary has where its template names one of a family's.
FAMILIES = {
    "<|start_header_id|>": ["<|startoftext|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
                            "<|endoftext|>"],
    "<|im_start|>": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    "<role>": ["<|startoftext|>", "<|endoftext|>", "<role>", "</role>", "<|role_end|>"],
    "<|turn>": ["<bos>", "<eos>", "<|turn>", "<turn|>", "<|think|>", "<|channel>", "<channel|>", "<|tool>", "<tool|>",
                "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>'],
}
BEGINS = {"<|start_header_id|>": "<|startoftext|>", "<|turn>": "<bos>"}


# ---------------------------------------------------------------- conversations


def says(role, text):
    return {"role": role, "content": text}


def function(name, description=None, **parameters):
    made = {"name": name}
    if description is not None:
        made["description"] = description
    made["parameters"] = {"type": "object", "properties": parameters}
    return made


def called(*calls, text=""):
    return {"role": "assistant", "content": text, "tool_calls": [
        {"type": "function", "id": f"call_{i}", "function": {"name": name, "arguments": arguments}}
        for i, (name, arguments) in enumerate(calls)]}


def gave(*results):
    return [{"role": "tool", "tool_call_id": f"call_{i}", "content": text} for i, text in enumerate(results)]


ADD = function("add", "Adds two numbers.", a={"type": "integer", "description": "The first."}, b={"type": "integer"})
ADD["parameters"]["required"] = ["a", "b"]
FIND = function("find", "Looks up \"things\" \u00e9 <here>.", query={"type": "string"},
                most={"type": "number", "description": "At most"},
                kinds={"type": "array", "items": {"type": "string"}, "description": "Which"},
                order={"type": "string", "enum": ["up", "down"]})
PING = function("ping", "No arguments.")
TREE = function("tree", "Nested.", node={"type": "object", "description": "A node.", "properties": {
    "name": {"type": "string"}, "size": {"type": "integer", "nullable": True}}, "required": ["name"]})


def plain():
    """(kind, messages): those without tools."""
    def system(text):
        return says("system", text)

    def user(text):
        return says("user", text)

    def answer(text):
        return says("assistant", text)
    texts = ["Hi", " spaces around ", "\n\nlines\naround\n\n", "\ttabs\t", "\u00e9\u00e8 \u4f60\u597d \U0001f600",
             "{{ braces }} {% raw %}", "quotes \" ' `", "a\u00a0b\u2003c\u3000", "<b>tags</b> &amp; <x>", "1 + 1 = ?",
             "back\\slash \\n", "x" * 300]
    for text in texts:
        yield "", [user(text)]
    for text in ("Be brief.", "", " Be brief. ", "Line one.\nLine two.\n", "\u00dcber"):
        yield "", [system(text), user("Hello")]
    for text in ("Yes.", " Yes. ", "", "Line one.\nLine two.", "\n\nYes.\n"):
        yield "", [user("Really?"), answer(text), user("Sure?")]
    yield "", [system("S"), user("a"), answer("b"), user("c"), answer("d"), user("e")]
    yield "", [user("a"), answer("b"), user("c"), answer("d"), user("e"), answer("f"), user("g")]
    yield "", [system("S"), user("a"), answer("b"), user("c")]
    yield "", [user("a"), user("b")]
    yield "", [user("a"), answer("b"), answer("c"), user("d")]
    yield "", [system("S"), user("a"), user("b"), answer("c"), user("d")]
    yield "", [user("2 lines\nhere"), answer("2 lines\nthere"), user("3")]
    yield "", [system("\u00e9"), user("\u00e9"), answer("\u00e9"), user("\u00e9")]
    yield "", [user("Once"), answer("upon a time"), user("there")]
    yield "", [system("Answer in French."), user("Good day"), answer("Bonjour"), user("And the evening?")]
    yield "parts", [user([{"type": "text", "text": "one part"}])]
    yield "parts", [user([{"type": "text", "text": "part one "}, {"type": "text", "text": "part two"}])]
    yield "parts", [system([{"type": "text", "text": "S"}]), user("a")]
    yield "developer", [says("developer", "Be brief."), user("Hello")]
    yield "prefill", [user("Tell a story."), answer("Once upon")]
    yield "prefill", [system("S"), user("a"), answer("")]
    yield "", [user("Is it?"), answer("It is."), user("   ")]
    yield "", [system("S\n\nT"), user("a\n\nb")]


def with_tools():
    """(kind, tools, messages)"""
    def user(text):
        return says("user", text)
    system = says("system", "Use the tools.")
    add, find, ping = ("add", {"a": 1, "b": -2}), ("find", {"query": "he said \"hi\"\n", "most": 1.5}), ("ping", {})
    yield "", [ADD], [user("What is 1 - 2?")]
    yield "", [ADD], [system, user("What is 1 - 2?")]
    yield "", [ADD, FIND, PING, TREE], [system, user("Which are there?")]
    yield "", [PING], [user("Ping."), called(ping), *gave("pong")]
    yield "", [ADD], [user("1 - 2?"), called(add), *gave("-1")]
    yield "", [ADD], [user("1 - 2?"), called(add), *gave("-1"), says("assistant", "It is -1."), user("Sure?")]
    yield "", [ADD], [user("1 - 2?"), called(add, text="Let me."), *gave("-1")]
    yield "", [ADD], [user("1 - 2?"), called(add, text="Let me."), *gave("-1"), says("assistant", "It is -1."),
                      user("Sure?")]
    yield "", [ADD, FIND], [user("Both."), called(add, find), *gave("-1", '{"found": []}')]
    yield "", [ADD, FIND], [user("Both."), called(add, find), *gave("-1", "[1, 2]"), says("assistant", "Done."),
                            user("Again.")]
    yield "", [PING], [user("Twice."), called(ping), *gave("one"), called(ping), *gave("two")]
    yield "", [PING], [user("Twice."), called(ping), *gave("one"), called(ping), *gave("two"),
                       says("assistant", "Both."), user("Thanks.")]
    yield "", [FIND], [user("Look."), called(("find", {"query": "\u00e9", "kinds": ["x", "y"], "order": "up"})),
                       *gave("nothing")]
    yield "", [TREE], [user("Grow."), called(("tree", {"node": {"name": "n", "size": 3}})), *gave("ok")]
    yield "", [], [user("Ping."), called(ping), *gave("pong"), says("assistant", "It says pong."), user("b")]
    yield "", [ADD], [system, user("a"), says("assistant", "b"), user("1 - 2?"), called(add), *gave(" -1 \n")]
    yield "", [TREE, PING], [user("None needed."), says("assistant", "Right."), user("Why?")]
    yield "prefill", [ADD], [user("1 - 2?"), called(add), *gave("-1"), says("assistant", "It is")]


def conversations():
    every = [(kind, [], messages) for kind, messages in plain()] + list(with_tools())
    assert len(every) == 58 and sum(1 for _ in with_tools()) == 18
    return every


# ---------------------------------------------------------------- both sides


def template_of(path):
    path = pathlib.Path(path)
    if path.is_dir():
        path = next((path / name for name in ("chat_template.jinja", "tokenizer_config.json")
                     if (path / name).is_file()), path / "tokenizer_config.json")
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".json":
        return text
    found = json.loads(text).get("chat_template")
    if isinstance(found, list):  # several by name
        found = next(one["template"] for one in found if one["name"] == "default")
    if not found:
        sys.exit(f"chat_templates.py: {path} has no chat_template")
    return found


def renderer(source, tokens):
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message):
        raise jinja2.TemplateError(message)
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                extensions=["jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    environment.globals.update(raise_exception=raise_exception, strftime_now=lambda form: "2026-01-01")
    template = environment.from_string(source)

    def render(tools, messages):
        try:
            return template.render(messages=messages, tools=tools or None, add_generation_prompt=True, **tokens)
        except (jinja2.TemplateError, TypeError):
            return None
    return render


def alphabet():
    plain_bytes = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain_bytes]
    return {**{chr(b): b for b in plain_bytes}, **{chr(256 + i): b for i, b in enumerate(others)}}


def write_model(folder, source, special, begin):
    """Of one layer, with zeros for weights: only its texts are asked for."""
    ids = {text: 256 + i for i, text in enumerate([*special, "<|mdm_mask|>"])}
    width, vocabulary = 32, 256 + len(ids)
    added = [dict(id=i, content=text, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
             for text, i in ids.items()]
    (folder / "tokenizer.json").write_text(json.dumps(dict(
        version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None,
        pre_tokenizer=dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True),
        post_processor=None, decoder=dict(type="ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True),
        model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                   fuse_unk=False, byte_fallback=False, vocab=alphabet(), merges=[]))))
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(
        mask_token="<|mdm_mask|>", add_bos_token=False, chat_template=source, **({"bos_token": begin} if begin else {}))))
    (folder / "config.json").write_text(json.dumps(dict(
        architectures=["A2DQwen3LMHeadModel"], hidden_size=width, num_hidden_layers=1, num_attention_heads=1,
        num_key_value_heads=1, head_dim=width, intermediate_size=width, vocab_size=vocabulary,
        max_position_embeddings=8192, mask_token_id=ids["<|mdm_mask|>"], eos_token_id=256 + len(special) - 1,
        tie_word_embeddings=True)))
    layer = "model.layers.0."
    shapes = {"model.embed_tokens.weight": [vocabulary, width], "model.norm.weight": [width],
              layer + "input_layernorm.weight": [width], layer + "post_attention_layernorm.weight": [width],
              layer + "self_attn.q_norm.weight": [width], layer + "self_attn.k_norm.weight": [width],
              **{f"{layer}self_attn.{part}_proj.weight": [width, width] for part in "qkvo"},
              **{f"{layer}mlp.{part}_proj.weight": [width, width] for part in ("gate", "up", "down")}}
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 4 * shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name] = dict(dtype="F32", shape=shape, data_offsets=[end, end + size])
        end += size
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))


class Server:
    def __init__(self, program, folder):
        self.process = subprocess.Popen([str(program), "serve", "-m", str(folder), "--port", "0"],
                                        stderr=subprocess.PIPE, text=True)
        said = ""
        for line in self.process.stderr:
            said += line
            if found := re.search(r"http://[^\s/]+:(\d+)", line):
                self.port = int(found[1])
                return
        sys.exit(f"chat_templates.py: llada serve ended: {said}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def laid_out(self, tools, messages):
        body = {"messages": [as_sent(message) for message in messages]}
        if tools:
            body["tools"] = [{"type": "function", "function": tool} for tool in tools]
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/apply-template", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return json.load(reply)["prompt"]
        except urllib.error.HTTPError as error:
            return f"status {error.code}: {error.read().decode(errors='replace')}"


def as_sent(message):
    """Arguments of calls are texts in the protocol, and objects for a template."""
    if "tool_calls" not in message:
        return message
    calls = [{**call, "function": {**call["function"], "arguments": json.dumps(
        call["function"]["arguments"], ensure_ascii=False)}}
             for call in message["tool_calls"]]
    return {**message, "tool_calls": calls}


def compare(name, source, args, shortened):
    mark = next((mark for mark in FAMILIES if mark in source), None)
    special = FAMILIES.get(mark, ["<|endoftext|>"])
    begin = BEGINS.get(mark, "")
    render = renderer(source, {"bos_token": begin, "eos_token": special[-1]})
    counts = {"equal": 0, "different": 0, "by design": 0, "not rendered": 0}
    with tempfile.TemporaryDirectory(prefix="llada-template-") as folder:
        write_model(pathlib.Path(folder), source, special, begin)
        with Server(args.llada, folder) as server:
            for i, (kind, tools, messages) in enumerate(conversations()[:40 if shortened else None]):
                theirs = render([{"type": "function", "function": tool} for tool in tools], messages)
                if theirs is None:
                    counts["not rendered"] += 1
                    continue
                ours = server.laid_out(tools, messages)
                if "tools" not in source and (tools or any(message["role"] == "tool" for message in messages)):
                    kind = "tools"
                result = "equal" if ours == theirs else "by design" if kind else "different"
                counts[result] += 1
                if args.verbose and result == "different":
                    print(f"{name} #{i}:\n  template {theirs!r}\n  llada    {ours!r}")
    print(f"| {name} | " + " | ".join(str(count) for count in counts.values()) + " |", flush=True)
    return counts["different"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llada", default=ROOT / "build/release/bin/llada", help="the program (build/release/bin/llada)")
    parser.add_argument("--verbose", action="store_true", help="print what differs")
    parser.add_argument("templates", nargs="*", metavar="TEMPLATE")
    args = parser.parse_args()
    if not os.access(args.llada, os.X_OK):
        print(f"SKIPPED: {args.llada}: not built")
        return 3
    if args.templates:
        templates = {path: template_of(path) for path in args.templates}
    else:
        templates = json.loads((ROOT / "tests/data/text/templates.expected.json").read_text())["templates"]
    print("| template | equal | different | by design | not rendered |\n|---|---|---|---|---|")
    different = sum(compare(name, source, args, not args.templates) for name, source in templates.items())
    print(f"\n{len(templates)} templates, {58 if args.templates else 40} conversations each: {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
