"""Anthropic's and Ollama's own Python clients, unmodified, against the server: every answer is that of the command
line."""

import unittest

import anthropic
import ollama

import support

SORT = support.examples("sort", 3)[2]["prompt"]
LENGTH = 100


def chat(prompt):
    return [{"role": "user", "content": prompt}]


class Anthropic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = anthropic.Anthropic(base_url=support.server().url, api_key="none", max_retries=0)
        cls.expected = support.run(SORT, length=LENGTH)["text"]

    def test_whole(self):
        answer = self.client.messages.create(model="any", max_tokens=LENGTH, messages=chat(SORT))
        self.assertEqual(answer.content[0].text, self.expected)
        self.assertEqual(answer.stop_reason, "end_turn")
        count = self.client.messages.count_tokens(model="any", messages=chat(SORT))
        self.assertEqual(answer.usage.input_tokens, count.input_tokens)

    def test_streamed(self):
        with self.client.messages.stream(model="any", max_tokens=LENGTH, messages=chat(SORT)) as stream:
            self.assertEqual("".join(stream.text_stream), self.expected)
            last = stream.get_final_message()
        self.assertEqual(last.content[0].text, self.expected)
        self.assertEqual(last.stop_reason, "end_turn")
        self.assertGreater(last.usage.output_tokens, 0)

    def test_blocks_system_and_stop(self):
        blocks = [{"role": "user", "content": [{"type": "text", "text": SORT}]}]
        answer = self.client.messages.create(model="any", max_tokens=LENGTH, messages=blocks,
                                             stop_sequences=[self.expected[1]])
        self.assertEqual((answer.content[0].text, answer.stop_reason), (self.expected[:1], "stop_sequence"))
        system = self.client.messages.create(model="any", max_tokens=LENGTH, messages=chat(SORT),
                                             system=[{"type": "text", "text": "Be brief."}])
        self.assertEqual(system.type, "message")

    def test_errors(self):
        tool = {"name": "add", "input_schema": {"type": "object", "not": {}}, "strict": True}
        with self.assertRaises(anthropic.BadRequestError) as raised:
            self.client.messages.create(model="any", max_tokens=9, messages=chat(SORT), tools=[tool])
        self.assertEqual(raised.exception.body["error"]["type"], "invalid_request_error")
        self.assertIn("tools[0].input_schema: no value fits", raised.exception.body["error"]["message"])


class Ollama(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = ollama.Client(host=support.server().url)
        cls.expected = support.run(SORT, length=LENGTH)["text"]
        cls.options = {"num_predict": LENGTH, "num_ctx": 256}

    def test_chat(self):
        answer = self.client.chat(model="any", messages=chat(SORT), options=self.options)
        self.assertEqual((answer.message.content, answer.done_reason), (self.expected, "stop"))
        pieces = list(self.client.chat(model="any", messages=chat(SORT), options=self.options, stream=True))
        self.assertEqual("".join(piece.message.content for piece in pieces), self.expected)
        self.assertTrue(pieces[-1].done)
        self.assertEqual(pieces[-1].eval_count, answer.eval_count)

    def test_generate(self):
        self.assertEqual(self.client.generate(model="any", prompt=SORT, options=self.options).response, self.expected)
        pieces = self.client.generate(model="any", prompt=SORT, options=self.options, stream=True)
        self.assertEqual("".join(piece.response for piece in pieces), self.expected)
        gap = self.client.generate(model="any", prompt="Ken has 20+6=", suffix=" puzzles.", options={"num_predict": 2})
        self.assertEqual(gap.response, "26")

    def test_what_there_is(self):
        model, = self.client.list().models
        self.assertEqual(model.model, support.NAME)
        self.assertEqual(self.client.ps().models[0].digest, model.digest)
        self.assertIn("completion", self.client.show(model.model).capabilities)

    def test_errors(self):
        with self.assertRaises(ollama.ResponseError) as raised:
            self.client.chat(model="any", messages=chat(SORT), format={"type": "object", "not": {}})
        self.assertIn("format: no value fits", raised.exception.error)
        with self.assertRaises(ollama.ResponseError) as raised:
            self.client.embed(model="any", input="a")
        self.assertIn("embeddings", raised.exception.error)


if __name__ == "__main__":
    unittest.main()
