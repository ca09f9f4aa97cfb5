#!/usr/bin/env python3
"""Tokens per second of a running `llada serve` with one request at a time and with several, in turns; the answers of both
must be the same. usage: serve_throughput.py [--url URL] [--streams N] [--tokens N] [--rounds N]

For a model without a text to say, such as `llada synth` writes, every answer is as long as it may be."""

import argparse
import concurrent.futures
import json
import statistics
import time
import urllib.request


def ask(url, number, tokens):
    body = {"prompt": f"Request {number}: count the rings in the bag.", "max_tokens": tokens,
            "llada": {"preset": "exact", "logits_eos_inf": True}}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request) as reply:
        answer = json.load(reply)
    return answer["choices"][0]["text"], answer["usage"]["completion_tokens"]


def measure(url, streams, at_once, tokens):
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        answers = list(pool.map(lambda i: ask(url, i, tokens), range(streams)))
    return sum(n for _, n in answers) / (time.monotonic() - begin), [text for text, _ in answers]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    one, many, same = [], [], True
    for _ in range(args.rounds):
        rate, alone = measure(args.url, args.streams, 1, args.tokens)
        one.append(rate)
        rate, together = measure(args.url, args.streams, args.streams, args.tokens)
        many.append(rate)
        same = same and alone == together
    print(json.dumps({"label": "measured", "streams": args.streams, "tokens": args.tokens,
                      "one_tokens_per_s": statistics.median(one), "many_tokens_per_s": statistics.median(many),
                      "gain": statistics.median(many) / statistics.median(one), "answers_equal": same}))


if __name__ == "__main__":
    main()
