#!/usr/bin/env python3
"""Answers that must fit a JSON schema, checked by another program's validator.

Lets models answer the schemas of tests/data/schemas.jsonl and others that are drawn at random from the supported
keywords, each on canvases of every length from the shortest that the form allows on, then some longer ones, at
temperature 0 and 1 in turn (every second schema begins with 1), under every preset. An answer that is not valid JSON,
or not valid by the schema as the package `jsonschema` sees it, is an error; so are a form that is refused and one that
fits a length below its shortest.

usage: check_forms.py [--schemas 200] [--each 10] [--random] MODEL ...
  --random   the first model, a folder of one safetensors file, with random weights too
  LLADA_LIBRARY names the library; needs the Python package jsonschema
"""

import argparse
import json
import pathlib
import random
import re
import shutil
import struct
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import jsonschema  # noqa: E402
import llada  # noqa: E402

LONGEST = 120  # of the shortest answers: others are left out


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
        unit = rng.choice([1, 1, 10, 1000])
        low = rng.randrange(-20 * unit, 20 * unit)
        return {"type": "number", rng.choice(["minimum", "exclusiveMinimum"]): low / unit,
                rng.choice(["maximum", "exclusiveMaximum"]): (low + rng.randrange(1, 30 * unit)) / unit}
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


def schemas(count, rng):
    """By hand, then drawn."""
    with open(ROOT / "tests" / "data" / "schemas.jsonl", encoding="utf-8") as lines:
        by_hand = [json.loads(line) for line in lines]
    return by_hand[:count] + [drawn(rng, 2) for _ in range(count - len(by_hand))]


def shortest(model, text):
    """The least gen_length that is not refused."""
    try:
        model.generate("x", json_schema=text, gen_length=1, temperature=0)
    except llada.InvalidError as error:
        found = re.search(r"needed (\d+) at least", str(error))
        if not found:
            raise
        return int(found[1])
    return 1


def with_random_weights(folder, place):
    """A copy of a model whose weights say nothing."""
    copy = pathlib.Path(place) / "random"
    shutil.copytree(folder, copy)
    data = bytearray((copy / "model.safetensors").read_bytes())
    header, = struct.unpack("<Q", data[:8])
    tensors = json.loads(data[8:8 + header])
    rng = random.Random(7)
    for name, tensor in tensors.items():
        if name == "__metadata__":
            continue
        if tensor["dtype"] != "BF16":
            raise SystemExit(f"check_forms: {name}: found {tensor['dtype']}, needed BF16")
        begin, end = (8 + header + offset for offset in tensor["data_offsets"])
        # Sign, an exponent from 2^-8 to 2^-1, a mantissa.
        values = (rng.getrandbits(1) << 15 | rng.randrange(119, 126) << 7 | rng.getrandbits(7)
                  for _ in range((end - begin) // 2))
        data[begin:end] = struct.pack(f"<{(end - begin) // 2}H", *values)
    (copy / "model.safetensors").write_bytes(data)
    return copy


def check(model, every_schema, each, rng, presets=("exact", "balanced", "fast")):
    """How many answers there were, and lines about those that are wrong."""
    answers, wrong = 0, []
    for number, schema in enumerate(every_schema):
        text = json.dumps(schema)
        least = shortest(model, text)
        if least > LONGEST:
            continue
        draft = jsonschema.Draft202012Validator
        validator = draft(schema, format_checker=draft.FORMAT_CHECKER)
        lengths = [least + i for i in range(each - each // 4)]
        lengths += [least + rng.randrange(each, 60) for _ in range(each - len(lengths))]
        for at, length in enumerate(lengths):
            options = {"gen_length": length, "temperature": (number + at) % 2, "seed": number}
            if presets:
                options["preset"] = rng.choice(presets)
            answer = str(model.generate("Fill it in.", json_schema=text, **options))
            answers += 1
            try:
                validator.validate(json.loads(answer))
            except (ValueError, jsonschema.ValidationError) as error:
                wrong.append(f"{text}\n  {options}\n  {answer!r}\n  {str(error).splitlines()[0]}")
    return answers, wrong


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: check_forms.py ")[1])
    parser.add_argument("--schemas", type=int, default=200)
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--random", action="store_true")
    parser.add_argument("models", nargs="+")
    asked = parser.parse_args()
    all_wrong = 0
    with tempfile.TemporaryDirectory() as place:
        models = asked.models + ([with_random_weights(asked.models[0], place)] if asked.random else [])
        for path in models:
            rng = random.Random(1)
            with llada.Model.load(str(path)) as model:
                answers, wrong = check(model, schemas(asked.schemas, rng), asked.each, rng)
            for line in wrong:
                print(line)
            print(f"{path}: {answers} answers to {asked.schemas} schemas, {len(wrong)} of them not valid", flush=True)
            all_wrong += len(wrong)
    return all_wrong > 0


if __name__ == "__main__":
    sys.exit(main())
