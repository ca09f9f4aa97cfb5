"""Word problems for the gsm-mini task: short stories about small numbers, solved one equation per line.

Each template is a function Draw -> Story. Numbers are drawn so that every intermediate result stays positive and
below about 130: the tokenizer writes digits one by one, and the models are small.
"""
from typing import NamedTuple

from words import CITIES, COLORS, ITEMS, THINGS, WEEKDAYS


class Story(NamedTuple):
    question: str
    steps: list  # lines of the solution
    answer: int


def plus(a, b):
    return f"{a}+{b}={a + b}"


def minus(a, b):
    return f"{a}-{b}={a - b}"


def times(a, b):
    return f"{a}*{b}={a * b}"


# ---------------------------------------------------------------- one running total, two to four events


def running_total(draw):
    """Someone owns things; events add, remove or double them. The only template of variable length."""
    owner, friend = draw.people(2)
    things, total = draw.choice(THINGS), draw.number(8, 60)
    question = draw.choice([
        f"{owner.name} has {total} {things}.",
        f"{owner.name} starts with {total} {things}.",
        f"There are {total} {things} in the bag of {owner.name}.",
    ])
    steps = [f"{owner.name} has {total} {things}."]
    for _ in range(draw.number(2, 4)):
        text, step, total = _event(draw, owner, friend, things, total)
        question += f" {text}."
        steps.append(step)
    question += draw.choice([
        f" How many {things} does {owner.name} have now?",
        f" How many {things} are left for {owner.name}?",
        f" How many {things} does {owner.name} have in the end?",
    ])
    return Story(question, steps, total)


def _event(draw, owner, friend, things, total):
    """-> (sentence without its full stop, solution line, new total)"""
    grows = total < 8 or (total < 75 and draw.chance(0.5))
    if grows and total <= 30 and draw.chance(0.15):
        return (f"Then {owner.he} doubles the number of {things}",
                f"{owner.He} doubles them: {times(total, 2)}.", 2 * total)
    n = draw.number(2, 20 if grows else min(total - 1, 20))
    if grows:
        text = draw.choice([f"{owner.He} buys {n} more", f"{owner.He} finds {n} more",
                            f"{friend.name} gives {owner.him} {n}", f"{owner.He} wins {n} in a game",
                            f"{owner.He} gets {n} from {friend.name}"])
        return text, f"{text}: {plus(total, n)}.", total + n
    text = draw.choice([f"{owner.He} gives {n} to {friend.name}", f"{owner.He} loses {n}", f"{owner.He} sells {n}",
                        f"{owner.He} gives away {n}", f"{friend.name} takes {n}"])
    return text, f"{text}: {minus(total, n)}.", total - n


# ---------------------------------------------------------------- people compared


def two_people(draw):
    first, second = draw.people(2)
    things, relation = draw.choice(THINGS), draw.choice(["more", "fewer", "times"])
    if relation == "times":
        base, k = draw.numbers((3, 18), (2, 4))
        told, equation, other = f"{k} times as many {things} as {first.name}", times(base, k), base * k
    else:
        base, k = draw.numbers((8, 40), (2, 15))
        k = min(k, base - 1)
        told = f"{k} {relation} {things} than {first.name}"
        equation, other = (plus(base, k), base + k) if relation == "more" else (minus(base, k), base - k)
    question = f"{first.name} has {base} {things}. {second.name} has {told}."
    steps = [f"{second.name} has {equation} {things}."]
    both = base + other
    ending = draw.choice(["together", "gets", "sell"])
    if ending == "together":
        steps.append(f"Together they have {plus(base, other)} {things}.")
        return Story(f"{question} How many {things} do they have together?", steps, both)
    if ending == "gets":
        n = draw.number(2, 9)
        steps.append(f"After getting {n} more, {second.name} has {plus(other, n)} {things}.")
        return Story(f"{question} {second.name} then gets {n} more. How many {things} does {second.name} have now?",
                     steps, other + n)
    n = draw.number(2, min(20, both - 1))
    steps += [f"Together they have {plus(base, other)} {things}.", f"After selling {n}, {minus(both, n)} are left."]
    return Story(f"{question} Together they sell {n} {things}. How many {things} are left?", steps, both - n)


def three_people(draw):
    a, b, c = draw.people(3)
    things = draw.choice(THINGS)
    x, more, fewer = draw.numbers((8, 30), (2, 12), (2, 7))
    y, z = x + more, x + more - fewer
    return Story(
        f"{a.name} has {x} {things}. {b.name} has {more} more than {a.name}. {c.name} has {fewer} fewer than {b.name}. "
        f"How many {things} do {a.name} and {c.name} have together?",
        [f"{b.name} has {plus(x, more)} {things}.", f"{c.name} has {minus(y, fewer)} {things}.",
         f"{a.name} and {c.name} have {plus(x, z)} {things}."], x + z)


def ages(draw):
    a, b, c = draw.people(3)
    x, older, younger, years = draw.numbers((6, 40), (2, 12), (2, 7), (2, 9))
    y, z = x + older, x + older - younger
    return Story(
        f"{a.name} is {x} years old. {b.name} is {older} years older than {a.name}. {c.name} is {younger} years younger "
        f"than {b.name}. How old will {c.name} be in {years} years?",
        [f"{b.name} is {plus(x, older)} years old.", f"{c.name} is {minus(y, younger)} years old.",
         f"In {years} years {c.name} will be {plus(z, years)}."], z + years)


def more_boxes(draw):
    """Who has more, and by how much; the ranges overlap at one value, so a tie is drawn again."""
    a, b = draw.people(2)
    things = draw.choice(THINGS)
    larger = draw.numbers((5, 9), (5, 9))
    smaller = draw.numbers((2, 5), (2, 6))
    x, y = larger[0] * larger[1], smaller[0] * smaller[1]
    if x == y:
        return more_boxes(draw)
    if x < y:
        larger, smaller, x, y = smaller, larger, y, x
    return Story(
        f"{a.name} has {larger[0]} boxes of {larger[1]} {things}. {b.name} has {smaller[0]} boxes of {smaller[1]} "
        f"{things}. How many more {things} does {a.name} have than {b.name}?",
        [f"{a.name} has {times(*larger)} {things}.", f"{b.name} has {times(*smaller)} {things}.",
         f"{a.name} has {minus(x, y)} more."], x - y)


# ---------------------------------------------------------------- money


def two_prices(draw):
    who = draw.person()
    first, second = draw.sample(ITEMS, 2)
    c, d, m, n = draw.numbers((2, 9), (2, 9), (2, 6), (2, 6))
    total = c * m + d * n
    question = (f"A {first} costs ${c} and a {second} costs ${d}. "
                f"{who.name} buys {m} of the first and {n} of the second.")
    steps = [f"The first cost {times(m, c)} dollars.", f"The second cost {times(n, d)} dollars.",
             f"In total {who.he} pays {plus(m * c, n * d)} dollars."]
    if total >= 90 or draw.chance(0.5):
        return Story(f"{question} How much does {who.he} pay?", steps, total)
    paid = draw.number(total + 1, 99)
    steps.append(f"The change is {minus(paid, total)} dollars.")
    return Story(f"{question} {who.He} pays with ${paid}. How much change does {who.he} get?", steps, paid - total)


def wages(draw):
    who, item = draw.person(), draw.choice(ITEMS)
    rate, hours = draw.numbers((4, 9), (2, 9))
    earned = rate * hours
    spent = draw.number(2, min(earned - 1, 25))
    left = earned - spent
    question = f"{who.name} earns ${rate} per hour and works {hours} hours. {who.He} spends ${spent} on a {item}."
    steps = [f"{who.name} earns {times(rate, hours)} dollars.",
             f"After buying the {item}, {minus(earned, spent)} dollars are left."]
    if draw.chance(0.5):
        return Story(f"{question} How much money is left?", steps, left)
    found = draw.number(2, 15)
    steps.append(f"With the money found, {plus(left, found)} dollars.")
    return Story(f"{question} Then {who.he} finds ${found}. How much money does {who.he} have?", steps, left + found)


def savings(draw):
    who, item = draw.person(), draw.choice(ITEMS)
    giver = draw.choice(["An uncle", "An aunt", "A friend", "A brother"])
    weekly, weeks, gift = draw.numbers((3, 9), (2, 7), (4, 20))
    saved = weekly * weeks
    total = saved + gift
    cost = draw.number(3, min(total - 1, 30))
    return Story(
        f"{who.name} saves ${weekly} each week for {weeks} weeks. {giver} gives ${gift} more. "
        f"Then {who.name} buys a {item} for ${cost}. How much money is left?",
        [f"{who.name} saves {times(weekly, weeks)} dollars.", f"With the gift it is {plus(saved, gift)} dollars.",
         f"After buying the {item}, {minus(total, cost)} dollars are left."], total - cost)


# ---------------------------------------------------------------- groups of equal size


def containers(draw):
    who, things = draw.person(), draw.choice(THINGS)
    kind = draw.choice(["boxes", "bags", "baskets", "jars", "packs"])
    count, each = draw.numbers((2, 9), (3, 9))
    total = count * each
    n = draw.number(2, min(20, total - 1))
    question = f"{who.name} has {count} {kind} with {each} {things} in each."
    steps = [f"{who.name} has {times(count, each)} {things}."]
    if draw.chance(0.5):
        steps.append(f"After giving away {n}, {minus(total, n)} are left.")
        return Story(f"{question} {who.He} gives away {n} {things}. How many {things} are left?", steps, total - n)
    steps.append(f"With the loose ones {who.he} has {plus(total, n)} {things}.")
    return Story(f"{question} {who.He} also has {n} loose {things}. How many {things} does {who.he} have in all?",
                 steps, total + n)


def seats(draw):
    place = draw.choice(["hall", "theater", "cinema", "room"])
    rows, each = draw.numbers((3, 9), (4, 10))
    total = rows * each
    taken = draw.number(2, total // 2)
    free = total - taken
    late = draw.number(1, free - 1)
    return Story(
        f"A {place} has {rows} rows with {each} seats each. {taken} seats are taken and then {late} more people sit down. "
        "How many seats are empty?",
        [f"The {place} has {times(rows, each)} seats.", f"First {minus(total, taken)} seats are free.",
         f"Then {minus(free, late)} seats are empty."], free - late)


def daily_work(draw):
    who = draw.person()
    verb, things, whole = draw.choice([("reads", "pages", "book has"), ("paints", "tiles", "wall has"),
                                       ("solves", "problems", "book has"), ("digs", "holes", "garden needs")])
    each, days = draw.numbers((3, 9), (2, 9))
    done = each * days
    needed = done + draw.number(2, 30)
    return Story(
        f"{who.name} {verb} {each} {things} each day for {days} days. The {whole} {needed} {things}. "
        f"How many {things} are left?",
        [f"In {days} days {who.he} {verb} {times(each, days)} {things}.",
         f"There are {minus(needed, done)} {things} left."], needed - done)


def legs(draw):
    four = draw.choice(["cows", "sheep", "goats", "horses", "pigs"])
    two = draw.choice(["hens", "ducks", "geese"])
    x, y = draw.numbers((2, 9), (2, 10))
    return Story(
        f"A farm has {x} {four} and {y} {two}. How many legs do the animals have in all?",
        [f"The {four} have {times(x, 4)} legs.", f"The {two} have {times(y, 2)} legs.",
         f"In all there are {plus(4 * x, 2 * y)} legs."], 4 * x + 2 * y)


def garden(draw):
    who = draw.person()
    first, second = draw.sample(["roses", "tulips", "lilies", "daisies", "carrots", "beans", "onions"], 2)
    m, n, k, l = draw.numbers(*[(2, 7)] * 4)
    return Story(
        f"{who.name} plants {m} rows of {n} {first} and {k} rows of {l} {second}. How many plants does {who.he} plant?",
        [f"There are {times(m, n)} {first}.", f"There are {times(k, l)} {second}.",
         f"In all there are {plus(m * n, k * l)} plants."], m * n + k * l)


def coloured_packs(draw):
    who, things = draw.person(), draw.choice(THINGS)
    red, blue = draw.sample(COLORS, 2)
    m, n, k, l = draw.numbers((2, 6), (2, 8), (2, 6), (2, 6))
    total = m * n + k * l
    lost = draw.number(2, min(total - 1, 15))
    return Story(
        f"{who.name} buys {m} packs of {n} {red} {things} and {k} packs of {l} {blue} {things}. {who.He} loses {lost}. "
        f"How many {things} are left?",
        [f"There are {times(m, n)} {red} {things}.", f"There are {times(k, l)} {blue} {things}.",
         f"In all there are {plus(m * n, k * l)} {things}.", f"After losing {lost}, {minus(total, lost)} are left."],
        total - lost)


def shared_table(draw):
    things = draw.choice(THINGS)
    children, each = draw.numbers((2, 9), (2, 6))
    taken = children * each
    total = taken + draw.number(2, 25)
    return Story(
        f"There are {total} {things} on the table. {children} children take {each} {things} each. "
        f"How many {things} are still on the table?",
        [f"The children take {times(children, each)} {things}.",
         f"There are {minus(total, taken)} {things} on the table."], total - taken)


def baking(draw):
    who, things = draw.person(), draw.choice(["cookies", "muffins", "cakes", "pies", "buns", "rolls"])
    trays, each, eaten = draw.numbers((2, 6), (4, 10), (1, 6))
    total = trays * each
    kept = total - eaten
    sold = draw.number(1, kept - 1)
    return Story(
        f"{who.name} bakes {trays} trays of {each} {things}. {who.He} eats {eaten} and sells {sold}. "
        f"How many {things} are left?",
        [f"{who.name} bakes {times(trays, each)} {things}.", f"After eating {eaten} there are {minus(total, eaten)}.",
         f"After selling {sold} there are {minus(kept, sold)}."], kept - sold)


def stars(draw):
    who = draw.person()
    value, count, lost, bonus = draw.numbers((2, 9), (3, 9), (2, 9), (3, 20))
    won = value * count
    lost = min(lost, won - 1)
    return Story(
        f"In a game each star gives {value} points. {who.name} collects {count} stars, loses {lost} points and gets a "
        f"bonus of {bonus} points. How many points does {who.he} have?",
        [f"The stars give {times(value, count)} points.", f"After losing {lost} there are {minus(won, lost)} points.",
         f"With the bonus there are {plus(won - lost, bonus)} points."], won - lost + bonus)


# ---------------------------------------------------------------- quantities that go up and down


def bus_stops(draw):
    vehicle, on_board = draw.choice(["bus", "train", "tram", "boat"]), draw.number(12, 50)
    question, steps = f"A {vehicle} has {on_board} passengers.", []
    for stop in ["first", "second"][:draw.number(1, 2)]:
        off, on = draw.number(2, min(12, on_board - 1)), draw.number(2, 12)
        stay = on_board - off
        question += f" At the {stop} stop {off} get off and {on} get on."
        steps.append(f"At the {stop} stop {minus(on_board, off)} stay and {plus(stay, on)} are on board.")
        on_board = stay + on
    return Story(f"{question} How many passengers are on the {vehicle} now?", steps, on_board)


def walking(draw):
    who, verb = draw.person(), draw.choice(["walks", "runs", "rides", "swims"])
    morning, evening, days = draw.numbers((1, 5), (1, 5), (2, 9))
    daily = morning + evening
    return Story(
        f"{who.name} {verb} {morning} km every morning and {evening} km every evening. How many km is that in {days} days?",
        [f"Each day {who.name} {verb} {plus(morning, evening)} km.", f"In {days} days it is {times(daily, days)} km."],
        daily * days)


def temperature(draw):
    city = draw.choice(CITIES)
    morning, up, down = draw.numbers((5, 25), (2, 15), (2, 12))
    noon = morning + up
    down = min(down, noon - 1)
    return Story(
        f"In {city} it is {morning} degrees in the morning. By noon it gets {up} degrees warmer. By night it gets {down} "
        "degrees colder. How many degrees is it at night?",
        [f"At noon it is {plus(morning, up)} degrees.", f"At night it is {minus(noon, down)} degrees."], noon - down)


def library(draw):
    days = draw.sample(WEEKDAYS, 3)
    total, out1, out2, back = draw.numbers((25, 60), (2, 10), (2, 10), (2, 15))
    first, second = total - out1, total - out1 - out2
    return Story(
        f"A library shelf has {total} books. On {days[0]} {out1} are borrowed. On {days[1]} {out2} are borrowed. "
        f"On {days[2]} {back} are returned. How many books are on the shelf?",
        [f"After {days[0]} there are {minus(total, out1)} books.", f"After {days[1]} there are {minus(first, out2)} books.",
         f"After {days[2]} there are {plus(second, back)} books."], second + back)


def school(draw):
    group = draw.choice(["class", "club", "choir", "team"])
    boys, girls, leave, join = draw.numbers((8, 25), (8, 25), (2, 9), (2, 7))
    total = boys + girls
    return Story(
        f"A {group} has {boys} boys and {girls} girls. {leave} children leave and {join} new children join. "
        f"How many children are in the {group} now?",
        [f"The {group} has {plus(boys, girls)} children.", f"After {leave} leave there are {minus(total, leave)}.",
         f"After {join} join there are {plus(total - leave, join)}."], total - leave + join)


def water_tank(draw):
    daily, days, rain = draw.numbers((2, 7), (2, 7), (2, 15))
    used = daily * days
    total = used + draw.number(2, 30)
    left = total - used
    return Story(
        f"A tank holds {total} liters of water. {daily} liters are used each day for {days} days. "
        f"Then rain adds {rain} liters. How many liters are in the tank?",
        [f"In {days} days {times(daily, days)} liters are used.", f"Then {minus(total, used)} liters are left.",
         f"After the rain there are {plus(left, rain)} liters."], left + rain)


def two_halves(draw):
    who = draw.choice(["team", "player", "club"])
    first, more = draw.numbers((5, 30), (2, 15))
    second = first + more
    return Story(
        f"A {who} scores {first} points in the first half and {more} more than that in the second half. "
        f"How many points does the {who} score in all?",
        [f"In the second half the {who} scores {plus(first, more)} points.",
         f"In all the {who} scores {plus(first, second)} points."], first + second)


def two_days_of_sales(draw):
    things, (first_day, second_day) = draw.choice(THINGS), draw.sample(WEEKDAYS, 2)
    first, more, stock = draw.numbers((3, 14), (2, 8), (30, 60))
    second = first + more
    sold = first + second
    stock = max(stock, sold + 1)
    return Story(
        f"A shop has {stock} {things}. On {first_day} it sells {first} {things}. On {second_day} it sells {more} more than "
        f"on {first_day}. How many {things} are left?",
        [f"On {second_day} it sells {plus(first, more)} {things}.", f"In all it sells {plus(first, second)} {things}.",
         f"There are {minus(stock, sold)} {things} left."], stock - sold)


FIXED_TEMPLATES = [
    ages, baking, bus_stops, coloured_packs, containers, daily_work, garden, legs, library, more_boxes, savings, school,
    seats, shared_table, stars, temperature, three_people, two_days_of_sales, two_halves, two_people, two_prices, wages,
    walking, water_tank,
]


def any_story(draw):
    """A quarter of the stories are running totals: they vary most and teach the copying of names and numbers."""
    return running_total(draw) if draw.chance(0.25) else draw.choice(FIXED_TEMPLATES)(draw)
