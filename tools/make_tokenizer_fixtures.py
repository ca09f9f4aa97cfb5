#!/usr/bin/env python3
"""Writes the tokenizers in tests/data/text and the ids that Hugging Face's `tokenizers` gives for a few hundred strings.

Never needed to build or to test: the results are committed. Needs `pip install tokenizers` (written with 0.23.3).

  make_tokenizer_fixtures.py fixtures DIR                trains the small tokenizers, writes DIR/NAME.json, DIR/NAME.expected.json, DIR/chat.expected.json
  make_tokenizer_fixtures.py more DIR                    with those: DIR/whole.expected.json, texts in which special tokens' texts are the tokens, and
                                                         DIR/templates.expected.json, conversations as Jinja renders the published templates
                                                         (`pip install jinja2`, written with 3.1.6)
  make_tokenizer_fixtures.py strings TOKENIZER N OUT     writes N strings to OUT.bin (u32 length, bytes) and their ids to OUT.ids, one
                                                         line each: the material of a larger comparison
"""
import json
import os
import random
import struct
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

LLAMA = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = LLAMA.replace(r"\p{N}{1,3}", r"\p{N}")
BAILING = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
# Those of deepseek-v3, which cut by general category.
DEEPSEEK = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]

SPACES = ["\t", "\n", "\x0b", "\x0c", "\r", "\x1c", "\x1d", "\x1e", "\x1f", " ", "\x85", "\xa0", "\u1680", "\u180e",
          *map(chr, range(0x2000, 0x200C)), "\u2028", "\u2029", "\u202f", "\u205f", "\u2060", "\u3000", "\ufeff", "\0"]
CONTRACTIONS = [q + s for q in ("'", "\u2019", "`") for s in ("s", "S", "t", "T", "re", "RE", "Re", "rE", "ve", "VE", "m", "M", "ll", "LL", "lL", "d",
                                                              "D", "\u017f", "\u212a", "l", "r", "v", "x", "")]
WORDS = ["the", "The", "and", "Hello", "world", "don", "I", "we", "you", "caf\u00e9", "cafe\u0301", "na\u00efve", "\u00c4pfel", "stra\u00dfe", "\u0130stanbul",
         "\u043d\u0435\u0449\u043e", "\u0411\u044a\u043b\u0433\u0430\u0440\u0441\u043a\u0438", "\u4f60\u597d", "\u4e16\u754c", "\u65e5\u672c\u8a9e", "\u30ab\u30bf\u30ab\u30ca", "\ud55c\uad6d\uc5b4", "\u1112\u1161\u11ab",
         "\u0645\u0631\u062d\u0628\u0627", "\u05e9\u05dc\u05d5\u05dd", "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0e44\u0e17\u0e22", "\U0001d4d7\U0001d4ee\U0001d4f5\U0001d4f5\U0001d4f8", "\ufb01n", "\u2126", "\u212b"]
NUMBERS = ["0", "1", "12", "123", "1234", "1234567", "3.14", "1,000", "\u00bd", "\u00b2", "\u2167", "\u0663\u0664", "\u0969", "\uff11\uff12", "\u4e00", "\u3007", "\u2460", "\U0001d7d8", "0x1F"]
SYMBOLS = [".", ",", "!", "?", "...", "--", "=>", "!=", "(", ")", "[", "]", "{", "}", "<", ">", "/", "\\", "|", "#", "$", "%", "^", "&", "*", "+", "_", "~", "\"",
           "\u20ac", "\u2192", "\u2014", "\u201c", "\u201d", "\u3002", "\uff0c", "\u00bf", "\u00ad", "\ufffd", "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "\u2764\ufe0f"]
MARKS = ["\u0301", "\u0300", "\u0323", "\u0338", "\u0f71", "\u0f72", "\u093c", "\u3099", "\u20dd", "\u200d", "\u0345", "\U0001d165"]
CONTROLS = ["<|mdm_mask|>", "<|eot_id|>", "<|endoftext|>", "<|startoftext|>", "<|start_header_id|>", "<|im_start|>", "<|im_end|>", "<role>", "</role>", "<|role_end|>",
            "<tool_call>", "</tool_call>", "<tool_call", "tool_call>", "<think>", "<|mdm_mask", "|>"]

# Of what a text with added tokens that overlap is made, and code points that Unicode 15 and 16 added, of several categories.
OVERLAPS = ["ab", "bc", "a", "b", "c", "abc", "cab", "<tool", "<tool_call>", "_call>", "call>x", "l>", "<|im_end|>", "<|im", "end", "|>", "d|>a", "[SEP]", "SEP", "EP]b", "[SE", "P]",
            "\u0897", "\u1b4e", "\u1c89", "\u1c8a", "\u2427", "\ua7da", "\U00010d40", "\U00011f01", "\U0001cc00", "\U0001e4d0", "\U000323af", "\U000113b8", "\U00010d6e"]


def any_character(r):
    while True:
        c = chr(r.choice([r.randrange(0x80), r.randrange(0x250), r.randrange(0x3000), r.randrange(0x10000), r.randrange(0x110000)]))
        if unicodedata.category(c) != "Cs":
            return c


def random_text(r, extra=()):
    def atom():
        if extra and r.random() < 0.6: return r.choice(extra)
        kind = r.randrange(12)
        if kind == 0: return r.choice(SPACES)
        if kind == 1: return r.choice(SPACES) * r.randrange(1, 6)
        if kind == 2: return r.choice(["\n", "\r\n", "\n\n", " \n", "\n ", "  ", "   ", "\t\t", " \t", "\r"])
        if kind == 3: return r.choice(CONTRACTIONS)
        if kind == 4: return r.choice(NUMBERS)
        if kind == 5: return r.choice(SYMBOLS) * r.choice([1, 1, 1, 2, 3, 7])
        if kind == 6: return any_character(r)
        if kind == 7: return r.choice(MARKS)
        if kind == 8 and r.random() < 0.3: return r.choice(CONTROLS)
        return r.choice(["", "", " "]) + r.choice(WORDS)
    return "".join(atom() for _ in range(r.randrange(1, r.choice([3, 6, 14, 40]))))


def training_text(r):
    syllables = [a + b + c for a in ("", "b", "d", "k", "st", "tr", "m", "n", "r", "sh") for b in "aeiou" for c in ("", "n", "r", "s", "ng")]
    lexicon = ["".join(r.choice(syllables) for _ in range(r.randrange(1, 4))) for _ in range(400)] + WORDS * 4
    for _ in range(3000):
        words = []
        for _ in range(r.randrange(3, 20)):
            word = r.choice(lexicon)
            words.append(r.choice([word, word, word.capitalize(), word + r.choice(CONTRACTIONS), r.choice(NUMBERS), r.choice(SYMBOLS), str(r.randrange(100000))]))
        yield r.choice(["", "    ", "\t", "\u3000"]) + r.choice([" ", " ", " ", "  ", "\n"]).join(words) + r.choice([".", "!\n", "\n\n", "\r\n", " ...\n"])


def special(text): return AddedToken(text, special=True, normalized=False)
def plain(text): return AddedToken(text, special=False, normalized=False)
def late(text, special=False): return AddedToken(text, special=special, normalized=True)


def split(regex):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


# Gemma 4's kind: merges of characters, a space is U+2581, byte tokens for what has no token.
GEMMA_SPECIALS = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|think|>", "<|tool_response>"]

FIXTURES = {
    "gpt2": (pre_tokenizers.ByteLevel(add_prefix_space=False), None, False, [special("<|endoftext|>")], 900),
    "llama": (split(LLAMA), None, True, [special(t) for t in ("<|startoftext|>", "<|endoftext|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|mdm_mask|>")], 1000),
    "qwen2": (split(QWEN), normalizers.NFC(), False, [special("<|endoftext|>"), special("<|im_start|>"), special("<|im_end|>"), plain("<tool_call>"), plain("</tool_call>"),
                                                      plain("<tool"), special("<|mask|>")], 1000),
    "bailing": (split(BAILING), None, False, [special(t) for t in ("<|startoftext|>", "<|endoftext|>", "<role>", "</role>", "<|role_end|>", "<|mdm_mask|>")] + [plain("<think>")], 1000),
    "sequence": (pre_tokenizers.Sequence([pre_tokenizers.Split("na\u00efve", "isolated"), pre_tokenizers.Digits(individual_digits=True),
                                          pre_tokenizers.Split(Regex(r"[\p{Han}\p{P}]+|\S{1,7}"), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), None, False, [], 600),
    "overlaps": (pre_tokenizers.Sequence([*(pre_tokenizers.Split(Regex(regex), "isolated") for regex in DEEPSEEK), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), None, False,
                 [special("<|im_end|>"), plain("end"), plain("d|>a"), late("<|im"), plain("bc"), late("ab"), late("abc"), plain("<tool"), plain("<tool_call>"), late("call>x"), late("l>"),
                  late("[SEP]", special=True), late("EP]b"), late("SEP")], 500),
    "gemma": (None, None, False, [special(name) for name in GEMMA_SPECIALS] + [plain("<table>")], 700),
}


def gemma_tokenizer(r, added, size):
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", "\u2581")
    trained.pre_tokenizer = pre_tokenizers.Split(Regex(r"\n+|[^\n]+"), "isolated")
    texts = [text + "\n" * r.randrange(1, 6) for text in training_text(r)]
    trained.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, limit_alphabet=120, show_progress=False))
    learned = json.loads(trained.to_str())["model"]
    names = GEMMA_SPECIALS + [f"<0x{byte:02X}>" for byte in range(256)] + sorted(learned["vocab"], key=learned["vocab"].get)
    tokenizer = Tokenizer(models.BPE({name: id for id, name in enumerate(names)}, [tuple(m) for m in learned["merges"]],
                                     fuse_unk=True, unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_tokens(added)
    return tokenizer


def ids_of(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def write_fixtures(folder):
    for name, (pre, normalizer, ignore_merges, added, size) in FIXTURES.items():
        r = random.Random("fixture " + name)
        if name == "gemma":
            tokenizer = gemma_tokenizer(r, added, size)
        else:
            tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
            tokenizer.pre_tokenizer, tokenizer.decoder = pre, decoders.ByteLevel()
            if normalizer: tokenizer.normalizer = normalizer
            tokenizer.train_from_iterator(training_text(r), trainers.BpeTrainer(vocab_size=size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
            tokenizer.add_tokens(added)
        path = os.path.join(folder, name + ".json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(json.loads(tokenizer.to_str()), file, ensure_ascii=False, separators=(",", ":"))
        tokenizer = Tokenizer.from_file(path)
        tokenizer.encode_special_tokens = True
        items = []
        while len(items) < 300:
            text = random_text(r, OVERLAPS if name == "overlaps" else ())
            # The library normalises with an old Unicode table, which misplaces marks added since.
            if normalizer and normalizer.normalize_str(text) != unicodedata.normalize("NFC", text): continue
            items.append({"text": text, "ids": ids_of(tokenizer, text)})
        with open(os.path.join(folder, name + ".expected.json"), "w", encoding="utf-8") as file:
            file.write("[\n" + ",\n".join(json.dumps(i, separators=(",", ":")) for i in items) + "\n]\n")


SYSTEM = "You are a helpful assistant."
TEMPLATES = {  # only what recognises a style and its default system text
    "llama": "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>' }}",
    "qwen2": "{{ '<|im_start|>system\\n" + SYSTEM + "<|im_end|>' }}",
    "bailing": "{{- '<role>SYSTEM</role>' }}{% if messages[0].role == 'system' %}{{- messages[0].content + '\\n' }}{% endif %}"
               "{{- 'detailed thinking off<|role_end|>' }}{% for message in messages %}"
               "{{- '<role>HUMAN</role>' + message.content + '<|role_end|>' }}{% endfor %}",
}


def rendered(name, messages, header):
    """What the published templates make of a conversation, as one string."""
    system = messages[0]["role"] == "system"
    if name == "llama":
        return "<|startoftext|>" + "".join(f"<|start_header_id|>{m['role']}<|end_header_id|>\n\n{m['content'].strip()}<|eot_id|>" for m in messages) + (
            "<|start_header_id|>assistant<|end_header_id|>\n\n" if header else "")
    if name == "qwen2":
        return ("" if system else f"<|im_start|>system\n{SYSTEM}<|im_end|>\n") + "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages) + (
            "<|im_start|>assistant\n" if header else "")
    roles = {"system": "SYSTEM", "user": "HUMAN", "assistant": "ASSISTANT"}
    off = "detailed thinking off"
    return ("" if system else f"<role>SYSTEM</role>{off}<|role_end|>") + "".join(
        f"<role>{roles[m['role']]}</role>{m['content']}" + (f"\n{off}" if system and m is messages[0] else "") + "<|role_end|>"
        for m in messages) + ("<role>ASSISTANT</role>" if header else "")


def write_chats(folder):
    conversations = [
        [("user", "Hello, who are you?")],
        [("system", " Be brief. "), ("user", "\n What's 12 * 34?\t")],
        [("user", "Hi"), ("assistant", " Hello! \n"), ("user", "\u3000\x1cDon't\n\nstop\x85"), ("assistant", "OK."), ("user", "\u4f60\u597d")],
        [("system", ""), ("user", "   ")],
    ]
    items = []
    for name, template in TEMPLATES.items():
        tokenizer = Tokenizer.from_file(os.path.join(folder, name + ".json"))
        for conversation in conversations:
            messages = [{"role": role, "content": content} for role, content in conversation]
            for header in (True, False):
                items.append({"tokenizer": name, "chat_template": template, "messages": messages, "header": header,
                              "ids": ids_of(tokenizer, rendered(name, messages, header))})
    with open(os.path.join(folder, "chat.expected.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(i, separators=(",", ":")) for i in items) + "\n]\n")


def write_whole(folder):
    items = []
    for name in FIXTURES:
        r = random.Random("whole " + name)
        tokenizer = Tokenizer.from_file(os.path.join(folder, name + ".json"))
        own = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        made = 0
        while made < 40:
            text = "".join(r.choice([r.choice(own + CONTROLS), random_text(r)]) for _ in range(r.randrange(1, 8)))
            if name == "qwen2" and tokenizer.normalizer.normalize_str(text) != unicodedata.normalize("NFC", text): continue
            items.append({"tokenizer": name, "text": text, "ids": ids_of(tokenizer, text)})
            made += 1
    with open(os.path.join(folder, "whole.expected.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(i, separators=(",", ":")) for i in items) + "\n]\n")


# What the models' templates do with a conversation, in their own ways of writing it.
PUBLISHED = {
    ("llada-8b", "llama"): """{% set loop_messages = messages %}{% for message in loop_messages %}{% if loop.index0 == 0 %}{{ bos_token }}{% endif %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>

' + message['content'] | trim + '<|eot_id|>' %}{{ content }}{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>

' }}""",
    ("tiny", "llama"): "{% for m in messages %}{% if loop.first %}<|startoftext|>{% endif %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n{{ m['content'] | trim }}<|eot_id|>"
                       "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}",
    ("dream", "qwen2"): """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {{- "# Tools\\n\\nYou may call functions:\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are a careful helper. "Quote" it.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "tool" %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    ("thinks", "qwen2"): """{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last_query_index=messages|length - 1) %}
{%- for message in messages %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content %}
        {%- if '</think>' in message.content %}
            {%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}""",
    ("gemma-4", "gemma"): """{%- macro strip_thinking(text) -%}
    {%- set ns = namespace(result='') -%}
    {%- for part in text.split('<channel|>') -%}
        {%- if '<|channel>' in part -%}
            {%- set ns.result = ns.result + part.split('<|channel>')[0] -%}
        {%- else -%}
            {%- set ns.result = ns.result + part -%}
        {%- endif -%}
    {%- endfor -%}
    {{- ns.result | trim -}}
{%- endmacro -%}
{%- set loop_messages = messages -%}
{{- bos_token -}}
{%- if (enable_thinking is defined and enable_thinking) or tools or messages[0]['role'] in ['system', 'developer'] -%}
    {{- '<|turn>system\\n' -}}
    {%- if enable_thinking is defined and enable_thinking -%}
        {{- '<|think|>\\n' -}}
    {%- endif -%}
    {%- if messages[0]['role'] in ['system', 'developer'] -%}
        {{- messages[0]['content'] | trim -}}
        {%- set loop_messages = messages[1:] -%}
    {%- endif -%}
    {%- if tools -%}
        {%- for tool in tools %}{{- '<|tool>' + (tool | tojson) + '<tool|>' -}}{%- endfor %}
    {%- endif -%}
    {{- '<turn|>\\n' -}}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {{- '<|turn>' + role + '\\n' -}}
    {%- if role == 'model' -%}
        {{- strip_thinking(message['content']) -}}
    {%- else -%}
        {{- message['content'] | trim -}}
    {%- endif -%}
    {{- '<turn|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|turn>model\\n' -}}
    {%- if not enable_thinking | default(false) -%}
        {{- '<|channel>thought\\n<channel|>' -}}
    {%- endif -%}
{%- endif -%}
""",
    ("ling-2", "bailing"): """{% set thinking_option = 'off' %}
{{- '<role>SYSTEM</role>' }}
{%- if messages[0].role == 'system' %}
    {{- messages[0].content + '\\n' }}
{%- endif %}
{%- if tools %}
    {{- "# Tools\\n\\nYou may call functions:\\n" }}
    {%- for tool in tools %}
        {{- tool | tojson }}
    {%- endfor %}
{%- endif %}
{{- 'detailed thinking ' + thinking_option + '<|role_end|>' }}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == "user" %}
        {{- '<role>HUMAN</role>' + message.content + '<|role_end|>' }}
    {%- elif message.role == "system" and not loop.first %}
        {{- '<role>SYSTEM</role>' + message.content + '<|role_end|>' }}
    {%- elif message.role == "assistant" %}
        {%- if '</think>' in content %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<role>ASSISTANT</role>' + content }}
        {%- if message.tool_calls %}
            {{- '<tool_call>' }}
        {%- endif %}
        {{- '<|role_end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<role>ASSISTANT</role>' }}
{%- endif %}""",
}


def write_templates(folder):
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    thought = "<think>\nHm. 1 < 2.\n</think>\n\n\nYes.\n"
    conversations = [
        [("user", "Hello, who are you?")],
        [("system", " Be brief. "), ("user", "\n What's 12 * 34?\t")],
        [("user", "Hi"), ("assistant", " Hello! \n"), ("user", "Don't\n\nstop"), ("assistant", "OK."), ("user", "\u4f60\u597d")],
        [("system", ""), ("user", "   ")],
        [("system", "One."), ("user", "a"), ("system", "Two."), ("user", "b")],
        [("user", "Sure?"), ("assistant", thought), ("user", "Really?")],
    ]
    items = []
    for (name, fixture), source in PUBLISHED.items():
        tokenizer = Tokenizer.from_file(os.path.join(folder, fixture + ".json"))
        template = environment.from_string(source)
        gemma = fixture == "gemma"
        channel = [("user", "So?"), ("assistant", "<|channel>thought\nHm.\n<channel|> No. "), ("user", "Why?")]
        for conversation in conversations + ([channel] if gemma else []):
            messages = [{"role": role, "content": content} for role, content in conversation]
            for think in (False, True) if gemma else (False,):
                text = template.render(messages=messages, add_generation_prompt=True, bos_token="<bos>" if gemma else "<|startoftext|>",
                                       **({"enable_thinking": think} if gemma else {}))
                items.append({"name": name, "tokenizer": fixture, "messages": messages, "ids": ids_of(tokenizer, text)} | ({"think": True} if think else {}))
    content = {"templates": {name: source for (name, _), source in PUBLISHED.items()}, "items": items}
    with open(os.path.join(folder, "templates.expected.json"), "w", encoding="utf-8") as file:
        json.dump(content, file, indent=0, separators=(",", ":"))
        file.write("\n")


def write_strings(path, count, out):
    r = random.Random(7)
    tokenizer = Tokenizer.from_file(path)
    tokenizer.encode_special_tokens = True
    with open(out + ".bin", "wb") as texts, open(out + ".ids", "w") as ids:
        for _ in range(count):
            text = random_text(r)
            data = text.encode()
            texts.write(struct.pack("<I", len(data)) + data)
            ids.write("".join(f"{i} " for i in ids_of(tokenizer, text)) + "\n")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "fixtures":
        write_fixtures(sys.argv[2])
        write_chats(sys.argv[2])
    elif len(sys.argv) == 3 and sys.argv[1] == "more":
        write_whole(sys.argv[2])
        write_templates(sys.argv[2])
    elif len(sys.argv) == 5 and sys.argv[1] == "strings":
        write_strings(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        sys.exit(__doc__)
