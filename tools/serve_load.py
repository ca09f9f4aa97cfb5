#!/usr/bin/env python3
"""Many clients of one `llada serve` for some minutes, of every protocol that it speaks: a third reads slowly, a third
goes away at random, and beside them come garbage, requests that never end and bodies that are too long. Every finished
answer is compared with that of `llada run`, decisions, gaps and calls with those of an idle server, the last two
streamed, too, memory at rest with what it was before, and at the end SIGTERM comes in the middle. With a device
that fails (--llada build/release/bin/llada_failing -- --device sim:v79-8elite,window=50%,fail=gone:1500) its fallback
must have taken over once, and no answer differ.

usage: serve_load.py [--llada PROGRAM] [--model MODEL] [--clients N] [--warm-up M] [--minutes M]
                     [-- options of llada serve]
Exit status 1, with a line for each, where something is not as it must be."""

import argparse
import asyncio
import itertools
import json
import pathlib
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MAX_BODY = 65536
PARTS = 3        # of the load, with a rest after each
MOST_GROWTH = 4  # MiB of memory at rest in the part that grew least

# What is asked: the message, the most tokens, sampling, decoding options, the same as flags of `llada run`.
CASES = [(f"There are {30 + i} rings in the bag. He gives {2 + i} to Cleo. How many rings are left?", *case)
         for i in range(4)
         for case in [
             (64, {}, {}, ["-n", "64"]),
             (96, {"temperature": 0.8, "seed": 11}, {}, ["-n", "96", "--temp", "0.8", "--seed", "11"]),
             (64, {}, {"threshold": 0.8}, ["-n", "64", "--threshold", "0.8"]),
             (64, {}, {"preset": "exact"}, ["-n", "64", "--preset-decode", "exact"])]]
SCHEMA = {"type": "object", "properties": {"left": {"type": "integer"}, "sure": {"type": "boolean"}},
          "required": ["left", "sure"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}}}



def calls_of(answer):
    """Ids of calls differ."""
    (choice,) = answer["choices"]
    return [call["function"] for call in choice["message"]["tool_calls"]], choice["finish_reason"]


def calls_of_pieces(pieces):
    calls, reason = [], None
    for choice in (c for p in pieces for c in p["choices"]):
        for part in choice["delta"].get("tool_calls", ()):
            if part["index"] == len(calls):
                calls.append({"name": part["function"]["name"], "arguments": ""})
            calls[part["index"]]["arguments"] += part["function"]["arguments"]
        reason = choice["finish_reason"] or reason
    return calls, reason


# Asked once of the idle server, whose answer all others must have: the path, the body, what is compared of a whole
# answer, and how the pieces of a stream make the same, where the route has streams.
CHOICES = [{"value": "blue"}, {"value": "red"}]
FIXED = {
    "decisions": ("/v1/decisions", {"input": "The sky is blue.", "questions": [
        {"type": "predicate", "instructions": "Is it about the weather?"},
        {"type": "choice", "instructions": "Which colour?", "choices": CHOICES}]}, lambda a: a["answers"], None),
    "systemone": ("/v1/systemone", {"state": {"sky": "blue"}, "questions": {
        "weather": {"type": "noul", "instructions": "Is it about the weather?"},
        "much": {"type": "score", "instructions": "How much blue?", "criteria": ["little", "much"]}}},
                  lambda a: a["answers"], None),
    "infill": ("/infill", {"text": "Ken has 20+6=<mask:2> puzzles. Theo has 26-3=<mask:2> puzzles."},
               lambda a: a["content"], lambda pieces: "".join(p["content"] for p in pieces)),
    "tools": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Add 2."}], "max_tokens": 64,
                                       "tools": [TOOL], "tool_choice": "required"}, calls_of, calls_of_pieces),
}


def with_tokens(name):
    """The body of a request whose most tokens have that name."""
    return lambda text, tokens, sampling, options: {
        "messages": [{"role": "user", "content": text}], name: tokens, **sampling, "llada": options}


def response_body(text, tokens, sampling, options):
    return {"input": text, "max_output_tokens": tokens, **sampling, "llada": options}


def schema_body(text, tokens, sampling, options):
    form = {"type": "json_schema", "json_schema": {"name": "left", "schema": SCHEMA}}
    return {**with_tokens("max_tokens")(text, tokens, sampling, options), "response_format": form}


def text_body(name):
    return lambda text, tokens, sampling, options: {"prompt": text, name: tokens, **sampling, "llada": options}


def ollama_body(text, tokens, sampling, options):
    return {"messages": [{"role": "user", "content": text}], "options": {"num_predict": tokens, **sampling},
            "llada": options}


def generate_body(text, tokens, sampling, options):
    return {"prompt": text, "options": {"num_predict": tokens, **sampling}, "llada": options}


def pieces_of_events(body):
    return [json.loads(e) for e in re.findall(r"^data: (\{.*\})$", body, re.M)]


def pieces_of_lines(body):
    return [json.loads(line) for line in body.splitlines() if line]


def chat_piece(piece):
    return "".join(c["delta"].get("content", "") for c in piece["choices"])


# A protocol: its path, the body of a case, the text of a whole answer, the pieces of a stream, the text of a piece,
# what a whole stream has, and the flags that `llada run` needs for the same.
PROTOCOLS = {
    "chat": ("/v1/chat/completions", with_tokens("max_tokens"), lambda a: a["choices"][0]["message"]["content"],
             pieces_of_events, chat_piece, "[DONE]", ()),
    "schema": ("/v1/chat/completions", schema_body, lambda a: a["choices"][0]["message"]["content"],
               pieces_of_events, chat_piece, "[DONE]", ("--json-schema", json.dumps(SCHEMA))),
    "completions": ("/v1/completions", text_body("max_tokens"), lambda a: a["choices"][0]["text"],
                    pieces_of_events, lambda p: "".join(c["text"] for c in p["choices"]), "[DONE]", ("--raw",)),
    "responses": ("/v1/responses", response_body, lambda a: a["output"][0]["content"][0]["text"], pieces_of_events,
                  lambda p: p["delta"] if p["type"] == "response.output_text.delta" else "", '"type":"response.', ()),
    "messages": ("/v1/messages", with_tokens("max_tokens"), lambda a: a["content"][0]["text"], pieces_of_events,
                 lambda p: p["delta"].get("text", "") if p["type"] == "content_block_delta" else "", "message_stop",
                 ()),
    "ollama": ("/api/chat", ollama_body, lambda a: a["message"]["content"], pieces_of_lines,
               lambda p: p.get("message", {}).get("content", ""), '"done":true', ()),
    "generate": ("/api/generate", generate_body, lambda a: a["response"], pieces_of_lines,
                 lambda p: p.get("response", ""), '"done":true', ()),
    "completion": ("/completion", text_body("n_predict"), lambda a: a["content"], pieces_of_events,
                   lambda p: p["content"], '"stop":true', ("--raw",)),
}


def expected(args):
    """The program's texts, by the flags of a protocol and the case."""
    answers = {}
    for more in {p[-1] for p in PROTOCOLS.values()}:
        for which, (text, *_, flags) in enumerate(CASES):
            out = subprocess.run([args.llada, "run", "-m", args.model, "-p", text, "--json", *flags, *more], check=True,
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
            answers[more, which] = json.loads(out)["text"]
    return answers


class Load:
    def __init__(self, args, port, answers):
        self.args, self.port, self.answers = args, port, answers
        self.counts = dict.fromkeys([*PROTOCOLS, *FIXED, "refused", "gone", "garbage", "wrong"], 0)
        self.wrong = []
        self.fixed = {}
        self.random = random.Random(1)

    def fail(self, what):
        self.counts["wrong"] += 1
        self.wrong.append(what)

    async def send(self, body, path="/v1/chat/completions"):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        text = json.dumps(body).encode()
        writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     f"Content-Length: {len(text)}\r\n\r\n".encode() + text)
        await writer.drain()
        return reader, writer

    async def ask(self, kind):
        if self.random.random() < 0.2:
            return await self.ask_fixed(self.random.choice(list(FIXED)), self.random.random() < 0.5, kind)
        await self.ask_case(self.random.randrange(len(CASES)), self.random.choice(list(PROTOCOLS)),
                            self.random.random() < 0.7, kind)

    async def ask_case(self, which, protocol, stream, kind):
        *case, _ = CASES[which]
        path, body_of, *_ = PROTOCOLS[protocol]
        body = {**body_of(*case), "stream": stream}
        if protocol == "chat" and stream and self.random.random() < 0.5:
            body["diffusing"] = "frames"
        reader, writer = await self.send(body, path)
        try:
            if kind == "leaves":
                return await self.leave()
            reply = await self.read(reader, slow=kind == "slow")
            self.judge(reply, self.answers[PROTOCOLS[protocol][-1], which], protocol, body["stream"])
        finally:
            writer.close()

    async def leave(self):
        await asyncio.sleep(self.random.random() * 0.3)
        self.counts["gone"] += 1

    async def ask_fixed(self, name, stream, kind):
        path, body, value_of, value_of_pieces = FIXED[name]
        stream = stream and value_of_pieces is not None
        reader, writer = await self.send({**body, "stream": True} if stream else body, path)
        try:
            if kind == "leaves":
                return await self.leave()
            status, reply = self.status_and_body(await self.read(reader, slow=kind == "slow"))
        finally:
            writer.close()
        if status is None or stream and "the server is shutting down" in reply:
            return
        if status != 200 or stream and "[DONE]" not in reply:
            return self.fail(f"{name}: status {status}: {reply[-200:]}")
        found = value_of_pieces(pieces_of_events(reply)) if stream else value_of(json.loads(reply))
        needed = self.fixed.setdefault(name, found)
        self.counts[name] += 1
        if found != needed:
            self.fail(f"{name}: found {found}, needed {needed}")

    async def read(self, reader, slow):
        data = b""
        while True:
            piece = await reader.read(2048 if slow else 1 << 16)
            if not piece:
                return data.decode()
            data += piece
            if slow:
                await asyncio.sleep(0.05)

    def status_and_body(self, reply):
        """No status: the server had no room, or ends."""
        head, _, body = reply.partition("\r\n\r\n")
        status = int(head.split()[1]) if head else 0
        if status in (429, 503):
            self.counts["refused"] += 1
            return None, body
        return status, unchunked(body) if "chunked" in head else body

    def judge(self, reply, answer, protocol, streamed):
        status, body = self.status_and_body(reply)
        if status is None:
            return
        if status != 200:
            return self.fail(f"{protocol}: status {status}: {body[:200]}")
        _, _, text_of_whole, pieces_of, text_of_piece, end, _ = PROTOCOLS[protocol]
        if not streamed:
            text = text_of_whole(json.loads(body))
        else:
            if "the server is shutting down" in body:
                self.counts["refused"] += 1
                return
            pieces = pieces_of(body)
            if end not in body or any(p.get("error") for p in pieces):
                return self.fail(f"{protocol}: stream: {body[-200:]}")
            text = "".join(map(text_of_piece, pieces))
        self.counts[protocol] += 1
        if text != answer:
            self.fail(f"{protocol}: found {text!r}, needed {answer!r}")

    async def disturb(self):
        kind = self.random.randrange(4)
        self.counts["garbage"] += 1
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        post = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
        if kind == 0:
            writer.write(self.random.randbytes(500) + b"\r\n\r\n")
        elif kind == 1:
            writer.write(post + b"100\r\n\r\n{\"mess")  # and no more
        elif kind == 2:
            writer.write(post + b"1000000\r\n\r\n" + b"x" * 100000)
        else:
            writer.write(post + b"9\r\n\r\n{\"a\": [[[")
        try:
            await asyncio.wait_for(reader.read(1 << 16), timeout=5)
        except (asyncio.TimeoutError, ConnectionError):
            pass
        writer.close()

    async def client(self, number, until):
        kind = ["reads", "slow", "leaves"][number % 3]
        while time.monotonic() < until:
            try:
                await asyncio.wait_for(self.ask(kind), timeout=120)
                if self.random.random() < 0.1:
                    await self.disturb()
            except asyncio.TimeoutError:
                self.fail(f"a client that {kind} was stuck for 120 s")
            except (ConnectionError, BrokenPipeError):
                pass

    async def rest(self):
        """Waits for the end of what clients left behind, and for the free pages that go back every five seconds."""
        for _ in range(300):
            text = self.metrics()
            if metric(text, "llada_requests_running") == metric(text, "llada_requests_waiting") == 0:
                break
            await asyncio.sleep(0.1)
        else:
            self.fail("requests are stuck: " + text)
        await asyncio.sleep(7)
        return text

    def metrics(self):
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            text = b""
            while piece := s.recv(1 << 16):
                text += piece
        return text.decode()


def unchunked(body):
    """The pieces of a chunked body without their sizes."""
    out, at = [], 0
    raw = body.encode()
    while (end := raw.find(b"\r\n", at)) >= 0:
        size = int(raw[at:end], 16)
        out.append(raw[end + 2:end + 2 + size])
        at = end + 2 + size + 2
    return b"".join(out).decode()


def metric(text, name):
    return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M).group(1))


def share_below(text, name, share):
    """The smallest bound of a histogram below which that share of its values lies."""
    buckets = re.findall(rf'^{name}_bucket{{le="([^"]+)"}} (\d+)$', text, re.M)
    whole = int(buckets[-1][1])
    return next(float(bound) for bound, count in buckets if int(count) >= share * whole)


def resident_mib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) / 1024


async def watch_memory(pid, samples):
    while True:
        samples.append((time.monotonic(), resident_mib(pid)))
        await asyncio.sleep(1)


async def run(args, port, process, answers):
    load = Load(args, port, answers)
    for name in FIXED:
        for stream in (False, True):
            await load.ask_fixed(name, stream, "reads")
    for i, protocol in enumerate(PROTOCOLS):
        for stream in (False, True):
            await load.ask_case(i, protocol, stream, "reads")
    begin = time.monotonic()
    samples = []
    watcher = asyncio.create_task(watch_memory(process.pid, samples))
    resting = []  # MiB after the warm-up and after each part, with no request left
    for minutes in (args.warm_up, *[args.minutes / PARTS] * PARTS):
        until = time.monotonic() + minutes * 60
        await asyncio.gather(*(load.client(i, until) for i in range(args.clients)))
        text = await load.rest()
        resting.append(resident_mib(process.pid))
    watcher.cancel()
    minutes = {}
    for t, k in samples:
        minutes.setdefault(int((t - begin) / 60), []).append(k)
    forwards = share_below(text, "llada_first_step_forwards", 0.99)
    # The memory of the largest step so far is kept, so that a part may end with more; a leak shows in all of them.
    growth = min(after - before for before, after in itertools.pairwise(resting))
    if growth > MOST_GROWTH:
        load.fail(f"memory at rest grew by {growth:.1f} MiB and more in each of {PARTS} parts, needed a part with "
                  f"{MOST_GROWTH} MiB at most")
    fallbacks = metric(text, "llada_device_fallbacks_total")
    if fallbacks != any("fail=" in option for option in args.server_options):
        load.fail(f"{fallbacks:g} devices were replaced by their fallback")
    if forwards > 20:
        load.fail(f"99 % had their first step within {forwards:g} forwards, needed 20")
    # The end comes in the middle of answers.
    ending = [asyncio.create_task(load.ask("reads")) for _ in range(args.clients)]
    await asyncio.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    for outcome in await asyncio.gather(*ending, return_exceptions=True):
        if isinstance(outcome, Exception):
            load.fail(f"while ending: {outcome!r}")
    status = process.wait(timeout=60)
    if status != 0:
        load.fail(f"exit status {status} after SIGTERM")
    print(json.dumps({"label": "measured", **load.counts, "resting_mib": [round(k, 1) for k in resting],
                      "median_mib_by_minute": [round(statistics.median(k), 1) for k in minutes.values()],
                      "most_mib_by_minute": [round(max(k), 1) for k in minutes.values()],
                      "first_step_forwards_p99": forwards, "fallbacks": fallbacks,
                      "forwards": metric(text, "llada_forwards_total"),
                      "parts": metric(text, "llada_forward_parts_total")}))
    for line in load.wrong[:20]:
        print("serve_load:", line, file=sys.stderr)
    return 1 if load.wrong or not all(load.counts[p] for p in [*PROTOCOLS, *FIXED]) else 0


def main():
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--llada", default=str(ROOT / "build/release/bin/llada"))
    parser.add_argument("--model", default=str(ROOT / "models/tiny-llada"))
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--warm-up", type=float, default=1, metavar="MINUTES",
                        help="of the same load before")
    args = parser.parse_args(words[:split])
    args.server_options = words[split + 1:]
    answers = expected(args)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    process = subprocess.Popen([args.llada, "serve", "-m", args.model, "--port", str(port), "--parallel", "256",
                                "--row-budget", "32768", "--max-body", str(MAX_BODY), "--quiet", *args.server_options],
                               stderr=subprocess.PIPE, text=True)
    process.stderr.readline()  # that it is ready
    try:
        return asyncio.run(run(args, port, process, answers))
    finally:
        if process.poll() is None:
            process.kill()


if __name__ == "__main__":
    sys.exit(main())
