"""Byte-level BPE: training, the Hugging Face files (tokenizer.json, tokenizer_config.json), encoding and decoding.

Words: a *piece* is what the pre-tokenizer regex cuts out of the text; a *symbol* is a string over the byte alphabet
of GPT-2 (256 printable characters, one per byte); a *merge* joins two neighbouring symbols, earlier merges first.
Deliberately absent: normalisation, and Unicode classes in the Python regex (see ASCII_PIECES).
"""
import bisect
import collections
import itertools
import json
import pathlib
import re

# As written to tokenizer.json: GPT-2's regex without the contractions, and each digit alone, so that arithmetic is
# done digit by digit.
PIECES = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# The same for ASCII text in the syntax of Python's re, which has no \p{}; the generated data is ASCII.
ASCII_PIECES = re.compile(r" ?[^\W\d_]+|\d| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")

BOS, EOS, HEADER, HEADER_END, EOT, MASK = SPECIAL = [
    "<|startoftext|>", "<|endoftext|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|mdm_mask|>"]
BASE_SIZE = 1000  # bytes and merges; special tokens follow
VOCAB_SIZE = 1024  # rows of the embedding table, a round number for the kernels; the last ids stay unused

CHAT_TEMPLATE = (
    "{% for m in messages %}{% if loop.first %}" + BOS + "{% endif %}"
    + HEADER + "{{ m['role'] }}" + HEADER_END + "\n\n{{ m['content'] | trim }}" + EOT + "{% endfor %}"
    "{% if add_generation_prompt %}" + HEADER + "assistant" + HEADER_END + "\n\n{% endif %}")


def _byte_alphabet():
    """byte -> character: itself where it prints and is no space, otherwise the next one from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) if byte in printable else chr(256 + others.index(byte)) for byte in range(256)}


BYTE_TO_CHAR = _byte_alphabet()
CHAR_TO_BYTE = {char: byte for byte, char in BYTE_TO_CHAR.items()}


def _symbols(piece):
    return [BYTE_TO_CHAR[byte] for byte in piece.encode()]


def _join(symbols, pair):
    """Replaces each occurrence of the pair, left to right."""
    out, i = [], 0
    while i < len(symbols):
        found = tuple(symbols[i:i + 2]) == pair
        out.append("".join(pair) if found else symbols[i])
        i += 2 if found else 1
    return out


def train(texts, size=BASE_SIZE):
    """-> (vocabulary as a list, merges as a list of pairs): merges the most frequent pair until `size` is reached."""
    counts = collections.Counter(piece for text in texts for piece in ASCII_PIECES.findall(text))
    pieces = [(_symbols(piece), count) for piece, count in counts.items()]
    vocab, merges = sorted(CHAR_TO_BYTE), []
    while len(vocab) < size:
        pairs = collections.Counter()
        for symbols, count in pieces:
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += count
        if not pairs:
            break  # every piece is one symbol already: the text is too small for the vocabulary
        best = max(pairs, key=lambda pair: (pairs[pair], pair))  # ties by text: the result does not depend on order
        merges.append(best)
        if "".join(best) not in vocab:
            vocab.append("".join(best))
        pieces = [(_join(symbols, best), count) for symbols, count in pieces]
    return vocab, merges


def save(folder, vocab, merges):
    """Writes tokenizer.json and tokenizer_config.json. Special ids start at BASE_SIZE even where the vocabulary is
    smaller, so that they are the same in every model that this recipe makes."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    special = {BASE_SIZE + i: {"content": text, **flags} for i, text in enumerate(SPECIAL)}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": token, **entry} for token, entry in special.items()],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": PIECES}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {symbol: i for i, symbol in enumerate(vocab)},
                  "merges": [" ".join(pair) for pair in merges]}}
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "eos_token": EOS, "pad_token": EOS,
        "mask_token": MASK, "model_max_length": 256, "clean_up_tokenization_spaces": False, "add_bos_token": False,
        "add_eos_token": False, "llada_single_turn": True, "chat_template": CHAT_TEMPLATE,
        "added_tokens_decoder": {str(token): entry for token, entry in special.items()}}
    for name, content in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config)):
        text = json.dumps(content, ensure_ascii=False, indent=1)
        (pathlib.Path(folder) / name).write_text(text, encoding="utf-8")


class Tokenizer:
    """Reads tokenizer.json. bos, eos, eot and mask are token ids."""

    def __init__(self, folder):
        data = json.loads((pathlib.Path(folder) / "tokenizer.json").read_text(encoding="utf-8"))
        self.vocab = data["model"]["vocab"]
        self.ranks = {tuple(merge.split(" ")): i for i, merge in enumerate(data["model"]["merges"])}
        self.special = {token["content"]: token["id"] for token in data["added_tokens"]}
        self.texts = {i: text for text, i in {**self.vocab, **self.special}.items()}
        self.bos, self.eos, self.eot, self.mask = (self.special[text] for text in (BOS, EOS, EOT, MASK))
        self._special_split = re.compile("(" + "|".join(map(re.escape, self.special)) + ")")
        self._cache = {}

    def encode(self, text):
        ids = []
        for part in self._special_split.split(text):
            if part in self.special:
                ids.append(self.special[part])
            else:
                for piece in ASCII_PIECES.findall(part):
                    ids += self._encode_piece(piece)
        return ids

    def _encode_piece(self, piece):
        if piece not in self._cache:
            symbols = _symbols(piece)
            while len(symbols) > 1:
                best = min(zip(symbols, symbols[1:]), key=lambda pair: self.ranks.get(pair, len(self.ranks)))
                if best not in self.ranks:
                    break
                symbols = _join(symbols, best)
            self._cache[piece] = [self.vocab[symbol] for symbol in symbols]
        return self._cache[piece]

    def decode(self, ids):
        """Text of the ids; special tokens as they are written, unused ids as nothing."""
        out = b""
        for token in ids:
            text = self.texts.get(token, "")
            out += text.encode() if text in self.special else bytes(CHAR_TO_BYTE[char] for char in text)
        return out.decode("utf-8", "replace")

    def decode_answer(self, ids):
        """Text up to the end-of-turn token."""
        return self.decode(ids[:ids.index(self.eot)] if self.eot in ids else ids)

    def chat(self, prompt, system=""):
        """Token ids of a system message, if there is one, a user turn, and the opening of the assistant's answer."""
        turns = [("system", system)] * bool(system) + [("user", prompt)]
        said = "".join(f"{HEADER}{role}{HEADER_END}\n\n{text}{EOT}" for role, text in turns)
        return self.encode(f"{BOS}{said}{HEADER}assistant{HEADER_END}\n\n")


def tokens_in(tokenizer, tokens, spans, ends=None):
    """Indices of the tokens that overlap one of the spans; the text is ASCII, a byte a character. ends: token_ends(), where
    it is known already."""
    ends, out = token_ends(tokenizer, tokens) if ends is None else ends, set()
    for low, high in spans:
        out.update(range(bisect.bisect_right(ends, low), bisect.bisect_left(ends, high) + 1) if low < high else ())
    return sorted(i for i in out if i < len(tokens))


def token_ends(tokenizer, tokens):
    """Where each token ends, in characters."""
    return list(itertools.accumulate(len(tokenizer.texts[token]) for token in tokens))
