"""Answers that must fit a schema, as another program's validator sees them: a sample of tools/check_forms.py."""

from __future__ import annotations

import random
import sys

import pytest

from conftest import ROOT

pytest.importorskip("jsonschema", reason="needs the Python package jsonschema")
sys.path.insert(0, str(ROOT / "tools"))

import check_forms  # noqa: E402


def test_every_answer_is_valid(model, presets):
    rng = random.Random(3)
    schemas = check_forms.schemas(48, rng)
    answers, wrong = check_forms.check(model, schemas, 4, rng, ("balanced", "fast", "npu") if presets else ())
    assert wrong == []
    assert answers > 150


def test_the_validator_would_say_so():
    class Wrong:
        def generate(self, prompt, **options):
            return '{"age": 151, "name": 2}'

    answers, wrong = check_forms.check(Wrong(), check_forms.schemas(1, None), 4, random.Random(1), ())
    assert answers == len(wrong) == 4
