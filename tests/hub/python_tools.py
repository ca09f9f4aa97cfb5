#!/usr/bin/env python3
"""llada pull and Hugging Face's Python package on one cache folder, against one server.

    python_tools.py --llada build/release/bin/llada

The server below answers what both ask for: the list of files, small files from itself, large ones (Git LFS) by a
redirect to another port. Each tool fills a cache of its own; the two folders must be the same, file by file and link by
link, and each tool must find in the other's what it would have downloaded, without asking for a byte again.
Ends with 3 where the package is missing.
"""
import argparse
import hashlib
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

COMMIT = "8f1d6a0b4c2e9f7a5d3b1c0e8a6f4d2b0c9e7a51"
NAME = "some-org/tiny.model-1"
SHIPPED = pathlib.Path(__file__).parents[2] / "models/tiny-llada"  # whose small files say that it can be opened
FILES = {  # path: (bytes, whether Git LFS keeps it)
    "config.json": ((SHIPPED / "config.json").read_bytes(), False),
    "tokenizer.json": ((SHIPPED / "tokenizer.json").read_bytes(), False),
    "sub folder/notes.txt": ("a name with a space, text with \u00e9\n".encode(), False),
    "model-00001-of-00002.safetensors": (bytes(range(256)) * 4000, True),
    "model-00002-of-00002.safetensors": (bytes(reversed(range(256))) * 300, True),
    "model.safetensors.index.json": (b'{"weight_map": {}}', False),
}
TOKEN = "hf_" + "A1b2" * 8


def etag(content, lfs):
    if lfs:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def large(content, lfs, key):
    return {"lfs": {key: etag(content, True), "size": len(content), "pointerSize": 134}} if lfs else {}


class Hub:
    """Two ports of 127.0.0.1: the hub, and the host of large files. What was asked of the first is kept, and how many
    bytes the second sent."""

    def __init__(self):
        self.asked, self.served_elsewhere, self.tokens = [], 0, set()
        self.elsewhere = self.start(self.answer_elsewhere)
        self.hub = self.start(self.answer)
        self.endpoint = f"http://127.0.0.1:{self.hub.server_address[1]}"

    def start(self, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                answer(self, self.path)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def send(self, to, status, headers, body):
        begin = to.headers.get("Range")
        if status == 200 and begin:
            first = int(begin.removeprefix("bytes=").split("-")[0])
            headers = {**headers, "Content-Range": f"bytes {first}-{len(body) - 1}/{len(body)}"}
            status, body = 206, body[first:]
        to.send_response(status)
        for name, value in headers.items():
            to.send_header(name, value)
        to.send_header("Content-Length", str(len(body)))
        to.end_headers()
        if to.command == "GET":
            to.wfile.write(body)
            self.served_elsewhere += len(body) if to.server is self.elsewhere else 0

    def answer(self, to, path):
        path = urllib.parse.unquote(path.split("?")[0])
        self.asked.append(f"{to.command} {path}")
        self.tokens.add(to.headers.get("Authorization"))
        if path in (f"/api/models/{NAME}/revision/main", f"/api/models/{NAME}/revision/{COMMIT}"):
            siblings = [{"rfilename": name, "size": len(content), "blobId": etag(content, False),
                         **large(content, lfs, "sha256")} for name, (content, lfs) in FILES.items()]
            body = json.dumps({"_id": "0", "id": NAME, "modelId": NAME, "sha": COMMIT, "private": False, "tags": [],
                               "downloads": 0, "likes": 0, "siblings": siblings}).encode()
            return self.send(to, 200, {"Content-Type": "application/json"}, body)
        if path in (f"/api/models/{NAME}/tree/main", f"/api/models/{NAME}/tree/{COMMIT}"):  # newer packages ask this
            entries = [{"type": "file", "path": name, "size": len(content), "oid": etag(content, False),
                        **large(content, lfs, "oid")} for name, (content, lfs) in FILES.items()]
            return self.send(to, 200, {"Content-Type": "application/json"}, json.dumps(entries).encode())
        for revision in ("main", COMMIT):
            file = path.removeprefix(f"/{NAME}/resolve/{revision}/")
            if file != path and file in FILES:
                content, lfs = FILES[file]
                common = {"X-Repo-Commit": COMMIT, "ETag": f'"{etag(content, lfs)}"'}
                if not lfs:
                    return self.send(to, 200, common, content)
                where = f"http://localhost:{self.elsewhere.server_address[1]}/{etag(content, lfs)}"
                return self.send(to, 302, {**common, "Location": where, "X-Linked-Size": str(len(content)),
                                           "X-Linked-Etag": f'"{etag(content, lfs)}"'}, b"")
        self.send(to, 404, {"X-Error-Code": "EntryNotFound"}, b"no such file")

    def answer_elsewhere(self, to, path):
        for content, lfs in FILES.values():
            if lfs and path == "/" + etag(content, lfs):
                return self.send(to, 200, {"ETag": '"of another kind"'}, content)
        self.send(to, 404, {}, b"no such file")

    def forget(self):
        self.asked, self.served_elsewhere, self.tokens = [], 0, set()


def tree(cache):
    """Path below the cache: the target of a link, or a hash of the content."""
    found = {}
    for folder, folders, files in os.walk(cache):
        for name in files + [f for f in folders if os.path.islink(os.path.join(folder, f))]:
            path = os.path.join(folder, name)
            short = os.path.relpath(path, cache)
            if os.path.islink(path):
                found[short] = "-> " + os.readlink(path)
            else:
                with open(path, "rb") as file:
                    found[short] = hashlib.sha256(file.read()).hexdigest()
    return found


def compare(ours, theirs):
    """What differs, of what holds a model: locks and notes of a tool are its own business."""
    def kept(files):
        return {k: v for k, v in files.items() if k.split(os.sep)[1:2] in (["blobs"], ["refs"], ["snapshots"])}
    ours, theirs = kept(ours), kept(theirs)
    return [f"{path}: llada {ours.get(path)}, the package {theirs.get(path)}"
            for path in sorted(ours.keys() | theirs.keys()) if ours.get(path) != theirs.get(path)]


class Checks:
    def __init__(self):
        self.failed = 0

    def __call__(self, good, what, detail=""):
        self.failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {what}{'' if good else ': ' + str(detail)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--llada", required=True)
    llada = os.path.abspath(parser.parse_args().llada)
    root = tempfile.mkdtemp(prefix="llada-hub-")
    hub = Hub()
    # Read by the package when it is imported.
    os.environ.update(HF_ENDPOINT=hub.endpoint, HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1", HF_HOME=root,
                      HF_HUB_DISABLE_PROGRESS_BARS="1", HF_HUB_DISABLE_IMPLICIT_TOKEN="0")
    for name in ("HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE"):
        os.environ.pop(name, None)
    try:
        import huggingface_hub
    except ImportError:
        print("python_tools: SKIPPED: the Python package huggingface_hub is not here")
        return 3
    print(f"huggingface_hub {huggingface_hub.__version__}")
    with open(os.path.join(root, "token"), "w") as file:
        file.write(TOKEN + "\n")
    ours, theirs = os.path.join(root, "ours"), os.path.join(root, "theirs")
    check = Checks()

    def pull(cache, *more):
        return subprocess.run([llada, "pull", NAME, *more], env={**os.environ, "HF_HUB_CACHE": cache},
                              capture_output=True, text=True, timeout=60)

    def package(cache, **more):
        return huggingface_hub.snapshot_download(NAME, cache_dir=cache, **more)

    done = pull(ours)
    check(done.returncode == 0, "llada pulls", done.stderr)
    check(hub.tokens == {f"Bearer {TOKEN}"}, "with the token that the package's login keeps", hub.tokens)
    pulled = done.stdout.strip()
    wanted = sorted(os.path.relpath(os.path.join(f, n), pulled) for f, _, names in os.walk(pulled) for n in names)
    check("model-00002-of-00002.safetensors" in wanted and "config.json" in wanted, "a model's files", wanted)
    hub.forget()
    there = package(theirs, allow_patterns=wanted)
    check(os.path.basename(there) == os.path.basename(pulled) == COMMIT, "the package downloads", there)
    check(hub.tokens <= {f"Bearer {TOKEN}"}, "with the same token", hub.tokens)
    differs = compare(tree(ours), tree(theirs))
    check(not differs, "the folders are the same", "\n     ".join(differs))

    hub.forget()
    check(package(ours, allow_patterns=wanted) == pulled, "the package finds what llada pulled")
    check(package(ours, allow_patterns=wanted, local_files_only=True) == pulled, "without the server too")
    check(not [a for a in hub.asked if a.startswith("GET") and "resolve" in a], "and asks for no file again", hub.asked)
    report = huggingface_hub.scan_cache_dir(ours)
    check(not report.warnings and len(report.repos) == 1, "its scan of the folder warns of nothing", report.warnings)
    sizes = sum(len(FILES[name][0]) for name in wanted)
    check(report.size_on_disk == sizes, "and counts its bytes", (report.size_on_disk, sizes))
    one = huggingface_hub.try_to_load_from_cache(NAME, "config.json", cache_dir=ours)
    check(one == os.path.join(pulled, "config.json"), "and finds one file of it", one)

    hub.forget()
    done = pull(theirs)
    check(done.returncode == 0 and os.path.samefile(done.stdout.strip(), there),
          "llada finds what the package downloaded", done.stdout + done.stderr)
    check(not [a for a in hub.asked if a.startswith("GET") and "resolve" in a], "and asks for no file again", hub.asked)
    os.environ["HF_HUB_OFFLINE"] = "1"
    done = pull(theirs)
    check(done.returncode == 0 and os.path.samefile(done.stdout.strip(), there), "without the server too",
          done.stdout + done.stderr)
    os.environ.pop("HF_HUB_OFFLINE")

    # A large file of which a part came, under the name that the package gives it.
    content, _ = FILES["model-00001-of-00002.safetensors"]
    folder = os.path.join(theirs, "models--" + NAME.replace("/", "--"))
    blob = os.path.join(folder, "blobs", etag(content, True))
    os.unlink(blob)
    os.unlink(os.path.join(there, "model-00001-of-00002.safetensors"))
    with open(blob + ".incomplete", "wb") as file:
        file.write(content[:100000])
    hub.forget()
    done = pull(theirs)
    with open(blob, "rb") as file:
        check(file.read() == content, "llada completes a part of a file", done.stderr)
    check(hub.served_elsewhere == len(content) - 100000, "and asks for the rest alone", hub.served_elsewhere)
    shutil.rmtree(root)
    print(f"python_tools: {check.failed} failed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
