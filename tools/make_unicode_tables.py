#!/usr/bin/env python3
"""Writes src/text/unicode_additions.inc (what Unicode 15.0, 15.1 and 16.0 added), and the fixtures that the text tests compare with.

Never needed to build or to test: the results are committed. Needs a Python whose own unicodedata is Unicode 14.0 (3.11) and
`pip install unicodedata2==16.0.0 tokenizers` (written with tokenizers 0.23.3, whose regexes know Unicode 16.0).

  make_unicode_tables.py table FILE      from unicodedata2; the scripts from the `tokenizers` library
  make_unicode_tables.py fixtures DIR    DIR/properties.txt: which code points the library's \\p{...} match;
                                         DIR/nfc.txt: texts and their form C after unicodedata2
"""
import os
import random
import sys
import unicodedata as old

import unicodedata2 as new
from tokenizers import Regex, pre_tokenizers

assert old.unidata_version == "14.0.0" and new.unidata_version == "16.0.0"

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn".split()
# Those that Unicode 14 had and that have grown since.
SCRIPTS = ["Arabic", "Balinese", "Common", "Cyrillic", "Devanagari", "Egyptian_Hieroglyphs", "Han", "Hiragana", "Kannada", "Katakana",
           "Khitan_Small_Script", "Khojki", "Lao", "Latin", "Myanmar"]
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def members(property):
    """The code points that the library's \\p{property} matches."""
    splitter = pre_tokenizers.Split(Regex(r"\p{%s}" % property), "removed")
    out = []
    for i in range(0, len(CODE_POINTS), 4096):
        part = CODE_POINTS[i:i + 4096]
        kept = set("".join(piece for piece, _ in splitter.pre_tokenize_str("".join(map(chr, part)))))
        out += [c for c in part if chr(c) not in kept]
    return out


def runs(values):
    """[(first, last, value)] of [(code point, value)] in ascending order."""
    out = []
    for c, value in values:
        if out and out[-1][1] == c - 1 and out[-1][2] == value: out[-1][1] = c
        else: out.append([c, c, value])
    return out


def compositions():
    for c in CODE_POINTS:
        parts = new.decomposition(chr(c)).split()
        if len(parts) != 2 or parts[0].startswith("<") or old.category(chr(c)) != "Cn": continue
        pair = "".join(chr(int(part, 16)) for part in parts)
        if new.normalize("NFC", pair) == chr(c): yield c, ord(pair[0]), ord(pair[1])


def write_table(path):
    script_of = {c: script for script in SCRIPTS for c in members(script)}
    changed = [(c, (new.category(chr(c)), script_of.get(c, ""))) for c in CODE_POINTS if old.category(chr(c)) != new.category(chr(c))]
    marks = [(c, new.combining(chr(c))) for c in CODE_POINTS if old.combining(chr(c)) != new.combining(chr(c))]
    with open(path, "w") as file:
        file.write("// Written by tools/make_unicode_tables.py, not edited by hand: what changed from Unicode 14.0 to 16.0.\n"
                   "// The words are those of unicode_additions.h.\n"
                   "constexpr AddedCategory kCategories[] = {\n")
        file.writelines(f'    {{0x{first:x}, 0x{last:x}, "{category}", "{script}"}},\n' for first, last, (category, script) in runs(changed))
        file.write("};\nconstexpr AddedMarks kMarks[] = {\n")
        file.writelines(f"    {{0x{first:x}, 0x{last:x}, {combining_class}}},\n" for first, last, combining_class in runs(marks))
        file.write("};\nconstexpr AddedComposite kComposites[] = {\n")
        file.writelines(f"    {{0x{composite:x}, {{0x{first:x}, 0x{second:x}}}}},\n" for composite, first, second in compositions())
        file.write("};\n")


def nfc_texts():
    """Runs of Hangul, of marks, and of all characters that have a canonical decomposition, taken apart."""
    r = random.Random("nfc")
    leads, vowels, trails = (0x1100, 0x1101, 0x1111, 0x1112), (0x1161, 0x1162, 0x1174, 0x1175), (0x11A8, 0x11A9, 0x11C1, 0x11C2)
    borders = [0x10FF, 0x1100, 0x1112, 0x1113, 0x1160, 0x1161, 0x1175, 0x1176, 0x11A7, 0x11A8, 0x11C2, 0x11C3, 0xABFF, 0xAC00, 0xAC01, 0xAC1B, 0xAC1C, 0xD788, 0xD7A3, 0xD7A4]
    for a in borders:
        for b in borders:
            yield [a, b]
    for a in (*leads, 0x1113, 0xAC00, 0xAC01, 0xD788):
        for b in (*vowels, 0x1160, 0x1176, 0x11A7):
            for c in (*trails, 0x11A7, 0x11C3, 0x0301):
                yield [a, b, c]
    for composite, first, second in compositions():
        yield from ([composite], [first, second], [first, 0x0327, second], [0x61, second], [first, second, second])
    marks = [c for c in CODE_POINTS if new.combining(chr(c))]
    added = [c for c in marks if old.category(chr(c)) == "Cn"]
    composites = [c for c in CODE_POINTS if new.decomposition(chr(c)) and not new.decomposition(chr(c)).startswith("<")]
    for mark in added:
        yield from ([0x61, mark, 0x0301], [0x61, 0x0301, mark], [0x61, mark, 0x0323, 0x0301], [0x65, mark, mark, 0x0302])
    for _ in range(1500):
        text = []
        for _ in range(r.randrange(1, 5)):
            kind = r.randrange(7)
            if kind == 0: text += [ord(x) for x in new.normalize("NFD", chr(r.choice(composites)))]
            elif kind == 1: text += [r.choice(composites)]
            elif kind == 2: text += [r.choice(marks) for _ in range(r.randrange(1, 4))]
            elif kind == 3: text += [r.choice(added), r.choice((0x0301, 0x0323))]
            elif kind == 4: text += [r.choice(borders) for _ in range(r.randrange(1, 4))]
            elif kind == 5: text += [r.choice((0x61, 0x41, 0x3B1, 0x4E00, 0x212B, 0x1F600, 0x0915, 0x09C7, 0x1112D))]
            else: text += [r.choice((0x09BE, 0x09D7, 0x0DCF, 0x1B35, 0x11127, 0x113C2, 0x1611E, 0x16D67, 0x102E, 0x3099))]
        yield text


def write_fixtures(folder):
    with open(os.path.join(folder, "properties.txt"), "w") as file:
        for name in CATEGORIES + SCRIPTS:
            file.write(name)
            last = 0
            for first, end, _ in runs((c, None) for c in members(name)):
                file.write(f" {first - last:x},{end + 1 - first:x}")
                last = end + 1
            file.write("\n")
    with open(os.path.join(folder, "nfc.txt"), "w") as file:
        seen = set()
        for text in nfc_texts():
            form_c = [ord(c) for c in new.normalize("NFC", "".join(map(chr, text)))]
            line = " ".join(f"{c:x}" for c in text) + (" = " + " ".join(f"{c:x}" for c in form_c) if form_c != text else "") + "\n"
            if line not in seen: file.write(line)
            seen.add(line)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("table", "fixtures"): sys.exit(__doc__)
    (write_table if sys.argv[1] == "table" else write_fixtures)(sys.argv[2])
