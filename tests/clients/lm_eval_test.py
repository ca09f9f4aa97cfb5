"""lm-evaluation-harness, unmodified, over HTTP: the scores of `llada eval` on the task files that are here, and
log-likelihoods that are the model's own logits."""

import array
import json
import math
import os
import subprocess
import unittest

import httpx

import support

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=str(support.ROOT / "build/clients-cache"),
                  OPENAI_API_KEY="none")

import lm_eval  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

LIMIT = 20


def evaluate(model, route, task, **options):
    os.chdir(support.ROOT)  # the task files name the examples from there
    args = {"model": support.NAME, "base_url": support.server().url + route, **options}
    manager = TaskManager(include_path=str(support.ROOT / "tests/clients/lm_eval"), include_defaults=False)
    return lm_eval.simple_evaluate(model=model, model_args=args, tasks=[task], task_manager=manager, limit=LIMIT,
                                   bootstrap_iters=0, apply_chat_template=model == "local-chat-completions")


def ids_of(text):
    body = {"prompt": text, "add_special_tokens": False}
    return httpx.post(support.server().url + "/tokenize", json=body).json()["tokens"]


def log_probability(ids, token):
    """Of a token in place of a mask behind `ids`, from the logits of `llada logits`."""
    mask = json.loads(subprocess.run([support.LLADA, "inspect", "-m", support.model(), "--json"], check=True,
                                     capture_output=True).stdout)["config"]["special_ids"]["mask"]
    out = support.ROOT / "build/clients-rows.f32"
    said = subprocess.run([support.LLADA, "logits", "-m", support.model(), "--ids", "-", "-o", str(out), "--json"],
                          input=" ".join(map(str, ids + [mask])), text=True, check=True, capture_output=True)
    vocabulary = json.loads(said.stdout)["vocab"]
    logits = array.array("f", out.read_bytes())[-vocabulary:]
    out.unlink()
    most = max(logits)
    return logits[token] - most - math.log(sum(math.exp(x - most) for x in logits))


class Generation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tasks = str(support.ROOT / "eval/eval_public.jsonl")
        done = subprocess.run([support.LLADA, "eval", "-m", support.model(), "--tasks", tasks, "--limit", str(LIMIT),
                               "--no-reference", "--json", "--compare",
                               "served: --preset-decode balanced --gen-length 128"], check=True, capture_output=True)
        cls.tasks = json.loads(done.stdout)["results"][0]["tasks"]

    def test_chat(self):
        for task, name, metric in (("llada_sort", "sort", "exact_match,none"),
                                   ("llada_gsm_mini", "gsm-mini", "exact_match,number")):
            found = evaluate("local-chat-completions", "/v1/chat/completions", task, num_concurrent=4)
            self.assertAlmostEqual(found["results"][task][metric], self.tasks[name]["accuracy"], msg=task)
            self.assertEqual(found["n-samples"][task]["effective"], self.tasks[name]["n"])

    def test_completions_of_token_ids(self):
        found = evaluate("local-completions", "/v1/completions", "llada_sort_template", tokenizer_backend="remote",
                         batch_size=4)
        share = found["results"]["llada_sort_template"]["exact_match,none"]
        self.assertAlmostEqual(share, self.tasks["sort"]["accuracy"])


class Likelihood(unittest.TestCase):
    def test_choices_have_the_models_own_probabilities(self):
        found = evaluate("local-completions", "/v1/completions", "llada_choice", tokenizer_backend="auto",
                         num_concurrent=4)
        samples = found["samples"]["llada_choice"]
        self.assertEqual(len(samples), LIMIT)
        for sample in samples[:3]:
            expected = []
            for arguments in sample["arguments"]:
                context, letter = arguments[:2]
                whole, before = ids_of(context + letter), ids_of(context)
                self.assertEqual(whole[: len(before)], before)
                self.assertEqual(len(whole), len(before) + 1)
                expected.append(log_probability(before, whole[-1]))
            given = [float(answer[0][0]) for answer in sample["resps"]]
            for i, (one, other) in enumerate(zip(given, expected)):
                self.assertAlmostEqual(one, other, delta=1e-3 + 1e-4 * abs(other), msg=f"{sample['doc_id']} {i}")
        chosen = [max(range(4), key=lambda i: float(sample["resps"][i][0][0])) for sample in samples]
        right = sum("ABCD"[letter] == sample["doc"]["answer"] for letter, sample in zip(chosen, samples))
        self.assertAlmostEqual(found["results"]["llada_choice"]["acc,none"], right / LIMIT)
        self.assertGreater(right / LIMIT, 0.8)


if __name__ == "__main__":
    unittest.main()
