"""Examples that only train: canvases packed with one skill each, of which the mask `decisive` hides only the results.

Masked one at a time in the middle of a known text, a result costs a forward pass of few tokens and is nearly the whole
loss; in an ordinary example it is one token of forty. `drill` is arithmetic, `lookup` finds what stands beside a word in
the prompt, `decisive_spans` says where the results stand, for the evaluated tasks as well.
"""
import re
from typing import NamedTuple

import stories
from words import CATEGORIES, COLORS, ITEMS, PEOPLE, PLAIN_WORDS, THINGS

MEASURES = [("is", "years old", "older", "younger"), ("is", "cm tall", "taller", "shorter"),
            ("weighs", "kg", "heavier", "lighter")]  # verb, unit, asks for more, asks for less
VERBS = ["likes", "has", "wants", "sells"]
LETTERS = "ABCDEFGHIJ"

# What a response is about: one alternative per kind of result, its group is the result.
_DECISIVE = {
    "drill": r"=(\d+)",
    "gsm-mini": r"=(\d+)|#### (\d+)",
    "lookup": r"(\d+) (?:years|cm|kg|is \w+ than \d+\.)|than (\d+)\.|answer is (\w+)|(\w+)$",
    "bool": r"(\d+)|(more|less) than|answer is (\w+)|^(yes|no)$|says that \w+ \w+ (\w+)|of \w+ is (\w+)|, (not|so) ",
    "choice": r"is (\d+)\.|option ([A-D])|Answer: ([A-D])|The (\w+) is|is an? (\w+)[.,]|each an? (\w+)",
}
DECISIVE = {task: re.compile(pattern, re.MULTILINE) for task, pattern in _DECISIVE.items()}
LOOKED_UP = {"lookup", "bool", "choice"}  # their decisive words stand in the prompt, if they are not a conclusion
KEY = re.compile(r"(\w+) (?:of \w+ is|is|weighs|likes|has|wants|sells) $|^(\w+) $")  # what stands before a result
ONLY_DECISIVE = {"drill", "lookup"}  # no other mask makes sense: their lines have nothing to do with each other


def decisive_spans(task, response):
    """-> [(begin, end)] in characters of the results that the rest of the response leads to; [] where nothing is
    singled out."""
    found = DECISIVE[task].finditer(response) if task in DECISIVE else []
    return [match.span(match.lastindex) for match in found]


class Source(NamedTuple):
    """Spans in characters. The response repeats key and result as the prompt has them."""
    result: tuple  # in the response
    source: tuple  # the same in the prompt
    key: tuple = None  # in the response: the word beside the result that says which of the prompt's facts is meant
    source_key: tuple = None  # the same in the prompt


def sources(example):
    """-> [Source] of the decisive words that stand in the prompt."""
    found = []
    for span in decisive_spans(example.task, example.response) if example.task in LOOKED_UP else []:
        text = example.response[slice(*span)]
        source = _letter_source if text in LETTERS else _fact_source
        found.append(source(example, span, text))
    return [source for source in found if source]


def _letter_source(example, span, letter):
    line = re.search(rf"^{letter}\. (\w+)$", example.prompt, re.MULTILINE)
    key = _places(line.group(1), example.response[:span[0]])[-1]
    return Source(span, (line.start(), line.start() + 1), key, line.span(1))


def _fact_source(example, span, text):
    begin, prompt = span[0], example.prompt
    key = KEY.search(example.response[example.response.rfind("\n", 0, begin) + 1:begin])
    if key and example.task != "choice":
        low = begin - len(key.string) + key.start(key.lastindex)
        key = (low, low + len(key.group(key.lastindex)))
        word = example.response[slice(*key)]
        for low, high in _places(example.response[low:span[1]], prompt)[:1]:  # a question may repeat the fact
            return Source(span, (high - len(text), high), key, (low, low + len(word)))
        for low, high in _places(f"{text} {word}", prompt):
            return Source(span, (low, low + len(text)), key, (high - len(word), high))
    places = _places(text, prompt)
    return Source(span, places[-1]) if places else None


def _places(words, text):
    return [match.span() for match in re.finditer(rf"\b{re.escape(words)}\b", text)]


def arithmetic(draw):
    """-> (prompt, response): ten or more unrelated equations."""
    return "Compute", "\n".join(_equation(draw) for _ in range(draw.number(10, 13)))


def _equation(draw):
    """The sums, differences and products that the stories need, small numbers more often than large ones."""
    small, kind = draw.chance(0.8), draw.random()
    if kind < 0.47:
        return stories.plus(draw.number(2, 80), draw.number(2, 20 if small else 50))
    if kind < 0.92:
        a = draw.number(4, 90)
        return stories.minus(a, draw.number(1, min(a - 1, 20 if small else 50)))
    return stories.times(*draw.numbers(*([(2, 10), (2, 10)] if small else [(3, 30), (2, 4)])))


def lookup(draw):
    """-> (prompt, response): the prompt lists facts, the response repeats them in another order, so that position says
    nothing and the word beside the known one has to be found."""
    return draw.choice([_owners, _owners, _colors, _colors, _measures, _options, _options, _options, _pairs, _verdicts])(draw)


def _shuffled(draw, lines):
    return "\n".join(draw.sample(lines, len(lines)))


def _owners(draw):
    verb, count = draw.choice(VERBS), draw.number(2, 8)
    facts = [(p.name, thing) for p, thing in zip(draw.people(count), draw.sample(THINGS, count))]
    lines = [f"The text says that {name} {verb} {thing}" for name, thing in facts]
    return " ".join(f"{name} {verb} {thing}." for name, thing in facts), _shuffled(draw, lines[:6])


def _colors(draw):
    owner, items = draw.person().name, draw.sample(ITEMS, draw.number(2, 8))
    lines = [f"The {item} of {owner} is {draw.choice(COLORS)}" for item in items]
    return ". ".join(lines) + ".", _shuffled(draw, lines)


def _measures(draw):
    """Two facts and their comparison per line, as the reasons of the bool task have them."""
    verb, unit, *_ = draw.choice(MEASURES)
    count = draw.number(2, 5)
    facts = list(zip((p.name for p in draw.people(count)), draw.sample(range(5, 99), count)))
    lines = []
    for _ in range(3):
        (a, x), (b, y) = draw.sample(facts, 2)
        lines.append(f"{a} {verb} {x} {unit} and {b} {verb} {y} {unit}, and {x} is {'more' if x > y else 'less'} than {y}.")
    return " ".join(f"{name} {verb} {value} {unit}." for name, value in facts), "\n".join(lines)


def _options(draw):
    """The forms of choice: the option named, then its letter."""
    count, numbers = draw.number(2, 6), draw.chance(0.5)
    words = draw.sample(range(1, 99), count) if numbers else draw.sample(PLAIN_WORDS, count)
    prompt = "Which one?\n" + "\n".join(f"{letter}. {word}" for letter, word in zip(LETTERS, words))
    form = draw.choice(["It is {}. That is option {}", "{} is option {}"] if numbers else
                       ["The {} is not. That is option {}", "The {} is a. That is option {}", "The {} is option {}"])
    return prompt, _shuffled(draw, [form.format(word, letter) for letter, word in zip(LETTERS, words)])


def _pairs(draw):
    """Bare pairs, the second of each looked up by the first, or the other way round."""
    count = draw.number(3, 10)
    left = draw.sample([p.name for p in PEOPLE], count)
    right = draw.sample(sum((CATEGORIES[kind] for kind in sorted(CATEGORIES)), []), count)
    backwards = draw.chance(0.5)
    lines = [f"{b} {a}" if backwards else f"{a} {b}" for a, b in zip(left, right)]
    return ", ".join(f"{a} {b}" for a, b in zip(left, right)), _shuffled(draw, lines)


def _verdicts(draw):
    """Nothing to look up: yes or no from what was asked and what is the case."""
    lines = []
    for _ in range(draw.number(3, 5)):
        (_, _, more, less), (x, y) = draw.choice(MEASURES), draw.sample(range(5, 99), 2)
        (a, b), asks_more = (p.name for p in draw.people(2)), draw.chance(0.5)
        reason = f"{x} is {'more' if x > y else 'less'} than {y}"
        answer = "yes" if (x > y) == asks_more else "no"
        lines.append(f"Is {a} {more if asks_more else less} than {b}? {reason}, so the answer is {answer}")
    return "Compare", "\n".join(lines)
