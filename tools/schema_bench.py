#!/usr/bin/env python3
"""How many schemas of a public suite the program takes, and whether its answers are valid by them.

The suite is a folder of folders ("parts") of JSON schemas, such as the `data` of JSONSchemaBench, fetched beside the
checkout. Of each part some schemas are drawn, each is asked for once in one `llada batch`, and the answers are judged
by the Python package jsonschema, formats included, and multiples as decimals. Schemas that are no valid schemas by
their own draft, and answers whose schema the package cannot follow (other documents), are counted apart.

usage: schema_bench.py LLADA MODEL SUITE [--each 50] [--seed 1] [--parts NAME ...] [--tokens 400] [--strict]
                       [--show 5]
"""

import argparse
import collections
import fractions
import json
import pathlib
import random
import re
import subprocess
import tempfile
import time

import jsonschema
from jsonschema.validators import extend, validator_for


def multiple_of(validator, step, instance, schema):
    if validator.is_type(instance, "number") and fractions.Fraction(str(instance)) % fractions.Fraction(str(step)):
        yield jsonschema.ValidationError(f"{instance} is no multiple of {step}")


def validator_of(schema):
    known = validator_for(schema, default=jsonschema.Draft202012Validator)
    known.check_schema(schema)
    return extend(known, {"multipleOf": multiple_of})(schema, format_checker=known.FORMAT_CHECKER)


def drawn(suite, parts, each, seed):
    rng = random.Random(seed)
    for part in parts or sorted(p.name for p in suite.iterdir() if p.is_dir()):
        files = sorted((suite / part).glob("*.json"))
        for file in rng.sample(files, min(each, len(files))):
            try:
                schema = json.loads(file.read_text(encoding="utf-8"))
                yield part, file.name, schema, validator_of(schema)
            except (ValueError, jsonschema.SchemaError):
                yield part, file.name, None, None


def judged(text, validator):
    try:
        error = next(validator.iter_errors(json.loads(text)), None)
    except ValueError:
        return "invalid", "no JSON"
    except Exception as error:  # of a reference that the package cannot follow
        return "unchecked", type(error).__name__
    return ("invalid", error.message) if error else ("valid", "")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("suite", type=pathlib.Path)
    parser.add_argument("--each", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parts", nargs="*")
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--show", type=int, default=5)
    asked = parser.parse_args()

    rows = [row for row in drawn(asked.suite, asked.parts, asked.each, asked.seed)]
    counts = collections.defaultdict(collections.Counter)
    reasons, shown, slowest = collections.Counter(), collections.defaultdict(list), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder, "in.jsonl"), pathlib.Path(folder, "out.jsonl")
        with source.open("w", encoding="utf-8") as file:
            for number, (part, name, schema, _) in enumerate(rows):
                form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": asked.strict}}
                body = {"messages": [{"role": "user", "content": "Write an example."}], "max_tokens": asked.tokens,
                        "response_format": form}
                if schema is None:
                    counts[part]["no schema"] += 1
                else:
                    line = {"custom_id": str(number), "method": "POST", "url": "/v1/chat/completions", "body": body}
                    file.write(json.dumps(line) + "\n")
        begin = time.time()
        command = [asked.program, "batch", asked.model, str(source), str(target)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seconds = time.time() - begin
        if not target.exists():
            raise SystemExit(done.stdout)
        for line in target.read_text(encoding="utf-8").splitlines():
            reply = json.loads(line)
            part, name, _, validator = rows[int(reply["custom_id"])]
            count = counts[part]
            count["asked"] += 1
            body = (reply.get("response") or {}).get("body") or {}
            if "choices" not in body:
                message = str((body.get("error") or reply.get("error") or {}).get("message"))
                count["refused"] += 1
                reason = re.sub(r"^[^ ]*: ", "", message)[:70]
                reasons[reason] += 1
                shown[reason].append(f"{part}/{name}: {message[:160]}")
                continue
            count["taken"] += 1
            count["warned"] += bool(body.get("warnings"))
            choice = body["choices"][0]
            verdict, why = judged(choice["message"]["content"], validator)
            count[verdict + (", warned" if verdict == "invalid" and body.get("warnings") else "")] += 1
            if verdict == "invalid":
                reason = "INVALID" + (" (warned)" if body.get("warnings") else "")
                reasons[reason] += 1
                shown[reason].append(f"{part}/{name}: {why[:100]}: {choice['message']['content'][:200]}")
            slowest[f"{part}/{name}"] = body.get("usage", {}).get("seconds", 0)

    columns = ["asked", "taken", "warned", "refused", "valid", "invalid", "invalid, warned", "unchecked", "no schema"]
    print("| part | " + " | ".join(columns) + " | taken % |")
    print("|---" * (len(columns) + 2) + "|")
    total = sum(counts.values(), collections.Counter())
    for part, count in [*counts.items(), ("all", total)]:
        share = 100 * count["taken"] / max(count["asked"], 1)
        print(f"| {part} | " + " | ".join(str(count[c]) for c in columns) + f" | {share:.1f} |")
    print(f"\n{seconds:.1f} s in all; slowest answers: " +
          ", ".join(f"{name} {one:.2f} s" for name, one in slowest.most_common(3)))
    for reason, count in reasons.most_common():
        print(f"{count:4} {reason}")
        for one in shown[reason][: asked.show]:
            print("       " + one)


if __name__ == "__main__":
    main()
