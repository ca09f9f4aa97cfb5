"""Tools and structured answers by public clients, unmodified. A tiny model knows no tools, so what is checked is that
every call can be executed and every structured answer is read: names, types, bounds; values where a schema leaves
one."""

import asyncio
import json
import os
import typing
import unittest

import jsonschema
import openai
import pydantic

import support

NAME = support.NAME
TEXT = "Write as JSON: Eric is 31 years old, lives in Oslo and works as a baker."
_server = None


def url():
    global _server
    if _server is None:
        _server = support.Server(path=support.long_model())
    return _server.url


class Person(pydantic.BaseModel):
    """A person."""
    name: str = pydantic.Field(max_length=12)
    age: int = pydantic.Field(ge=0, le=150)
    job: typing.Literal["baker", "pilot"]


SCHEMA = {"type": "object", "required": ["a", "to"], "additionalProperties": False,
          "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}, "to": {"const": "Eric"}}}
TOOL = {"type": "function", "function": {"name": "send", "description": "Sends.", "parameters": SCHEMA, "strict": True}}
CHAT = [{"role": "user", "content": TEXT}]


class OpenAi(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=url() + "/v1", api_key="none", max_retries=0)

    def valid(self, call):
        self.assertEqual(call.name, "send")
        jsonschema.validate(json.loads(call.arguments), SCHEMA)

    def test_a_call_and_its_result(self):
        for choice in ("required", {"type": "function", "function": {"name": "send"}}):
            answer = self.client.chat.completions.create(model=NAME, messages=CHAT, tools=[TOOL], tool_choice=choice,
                                                         max_tokens=96)
            self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
            message = answer.choices[0].message
            self.assertIsNone(message.content)
            for call in message.tool_calls:
                self.valid(call.function)
        turns = CHAT + [message] + [{"role": "tool", "tool_call_id": call.id, "content": "sent"}
                                    for call in message.tool_calls]
        answer = self.client.chat.completions.create(model=NAME, messages=turns, tools=[TOOL], max_tokens=64)
        self.assertIn(answer.choices[0].finish_reason, ("stop", "length", "tool_calls"))

    def test_parse(self):
        answer = self.client.chat.completions.parse(model=NAME, messages=CHAT, response_format=Person, max_tokens=96)
        self.assertIsInstance(answer.choices[0].message.parsed, Person)
        answer = self.client.chat.completions.parse(model=NAME, messages=CHAT, max_tokens=96, tool_choice="required",
                                                    tools=[openai.pydantic_function_tool(Person)])
        self.assertIsInstance(answer.choices[0].message.tool_calls[0].function.parsed_arguments, Person)

    def test_streaming_helpers(self):
        options = {"model": NAME, "messages": CHAT, "tools": [TOOL], "tool_choice": "required", "max_tokens": 96}
        with self.client.chat.completions.stream(**options) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        self.assertIn("tool_calls.function.arguments.done", kinds)
        whole = self.client.chat.completions.create(**options)
        self.assertEqual(*([call.function.arguments for call in answer.choices[0].message.tool_calls]
                           for answer in (final, whole)))
        self.assertEqual(final.choices[0].finish_reason, "tool_calls")

    def test_responses(self):
        tool = {"type": "function", "name": "send", "parameters": SCHEMA, "strict": True}
        options = {"model": NAME, "input": TEXT, "tools": [tool], "tool_choice": "required", "max_output_tokens": 96}
        answer = self.client.responses.create(**options)
        for item in answer.output:
            self.assertEqual(item.type, "function_call")
            self.valid(item)
        with self.client.responses.stream(**options) as stream:
            deltas = [event.delta for event in stream if event.type == "response.function_call_arguments.delta"]
            final = stream.get_final_response()
        self.assertEqual("".join(deltas), "".join(item.arguments for item in answer.output))
        self.assertEqual([item.arguments for item in final.output], [item.arguments for item in answer.output])
        turns = [{"role": "user", "content": TEXT}] + [item.model_dump(exclude_none=True) for item in answer.output]
        turns += [{"type": "function_call_output", "call_id": item.call_id, "output": "sent"} for item in answer.output]
        self.client.responses.create(model=NAME, input=turns, tools=[tool], max_output_tokens=32)
        parsed = self.client.responses.parse(model=NAME, input=TEXT, text_format=Person, max_output_tokens=96)
        self.assertIsInstance(parsed.output_parsed, Person)


class Instructor(unittest.TestCase):
    def test_its_modes(self):
        import instructor
        for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON):
            with self.subTest(mode):
                client = instructor.from_openai(openai.OpenAI(base_url=url() + "/v1", api_key="none"), mode=mode)
                # Its mode JSON asks for any object, which need not be a person: then it asks again, which is no test.
                if mode == instructor.Mode.TOOLS:
                    self.assertIsInstance(client.chat.completions.create(
                        model=NAME, messages=CHAT, response_model=Person, max_tokens=128), Person)


class PydanticAi(unittest.TestCase):
    def test_output_types_and_tools(self):
        from pydantic_ai import Agent, NativeOutput
        from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
        from pydantic_ai.providers.openai import OpenAIProvider
        provider = OpenAIProvider(base_url=url() + "/v1", api_key="none")
        settings = {"max_tokens": 128}
        for kind in (OpenAIChatModel, OpenAIResponsesModel):
            for output in (Person, NativeOutput(Person)):
                with self.subTest(kind, output=output):
                    agent = Agent(kind(NAME, provider=provider), output_type=output, model_settings=settings)
                    self.assertIsInstance(agent.run_sync(TEXT).output, Person)


class LangChain(unittest.TestCase):
    def test_structured_output_and_tools(self):
        from langchain_core.tools import tool
        from langchain_openai import ChatOpenAI

        @tool
        def add(a: int, b: int) -> int:
            """Adds."""
            return a + b

        model = ChatOpenAI(base_url=url() + "/v1", api_key="none", model=NAME, max_retries=0, max_completion_tokens=128)
        for method in ("function_calling", "json_schema"):
            with self.subTest(method):
                self.assertIsInstance(model.with_structured_output(Person, method=method).invoke(TEXT), Person)
        answer = model.bind_tools([add], tool_choice="any").invoke("What is 1 + 2?")
        self.assertTrue(answer.tool_calls)
        for call in answer.tool_calls:
            self.assertIsInstance(add.invoke(call).content, str)
        streamed = None
        for chunk in model.bind_tools([add], tool_choice="any").stream("What is 1 + 2?"):
            streamed = chunk if streamed is None else streamed + chunk
        self.assertEqual([call["args"] for call in streamed.tool_calls], [call["args"] for call in answer.tool_calls])


class LlamaIndex(unittest.TestCase):
    def test_structured_answers_and_tools(self):
        from llama_index.core.llms import ChatMessage
        from llama_index.core.tools import FunctionTool
        from llama_index.llms.openai_like import OpenAILike
        model = OpenAILike(model=NAME, api_base=url() + "/v1", api_key="none", is_chat_model=True, max_tokens=128,
                           is_function_calling_model=True, context_window=16384)
        answer = model.as_structured_llm(Person).chat([ChatMessage(role="user", content=TEXT)])
        self.assertIsInstance(answer.raw, Person)

        def add(a: int, b: int) -> int:
            """Adds."""
            return a + b

        answer = model.chat_with_tools([FunctionTool.from_defaults(add)], user_msg="1 + 2?", tool_required=True)
        calls = model.get_tool_calls_from_response(answer)
        self.assertTrue(calls)
        self.assertIsInstance(add(**calls[0].tool_kwargs), int)


class Smolagents(unittest.TestCase):
    def test_a_tool_is_called(self):
        from smolagents import OpenAIServerModel, ToolCallingAgent, tool
        called = []

        @tool
        def note(number: int) -> str:
            """Notes a number.

            Args:
                number: the number
            """
            called.append(number)
            return "noted"

        model = OpenAIServerModel(model_id=NAME, api_base=url() + "/v1", api_key="none", max_tokens=96)
        agent = ToolCallingAgent(tools=[note], model=model, max_steps=1, verbosity_level=0)
        agent.run("Note 7.")
        self.assertTrue(called or any(getattr(step, "tool_calls", None) for step in agent.memory.steps))
        for number in called:
            self.assertIsInstance(number, int)


class AgentsSdk(unittest.TestCase):
    def test_both_models(self):
        os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
        from agents import Agent, ModelSettings, Runner, function_tool
        from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
        from agents.models.openai_responses import OpenAIResponsesModel
        called = []

        @function_tool
        def note(number: int) -> str:
            """Notes a number."""
            called.append(number)
            return "noted"

        async def run(kind):
            model = kind(model=NAME, openai_client=openai.AsyncOpenAI(base_url=url() + "/v1", api_key="none"))
            settings = ModelSettings(tool_choice="required", max_tokens=96, parallel_tool_calls=False)
            agent = Agent(name="A", model=model, tools=[note], model_settings=settings)
            await Runner.run(agent, "Note 7.", max_turns=8)
            typed = Agent(name="B", model=model, output_type=Person, model_settings=ModelSettings(max_tokens=96))
            return (await Runner.run(typed, TEXT)).final_output

        for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
            with self.subTest(kind):
                called.clear()
                self.assertIsInstance(asyncio.run(run(kind)), Person)
                self.assertTrue(called)


class Others(unittest.TestCase):
    def test_anthropic(self):
        import anthropic
        client = anthropic.Anthropic(base_url=url(), api_key="none", max_retries=0)
        options = {"model": NAME, "messages": CHAT, "max_tokens": 96, "tool_choice": {"type": "any"},
                   "tools": [{"name": "send", "input_schema": SCHEMA}]}
        answer = client.messages.create(**options)
        self.assertEqual(answer.stop_reason, "tool_use")
        for block in answer.content:
            self.assertEqual((block.type, block.name), ("tool_use", "send"))
            jsonschema.validate(block.input, SCHEMA)
        with client.messages.stream(**options) as stream:
            final = stream.get_final_message()
        self.assertEqual([block.input for block in final.content], [block.input for block in answer.content])
        results = [{"type": "tool_result", "tool_use_id": block.id, "content": "sent"} for block in answer.content]
        turns = CHAT + [{"role": "assistant", "content": answer.content}, {"role": "user", "content": results}]
        client.messages.create(model=NAME, messages=turns, max_tokens=32, tools=options["tools"])

    def test_ollama(self):
        import ollama
        client = ollama.Client(url())
        answer = client.chat(NAME, messages=CHAT, format=Person.model_json_schema(), options={"num_predict": 96})
        Person.model_validate_json(answer.message.content)
        whole = client.generate(NAME, prompt=TEXT, format="json", options={"num_predict": 96})
        self.assertIsInstance(json.loads(whole.response), dict)
        answer = client.chat(NAME, messages=CHAT, tools=[TOOL], options={"num_predict": 96})
        for call in answer.message.tool_calls or []:
            jsonschema.validate(dict(call.function.arguments), SCHEMA)


if __name__ == "__main__":
    unittest.main()
