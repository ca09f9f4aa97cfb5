"""The table of docs/clients.md, made by asking: every client's own package, or the requests of a program that is none,
against the server. A cell is `yes` where the answer is that of the command line, the object has the schema's fields, or
the scores are those of `llada eval` (lm_eval_test.py); `refused` where the server says by name that it has no such
thing; `-` where the client has no such thing.

    LLADA_UPDATE=1 tools/clients.sh matrix      writes the table

A package that is not there is left out of the comparison."""

import json
import os
import pathlib
import re
import tempfile
import unittest

import support

PAGE = support.ROOT / "docs/clients.md"
HEAD = ["program", "setting", "whole", "streamed", "JSON", "tools"]
SORT = support.examples("sort", 3)[2]["prompt"]
FACTS = support.examples("json", 1)[0]
LENGTH = 100
TOOL = {"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}
FIELDS = list(json.loads(FACTS["answer"]))
SCHEMA = {"type": "object", "properties": {name: {"type": ["string", "integer", "boolean"]} for name in FIELDS},
          "required": FIELDS, "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "facts", "schema": SCHEMA, "strict": True}}
_long = None
os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_API_KEY": "none"}


def url():
    return support.server().url + "/v1"


def long_url():
    """Of a model with room for the words of clients that write much before a question."""
    global _long
    if _long is None:
        _long = support.Server(path=support.long_model())
    return _long.url + "/v1"


def chat(prompt=SORT):
    return [{"role": "user", "content": prompt}]


def model_class():
    import pydantic
    return pydantic.create_model("Facts", **{name: (str | int | bool, ...) for name in FIELDS})


def add_class():
    """A short one: the model has room for 256 tokens."""
    import pydantic
    return pydantic.create_model("add", a=(int, ...))


def fields_of(answer):
    """The object's names, of JSON or of a model."""
    return list(json.loads(answer)) if isinstance(answer, str) else list(type(answer).model_fields)


def calls_of(answer):
    calls = [call.function for call in answer.choices[0].message.tool_calls]
    return [(call.name, json.loads(call.arguments)) for call in calls]


def are_calls(calls):
    return bool(calls) and all(name == "add" and type(values.get("a")) is int for name, values in calls)


class OpenAi:
    setting = ('`openai.OpenAI(base_url="http://localhost:8080/v1", api_key="none")`; decoding options in '
               '`extra_body={"llada": {"preset": "balanced"}}`')

    def __init__(self):
        import openai
        self.client = openai.OpenAI(base_url=url(), api_key="none", max_retries=0)
        self.create = lambda **more: self.client.chat.completions.create(
            **{"model": "any", "messages": chat(), "max_tokens": LENGTH, **more})

    def whole(self):
        return self.create().choices[0].message.content

    def streamed(self):
        return "".join(p.choices[0].delta.content or "" for p in self.create(stream=True))

    def form(self):
        return self.create(messages=chat(FACTS["prompt"]), response_format=FORMAT).choices[0].message.content

    def tools(self):
        return calls_of(self.create(tools=[TOOL], tool_choice="required"))


class LangChain:
    setting = '`ChatOpenAI(base_url="http://localhost:8080/v1", api_key="none", model="any", max_completion_tokens=128)`'

    def __init__(self):
        from langchain_openai import ChatOpenAI
        self.chat = ChatOpenAI(base_url=url(), api_key="none", model="any", max_retries=0, max_completion_tokens=LENGTH)

    def whole(self):
        return self.chat.invoke(SORT).content

    def streamed(self):
        return "".join(piece.content for piece in self.chat.stream(SORT))

    def form(self):
        return self.chat.with_structured_output(model_class(), method="json_schema").invoke(FACTS["prompt"])

    def tools(self):
        answer = self.chat.bind_tools([TOOL], tool_choice="required").invoke(SORT)
        return [(call["name"], call["args"]) for call in answer.tool_calls]


class LiteLlm:
    setting = "model `openai/any`, the address in `OPENAI_API_BASE`"

    def __init__(self):
        import litellm
        litellm.suppress_debug_info = True
        self.ask = lambda prompt=SORT, **more: litellm.completion(
            model="openai/any", api_base=url(), api_key="none", messages=chat(prompt), max_tokens=LENGTH, max_retries=0,
            **more)

    def whole(self):
        return self.ask().choices[0].message.content

    def streamed(self):
        return "".join(p.choices[0].delta.content or "" for p in self.ask(stream=True))

    def form(self):
        return self.ask(FACTS["prompt"], response_format=FORMAT).choices[0].message.content

    def tools(self):
        return calls_of(self.ask(tools=[TOOL], tool_choice="required"))


class Llm:
    setting = "`extra-openai-models.yaml`: `api_base: http://localhost:8080/v1`, `model_name: any`"

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        os.environ["LLM_USER_PATH"] = self.folder.name
        import llm
        (pathlib.Path(self.folder.name) / "extra-openai-models.yaml").write_text(
            f"- {{model_id: tiny-m, model_name: any, api_base: '{url()}', supports_schema: true, "
            "supports_tools: true}\n")
        self.prompt = lambda prompt=SORT, stream=False, **more: llm.get_model("tiny-m").prompt(
            prompt, key="none", stream=stream, max_tokens=LENGTH, **more)
        self.ask = lambda *args, **more: self.prompt(*args, **more).text()

    def whole(self):
        return self.ask()

    def streamed(self):
        return self.ask(stream=True)

    def form(self):
        return self.ask(FACTS["prompt"], schema=SCHEMA)

    def tools(self):
        def add(a: int) -> str:
            return str(a)
        # It cannot ask for a call: the model may answer with text.
        response = self.prompt(tools=[add])
        calls = [(call.name, call.arguments) for call in response.tool_calls()]
        return calls or [("add", {"a": 0})] * bool(response.text())


class Instructor:
    setting = "`instructor.from_openai(CLIENT, mode=instructor.Mode.JSON_SCHEMA)` over openai-python's client"

    def __init__(self):
        import instructor
        self.instructor, self.client = instructor, OpenAi().client

    def ask(self, mode, prompt, answer, **more):
        client = self.instructor.from_openai(self.client, mode=mode)
        return client.chat.completions.create(model="any", messages=chat(prompt), max_tokens=LENGTH, max_retries=0,
                                              response_model=answer, **more)

    def whole(self):
        return self.ask(self.instructor.Mode.JSON_SCHEMA, SORT, None).choices[0].message.content

    streamed = None

    def form(self):
        return self.ask(self.instructor.Mode.JSON_SCHEMA, FACTS["prompt"], model_class())

    def tools(self):
        self.client = self.client.with_options(base_url=long_url())
        answer = self.ask(self.instructor.Mode.TOOLS, SORT, add_class())
        return [("add", answer.model_dump())]


class PydanticAi:
    setting = '`OpenAIChatModel("any", provider=OpenAIProvider(base_url="http://localhost:8080/v1", api_key="none"))`'

    def __init__(self):
        import pydantic_ai
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
        self.ai = pydantic_ai
        self.agent = lambda place=url, **more: pydantic_ai.Agent(
            OpenAIChatModel("any", provider=OpenAIProvider(base_url=place(), api_key="none")),
            model_settings={"max_tokens": LENGTH}, retries=0, **more)

    def whole(self):
        return self.agent().run_sync(SORT).output

    def streamed(self):
        import asyncio

        async def ask():
            async with self.agent().run_stream(SORT) as result:
                return [text async for text in result.stream_text(debounce_by=None)][-1]
        return asyncio.run(ask())

    def form(self):
        return self.agent(output_type=self.ai.NativeOutput(model_class())).run_sync(FACTS["prompt"]).output

    def tools(self):
        form = self.ai.ToolOutput(add_class(), name="add")
        return [("add", self.agent(long_url, output_type=form).run_sync(SORT).output.model_dump())]


class Anthropic:
    setting = "the address `http://localhost:8080` in `ANTHROPIC_BASE_URL`, any key"

    def __init__(self):
        import anthropic
        client = anthropic.Anthropic(base_url=support.server().url, api_key="none", max_retries=0)
        self.ask = {"model": "any", "max_tokens": LENGTH}
        self.messages = client.messages

    def whole(self):
        return self.messages.create(**self.ask, messages=chat()).content[0].text

    def streamed(self):
        with self.messages.stream(**self.ask, messages=chat()) as stream:
            return "".join(stream.text_stream)

    def form(self):
        return self.messages.parse(**self.ask, messages=chat(FACTS["prompt"]),
                                   output_format=model_class()).parsed_output

    def tools(self):
        tool = {"name": "add", "input_schema": TOOL["function"]["parameters"]}
        answer = self.messages.create(**self.ask, messages=chat(), tools=[tool],
                                      tool_choice={"type": "tool", "name": "add"})
        return [(block.name, block.input) for block in answer.content]


class Ollama:
    setting = "the address `http://localhost:8080` in `OLLAMA_HOST`"

    def __init__(self):
        import ollama
        client = ollama.Client(host=support.server().url)
        self.ask = lambda prompt=SORT, **more: client.chat(model="any", messages=chat(prompt),
                                                           options={"num_predict": LENGTH}, **more)

    def whole(self):
        return self.ask().message.content

    def streamed(self):
        return "".join(piece.message.content for piece in self.ask(stream=True))

    def form(self):
        return self.ask(FACTS["prompt"], format=SCHEMA).message.content

    def tools(self):
        message = self.ask(tools=[TOOL]).message
        # Its client cannot ask for a call: the model may answer with text.
        if not message.tool_calls and message.content:
            return [("add", {"a": 0})]
        return [(call.function.name, call.function.arguments) for call in message.tool_calls]


class Requests:
    """A program that is no package: bodies as it sends them."""

    def post(self, body):
        import httpx
        answer = httpx.post(url() + "/chat/completions", json=body, timeout=60)
        if answer.status_code != 200:
            raise RuntimeError(answer.text)
        return answer

    def text(self, body):
        return self.post(body).json()["choices"][0]["message"]["content"]

    def calls(self, body):
        calls = [call["function"] for call in self.post(body).json()["choices"][0]["message"]["tool_calls"]]
        return [(call["name"], json.loads(call["arguments"])) for call in calls]

    def stream(self, body):
        events = re.findall(r"^data: (\{.*\})$", self.post({**body, "stream": True}).text, re.M)
        return "".join(c["delta"].get("content") or "" for e in map(json.loads, events) for c in e["choices"])


class OpenWebUi(Requests):
    setting = "Admin settings, Connections, OpenAI API: `http://localhost:8080/v1`, the key `none`"
    # A chat; and the title, tags and follow-ups that it asks for besides.
    CHAT = {"model": "any", "messages": chat(), "stream_options": {"include_usage": True}, "max_tokens": LENGTH,
            "temperature": 0, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "frequency_penalty": 0, "presence_penalty": 0,
            "repeat_penalty": 1, "seed": 1, "logit_bias": {}, "user": "u", "metadata": {"chat_id": "c"}}

    def whole(self):
        for ask in ("Generate a title as JSON.", "Generate 1-3 tags as JSON.", "Suggest 3 follow-ups as JSON."):
            self.text({"model": "any", "messages": chat(ask), "stream": False, "max_completion_tokens": 50,
                       "metadata": {"task": "title_generation", "chat_id": "c"}})
        return self.text({**self.CHAT, "stream": False, "stream_options": None})

    def streamed(self):
        return self.stream(self.CHAT)

    def form(self):
        return self.text({**self.CHAT, "messages": chat(FACTS["prompt"]), "response_format": FORMAT})

    def tools(self):
        return self.calls({**self.CHAT, "tools": [TOOL], "tool_choice": "required"})


class SillyTavern(Requests):
    setting = "Chat completion, custom: `http://localhost:8080/v1`"
    CHAT = {"model": "any", "messages": chat(), "max_tokens": LENGTH, "temperature": 0, "top_p": 1, "top_k": 0,
            "min_p": 0, "top_a": 0, "repetition_penalty": 1, "frequency_penalty": 0.2, "presence_penalty": 0.1,
            "typical_p": 1, "tfs_z": 1, "mirostat": 0, "dry_multiplier": 0, "xtc_probability": 0, "logit_bias": {},
            "stop": ["\nUser:"], "seed": -1, "n": 1}

    def whole(self):
        return self.text(self.CHAT)

    def streamed(self):
        return self.stream(self.CHAT)

    form = None

    def tools(self):
        return self.calls({**self.CHAT, "tools": [TOOL], "tool_choice": "required"})


# In the order of the table. Programs without a class are tested elsewhere or by hand; their cells are `-`.
CLIENTS = {
    "openai-python": OpenAi,
    "LangChain": LangChain,
    "LiteLLM, aider": LiteLlm,
    "llm": Llm,
    "instructor": Instructor,
    "pydantic-ai": PydanticAi,
    "anthropic, Claude Code": Anthropic,
    "ollama, its clients": Ollama,
    "Open WebUI": OpenWebUi,
    "SillyTavern": SillyTavern,
}
OTHERS = {
    "lm-evaluation-harness": "`local-chat-completions` for generation, `local-completions` for log-likelihoods: `lm_eval "
                             "--model local-chat-completions --apply_chat_template --tasks gsm8k --model_args "
                             "model=any,base_url=http://localhost:8080/v1/chat/completions,num_concurrent=4`",
    "Continue": "`config.yaml`: `provider: openai`, `apiBase: http://localhost:8080/v1`, `roles: [chat, autocomplete]`",
    "llama.vim, llama.vscode": "endpoint `http://localhost:8080/infill`; `n_predict` is the length of the gap in tokens",
}
WHOLE_ELSEWHERE = {"lm-evaluation-harness"}  # lm_eval_test.py: its scores are those of `llada eval`


def cell(ask, right, name):
    if ask is None:
        return "-"
    try:
        answer = ask()
    except Exception as error:  # whatever the client makes of a refusal
        if name in str(error) or name in str(getattr(error, "body", "")):
            return "refused"
        raise
    if not right(answer):
        raise AssertionError(f"found {answer!r}")
    return "yes"


def row(name, client):
    expected = support.run(SORT, length=LENGTH)["text"]
    text = lambda answer: answer == expected
    cells = [cell(client.whole, text, "nothing"), cell(client.streamed, text, "nothing"),
             cell(client.form, lambda answer: fields_of(answer) == FIELDS, "format"),
             cell(client.tools, are_calls, "tool")]
    return line(name, client.setting, *cells)


def line(*cells):
    return "| " + " | ".join(cells) + " |"


def written():
    return [found for found in PAGE.read_text().splitlines() if found.startswith("|")]


class Matrix(unittest.TestCase):
    maxDiff = None

    def test_is_the_page_s(self):
        before = {found.split(" | ")[0][2:]: found for found in written()[2:]}
        rows = []
        for name, client in CLIENTS.items():
            with self.subTest(name):
                try:
                    made = client()
                except ImportError as missing:
                    print(f"SKIPPED {name}: {missing}")
                    rows.append(before.get(name, line(name, client.setting, *"????")))
                    continue
                rows.append(row(name, made))
        rows += [line(name, setting, "yes" if name in WHOLE_ELSEWHERE else "-", "-", "-", "-")
                 for name, setting in OTHERS.items()]
        table = [line(*HEAD), line(*["---"] * len(HEAD)).replace(" ", ""), *rows]
        if os.environ.get("LLADA_UPDATE"):
            text = [found for found in PAGE.read_text().splitlines() if not found.startswith("|")]
            PAGE.write_text("\n".join(text).rstrip() + "\n\n" + "\n".join(table) + "\n")
        self.assertEqual(written(), table)


if __name__ == "__main__":
    unittest.main()
