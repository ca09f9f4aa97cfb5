"""OpenAI's own Python client, unmodified: answers equal to the command line's, streams, errors, timeouts, leaving."""

import json
import time
import unittest

import httpx
import openai

import support

PROMPT = "Sort the numbers from smallest to largest: 38 41 6 51 3"


def client(**options):
    return openai.OpenAI(base_url=support.server().url + "/v1", api_key="none", **{"max_retries": 0, **options})


def ask(c, prompt=PROMPT, **options):
    usual = {"max_tokens": support.LENGTH, "extra_body": {"llada": support.OPTIONS}}
    return c.chat.completions.create(model=support.NAME, messages=[{"role": "user", "content": prompt}],
                                     **{**usual, **options})


class Chat(unittest.TestCase):
    def test_answers_are_the_command_lines(self):
        for task in ("sort", "json", "gsm-mini"):
            for example in support.examples(task, 2):
                expected = support.run(example["prompt"])
                answer = ask(client(), example["prompt"])
                self.assertEqual(answer.choices[0].message.content, expected["text"])
                self.assertEqual(answer.choices[0].finish_reason, expected["finish_reason"])
                self.assertEqual(answer.usage.completion_tokens, expected["stats"]["content_tokens"])
                self.assertEqual(answer.usage.prompt_tokens, expected["stats"]["prompt_tokens"])

    def test_a_stream_says_the_same_in_pieces(self):
        prompt = support.examples("gsm-mini", 1)[0]["prompt"]
        whole = ask(client(), prompt)
        pieces, finishes, usage = [], [], None
        for chunk in ask(client(), prompt, stream=True, stream_options={"include_usage": True}):
            self.assertEqual(chunk.object, "chat.completion.chunk")
            if chunk.usage:
                usage = chunk.usage
            for choice in chunk.choices:
                pieces.append(choice.delta.content or "")
                finishes.append(choice.finish_reason)
        self.assertEqual("".join(pieces), whole.choices[0].message.content)
        self.assertGreater(len([piece for piece in pieces if piece]), 1)
        self.assertEqual([finish for finish in finishes if finish], [whole.choices[0].finish_reason])
        for name in ("prompt_tokens", "completion_tokens", "forwards", "rows"):
            self.assertEqual(getattr(usage, name), getattr(whole.usage, name), name)

    def test_frames_do_not_disturb_a_client_that_appends(self):
        prompt = support.examples("gsm-mini", 1)[0]["prompt"]
        body = {"llada": support.OPTIONS, "diffusing": "frames"}
        chunks = list(ask(client(), prompt, stream=True, extra_body=body))
        text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
        self.assertEqual(text, support.run(prompt)["text"])
        frames = [chunk.llada for chunk in chunks if getattr(chunk, "llada", None) and "step" in chunk.llada]
        self.assertEqual([frame["step"] for frame in frames], list(range(len(frames))))
        # The edits put one after the other are the canvas, and its beginning is the text.
        canvas = frames[0]["canvas"]
        cells = [""] * canvas["length"]
        for frame in frames:
            for edit in frame["edits"]:
                cells[edit["position"] - canvas["begin"]] = edit["text"]
        self.assertTrue("".join(cells).startswith(text), cells)
        self.assertLess(frames[-1]["masks_left"], frames[0]["masks_left"])

    def test_mercurys_shape_replaces_the_text(self):
        prompt = support.examples("gsm-mini", 1)[0]["prompt"]
        contents, progress = [], []
        for chunk in ask(client(), prompt, stream=True, extra_body={"llada": support.OPTIONS, "diffusing": True}):
            meta = getattr(chunk, "diffusion_meta", None)
            if meta:
                contents.append(chunk.choices[0].delta.content)
                progress.append(meta["diffusion_progress"])
        self.assertEqual(contents[-1], support.run(prompt)["text"])
        self.assertEqual(progress[-1], 1)
        self.assertEqual(progress, sorted(progress))

    def test_seed_and_temperature_repeat(self):
        prompt = support.examples("gsm-mini", 1)[0]["prompt"]
        options = {"temperature": 1.5, "seed": 7}
        first, second = (ask(client(), prompt, **options).choices[0].message.content for _ in range(2))
        self.assertEqual(first, second)
        self.assertEqual(first, support.run(prompt, "--temperature", "1.5", "--seed", "7")["text"])

    def test_created_is_the_requests_time(self):
        before = int(time.time())
        loaded = client().models.list().data[0].created
        while int(time.time()) <= loaded:
            time.sleep(0.05)
        answer = ask(client())
        self.assertGreaterEqual(answer.created, max(before, loaded + 1))
        self.assertLessEqual(answer.created, time.time())

    def test_longer_than_the_context_is_as_long_as_it_leaves(self):
        whole = ask(client()).choices[0].message.content
        raw = client().chat.completions.with_raw_response.create(
            model=support.NAME, messages=[{"role": "user", "content": PROMPT}], max_tokens=4096)
        self.assertIn("not 4096", raw.headers["llada-note"])
        self.assertEqual(raw.parse().llada["note"], raw.headers["llada-note"])
        self.assertEqual(raw.parse().choices[0].message.content, whole)

    def test_stop_cuts_and_n_repeats(self):
        prompt = support.examples("gsm-mini", 1)[0]["prompt"]
        whole = ask(client(), prompt).choices[0].message.content
        self.assertIn("####", whole)
        cut = ask(client(), prompt, stop=["####"]).choices[0]
        self.assertEqual(cut.message.content, whole[: whole.index("####")])
        self.assertEqual(cut.finish_reason, "stop")
        self.assertEqual([c.message.content for c in ask(client(), prompt, n=2).choices], [whole, whole])


class Completions(unittest.TestCase):
    def test_prompts_as_text_lists_and_ids(self):
        c = client()
        prompts = [example["prompt"] for example in support.examples("sort", 2)]
        options = {"model": support.NAME, "max_tokens": 32, "extra_body": {"llada": support.OPTIONS}}
        alone = [c.completions.create(prompt=prompt, **options).choices[0].text for prompt in prompts]
        both = c.completions.create(prompt=prompts, **options)
        self.assertEqual([choice.text for choice in sorted(both.choices, key=lambda choice: choice.index)], alone)
        self.assertEqual(alone[0], support.run(prompts[0], "--raw", length=32)["text"])
        ids = httpx.post(support.server().url + "/tokenize", json={"content": prompts[0]}).json()["tokens"]
        self.assertEqual(c.completions.create(prompt=ids, **options).choices[0].text, alone[0])

    def test_suffix_fills_what_lies_between(self):
        answer = client().completions.create(model=support.NAME, prompt="Sorted: 1 2", suffix=" 5 6", max_tokens=4)
        self.assertEqual(answer.usage.completion_tokens, 4)

    def test_streams(self):
        options = {"model": support.NAME, "prompt": PROMPT, "max_tokens": 32}
        chunks = client().completions.create(stream=True, **options)
        pieces = [choice.text for chunk in chunks for choice in chunk.choices]
        self.assertEqual("".join(pieces), client().completions.create(**options).choices[0].text)


    def test_alternatives(self):
        whole = ask(client(), logprobs=True, top_logprobs=4).choices[0]
        self.assertEqual("".join(token.token for token in whole.logprobs.content), whole.message.content)
        for token in whole.logprobs.content:
            self.assertEqual(len(token.top_logprobs), 4)
            self.assertEqual(token.top_logprobs[0].logprob, token.logprob)
            self.assertEqual(sorted((t.logprob for t in token.top_logprobs), reverse=True),
                             [t.logprob for t in token.top_logprobs])


class Responses(unittest.TestCase):
    OPTIONS = {"model": support.NAME, "max_output_tokens": support.LENGTH, "extra_body": {"llada": support.OPTIONS}}

    def test_an_answer_is_the_command_lines(self):
        for task in ("sort", "json"):
            prompt = support.examples(task, 1)[0]["prompt"]
            response = client().responses.create(input=prompt, **self.OPTIONS)
            expected = support.run(prompt)
            self.assertEqual(response.output_text, expected["text"])
            self.assertEqual(response.status, "completed")
            self.assertEqual(response.usage.output_tokens, expected["stats"]["content_tokens"])
            self.assertEqual(response.usage.input_tokens, expected["stats"]["prompt_tokens"])

    def test_an_answer_goes_back_as_input(self):
        c = client()
        first = c.responses.create(input="Hi", **self.OPTIONS)
        turns = [{"role": "user", "content": "Hi"}] + [item.model_dump() for item in first.output]
        turns.append({"role": "user", "content": [{"type": "input_text", "text": PROMPT}]})
        second = c.responses.create(input=turns, instructions="Be brief.", **self.OPTIONS)
        chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": first.output_text}, {"role": "user", "content": PROMPT}]
        same = c.chat.completions.create(model=support.NAME, messages=chat, max_tokens=support.LENGTH,
                                         extra_body={"llada": support.OPTIONS})
        self.assertEqual(second.output_text, same.choices[0].message.content)

    def test_a_stream_is_the_protocols(self):
        prompt = support.examples("gsm-mini", 1)[0]["prompt"]
        with client().responses.stream(input=prompt, **self.OPTIONS) as stream:
            events = list(stream)
            final = stream.get_final_response()
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        kinds = [event.type for event in events]
        self.assertEqual(kinds[:4], ["response.created", "response.in_progress", "response.output_item.added",
                                     "response.content_part.added"])
        self.assertEqual(kinds[-4:], ["response.output_text.done", "response.content_part.done",
                                      "response.output_item.done", "response.completed"])
        deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
        self.assertGreater(len(deltas), 1)
        self.assertEqual("".join(deltas), support.run(prompt)["text"])
        self.assertEqual(final.output_text, "".join(deltas))

    def test_nothing_is_stored(self):
        with self.assertRaises(openai.BadRequestError) as raised:
            client().responses.create(input="Hi", previous_response_id="resp_1", **self.OPTIONS)
        self.assertIn("stored", str(raised.exception))
        self.assertEqual(raised.exception.param, "previous_response_id")


class Refusals(unittest.TestCase):
    def test_an_unknown_field_is_named(self):
        with self.assertRaises(openai.BadRequestError) as raised:
            ask(client(), extra_body={"frobnicate": 3})
        self.assertIn("frobnicate", str(raised.exception))
        self.assertEqual(raised.exception.type, "invalid_request_error")

    def test_values_out_of_range_are_named(self):
        for options, name in (({"temperature": -1}, "temperature"), ({"max_tokens": 0}, "max_tokens"),
                              ({"n": 0}, "n"), ({"extra_body": {"llada": {"threshold": 7}}}, "threshold")):
            with self.subTest(name), self.assertRaises(openai.BadRequestError) as raised:
                ask(client(), **options)
            self.assertIn(name, str(raised.exception))

    def test_an_answer_fits_its_schema(self):
        properties = {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}, "a": {"type": "boolean"}}
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        answer = ask(client(), response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
        found = json.loads(answer.choices[0].message.content)
        self.assertEqual(list(found), ["name", "age", "a"])  # in the schema's order
        self.assertIsInstance(found["age"], int)
        found = ask(client(), response_format={"type": "json_object"}).choices[0].message.content
        self.assertIsInstance(json.loads(found), dict)
        with self.assertRaises(openai.BadRequestError) as raised:
            ask(client(), response_format={"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {
                "type": "array", "uniqueItems": True}}})
        self.assertIn("response_format.json_schema.schema.uniqueItems: ", str(raised.exception))

    def test_a_prompt_beyond_the_context_has_its_code(self):
        with self.assertRaises(openai.BadRequestError) as raised:
            ask(client(), "12 " * 700)
        self.assertEqual((raised.exception.code, raised.exception.param), ("context_length_exceeded", "messages"))

    def test_an_answer_that_took_too_long_is_not_asked_for_again(self):
        hasty = support.Server("--timeout", "1")
        try:
            with self.assertRaises(openai.InternalServerError) as raised:
                openai.OpenAI(base_url=hasty.url + "/v1", api_key="none", max_retries=3).chat.completions.create(
                    model=support.NAME, messages=[{"role": "user", "content": PROMPT}],
                    **{**SLOW, "n": 8})
            self.assertEqual(raised.exception.status_code, 504)
            self.assertIn('status="504"} 1\n', support.get("/metrics", hasty.url))
        finally:
            hasty.stop()

    def test_models_are_found_by_name(self):
        self.assertEqual(client().models.retrieve(support.NAME).id, support.NAME)
        with self.assertRaises(openai.NotFoundError) as raised:
            client().models.retrieve("some-other-model")
        self.assertEqual(raised.exception.code, "model_not_found")

    def test_keys(self):
        path = support.ROOT / "build/clients-keys"
        path.write_text("right-key\n")
        guarded = support.Server("--api-key-file", str(path))
        try:
            def models(key):
                return openai.OpenAI(base_url=guarded.url + "/v1", api_key=key, max_retries=0)
            with self.assertRaises(openai.AuthenticationError):
                ask(models("wrong-key"))
            self.assertTrue(ask(models("right-key")).choices[0].message.content)
            self.assertNotIn("right-key", guarded.said())
            self.assertNotIn("wrong-key", guarded.said())
        finally:
            status = guarded.stop()
            path.unlink()
        self.assertEqual(status, 0)


# One token per forward, and no end comes early: answers that take long enough to be left.
SLOW = {"max_tokens": 200, "temperature": 2, "seed": 1, "n": 4,
        "extra_body": {"llada": {"preset": "exact", "block_length": 200, "early_stop": "none"}}}


class Leaving(unittest.TestCase):
    def wait_until_idle(self, seconds):
        deadline = time.monotonic() + seconds
        while support.metric("llada_requests_running") > 0:
            self.assertLess(time.monotonic(), deadline, "the request still runs")
            time.sleep(0.05)

    def test_a_timeout_frees_the_server(self):
        with self.assertRaises(openai.APITimeoutError):
            ask(client(timeout=0.3), **SLOW)
        self.wait_until_idle(5)
        self.assertTrue(ask(client()).choices[0].message.content)

    def test_a_closed_stream_frees_the_server(self):
        body = dict(SLOW["extra_body"], diffusing="frames")
        stream = ask(client(), **{**SLOW, "stream": True, "extra_body": body})
        events = iter(stream)
        while not getattr(next(events), "llada", None):
            pass
        self.assertEqual(support.metric("llada_requests_running"), SLOW["n"])
        stream.close()
        self.wait_until_idle(5)


if __name__ == "__main__":
    unittest.main()
