"""Answers that must fit a schema, as another program's validator sees them: a sample of tools/check_forms.py."""

from __future__ import annotations

import json
import random
import sys

import pytest

from conftest import ROOT

jsonschema = pytest.importorskip("jsonschema", reason="needs the Python package jsonschema")
sys.path.insert(0, str(ROOT / "tools"))

import check_forms  # noqa: E402


def test_every_answer_is_valid(model, presets):
    rng = random.Random(3)
    schemas = check_forms.schemas(48, rng)
    answers, wrong = check_forms.check(model, schemas, 4, rng, ("balanced", "fast") if presets else ())
    assert wrong == []
    assert answers > 150


def test_the_validator_would_say_so():
    class Wrong:
        def generate(self, prompt, **options):
            return '{"age": 151, "name": 2}'

    answers, wrong = check_forms.check(Wrong(), check_forms.schemas(1, None), 4, random.Random(1), ())
    assert answers == len(wrong) == 4


def test_the_table_of_keywords_is_right():
    """tests/data/schema_keywords.jsonl, which tests/forms reads, has the validator's verdicts. It asserts no formats
    that its package knows nothing of here, and compares multiples as doubles, which decimal steps are not."""
    for line in (ROOT / "tests/data/schema_keywords.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        schema = row["schema"]
        validator = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)(schema)
        for text in row["fits"]:
            assert validator.is_valid(json.loads(text)), (schema, text)
        for text in row["not"]:
            assert "format" in line or not is_json(text) or not validator.is_valid(json.loads(text)), (schema, text)


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
