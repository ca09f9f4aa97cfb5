"""OpenAI's own Python client with files and batches, unmodified; a server that is killed again and again while it works
on a batch; and lines that spread a file of requests over processes, as docs/scale.md has them.

LLADA_TEST_LONG: 50 kills of a long batch."""

import json
import os
import pathlib
import pty
import random
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import openai

import support

LONG = "LLADA_TEST_LONG" in os.environ
ENDPOINT = "/v1/chat/completions"
DOCUMENT = support.ROOT / "docs/scale.md"


def requests(count, length=8):
    lines = [{"custom_id": f"id-{i}", "method": "POST", "url": ENDPOINT, "body": {
        "messages": [{"role": "user", "content": f"Count to {i}"}], "max_tokens": length}} for i in range(count)]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def by_id(text):
    """The answers of a file of lines; each id once."""
    found = {}
    for line in text.splitlines():
        answer = json.loads(line)
        assert answer["custom_id"] not in found, line
        found[answer["custom_id"]] = answer["response"]["body"]["choices"][0]["message"]["content"]
    return found


class Batches(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="llada_batches_")
        self.addCleanup(shutil.rmtree, self.folder)
        self.start()
        self.addCleanup(lambda: self.server.stop())

    def start(self):
        self.server = support.Server("--store", self.folder + "/store", "--row-budget", "64", "-q")
        self.client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0)

    def create(self, data, **more):
        file = self.client.files.create(file=("requests.jsonl", data), purpose="batch")
        return self.client.batches.create(input_file_id=file.id, endpoint=ENDPOINT, completion_window="24h", **more)

    def wait(self, batch):
        deadline = time.monotonic() + 300
        while batch.status not in ("completed", "failed", "expired", "cancelled") and time.monotonic() < deadline:
            time.sleep(0.05)
            batch = self.client.batches.retrieve(batch.id)
        return batch

    def alone(self, data):
        """What `llada batch` answers."""
        path = pathlib.Path(self.folder, "in.jsonl")
        path.write_bytes(data)
        words = [support.LLADA, "batch", support.model(), path, "-", "-q"]
        done = subprocess.run(words, check=True, capture_output=True)
        return by_id(done.stdout.decode())

    def test_a_batch_from_its_file_to_its_answers(self):
        data = requests(6)
        batch = self.create(data, metadata={"for": "a test"})
        self.assertEqual(batch.status, "validating")
        batch = self.wait(batch)
        self.assertEqual((batch.status, batch.request_counts.completed, batch.request_counts.failed,
                          batch.request_counts.total), ("completed", 6, 0, 6))
        self.assertEqual(batch.metadata, {"for": "a test"})
        self.assertEqual(by_id(self.client.files.content(batch.output_file_id).text), self.alone(data))
        self.assertIsNone(batch.error_file_id)
        self.assertEqual([b.id for b in self.client.batches.list(limit=1)], [batch.id])
        files = list(self.client.files.list())
        self.assertEqual({f.id for f in files}, {batch.input_file_id, batch.output_file_id})
        self.assertEqual(self.client.files.retrieve(batch.input_file_id).bytes, len(data))
        self.assertTrue(self.client.files.delete(batch.input_file_id).deleted)
        with self.assertRaises(openai.NotFoundError):
            self.client.files.content(batch.input_file_id)

    def test_a_batch_is_cancelled(self):
        batch = self.client.batches.cancel(self.create(requests(2000, 64)).id)
        self.assertEqual(batch.status, "cancelling")
        self.assertEqual(self.wait(batch).status, "cancelled")
        with self.assertRaises(openai.BadRequestError):
            self.client.batches.cancel(batch.id)

    def test_a_killed_server_goes_on(self):
        kills, count = (50, 1500) if LONG else (3, 60)
        data = requests(count)
        batch = self.create(data)
        chance = random.Random(5)
        for _ in range(kills):
            time.sleep(chance.random() * (0.5 if LONG else 0.1))
            self.server.process.kill()
            self.server.process.wait()
            self.server.stop()
            self.start()
        batch = self.wait(self.client.batches.retrieve(batch.id))
        self.assertEqual((batch.status, batch.request_counts.completed), ("completed", count))
        self.assertEqual(by_id(self.client.files.content(batch.output_file_id).text), self.alone(data))


class Progress(unittest.TestCase):
    def test_a_terminal_shows_how_far_it_is_and_how_long_it_takes(self):
        ours, theirs = pty.openpty()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "in.jsonl")
            path.write_bytes(requests(400, 32))
            begin = time.monotonic()
            child = subprocess.Popen([support.LLADA, "batch", support.model(), path, folder + "/out.jsonl"],
                                     stdin=subprocess.DEVNULL, stderr=theirs, env={**os.environ, "TERM": "xterm"})
            os.close(theirs)
            painted, bytes_ = [], b"-"
            while bytes_:
                try:
                    bytes_ = os.read(ours, 65536)
                except OSError:  # at the end of a terminal
                    bytes_ = b""
                painted.append((time.monotonic(), bytes_.decode()))
            self.assertEqual(child.wait(), 0)
        os.close(ours)
        bar = r"batch \[[#.]{5,20}\] +(\d+) %  (\d+) answered, [\d.]+ tokens/s, about (\d+) s left"
        found = [(at, *map(int, figures)) for at, text in painted for figures in re.findall(bar, text)]
        self.assertTrue(found, painted)
        for at, percent, answered, left in found:
            self.assertLess(abs(percent - answered / 4), 8)  # requests under way have been read
            # Of the pace until this picture: a percent is rounded down, and the model was loaded before the first.
            passed = at - begin
            self.assertLessEqual(left, 1.1 * passed * (100 - percent) / max(percent, 1) + 1)
            self.assertGreaterEqual(left, 0.5 * passed * (99 - percent) / (percent + 1) - 1)
        self.assertIn("llada batch: 400 answered; ", "".join(text for _, text in painted))


class Shards(unittest.TestCase):
    def test_the_documents_lines_answer_every_request_once(self):
        lines = [line.strip() for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if "--shard {}/" in line]
        self.assertEqual(len(lines), 2, lines)
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "requests.jsonl").write_bytes(requests(10))
            os.symlink(support.model(), pathlib.Path(folder, "model.gguf"))
            os.symlink(support.LLADA, pathlib.Path(folder, "llada"))
            ran = 0
            for line in lines:
                program = "parallel" if "parallel" in line else "xargs"
                if not shutil.which(program):
                    continue
                subprocess.run(["bash", "-ec", line], check=True, cwd=folder, capture_output=True,
                               env={**os.environ, "PATH": folder + ":" + os.environ["PATH"]})
                text = "".join(path.read_text() for path in sorted(pathlib.Path(folder).glob("answers.*.jsonl")))
                self.assertEqual(set(by_id(text)), {f"id-{i}" for i in range(10)})
                # One of them is lost: a run without shards goes on with the others' answers in one file.
                left = [path.read_text() for path in sorted(pathlib.Path(folder).glob("answers.*.jsonl"))[1:]]
                merged = pathlib.Path(folder, "answers.jsonl")
                merged.write_text("".join(left))
                words = ["./llada", "batch", "model.gguf", "requests.jsonl", merged, "-q"]
                subprocess.run(words, check=True, cwd=folder)
                self.assertTrue(merged.read_text().startswith("".join(left)))
                self.assertEqual(by_id(merged.read_text()), by_id(text))
                for path in pathlib.Path(folder).glob("answers.*.jsonl"):
                    path.unlink()
                ran += 1
            self.assertGreater(ran, 0)


if __name__ == "__main__":
    unittest.main()
