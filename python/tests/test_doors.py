"""One request has the same answer through every door: the program, the server's protocols whole and as streams, batches
of both, the C API and the package. A row is a request; a door that cannot say all of it is left out of that row."""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator

import pytest
from conftest import FACTS, SORT, program

import llada
from llada import _capi

LENGTH = 56
# Keys out of order, in the schema and in what is nested in it; an answer's values depend on it.
SCHEMA = {
    "type": "object",
    "properties": {
        "job": {"enum": ["pilot", "baker"]},
        "city": {"enum": ["Rome", "Oslo", "Bonn"]},
        "age": {"type": "object", "required": ["years", "about"], "additionalProperties": False,
                "properties": {"years": {"type": "integer"}, "about": {"type": "boolean"}}},
    },
    "required": ["job", "city", "age"],
    "additionalProperties": False,
}
TOOLS = [{"name": "keep", "parameters": {
    "properties": {"job": {"enum": ["pilot", "baker"]}, "age": {"type": "integer"}}, "required": ["job", "age"]}}]
ROWS = {
    "plain": {"prompt": SORT},
    "options": {"prompt": SORT, "llada": {"preset": "fast", "threshold": 0.7, "entropy_gate": 0.2}},
    "schema": {"prompt": FACTS, "schema": SCHEMA},
    "schema, sampled": {"prompt": FACTS, "schema": SCHEMA, "temperature": 1.2, "seed": 2**63 + 5},
    "schema as an option": {"prompt": FACTS, "llada": {"json_schema": json.dumps(SCHEMA)}},
    "tools": {"prompt": "A baker of 31", "tools": TOOLS},
    "stop": {"prompt": FACTS, "stop": [" Oslo", "\": \"Os"]},
    "sampled": {"prompt": SORT, "temperature": 2.0, "seed": 7, "top_p": 0.9},
    "logprobs": {"prompt": FACTS, "logprobs": True},
    "logprobs, sampled": {"prompt": SORT, "logprobs": True, "temperature": 1.5, "seed": 3},
    "choice": {"prompt": "Jane is 52 years old. Paul is 84 years old. Is Jane older than Paul?",
               "llada": {"choice": "yes|no"}},
    "regex": {"prompt": SORT, "llada": {"regex": r"\d+( \d+){4}"}},
    "template": {"prompt": FACTS, "llada": {"template": '{"job": "<choice pilot|baker>", "age": <int 0..150>}'}},
}


class Answer:
    """text; calls: (name, arguments as JSON); tokens: ids; logprobs: (text, logprob) of each token."""

    def __init__(self, text="", calls=(), tokens=None, logprobs=None):
        self.text, self.calls, self.tokens, self.logprobs = text, list(calls), tokens, logprobs


def arguments(value) -> str:
    """Whether a client gets an object or a text, the order of keys counts."""
    return json.dumps(json.loads(value) if isinstance(value, str) else value)


# ---- The program, the package, the C API


def options_of(row) -> dict:
    """The row, but for its stops, as options of the library."""
    own = {"gen_length": LENGTH, **row.get("llada", {})}
    own.update({key: row[key] for key in ("temperature", "seed", "top_p") if key in row})
    if "schema" in row:
        own["json_schema"] = json.dumps(row["schema"])
    return own


def by_run(place, row) -> Answer:
    line = [program(), "run", "-m", place.model, "-t", "1", "-p", row["prompt"], "--json"]
    for key, value in options_of(row).items():
        flag = {"preset": "preset-decode"}.get(key, key).replace("_", "-")
        line.append(f"--{flag}={value}")
    for stop in row.get("stop", []):
        line += ["--stop", stop]
    done = subprocess.run(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, stderr=subprocess.DEVNULL)
    return Answer(json.loads(done.stdout)["text"])


def by_package(place, row) -> Answer:
    result = place.package.generate(row["prompt"], stop=row.get("stop"), **options_of(row))
    return Answer(result.text, tokens=list(result.tokens))


def by_package_stream(place, row) -> Answer:
    stream = place.package.stream(row["prompt"], stop=row.get("stop"), **options_of(row))
    for _ in stream:
        pass
    return Answer(stream.result.text, tokens=list(stream.result.tokens))


def by_c(place, row) -> Answer:
    lib = _capi.lib

    def check(status):
        assert status == _capi.OK, lib.llada_error(None)

    settings = [(key, str(value)) for key, value in options_of(row).items()]
    settings += [("stop", stop) for stop in row.get("stop", [])]
    options, request, result = ctypes.c_void_p(), ctypes.c_void_p(), _capi.Result()
    check(lib.llada_options_create(_capi.API_VERSION, ctypes.byref(options)))
    for key, value in settings:
        check(lib.llada_options_set(options, key.encode(), value.encode()))
    roles, contents = (ctypes.c_char_p * 1)(b"user"), (ctypes.c_char_p * 1)(row["prompt"].encode())
    check(lib.llada_submit_chat(place.engine, roles, contents, 1, options, ctypes.byref(request)))
    check(lib.llada_request_wait(request, -1))
    check(lib.llada_request_result(request, ctypes.byref(result)))
    answer = Answer(ctypes.string_at(result.text, result.text_size).decode(), tokens=result.tokens[: result.count])
    lib.llada_request_free(request)
    lib.llada_options_free(options)
    return answer


# ---- Bodies of the protocols


def common(row, *, length="max_tokens", stop="stop") -> dict:
    body = {length: LENGTH, "llada": row.get("llada", {})}
    body.update({key: row[key] for key in ("temperature", "seed", "top_p") if key in row})
    if "stop" in row:
        body[stop] = row["stop"]
    return body


def messages(row) -> list:
    return [{"role": "user", "content": row["prompt"]}]


def chat_body(row) -> dict:
    body = {"messages": messages(row), **common(row)}
    if "schema" in row:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "a", "schema": row["schema"]}}
    if "tools" in row:
        body.update(tools=[{"type": "function", "function": tool} for tool in row["tools"]], tool_choice="required")
    if "logprobs" in row:
        body.update(logprobs=True, top_logprobs=2)
    return body


def completion_body(row, templated) -> dict:
    body = {"prompt": templated, **common(row)}
    if "schema" in row:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "a", "schema": row["schema"]}}
    if "logprobs" in row:
        body["logprobs"] = 2
    return body


def response_body(row) -> dict:
    body = {"input": row["prompt"], **common(row, length="max_output_tokens")}
    if "schema" in row:
        body["text"] = {"format": {"type": "json_schema", "name": "a", "schema": row["schema"]}}
    if "tools" in row:
        body.update(tools=[{"type": "function", **tool} for tool in row["tools"]], tool_choice="required")
    return body


def anthropic_body(row) -> dict:
    body = {"messages": messages(row), **common(row, stop="stop_sequences")}
    if "schema" in row:
        body["output_config"] = {"format": {"type": "json_schema", "schema": row["schema"]}}
    if "tools" in row:
        body["tools"] = [{"name": t["name"], "input_schema": t["parameters"]}
                         for t in row["tools"]]
        body["tool_choice"] = {"type": "any"}
    return body


def ollama_body(row, **asked) -> dict:
    said = common(row, length="num_predict")
    body = {**asked, "llada": said.pop("llada"), "options": said}
    if "schema" in row:
        body["format"] = row["schema"]
    if "tools" in row:
        body.update(tools=[{"type": "function", "function": tool} for tool in row["tools"]], tool_choice="required")
    return body


def llama_body(row, templated) -> dict:
    body = {"prompt": templated, **common(row, length="n_predict")}
    if "schema" in row:
        body["json_schema"] = row["schema"]
    return body


# ---- What comes back, whole (a body) and streamed (its events)


def of_chat(body) -> Answer:
    choice = body["choices"][0]
    said, probabilities = choice["message"], choice.get("logprobs")
    calls = [(c["function"]["name"], arguments(c["function"]["arguments"])) for c in said.get("tool_calls") or []]
    return Answer(said["content"] or "", calls,
                  logprobs=probabilities and [(t["token"], t["logprob"]) for t in probabilities["content"]])


def of_chat_stream(events) -> Answer:
    answer, calls = Answer(), {}
    for event in events:
        for choice in event["choices"]:
            answer.text += choice["delta"].get("content") or ""
            for piece in choice["delta"].get("tool_calls") or []:
                call = calls.setdefault(piece["index"], ["", ""])
                call[0] += piece["function"].get("name") or ""
                call[1] += piece["function"].get("arguments") or ""
            if choice.get("logprobs"):
                answer.logprobs = (answer.logprobs or []) + [
                    (t["token"], t["logprob"]) for t in choice["logprobs"]["content"]]
    answer.calls = [(name, arguments(text)) for name, text in calls.values()]
    return answer


def of_completion(body) -> Answer:
    choice = body["choices"][0]
    probabilities = choice.get("logprobs")
    return Answer(choice["text"], logprobs=probabilities and list(
        zip(probabilities["tokens"], probabilities["token_logprobs"])))


def of_completion_stream(events) -> Answer:
    answer = Answer()
    for event in events:
        for choice in event["choices"]:
            answer.text += choice["text"]
            if choice.get("logprobs"):
                answer.logprobs = (answer.logprobs or []) + list(
                    zip(choice["logprobs"]["tokens"], choice["logprobs"]["token_logprobs"]))
    return answer


def of_response(body) -> Answer:
    answer = Answer()
    for item in body["output"]:
        if item["type"] == "function_call":
            answer.calls.append((item["name"], arguments(item["arguments"])))
        for part in item.get("content") or []:
            answer.text += part.get("text", "")
    return answer


def of_response_stream(events) -> Answer:
    answer = Answer()
    for event in events:
        if event["type"] == "response.output_text.delta":
            answer.text += event["delta"]
        if event["type"] == "response.function_call_arguments.done":
            answer.calls.append(("", arguments(event["arguments"])))
        if event["type"] == "response.output_item.done" and event["item"]["type"] == "function_call":
            answer.calls[-1] = (event["item"]["name"], answer.calls[-1][1])
    return answer


def of_anthropic(body) -> Answer:
    answer = Answer()
    for block in body["content"]:
        answer.text += block.get("text", "")
        if block["type"] == "tool_use":
            answer.calls.append((block["name"], arguments(block["input"])))
    return answer


def of_anthropic_stream(events) -> Answer:
    answer, calls = Answer(), {}
    for event in events:
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            calls[event["index"]] = [event["content_block"]["name"], ""]
        if event["type"] == "content_block_delta":
            answer.text += event["delta"].get("text", "")
            if event["delta"]["type"] == "input_json_delta":
                calls[event["index"]][1] += event["delta"]["partial_json"]
    answer.calls = [(name, arguments(text)) for name, text in calls.values()]
    return answer


def of_ollama(events) -> Answer:
    answer = Answer()
    for event in [events] if isinstance(events, dict) else events:
        said = event.get("message", {})
        answer.text += said.get("content", "") + event.get("response", "")
        for call in said.get("tool_calls", []):
            answer.calls.append((call["function"]["name"], arguments(call["function"]["arguments"])))
    return answer


def of_llama(events) -> Answer:
    answer = Answer()
    for event in [events] if isinstance(events, dict) else events:
        answer.text += event["content"]
    return answer


# ---- The server and the batches


class Place:
    """Everything that the doors need, opened once."""

    def __init__(self, model: str, package, folder: pathlib.Path):
        self.model, self.package, self.folder = model, package, folder
        self.process = subprocess.Popen(
            [program(), "serve", "-m", model, "-t", "1", "--port", "0", "--store", str(folder / "store"), "-q"],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if found := re.search(r"ready at (http://\S+)", line):
                self.url = found.group(1)
                break
        c_options = ctypes.c_void_p()
        self.c_model, self.engine = ctypes.c_void_p(), ctypes.c_void_p()
        lib = _capi.lib
        lib.llada_options_create(_capi.API_VERSION, ctypes.byref(c_options))
        lib.llada_options_set(c_options, b"threads", b"1")
        assert lib.llada_model_load(_capi.API_VERSION, model.encode(), c_options, _capi.Progress(), None,
                                    ctypes.byref(self.c_model)) == 0, lib.llada_error(None)
        assert lib.llada_engine_create(self.c_model, None, ctypes.byref(self.engine)) == 0
        lib.llada_options_free(c_options)

    def close(self) -> None:
        self.process.terminate()
        assert self.process.wait(timeout=30) == 0
        _capi.lib.llada_engine_free(self.engine)
        _capi.lib.llada_model_free(self.c_model)

    def ask(self, path: str, body=None, *, data: bytes | None = None, kind: str = "application/json") -> bytes:
        data = json.dumps(body).encode() if body is not None else data
        request = urllib.request.Request(self.url + path, data, {"Content-Type": kind})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read().decode()}") from None

    def whole(self, path: str, body) -> dict:
        return json.loads(self.ask(path, body))

    def events(self, path: str, body) -> Iterator[dict]:
        for line in self.ask(path, body).decode().splitlines():
            data = line.removeprefix("data: ")
            if data.startswith("{"):
                yield json.loads(data)

    def templated(self, row) -> str:
        return self.whole("/apply-template", {"messages": messages(row)})["prompt"]


@pytest.fixture(scope="module")
def place(model_path, model, tmp_path_factory):
    opened = Place(model_path, model, tmp_path_factory.mktemp("doors"))
    yield opened
    opened.close()


# Batched: the routes of a batch, how a body is made and read. Their answers are asked for once, for all rows.
BATCHED = {
    "/v1/chat/completions": ((), lambda place, row: chat_body(row), of_chat),
    "/v1/completions": (("tools",), lambda place, row: completion_body(row, place.templated(row)), of_completion),
    "/v1/responses": (("stop",), lambda place, row: response_body(row), of_response),
}

# What a door's requests cannot say, and how it is asked.
DOORS = {
    "run": (("tools",), by_run),
    "package": (("tools",), by_package),
    "package, stream": (("tools",), by_package_stream),
    "C": (("tools",), by_c),
    "chat": ((), lambda p, r: of_chat(p.whole("/v1/chat/completions", chat_body(r)))),
    "chat, stream": ((), lambda p, r: of_chat_stream(
        p.events("/v1/chat/completions", {**chat_body(r), "stream": True}))),
    "completions": (("tools",), lambda p, r: of_completion(
        p.whole("/v1/completions", completion_body(r, p.templated(r))))),
    "completions, stream": (("tools",), lambda p, r: of_completion_stream(
        p.events("/v1/completions", {**completion_body(r, p.templated(r)), "stream": True}))),
    "responses": (("stop",), lambda p, r: of_response(p.whole("/v1/responses", response_body(r)))),
    "responses, stream": (("stop",), lambda p, r: of_response_stream(
        p.events("/v1/responses", {**response_body(r), "stream": True}))),
    "messages": ((), lambda p, r: of_anthropic(p.whole("/v1/messages", anthropic_body(r)))),
    "messages, stream": ((), lambda p, r: of_anthropic_stream(
        p.events("/v1/messages", {**anthropic_body(r), "stream": True}))),
    "ollama chat": ((), lambda p, r: of_ollama(
        p.whole("/api/chat", ollama_body(r, messages=messages(r), stream=False)))),
    "ollama chat, stream": ((), lambda p, r: of_ollama(
        p.events("/api/chat", ollama_body(r, messages=messages(r))))),
    "ollama generate": (("tools",), lambda p, r: of_ollama(
        p.whole("/api/generate", ollama_body(r, prompt=r["prompt"], stream=False)))),
    "ollama generate, stream": (("tools",), lambda p, r: of_ollama(
        p.events("/api/generate", ollama_body(r, prompt=r["prompt"])))),
    "llama-server": (("tools",), lambda p, r: of_llama(p.whole("/completion", llama_body(r, p.templated(r))))),
    "llama-server, stream": (("tools",), lambda p, r: of_llama(
        p.events("/completion", {**llama_body(r, p.templated(r)), "stream": True}))),
}


@pytest.fixture(scope="module")
def batched(place):
    """(row, route): the answer's body, of `llada batch`; and of the server's batches for each route."""
    lines = {route: {name: json.dumps({"custom_id": f"{name} {route}", "method": "POST", "url": route,
                                       "body": make(place, row)})
                     for name, row in ROWS.items() if not row.keys() & set(lacks)}
             for route, (lacks, make, _) in BATCHED.items()}
    requests, answers = place.folder / "requests.jsonl", place.folder / "answers.jsonl"
    requests.write_text("\n".join(line for of_route in lines.values() for line in of_route.values()) + "\n")
    subprocess.run([program(), "batch", "-m", place.model, "-t", "1", "-q", str(requests), str(answers)], check=True)
    found = {"batch": answers.read_text(), "server's batch": ""}
    for route, of_route in lines.items():
        form = "\r\n".join(["--x", 'Content-Disposition: form-data; name="purpose"', "", "batch", "--x",
                            'Content-Disposition: form-data; name="file"; filename="in.jsonl"', "",
                            "\n".join(of_route.values()), "--x--", ""])
        kept = json.loads(place.ask("/v1/files", data=form.encode(), kind="multipart/form-data; boundary=x"))
        batch = place.whole("/v1/batches", {"input_file_id": kept["id"], "endpoint": route, "completion_window": "24h"})
        while batch["status"] not in ("completed", "failed", "cancelled", "expired"):
            time.sleep(0.05)
            batch = json.loads(place.ask(f"/v1/batches/{batch['id']}"))
        assert batch["status"] == "completed", batch
        found["server's batch"] += place.ask(f"/v1/files/{batch['output_file_id']}/content").decode()
    return {door: {json.loads(line)["custom_id"]: json.loads(line) for line in text.splitlines()}
            for door, text in found.items()}


@pytest.mark.parametrize("name", ROWS)
def test_every_door_gives_one_answer(place, batched, name):
    row = ROWS[name]
    answers = {door: ask(place, row) for door, (lacks, ask) in DOORS.items() if not row.keys() & set(lacks)}
    for door, lines in batched.items():
        for route, (_, _, read) in BATCHED.items():
            if (line := lines.get(f"{name} {route}")) is not None:
                assert line["response"]["status_code"] == 200, line
                answers[f"{door} {route}"] = read(line["response"]["body"])
    expected = answers["chat"]
    assert len(answers) >= 11 and (expected.calls if "tools" in row else expected.text)
    for of in ("text", "calls", "tokens", "logprobs"):
        given = {door: getattr(answer, of) for door, answer in answers.items() if getattr(answer, of) is not None}
        usual = getattr(expected, of) if getattr(expected, of) is not None else next(iter(given.values()), None)
        other = {door: value for door, value in given.items() if value != usual}
        assert not other, (of, usual, other)
    assert ("logprobs" in row) == (expected.logprobs is not None)
