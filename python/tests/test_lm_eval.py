"""lm-evaluation-harness itself, by its own command line, on the examples that are here: the scores of `llada eval`."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

import llada
from conftest import SORT

pytest.importorskip("lm_eval", reason="lm-eval is not installed")
TASKS = pathlib.Path(__file__).with_name("lm_eval_tasks")
LIMIT = 4


def harness(model_path, task, out, *arguments, model_args=""):
    environment = {**os.environ, "LLADA_EVAL_LIMIT": str(LIMIT), "HF_HUB_OFFLINE": "1", "HF_HOME": str(out)}
    line = [sys.executable, "-m", "llada.lm_eval", "run", "--model", "llada", "--tasks", task, "--include_path",
            str(TASKS), "--model_args", f"pretrained={model_path},threads=1{model_args}", "--output_path", str(out),
            "--log_samples", *arguments]
    run = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stderr[-4000:]
    (results,) = out.rglob("results_*.json")
    (samples,) = out.rglob(f"samples_{task}_*.jsonl")
    return (json.loads(results.read_text())["results"][task],
            [json.loads(line) for line in samples.read_text().splitlines()])


def test_answers_score_as_llada_eval(model, model_path, command, tmp_path):
    # A stated length, since at this threshold what is written depends on how many masks follow.
    expected = command("eval", "--tasks", str(TASKS.parents[2] / "eval" / "eval_public.jsonl"), "--limit", str(LIMIT),
                       "--threshold", "0.5", "--gen-length", "128")["results"][0]["tasks"]
    results, samples = harness(model_path, "llada_answers", tmp_path, "--apply_chat_template", "--batch_size", "4",
                               model_args=",threshold=0.5,gen_length=128")
    assert len(samples) == 5 * LIMIT
    for task, numbers in expected.items():
        assert results[f"{task},none"] == pytest.approx(numbers["accuracy"]), task
    assert 0 < sum(numbers["accuracy"] for numbers in expected.values()) < len(expected), "a wrong answer among them"
    for sample in samples:
        assert sample["resps"][0][0] == model.generate(sample["doc"]["prompt"], threshold=0.5, gen_length=128).text


def lm(model_path, **arguments):
    from llada.lm_eval import LladaLM

    return LladaLM(model_path, threads=1, **arguments)


def asked(*arguments):
    from lm_eval.api.instance import Instance

    return Instance(request_type="generate_until", doc={}, arguments=arguments, idx=0)


def test_generation_arguments(model, model_path):
    under_test = lm(model_path)
    first, second = under_test.generate_until(
        [asked(SORT, {"until": ["41", ""], "max_gen_toks": 32, "do_sample": False, "temperature": 0.0}),
         asked(SORT, {"until": "51", "max_gen_toks": 32})], disable_tqdm=True)
    prompt = model.tokenize(SORT, bos=True)
    assert first == model.generate(prompt, gen_length=32, stop=["41"]).text
    assert second == model.generate(prompt, gen_length=32, stop=["51"]).text
    with pytest.raises(ValueError, match="typical_p"):
        under_test.generate_until([asked(SORT, {"typical_p": 0.5})])
    with pytest.raises(ValueError, match="do_sample"):
        under_test.generate_until([asked(SORT, {"do_sample": True})])
    with pytest.raises(ValueError, match="batch_size"):
        lm(model_path, batch_size="auto")
    with pytest.raises(TypeError, match="colour"):
        lm(model_path, colour="red")


def test_a_conversation_is_its_own_ids(model, model_path):
    under_test = lm(model_path)
    talk = [{"role": "user", "content": SORT}]
    text = under_test.apply_chat_template(talk)
    assert under_test.tok_encode(text) == model.chat_tokens(talk)
    talk_and_more = [*talk, {"role": "assistant", "content": "3 6"}]
    begun = under_test.apply_chat_template(talk_and_more, add_generation_prompt=False)
    assert under_test.tok_encode(begun) == model.chat_tokens(talk) + model.tokenize("3 6")


@pytest.mark.skipif(not llada.has_feature("score"), reason="the library was built without scoring")
def test_choices_score_as_the_model(model, model_path, tmp_path):
    results, samples = harness(model_path, "llada_choices", tmp_path)
    assert len(samples) == LIMIT
    for sample in samples:
        for choice, (answer,) in zip(sample["doc"]["choices"], sample["resps"]):
            score = model.score(sample["doc"]["question"], choice, raw=True)
            assert float(answer[0]) == pytest.approx(score.log_probability, abs=1e-6)
    assert 0 <= results["acc,none"] <= 1


@pytest.mark.skipif(not llada.has_feature("score"), reason="the library was built without scoring")
def test_rolling(model, model_path):
    under_test = lm(model_path)
    ids = model.tokenize(SORT)
    (found,) = under_test.loglikelihood_rolling([asked(SORT)], disable_tqdm=True)
    assert found == pytest.approx(model.score([under_test.prefix_token_id], ids).log_probability)
