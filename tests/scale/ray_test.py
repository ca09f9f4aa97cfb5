"""llada.ray on a cluster of this machine: Ray's own nodes, of which some are killed, come late, or share weights.

LLADA_RAY_PROMPTS: prompts of the data set, 1,000 where not given. LLADA_TEST_LONG: also the time beside `llada batch`,
with answers of LLADA_RAY_TOKENS. LLADA_RAY_MODEL: another model for that, and for the memory of its weights."""

import asyncio
import http.server
import json
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import unittest
import zipfile
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACE = tempfile.TemporaryDirectory(prefix="llada-ray-")
LLADA = os.environ.setdefault("LLADA_PROGRAM", str(ROOT / "build/release/bin/llada"))
os.environ.setdefault("LLADA_LIBRARY", str(ROOT / "build/release/src/api/libllada.so"))
os.environ.update(
    XDG_CACHE_HOME=PLACE.name + "/cache",
    PYTHONPATH=os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]),
    RAY_USAGE_STATS_ENABLED="0",
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",  # every address is 127.0.0.1
    RAY_worker_niceness="0",  # as `llada batch` has it, beside other programs of this machine
    RAY_SERVE_PROXY_PREFER_LOCAL_NODE_ROUTING="0",
    RAY_DEDUP_LOGS="0",
    RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S="60",  # of a loaded machine
    RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S="60",
    RAY_DATA_DISABLE_PROGRESS_BARS="1",
    RAY_memory_monitor_refresh_ms="0",
    RAY_health_check_period_ms="500",
    RAY_health_check_failure_threshold="4",
    NO_PROXY="127.0.0.1,localhost",
)
sys.path.insert(0, str(ROOT / "python"))

import aiohttp
import openai
import ray
import ray.data
from ray import serve
from ray.cluster_utils import Cluster

import llada
import llada.ray
import scale_lines
from llada.ray import _program

COUNT = int(os.environ.get("LLADA_RAY_PROMPTS", 1000))
OPTIONS = {"gen_length": 32, "preset": "balanced"}
ADDRESS = "127.0.0.1"
cluster = None
workers = []


def program(*words):
    return subprocess.run([LLADA, *words], check=True, stdin=subprocess.DEVNULL, capture_output=True).stdout.decode()


def make_model(kind="q8_0"):
    path = pathlib.Path(PLACE.name, f"tiny-{kind}.gguf")
    if not path.exists():
        program("convert", str(ROOT / "models/tiny-llada"), str(path), "--type", kind)
    return str(path)


def add_node(**more):
    return cluster.add_node(num_cpus=2, object_store_memory=100 << 20, **more)


def setUpModule():
    global cluster
    cluster = Cluster()
    add_node(include_dashboard=False)
    workers.extend(add_node() for _ in range(3))
    ray.init(address=cluster.address, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False


def tearDownModule():
    serve.shutdown()
    ray.shutdown()
    cluster.shutdown()
    PLACE.cleanup()


def free_port():
    with socket.socket() as link:
        link.bind((ADDRESS, 0))
        return link.getsockname()[1]


def prompts(count):
    with open(ROOT / "eval/eval_public.jsonl", encoding="utf-8") as lines:
        texts = [json.loads(line)["prompt"] for line in lines]
    return [texts[i % len(texts)] for i in range(count)]


def data_set(texts, blocks):
    rows = [{"id": i, "prompt": text} for i, text in enumerate(texts)]
    return ray.data.from_items(rows, override_num_blocks=blocks)


class DataSets(unittest.TestCase):
    def test_an_actor_imports_no_server(self):
        line = "import sys, llada.ray; print('ray.serve' in sys.modules, callable(llada.ray.application))"
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", line], check=True, capture_output=True, text=True)
        self.assertEqual(done.stdout.split(), ["False", "True"])

    def test_a_cluster_is_found_without_ray_init(self):
        line = "import llada.ray._generate as here; print(here.least_cpus())"
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", line], check=True, capture_output=True, text=True,
                              env={**os.environ, "RAY_ADDRESS": cluster.address})
        self.assertEqual(done.stdout.split(), ["2"])

    def test_every_row_once_though_a_machine_is_lost_and_another_comes(self):
        model, texts = make_model(), prompts(COUNT)
        with llada.Model.load(model, threads=2) as alone:
            expected = [result.tokens for result in alone.generate_many(texts, streams=8, **OPTIONS)]
        answers = llada.ray.generate(
            data_set(texts, 40), model=model, options=OPTIONS, threads=1, actors=(2, None), num_cpus=1.5
        )
        found, lost = {}, False
        for row in answers.iter_rows():
            self.assertNotIn(row["id"], found)
            self.assertIsNone(row["error"])
            found[row["id"]] = list(row["generated_tokens"])
            if not lost and len(found) >= COUNT // 5:
                # A machine that computes, without a word.
                nodes = {actor["NodeID"] for actor in self.actors()}
                victims = [node for node in workers if node.unique_id in nodes or node.node_id in nodes]
                victim = victims[0] if victims else workers[0]
                workers.remove(victim)
                cluster.remove_node(victim, allow_graceful=False)
                workers.append(add_node())
                lost = True
        self.assertTrue(lost)
        self.assertEqual(sorted(found), list(range(COUNT)))
        self.assertEqual([found[i] for i in range(COUNT)], expected)

    @staticmethod
    def actors():
        from ray._private.state import actors

        return [
            {"NodeID": actor["Address"]["NodeID"], "Pid": actor["Pid"] if "Pid" in actor else None}
            for actor in actors().values()
            if actor["State"] == "ALIVE"
        ]

    def test_a_rows_fault_is_its_error(self):
        rows = [{"prompt": [{"role": role, "content": "Count to 3"}]} for role in ("user", "nobody")]
        answers = llada.ray.generate(
            ray.data.from_items(rows), model=make_model(), options={"gen_length": 8}, threads=1, actors=1
        ).take_all()
        by_error = sorted(answers, key=lambda row: row["error"] is not None)
        self.assertIsNone(by_error[0]["error"])
        self.assertEqual(len(by_error[0]["generated_tokens"]), 8)
        self.assertIn("nobody", by_error[1]["error"])
        self.assertIsNone(by_error[1]["generated_text"])

    def test_wrong_options_are_told_before_anything_runs(self):
        rows = ray.data.from_items([{"prompt": "Hi"}])
        with self.assertRaisesRegex(TypeError, "treshold"):
            llada.ray.generate(rows, model="none", options={"treshold": 0.5})
        with self.assertRaises(llada.InvalidError):
            llada.ray.generate(rows, model="none", options={"gen_length": -4})

    def test_sampled_answers_do_not_change_when_they_are_computed_again(self):
        options = {"gen_length": 8, "temperature": 1.0}

        def sampled():
            dataset = data_set(prompts(6), 3)
            answers = llada.ray.generate(dataset, model=make_model(), options=options, threads=1, actors=1)
            return {row["id"]: list(row["generated_tokens"]) for row in answers.iter_rows()}

        self.assertEqual(sampled(), sampled())

    def test_weights_are_in_memory_once(self):
        @ray.remote(num_cpus=0.1)
        class Actor(llada.ray.Generator):
            def weights(self):
                """(bytes of the packed file, resident, this process's share of them)"""
                sizes, path = {"Size": 0, "Rss": 0, "Pss": 0}, None
                with open("/proc/self/smaps", encoding="utf-8") as lines:
                    for line in lines:
                        words = line.split()
                        if "-" in words[0]:
                            path = words[5] if len(words) > 5 else None
                        elif path and "/packed/" in path and words[0][:-1] in sizes:
                            sizes[words[0][:-1]] += int(words[1]) * 1024
                return sizes["Size"], sizes["Rss"], sizes["Pss"]

        model = os.environ.get("LLADA_RAY_MODEL") or make_model()
        actors = [Actor.remote(model, {"gen_length": 8}, load={"threads": 1}) for _ in range(3)]
        table = __import__("pyarrow").table({"prompt": prompts(2)})
        ray.get([actor.answer.remote(table) for actor in actors])
        found = ray.get([actor.weights.remote() for actor in actors])
        print("packed weights of 3 actors (size, resident, share):", found)
        self.assertGreater(min(resident for _, resident, _ in found), 0.5 * found[0][0])
        self.assertLess(sum(share for _, _, share in found), 1.1 * found[0][0])


@unittest.skipUnless("LLADA_TEST_LONG" in os.environ, "the time beside llada batch takes minutes: LLADA_TEST_LONG")
class Overhead(unittest.TestCase):
    """Wall time from the first line to the last answer, starts of processes and of the actor included; the cluster is
    there before."""

    def test_one_thread_each(self):
        """As llada.ray has it where machines have two processors."""
        self.assertLess(self.ratio(1, COUNT), 1.1)

    def test_all_processors_each(self):
        """Ray's own processes work on the same processors, in a run of a minute on two."""
        self.assertLess(self.ratio(2, 5 * COUNT // 2), 1.1)

    def ratio(self, threads, count):
        """Of the fastest run of each: whatever else the machine does can only add to a run's time."""
        times = self.in_turns(threads, count)
        return min(times["llada.ray", count]) / min(times["llada batch", count])

    def in_turns(self, threads, most):
        """Seconds by (name, number of prompts), three times each, the two in turns."""
        model, texts = os.environ.get("LLADA_RAY_MODEL") or make_model("f16"), prompts(most)
        length = int(os.environ.get("LLADA_RAY_TOKENS", 64))
        program("pack", model)
        place, answers = pathlib.Path(PLACE.name), {}

        def by_batch(count):
            with open(place / "in.jsonl", "w", encoding="utf-8") as file:
                for i, text in enumerate(texts[:count]):
                    body = {"messages": [{"role": "user", "content": text}], "max_tokens": length}
                    line = {"custom_id": str(i), "method": "POST", "url": "/v1/chat/completions", "body": body}
                    file.write(json.dumps(line) + "\n")
            (place / "out.jsonl").unlink(missing_ok=True)
            program("batch", model, str(place / "in.jsonl"), str(place / "out.jsonl"), "-q", "--threads", str(threads))
            with open(place / "out.jsonl", encoding="utf-8") as file:
                return {int(answer["custom_id"]): answer["response"]["body"]["choices"][0]["message"]["content"]
                        for answer in map(json.loads, file)}

        def by_ray(count):
            rows = data_set(texts[:count], min(count, 16))
            answers = llada.ray.generate(rows, model=model, options={"gen_length": length}, actors=1, threads=threads)
            return {row["id"]: row["generated_text"] for row in answers.iter_rows()}

        times = {(name, count): [] for count in (1, most) for name in ("llada batch", "llada.ray")}
        for _ in range(3):
            for name, count in times:
                begin = time.monotonic()
                answers[name] = (by_batch if name == "llada batch" else by_ray)(count)
                times[name, count].append(time.monotonic() - begin)
            self.assertEqual(answers["llada.ray"], answers["llada batch"])
        for (name, count), seconds in times.items():
            print(f"{name}, {threads} threads, {count} prompts of {length} tokens, seconds: "
                  + ", ".join(f"{each:.1f}" for each in seconds))
        return times


class Evaluations(unittest.TestCase):
    def test_the_numbers_of_llada_eval(self):
        tasks, options = str(ROOT / "eval/eval_public.jsonl"), ["--preset-decode", "fast", "--gen-length", "48"]
        alone = json.loads(program("eval", "-m", make_model(), "--tasks", tasks, "--limit", "9", "--no-reference",
                                   "--threads", "2", "--json", *options))["results"][0]
        words = '--preset-decode "fast" --gen-length 48'  # as a shell has them
        found = llada.ray.evaluate(tasks, model=make_model(), options=words, limit=9, threads=1, part=7)
        timed = {"seconds_mean", "cpu_seconds_mean"}
        self.assertEqual(set(found["tasks"]), set(alone["tasks"]))
        for mine, other in [(found, alone), *((found["tasks"][name], alone["tasks"][name]) for name in found["tasks"])]:
            for key in set(mine) - timed - {"tasks"}:
                pair = [value if isinstance(value, list) else [value] for value in (mine[key], other[key])]
                for one, two in zip(*pair):
                    self.assertAlmostEqual(one, two, places=9, msg=key)
        self.assertLess(found["accuracy_mean"], 1)


class QuietFiles(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *words):
        super().__init__(*words, directory=PLACE.name)

    def log_message(self, *_):
        pass


class Addresses(unittest.TestCase):
    def test_a_model_is_fetched_once_and_again_when_it_has_changed(self):
        place = pathlib.Path(PLACE.name, "store.zip")
        with zipfile.ZipFile(place, "w") as store:
            store.write(make_model(), "models/tiny.gguf")
        address = f"zip://models/tiny.gguf::{place}"
        path = pathlib.Path(llada.ray.local_path(address))
        self.assertEqual(path.name, "tiny.gguf")
        self.assertEqual(path.read_bytes(), pathlib.Path(make_model()).read_bytes())
        before = path.stat().st_mtime_ns
        self.assertEqual(llada.ray.local_path(address), str(path))
        self.assertEqual(path.stat().st_mtime_ns, before)
        with zipfile.ZipFile(place, "w") as store:
            store.write(make_model("f16"), "models/tiny.gguf")
        other = pathlib.Path(llada.ray.local_path(address))
        self.assertEqual(other.read_bytes(), pathlib.Path(make_model("f16")).read_bytes())
        self.assertEqual(llada.ray.local_path(make_model()), make_model())
        folder = llada.ray.local_path(f"file://{ROOT}/models/tiny-llada")
        self.assertEqual({each.name for each in pathlib.Path(folder).iterdir()},
                         {each.name for each in (ROOT / "models/tiny-llada").iterdir()})
        with llada.Model.load(folder) as model:
            self.assertTrue(model.info.has_tokenizer)

    def test_a_model_comes_over_a_network(self):
        with http.server.ThreadingHTTPServer((ADDRESS, 0), QuietFiles) as server:
            server.handle_error = lambda *_: None  # such as a client that reads the head alone
            threading.Thread(target=server.serve_forever, daemon=True).start()
            name = pathlib.Path(make_model()).name
            address = f"http://{ADDRESS}:{server.server_port}/{name}"
            answers = llada.ray.generate(data_set(prompts(3), 1), model=address, options=OPTIONS, threads=1, actors=1)
            found = {row["id"]: row["generated_text"] for row in answers.iter_rows()}
            server.shutdown()
        with llada.Model.load(make_model(), threads=1) as model:
            self.assertEqual(found, {i: model.generate(text, **OPTIONS).text for i, text in enumerate(prompts(3))})

    def test_a_folder_has_changed_where_a_file_of_it_has(self):
        folder = pathlib.Path(PLACE.name, "folder")
        folder.mkdir()
        address = f"file://{folder}"
        for at, text in enumerate(("one", "two")):  # equally long
            (folder / "config.json").write_text(text)
            os.utime(folder / "config.json", (at, at))
            self.assertEqual(pathlib.Path(llada.ray.local_path(address), "config.json").read_text(), text)


class Programs(unittest.TestCase):
    """Which `llada` evaluations and servers start."""

    def found(self, given, path, scripts):
        names = {"PATH": path, "LLADA_PROGRAM": given}
        with mock.patch.dict(os.environ, names), mock.patch.object(sysconfig, "get_path", lambda name: scripts):
            return _program.program()

    def test_one_that_is_named_then_one_in_path_then_that_of_the_wheel(self):
        with tempfile.TemporaryDirectory() as folder:
            for place in ("named", "path", "wheel"):
                os.mkdir(f"{folder}/{place}")
                pathlib.Path(folder, place, "llada").touch(mode=0o755)
            here = [f"{folder}/{place}/llada" for place in ("named", "path", "wheel")]
            self.assertEqual(self.found(here[0], f"{folder}/path", f"{folder}/wheel"), here[0])
            self.assertEqual(self.found("", f"{folder}/path", f"{folder}/wheel"), here[1])
            self.assertEqual(self.found("", "/nowhere", f"{folder}/wheel"), here[2])
            for given, scripts in (("", "/nowhere"), ("/nowhere/llada", f"{folder}/wheel")):
                with self.assertRaisesRegex(FileNotFoundError, "found no such program"):
                    self.found(given, "/nowhere", scripts)


class Document(unittest.TestCase):
    """The lines of docs/scale.md, with names of what is here."""

    @classmethod
    def setUpClass(cls):
        cls.python, cls.serve = scale_lines.lines(make_model(), f"file://{make_model()}", 8)

    def test_its_lines_of_python(self):
        with tempfile.TemporaryDirectory(dir=PLACE.name) as folder:
            names = {}
            with open(pathlib.Path(folder, "prompts.jsonl"), "w", encoding="utf-8") as file:
                file.writelines(json.dumps({"prompt": text}) + "\n" for text in prompts(3))
            with open(ROOT / "eval/eval_public.jsonl", encoding="utf-8") as tasks:
                pathlib.Path(folder, "eval.jsonl").write_text("".join(tasks.readlines()[:3]), encoding="utf-8")
            exec(self.python.replace("/data/", folder + "/"), names)
            rows = ray.data.read_parquet(folder + "/answers").take_all()
        self.assertEqual(sorted(row["prompt"] for row in rows), sorted(prompts(3)))
        self.assertEqual({row["error"] for row in rows}, {None})
        self.assertEqual(names["result"]["n"], 3)

    def test_its_line_of_a_shell(self):
        port = free_port()
        serve.start(http_options={"host": ADDRESS, "port": port}, proxy_location="HeadOnly")
        with open(PLACE.name + "/serve.log", "w+b") as log:
            child = subprocess.Popen(shlex.split(self.serve, comments=True), stdin=subprocess.DEVNULL, stdout=log,
                                     stderr=log, env={**os.environ, "RAY_ADDRESS": cluster.address})
            try:
                client = openai.OpenAI(base_url=f"http://{ADDRESS}:{port}/v1", api_key="none")
                deadline = time.monotonic() + 90
                while True:
                    try:
                        self.assertEqual([model.id for model in client.models.list()], ["tiny-q8_0"])
                        break
                    except (openai.APIError, openai.APIConnectionError):
                        log.seek(0)
                        self.assertIsNone(child.poll(), log.read().decode())
                        self.assertLess(time.monotonic(), deadline, "no answer of serve run")
                        time.sleep(0.2)
                child.send_signal(signal.SIGINT)
                child.wait(90)
            finally:
                child.kill()
                child.wait()
                serve.shutdown()


class Health(unittest.TestCase):
    def test_a_program_that_has_ended_is_an_error_of_its_connection(self):
        from llada.ray._serve import _HEALTH_FAILURES, Replica
        replica = Replica.__new__(Replica)
        replica._socket, replica._failures = PLACE.name + "/no-socket", 0
        replica._child = subprocess.Popen(["true"], stdin=subprocess.PIPE, start_new_session=True)
        replica._child.wait()
        for _ in range(_HEALTH_FAILURES + 1):
            with self.assertRaises(aiohttp.ClientConnectorError):
                asyncio.run(replica.check_health())


class Serving(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.port = free_port()
        serve.start(http_options={"host": ADDRESS, "port": cls.port}, proxy_location="HeadOnly")
        serve.run(llada.ray.application(cls.arguments("2")))
        cls.url = f"http://{ADDRESS}:{cls.port}"

    @classmethod
    def tearDownClass(cls):
        serve.delete("default")

    @staticmethod
    def arguments(replicas):
        return {"model": make_model(), "replicas": replicas, "threads": "1", "parallel": "8"}

    def client(self):
        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=60)

    @staticmethod
    def pids():
        """Of the programs of the replicas: (replica, program)."""
        found = []
        for folder in pathlib.Path("/proc").iterdir():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if len(words) > 1 and words[0] == LLADA.encode() and words[1] == b"serve":
                    shell = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                    replica = int(pathlib.Path(f"/proc/{shell}/stat").read_text().rsplit(")", 1)[1].split()[1])
                    if PLACE.name.encode() in b" ".join(words):
                        found.append((replica, int(folder.name)))
            except (OSError, ValueError, IndexError):
                continue
        return found

    def wait_for_replicas(self, count=2, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if len(self.pids()) == count:
                return
            time.sleep(0.2)
        self.fail(f"found {self.pids()}, needed {count} replicas")

    def test_the_routes_are_those_of_the_server(self):
        client = self.client()
        asked = {"messages": [{"role": "user", "content": "Sort the numbers from smallest to largest: 38 41 6 51 3"}],
                 "model": "any", "max_tokens": 32}
        whole = client.chat.completions.create(**asked).choices[0].message.content
        self.assertEqual(whole, "3 6 38 41 51")
        stream = client.chat.completions.create(**asked, stream=True)
        pieces = [piece.choices[0].delta.content or "" for piece in stream if piece.choices]
        self.assertEqual("".join(pieces), whole)
        self.assertEqual([model.id for model in client.models.list()], ["tiny-q8_0"])
        with self.assertRaises(openai.BadRequestError):
            client.chat.completions.create(**{**asked, "messages": []})

    def answered(self):
        """Chats that each program has answered, by its pid."""
        counts = {}
        for _, program in self.pids():
            words = pathlib.Path(f"/proc/{program}/cmdline").read_text().split("\0")
            with socket.socket(socket.AF_UNIX) as link:
                link.connect(words[words.index("--socket") + 1])
                link.sendall(b"GET /metrics HTTP/1.0\r\nHost: replica\r\n\r\n")
                text = b"".join(iter(lambda: link.recv(65536), b"")).decode()
            lines = re.findall(r'^llada_requests_total\{route="/v1/chat/completions",status="200"\} (\d+)', text, re.M)
            counts[program] = sum(map(int, lines))
        return counts

    def test_replicas_share_the_requests(self):
        self.wait_for_replicas()
        before = self.answered()

        def ask():
            for text in prompts(10):
                self.ask(self.client(), text, False)

        clients = [threading.Thread(target=ask) for _ in range(8)]
        for each in clients:
            each.start()
        for each in clients:
            each.join(120)
        shares = [count - before[program] for program, count in self.answered().items()]
        self.assertEqual((len(shares), sum(shares)), (2, 80))
        self.assertGreater(min(shares), 20)

    def test_requests_go_to_the_shorter_queue(self):
        """One program stands still: the other one answers many times the clients. In turns, or at random, each client
        would soon wait for the first. This is over before Ray Serve takes the first away."""
        self.wait_for_replicas()
        before, over, answered = self.answered(), threading.Event(), threading.Semaphore(0)

        def ask():
            client = self.client()
            while not over.is_set():
                self.ask(client, "Count to 3", False, 8)
                answered.release()

        still = self.pids()[0][1]
        clients = [threading.Thread(target=ask) for _ in range(8)]
        os.kill(still, signal.SIGSTOP)
        try:
            for each in clients:
                each.start()
            deadline = time.monotonic() + 15
            count = sum(answered.acquire(timeout=max(deadline - time.monotonic(), 0)) for _ in range(80))
        finally:
            over.set()
            os.kill(still, signal.SIGCONT)
            for each in clients:
                each.join(120)
        after = self.answered()
        self.assertEqual(set(after), set(before))
        self.assertEqual(count, 80)
        self.assertLessEqual(after[still] - before[still], len(clients))

    @staticmethod
    def ask(client, text, is_stream, length=64):
        asked = {"messages": [{"role": "user", "content": text}], "model": "any", "max_tokens": length}
        if not is_stream:
            return client.chat.completions.create(**asked).choices[0].message.content
        pieces, reason = "", None
        for piece in client.chat.completions.create(**asked, stream=True):
            if piece.choices:
                pieces += piece.choices[0].delta.content or ""
                reason = piece.choices[0].finish_reason or reason
        if reason is None:
            raise AssertionError("a stream ended as if it were whole")
        return pieces

    def test_replicas_that_go_away_finish_their_answers(self):
        """Both are replaced by one while every one of 12 clients has an answer under way, and that one by two."""
        texts, results, lock, over = prompts(12), [], threading.Lock(), threading.Event()
        self.wait_for_replicas()
        before = set(self.pids())

        def client_of(number):
            client = self.client()
            while not over.is_set():
                try:
                    answer = self.ask(client, texts[number], number % 2 == 0, 128)
                except Exception as failure:
                    answer = failure
                with lock:
                    results.append((number, answer))

        clients = [threading.Thread(target=client_of, args=(number,)) for number in range(len(texts))]
        for each in clients:
            each.start()
        try:
            for count in ("1", "2"):
                serve.run(llada.ray.application(self.arguments(count)))
                self.wait_for_replicas(int(count))
        finally:
            over.set()
            for each in clients:
                each.join(120)
        self.assertFalse(before & set(self.pids()))
        self.assertEqual({number for number, _ in results}, set(range(len(texts))))
        for number, text in enumerate(texts):
            whole = json.loads(program("run", "-m", make_model(), "-p", text, "-n", "128", "--json"))["text"]
            self.assertEqual({answer for asker, answer in results if asker == number}, {whole})

    def check_loss(self, end):
        """50 clients ask, one replica is ended in the middle: each request has its answer or an error, and one that
        begins later has an answer."""
        expected = {text: json.loads(program("run", "-m", make_model(), "-p", text, "-n", "64", "--json"))["text"]
                    for text in prompts(1000)[::200]}
        texts, results, lock, over = list(expected), [], threading.Lock(), threading.Event()
        self.wait_for_replicas()

        def client_of(number):
            client = self.client()
            for turn in range(1000):
                if over.is_set():
                    return
                text, begin = texts[(number + turn) % len(texts)], time.monotonic()
                try:
                    answer, error = self.ask(client, text, number % 2 == 0), None
                except openai.APIError as failure:
                    answer, error = None, failure
                except Exception as failure:  # such as a connection that breaks in a stream
                    answer, error = None, failure
                with lock:
                    results.append((begin, time.monotonic(), text, answer, error))
                if error is not None:
                    time.sleep(0.2)

        clients = [threading.Thread(target=client_of, args=(number,)) for number in range(50)]
        for each in clients:
            each.start()
        time.sleep(4)
        killed = time.monotonic()
        end(*self.pids()[0])
        time.sleep(15)
        over.set()
        for each in clients:
            each.join(120)
            self.assertFalse(each.is_alive(), "a request without an end")
        answered = [result for result in results if result[4] is None]
        errors = [result for result in results if result[4] is not None]
        for _, _, text, answer, _ in answered:
            self.assertEqual(answer, expected[text])
        self.assertFalse([result for result in errors if isinstance(result[4], AssertionError)])
        begun_later = [result for result in answered if result[0] > killed]
        self.assertTrue(begun_later)
        first = min(result[1] for result in begun_later) - killed
        late = [result for result in errors if result[0] > killed + 10]
        print(f"{len(results)} requests, {len(errors)} with an error "
              f"({sorted({type(result[4]).__name__ for result in errors})}); the first that began later was answered "
              f"{first:.1f} s after the loss; {len(late)} errors of requests that began 10 s later")
        self.assertLess(first, 10)
        self.assertFalse(late)
        self.wait_for_replicas()

    def test_a_broken_stream_ends_with_an_error_of_its_protocol(self):
        from llada.ray._serve import _error_event
        chats, messages = "/v1/chat/completions", "/v1/messages"
        for path, name, kind in ((chats, None, "server_error"), (messages, "error", "api_error")):
            broken, last = (b'data: {"a' + _error_event(path, "ended")).decode().rstrip("\n").split("\n\n")
            lines = dict(line.split(": ", 1) for line in last.split("\n"))
            self.assertEqual(broken, 'data: {"a')
            self.assertEqual(lines.get("event"), name)
            self.assertEqual(json.loads(lines["data"])["error"]["type"], kind)

    @unittest.skipUnless("LLADA_TEST_LONG" in os.environ, "a replica that hangs takes half a minute: LLADA_TEST_LONG")
    def test_a_replica_whose_program_hangs_is_replaced(self):
        self.wait_for_replicas()
        hanging, other = self.pids()
        os.kill(hanging[1], signal.SIGSTOP)
        answers, begin, count = [], time.monotonic(), 40

        def ask():
            try:
                answers.append(self.ask(self.client(), "Count to 3", False))
            except openai.APIError as error:
                answers.append(error)

        clients = [threading.Thread(target=ask) for _ in range(count)]
        for each in clients:
            each.start()
        for each in clients:
            each.join(90)
        errors = sum(not isinstance(answer, str) for answer in answers)
        print(f"{errors} of {count} requests met a replica that hangs: an error after {time.monotonic() - begin:.0f} s")
        self.assertEqual(len(answers), count, "a request without an end")
        while hanging in self.pids():
            self.assertLess(time.monotonic() - begin, 90)
            time.sleep(0.5)
        self.wait_for_replicas()
        self.assertIn(other, self.pids())

    def test_a_replica_is_lost(self):
        self.check_loss(lambda replica, _: os.kill(replica, signal.SIGKILL))

    def test_a_replicas_program_is_lost(self):
        self.check_loss(lambda _, child: os.kill(child, signal.SIGKILL))


if __name__ == "__main__":
    unittest.main(verbosity=2)
