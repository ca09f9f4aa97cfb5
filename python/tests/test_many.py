"""Many prompts in shared forwards; many threads on one model."""

from __future__ import annotations

import itertools
import random
import threading

import pytest

import llada
from conftest import FACTS, GAPS, QUICK, SORT, eval_prompts


def test_64_prompts_as_one_by_one(model):
    prompts = eval_prompts(64)
    assert len(set(prompts)) == 64
    together = list(model.generate_many(prompts, streams=4, **QUICK))
    for prompt, result in zip(prompts, together):
        alone = model.generate(prompt, **QUICK)
        assert (result.tokens, result.text, result.stats.forwards) == (alone.tokens, alone.text, alone.stats.forwards)
    assert len(together) == 64


def test_sampled_with_a_seed(model):
    options = {"temperature": 1.0, "seed": 3, **QUICK}
    together = [result.tokens for result in model.generate_many(eval_prompts(8), **options)]
    assert together == [model.generate(prompt, **options).tokens for prompt in eval_prompts(8)]


def test_forwards_are_shared(model_path):
    with llada.Model.load(model_path, threads=1, row_budget=512) as opened:
        results = list(opened.generate_many(eval_prompts(8), streams=4, steps=0, gen_length=32))
        stats = opened.engine_stats(4)
    assert stats.parts >= sum(result.stats.forwards for result in results) - 4, "the last forward may not be counted yet"
    assert stats.forwards < stats.parts / 2


def test_prompts_without_end(model):
    taken = []

    def prompts():
        for number in itertools.count():
            taken.append(number)
            yield f"Sort the numbers from smallest to largest: {number % 50} 7 3"

    first = list(itertools.islice(model.generate_many(prompts(), streams=2, **QUICK), 5))
    assert first[4].tokens == model.generate("Sort the numbers from smallest to largest: 4 7 3", **QUICK).tokens
    assert len(taken) < 5 + 2 * 4 + 1


def test_an_error_is_where_its_answer_would_be(model):
    found = model.generate_many([SORT, [10**6], FACTS], **QUICK)
    assert next(found).tokens == model.generate(SORT, **QUICK).tokens
    with pytest.raises(llada.InvalidError, match="1000000"):
        next(found)


def test_none_and_nonsense(model):
    assert list(model.generate_many([], **QUICK)) == []
    with pytest.raises(TypeError, match="needed a list"):
        next(model.generate_many("one text", **QUICK))
    with pytest.raises(TypeError, match="threshold"):
        next(model.generate_many([SORT], treshold=0.5, **QUICK))
    with pytest.raises(llada.InvalidError, match="streams"):
        next(model.generate_many([SORT], streams=0, **QUICK))


def run_threads(count, work):
    errors = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001: a thread's error is the test's
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert not errors, errors


def test_threads_on_one_model(model_path):
    with llada.Model.load(model_path, threads=1, row_budget=512, streams=3) as opened:
        answers = {prompt: opened.generate(prompt, **QUICK).tokens for prompt in (SORT, FACTS)}
        filled = opened.infill(GAPS, **QUICK).tokens

        def work(number):
            choice = random.Random(number)
            for _ in range(8):
                prompt = choice.choice([SORT, FACTS])
                kind = choice.randrange(6)
                if kind == 0:
                    assert opened.generate(prompt, **QUICK).tokens == answers[prompt]
                elif kind == 1:
                    stream = opened.stream(prompt, **QUICK)
                    assert list(stream) and stream.result.tokens == answers[prompt]
                elif kind == 2:
                    next(opened.stream(prompt, steps=0))  # and given up
                elif kind == 3:
                    assert opened.infill(GAPS, **QUICK).tokens == filled
                elif kind == 4:
                    assert opened.detokenize(opened.tokenize(prompt)) == prompt
                else:
                    many = opened.generate_many([SORT, FACTS], streams=choice.randrange(1, 4), **QUICK)
                    found = [result.tokens for result in many]
                    assert found == [answers[SORT], answers[FACTS]]

        run_threads(8, work)


def test_closed_while_others_ask(model_path):
    opened = llada.Model.load(model_path, threads=1, row_budget=512, streams=2)
    started = threading.Barrier(5)

    def work(_):
        started.wait()
        with pytest.raises(llada.LladaError, match="clos|freed|handle"):
            while True:
                opened.generate(SORT, steps=0, gen_length=200)

    closer = threading.Thread(target=lambda: (started.wait(), opened.close()))
    closer.start()
    run_threads(4, work)
    closer.join(60)
    assert opened.closed


def test_a_stream_from_two_threads(model):
    stream = model.stream(SORT, steps=0, gen_length=96)
    frames = []

    def work(_):
        try:
            for frame in stream:
                frames.append(frame.number)
        except llada.LladaError as error:
            assert error.name in ("LLADA_ERROR_BUSY", "LLADA_ERROR_HANDLE")

    run_threads(4, work)
    assert len(frames) == len(set(frames))


def test_a_stream_closed_by_another_thread(model):
    for _ in range(20):
        stream = model.stream(SORT, steps=0, gen_length=200)
        closer = threading.Thread(target=stream.close)
        closer.start()
        try:
            for frame in stream:
                assert len(frame.tokens) == 200
        except llada.ClosedError:
            pass
        closer.join(60)
