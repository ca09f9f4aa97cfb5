"""What training is told about an answer: which of its words decide, and where what it copies stands.

Only training and its scores read this; the checkers of long_tasks.py do not.
"""
import re
from typing import NamedTuple

import drills
from tokenizer import token_ends, tokens_in

# Where training cuts: a sampler that writes left to right can go wrong at these characters (the group that matched).
_DECISIVE = {
    "story": r"=(\d+)|#### (\d+)|: (\d+)|, (\d+)|\w+ (\d+)[^:]*:", "records": r'": "?(\w+)|\| (\w+)|\}([,\]])',
    "sort-steps": r"Take (\d+)|(?:left|\d\d) (\d+)", "rewrite": r"Now: (.*)$",
    "form": r"\. (\w+):|[:,] (\w+ \w+)", "count": r"(\d+)"}
# Each line's end too: whether another one follows is decided there.
DECISIVE = {task: re.compile(rf"{pattern}|(\n)", re.MULTILINE) for task, pattern in _DECISIVE.items()}
# Whether a function is called, which one, with which values.
DECISIVE |= {"decision": re.compile(r"(\w+)"), "no-call": re.compile(r"^(.)"),
             "call": re.compile(r'^(.)|"name": "(\w+)", "arg|": "?(\w+)"?[,}]')}
# Their decisive words do not give each other away when all are hidden; in the others a later line repeats a result.
INDEPENDENT = {"records", "rewrite", "form"}


def decisive_spans(example):
    """-> [(begin, end)] in characters of the response."""
    if example.task not in DECISIVE:
        return drills.decisive_spans(example.task, example.response)
    return [match.span(match.lastindex) for match in DECISIVE[example.task].finditer(example.response)]


class Copied(NamedTuple):
    """Spans in characters: of the response, except where a flag says that they are of the prompt."""
    result: tuple
    source: tuple
    in_prompt: bool = True  # source and source_key
    key: tuple = None  # in the response, what says which source is meant
    source_key: tuple = None
    asked: bool = False  # result and key stand in the prompt, too: words of the question


def copied(example):
    """-> [Copied]: what the response copies and from where, with the keys (a line's letter, a name) of both places."""
    return _COPIED[example.task](example) if example.task in _COPIED else _short(example)


def _short(example):
    return [Copied(found.result, found.source, True, found.key, found.source_key) for found in drills.sources(example)]


def _decision(example):
    """What the question compares: a value for each of two names; what is said beside a name or a thing, for what is asked
    about it. Of options whose right one a word or a number alone tells, its letter."""
    text, letter = example.prompt, example.answer
    if option := re.search(rf"^{letter}\. (\w+)$", text, re.MULTILINE):
        one = text.startswith(("Which number", "Which one is a"))
        return [Copied((0, 1), (option.start(), option.start() + 1), True, None, option.span(1))] * one
    question = text.rindex(" Is ")
    if names := re.compile(r" Is (\w+) \w+ than (\w+)\?").match(text, question):
        facts = [re.search(rf"\b({names.group(i)}) \w+ (\d+) ", text) for i in (1, 2)]
        return [Copied(names.span(i), fact.span(2), True, None, fact.span(1), True) for i, fact in enumerate(facts, 1)]
    asked = re.compile(r" Is it true that (\w+) \w+ (\w+)\?| Is the (\w+) (\w+)\?").match(text, question)
    key, word = (1, 2) if asked.group(1) else (3, 4)
    fact = re.search(rf"\b({asked.group(key)}) (?:of \w+ is|\w+) (\w+)\.", text)
    return [Copied(asked.span(word), fact.span(2), True, asked.span(key), fact.span(1), True)]


def _lines(text):
    """-> {letter: match} of the lines 'A. ...', group 1 the letter, group 2 the rest."""
    return {match.group(1): match for match in re.finditer(r"^([A-Z])\. (.*)$", text, re.MULTILINE)}


def _word(word, text, begin=0, end=None):
    """The word's span between begin and end, or None."""
    match = re.compile(rf"\b{re.escape(word)}\b").search(text, begin, len(text) if end is None else end)
    return match and match.span()


def _story(example):
    """Each event from its line in the prompt."""
    told, out = _lines(example.prompt), []
    for letter, line in _lines(example.response).items():
        event = line.group(2).partition(":")[0]
        out.append(_copied_line(line, told[letter], len(event)))
    return out


def _copied_line(line, told, length):
    """The first `length` characters behind the letter, as the prompt has them."""
    low, source = line.start(2), told.start(2)
    return Copied((low, low + length), (source, source + length), True, line.span(1), told.span(1))


def _records(example):
    told, out = _lines(example.prompt), []
    for line in re.finditer(r'^(?:\[?{"id": "([A-Z])"|([A-Z]) \|).*$', example.response, re.MULTILINE):
        key = line.span(line.lastindex)
        theirs = told[example.response[slice(*key)]]
        for match in DECISIVE["records"].finditer(example.response, key[1], line.end()):
            span = match.span(match.lastindex)
            word = example.response[slice(*span)]
            if not word.isalnum():
                continue  # what ends the record
            word = {"yes": "in stock", "no": "out"}.get(word, word)
            place = _word(word, example.prompt, theirs.start(2), theirs.end())
            if place:
                out.append(Copied(span, place, True, key, theirs.span(1)))
    return out


def _rewrite(example):
    """The line from the prompt; the new line from the old one beside it, or a word's replacement from its rule."""
    told, out = _lines(example.prompt), []
    rules = {match.group(1): match for match in re.finditer(r"(\w+) becomes (\w+)", example.prompt.split("\n")[0])}
    for letter, line in _lines(example.response).items():
        old, _, new = line.group(2).partition(" Now: ")
        low = line.start(2)
        out.append(_copied_line(line, told[letter], len(old)))
        olds, news = (list(re.finditer(r"\w+", text)) for text in (old, new))
        begin = low + len(old) + len(" Now: ")
        for before, after in zip(olds, news):
            result, beside = (begin + after.start(), begin + after.end()), (low + before.start(), low + before.end())
            rule = rules.get(before.group())
            if rule:
                out.append(Copied(result, rule.span(2), True, beside, rule.span(1)))
            elif before.group() == after.group():
                out.append(Copied(result, beside, False))
    return out


def _form(example):
    """Names and values from the line with the letter; which field comes next from the list of the prompt, where the one
    before stands in front of it."""
    told, out, head = _lines(example.prompt), [], (0, example.prompt.index("\n"))
    for letter, line in _lines(example.response).items():
        theirs = told[letter]
        copy = lambda span: Copied(span, _word(example.response[slice(*span)], example.prompt, theirs.start(2), theirs.end()),
                                   True, line.span(1), theirs.span(1))
        out.append(copy((line.start(2), line.start(2) + line.group(2).index(":"))))
        before = None
        for found in re.compile(r"[:,] (\w+) (\w+)").finditer(example.response, line.start(2), line.end()):
            out.append(copy(found.span(2)))
            place = _word(found.group(1), example.prompt, *head)
            out.append(Copied(found.span(1), place, True, *before) if before else Copied(found.span(1), place))
            before = found.span(1), place
    return out


def _sort_steps(example):
    """Taken and left numbers from the list before: that of the prompt, then that of the line above."""
    out, text, low, high, in_prompt = [], example.prompt, example.prompt.index(":"), None, True
    for line in re.finditer(r"^Take (\d+)(?:, left (.*))?$", example.response, re.MULTILINE):
        for number in re.finditer(r"\d+", line.group()):
            place = _word(number.group(), text, low, high)
            out.append(Copied((line.start() + number.start(), line.start() + number.end()), place, in_prompt))
        text, in_prompt, (low, high) = example.response, False, line.span(2)
    return out


def _count(example):
    """The number and what is left from the line before, the step from the prompt (which also is the factor of a table)."""
    out, before = [], None
    step = re.search(r"steps of (\d+)|multiples of (\d+)", example.prompt)
    step = step.span(step.lastindex)
    for line in re.finditer(r"(?:(\d+)[+-](\d+)=)?(\d+), and (?:(\d+)-(\d+)=)?(\d+) are left", example.response):
        if line.group(1):
            out += [Copied(line.span(2), step), Copied(line.span(5), step)]
            if before:
                out += [Copied(line.span(1), before.span(3), False), Copied(line.span(4), before.span(6), False)]
        before = line
    return out


_COPIED = {"story": _story, "records": _records, "rewrite": _rewrite, "form": _form, "sort-steps": _sort_steps,
           "count": _count, "decision": _decision}


def guides(tokenizer, example, prompt, response):
    """-> lookups, hops: lists of (at, first, end, token), positions on the canvas, which count where the token is masked. A
    lookup: what `at` stands for, which is the token but for words of a question, stands already in [first, end). A hop:
    `at`, which asks or is the source, has its key in [first, end)."""
    shift, start, lookups, hops = tokenizer.decode(prompt).index(example.prompt), len(prompt), [], []
    ends = token_ends(tokenizer, prompt), token_ends(tokenizer, response)
    in_prompt = lambda span: tokens_in(tokenizer, prompt, [(span[0] + shift, span[1] + shift)], ends[0])
    in_response = lambda span: [start + i for i in tokens_in(tokenizer, response, [span], ends[1])]
    for found in copied(example):
        there = in_prompt if found.in_prompt else in_response
        here = in_prompt if found.asked else in_response
        results, source = here(found.result), there(found.source)
        key, source_key = here(found.key or (0, 0)), there(found.source_key or (0, 0))
        for k, at in enumerate(results):
            near = source[k:k + 1] if len(results) == len(source) and not found.asked else source
            told = start if found.asked else at
            lookups.append((at, near[0], near[-1] + 1, told))
            hops += [(at, key[0], key[-1] + 1, told)] if key else []
            hops += [(place, source_key[0], source_key[-1] + 1, told) for place in near] if source_key else []
    return lookups, hops
