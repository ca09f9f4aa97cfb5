#!/usr/bin/env python3
"""Writes tests/data/text/pre_tokenizers.expected.json: the ids that Hugging Face's `tokenizers` gives for hard strings under every
pre-tokenizer that llama.cpp has a name for, over the vocabulary of gpt2.json; and over that vocabulary without some bytes.

Rules are spelled as the published tokenizer.json files have them, with the library's own parts (Digits, Punctuation, ByteLevel) where
these do. Never needed to build or to test. Needs `pip install tokenizers` (written with 0.23.3).

  make_pre_tokenizer_fixtures.py DIR      DIR has gpt2.json
"""
import json
import os
import random
import sys

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from make_tokenizer_fixtures import BAILING, DEEPSEEK, LLAMA, QWEN, ids_of, random_text

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
WORDS = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}%s]*[\p{Ll}\p{Lm}\p{Lo}\p{M}%s]+%s|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}%s]+[\p{Ll}\p{Lm}\p{Lo}\p{M}%s]*%s"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def words(contractions, but=""):
    return WORDS % (but, but, contractions, but, but, contractions)


GPT4O = words(CONTRACTIONS + "?") + r"|\p{N}{1,3}" + TAIL
HAN = "&&[^\\p{Han}]"
KIMI = r"\p{Han}+|" + words(CONTRACTIONS + "?", HAN) + r"|\p{N}{1,3}" + TAIL.replace("/", "")
BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
CASED = ("A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481"
         "\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57"
         "\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d"
         "\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787"
         "\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
         "\U000118a0-\U000118df\U0001e900-\U0001e943")
HAN_HANGUL = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
ASIAN = ("[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+")

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
DIGITS = pre_tokenizers.Digits(individual_digits=True)
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)  # with GPT-2's regex
LATE = pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")

# First name of each rule -> its steps: regexes, or parts of the library.
RULES = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, pre_tokenizers.Digits(individual_digits=False), LATE],
    "gpt-2": [BYTES],
    "smollm": [DIGITS, BYTES],
    "qwen2": [QWEN],
    "llama-bpe": [LLAMA],
    "bailingmoe": [BAILING],
    "qwen35": [QWEN.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")],
    "gpt-4o": [GPT4O],
    "tekken": [words("") + r"|\p{N}" + TAIL],
    "deepseek-v3": DEEPSEEK,
    "deepseek-llm": [r"[\r\n]", rf"\s?[{CASED}]+", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$", HAN_HANGUL, pre_tokenizers.Digits(individual_digits=False)],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN_HANGUL, DIGITS],
    "spark2_5": [*DEEPSEEK[:2], DEEPSEEK[2].replace(r"+[\r\n]*|\s*[\r\n]+", r"+|[\r\n]"), DIGITS],
    "youtu": ["[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
              words(CONTRACTIONS + "?") + r"|\p{N}" + TAIL],
    "falcon": [pre_tokenizers.Punctuation("contiguous"), BYTES, LATE],
    "bloom": [BLOOM],
    "viking": [BLOOM, DIGITS],
    "chameleon": ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", DIGITS, pre_tokenizers.Punctuation("isolated"), BYTES],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O],
    "kimi-k2": [KIMI],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "afmoe": [r"\p{N}{1,2}(?=(?:\p{N}{3})+(?!\p{N}))|\p{N}{3}|\p{N}+", ASIAN, DEEPSEEK[2]],
    "jais-2": [LLAMA.replace(r"|\s+(?!\S)|\s+", "".join(rf"|\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"|\s{1,2}(?!\S)|\s{1}")],
    "seed-coder": [QWEN.replace(r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}\r\n]+")],
    "ufakzeka": [QWEN.split("|", 7)[7]],
    "exaone-moe": [QWEN.replace(r"?\p{L}+", r"?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+").replace(r"[\r\n]*", r"[\r\n/]?").replace(r"[\r\n]+", r"[\r\n]")],
    "minicpm5": [r"\p{N}{1,3}", LLAMA.replace(r"\p{N}{1,3}", r"\p{N}+")],
    "laguna": ["[^\\n]+|\\n+", QWEN],
}
NO_MERGES = {"llama-bpe", "tekken", "youtu", "minicpm5"}  # a whole pre-token of the vocabulary is taken as it is

HARD = [
    "I'll DON'T we'VE x'S 'tis \u2019s", "Hello world", "HelloWorld ABCdef \u00c9t\u00e9X \u01c5a", " leading", "trailing  ", "\n\n x", "a\n\n  b\r\n\tc", " \n \n", "\t\t\tx", "  \n", "a \n", "x\n/y", "//\n/\n",
    "1", "12", "123", "1234", "12345678901", "3.14159 1,000,000", "x12y345z6789", "\u0661\u0662\u0663\u0664\u0665", "\u00bd\u00b2\u2167\u2460", "1234\u24d0", "1234_5678", "1234e", "2024-01-31T12:00", "12\u030112345",
    "a=12345", "$+<=>^`|~", "a`b``c ```py\nx```", "(x).[y]{z}!?...\u2026", "#include <a.h>", "foo_bar.baz-qux", "'' '\u017f '\u212aT", "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u4e2d\u6587abc\u6587 \u6587X", "\u65e5\u672c\u8a9e\u306e\u30c6\u30b9\u30c8 1", "\u3105\u3106\u3107 \u3131\u314e \ud55c\uad6d\uc5b4", "\u0e44\u0e17\u0e22 \u1019\u103c \uff71\uff72",
    "\u0928\u092e\u0938\u094d\u0924\u0947 e\u0301a\u0301 \u0301x", "\u0645\u0631\u062d\u0628\u0627\u060c \u06d4 \u0964", "\u041f\u0440\u0438\u0432\u0435\u0442 \u0391\u03b2\u03b3 \u10d0 \u1c90", "\U0001f600\U0001f468\u200d\U0001f469 \u2764\ufe0f", "\u00a0\u2003x\u3000 y\u0085z", "\u180e\u200b\ufeff", "a b c d", "a  b   c", "<sentinel:12> IMGIMGABCZ IMGIMGJZ",
    "x" + " " * 5 + "y" + " " * 17 + "z" + " " * 40, " " * 9, "\u2018a\u2019 \u201cb\u201d \u2014c", "\uff21\uff42\uff01\uff1a\uff5e", "\u20ac5 \u00a35 5%", "\u01bb\u0294\u1d78 \ua78f", "\r\r\n", "A\u0308B", "\u1e9e\u00df\u0130i", "\U00010400\U0001e900\U000323af", "K\u00d6LN ist sch\u00f6n", "\x04a\x1db", "\uf900x \u1f7d\u1fd3 \u212b\u212a\u00b5 \U0001f131\U0001f170 12\U0001f130",
]
HOLES = [0x04, 0x1D, 0x7F, 0xC1, 0xFF, 0xF1, 0x0B]


def sequence(steps):
    parts = [pre_tokenizers.Split(Regex(step), "isolated") if isinstance(step, str) else step for step in steps]
    if not any(step is BYTES for step in steps): parts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    return pre_tokenizers.Sequence(parts)


def main(folder):
    with open(os.path.join(folder, "gpt2.json"), encoding="utf-8") as file:
        model = json.load(file)["model"]
    vocab, merges = model["vocab"], [tuple(merge) if isinstance(merge, list) else tuple(merge.split(" ")) for merge in model["merges"]]
    r = random.Random("pre-tokenizers")
    texts = HARD + [random_text(r) for _ in range(40)]

    def tokenizer(name, words):
        result = Tokenizer(models.BPE(words, merges, ignore_merges=name in NO_MERGES))
        result.pre_tokenizer = sequence(RULES[name])
        return result

    named = {name: tokenizer(name, vocab) for name in RULES}
    lines = []
    for text in texts:
        groups = {}
        for name, one in named.items():
            groups.setdefault(tuple(ids_of(one, text)), []).append(name)
        lines.append(json.dumps({"text": text, "ids": [[names, ids] for ids, names in groups.items()]}, separators=(",", ":")))

    characters = {byte: character for character, byte in byte_alphabet().items()}
    gone = [characters[byte] for byte in HOLES]
    assert not any(character in left + right for character in gone for left, right in merges)
    small = tokenizer("smollm", {word: id for word, id in vocab.items() if word not in gone})
    odd = ["a\x04b", "\x04", "th\x1de", "\x7f\x0b", "\U00040000x", "don\x04't", "the\x04 the", "\x04\n\x04\n"]
    holes = [json.dumps({"text": text, "ids": ids_of(small, text)}, separators=(",", ":")) for text in odd]
    with open(os.path.join(folder, "pre_tokenizers.expected.json"), "w", encoding="utf-8") as file:
        file.write('{"texts":[\n' + ",\n".join(lines) + '\n],\n"missing_bytes":' + json.dumps(HOLES) + ',"without_them":[\n' + ",\n".join(holes) + "\n]}\n")


def byte_alphabet():
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}


if __name__ == "__main__":
    if len(sys.argv) != 2: sys.exit(__doc__)
    main(sys.argv[1])
