"""llada.exe and llada.dll under wine, beside the program of this machine: the same answers and the same files, and what
Windows does in its own way. tools/test_windows.sh runs it.

Wine is no Windows: its consoles are this machine's terminals, which are handed escape sequences as letters, so places on
the screen are not shown; its files are this machine's. Not shown here: how Windows' own console draws, its file system's
locks against other programs, its virus scanners, its paging, its list of authorities.
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.request
import zipfile

from wine import ANSWER, HERE, PROMPT, ROOT, TINY, WINE, Authority, Case, Console, Hub, run, spread, until


class Windows(Case):
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

    def test_paths_of_any_length(self):
        deep = self.folder.joinpath(*(letter * 120 for letter in "äbc"))
        model = deep / "model"
        shutil.copytree(TINY, model)
        self.assertGreater(len(str(model)), 260)
        self.assertEqual(self.answers(WINE, model), self.answers(HERE, model))
        self.ok(run(WINE, "convert", str(model), str(deep / "out.gguf"), "--type", "q4_0"))
        self.assertEqual(sorted(path.name for path in deep.iterdir()), ["model", "out.gguf"])
        self.assertEqual(self.answers(WINE, deep / "out.gguf")["text"], ANSWER)
        nothing = run(WINE, "run", "-m", str(deep), "x")
        self.assertIn("out.gguf", nothing.stderr.decode(), "the folder's files are listed")

    def test_the_zip_runs_where_it_is_unpacked(self):
        made = []
        for name in ("first", "second"):
            (self.folder / name).mkdir()
            self.ok(run([str(ROOT / "tools/windows.sh")], "zip", str(self.folder / name)))
            made += (self.folder / name).glob("*.zip")
        first, second = made
        self.assertEqual(first.read_bytes(), second.read_bytes())
        place = self.folder / "zip ü"
        with zipfile.ZipFile(first) as archive:
            archive.extractall(place)
        place = place / first.stem
        self.assertEqual({path.name for path in place.iterdir()},
                         {"bin", "include", "lib", "licences", "share", "CHANGELOG.md", "LICENSE", "README.md"})
        program = [WINE[0], str(place / "bin/llada.exe")]
        self.assertEqual(self.ok(run(program, "run", "tiny-llada", PROMPT, "-q", cwd=place)).strip(), ANSWER)
        self.assertEqual(self.ok(run(program, "--version")), self.ok(run(WINE, "--version")))
        made = place / "bin/generate.exe"  # beside the library; main()'s words are in another encoding than UTF-8
        self.compile(ROOT / "examples/generate.c", made, f"-I{place}/include", str(place / "lib/libllada.dll.a"))
        self.assertIn(ANSWER, self.ok(run([WINE[0], str(made)], "share/llada/tiny-llada.gguf", PROMPT, cwd=place)))
        refused = run([WINE[0], str(made)], str(place / "share/llada/tiny-llada.gguf"), PROMPT)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("No such file", refused.stderr.decode(errors="replace"))

    def test_one_processor_is_enough(self):
        for cpus in ("0", "1"):
            found = json.loads(self.ok(run(["taskset", "-c", cpus, *WINE], "run", "-m", TINY, PROMPT, "--json")))
            self.assertIn(", 1 threads", found["stats"]["device"])
            self.assertEqual(found["text"], ANSWER)

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

    def hub(self, tls=None):
        hub = Hub({path.name: path.read_bytes() for path in pathlib.Path(TINY).iterdir() if path.name != "golden.json"},
                  tls)
        self.addCleanup(hub.close)
        env = {key: text for key, text in os.environ.items()
               if key not in ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE")}
        return hub, env | {"HF_ENDPOINT": hub.address, "HF_HOME": str(self.folder / "hub-ö")}

    def test_pull_trusts_the_authorities_of_windows(self):
        authority = Authority(self.folder)
        hub, env = self.hub(authority.tls)
        refused = run(WINE, "pull", "someone/tiny", env=env)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("certificate", refused.stderr.decode())
        with authority.trusted():
            path = self.ok(run(WINE, "pull", "someone/tiny", env=env)).splitlines()[-1]
            self.assertIn("hub-ö", path)
            other = {**env, "HF_ENDPOINT": f"https://127.0.0.1:{hub.port}", "HF_HOME": str(self.folder / "other")}
            refused = run(WINE, "pull", "someone/tiny", env=other)  # the certificate is another name's
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("certificate", refused.stderr.decode())
        found = self.ok(run(WINE, "run", "-hf", "someone/tiny", PROMPT, "-q", env={**env, "HF_HUB_OFFLINE": "1"}))
        self.assertEqual(found.strip(), ANSWER)
        given = run(WINE, "pull", "someone/tiny", env={**other, "SSL_CERT_FILE": str(self.folder / "authority.pem")})
        self.assertNotEqual(given.returncode, 0)
        self.assertIn("Windows trusts its own list", given.stderr.decode())

    def test_pull_takes_a_model_and_goes_on_where_it_was(self):
        hub, env = self.hub()
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

    def test_a_canvas_is_painted_in_a_console(self):
        console = Console([*WINE, "run", "-m", TINY, PROMPT, "--steps", "16", "--preset-decode", "exact"])
        self.addCleanup(console.close)
        console.wait_for("▒" * 10)  # masks
        console.wait_for("block 1/")
        console.wait_for("tokens/s")
        console.wait_for(ANSWER)
        self.assertEqual(console.process.wait(30), 0, console.text())
        console.take()
        self.assertIn(b"\x1b[1;38;5;", console.seen, "new tokens have a colour")
        self.assertTrue(console.seen.endswith(b"\x1b[?25h"), "the cursor is shown again")

    def test_ctrl_c_ends_a_run_between_two_steps(self):
        process = subprocess.Popen([*WINE, "run", "-m", TINY + "-long", PROMPT, "-n", "400", "--steps", "400",
                                    "--block-length", "400", "--preset-decode", "exact", "--early-stop", "none",
                                    "--no-live"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, (out, error))

    def compile(self, source, program, *words):
        subprocess.run(["x86_64-w64-mingw32-gcc-posix", "-Wall", "-Werror", str(source), *words, "-o", str(program)],
                       check=True)

    def test_a_program_that_is_linked_with_the_library(self):
        program = self.folder / "generate.exe"
        built = ROOT / "build/windows"
        shutil.copy(built / "bin/llada.dll", self.folder)
        self.compile(ROOT / "examples/generate.c", program, f"-I{ROOT}/include", str(built / "src/api/libllada.dll.a"))
        self.assertIn(ANSWER, self.ok(run([WINE[0], str(program)], TINY, PROMPT)))

    def test_a_program_that_loads_the_library_as_python_does(self):
        place = self.folder / "lib ü"
        place.mkdir()
        shutil.copy(ROOT / "build/windows/bin/llada.dll", place)
        program = self.folder / "load.exe"
        self.compile(ROOT / "tests/windows/load.c", program, "-municode")
        names = re.findall(r'^    "(llada_\w+)": ?\(', (ROOT / "python/llada/_capi.py").read_text(), re.M)
        self.assertGreater(len(names), 20)
        load = [WINE[0], str(program), str(place / "llada.dll")]
        version = re.search(r"project\(llada VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual(self.ok(run(load, *names)).split(), [str(len(names)), version])
        missing = run(load, "llada_version", "llada_none")
        self.assertEqual((missing.returncode, missing.stdout.decode().strip()), (1, "llada_none"))

    def test_sockets_with_a_path_are_refused(self):
        refused = run(WINE, "serve", TINY, "--socket", str(self.folder / "socket"))
        self.assertEqual(refused.returncode, 2)
        self.assertIn("not supported", refused.stderr.decode())


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=sys.argv)
