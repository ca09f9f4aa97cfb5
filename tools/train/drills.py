"""Examples that only train: canvases packed with one skill each, of which the mask `decisive` hides only the results.

Masked one at a time in the middle of a known text, a result costs a forward pass of few tokens and is nearly the whole
loss; in an ordinary example it is one token of forty. `drill` is arithmetic, `lookup` finds what stands beside a word in
the prompt, `decisive_spans` says where the results stand, for the evaluated tasks as well.
"""
import re

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
    "lookup": r"(\d+) (?:years|cm|kg)|(more|less) than|(\w+)\.?$",
    "bool": r"(\d+)|(more|less) than|answer is (\w+)|^(yes|no)$|says that \w+ \w+ (\w+)|of \w+ is (\w+)|not (\w+)",
    "choice": r"is (\d+)\.|option ([A-D])|Answer: ([A-D])|The (\w+) is|is an? (\w+)[.,]|each an? (\w+)",
}
DECISIVE = {task: re.compile(pattern, re.MULTILINE) for task, pattern in _DECISIVE.items()}
ONLY_DECISIVE = {"drill", "lookup"}  # no other mask makes sense: their lines have nothing to do with each other


def decisive_spans(task, response):
    """-> [(begin, end)] in characters of the results that the rest of the response leads to; [] where nothing is
    singled out."""
    found = DECISIVE[task].finditer(response) if task in DECISIVE else []
    return [match.span(match.lastindex) for match in found]


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
    return draw.choice([_owners, _colors, _measures, _options, _options, _pairs])(draw)


def _shuffled(draw, lines):
    return "\n".join(draw.sample(lines, len(lines)))


def _owners(draw):
    verb, count = draw.choice(VERBS), draw.number(4, 9)
    facts = [(p.name, thing) for p, thing in zip(draw.people(count), draw.sample(THINGS, count))]
    lines = [f"The text says that {name} {verb} {thing}" for name, thing in facts]
    return " ".join(f"{name} {verb} {thing}." for name, thing in facts), _shuffled(draw, lines[:6])


def _colors(draw):
    owner, items = draw.person().name, draw.sample(ITEMS, draw.number(4, 9))
    lines = [f"The {item} of {owner} is {draw.choice(COLORS)}" for item in items]
    return ". ".join(lines) + ".", _shuffled(draw, lines)


def _measures(draw):
    """Two facts and their comparison per line, as the reasons of the bool task have them."""
    verb, unit, *_ = draw.choice(MEASURES)
    count = draw.number(3, 6)
    facts = list(zip((p.name for p in draw.people(count)), draw.sample(range(5, 99), count)))
    lines = []
    for _ in range(4):
        (a, x), (b, y) = draw.sample(facts, 2)
        lines.append(f"{a} {verb} {x} {unit} and {b} {verb} {y} {unit}, and {x} is {'more' if x > y else 'less'} than {y}.")
    return " ".join(f"{name} {verb} {value} {unit}." for name, value in facts), "\n".join(lines)


def _options(draw):
    count = draw.number(4, len(LETTERS))
    words = draw.sample(range(1, 99), count) if draw.chance(0.5) else draw.sample(PLAIN_WORDS, count)
    prompt = "\n".join(f"{letter}. {word}" for letter, word in zip(LETTERS, words))
    lines = [f"{'' if isinstance(word, int) else 'The '}{word} is option {letter}" for letter, word in zip(LETTERS, words)]
    return prompt, _shuffled(draw, lines)


def _pairs(draw):
    """Bare pairs, the second of each looked up by the first, or the other way round."""
    count = draw.number(6, 12)
    left = draw.sample([p.name for p in PEOPLE], count)
    right = draw.sample(sum((CATEGORIES[kind] for kind in sorted(CATEGORIES)), []), count)
    backwards = draw.chance(0.5)
    lines = [f"{b} {a}" if backwards else f"{a} {b}" for a, b in zip(left, right)]
    return ", ".join(f"{a} {b}" for a, b in zip(left, right)), _shuffled(draw, lines)
