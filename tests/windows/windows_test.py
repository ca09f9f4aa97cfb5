"""llada.exe and llada.dll under wine, beside the program of this machine: the same answers and the same files, and what
Windows does in its own way. tools/test_windows.sh runs it.

Wine is no Windows: its consoles are this machine's terminals, its files this machine's. Not shown here: how Windows'
own console draws, its file system's locks against other programs, its virus scanners, its certificates, its paging.
"""
import fcntl
import hashlib
import http.server
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = [str(ROOT / "build/release/bin/llada")]
WINE = [os.environ.get("LLADA_WINE", "wine"), str(ROOT / "build/windows/bin/llada.exe")]
TINY = str(ROOT / "models/tiny-llada")
PROMPT = "Sort the numbers from smallest to largest: 38 41 6 51 3"
ANSWER = "3 6 38 41 51"


def run(program, *words, text="", **more):
    return subprocess.run([*program, *words], input=text.encode(), capture_output=True, timeout=300, **more)


def until(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds} seconds for {what}")


class Windows(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="llada_windows_"))
        self.addCleanup(shutil.rmtree, self.folder)

    def ok(self, result):
        self.assertEqual(result.returncode, 0, result.stderr.decode(errors="replace"))
        return result.stdout.decode()

    def answers(self, program, model=TINY, *words, env=None):
        found = json.loads(self.ok(run(program, "run", "-m", str(model), PROMPT, "--json", *words, env=env)))
        return {"text": found["text"], "tokens": found["tokens"], "hash": found["stats"]["canvas_hash"],
                "set": found["stats"]["device"].split(", ")[1], "room": found["stats"]["peak_memory_bytes"] > 0}

    def test_is_a_program_of_windows(self):
        self.assertEqual(pathlib.Path(WINE[1]).read_bytes()[:2], b"MZ")
        self.assertEqual(self.ok(run(WINE, "--help")), self.ok(run(HERE, "--help")).replace("\r\n", "\n"))
        refused = run(WINE, "run", "-m", "C:\\no\\such\\model", "x")
        self.assertNotEqual(refused.returncode, 0)
        self.assertEqual(len(refused.stderr.decode().splitlines()), 1)
        self.assertIn("C:\\no\\such\\model", refused.stderr.decode())

    def test_answers_are_those_of_this_machine(self):
        for model in ("tiny-llada", "tiny-llada-moe"):
            for more in ({}, {"LLADA_ISA": "scalar"}):
                env = {**os.environ, **more}
                with self.subTest(model=model, **more):
                    path = ROOT / "models" / model
                    self.assertEqual(self.answers(WINE, path, env=env), self.answers(HERE, path, env=env))
        self.assertEqual(self.answers(WINE, TINY, "-t", "3")["text"], ANSWER)

    def test_paths_and_words_of_any_script(self):
        model = self.folder / "modèle 模型 Ω"
        shutil.copytree(TINY, model)
        self.assertEqual(self.answers(WINE, model)["text"], ANSWER)
        prompt = self.folder / "frage-ä.txt"
        prompt.write_text(PROMPT)
        self.assertEqual(self.ok(run(WINE, "run", "-m", str(model), "-f", str(prompt), "-q")).strip(), ANSWER)
        refused = run(WINE, "run", "-m", str(self.folder / "Straße"), "x")
        self.assertIn("Straße", refused.stderr.decode())
        here, there = (json.loads(self.ok(run(p, "run", "-m", TINY, "naïve 模型 🙂", "--json", "-n", "32")))
                       for p in (HERE, WINE))
        self.assertEqual((here["tokens"], here["stats"]["prompt_tokens"]),
                         (there["tokens"], there["stats"]["prompt_tokens"]))

    def test_the_shipped_model_lies_beside_the_programs_folder(self):
        tree = self.folder / "程序 ü"
        (tree / "bin").mkdir(parents=True)
        shutil.copy(WINE[1], tree / "bin")
        program = [WINE[0], str(tree / "bin/llada.exe")]
        missing = run(program, "run", "tiny-llada", PROMPT, "-q")
        self.assertNotEqual(missing.returncode, 0)
        self.assertIn("程序 ü", missing.stderr.decode())
        (tree / "share/llada").mkdir(parents=True)
        self.ok(run(HERE, "convert", TINY, str(tree / "share/llada/tiny-llada.gguf"), "--type", "q4_0"))
        self.assertEqual(self.ok(run(program, "run", "tiny-llada", PROMPT, "-q")).strip(), ANSWER)

    def test_converted_files_are_the_same_bytes(self):
        for kind in ("f16", "q8_0", "q4_0"):
            here, there = self.folder / f"here-{kind}.gguf", self.folder / f"there-ü-{kind}.gguf"
            self.ok(run(HERE, "convert", TINY, str(here), "--type", kind))
            self.ok(run(WINE, "convert", TINY, str(there), "--type", kind))
            self.assertEqual(hashlib.sha256(here.read_bytes()).digest(), hashlib.sha256(there.read_bytes()).digest())
            # Again: over the file, which was complete at any time.
            self.ok(run(WINE, "convert", TINY, str(there), "--type", kind))
        self.assertEqual(sorted(p.suffix for p in self.folder.iterdir()), [".gguf"] * 6, "no rest of a file is left")
        self.assertEqual(self.answers(WINE, there), self.answers(HERE, here))

    def test_a_file_over_4_gib_is_mapped(self):
        small, large = self.folder / "small.gguf", self.folder / "large.gguf"
        self.ok(run(HERE, "convert", TINY, str(small), "--type", "q8_0"))
        spread(small, large, 5 << 30)
        self.assertGreater(large.stat().st_size, 5 << 30)
        self.assertEqual(self.answers(WINE, large), self.answers(HERE, small))

    def requests(self, count):
        path = self.folder / "in.jsonl"
        with path.open("w") as file:
            for i in range(count):
                file.write(json.dumps({"custom_id": f"id-{i}", "method": "POST", "url": "/v1/chat/completions",
                                       "body": {"messages": [{"role": "user", "content": f"Count to {i}"}],
                                                "max_tokens": 8}}) + "\n")
        return path

    @staticmethod
    def lines(path):
        found = {}
        for line in path.read_text().splitlines():
            answer = json.loads(line)
            choice = answer["response"]["body"]["choices"][0]["message"]["content"]
            assert answer["custom_id"] not in found, "answered twice"
            found[answer["custom_id"]] = choice
        return found

    def test_a_batch_that_is_killed_goes_on(self):
        source, here, there = self.requests(60), self.folder / "here.jsonl", self.folder / "there.jsonl"
        self.ok(run(HERE, "batch", TINY, str(source), str(here), "-q"))
        kills = 0
        for _ in range(3):
            before = there.stat().st_size if there.exists() else 0
            process = subprocess.Popen([*WINE, "batch", TINY, str(source), str(there), "-q"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            until("answers", lambda: process.poll() is not None or
                  (there.exists() and there.stat().st_size > before + 2000))
            kills += process.poll() is None
            process.kill()
            process.wait()
            with there.open("ab") as file:  # as a kill in the middle of a line leaves it
                file.write(b'{"id":"batch_req_torn')
        self.assertGreater(kills, 0, "it ended before it could be killed")
        self.ok(run(WINE, "batch", TINY, str(source), str(there), "-q"))
        self.assertEqual(self.lines(there), self.lines(here))

    def test_one_process_at_a_time_writes_answers(self):
        out = self.folder / "out.jsonl"
        first = subprocess.Popen([*WINE, "batch", TINY, "-", str(out), "-q"], stdin=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(first.wait)
        first.stdin.write(self.requests(1).read_bytes())
        first.stdin.flush()
        until("the first answer", lambda: out.exists() and out.stat().st_size > 0)
        second = run(WINE, "batch", TINY, str(self.folder / "in.jsonl"), str(out), "-q")
        self.assertIn("another process writes answers to it", second.stderr.decode())
        first.stdin.close()
        self.assertEqual(first.wait(60), 0)
        self.assertEqual(list(self.lines(out)), ["id-0"])

    def serve(self, *words):
        process = subprocess.Popen([*WINE, "serve", TINY, "--port", "0", *words], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        said = []
        threading.Thread(target=lambda: said.extend(iter(process.stdout.readline, b"")), daemon=True).start()
        address = until("the address", lambda: re.search(rb"http://(127\.0\.0\.1|localhost):(\d+)", b"".join(said)))
        return process, f"http://127.0.0.1:{address[2].decode()}", said

    def test_the_server_answers_and_ends(self):
        process, address, said = self.serve()
        with urllib.request.urlopen(address + "/", timeout=60) as reply:
            page = reply.read()
            self.assertIn("text/html", reply.headers["Content-Type"])
        self.assertIn(b"<title>", page)
        body = json.dumps({"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 32, "stream": True})
        for _ in range(2):
            with urllib.request.urlopen(urllib.request.Request(
                    address + "/v1/chat/completions", body.encode(), {"Content-Type": "application/json"}),
                    timeout=60) as reply:
                text = "".join(json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
                               for line in reply.read().decode().splitlines() if line.startswith("data: {"))
            self.assertEqual(text, ANSWER)
        clients = [threading.Thread(target=lambda: urllib.request.urlopen(address + "/health", timeout=60).read())
                   for _ in range(8)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        process.send_signal(signal.SIGINT)  # wine makes a Ctrl-C of it
        self.assertEqual(process.wait(60), 0, b"".join(said).decode(errors="replace"))

    def test_files_and_batches_of_the_server_outlive_it(self):
        kept = self.folder / "kept"
        process, address, _ = self.serve("--store", str(kept))
        boundary = "x" * 20
        form = (f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
                f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="ü.jsonl"\r\n\r\n'
                f"{self.requests(2).read_text()}\r\n--{boundary}--\r\n")
        with urllib.request.urlopen(urllib.request.Request(
                address + "/v1/files", form.encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"}),
                timeout=60) as reply:
            file = json.load(reply)["id"]
        process.kill()
        process.wait()
        _, address, _ = self.serve("--store", str(kept))
        with urllib.request.urlopen(f"{address}/v1/files/{file}/content", timeout=60) as reply:
            self.assertEqual(reply.read().decode().strip(), (self.folder / "in.jsonl").read_text().strip())

    def test_pull_takes_a_model_and_goes_on_where_it_was(self):
        hub = Hub({path.name: path.read_bytes() for path in pathlib.Path(TINY).iterdir() if path.name != "golden.json"})
        self.addCleanup(hub.close)
        env = {key: text for key, text in os.environ.items()
               if key not in ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE")}
        env |= {"HF_ENDPOINT": hub.address, "HF_HOME": str(self.folder / "hub-ö")}
        hub.cut = 100_000  # the first connection breaks off
        path = self.ok(run(WINE, "pull", "someone/tiny", env=env)).splitlines()[-1]
        self.assertGreater(hub.ranges, 0, "the rest of the file was asked for")
        self.assertIn("hub-ö", path)
        found = self.ok(run(WINE, "run", "-hf", "someone/tiny", PROMPT, "-q", env={**env, "HF_HUB_OFFLINE": "1"}))
        self.assertEqual(found.strip(), ANSWER)
        hub.damage = True
        refused = run(WINE, "pull", "someone/tiny", env={**env, "HF_HOME": str(self.folder / "other")})
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("checksum", refused.stderr.decode())

    def test_a_conversation_in_a_console(self):
        console = Console([*WINE, "chat", TINY, "--no-live"])
        self.addCleanup(console.close)
        console.type(PROMPT + "\r")
        console.wait_for(ANSWER)
        console.type("/reset\r")
        console.type("\x03")  # nothing was typed: it stays, and says how to leave
        console.type(PROMPT + "\r")
        console.wait_for(ANSWER)
        console.type("/exit\r")
        self.assertEqual(console.process.wait(30), 0, console.text())

    def test_ctrl_c_ends_a_run_between_two_steps(self):
        process = subprocess.Popen([*WINE, "run", "-m", TINY + "-long", PROMPT, "-n", "400", "--steps", "400",
                                    "--block-length", "400", "--preset-decode", "exact", "--early-stop", "none",
                                    "--no-live"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, (out, error))

    def test_a_program_that_loads_the_library(self):
        program = self.folder / "generate.exe"
        built = ROOT / "build/windows"
        shutil.copy(built / "bin/llada.dll", self.folder)
        subprocess.run(["x86_64-w64-mingw32-gcc-posix", "-Wall", "-Werror", f"-I{ROOT}/include",
                        str(ROOT / "examples/generate.c"), str(built / "src/api/libllada.dll.a"), "-o", str(program)],
                       check=True)
        found = self.ok(run([WINE[0], str(program)], TINY, PROMPT))
        self.assertIn(ANSWER, found)


def spread(source, target, gap):
    """A GGUF file whose tensors lie behind `gap` bytes of nothing: sparse, so that it takes no room on the disk."""
    data = source.read_bytes()
    at = 24
    tensors, pairs = struct.unpack_from("<QQ", data, 8)
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def text(at):
        return at + 8 + struct.unpack_from("<Q", data, at)[0]

    def value(kind, at):
        if kind == 8:
            return text(at)
        if kind != 9:
            return at + sizes[kind]
        kind, count = struct.unpack_from("<IQ", data, at)
        at += 12
        if kind in sizes:
            return at + count * sizes[kind]
        for _ in range(count):
            at = value(kind, at)
        return at

    alignment = 32
    for _ in range(pairs):
        end = text(at)
        kind = struct.unpack_from("<I", data, end)[0]
        if data[at + 8:end] == b"general.alignment":
            alignment = struct.unpack_from("<I", data, end + 4)[0]
        at = value(kind, end + 4)
    head = bytearray(data)
    for _ in range(tensors):
        at = text(at)
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 4
        struct.pack_into("<Q", head, at, struct.unpack_from("<Q", data, at)[0] + gap)
        at += 8
    begin = (at + alignment - 1) // alignment * alignment
    with target.open("wb") as file:
        file.write(head[:begin])
        file.seek(begin + gap)
        file.write(data[begin:])


class Hub:
    """Answers as a hub does for one repository: a listing, heads with checksums, files and parts of them."""

    commit = "0123456789abcdef0123456789abcdef01234567"

    def __init__(self, files):
        self.files, self.cut, self.ranges, self.damage = files, 0, 0, False
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self.reply(False)

            def do_GET(self):
                self.reply(True)

            def reply(self, with_body):
                if self.path.startswith("/api/models/someone/tiny/revision/main"):
                    body = json.dumps({"sha": hub.commit, "siblings": [
                        {"rfilename": name, "size": len(content)} for name, content in hub.files.items()]}).encode()
                    return self.send(200, body, {}, with_body)
                name = self.path.removeprefix(f"/someone/tiny/resolve/{hub.commit}/")
                if name not in hub.files:
                    return self.send(404, b"not here", {"X-Error-Code": "EntryNotFound"}, with_body)
                content = hub.files[name]
                headers = {"ETag": '"' + hashlib.sha256(content).hexdigest() + '"', "X-Repo-Commit": hub.commit}
                if hub.damage:
                    content = bytes([content[0] ^ 1]) + content[1:]
                if asked := re.match(r"bytes=(\d+)-", self.headers.get("Range", "")):
                    hub.ranges += 1
                    begin = int(asked[1])
                    headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
                    return self.send(206, content[begin:], headers, with_body)
                return self.send(200, content, headers, with_body)

            def send(self, status, body, headers, with_body):
                self.send_response(status)
                for key, text in headers.items():
                    self.send_header(key, text)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if not with_body:
                    return
                if hub.cut and len(body) > hub.cut:
                    self.wfile.write(body[:hub.cut])
                    hub.cut = 0
                    self.close_connection = True
                    return
                self.wfile.write(body)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Console:
    """A terminal, which wine makes a console of."""

    def __init__(self, words):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.seen, self.read_to = b"", 0

    def text(self):
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.seen.decode(errors="replace"))

    def take(self):
        while select.select([self.master], [], [], 0.05)[0]:
            try:
                piece = os.read(self.master, 65536)
            except OSError:
                return
            if not piece:
                return
            self.seen += piece

    def wait_for(self, text, seconds=90):
        def there():
            self.take()
            at = self.text().find(text, self.read_to)
            if at >= 0:
                self.read_to = at + len(text)
            return at >= 0

        try:
            until(f"'{text}'", there, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; the console shows {self.text()!r}") from None

    def type(self, keys):
        time.sleep(1)
        self.take()
        os.write(self.master, keys.encode())

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=sys.argv)
