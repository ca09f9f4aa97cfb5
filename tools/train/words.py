"""Word lists and the seeded source of random choices that every task generator draws from."""
import random
from typing import NamedTuple

GIRLS = """Ann Mia Eva Zoe Lucy Emma Rosa Nina Lily Anna Sara Kate Jane Ella Ruby Amy Tina Mary Nora Lena Dora
    Vera Iris Olga Cleo Gina Hana Jill Kara Maya""".split()
BOYS = """Ben Tom Max Leo Sam Jack Paul Mark Adam Luke Dan Noah Hugo Omar Ivan Carl Eric Fred Greg Hank Igor Joe
    Ken Liam Nick Otto Pete Raj Sean Theo""".split()

# Countable things, as plurals (stories) and as singulars (orders, belongings).
THINGS = """apples pears plums lemons grapes cherries peaches mangoes nuts eggs cookies muffins candies cakes pies
    buns pens pencils books notebooks erasers rulers stickers stamps coins cards marbles beads buttons shells stones
    rocks leaves flowers roses tulips seeds toys balls dolls kites puzzles blocks cars trains robots boats drums
    bells hats caps shirts socks scarves ribbons rings cups plates spoons candles""".split()
ITEMS = """pen book cup hat cap ball doll kite ruler lamp mug plate bag belt brush card cake pie drum bell ring
    sock shirt scarf toy car robot boat puzzle candle""".split()

CITIES = """Paris London Rome Berlin Madrid Vienna Oslo Prague Lima Cairo Tokyo Delhi Boston Dallas Miami Denver
    Lisbon Dublin Athens Warsaw""".split()
JOBS = """nurse teacher doctor farmer pilot baker driver singer writer lawyer cook painter dentist tailor clerk
    guard""".split()
COLORS = "red blue green black white yellow brown pink gray purple".split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday".split()
CATEGORIES = {
    "animal": "dog cat horse cow sheep goat lion tiger".split(),
    "color": COLORS[:8],
    "fruit": "apple pear plum lemon mango peach grape cherry".split(),
    "tool": "hammer saw drill wrench axe shovel rake knife".split(),
    "vehicle": "bus train truck bike plane ship tram van".split(),
}
PLAIN_WORDS = sorted({*ITEMS, *JOBS, *(word for words in CATEGORIES.values() for word in words)})


class Person(NamedTuple):
    name: str
    He: str  # subject pronoun at the start of a sentence
    he: str  # the same inside a sentence
    him: str


PEOPLE = [Person(n, "She", "she", "her") for n in GIRLS] + [Person(n, "He", "he", "him") for n in BOYS]


class Draw(random.Random):
    """Seeded random choices; every generator takes one, so a seed fixes the whole data set."""

    def number(self, low, high):
        """An integer in [low, high], both ends included."""
        return self.randint(low, high)

    def few(self, low, high):
        """An integer in [low, high], small ones more often: the chance falls linearly."""
        return min(self.randint(low, high), self.randint(low, high))

    def numbers(self, *ranges):
        """One integer per (low, high) range."""
        return [self.randint(low, high) for low, high in ranges]

    def chance(self, probability):
        return self.random() < probability

    def person(self):
        return self.choice(PEOPLE)

    def people(self, count):
        """Different people."""
        return self.sample(PEOPLE, count)
