#!/usr/bin/env python3
"""Training examples: five tasks with answers that a program can check, three more that only train.

An example is {task, prompt, response, answer}, the record of eval/eval_public.jsonl. Everything is generated, and a
seed fixes it. The split is a property of the prompt, not of the run: a prompt whose MD5 falls into one of two of
forty buckets is held out for evaluation (bucket 0 is the public evaluation file, bucket 1 is left for other evaluations: decoding options are
tuned on it), and the rest may train. training_examples() enforces it, and refuses every prompt of the
evaluation file by its text as well.

    python3 tools/train/data.py            shows examples of every task
    python3 tools/train/data.py --check    checks the generator against eval/eval_public.jsonl
    python3 tools/train/data.py --tuning 200 gsm-mini json sort --out eval/tuning.jsonl    held-out examples
    python3 tools/train/data.py --more 1000 bool choice --out more.jsonl    more as in the evaluation file, none of it
"""
import argparse
import hashlib
import json
import pathlib
import re
import sys
from typing import NamedTuple

import drills
import stories
import words
from words import CATEGORIES, CITIES, COLORS, ITEMS, JOBS, PLAIN_WORDS, THINGS, Draw

EVAL_FILE = pathlib.Path(__file__).resolve().parents[2] / "eval" / "eval_public.jsonl"
BUCKETS, EVALUATION_BUCKET, TUNING_BUCKET = 40, 0, 1
HELD_OUT_BUCKETS = (EVALUATION_BUCKET, TUNING_BUCKET)


class Example(NamedTuple):
    task: str
    prompt: str
    response: str
    answer: str
    system: str = ""  # stands before the prompt


# ---------------------------------------------------------------- the tasks


def gsm_mini(draw):
    story = stories.any_story(draw)
    response = "\n".join(story.steps) + f"\n#### {story.answer}"
    return Example("gsm-mini", story.question, response, str(story.answer))


def sort(draw):
    numbers = [draw.number(1, 60) for _ in range(draw.number(4, 10))]
    rising = draw.chance(0.7)
    order = "smallest to largest" if rising else "largest to smallest"
    answer = " ".join(map(str, sorted(numbers, reverse=not rising)))
    return Example("sort", f"Sort the numbers from {order}: " + " ".join(map(str, numbers)), answer, answer)


def json_record(draw):
    text, record = draw.choice([_json_person, _json_order, _json_offer])(draw)
    answer = json.dumps(record)
    return Example("json", "Write as JSON: " + text, answer, answer)


def _json_person(draw):
    name, age, city, job = draw.person().name, draw.number(18, 70), draw.choice(CITIES), draw.choice(JOBS)
    text = draw.choice([f"{name} is {age} years old, lives in {city} and works as a {job}.",
                        f"{name} works as a {job} in {city} and is {age} years old.",
                        f"In {city} there lives a {job} named {name}, aged {age}."])
    return text, {"name": name, "age": age, "city": city, "job": job}


def _json_order(draw):
    name, (first, second) = draw.person().name, draw.sample(ITEMS, 2)
    m, n, total = draw.numbers((2, 9), (2, 9), (10, 99))
    text = f"{name} orders {m} of the item {first} and {n} of the item {second} for ${total}."
    items = [{"item": first, "qty": m}, {"item": second, "qty": n}]
    return text, {"customer": name, "items": items, "total": total}


def _json_offer(draw):
    name, city = draw.person().name, draw.choice(CITIES)
    item, color, price, stock = draw.choice(ITEMS), draw.choice(COLORS), draw.number(2, 60), draw.chance(0.5)
    text = (f"A {color} {item} costs ${price}. It is sold by {name} in {city} and is "
            f"{'in' if stock else 'out of'} stock.")
    return text, {"item": item, "color": color, "price": price, "seller": name, "city": city, "stock": stock}


def boolean(draw):
    """Yes or no: the response repeats the facts that decide, then the word alone on the last line."""
    prompt, reason, truth = draw.choice([_bool_measure, _bool_owner, _bool_color])(draw)
    answer = "yes" if truth else "no"
    return Example("bool", prompt, f"{reason}, so the answer is {answer}.\n{answer}", answer)


def _bool_measure(draw):
    verb, unit, more, less = draw.choice(drills.MEASURES)
    names = [p.name for p in draw.people(3)]
    values = draw.sample(range(5, 99), 3)
    (a, x), (b, y) = draw.sample(list(zip(names, values)), 2)
    asks_more = draw.chance(0.5)
    facts = " ".join(f"{n} {verb} {v} {unit}." for n, v in zip(names, values))
    reason = f"{a} {verb} {x} {unit} and {b} {verb} {y} {unit}, and {x} is {'more' if x > y else 'less'} than {y}"
    return f"{facts} Is {a} {more if asks_more else less} than {b}?", reason, (x > y) == asks_more


def _bool_owner(draw):
    names, things = [p.name for p in draw.people(3)], draw.sample(THINGS, 3)
    verb, who = draw.choice(drills.VERBS), draw.number(0, 2)
    truth = draw.chance(0.5)
    asked = things[who] if truth else draw.choice([t for t in things if t != things[who]])
    facts = " ".join(f"{n} {verb} {t}." for n, t in zip(names, things))
    reason = f"The text says that {names[who]} {verb} {things[who]}" + ("" if truth else f", not {asked}")
    return f"{facts} Is it true that {names[who]} {verb} {asked}?", reason, truth


def _bool_color(draw):
    owner, items = draw.person().name, draw.sample(ITEMS, 3)
    colors, which = [draw.choice(COLORS) for _ in items], draw.number(0, 2)
    truth = draw.chance(0.5)
    item, color = items[which], colors[which]
    asked = color if truth else draw.choice([c for c in COLORS if c != color])
    facts = " ".join(f"The {i} of {owner} is {c}." for i, c in zip(items, colors))
    reason = f"The {item} of {owner} is {color}" + ("" if truth else f", not {asked}")
    return f"{facts} Is the {item} {asked}?", reason, truth


def choice(draw):
    """Four options A to D; the response names the right one with a reason, then 'Answer: X'."""
    question, options, right, reason = draw.choice([_choice_number, _choice_odd_one, _choice_member])(draw)
    letter = "ABCD"[right]
    lines = "".join(f"\n{l}. {option}" for l, option in zip("ABCD", options))
    return Example("choice", question + lines, f"{reason} That is option {letter}.\nAnswer: {letter}", letter)


def _a(noun):
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _choice_number(draw):
    values, word = draw.sample(range(1, 99), 4), draw.choice(["largest", "smallest"])
    best = max(values) if word == "largest" else min(values)
    a, b, c, d = values
    return (f"Which number is the {word}?", values, values.index(best),
            f"The {word} of {a}, {b}, {c} and {d} is {best}.")


def _choice_odd_one(draw):
    common, odd = draw.sample(sorted(CATEGORIES), 2)
    options, right, stranger = draw.sample(CATEGORIES[common], 3), draw.number(0, 3), draw.choice(CATEGORIES[odd])
    options.insert(right, stranger)
    return ("Which one does not belong?", options, right,
            f"The others are each {_a(common)}. The {stranger} is {_a(odd)}, so it does not belong.")


def _choice_member(draw):
    kinds, right = draw.sample(sorted(CATEGORIES), 4), draw.number(0, 3)
    options = [draw.choice(CATEGORIES[kind]) for kind in kinds]
    return (f"Which one is {_a(kinds[right])}?", options, right, f"The {options[right]} is {_a(kinds[right])}.")


def copy(draw):
    """Not evaluated: copying and reversing words teaches attention to positions early."""
    text = [draw.choice(PLAIN_WORDS) for _ in range(draw.number(4, 12))]
    backwards = draw.chance(0.5)
    answer = " ".join(reversed(text) if backwards else text)
    order = "Reverse the words: " if backwards else "Repeat the words: "
    return Example("copy", order + " ".join(text), answer, answer)


def drill(draw):
    """Not evaluated: arithmetic, only the results masked (drills.py)."""
    prompt, response = drills.arithmetic(draw)
    return Example("drill", prompt, response, response)


def lookup(draw):
    """Not evaluated: finding what stands beside a word in the prompt, only the results masked (drills.py)."""
    prompt, response = drills.lookup(draw)
    return Example("lookup", prompt, response, response)


# Relative weights of the tasks, what phases of training draw from.
MIX = {gsm_mini: 0.5, boolean: 0.1, choice: 0.1, sort: 0.1, json_record: 0.1, copy: 0.1}
DRILLED = MIX | {drill: 0.065}
LOOKUPS = {lookup: 0.46, boolean: 0.16, choice: 0.16, gsm_mini: 0.14, sort: 0.04, json_record: 0.04}
BALANCED = {gsm_mini: 0.38, boolean: 0.2, choice: 0.09, sort: 0.12, json_record: 0.12, lookup: 0.04, drill: 0.05}
EVALUATED = {"gsm-mini", "json", "sort", "bool", "choice"}

# ---------------------------------------------------------------- split and streams


def bucket(prompt):
    return int(hashlib.md5(prompt.encode()).hexdigest()[:8], 16) % BUCKETS


def is_held_out(prompt):
    return bucket(prompt) in HELD_OUT_BUCKETS


def as_record(example):
    """As it stands in a file."""
    return {name: value for name, value in example._asdict().items() if value or name != "system"}


def held_out_examples(count, tasks, seed=2, held_in=TUNING_BUCKET):
    """`count` different examples of each named task that neither trained nor stand in the evaluation file."""
    forbidden = {example.prompt for example in read_examples()} if EVAL_FILE.exists() else set()
    out = {task: {} for task in tasks}
    for example in stream(seed):
        found = out.get(example.task)
        if found is not None and len(found) < count and bucket(example.prompt) == held_in:
            if example.prompt not in forbidden:
                found.setdefault(example.prompt, example)
        if all(len(found) == count for found in out.values()):
            return [example for found in out.values() for example in found.values()]


def read_examples(path=EVAL_FILE, per_task=None):
    """Examples of a .jsonl file in its order, at most `per_task` of each task."""
    taken, out = {}, []
    for line in pathlib.Path(path).read_text().splitlines():
        record = json.loads(line)
        example = Example(**{field: record[field] for field in Example._fields if field in record})
        taken[example.task] = taken.get(example.task, 0) + 1
        if per_task is None or taken[example.task] <= per_task:
            out.append(example)
    return out


def stream(seed, mix=None):
    """Endless examples of the mix {task function: weight}, both sides of the split."""
    draw, mix = Draw(seed), mix or MIX
    while True:
        yield draw.choices(list(mix), list(mix.values()))[0](draw)


def training_examples(count, seed, mix=None):
    """`count` examples that no evaluation holds. What is never evaluated has no split."""
    forbidden = {example.prompt for example in read_examples()} if EVAL_FILE.exists() else set()
    out = []
    for example in stream(seed, mix):
        if len(out) == count:
            return out
        held_out = example.task in EVALUATED and (is_held_out(example.prompt) or example.prompt in forbidden)
        if not held_out:
            out.append(example)


# ---------------------------------------------------------------- checks


def sentence_forms(example):
    """The example's sentences with names, things, places and numbers replaced by their class, so that what one
    template writes compares equal. Running totals combine events freely, which is why whole prompts are not compared."""
    text = re.sub(r"\d+", "N", f"{example.prompt}\n{example.response}")
    text = re.sub(r"(?m)^([A-D])\. \S+$", r"\1. OPTION", text)
    text = re.sub(r"[A-Za-z]+", lambda match: _WORD_CLASS.get(match.group().lower(), match.group()), text)
    text = re.sub(r"N( N)+", "NUMBERS", text)
    return {(example.task, sentence) for sentence in re.split(r"\n|(?<=[.?:]) ", text)}


_WORD_CLASS = {member.lower(): label for label, members in [
    *((kind.upper(), CATEGORIES[kind]) for kind in CATEGORIES), ("NAME", [p.name for p in words.PEOPLE]),
    ("PRONOUN", ["he", "she", "him", "her"]), ("CITY", CITIES), ("JOB", JOBS), ("COLOR", COLORS),
    ("THING", THINGS + ITEMS), ("DAY", words.WEEKDAYS)] for member in members}


def check(samples=40000):
    """-> list of complaints: an evaluation prompt that could train, or a sentence that the generator never writes."""
    held, train = read_examples(), training_examples(samples, seed=1)
    prompts = {example.prompt for example in held}
    complaints = [f"not held out by its hash: {prompt!r}" for prompt in sorted(prompts) if not is_held_out(prompt)]
    complaints += [f"trains on an evaluation prompt: {e.prompt!r}" for e in train if e.prompt in prompts]
    known = set().union(*map(sentence_forms, train))
    unknown = set().union(*map(sentence_forms, held)) - known
    complaints += [f"no template writes this sentence of {task}: {sentence!r}" for task, sentence in sorted(unknown)]
    print(f"{len(held)} evaluation examples against {samples} training examples, {len(known)} forms of sentences")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--check", action="store_true", help="check split and templates against the evaluation file")
    modes.add_argument("--tuning", nargs="+", metavar=("N", "TASK"), help="write N held-out examples of each task to --out")
    modes.add_argument("--more", nargs="+", metavar=("N", "TASK"), help="the same, of the bucket of the evaluation file")
    parser.add_argument("--out", type=pathlib.Path, help="the file that --tuning and --more write")
    arguments = parser.parse_args()
    wanted = arguments.tuning or arguments.more
    if bool(wanted) != bool(arguments.out):
        parser.error("needed --out FILE with --tuning and --more, and with nothing else")
    if wanted:
        if set(wanted[1:]) - EVALUATED or not wanted[0].isdigit():
            parser.error(f"--tuning, --more: needed a number and tasks of {sorted(EVALUATED)}")
        seed_and_bucket = (2, TUNING_BUCKET) if arguments.tuning else (3, EVALUATION_BUCKET)
        examples = held_out_examples(int(wanted[0]), wanted[1:], *seed_and_bucket)
        arguments.out.write_text("".join(json.dumps(as_record(example)) + "\n" for example in examples))
        return
    if not arguments.check:
        draw = Draw(0)
        for task in [*MIX, drill, lookup]:
            example = task(draw)
            print(f"--- {example.task}\n{example.prompt}\n=>\n{example.response}\n")
        return
    complaints = check()
    print("\n".join(complaints) or "ok")
    sys.exit(bool(complaints))


if __name__ == "__main__":
    main()
