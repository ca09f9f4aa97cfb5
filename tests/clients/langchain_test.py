"""LangChain's ChatOpenAI, unmodified: an answer, a stream, a batch, and the fields that it adds by itself."""

import unittest

from langchain_core.exceptions import ContextOverflowError
from langchain_openai import ChatOpenAI, OpenAI

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

    def test_its_own_defaults(self):
        """OpenAI asks for 256 tokens, which is all of the model's context."""
        own = {"base_url": support.server().url + "/v1", "api_key": "none", "model": support.NAME, "max_retries": 0}
        prompt = support.examples("sort", 1)[0]["prompt"]
        # Its temperature is 0.7 without a seed: any text may come, an empty one too.
        usage = OpenAI(**own).generate([prompt]).llm_output["token_usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage.get("completion_tokens", 0))
        self.assertGreater(usage["prompt_tokens"], 10)
        expected = support.run(prompt)["text"]
        self.assertEqual(ChatOpenAI(**own, top_p=0.9, max_tokens=4096).invoke(prompt).content, expected)
        answer = ChatOpenAI(**own, use_responses_api=True, truncation="auto", include=["reasoning.encrypted_content"])
        self.assertEqual(answer.invoke(prompt).text, expected)
        with self.assertRaises(ContextOverflowError):
            ChatOpenAI(**own).invoke("12 " * 700)


if __name__ == "__main__":
    unittest.main()
