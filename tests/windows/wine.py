"""What the tests under wine stand on: both programs, files to give them, a hub, a console."""
import contextlib
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
import ssl
import struct
import subprocess
import tempfile
import termios
import threading
import time
import unittest

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


class Case(unittest.TestCase):
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

    def __init__(self, files, tls=None):
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
        self.port = self.server.server_address[1]
        self.address = f"http://127.0.0.1:{self.port}"
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
            self.address = f"https://localhost:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Authority:
    """One that nobody trusts until trusted() has wine do so, and a server's certificate of it for the name localhost."""

    def __init__(self, folder):
        authority, server = folder / "authority.pem", folder / "server.pem"
        made = ("-newkey", "rsa:2048", "-nodes", "-x509", "-days", "2")
        self.openssl("req", *made, "-keyout", folder / "authority.key", "-out", authority, "-subj", "/CN=llada tests",
                     "-addext", "keyUsage=critical,keyCertSign")
        self.openssl("req", *made, "-keyout", folder / "server.key", "-out", server, "-subj", "/CN=localhost",
                     "-CA", authority, "-CAkey", folder / "authority.key", "-addext", "subjectAltName=DNS:localhost",
                     "-addext", "basicConstraints=critical,CA:FALSE")
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(server, folder / "server.key")
        self.certificate = ssl.PEM_cert_to_DER_cert(authority.read_text())

    @staticmethod
    def openssl(*words):
        done = subprocess.run(["openssl", *map(str, words)], capture_output=True)
        assert done.returncode == 0, done.stderr.decode()

    @contextlib.contextmanager
    def trusted(self):
        # A certificate in the registry is a list of its properties: their numbers, 1, their sizes, their bytes.
        mark, size = hashlib.sha1(self.certificate), len(self.certificate)
        blob = struct.pack("<III", 3, 1, 20) + mark.digest() + struct.pack("<III", 32, 1, size) + self.certificate
        key = rf"HKCU\Software\Microsoft\SystemCertificates\Root\Certificates\{mark.hexdigest().upper()}"
        registry = [WINE[0], "reg"]
        subprocess.run([*registry, "add", key, "/v", "Blob", "/t", "REG_BINARY", "/d", blob.hex(), "/f"],
                       check=True, capture_output=True)
        try:
            yield
        finally:
            subprocess.run([*registry, "delete", key, "/f"], check=True, capture_output=True)


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
