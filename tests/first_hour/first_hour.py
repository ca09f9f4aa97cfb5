#!/usr/bin/env python3
"""The first hour of somebody who pastes what README.md says.

    tests/first_hour/first_hour.py            # after `make demo`: pastes README.md, compares
    tests/first_hour/first_hour.py --update   # writes down what the screen shows now
    tests/first_hour/first_hour.py --list     # the lines that would be pasted

Every line of its indented blocks is pasted, in order, into one shell in a pseudo-terminal of 80 columns and
24 rows, in a folder that shows the repository's files (links) and has a build/models of its own, so that nothing of the
user's is written to. What the screen shows is compared with the recorded text beside this file.
Numbers with a fraction, sizes and names of the machine are masked, and where a line wrapped does not matter: what stays
are answers, counts, messages and statuses. The hub of the models is a stand-in on this machine: it has the shipped
model under every name, so downloads, conversions and conversations run to their end. Home is an empty folder.

Exit status: 0 as recorded, 1 something differs or a command failed, 2 cannot run here, 77 no pseudo-terminal or no
python3-pyte (skipped).
"""
import argparse
import difflib
import fcntl
import hashlib
import http.server
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

try:
    import pyte
except ImportError:
    print("first_hour: SKIPPED, python3-pyte is not installed")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
LLADA = ROOT / "build" / "release" / "bin" / "llada"
HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = "README.md"
COLUMNS, ROWS = 80, 24
PROMPT = "first-hour$ "

# Not pasted, and why.
LEFT_OUT = {
    r"^make test\b": "runs this",
    r"^make demo\b": "ran before this: its build is what the other lines use",
    r"^make install\b": "writes outside the repository",
    r"^(sudo|apt|pip|git clone)\b": "changes the machine",
    r"^llada run tiny-llada\b": "of an installed release: tools/test_install.sh and tools/test_release.sh run it",
}

# What is typed into a command that asks: (text to wait for, keys).
CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\r"
TYPED = {
    r"^llada chat\b|^llada [^ ]*\.gguf$|--chat\b": [
        ("> ", "Sort the numbers from smallest to largest: 38 41 6 51 3" + ENTER),
        ("tokens", "/exit" + ENTER),
    ],
    r"^llada serve\b": [(" is ready at ", CTRL_C)],
}

# Put behind a command: a port that nobody has.
ADDED = {r"^llada serve\b": " --port 0"}

# What differs from machine to machine and from run to run: pattern, what stands for it.
MASKS = [
    (r"127\.0\.0\.1:\d+( and http://\[::1\]:\d+)?", "<address>"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>"),
    (r"-?\b\d+\.\d+(e-?\d+)?", "#"),
    (r"(?<![\w.#])\d+(?= ?(ms|s|min|h|tokens/s|rows/s|GB/s|MB/s|kB/s|GB|MB|kB|B)\b)", "#"),
    (r'("(peak_memory_bytes|seconds|device)": ?)("[^"]*"|\d+)', r"\1#"),
    (r"\b[0-9a-f]{40}\b", "<commit>"),
    (r"/tmp/first_hour[^ /]*", "<home>"),
]
# Tells what this machine has; whether it does is seen by the status.
MACHINE = "llada devices"

# The small model knows nothing of this, so its answer hangs on the last bits of sums, which processors round in different
# ways: that there is one is compared.
UNKNOWN = "Why is the sky blue"


def commands():
    """The lines of the indented blocks, without those that are left out."""
    out, before = [], ""
    for line in (ROOT / DOCUMENT).read_text().splitlines():
        if line.startswith("    ") and (before == "" or before.startswith("    ")):
            command = line[4:].split("   #")[0].rstrip()
            if command and not command.startswith("#") and not any(re.search(p, command) for p in LEFT_OUT):
                out.append(command)
        before = line
    return out


class Hub(http.server.BaseHTTPRequestHandler):
    """Every repository holds the shipped model's folder; NAME-GGUF holds it as one GGUF file."""

    folder = ROOT / "models" / "tiny-llada"
    gguf = None  # set by run()
    commit = "0123456789abcdef0123456789abcdef01234567"

    def files(self, name):
        if name.endswith("-GGUF"):
            return {name.removesuffix("-GGUF") + "-Q8_0.gguf": self.gguf}
        return {p.name: p for p in self.folder.iterdir() if p.suffix in (".json", ".safetensors")}

    def answer(self, body):
        api = re.fullmatch(r"/api/models/[^/]+/([^/]+)/revision/[^/?]+(\?.*)?", self.path)
        file = re.fullmatch(r"/[^/]+/([^/]+)/resolve/[^/]+/([^/?]+)", self.path)
        if api:
            siblings = [{"rfilename": name} for name in sorted(self.files(api[1]))]
            data, headers = json.dumps({"sha": self.commit, "siblings": siblings}).encode(), {}
        elif file and file[2] in self.files(file[1]):
            data = self.files(file[1])[file[2]].read_bytes()
            digest = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            if not file[2].endswith(".json"):
                digest = hashlib.sha256(data).hexdigest()
            headers = {"ETag": f'"{digest}"', "X-Repo-Commit": self.commit, "Accept-Ranges": "bytes"}
            if not file[2].endswith(".json"):
                headers |= {"X-Linked-ETag": f'"{digest}"', "X-Linked-Size": str(len(data))}
        else:
            self.send_error(404)
            return
        begin = 0
        if wanted := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            begin = int(wanted[1])
            headers["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        self.send_response(206 if wanted else 200)
        for key, value in {**headers, "Content-Length": str(len(data) - begin)}.items():
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.wfile.write(data[begin:])

    def do_GET(self):
        self.answer(True)

    def do_HEAD(self):
        self.answer(False)

    def log_message(self, *_):
        pass


class Terminal:
    """A shell in a pseudo-terminal, and the screen that a person would see, with all that has scrolled off."""

    def __init__(self, folder, environment):
        self.screen = pyte.HistoryScreen(COLUMNS, ROWS, history=10_000, ratio=1.0)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 1 << 16)
        except OSError:
            return False
        self.raw += data
        self.stream.feed(data)
        return bool(data)

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def all_lines(self):
        def text(line):
            return "".join(line[x].data for x in range(COLUMNS)).rstrip()
        return [text(line) for line in self.screen.history.top] + [line.rstrip() for line in self.screen.display]

    def wait(self, done, seconds):
        """Until done() holds on a screen that has not changed for a moment."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            changed = self.read(0.3)
            if not changed and done():
                return True
        return False

    def at_prompt(self):
        return self.screen.display[self.screen.cursor.y].rstrip() == PROMPT.rstrip()

    def paste(self, command, limit):
        """What the screen shows from the command on, and whether it came back to the prompt."""
        begin = len(self.all_lines()) - ROWS + self.screen.cursor.y
        self.type(command + "\n")
        for text, keys in next((steps for p, steps in TYPED.items() if re.search(p, command)), []):
            mark = len(self.raw)
            if not self.wait(lambda: text.encode() in self.raw[mark:], limit):
                break
            self.type(keys)
        back = self.wait(self.at_prompt, limit)
        if not back:
            self.type(CTRL_C)
            self.wait(self.at_prompt, 10)
        lines = self.all_lines()
        end = len(lines) - ROWS + self.screen.cursor.y
        return lines[begin:end], back

    def status(self):
        self.type("echo status $?\n")
        self.wait(self.at_prompt, 20)
        found = re.findall(r"^status (\d+)$", "\n".join(self.all_lines()), re.M)
        return int(found[-1]) if found else -1

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def unwrapped(lines):
    """Lines as they were printed: one that fills the screen's width goes on in the next."""
    out, going_on = [], False
    for line in lines:
        if going_on:
            out[-1] += line
        else:
            out.append(line)
        going_on = len(line) >= COLUMNS - 1
    return out


def added(command):
    return command + next((more for p, more in ADDED.items() if re.search(p, command)), "")


def masked(line, cpu):
    line = line.replace(cpu, "<cpu>")
    for pattern, stands in MASKS:
        line = re.sub(pattern, stands, line)
    return line.rstrip()


def same(line):
    """What is compared: columns move with the width of what is masked."""
    return re.sub(r"\s+", "", line)


def make_checkout(folder):
    """The repository as it is after `make demo`: its files, its program, and models of its own."""
    for path in ROOT.iterdir():
        if path.name not in ("build", ".git"):
            (folder / path.name).symlink_to(path)
    models = folder / "build" / "models"
    models.mkdir(parents=True)
    (folder / "build" / "release").symlink_to(ROOT / "build" / "release")
    for kind in ("f16", "q8_0", "q4_0"):
        out = models / f"tiny-llada-{kind}.gguf"
        subprocess.run([LLADA, "convert", Hub.folder, out, "--type", kind], check=True, capture_output=True)
    Hub.gguf = models / "tiny-llada-q8_0.gguf"


def run(limit):
    """The lines of the record, and the commands that failed."""
    record, failures = [], []
    devices = subprocess.run([LLADA, "devices", "--json"], check=True, capture_output=True, text=True).stdout
    cpu = next(d["description"] for d in json.loads(devices)["devices"] if d["name"] == "cpu")
    hub = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="first_hour_") as home, \
            tempfile.TemporaryDirectory(prefix="first_hour_checkout_") as checkout:
        make_checkout(pathlib.Path(checkout))
        environment = {
            "HOME": home, "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8", "PS1": PROMPT,
            "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "BASH_SILENCE_DEPRECATION_WARNING": "1",
        }
        terminal = Terminal(checkout, environment)
        terminal.wait(terminal.at_prompt, 20)
        for command in commands():
            shown, back = terminal.paste(added(command), limit)
            status = terminal.status() if back else "none: it did not end"
            print(f"{command}: status {status}", flush=True)
            if status != 0:
                failures.append(f"{command}: status {status}")
            printed = [line for line in unwrapped(shown)[1:] if line and command != MACHINE]
            if UNKNOWN in command and printed:
                printed = ["<an answer>"]
            record += [f"== {command}", *(masked(line, cpu) for line in printed), f"-- status {status}"]
        terminal.close()
    hub.shutdown()
    return record, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write down what the screen shows now")
    parser.add_argument("--list", action="store_true", help="the lines that would be pasted")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a command may take (300)")
    arguments = parser.parse_args()
    if arguments.list:
        print(*commands(), sep="\n")
        return 0
    if not LLADA.exists():
        print(f"first_hour: {LLADA}: missing; run make demo first", file=sys.stderr)
        return 2
    try:
        for descriptor in pty.openpty():
            os.close(descriptor)
    except OSError:
        print("first_hour: SKIPPED, no pseudo-terminal here")
        return 77
    record, failures = run(arguments.limit)
    path = HERE / (DOCUMENT + ".txt")
    recorded = path.read_text().splitlines() if path.exists() else []
    if arguments.update:
        path.write_text("\n".join(record) + "\n")
    elif [same(line) for line in recorded] != [same(line) for line in record]:
        name = str(path.relative_to(ROOT))
        failures.append("\n".join(difflib.unified_diff(recorded, record, name, "now", lineterm="")))
    print(*failures, sep="\n")
    print(f"first_hour: {len(commands())} commands, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
