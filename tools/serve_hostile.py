#!/usr/bin/env python3
"""Hostile requests to `llada serve`, a given number of them, beside clients that are answered, while /health is timed.

Hostile are garbage, heads and bodies that are refused, lists of a million objects, names of other hosts, requests that
end in the middle, clients that leave, that never ask, that send their next request early. The same seed sends the same
requests. Every reply's status is compared with the one that is right; each answer of the other clients with that of
`llada run`. The exit status is 1 where one differs, or the slowest /health but one in a thousand took longer than
--most-ms.

With --greedy N, N further requests ask for as much as they can: 128 answers of open length, scores of long prompts,
long bodies, replies and frames that nobody reads. --limit-mib bounds the server's address space. Whatever they are
told, the other clients' answers have to come and be right.

With --forms N ten clients send N forms that are hard to follow or to read, and long bodies. How long plain requests
take beside all that is printed, too.

  tools/serve_hostile.py --count 100000
  tools/serve_hostile.py --greedy 200 --limit-mib 1024
  tools/serve_hostile.py --count 0 --greedy 200 --limit-mib 1024 --clients 8 --most-ms 1000 -- --kv-memory 128
  tools/serve_hostile.py --count 1000000 --clients 32 --most-ms 100
  tools/serve_hostile.py --count 0 --forms 300 --clients 1
"""

import argparse
import http.client
import json
import multiprocessing
import pathlib
import random
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from queue import Empty

ROOT = pathlib.Path(__file__).resolve().parents[1]
BATCH = 64  # requests of one write
STATUS = re.compile(rb"HTTP/1\.[01] (\d\d\d) ")
QUESTION = {"messages": [{"role": "user", "content": "Sort the numbers from smallest to largest: 38 41 6 51 3"}],
            "max_tokens": 32}


def request(method, path, body=b"", host="localhost", headers=""):
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}{length}\r\n".encode("latin-1") + body


def chat(**fields):
    return json.dumps({"messages": [{"role": "user", "content": "Hi"}], **fields}).encode()


# Requests after which the connection goes on, with the status of their replies.
def kept(rng):
    word = "".join(rng.choice("abcdefgh") for _ in range(6))
    deep = rng.randrange(17, 4000)
    return rng.choice([
        (request("GET", f"/{word}"), 404),
        (request("GET", "/../../etc/passwd"), 404),
        (request("GET", f"/v1/models/{word}%2F%00"), 404),
        (request("DELETE", "/v1/chat/completions"), 405),
        (request(word.upper(), "/health"), 405),
        (request("GET", "/health", host=f"{word}.example"), 403),
        (request("GET", "/props", host=f"localhost.{word}.example:80"), 403),
        (request("POST", "/v1/chat/completions", chat(), headers="Origin: http://evil.example\r\n"), 403),
        (request("POST", "/v1/chat/completions", b"{" * rng.randrange(1, 3000)), 400),
        (request("POST", "/v1/chat/completions", b'{"a":' + b"[" * deep + b"]" * deep + b"}"), 400),
        (request("POST", "/v1/chat/completions", b'{"messages":[' + b"{}," * rng.randrange(1, 300) + b"{}]}"), 400),
        (request("POST", "/v1/chat/completions", b'{"messages":"\xff\xfe"}'), 400),
        (request("POST", "/v1/chat/completions", b'{"messages":1e999}'), 400),
        (request("POST", "/v1/chat/completions", b'{"messages":[],"messages":[]}'), 400),
        (request("POST", "/v1/chat/completions", chat(max_tokens=rng.choice([0, -5, "x", [1]]))), 400),
        (request("POST", "/v1/chat/completions", chat(**{word + "\n\x7f": {"a": 1}})), 400),
        (request("POST", "/v1/chat/completions", chat(llada={word: 1})), 400),
        (request("POST", "/v1/completions", b'{"prompt":[-1]}'), 400),
        (request("POST", "/v1/completions", b'{"prompt":{"a":"b"}}'), 400),
        (request("POST", "/infill", b'{"text":"<mask:99999999999>"}'), 400),
        (request("POST", "/detokenize", b'{"tokens":[4294967296]}'), 400),
        (request("POST", "/detokenize", bytes(rng.randrange(256) for _ in range(40))), 400),
        (request("POST", "/tokenize", b"\0" * 100), 400),
    ])


# Requests after which the server closes; 0: it says nothing.
def closing(rng):
    host = "Host: localhost\r\n"
    return rng.choice([
        (bytes([rng.randrange(256) | 0x80]) + b"garbage\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\n\r\n", 400),
        (f"GET /health HTTP/1.1\r\n{host}{host}\r\n".encode(), 400),
        (f"GET /health HTTP/1.1\r\n{host}X: a\r\n b\r\n\r\n".encode(), 400),
        (f"POST /tokenize HTTP/1.1\r\n{host}Content-Length: -1\r\n\r\n".encode(), 400),
        (f"POST /tokenize HTTP/1.1\r\n{host}Content-Length: 99999999\r\n\r\n".encode(), 413),
        (f"POST /tokenize HTTP/1.1\r\n{host}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{{}}".encode(), 400),
        (f"POST /tokenize HTTP/1.1\r\n{host}Transfer-Encoding: xchunked\r\n\r\nGET / HTTP/1.1\r\n".encode(), 400),
        (f"POST /tokenize HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\nzz\r\n".encode(), 400),
        (f"GET /health HTTP/1.1\r\n{host}X: ".encode() + b"a" * 20000, 431),
        (b"GET /healt", 0),
        (f"POST /tokenize HTTP/1.1\r\n{host}Content-Length: 1000\r\n\r\nabc".encode(), 0),
        (request("POST", "/v1/chat/completions", chat(max_tokens=200, stream=True)), 0),
        (request("POST", "/v1/chat/completions", chat(max_tokens=200)), 0),
    ])


def large(rng):
    objects = rng.choice([1000, 30000, 160000])
    return request("POST", "/v1/chat/completions", b'{"messages":[' + b"{}," * objects + b"{}]}")


def connect(port):
    s = socket.create_connection(("127.0.0.1", port), timeout=60)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def read_statuses(s, count):
    data = b""
    while True:
        found = STATUS.findall(data)
        if len(found) >= count and data.endswith(b"}"):
            return [int(status) for status in found]
        piece = s.recv(1 << 18)
        if not piece:
            return [int(status) for status in found]
        data += piece


class Wrong:
    """Counts what is wrong and keeps the first of it, so that a long run takes no more memory than a short one."""

    def __init__(self):
        self.first, self.count = [], 0

    def append(self, line):
        self.count += 1
        if len(self.first) < 20:
            self.first.append(line)


class Times:
    """Seconds, counted in steps of 10 microseconds up to 10 seconds."""

    STEP, MOST = 1e-5, 1_000_000

    def __init__(self):
        self.counts, self.count, self.longest = {}, 0, 0.0

    def add(self, seconds):
        step = min(int(seconds / self.STEP), self.MOST)
        self.counts[step] = self.counts.get(step, 0) + 1
        self.count += 1
        self.longest = max(self.longest, seconds)

    def at(self, share):
        """Milliseconds that so many of them did not exceed."""
        left = share * self.count
        for step in sorted(self.counts):
            left -= self.counts[step]
            if left <= 0:
                return round(1e3 * self.STEP * (step + 1), 2)
        return 0.0


class Attacker:
    """Sends its share of the requests: most in rows over connections that are kept, one in fifty otherwise."""

    def __init__(self, port, seed, results):
        self.port, self.rng, self.results = port, random.Random(seed), results
        self.idle, self.sent, self.wrong = [], 0, Wrong()

    def run(self, count):
        rows = []
        for _ in range(200):
            pairs = [kept(self.rng) for _ in range(BATCH)]
            rows.append((b"".join(p[0] for p in pairs), [p[1] for p in pairs]))
        s = None
        while self.sent < count:
            try:
                s = s or connect(self.port)
                data, right = self.rng.choice(rows)
                s.sendall(data)
                self.judge(read_statuses(s, BATCH), right, data)
                self.sent += BATCH
                self.others()
            except OSError as error:
                self.wrong.append(f"{type(error).__name__}: {error}")
                s = None
        self.results.put((self.sent, self.wrong.first, self.wrong.count))

    def judge(self, found, right, data):
        if found != right:
            at = next((i for i, (a, b) in enumerate(zip(found, right)) if a != b), min(len(found), len(right)))
            self.wrong.append(f"reply {at} of {len(found)}: {found[at:at + 1]}, not {right[at:at + 1]}; {data[:60]!r}")

    def others(self):
        data, right = closing(self.rng)
        s = connect(self.port)
        s.sendall(data)
        self.sent += 1
        if right:
            found = read_statuses(s, 1)
            self.judge(found, [right], data)
        elif self.rng.random() < 0.5:  # leaves with a reset
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
        if self.rng.random() < 0.3:  # never asks
            self.idle.append(connect(self.port))
            self.sent += 1
            if len(self.idle) > 600:
                self.idle.pop(0).close()
        if self.rng.random() < 0.02:  # is long, and leaves
            s = connect(self.port)
            s.sendall(large(self.rng))
            s.close()
            self.sent += 1


def attack(port, seed, count, results):
    Attacker(port, seed, results).run(count)


def greedy(rng):
    """A request that takes all that it may, and whether its reply is left unread."""
    long_text, completions = "a" * rng.choice([1_000_000, 4_000_000]), "/v1/completions"
    path, body = rng.choice([
        (completions, {"prompt": "x", "n": 128, "llada": {"gen_length": "auto:1048576"}}),
        (completions, {"prompt": "x", "n": 128, "max_tokens": 200, "logprobs": 20}),
        (completions, {"prompt": [[5] * 250] * 128, "max_tokens": 0, "echo": True, "logprobs": 20}),
        (completions, {"prompt": "x", "n": 128, "stop": ["a" * 4096] * 16, "stream": True}),
        (completions, {"prompt": ["a"] * 500_000}),
        ("/v1/chat/completions", {**QUESTION, "n": 128, "max_tokens": 200, "stream": True, "diffusing": "frames"}),
        ("/v1/chat/completions", {**QUESTION, "n": 128, "logprobs": True, "top_logprobs": 20, "user": long_text}),
        ("/v1/responses", {"input": "x", "metadata": {"a": long_text}}),
        ("/infill", {"text": "a<mask:1>" * 10_000}),
        ("/infill", {"input_prefix": "x", "n_predict": 2**62, "stream": True, "diffusing": "frames"}),
        ("/tokenize", {"content": long_text}),
        ("/detokenize", {"tokens": [900] * 800_000}),
    ])
    return request("POST", path, json.dumps(body).encode()), rng.random() < 0.7


def take_greedily(port, seed, count, results, at_once=50):
    """Sends greedy requests, so many at once; what was left unread for some time is left altogether."""
    rng, statuses, wrong, open_ones = random.Random(seed), {}, Wrong(), []
    for _ in range(count):
        data, unread = greedy(rng)
        try:
            s = connect(port)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.sendall(data)
            if unread:
                open_ones.append(s)
            else:
                s.settimeout(5)  # an answer of 128 may take minutes; whoever asked for it need not wait
                found = STATUS.match(s.recv(64))
                status = int(found.group(1)) if found else 0
                statuses[status] = statuses.get(status, 0) + 1
                s.close()
        except socket.timeout:
            statuses["left"] = statuses.get("left", 0) + 1
            s.close()
        except OSError as error:  # refused while the body was still being sent
            name = type(error).__name__
            statuses[name] = statuses.get(name, 0) + 1
        if len(open_ones) > at_once:
            open_ones.pop(0).close()
    results.put((count, wrong.first, wrong.count, statuses))


def hostile_form(rng):
    """A request with a form that costs much for its size, never the same, or a long body."""
    n, word = rng.randrange(6, 14), "".join(rng.choice("abcdefgh") for _ in range(6))
    objects = rng.choice([3_000, 20_000, 100_000])
    schemas = [{"type": "string", "maxLength": 60_000 + rng.randrange(5000)},
               {"type": "array", "maxItems": 9_000 + rng.randrange(1000), "items": {"type": "array", "maxItems": 900}},
               {"anyOf": [{"type": "integer"}] * objects},
               {"type": "object", "properties": {f"{word}{i}": {"type": "integer"} for i in range(objects // 20)}},
               {"enum": [f"{word}{i}" for i in range(objects)]}]
    forms = [{"llada": {"regex": "[ -~]*%s[ -~]{%d}" % (word[0], n)}},
             {"llada": {"regex": "(.*%s){%d}.{%d}" % (word[0], n, n)}},
             {"llada": {"regex": "(%s)" % "|".join(word + str(i) for i in range(objects // 10))}},
             {"llada": {"regex": "((a|%s){1,99}){1,%d}" % (word[0], n)}},
             {"llada": {"choice": [f"{word} {i}" for i in range(objects // 4)]}},
             {"user": "a" * (30 * objects)},
             *({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}
               for schema in schemas)]
    body = {**QUESTION, "max_tokens": 120, **rng.choice(forms)}
    return request("POST", "/v1/chat/completions", json.dumps(body).encode())


def send_forms(port, seed, count, results, at_once=10):
    statuses, wrong, lock = {}, Wrong(), threading.Lock()

    def one(i):
        rng = random.Random(seed * 1000 + i)
        for _ in range(-(-count // at_once)):
            try:
                s = connect(port)
                s.sendall(hostile_form(rng))
                found = STATUS.match(s.recv(64))
                status = int(found.group(1)) if found else 0
                s.close()
            except socket.timeout:
                status = "left"
            except OSError as error:
                status = type(error).__name__
            with lock:
                statuses[status] = statuses.get(status, 0) + 1
                if status not in (200, 400, 429, 503, "left", "BrokenPipeError", "ConnectionResetError"):
                    wrong.append(f"a form: {status}")

    threads = [threading.Thread(target=one, args=(i,)) for i in range(at_once)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    results.put((count, wrong.first, wrong.count, statuses))


def answered(port, stop, results, clients, right):
    """Clients that ask and are answered, one after the other."""
    counts, wrong, times = [0] * clients, Wrong(), Times()

    def one(i):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        while not stop.is_set():
            begin = time.perf_counter()
            try:
                connection.request("POST", "/v1/chat/completions", json.dumps(QUESTION))
                reply = connection.getresponse()
                body = reply.read()
                # Those that leave without a word may fill the queue for a moment; memory has to be there.
                if reply.status in (429, 503) and b"out_of_memory" not in body:
                    time.sleep(0.1)
                    continue
                text = json.loads(body)["choices"][0]["message"]["content"] if reply.status == 200 else body.decode()
                if text != right:
                    wrong.append(f"status {reply.status}: {text[:100]}")
                counts[i] += 1
                times.add(time.perf_counter() - begin)
            except (OSError, http.client.HTTPException) as error:
                wrong.append(f"{type(error).__name__}: {error}")
                connection.close()

    threads = [threading.Thread(target=one, args=(i,)) for i in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    results.put((sum(counts), wrong.first, wrong.count, times))


def summary(times):
    return {"count": times.count, "p50_ms": times.at(0.5), "p99_ms": times.at(0.99), "p99.9_ms": times.at(0.999),
            "max_ms": round(1e3 * times.longest, 2)}


def health(port, stop, results, pause):
    """Times /health over a connection that is kept, and over one that is new, in turns."""
    times, wrong = Times(), Wrong()
    line = request("GET", "/health")
    keep = None
    while not stop.is_set():
        for fresh in (False, True):
            begin = time.perf_counter()
            try:
                s = connect(port) if fresh or keep is None else keep
                s.sendall(line)
                found = read_statuses(s, 1)
                times.add(time.perf_counter() - begin)
                if found != [200]:
                    wrong.append(f"status {found}")
                    s.close()
                    keep = None
                elif fresh:
                    s.close()
                else:
                    keep = s
            except OSError as error:
                wrong.append(f"{type(error).__name__}: {error}")
                keep = None
        time.sleep(pause)
    results.put((times, wrong.first, wrong.count))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, json.dumps(body) if body else None)
    reply = connection.getresponse()
    return reply.status, reply.read()


def peak(pid):
    found = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    return round(int(found.group(1)) / 1e3, 1)


def result(queue, server, log):
    """What a process reports, as long as the server lives."""
    while True:
        try:
            return queue.get(timeout=1)
        except Empty:
            if server.poll() is not None:
                log.seek(0)
                said = log.read()[-2000:].decode(errors="replace")
                sys.exit(f"the server ended with status {server.returncode}, and said: {said}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llada", default=str(ROOT / "build/release/bin/llada"))
    parser.add_argument("--model", default=str(ROOT / "models/tiny-llada"))
    parser.add_argument("--count", type=int, default=100_000, help="hostile requests")
    parser.add_argument("--processes", type=int, default=2, help="that send them")
    parser.add_argument("--clients", type=int, default=32, help="that are answered meanwhile")
    parser.add_argument("--pause", type=float, default=0.005, help="seconds between two looks at /health")
    parser.add_argument("--most-ms", type=float, default=100, help="milliseconds of /health, 99.9 %% of the time")
    parser.add_argument("--greedy", type=int, default=0, help="requests that ask for as much as they can")
    parser.add_argument("--forms", type=int, default=0, help="hostile forms and long bodies, ten at a time")
    parser.add_argument("--limit-mib", type=int, default=0, help="of the server's address space; 0: none")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("serve", nargs="*", help="options of llada serve, behind --")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)

    port = free_port()
    log = tempfile.TemporaryFile()
    limit = (args.limit_mib << 20,) * 2

    def bound():
        if args.limit_mib:
            resource.setrlimit(resource.RLIMIT_AS, limit)

    question = QUESTION["messages"][0]["content"]
    command = [args.llada, "run", "-m", args.model, "-p", question, "-n", str(QUESTION["max_tokens"]), "--json"]
    run = subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    right = json.loads(run.stdout)["text"]
    server = subprocess.Popen([args.llada, "serve", "-m", args.model, "--port", str(port), "--quiet", *args.serve],
                              stdout=log, stderr=log, preexec_fn=bound)
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                if ask(port, "GET", "/ready")[0] == 200:
                    break
            except OSError:
                pass
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit("the server did not become ready")
            time.sleep(0.05)
        stop = multiprocessing.Event()
        queues = [multiprocessing.Queue() for _ in range(3)]
        begin = time.monotonic()
        beside = [multiprocessing.Process(target=health, args=(port, stop, queues[0], args.pause)),
                  multiprocessing.Process(target=answered, args=(port, stop, queues[1], args.clients, right))]
        share = -(-args.count // args.processes)
        attackers = [multiprocessing.Process(target=attack, args=(port, args.seed * 1000 + i, share, queues[2]))
                     for i in range(args.processes)]
        if args.greedy:
            taking = (port, args.seed, args.greedy, queues[2])
            attackers.append(multiprocessing.Process(target=take_greedily, args=taking))
        if args.forms:
            sending = (port, args.seed, args.forms, queues[2])
            attackers.append(multiprocessing.Process(target=send_forms, args=sending))
        for process in beside + attackers:
            process.daemon = True  # ends with this one, where the server has ended
            process.start()
        attacks = [result(queues[2], server, log) for _ in attackers]
        seconds = time.monotonic() - begin
        stop.set()
        times, health_wrong, health_failed = queues[0].get()
        answers, answers_wrong, answers_failed, answer_times = queues[1].get()
        for process in beside + attackers:
            process.join()
        alive = server.poll() is None
        most = peak(server.pid) if alive else None
        server.send_signal(signal.SIGTERM)
        end = server.wait(timeout=60)
    finally:
        if server.poll() is None:
            server.kill()

    sent = sum(a[0] for a in attacks)
    wrong = [w for a in attacks for w in a[1]] + health_wrong + answers_wrong
    failed = sum(a[2] for a in attacks) + health_failed + answers_failed
    told = {str(k): v for a in attacks for k, v in (a[3] if len(a) > 3 else {}).items()}
    print(json.dumps({"hostile": sent, **({"told": told} if told else {}), "seconds": round(seconds, 1),
                      "per_second": round(sent / seconds),
                      "health": summary(times), "answer": summary(answer_times), "answers": answers,
                      "wrong": failed, "alive": alive, "exit_status": end,
                      "most_memory_mb": most}))
    for line in wrong[:20]:
        print("wrong:", line)
    if failed or not alive or end != 0 or (args.clients and not answers) or times.at(0.999) > args.most_ms:
        log.seek(0)
        sys.stderr.write(log.read().decode(errors="replace")[-2000:])
        sys.exit(1)


if __name__ == "__main__":
    main()
