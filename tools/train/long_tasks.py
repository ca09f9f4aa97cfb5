#!/usr/bin/env python3
"""Tasks with long answers: six kinds, 90 to 383 tokens each, which a program can check.

What makes them learnable for a small network: a response repeats the key (a letter, a name, a number) before what has to
be found beside it in the prompt, and writes every intermediate result (the rest of a list, a running total) where the next
step needs it. So each token follows from its line, the line before and one place in the prompt.

    python3 tools/train/long_tasks.py            shows an example of every task
    python3 tools/train/long_tasks.py --check    checks lengths, split and checkers
    python3 tools/train/long_tasks.py --write    writes eval/long_public.jsonl and eval/long_tuning.jsonl
"""
import argparse
import json
import pathlib
import re
import sys
from typing import NamedTuple

import data
from data import Example
from long_guides import decisive_spans
from tokenizer import Tokenizer
from words import CATEGORIES, CITIES, COLORS, ITEMS, JOBS, THINGS, Draw

MODEL = pathlib.Path(__file__).resolve().parents[2] / "models" / "tiny-llada"
EVAL_FILE, TUNING_FILE = (data.EVAL_FILE.with_name(f"long_{name}.jsonl") for name in ("public", "tuning"))
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
ANIMALS = CATEGORIES["animal"]
PLAIN_COLORS = COLORS[:8]


class Limits(NamedTuple):
    """Tokens, the end of the turn included."""
    low: int  # the shortest answer
    high: int  # the longest one
    prompt: int  # the longest prompt


# Twelve blocks of 32, and what is left of 768 positions.
EVALUATED = Limits(84, 384, 384)


def fitting(task, limits):
    """The task, drawn again until prompt and answer are within the limits."""
    tokenizer = Tokenizer(MODEL)

    def fit(draw):
        while True:
            example = task(draw)
            if limits.low <= len(tokenizer.encode(example.response)) + 1 <= limits.high and \
                    len(tokenizer.chat(example.prompt)) <= limits.prompt:
                return example
    return fit


def _lettered(lines):
    return "\n".join(f"{letter}. {line}" for letter, line in zip(LETTERS, lines))


# ---------------------------------------------------------------- word problems of six to twelve steps


def story(draw):
    """Events change what one or two people own; each step repeats its event and computes."""
    return draw.choice([_one_owner, _one_owner, _one_owner, _two_owners])(draw)


def _one_owner(draw):
    owner, friend = draw.people(2)
    things, total = draw.choice(THINGS), draw.number(8, 60)
    involved = draw.choice([0, 0, 0.3, 0.6])
    begin, events, steps = f"{owner.name} has {total} {things}.", [], []
    for _ in range(draw.few(2, 12)):
        make = _groups_event if draw.random() < involved else _event
        event, equations, total = make(draw, owner, friend, things, total)
        events.append(f"{event}.")
        steps.append(f"{event}: {equations}.")
    return Example("story", f"{begin}\n{_lettered(events)}\nHow many {things} does {owner.name} have in the end?",
                   f"{begin}\n{_lettered(steps)}\n#### {total}", str(total))


def _event(draw, owner, friend, things, total):
    """-> (event, equation, new total): one number."""
    if total < 8 or (total < 80 and draw.chance(0.5)):
        n = draw.number(2, 20)
        text = draw.choice([f"{owner.He} buys {n} more", f"{owner.He} finds {n} more", f"{owner.He} wins {n} in a game",
                            f"{friend.name} gives {owner.him} {n}", f"{owner.He} gets {n} from {friend.name}"])
        return text, f"{total}+{n}={total + n}", total + n
    n = draw.number(2, min(total - 1, 20))
    text = draw.choice([f"{owner.He} gives {n} to {friend.name}", f"{owner.He} loses {n}", f"{owner.He} sells {n}",
                        f"{owner.He} gives away {n}", f"{friend.name} takes {n}"])
    return text, f"{total}-{n}={total - n}", total - n


def _groups_event(draw, owner, friend, things, total):
    """The same with a product first."""
    count, each = draw.numbers((2, 6), (2, 7))
    n = count * each
    if total <= n or (total < 80 and draw.chance(0.5)):
        text = draw.choice([f"{owner.He} buys {count} bags with {each} {things} in each",
                            f"{owner.He} gets {each} {things} from each of {count} children"])
        return text, f"{count}*{each}={n}, {total}+{n}={total + n}", total + n
    text = draw.choice([f"{owner.He} sells {count} bags with {each} {things} in each",
                        f"{owner.He} gives {each} {things} to each of {count} children"])
    return text, f"{count}*{each}={n}, {total}-{n}={total - n}", total - n


def _two_owners(draw):
    first, second = draw.people(2)
    things, owns = draw.choice(THINGS), draw.numbers((12, 50), (12, 50))
    names, events, steps = (first.name, second.name), [], []
    begin = f"{names[0]} has {owns[0]} {things} and {names[1]} has {owns[1]}."
    for _ in range(draw.few(2, 11)):
        who, kind = draw.number(0, 1), draw.choice(["moves", "grows", "shrinks"])
        if kind == "grows" and owns[who] > 80:
            kind = "shrinks"
        if kind != "grows" and owns[who] < 4:
            kind = "grows"
        n = draw.number(2, 20 if kind == "grows" else min(owns[who] - 1, 15))
        changes = [0, 0]
        changes[who] = n if kind == "grows" else -n
        if kind == "moves":
            changes[1 - who] = n
            text = f"{names[who]} gives {n} to {names[1 - who]}"
        else:
            text = f"{names[who]} {draw.choice(['buys', 'finds', 'gets'] if kind == 'grows' else ['loses', 'sells'])} {n}"
        events.append(f"{text}.")
        parts = []
        for name, have, change in zip(names, owns, changes):
            parts.append(f"{name} {have}" + (f"{change:+d}={have + change}" if change else ""))
        steps.append(f"{text}: {', '.join(parts)}.")
        owns = [have + change for have, change in zip(owns, changes)]
    total = sum(owns)
    return Example("story", f"{begin}\n{_lettered(events)}\nHow many {things} do they have together in the end?",
                   f"{begin}\n{_lettered(steps)}\nTogether they have {owns[0]}+{owns[1]}={total}.\n#### {total}", str(total))


# ---------------------------------------------------------------- records to JSON and to tables


def records(draw):
    """A list of sentences, one record each, as JSON or as a table; the letter of a line is the record's id."""
    make, longest_json, longest_table = draw.choice([(_person, 10, 17), (_sale, 10, 17), (_offer, 9, 14)])
    as_json = draw.chance(0.5)
    count = draw.few(1, longest_json if as_json else longest_table)
    names = [p.name for p in draw.people(count)]
    form, forms_mixed = draw.number(0, 2), draw.chance(0.4)
    rows = [make(draw, name, draw.number(0, 2) if forms_mixed else form) for name in names]
    prompt = f"Write the {count} records as {'JSON' if as_json else 'a table'}.\n" + _lettered(text for text, _ in rows)
    filled = [{"id": letter, **fields} for letter, (_, fields) in zip(LETTERS, rows)]
    if as_json:
        answer = "[" + ",\n".join(json.dumps(fields) for fields in filled) + "]"
    else:
        answer = "\n".join(" | ".join(map(str, line)) for line in [filled[0], *(fields.values() for fields in filled)])
    return Example("records", prompt, answer, answer)


def _person(draw, name, form):
    age, city, job = draw.number(18, 70), draw.choice(CITIES), draw.choice(JOBS)
    text = [f"{name} is {age} years old, lives in {city} and works as a {job}.",
            f"{name} works as a {job} in {city} and is {age} years old.",
            f"In {city} there lives a {job} named {name}, aged {age}."][form]
    return text, {"name": name, "age": age, "city": city, "job": job}


def _sale(draw, name, form):
    item, color, count = draw.choice(ITEMS), draw.choice(PLAIN_COLORS), draw.number(2, 60)
    text = [f"{name} buys {count} of the {color} {item}.", f"The {color} {item} is sold to {name}, {count} of them.",
            f"{count} of the {color} {item} go to {name}."][form]
    return text, {"name": name, "item": item, "color": color, "qty": count}


def _offer(draw, name, form):
    item, price, city, stock = draw.choice(ITEMS), draw.number(2, 99), draw.choice(CITIES), draw.choice(["yes", "no"])
    state = "in" if stock == "yes" else "out of"
    text = [f"{name} in {city} sells the {item} for ${price}. It is {state} stock.",
            f"The {item} of {name} costs ${price} in {city} and is {state} stock.",
            f"For ${price} the {item} is sold by {name} in {city}. It is {state} stock."][form]
    return text, {"seller": name, "item": item, "price": price, "city": city, "stock": stock}


# ---------------------------------------------------------------- sorting with shown steps


def sort_steps(draw):
    """Selection sort: each line says what is taken and what is left."""
    numbers, rising = draw.sample(range(10, 100), draw.few(3, 13)), draw.chance(0.6)
    left, lines = list(numbers), []
    while len(left) > 1:
        taken = min(left) if rising else max(left)
        left.remove(taken)
        lines.append(f"Take {taken}, left {' '.join(map(str, left))}")
    answer = " ".join(map(str, sorted(numbers, reverse=not rising)))
    lines += [f"Take {left[0]}", f"Sorted: {answer}"]
    order = "smallest to largest" if rising else "largest to smallest"
    return Example("sort-steps", f"Sort with steps from {order}: {' '.join(map(str, numbers))}", "\n".join(lines), answer)


# ---------------------------------------------------------------- rewriting a text by rules


def rewrite(draw):
    """Each line is written as it is and as the rules make it."""
    lines = [_sentence(draw) for _ in range(draw.few(1, 14))]
    words = sorted({word for line in lines for word in line if word in _KIND})
    rules = {}
    for word in draw.sample(words, min(len(words), draw.number(1, 4))):
        rules[word] = draw.choice([other for other in _MEMBERS[_KIND[word]] if other != word])
    grows = draw.number(1, 9) if draw.chance(0.4) else 0
    told = [f"{word} becomes {other}" for word, other in rules.items()]
    told += [f"each number grows by {grows}"] if grows else []
    text = lambda words: " ".join(map(str, words)).replace(" .", ".")
    new = [[word + grows if isinstance(word, int) else rules.get(word, word) for word in line] for line in lines]
    answer = _lettered(f"{text(a)} Now: {text(b)}" for a, b in zip(lines, new))
    return Example("rewrite", f"Rewrite by these rules: {', '.join(told)}.\n{_lettered(map(text, lines))}", answer, answer)


_MEMBERS = {"name": ["Ann", "Ben", "Tom", "Eva", "Sam", "Leo", "Mia", "Max", "Zoe", "Dan"], "color": PLAIN_COLORS,
            "animal": ANIMALS, "item": ITEMS[:16]}
_KIND = {member: kind for kind, members in _MEMBERS.items() for member in members}


def _sentence(draw):
    """-> its words, numbers as int."""
    name, color, animal, item = (draw.choice(_MEMBERS[kind]) for kind in ("name", "color", "animal", "item"))
    n = draw.number(10, 89)
    return draw.choice([
        [name, "has", "a", color, item, "and", "a", animal, "."],
        ["The", color, animal, "of", name, "is", n, "years", "old", "."],
        ["The", item, "of", name, "is", color, "and", "costs", n, "dollars", "."],
        [name, "gives", n, "dollars", "for", "the", color, item, "."],
        [name, "buys", "a", item, "for", "the", animal, "."],
        ["The", animal, "takes", "the", color, item, "of", name, "."]])


# ---------------------------------------------------------------- filling a form from a story


_FIELDS = {
    "age": (lambda draw: draw.number(18, 70), "is {value} years old"),
    "city": (lambda draw: draw.choice(CITIES), "lives in {value}"),
    "job": (lambda draw: draw.choice(JOBS), "is a {value}"),
    "pet": (lambda draw: draw.choice(ANIMALS), "has a {value}"),
    "color": (lambda draw: draw.choice(PLAIN_COLORS), "likes {value}"),
    "room": (lambda draw: draw.number(100, 399), "has room {value}"),
    "item": (lambda draw: draw.choice(ITEMS), "buys the {value}"),
}


def form(draw):
    """A line a person. The story tells facts in any order, some that no field asks for; the form has its own order."""
    known = draw.sample(sorted(_FIELDS), draw.number(3, 6))
    fields = draw.sample(known, draw.number(max(3, len(known) - 1), min(5, len(known))))
    most = {3: 18, 4: 14, 5: 12}[len(fields)]
    people = [p.name for p in draw.people(draw.few(1, most) if draw.chance(0.8) else most)]
    values = {name: {field: _FIELDS[field][0](draw) for field in known} for name in people}
    told = _lettered(f"{name} " + ", ".join(_FIELDS[field][1].format(value=values[name][field])
                                            for field in draw.sample(known, len(known))) + "." for name in people)
    answer = _lettered(f"{name}: " + ", ".join(f"{field} {values[name][field]}" for field in fields) for name in people)
    return Example("form", f"Fill the form with {', '.join(fields)} for each person.\n{told}", answer, answer)


# ---------------------------------------------------------------- counting until the end is reached


def count(draw):
    return draw.choice([_count_to, _count_numbered, _multiples])(draw)


def _count_lines(numbers, bound, starts):
    """A sentence per number: how it follows from the one before, and what is left up to the bound. The count ends where
    that is less than a step. starts: what stands before each number."""
    lines, last = [], None
    for start, n in zip(starts, numbers):
        left = abs(bound - n)
        if last is None:
            lines.append(f"{start}{n}, and {left} are left.")
        else:
            step = abs(n - last)
            lines.append(f"{start}{last}{'+' if n > last else '-'}{step}={n}, and {left + step}-{step}={left} are left.")
        last = n
    return "\n".join(lines)


def _count_to(draw):
    """Numbers up to or down to a bound that need not be one of them."""
    step, up, low = draw.number(2, 9), draw.chance(0.6), draw.number(1, 60)
    length = draw.few(4, 15)
    numbers = list(range(low, low + step * length, step))
    past = draw.number(0, step - 1)
    first, bound = (low, numbers[-1] + past) if up else (numbers[-1], max(0, low - past))
    if not up:
        numbers.reverse()
    answer = _count_lines(numbers, bound, ["The number is "] * length)
    order = f"{'up' if up else 'down'} from {first} to {bound}"
    return Example("count", f"Count {order} in steps of {step}. That is {abs(bound - first)} away.", answer, answer)


def _count_numbered(draw):
    """Numbered lines, then how many there are."""
    step, low, length = draw.number(2, 9), draw.number(1, 60), draw.few(3, 14)
    bound = low + step * (length - 1) + draw.number(0, step - 1)
    numbers = range(low, bound + 1, step)
    lines = _count_lines(numbers, bound, [f"{i}. The number is " for i in range(1, len(numbers) + 1)])
    answer = f"{lines}\nThere are {len(numbers)} numbers."
    prompt = f"How many numbers are there from {low} to {bound}, which is {bound - low} away, in steps of {step}?"
    return Example("count", prompt, answer, answer)


def _multiples(draw):
    """The table of a number up to a bound."""
    factor, length = draw.number(2, 9), draw.few(4, 15)
    bound = factor * length + draw.number(0, factor - 1)
    numbers = range(0, factor * length + 1, factor)
    lines = _count_lines(numbers, bound, [""] + [f"{factor}*{i}=" for i in range(1, length + 1)])
    answer = lines.partition("\n")[2]  # no line says 0
    return Example("count", f"Write the multiples of {factor} up to {bound}.", answer, answer)


SHARES = {story: 0.22, records: 0.17, sort_steps: 0.16, rewrite: 0.16, form: 0.14, count: 0.15}
SHORT = {data.gsm_mini: 0.4, data.boolean: 0.25, data.choice: 0.1, data.sort: 0.12, data.json_record: 0.13}
SHORT_SHARE = 0.15  # of the examples
TASKS = {fitting(task, EVALUATED): share for task, share in SHARES.items()}
NAMES = ("story", "records", "sort-steps", "rewrite", "form", "count")

# ---------------------------------------------------------------- checkers


def extract_answer(task, text):
    """What is compared with the example's answer: the final result where the task has one, else the whole text."""
    text = text.strip()
    marker = {"story": "####", "sort-steps": "Sorted:"}.get(task)
    if marker:
        return text.split(marker)[1].strip() if marker in text else None
    return text


# ---------------------------------------------------------------- files and checks


def held_examples(count, bucket, seed=5):
    """`count` different examples of each long task whose prompt is in this bucket of the split."""
    out = {name: {} for name in NAMES}
    for example in data.stream(seed, TASKS):
        if data.bucket(example.prompt) == bucket and len(out[example.task]) < count:
            out[example.task].setdefault(example.prompt, example)
        if all(len(found) == count for found in out.values()):
            return [example for found in out.values() for example in found.values()]


def training_stream(seed, limits=EVALUATED, shares=None):
    """Endless examples that no evaluation file holds. shares: {task's name: factor of its share}"""
    factor = lambda task: (shares or {}).get(task.__name__.replace("_", "-"), 1)
    mix = {fitting(task, limits): (1 - SHORT_SHARE) * share * factor(task) for task, share in SHARES.items()}
    mix |= {task: SHORT_SHARE * share for task, share in SHORT.items()}
    return (example for example in data.stream(seed, mix) if not data.is_held_out(example.prompt))


def perturbed(example):
    """The response with one digit or letter of its last result changed."""
    at = max(i for i, char in enumerate(example.response) if char.isalnum())
    char = example.response[at]
    other = str((int(char) + 1) % 10) if char.isdigit() else ("b" if char == "a" else "a")
    return example.response[:at] + other + example.response[at + 1:]


def recomputed(example):
    """The answer of a story, a sort or a count from the prompt alone, by another way than the generator's; None for
    the tasks that copy."""
    numbers = [int(n) for n in re.findall(r"\d+", example.prompt)]
    if example.task == "sort-steps":
        return " ".join(map(str, sorted(numbers, reverse="from largest" in example.prompt)))
    if example.task == "story" and "together" not in example.prompt:
        total = numbers[0]
        for line in example.prompt.split("\n")[1:-1]:
            product = 1
            for n in re.findall(r"\d+", line):
                product *= int(n)
            total += product if re.search(r"buys|finds|wins|gives (her|him)|gets", line) else -product
        return str(total)
    if example.task == "story":
        total = sum(numbers[:2])
        for line in example.prompt.split("\n")[1:-1]:
            n = int(re.search(r"\d+", line).group())
            total += 0 if " gives " in line else n if re.search("buys|finds|gets", line) else -n
        return str(total)
    if example.task != "count":
        return None
    if example.prompt.startswith("Write"):
        step, bound = numbers
        counted, start = list(range(0, bound + 1, step)), lambda i: f"{step}*{i}="
    else:
        first, bound, step = numbers[:2] + [int(re.search(r"steps of (\d+)", example.prompt).group(1))]
        down = "down" in example.prompt
        counted = list(range(first, bound - 1, -step) if down else range(first, bound + 1, step))
        start = lambda i: ("" if example.prompt.startswith("Count") else f"{i + 1}. ") + "The number is "
    left = [max(bound, n) - min(bound, n) for n in counted]
    sign = "-" if "down" in example.prompt else "+"
    lines = [f"{start(i)}{counted[i - 1]}{sign}{step}={n}, and {left[i - 1]}-{step}={left[i]} are left." if i else
             f"{start(i)}{n}, and {left[i]} are left." for i, n in enumerate(counted)]
    if example.prompt.startswith("Write"):
        return "\n".join(lines[1:])
    if example.prompt.startswith("Count"):
        return "\n".join(lines)
    return "".join(f"{line}\n" for line in lines) + f"There are {len(lines)} numbers."


def check(samples=10000):
    """-> complaints"""
    tokenizer, complaints, lengths, prompts = Tokenizer(MODEL), [], {}, {}
    for example, _ in zip(data.stream(7, TASKS), range(samples)):
        where = f"{example.task}: {example.prompt[:60]!r}"
        answer, prompt = len(tokenizer.encode(example.response)) + 1, len(tokenizer.chat(example.prompt))
        lengths.setdefault(example.task, []).append(answer)
        prompts.setdefault(example.task, []).append(prompt)
        if not EVALUATED.low <= answer <= EVALUATED.high or prompt > EVALUATED.prompt:
            complaints.append(f"{where}: {prompt} + {answer} tokens")
        if extract_answer(example.task, example.response) != example.answer:
            complaints.append(f"{where}: the checker refuses the response")
        if extract_answer(example.task, perturbed(example)) == example.answer:
            complaints.append(f"{where}: the checker takes a wrong response")
        if recomputed(example) not in (None, example.answer):
            complaints.append(f"{where}: the answer is {example.answer}, not {recomputed(example)}")
        if not decisive_spans(example):
            complaints.append(f"{where}: no decisive words")
    for task in NAMES:
        ours = sorted(lengths[task])
        print(f"{task:10} answers {ours[0]} to {ours[-1]} tokens, median {ours[len(ours) // 2]}; prompts to {max(prompts[task])}")
        if ours[-1] < 4 * ours[0]:
            complaints.append(f"{task}: lengths vary by less than a factor of four")
    for path, bucket in ((EVAL_FILE, 0), (TUNING_FILE, data.TUNING_BUCKET)):
        for example in data.read_examples(path) if path.exists() else []:
            if data.bucket(example.prompt) != bucket:
                complaints.append(f"{path.name}: not of its bucket: {example.prompt[:60]!r}")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", type=int, nargs="?", const=200, metavar="N", help="N held-out examples of each task (200)")
    args = parser.parse_args()
    if args.write:
        for path, bucket in ((EVAL_FILE, 0), (TUNING_FILE, data.TUNING_BUCKET)):
            lines = [json.dumps(data.as_record(example)) + "\n" for example in held_examples(args.write, bucket)]
            path.write_text("".join(lines))
    elif args.check:
        complaints = check()
        print("\n".join(complaints[:20]) or "ok")
        sys.exit(bool(complaints))
    else:
        draw = Draw(0)
        for task in TASKS:
            example = task(draw)
            print(f"--- {example.task}\n{example.prompt}\n=>\n{example.response}\n")


if __name__ == "__main__":
    main()
