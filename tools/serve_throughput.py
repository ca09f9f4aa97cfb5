#!/usr/bin/env python3
"""Tokens per second of a running `llada serve` with one request at a time and with several, in turns; the answers of both
must be the same. With --run MODEL also what the server adds to `llada run` at one request at a time: seconds from a
request to its answer over those that the program needs for the same, without loading. With --system FILE what an agent
pays that sends this text before each short question: its first turn, its second, and two more clients at once.
usage: serve_throughput.py [--url URL] [--streams N] [--tokens N] [--rounds N] [--decoding JSON] [--run MODEL]
       serve_throughput.py [--url URL] [--tokens N] --system FILE [--bytes N]

For a model without a text to say, such as `llada-study synth` writes, every answer is as long as it may be."""

import argparse
import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import time
import urllib.request


PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "build/release/bin/llada"


def prompt_of(number):
    return f"Request {number}: count the rings in the bag."


def ask(url, number, tokens, decoding):
    body = {"prompt": prompt_of(number), "max_tokens": tokens, "llada": {"logits_eos_inf": True, **decoding}}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request) as reply:
        answer = json.load(reply)
    return answer["choices"][0]["text"], answer["usage"]["completion_tokens"]


def measure(url, streams, at_once, tokens, decoding):
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        answers = list(pool.map(lambda i: ask(url, i, tokens, decoding), range(streams)))
    return sum(n for _, n in answers) / (time.monotonic() - begin), [text for text, _ in answers]


def program_seconds(program, model, number, tokens, decoding):
    flags = ["--preset-decode", decoding["preset"]] if "preset" in decoding else []
    for key, value in decoding.items():
        if key != "preset" and value is not False:
            flags += [f"--{key.replace('_', '-')}"] + ([] if value is True else [str(value)])
    command = [program, "run", "-m", model, "-p", prompt_of(number), "--raw", "--json", "-n", str(tokens),
               "--logits-eos-inf", *flags]
    out = subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    return json.loads(out)["stats"]["seconds"]


def overhead(args):
    """-> percent that the server adds, median over the requests, each asked in turns."""
    ratios = []
    for number in range(args.streams):
        ours, theirs = [], []
        for _ in range(args.rounds):
            begin = time.monotonic()
            ask(args.url, number, args.tokens, args.decoding)
            ours.append(time.monotonic() - begin)
            theirs.append(program_seconds(args.program, args.run, number, args.tokens, args.decoding))
        ratios.append(statistics.median(ours) / statistics.median(theirs))
    return 100 * (statistics.median(ratios) - 1)


def turn(url, messages, tokens):
    """-> of a streamed answer: its text, and a row of the table of --system"""
    body = {"messages": messages, "max_tokens": tokens, "stream": True, "return_progress": True,
            "stream_options": {"include_usage": True}, "llada": {"logits_eos_inf": True}}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode())
    begin, first, events, text, usage = time.monotonic(), None, 0, "", {}
    with urllib.request.urlopen(request) as reply:
        for line in reply:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            usage = event.get("usage") or usage
            events += "prompt_progress" in event
            said = "".join(choice["delta"].get("content") or "" for choice in event["choices"])
            if said and first is None:
                first = time.monotonic() - begin
            text += said
    return text, {"prompt_tokens": usage["prompt_tokens"], "kept": usage["prompt_tokens_details"]["cached_tokens"],
                  "rows": usage["rows"], "progress_events": events, "first_text_s": None if first is None else round(first, 2),
                  "all_s": round(time.monotonic() - begin, 2)}


def agent(args):
    """-> rows by request"""
    system = {"role": "system", "content": args.system.read_bytes()[:args.bytes].decode(errors="ignore")}
    conversation = [system, {"role": "user", "content": "What is the first thing to do?"}]
    text, first = turn(args.url, conversation, args.tokens)
    conversation += [{"role": "assistant", "content": text}, {"role": "user", "content": "And the second?"}]
    _, second = turn(args.url, conversation, args.tokens)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda asked: turn(args.url, [system, {"role": "user", "content": asked}], args.tokens)[1],
                             ("Who are you?", "What can you do?")))
    return {"label": "measured", "first": first, "second": second, "two_at_once": both}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--decoding", type=json.loads, default={"preset": "exact"}, metavar="JSON",
                        help="decoding options of each request (%(default)s)")
    parser.add_argument("--run", metavar="MODEL", help="compare with `llada run` of the server's model too")
    parser.add_argument("--program", default=str(PROGRAM))
    parser.add_argument("--system", type=pathlib.Path, metavar="FILE", help="an agent's system prompt: its turns instead")
    parser.add_argument("--bytes", type=int, help="of the file only so many")
    args = parser.parse_args()
    if args.system:
        print(json.dumps(agent(args), indent=1))
        return
    if args.run:
        print(json.dumps({"label": "measured", "decoding": args.decoding, "tokens": args.tokens,
                          "server_overhead_percent": round(overhead(args), 2)}))
        return
    one, many, same = [], [], True
    for _ in range(args.rounds):
        rate, alone = measure(args.url, args.streams, 1, args.tokens, args.decoding)
        one.append(rate)
        rate, together = measure(args.url, args.streams, args.streams, args.tokens, args.decoding)
        many.append(rate)
        same = same and alone == together
    print(json.dumps({"label": "measured", "streams": args.streams, "tokens": args.tokens, "decoding": args.decoding,
                      "one_tokens_per_s": statistics.median(one), "many_tokens_per_s": statistics.median(many),
                      "gain": statistics.median(many) / statistics.median(one), "answers_equal": same}))


if __name__ == "__main__":
    main()
