"""What this program does best, on the page in Chromium: answers of a form, functions that are called, decisions."""

import json
import subprocess
import unittest

from selenium.webdriver.common.keys import Keys

import support
from page_base import SAMPLE, PageTest

ERIC = "Write as JSON: Eric is 31 years old, lives in Oslo and works as a baker."
KEEP_BODIES = """window.sent = [];
  const stream = page.server.stream.bind(page.server);
  page.server.stream = (path, body, ...rest) => {
    sent.push(structuredClone(body));
    return stream(path, body, ...rest);
  }"""


class FormTest(PageTest):
    def write(self, text, selector="#form-panel .code-area"):
        area = [one for one in self.all(selector) if one.is_displayed()][0]
        area.clear()
        area.send_keys(text)

    def form(self):
        return self.script("return page.chat.form.values()")

    def answer(self):
        return self.script("return page.chat.conversation.exchanges.at(-1).replies.at(-1).content")


class Forms(FormTest):
    def test_one_of_these(self):
        self.choose("choice")
        self.write("yes|no\nperhaps\\\nno")
        self.assertEqual(self.form(), {"choice": r"yes\|no|perhaps\\|no"})
        self.write("11\n22\n")
        self.say(SAMPLE)
        self.assertIn(self.answer(), ("11", "22"))
        self.assertEqual(self.find(".message .as-form").text, "as one of: 11, 22")
        self.assertEqual(self.find("#open-form").text, "Answer as: one of these")
        self.open(support.server().url + "/")
        self.assertEqual(self.find(".message .as-form").text, "as one of: 11, 22", "it says how it was held")
        self.assertEqual(self.form(), {"choice": "11|22"}, "and the choice stays")
        self.choose("free")
        self.assertIsNone(self.form())

    def test_an_empty_form_is_said_before_anything_is_sent(self):
        self.script(KEEP_BODIES)
        self.choose("choice")
        self.write(" \n")
        self.find("#prompt").send_keys("a question" + Keys.ENTER)
        self.assertIn("there is no text to choose", self.note())
        self.choose("json")
        self.find("#form-panel .schema-raw summary").click()
        self.write("{\"type\":", "#form-panel .schema-raw textarea")
        self.find("#prompt").send_keys(Keys.ENTER)
        self.assertIn("The schema is not JSON yet", self.note())
        self.assertEqual((self.sent(), self.find("#prompt").get_attribute("value")), ([], "a question"))

    def test_a_pattern_and_a_text_with_gaps(self):
        self.choose("regex")
        self.write(r"\d+(, \d+){4}")
        self.say(SAMPLE)
        self.assertRegex(self.answer(), r"^\d+(, \d+){4}$")
        self.choose("template")
        self.write("Sorted: ")
        self.button("<int 0..100>", "#form-panel").click()
        self.assertEqual(self.form(), {"template": "Sorted: <int 0..100>"})
        self.say(SAMPLE)
        self.assertRegex(self.answer(), r"^Sorted: \d{1,3}$")
        self.assertIn("by-form", self.all(".answer .cell")[-1].get_attribute("class") +
                      self.find(".answer .cell.by-form").get_attribute("class"))

    def test_json_by_the_rows_of_a_schema(self):
        self.choose("json")
        row = self.all(".schema-row")[3]
        self.assertEqual(row.find_element("css selector", "input").get_attribute("value"), "job")
        row.find_element("css selector", "select").send_keys("one of")
        self.find(".schema-choices").send_keys("pilot\nbaker")
        expected = {"type": "object", "required": ["name", "age", "city", "job"], "properties": {
            "name": {"type": "string"}, "age": {"type": "integer"}, "city": {"type": "string"},
            "job": {"type": "string", "enum": ["pilot", "baker"]}}}
        self.assertEqual(json.loads(self.form()["json_schema"]), expected)
        self.picture("schema")
        self.say(ERIC)
        self.assertEqual(json.loads(self.answer()), {"name": "Eric", "age": 31, "city": "Oslo", "job": "baker"})
        self.assertEqual(self.find(".message .as-form").text, "as JSON: name, age, city, job")

    def test_rows_and_text_of_a_schema_say_the_same(self):
        self.choose("json")
        for _ in range(3):
            self.find(".schema-row [aria-label^='Remove']").click()
        self.all(".schema-row input")[0].clear()
        self.all(".schema-row input")[0].send_keys("__proto__")
        self.find(".schema-row input[type=checkbox]").click()
        self.find(".add-row").click()
        self.assertEqual(self.script("return document.activeElement.getAttribute('aria-label')"), "Name of the field")
        self.press("people")
        self.all(".schema-row select")[1].send_keys("list of groups")
        self.button("Add a field to this group").click()
        self.press("tags")
        self.all(".schema-row .schema-row select")[0].send_keys("list of texts")
        self.assertNotIn("group", self.all(".schema-row .schema-row select")[0].text, "one level deep")
        self.assertEqual(json.loads(self.form()["json_schema"]), {
            "type": "object", "required": ["people"], "properties": {"__proto__": {"type": "string"}, "people": {
                "type": "array", "items": {"type": "object", "required": ["tags"], "properties": {
                    "tags": {"type": "array", "items": {"type": "string"}}}}}}})
        raw = "#form-panel .schema-raw textarea"
        self.find("#form-panel .schema-raw summary").click()
        self.write('{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}', raw)
        self.assertEqual([one.get_attribute("value") for one in self.all(".schema-row input[type=text]")], ["a"])
        for more in ('{"type":"object","properties":{"a":{"type":"string","maxLength":9}}}',
                     '{"anyOf":[{"type":"integer"}]}',
                     '{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"object",'
                     '"properties":{}}}}}}', '{"type":"object","properties":{},"additionalProperties":false}'):
            self.write(more, raw)
            self.assertFalse(self.find(".schema-rows").is_displayed(), more)
            self.assertIn("more than rows can show", self.find(".schema > .help").text)
            self.assertEqual(json.loads(self.form()["json_schema"]), json.loads(more), "nothing is lost")

    def test_another_answer_keeps_its_form(self):
        self.choose("choice")
        self.write("11\n22")
        self.say(SAMPLE)
        self.choose("free")
        self.script(KEEP_BODIES)
        self.button("Regenerate").click()
        self.wait(lambda: self.sent() and self.idle(), "the answer")
        self.assertEqual(self.sent()[0]["llada"]["choice"], "11|22")


class Tools(FormTest):
    def add(self, name, about):
        if not self.find("#tools-panel").is_displayed():
            self.find("#open-tools").click()
        self.button("Add a function").click()
        self.press(name)
        self.press(Keys.TAB)
        self.press(about)

    def test_a_call_is_a_card_and_its_result_is_sent_back(self):
        server = support.Server(path=support.long_model())
        self.open(server.url + "/")
        self.add("weather", "The weather in a city")
        tool = self.find(".tool")
        tool.find_element("css selector", ".schema-row select").send_keys("one of")
        tool.find_element("css selector", ".schema-choices").send_keys("Oslo\nRome")
        self.find("#tool-choice").send_keys("must")
        self.assertEqual(self.find("#open-tools").text, "Tools: 1")
        self.picture("tools")
        self.find("#open-tools").click()
        self.script(KEEP_BODIES)
        self.say("What is the weather in Oslo?")
        self.assertEqual(self.find(".call-name").text, "weather")
        given = json.loads(self.find(".call pre").text)
        self.assertIn(given["city"], ("Oslo", "Rome"))
        self.assertTrue(self.all(".answer .cell:not(.behind)"), "it was seen to form")
        self.assertIn(given["city"], self.find(".answer").text)
        self.picture("call")
        self.find("#open-tools").click()
        self.find("#tool-choice").send_keys("may")
        self.find("#open-tools").click()
        self.find(".call textarea").send_keys("12 degrees, <b>rain</b>")
        self.find(".send-results").click()
        self.wait(lambda: len(self.sent()) == 2 and self.idle(), "the answer")
        user, call, result = self.sent()[1]["messages"]
        self.assertEqual(call["tool_calls"][0]["function"]["name"], "weather")
        self.assertEqual(json.loads(call["tool_calls"][0]["function"]["arguments"]), given)
        self.assertEqual(result, {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"],
                                  "content": "12 degrees, <b>rain</b>"})
        self.assertEqual(self.find(".call-result").text, "12 degrees, <b>rain</b>")
        self.assertEqual(self.all(".answer .error"), [])
        self.open(server.url + "/")
        self.assertEqual((self.find(".call-name").text, self.find("#open-tools").text), ("weather", "Tools: 1"))
        self.assertEqual(self.find(".call-result").text, "12 degrees, <b>rain</b>")
        self.script("localStorage.clear()")
        server.stop()

    def test_a_call_that_waits_for_its_result_survives_a_reload(self):
        calls = [{"index": i, "id": f"c{i}", "function": {"name": name, "arguments": "{\"a\": 1}"}}
                 for i, name in enumerate(("first", "second"))]
        self.answers({"text": "I look.", "calls": calls})
        self.say("question")
        self.open(support.server().url + "/")
        self.answers("done")
        areas = self.all(".call textarea")
        areas[0].send_keys("one")
        areas[1].send_keys("two")
        self.button("Send the results").click()
        self.wait(lambda: self.sent() and self.idle(), "the answer")
        self.assertEqual([(message["role"], message["content"]) for message in self.sent()[0]["messages"]],
                         [("user", "question"), ("assistant", "I look."), ("tool", "one"), ("tool", "two")])
        self.assertEqual(self.all(".answer .cells")[-1].text, "done")

    def test_functions_are_sent_as_they_are_described(self):
        self.answers("no call", "no call")
        self.add("f", "does it")
        self.add("two words", "")
        self.assertIn("letters, digits", self.all(".tool .error")[-1].text)
        self.button("Remove this function").click()
        self.assertEqual(self.script("return document.activeElement.textContent"), "Add a function")
        self.say("question")
        body = self.sent()[0]
        self.assertEqual(body["tools"], [{"type": "function", "function": {
            "name": "f", "description": "does it", "parameters": {
                "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])
        self.assertEqual(body["tool_choice"], "auto")
        self.find("#tool-choice").send_keys("is not told")
        self.assertEqual(self.find("#open-tools").text, "Tools")
        self.say("question")
        self.assertNotIn("tools", self.sent()[1])


class Decide(PageTest):
    def test_probabilities_are_those_of_the_command_line(self):
        questions = [{"type": "predicate", "instructions": "Is Jane older than 40?"},
                     {"type": "choice", "instructions": "Who is named?",
                      "choices": [{"value": "Jane"}, {"value": "Paul"}]},
                     {"type": "score", "instructions": "How old is she?",
                      "levels": [{"label": "young"}, {"label": "old"}]}]
        self.find("#tab-decide").click()
        self.find("#decide-input").clear()
        self.find("#decide-input").send_keys("Jane is 52 years old.")
        while self.all(".question"):
            self.find(".question button").click()
        for question in questions:
            self.find("#add-question").click()
            self.press(question["instructions"])
            options = [one.get("value") or one["label"] for one in question.get("choices", question.get("levels", []))]
            if options:
                name = {"choice": "one of", "score": "a scale"}[question["type"]]
                self.all(".question select")[-1].send_keys(name)
                self.all(".question textarea")[-1].send_keys("\n".join(options))
        self.find("#decide-send").click()
        self.wait(lambda: len(self.all(".decision")) == 3, "the answers")
        self.picture("decide")
        body = json.dumps({"input": "Jane is 52 years old.", "questions": questions})
        done = subprocess.run([support.LLADA, "decide", "-m", support.model(), "--request", "-", "--json"], input=body,
                              capture_output=True, text=True, check=True)
        for answer, card in zip(json.loads(done.stdout)["answers"], self.all(".decision")):
            expected = ([answer["probability"], 1 - answer["probability"]] if answer["type"] == "predicate"
                        else [one["probability"] for one in answer["probabilities"]])
            shown = [float(one.text.split()[0]) / 100 for one in card.find_elements("css selector", ".share")]
            for a, b in zip(expected, shown, strict=True):
                self.assertAlmostEqual(a, b, delta=0.0006)
            best = card.find_element("css selector", ".best .share-name").text
            names = [one.text for one in card.find_elements("css selector", ".share-name")]
            self.assertEqual(names.index(best), expected.index(max(expected)))
            widths = [one.size["width"] for one in card.find_elements("css selector", ".share-bar span")]
            self.assertEqual(widths.index(max(widths)), expected.index(max(expected)))
            self.assertIn("Take it with care", card.text, "the labels have less than a hundredth")
        self.assertIn("Is Jane older than 40? ", self.find("#announce").get_attribute("textContent"))

    def test_what_is_missing_is_one_line(self):
        self.find("#tab-decide").click()
        area = self.find(".question textarea")
        area.clear()
        area.send_keys("calm")
        self.find("#decide-send").click()
        self.wait(lambda: self.find("#decide-answer .error"), "the line")
        self.assertEqual(self.find("#decide-answer .error").text,
                         "\"Which tone is it?\": found 1 answer, needed two at least, one a line.")
        self.open(support.server().url + "/")
        self.find("#tab-decide").click()
        self.assertEqual(self.find(".question textarea").get_attribute("value"), "calm", "a reload keeps it")


if __name__ == "__main__":
    unittest.main()
