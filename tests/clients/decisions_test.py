"""Decisions by OpenAI's own Python client, unmodified, and by LangChain's: what they read is what the command line
says. Clients from before these routes have no such call, and skip."""

import json
import subprocess
import unittest
import urllib.request

import openai

import support

try:
    from langchain_openai.decisions import Choice, OpenAIDecisions, Predicate, Score
except ImportError:
    OpenAIDecisions = None

INPUT = [{"role": "user", "content": [{"type": "input_text", "text": "Jane is 52 years old."},
                                      {"type": "input_json", "data": {"Paul": 84}}]},
         {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
         {"type": "function_call_output", "call_id": "c", "output": "Jane smiles."}]
QUESTIONS = [
    {"type": "predicate", "instructions": "Is Jane older than Paul?"},
    {"type": "choice", "name": "who", "instructions": "Who is older?",
     "choices": [{"value": "Jane"}, {"value": "Paul", "description": "the man"}, {"value": True}]},
    {"type": "score", "instructions": [{"type": "input_text", "text": "How old is Jane?"}],
     "levels": [{"label": "young"}, {"label": "middle"}, {"label": "old"}]}]


def by_command_line(body):
    command = [support.LLADA, "decide", "-m", support.model(), "--request", "-", "--json"]
    done = subprocess.run(command, input=json.dumps(body), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def client():
    return openai.OpenAI(base_url=support.server().url + "/v1", api_key="none", max_retries=0)


@unittest.skipUnless(hasattr(openai.OpenAI, "decisions"), "this client is from before the route")
class Decisions(unittest.TestCase):
    def test_answers_are_the_command_lines(self):
        said = client().decisions.create(model=support.NAME, input=INPUT, questions=QUESTIONS,
                                         safety_identifier="me", prompt_cache_key="k")
        expected = by_command_line({"input": INPUT, "questions": QUESTIONS})["answers"]
        predicate, choice, score = said.answers
        self.assertEqual(predicate.type, "predicate")
        self.assertEqual(predicate.probability, expected[0]["probability"])
        self.assertIsNone(predicate.name)
        self.assertEqual(choice.name, "who")
        self.assertEqual(choice.choice, expected[1]["choice"])
        self.assertEqual([p.value for p in choice.probabilities], ["Jane", "Paul", True])
        self.assertEqual([p.probability for p in choice.probabilities],
                         [p["probability"] for p in expected[1]["probabilities"]])
        self.assertEqual(score.score, expected[2]["score"])
        self.assertEqual([(p.value, p.label) for p in score.probabilities],
                         [(0, "young"), (1, "middle"), (2, "old")])
        self.assertEqual(said.usage.output_tokens, 0)
        self.assertGreater(said.usage.input_tokens, 0)
        self.assertEqual(said.usage.input_tokens_details.cached_tokens, 0)

    def test_a_wrong_question_is_a_bad_request(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            client().decisions.create(model=support.NAME, input="a", questions=[
                {"type": "choice", "instructions": "b", "choices": [{"value": "c"}]}])
        self.assertIn("questions[0].choices: found 1, needed 2 to 255", str(caught.exception))


@unittest.skipUnless(OpenAIDecisions, "this LangChain is from before the route")
class LangChain(unittest.TestCase):
    def test_named_answers(self):
        decisions = OpenAIDecisions(model=support.NAME, base_url=support.server().url + "/v1", api_key="none")
        said = decisions.invoke({"input": "Jane is 52 years old.", "questions": {
            "old": Predicate(instructions="Is Jane old?"),
            "who": Choice(instructions="Who?", choices={"Jane": "the woman", "Paul": "the man"}),
            "age": Score(instructions="How old is she?", levels=["young", "old"])}})
        expected = by_command_line({"input": "Jane is 52 years old.", "questions": [
            {"type": "predicate", "instructions": "Is Jane old?"}]})["answers"][0]
        self.assertEqual(said.predicates["old"].probability, expected["probability"])
        self.assertIn(said.choices["who"].choice, ("Jane", "Paul"))
        self.assertTrue(0 <= said.scores["age"].score <= 1)


class SystemOne(unittest.TestCase):
    def test_answers_by_name(self):
        body = {"state": {"Jane": 52}, "questions": {
            "old": {"type": "noul", "instructions": "Is Jane old?", "criteria": {"true": "over 40", "false": None}},
            "who": {"type": "choice", "instructions": "Who?", "criteria": {"Jane": None, "Paul": "the man"}},
            "age": {"type": "score", "criteria": ["young", "old"]}}}
        request = urllib.request.Request(support.server().url + "/v1/systemone", json.dumps(body).encode())
        with urllib.request.urlopen(request) as reply:
            said = json.load(reply)
        self.assertEqual(said["answers"], by_command_line(body)["answers"])
        self.assertEqual(set(said["answers"]["who"]["probabilities"]), {"Jane", "Paul"})
        self.assertAlmostEqual(sum(said["answers"]["age"]["probabilities"].values()), 1)


if __name__ == "__main__":
    unittest.main()
