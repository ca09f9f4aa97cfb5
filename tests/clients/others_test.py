"""Other public clients, unmodified and with the fields that they add by themselves: LiteLLM (which aider and many
agents use), llm, Inspect, Mistral's; and the bodies of guidellm, which needs PyTorch."""

import asyncio
import json
import os
import pathlib
import tempfile
import unittest

import support

SORT = support.examples("sort", 3)[2]["prompt"]
TOO_LONG = "12 " * 700
FOLDER = tempfile.TemporaryDirectory()  # where programs keep their settings and logs
os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LLM_USER_PATH": FOLDER.name, "HF_HUB_OFFLINE": "1",
               "INSPECT_LOG_DIR": FOLDER.name, "INSPECT_DISPLAY": "none"}


def url():
    return support.server().url + "/v1"


def chat(prompt):
    return [{"role": "user", "content": prompt}]


class LiteLlm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import litellm
        litellm.suppress_debug_info = True
        cls.litellm = litellm

    def ask(self, prompt, model="openai/" + support.NAME, **options):
        return self.litellm.completion(model=model, api_base=url(), api_key="none", messages=chat(prompt), max_retries=0,
                                       **options)

    def test_answers(self):
        expected = support.run(SORT)["text"]
        for model in ("openai/", "hosted_vllm/", "lm_studio/"):
            with self.subTest(model):
                answer = self.ask(SORT, model + support.NAME, temperature=0, top_p=0.95)
                self.assertEqual(answer.choices[0].message.content, expected)
        pieces = self.ask(SORT, stream=True, max_tokens=4096)
        self.assertEqual("".join(piece.choices[0].delta.content or "" for piece in pieces), expected)

    def test_overflow_is_recognised(self):
        """aider and other agents shorten the conversation and go on where they see this error."""
        for options in ({}, {"max_tokens": 64}, {"stream": True}):
            with self.subTest(options), self.assertRaises(self.litellm.ContextWindowExceededError):
                self.ask(TOO_LONG, **options)

    def test_anthropics_protocol_by_its_bridge(self):
        """By /v1/responses, with include and truncation, and by /v1/chat/completions."""
        for model in ("openai/", "hosted_vllm/"):
            with self.subTest(model):
                answer = asyncio.run(self.litellm.anthropic.messages.acreate(
                    model=model + support.NAME, api_base=url(), api_key="none", messages=chat(SORT), max_tokens=100))
                self.assertEqual(answer["content"][0]["text"], support.run(SORT, length=100)["text"])


class Llm(unittest.TestCase):
    def test_chat_and_completions(self):
        (pathlib.Path(FOLDER.name) / "extra-openai-models.yaml").write_text("".join(
            f"- {{model_id: {name}, model_name: {support.NAME}, api_base: '{url()}', completion: {completion}}}\n"
            for name, completion in (("tiny-chat", "false"), ("tiny-text", "true"))))
        import llm
        model = llm.get_model("tiny-chat")
        for stream in (False, True):
            answer = model.prompt(SORT, key="none", stream=stream, top_p=0.9)
            self.assertEqual(answer.text(), support.run(SORT)["text"])
        self.assertTrue(llm.get_model("tiny-text").prompt("Sorted: 1 2 3", key="none", stream=False).text())


class Inspect(unittest.TestCase):
    def test_both_ways(self):
        from inspect_ai import Task, eval as run
        from inspect_ai.dataset import Sample
        from inspect_ai.scorer import exact
        found = support.examples("sort", 4)
        samples = [Sample(input=example["prompt"], target=example["answer"]) for example in found]
        samples.append(Sample(input=TOO_LONG, target="-"))
        task = Task(dataset=samples, scorer=exact())
        right = sum(support.run(example["prompt"])["text"] == example["answer"] for example in found)
        os.environ |= {"TINY_BASE_URL": url(), "TINY_API_KEY": "none"}
        for model, options in (("openai/", {"model_base_url": url(), "model_args": {"api_key": "none"}}),
                               ("openai-api/tiny/", {})):
            with self.subTest(model):
                log, = run(task, model=model + support.NAME, temperature=0, top_p=0.95, log_level="error", **options)
                self.assertEqual(log.status, "success", log.error)
                scores = [sample.scores["exact"].value for sample in log.samples]
                self.assertEqual(scores.count("C"), right)
                self.assertEqual(log.samples[-1].output.stop_reason, "model_length")


class Mistral(unittest.TestCase):
    def test_models_chat_and_gaps(self):
        from mistralai.client import Mistral as Client
        client = Client(api_key="none", server_url=support.server().url)
        model, = client.models.list().data
        self.assertEqual((model.TYPE if hasattr(model, "TYPE") else model.type, model.id), ("base", support.NAME))
        self.assertEqual(model.max_context_length, 256)
        answer = client.chat.complete(model=support.NAME, messages=chat(SORT), random_seed=3, safe_prompt=False)
        self.assertEqual(answer.choices[0].message.content, support.run(SORT)["text"])
        gap = {"model": support.NAME, "prompt": "Ken has 20+6=", "suffix": " puzzles.", "max_tokens": 2}
        whole = client.fim.complete(**gap).choices[0].message.content
        self.assertEqual(whole, "26")
        pieces = client.fim.stream(**gap, random_seed=3)
        self.assertEqual("".join(event.data.choices[0].delta.content for event in pieces), whole)


class GuideLlm(unittest.TestCase):
    # What its version 0.8.1 sends for one request of a load, with an answer's length and without.
    BODY = {"model": support.NAME, "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True}}

    def test_what_it_sends(self):
        import httpx
        for more, path in (({"messages": chat(SORT)}, "/chat/completions"), ({"prompt": SORT}, "/completions")):
            for length in ({}, {"max_completion_tokens": 20, "max_tokens": 20, "stop": None, "ignore_eos": True}):
                with self.subTest(path, **length):
                    answer = httpx.post(url() + path, json={**self.BODY, **more, **length}, timeout=30)
                    self.assertEqual(answer.status_code, 200, answer.text)
                    events = [json.loads(line[6:]) for line in answer.text.splitlines()
                              if line.startswith("data: {")]
                    counts = [event["usage"]["completion_tokens"] for event in events if event.get("usage")]
                    self.assertGreater(len(counts), 1)
                    self.assertEqual(counts, sorted(counts))
                    self.assertGreater(counts[-1], 0)


if __name__ == "__main__":
    unittest.main()
