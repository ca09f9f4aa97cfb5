"""Decisions: the replies of the server's routes, from a list of questions or a dict of them."""

import asyncio
import math

import pytest

import llada

OLD = {"type": "predicate", "instructions": "Is Jane older than 40?"}
WHO = {"type": "choice", "instructions": "Who?", "choices": [{"value": "Jane"}, {"value": "Paul"}, {"value": True}]}


def test_a_list_and_a_dict_say_the_same(model):
    listed = model.decide([OLD, WHO], "Jane is 52 years old.")
    named = model.decide({"old": {"type": "noul", "instructions": OLD["instructions"]}}, "Jane is 52 years old.")
    assert named["answers"]["old"]["noul"] == listed["answers"][0]["probability"]
    assert [one["value"] for one in listed["answers"][1]["probabilities"]] == ["Jane", "Paul", True]
    assert sum(one["probability"] for one in listed["answers"][1]["probabilities"]) == pytest.approx(1)
    assert asyncio.run(model.adecide([OLD], "Jane is 52 years old."))["answers"] == listed["answers"][:1]


def test_the_definition_by_one_forward(model):
    text = (
        "Jane is 52 years old.\n\nWho?\nA. Jane\nB. Paul\n"
        "Answer with the letter of the option that fits best (A to B) only."
    )
    prompt = list(model.chat_tokens([("user", text)]))
    row = model.logits(prompt + [model.info.mask_token, model.info.eot_token], [len(prompt)])[0]
    first, second = (float(row[model.tokenize(letter)[0]]) for letter in "AB")
    question = {**WHO, "choices": WHO["choices"][:2]}
    said = model.decide([question], "Jane is 52 years old.")["answers"][0]["probabilities"][0]["probability"]
    assert said == pytest.approx(1 / (1 + math.exp(second - first)), abs=1e-5)


def test_what_is_wrong_is_named(model):
    with pytest.raises(llada.InvalidError, match="questions.0..choices: found 1, needed 2 to 255"):
        model.decide([{"type": "choice", "instructions": "a", "choices": [{"value": "b"}]}])
    with pytest.raises(llada.InvalidError, match="llada.nonsense: is not known here"):
        model.decide([OLD], nonsense=1)
