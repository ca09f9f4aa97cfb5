#!/usr/bin/env python3
"""Answers that must fit a JSON schema, checked by another program's validator.

Draws schemas at random from the supported keywords, beside some written by hand, and lets a model answer each on
canvases from the shortest that the form allows on, at temperature 0 and 1, under every preset. An answer that is not
valid JSON, or not valid by the schema as the package `jsonschema` sees it, is an error; so is a form that is refused.

usage: check_forms.py MODEL [COUNT]     (LLADA_LIBRARY: the library; needs the Python package jsonschema)
"""

import json
import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import jsonschema  # noqa: E402
import llada  # noqa: E402

BY_HAND = [
    {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0,
     "maximum": 150}, "email": {"type": "string", "format": "email"}}, "required": ["name", "age"]},
    {"type": "object", "properties": {"sentiment": {"enum": ["good", "bad", "mixed"]}, "confidence": {"type": "number",
     "minimum": 0, "maximum": 1}}, "required": ["sentiment", "confidence"], "additionalProperties": False},
    {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer", "exclusiveMinimum": 0},
     "done": {"type": "boolean"}}, "required": ["id", "done"]}, "minItems": 1, "maxItems": 3},
    {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {"value": {"type": "integer"},
     "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2}}, "required": ["value"]}}},
    {"type": "object", "properties": {"date": {"type": "string", "format": "date"}, "time": {"type": "string",
     "format": "time"}, "id": {"type": "string", "format": "uuid"}}, "required": ["date"]},
    {"type": "object", "properties": {"code": {"type": "string", "pattern": "^[A-Z]{2}-\\d{3}$"}, "note": {"type":
     ["string", "null"], "maxLength": 12}}, "required": ["code", "note"]},
    {"anyOf": [{"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]},
               {"type": "object", "properties": {"result": {"type": "number"}}, "required": ["result"]}]},
    {},
]


def drawn(rng, depth):
    kinds = ["string", "pattern", "format", "integer", "number", "enum", "const", "boolean", "null"]
    kind = rng.choice(kinds + (["object"] * 5 + ["array"] * 2 + ["anyOf", "types"] if depth else []))
    if kind == "string":
        least = rng.randrange(3)
        return {"type": "string", "minLength": least, "maxLength": least + rng.randrange(1, 12)}
    if kind == "pattern":
        return {"type": "string", "pattern": rng.choice(["^[a-z]+$", "[0-9]", "^(ab|c)*d$", "^\\w{2,4}-\\d+$"])}
    if kind == "format":
        return {"type": "string", "format": rng.choice(["date", "time", "date-time", "email", "ipv4", "hostname"])}
    if kind == "integer":
        low = rng.randrange(-2000, 2000)
        return {"type": "integer", rng.choice(["minimum", "exclusiveMinimum"]): low,
                rng.choice(["maximum", "exclusiveMaximum"]): low + rng.randrange(2, 3000)}
    if kind == "number":
        low = rng.randrange(-20, 20)
        return {"type": "number", rng.choice(["minimum", "exclusiveMinimum"]): low,
                rng.choice(["maximum", "exclusiveMaximum"]): low + rng.randrange(1, 30)}
    if kind == "enum":
        return {"enum": rng.sample(["red", "gr\u00fcn", 'a"b', 1, -2.5, None, True, [1, {"a": 2}]], 3)}
    if kind == "const":
        return {"const": rng.choice(["fixed", 7, None, {"k": [1, "x"]}])}
    if kind == "array":
        least = rng.randrange(2)
        return {"type": "array", "items": drawn(rng, depth - 1), "minItems": least, "maxItems": least + 2}
    if kind == "anyOf":
        return {"anyOf": [drawn(rng, depth - 1) for _ in range(2)]}
    if kind == "types":
        return {"type": rng.sample(["string", "integer", "boolean", "null"], 2)}
    if kind == "object":
        names = rng.sample(["name", "id", "size", "note", "tags", "state", "price", "when"], rng.randrange(1, 5))
        return {"type": "object", "properties": {n: drawn(rng, depth - 1) for n in names},
                "required": [n for n in names if rng.random() < 0.6], "additionalProperties": False}
    return {"type": kind}


def shortest(model, schema):
    try:
        model.generate("x", json_schema=schema, gen_length=1, temperature=0)
    except llada.InvalidError as error:
        found = re.search(r"needed (\d+) at least", str(error))
        if not found:
            raise
        return int(found[1])
    return 1


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    rng = random.Random(1)
    answers = wrong = 0
    presets = ["exact", "balanced", "fast", "long", "npu"]
    with llada.Model.load(sys.argv[1]) as model:
        for number in range(count):
            schema = BY_HAND[number] if number < len(BY_HAND) else drawn(rng, 2)
            text = json.dumps(schema)
            least = shortest(model, text)
            if least > 120:
                continue
            draft = jsonschema.Draft202012Validator
            validator = draft(schema, format_checker=draft.FORMAT_CHECKER)
            for length in (least, least + 1, least + rng.randrange(2, 10), least + 30):
                options = {"gen_length": length, "preset": rng.choice(presets), "temperature": rng.choice([0, 1])}
                answer = str(model.generate("Fill it in.", json_schema=text, seed=number, **options))
                answers += 1
                try:
                    validator.validate(json.loads(answer))
                except (ValueError, jsonschema.ValidationError) as error:
                    wrong += 1
                    print(f"{text}\n  {options}\n  {answer!r}\n  {str(error).splitlines()[0]}")
    print(f"{answers} answers to {count} schemas, {wrong} of them not valid")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
