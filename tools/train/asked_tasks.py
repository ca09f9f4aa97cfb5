#!/usr/bin/env python3
"""What a server asks of a model beside texts: decisions, and answers where functions may be called.

Prompts are worded and laid out as llada.cpp does it: a decision as in src/engine/decide_prompt.cc, functions in the plain
layout of src/text/tool_calls.cc, which a family without one of its own gets. A prompt is held out by its MD5 together
with its system message; a decision also where the question itself is, which the tasks bool and choice have.

    python3 tools/train/asked_tasks.py                          shows an example of every task
    python3 tools/train/asked_tasks.py --write 100 FILE         held-out prompts with functions, 100 of each kind
    python3 tools/train/asked_tasks.py --ask URL FILE           asks them of a server (llada serve) and counts
"""
import argparse
import json
import pathlib
import urllib.request

import data
from data import Example
from tokenizer import Tokenizer
from words import CITIES, COLORS, ITEMS, WEEKDAYS, Draw

MODEL = data.EVAL_FILE.parents[1] / "models" / "tiny-llada"

WORDING = {"bool": "\nAnswer Yes or No only.",
           "choice": "\nAnswer with the letter of the option that fits best (A to D) only."}


def decision(draw):
    """A question of bool or choice, answered by its label alone."""
    asked = draw.choices([data.boolean, data.choice], [0.6, 0.4])[0](draw)
    answer = asked.answer.capitalize()
    return Example("decision", asked.prompt + WORDING[asked.task], answer, answer)


# ---------------------------------------------------------------- functions

# Name -> its arguments' types, and how users ask for it.
FUNCTIONS = {
    "weather": ({"city": "string"}, ["What is the weather in {city}?", "Is it warm in {city} today?",
                                     "Tell me if there is rain in {city}."]),
    "call": ({"name": "string"}, ["Call {name}.", "I want to talk to {name}.", "Can you call {name} for me?"]),
    "order": ({"item": "string", "qty": "integer"}, ["Order {qty} of the item {item}.", "I need {qty} of the item {item}.",
                                                     "Can you buy me {qty} of the item {item}?"]),
    "paint": ({"item": "string", "color": "string"}, ["Paint the {item} {color}.", "I want my {item} to be {color}.",
                                                      "Can you make the {item} {color}?"]),
    "pay": ({"name": "string", "total": "integer"}, ["Pay {name} ${total}.", "{name} should get ${total} from me.",
                                                     "I have to give {name} ${total}."]),
    "meet": ({"name": "string", "day": "string"}, ["I meet {name} on {day}.", "Tell {name} that we meet on {day}.",
                                                   "On {day} I want to see {name}."]),
}
TEXTS = {data.sort: 0.4, data.boolean: 0.3, data.choice: 0.3}  # what needs no function
REFUSAL = "I have no function for that."


def described(name):
    """The function as a client sends it."""
    types, _ = FUNCTIONS[name]
    return {"name": name, "parameters": {"type": "object", "properties": {key: {"type": kind} for key, kind in types.items()},
                                         "required": list(types)}}


def shown(names):
    """-> the system message"""
    lines = "".join(json.dumps(described(name)) + "\n" for name in names)
    return (f"Functions that may be called:\n{lines}To call one, answer:\n<tool_call>\n"
            '{"name": NAME, "arguments": OBJECT}\n</tool_call>')


def called(name, arguments):
    """-> the response"""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


def offer(draw):
    """One or two functions, and a request for one of them, for one that is not there, or for none."""
    kind = draw.choices(["call", "no-call", "text"], [0.5, 0.25, 0.25])[0]
    wanted, *others = draw.sample(sorted(FUNCTIONS), len(FUNCTIONS))
    names = others[:draw.few(1, 2) - (kind == "call")] + [wanted] * (kind == "call")
    system = shown(draw.sample(names, len(names)))
    if kind == "text":
        return draw.choices(list(TEXTS), list(TEXTS.values()))[0](draw)._replace(system=system)
    someone, other = (person.name for person in draw.people(2))
    values = dict(city=draw.choice(CITIES), name=someone, item=draw.choice(ITEMS), color=draw.choice(COLORS),
                  day=draw.choice(WEEKDAYS), qty=draw.number(2, 9), total=draw.number(10, 99))
    types, requests = FUNCTIONS[wanted]
    prompt = draw.choice(requests).format(**values)
    if draw.chance(0.3):
        prompt = draw.choice([f"I am {other}. ", f"{other} lives in {draw.choice(CITIES)}. "]) + prompt
    response = called(wanted, {key: values[key] for key in types}) if kind == "call" else REFUSAL
    return Example(kind, prompt, response, response, system)


MIX = {data.gsm_mini: 0.2, data.sort: 0.12, data.json_record: 0.08, data.boolean: 0.12, data.choice: 0.08, decision: 0.22,
       offer: 0.18}

# ---------------------------------------------------------------- split and files


def is_held_out(example):
    question = example.prompt
    for wording in WORDING.values():
        question = question.removesuffix(wording)
    return data.is_held_out(question) or data.is_held_out(example.system + example.prompt)


def training_stream(seed, shares=None):
    """Endless examples that no evaluation holds. shares: {task's name: factor of its share}"""
    factor = lambda task: (shares or {}).get(task.__name__, 1)
    mix = {task: share * factor(task) for task, share in MIX.items()}
    return (example for example in data.stream(seed, mix) if not is_held_out(example))


def held_out_offers(count, bucket, seed=4):
    """`count` different ones of each kind whose prompt is in this bucket of the split."""
    out = {"call": {}, "no-call": {}, "text": {}}
    for example in data.stream(seed, {offer: 1}):
        found = out.get(example.task, out["text"])
        if data.bucket(example.system + example.prompt) == bucket and len(found) < count:
            found.setdefault((example.system, example.prompt), example)
        if all(len(found) == count for found in out.values()):
            return [example for found in out.values() for example in found.values()]


def tuning_examples(count):
    """So many of each task, to look at while training."""
    found = {}
    for example in data.stream(6, MIX):
        if data.bucket(example.system + example.prompt) == data.TUNING_BUCKET:
            found.setdefault(example.task, []).append(example)
        if len(found) == 8 and all(len(examples) >= count for examples in found.values()):
            return [example for examples in found.values() for example in examples[:count]]


# ---------------------------------------------------------------- a server's answers


def ask(url, example, choice):
    """-> the server's message, tokens of its prompt, forwards"""
    functions = [json.loads(line) for line in example.system.splitlines() if line.startswith('{"name": "')]
    body = {"messages": [{"role": "user", "content": example.prompt}], "tool_choice": choice, "max_tokens": 128,
            "tools": [{"type": "function", "function": function} for function in functions]}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        answer = json.load(reply)
    return answer["choices"][0]["message"], answer["usage"]["prompt_tokens"], answer["usage"]["forwards"]


def judge(example, message):
    """-> whether a call was made where one was wanted, whether the name is right, whether all is"""
    calls, wanted = message.get("tool_calls") or [], example.task == "call"
    if not wanted or not calls:
        last = lambda text: (text or "").strip().split("\n")[-1]
        return bool(calls) == wanted, False, not wanted and not calls and last(message["content"]) == last(example.response)
    right = json.loads(example.response.split("\n")[1])
    made = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]
    return True, made[0][0] == right["name"], made == [(right["name"], right["arguments"])]


def report(url, examples, choice):
    """Prints a row for each kind of example."""
    tokenizer, rows = Tokenizer(MODEL), {}
    for example in examples:
        message, tokens, forwards = ask(url, example, choice)
        if (laid_out := len(tokenizer.chat(example.prompt, example.system))) != tokens:
            raise SystemExit(f"the server's prompt has {tokens} tokens, needed {laid_out}: another layout: {example.prompt}")
        kind = example.task if example.task in ("call", "no-call") else "text"
        rows.setdefault(kind, []).append((*judge(example, message), forwards))
    print("| wanted | n | call or text right | name right | all right | forwards |\n|---|---|---|---|---|---|")
    for kind, found in rows.items():
        chosen, named, right, forwards = zip(*found)
        names = sum(named) if kind == "call" else "-"
        print(f"| {kind} | {len(found)} | {sum(chosen)} | {names} | {sum(right)} | {sum(forwards) / len(found):.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", type=int, metavar="N", help="held-out prompts with functions, N of each kind")
    parser.add_argument("--ask", metavar="URL", help="of a server")
    parser.add_argument("--tool-choice", default="auto")
    parser.add_argument("file", type=pathlib.Path, nargs="?")
    args = parser.parse_args()
    if args.file and args.write:
        examples = held_out_offers(args.write, data.EVALUATION_BUCKET)
        args.file.write_text("".join(json.dumps(data.as_record(example)) + "\n" for example in examples))
        return
    if args.file and args.ask:
        report(args.ask, data.read_examples(args.file), args.tool_choice)
        return
    if args.file or args.write or args.ask:
        parser.error("needed --write N FILE or --ask URL FILE")
    draw = Draw(0)
    for task in (decision, decision, *[offer] * 6):
        example = task(draw)
        print(f"--- {example.task}\n{example.system}\n{example.prompt}\n=>\n{example.response}\n")


if __name__ == "__main__":
    main()
