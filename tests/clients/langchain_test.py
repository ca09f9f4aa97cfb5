"""LangChain's ChatOpenAI, unmodified: an answer, a stream, a batch, and the fields that it adds by itself."""

import unittest

from langchain_openai import ChatOpenAI

import support


def chat(**options):
    return ChatOpenAI(base_url=support.server().url + "/v1", api_key="none", model=support.NAME, max_retries=0,
                      max_completion_tokens=support.LENGTH, extra_body={"llada": support.OPTIONS}, **options)


class LangChain(unittest.TestCase):
    def test_invoke(self):
        for task in ("sort", "json"):
            prompt = support.examples(task, 1)[0]["prompt"]
            answer = chat().invoke(prompt)
            expected = support.run(prompt)
            self.assertEqual(answer.content, expected["text"])
            self.assertEqual(answer.usage_metadata["output_tokens"], expected["stats"]["content_tokens"])

    def test_stream(self):
        prompt = support.examples("gsm-mini", 1)[0]["prompt"]
        pieces = [chunk.content for chunk in chat(stream_usage=True).stream(prompt)]
        self.assertEqual("".join(pieces), support.run(prompt)["text"])

    def test_a_batch_gives_what_single_requests_give(self):
        prompts = [example["prompt"] for example in support.examples("sort", 4)]
        together = [answer.content for answer in chat().batch(prompts)]
        self.assertEqual(together, [support.run(prompt)["text"] for prompt in prompts])


if __name__ == "__main__":
    unittest.main()
