"""The server behind nginx, with the configuration of deploy/nginx.conf."""

import pathlib
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import httpx

import support

NGINX = str(support.ROOT / "build/nginx/usr/sbin/nginx")
PROMPT = "Sort the numbers from smallest to largest: 38 41 6 51 3"
# One token a step, so that a stream has many pieces and is long enough to be left.
SLOW = {"max_tokens": 200, "temperature": 2, "seed": 1,
        "llada": {"preset": "exact", "block_length": 200, "early_stop": "none"}}


class Proxy:
    def __init__(self, server_port):
        self.port = support.free_port()
        self.folder = tempfile.TemporaryDirectory(prefix="llada-proxy-")
        block = (support.ROOT / "deploy/nginx.conf").read_text(encoding="utf-8").replace("127.0.0.1:8080", f"127.0.0.1:{server_port}")
        block = block.replace("listen 443 ssl;", f"listen 127.0.0.1:{self.port};")  # a certificate is not the point
        temporary = "\n".join(f"{kind}_temp_path {self.folder.name}/{kind};" for kind in (
            "client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = pathlib.Path(self.folder.name) / "nginx.conf"
        config.write_text(f"daemon off; pid {self.folder.name}/pid; error_log {self.folder.name}/error.log;\n"
                          f"events {{}}\nhttp {{\naccess_log off;\n{temporary}\n{block}\n}}\n")
        self.process = subprocess.Popen([NGINX, "-p", self.folder.name, "-c", str(config)], stderr=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{self.port}"
        deadline = time.monotonic() + 20
        while True:
            try:
                support.get("/ready", self.url)
                return
            except (urllib.error.URLError, OSError):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("nginx does not answer: " +
                                       (config.parent / "error.log").read_text(errors="replace")) from None
                time.sleep(0.05)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=20)
        self.folder.cleanup()


def body(**fields):
    usual = {"max_tokens": support.LENGTH, "llada": support.OPTIONS}
    return {"model": support.NAME, "messages": [{"role": "user", "content": PROMPT}], **usual, **fields}


class BehindNginx(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.proxy = Proxy(support.server().port)

    @classmethod
    def tearDownClass(cls):
        cls.proxy.stop()

    def test_a_whole_answer(self):
        answer = httpx.post(self.proxy.url + "/v1/chat/completions", json=body(), timeout=60).json()
        self.assertEqual(answer["choices"][0]["message"]["content"], support.run(PROMPT)["text"])

    def test_a_stream_arrives_as_it_is_made(self):
        arrivals = []
        with httpx.stream("POST", self.proxy.url + "/v1/chat/completions", timeout=60,
                          json=body(stream=True, diffusing="frames", **SLOW)) as answer:
            self.assertEqual(answer.status_code, 200, answer.headers)
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    arrivals.append(time.monotonic())
        self.assertGreater(len(arrivals), 100)
        # A proxy that buffers gives the frames in bunches of its buffer's size. A forward takes several milliseconds.
        apart = sum(later - earlier > 1e-3 for earlier, later in zip(arrivals, arrivals[1:]))
        self.assertGreater(apart, 0.7 * len(arrivals))

    def test_a_client_that_leaves_ends_its_request(self):
        before = support.metric("llada_answers_cancelled_total")
        with httpx.stream("POST", self.proxy.url + "/v1/chat/completions", timeout=60,
                          json=body(stream=True, diffusing="frames", **SLOW)) as answer:
            self.assertEqual(answer.status_code, 200, answer.headers)
            next(answer.iter_lines())
        deadline = time.monotonic() + 10
        while support.metric("llada_answers_cancelled_total") == before:
            self.assertLess(time.monotonic(), deadline, "the server goes on for a client that has left")
            time.sleep(0.05)

    def test_the_page_may_ask_through_it_and_a_stranger_may_not(self):
        page = httpx.get(self.proxy.url + "/")
        self.assertIn("text/html", page.headers["content-type"])
        self.assertIn("<title>", page.text)
        ask = lambda origin: httpx.post(self.proxy.url + "/v1/chat/completions", json=body(), timeout=60,
                                        headers={"Origin": origin}).status_code
        self.assertEqual(ask(self.proxy.url), 200)
        self.assertEqual(ask("http://elsewhere.example"), 403)

    def test_the_documents_name_needs_its_option(self):
        def status(url):
            name = {"Host": "llada.example.org", "Origin": "http://llada.example.org"}
            return httpx.post(url + "/v1/chat/completions", json=body(), timeout=60, headers=name).status_code

        self.assertEqual(status(self.proxy.url), 403)
        named = support.Server("--allow-host", "llada.example.org")
        proxy = Proxy(named.port)
        try:
            self.assertEqual(status(proxy.url), 200)
        finally:
            proxy.stop()
            named.stop()


if __name__ == "__main__":
    unittest.main()
