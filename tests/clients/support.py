"""A server for the tests of this folder, which are clients of it: one `llada serve` of the tiny model per test program.

LLADA names the program, LLADA_MODEL the model (made with `llada convert` where it is not set)."""

import atexit
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
LLADA = os.environ.get("LLADA", str(ROOT / "build/release/bin/llada"))
NAME = "tiny-llada"
# The options of every request and command line here: answers of the two are then comparable.
OPTIONS = {"preset": "balanced"}
OPTION_FLAGS = ["--preset-decode", "balanced"]
LENGTH = 128


def model():
    path = os.environ.get("LLADA_MODEL")
    if path:
        return path
    made = ROOT / "build/clients-model/tiny-llada.gguf"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([LLADA, "convert", str(ROOT / "models/tiny-llada"), str(made), "--type", "f16"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return str(made)


def long_model():
    """The trained model for longer texts with room for what agents write before a question."""
    folder = ROOT / "build/clients-model/tiny-llada-16k"
    if not (folder / "config.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for source in (ROOT / "models/tiny-llada-long").iterdir():
            if source.name != "config.json":
                shutil.copy(source, folder)
        config = json.loads((ROOT / "models/tiny-llada-long/config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "max_sequence_length": 16384}))
    return str(folder)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """`llada serve` on a free port, ready when the constructor returns; stop() ends it and gives its exit status."""

    def __init__(self, *options, port=None, path=None):
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [LLADA, "serve", "-m", path or model(), "--port", str(self.port), *options]
        self.log = open(ROOT / "build" / f"clients-server-{self.port}.log", "w+b")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        atexit.register(self.stop)
        deadline = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(self.url + "/ready", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the server did not become ready: " + self.said()) from None
                time.sleep(0.05)

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def stop(self):
        atexit.unregister(self.stop)
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self.log.close()
            os.unlink(self.log.name)


_shared = None


def server():
    """The one that all tests share, without keys."""
    global _shared
    if _shared is None:
        _shared = Server()
    return _shared


def get(path, url=None):
    with urllib.request.urlopen((url or server().url) + path, timeout=30) as answer:
        return answer.read().decode()


def metric(name, url=None):
    """A counter or gauge of /metrics without labels."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", get("/metrics", url), re.M)
    if not found:
        raise AssertionError(f"/metrics has no {name}")
    return float(found.group(1))


def run(prompt, *flags, length=LENGTH, preset=OPTIONS["preset"]):
    """What the command line answers: its JSON."""
    done = subprocess.run([LLADA, "run", "-m", model(), "-p", prompt, "-n", str(length), "--preset-decode", preset,
                           *flags, "--json"], check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return json.loads(done.stdout)


def examples(task, count):
    """The first examples of a task, as `llada eval --limit` takes them."""
    lines = (json.loads(line) for line in open(ROOT / "eval/eval_public.jsonl", encoding="utf-8"))
    found = [example for example in lines if example["task"] == task]
    return found[:count]
