"""Scores: those of `llada score`, several at a time as one by one."""

from __future__ import annotations

import asyncio

import pytest

import llada
from conftest import SORT

ANSWERS = ["3 6 38 41 51", "51 41 38 6 3", "3 6", ""]


@pytest.mark.parametrize("options", [{}, {"method": "mc", "draws": 4, "seed": 5}, {"method": "pseudo"}], ids=str)
def test_as_the_program(model, command, options):
    flags = [text for key, value in options.items() for text in (f"--{key}", str(value))]
    for answer in ANSWERS[:3]:
        flags += ["--continuation", answer]
    expected = command("score", "--chat", "-p", SORT, *flags)
    found = model.score_many(SORT, ANSWERS[:3], **options)
    assert [score.log_probability for score in found] == [one["log_probability"] for one in expected["continuations"]]
    assert [score.greedy for score in found] == [bool(one["greedy"]) for one in expected["continuations"]]
    assert {score.forwards for score in found} == {expected["forwards"]}


def test_many_as_each_alone(model):
    together = model.score_many(SORT, ANSWERS)
    alone = [model.score(SORT, answer) for answer in ANSWERS]
    assert [(s.log_probability, s.tokens, s.greedy) for s in together] == [
        (s.log_probability, s.tokens, s.greedy) for s in alone
    ]
    assert together[0].log_probability > together[1].log_probability and together[0].greedy
    assert together[3].tokens == 0 and together[3].log_probability == 0
    assert together[0].forwards < sum(score.forwards for score in alone), "answers of one length begin alike"
    ids = [model.tokenize(answer) for answer in ANSWERS]
    assert model.score_many(model.chat_tokens([("user", SORT)]), ids) == together
    assert model.score_many(SORT, iter(ANSWERS)) == together
    assert asyncio.run(model.ascore_many(SORT, ANSWERS)) == together
    assert model.score_many(SORT, []) == []


def test_bad_continuations(model):
    with pytest.raises(TypeError, match="needed a list of texts"):
        model.score_many(SORT, "3 6")
    with pytest.raises(TypeError, match="found int, needed token ids"):
        model.score_many(SORT, [5])
    with pytest.raises(llada.InvalidError, match="continuation 2: "):
        model.score_many(SORT, [[1], [10**6]])
    with pytest.raises(llada.InvalidError, match="needed 1 for the method exact"):
        model.score_many(SORT, ANSWERS, method="exact")
