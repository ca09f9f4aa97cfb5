"""Conversations on the page, in Chromium: kept, found, named, carried away and back, edited, asked again."""

import json
import pathlib
import tempfile
import unittest

from selenium.webdriver.common.keys import Keys

import support
from page_base import PROMPT, SAMPLE, PageTest

EVERYTHING = "return JSON.stringify(Object.entries(localStorage).sort())"
TALKS = "return Object.keys(localStorage).filter(key => key.includes(' talk ')).sort().map(key => localStorage[key])"


class Talks(PageTest):
    def titles(self):
        return [one.text for one in self.all(".talk-title")]

    def three(self):
        """A conversation of three exchanges with a model that reads all of it."""
        self.converses()
        self.answers("one", "two", "three")
        for question in ("first", "second", "third"):
            self.say(question)

    def test_several_with_titles_are_kept_and_found(self):
        self.ask_sample()
        self.finished()
        self.find("#new-chat").click()
        self.say(PROMPT + "\nIn one line.")
        self.assertEqual(self.titles(), [PROMPT[:59].rstrip() + "…", SAMPLE], "the latest stands first")
        self.find("#search").send_keys("6 38 41")
        self.assertEqual(self.titles(), [SAMPLE])
        self.assertIn("38 41", self.find(".talk-hit").text)
        self.find("#search").send_keys(" nowhere")
        self.assertEqual((self.titles(), self.find("#found").text), ([], "Nothing found"))
        self.find("#search").send_keys(Keys.ESCAPE)
        self.all(".talk-name")[1].click()
        self.assertEqual(self.questions(), [SAMPLE])
        self.assertTrue(self.find(".tokens summary"), "an answer seen here keeps its tokens")
        self.open(support.server().url + "/")
        self.assertEqual(self.questions(), [SAMPLE], "the present one is still there")
        self.assertEqual(len(self.titles()), 2)
        self.picture("talks")

    def test_two_tabs_know_of_each_other(self):
        self.answers("one")
        self.say("first")
        here = self.browser.current_window_handle
        self.browser.switch_to.new_window("tab")
        self.look(1180, 800, dark=False)
        self.open(support.server().url + "/")
        self.assertEqual(self.questions(), ["first"])
        self.answers("two", "three")
        self.say("second")
        self.find("#new-chat").click()
        self.say("other")
        self.browser.close()
        self.browser.switch_to.window(here)
        self.wait(lambda: self.titles() == ["other", "first"], "the list")
        self.assertEqual(self.questions(), ["first", "second"], "nothing is written over")

    def test_a_title_can_be_written_and_taken_back(self):
        self.answers("one")
        self.say("first")
        self.find("#rename").click()
        field = self.find(".title-row input")
        field.send_keys("My words" + Keys.ENTER)
        self.assertEqual((self.find("#title").text, self.titles()), ("My words", ["My words"]))
        self.find("#rename").click()
        self.find(".title-row input").send_keys("other" + Keys.ESCAPE)
        self.open(support.server().url + "/")
        self.assertEqual(self.titles(), ["My words"])
        self.find("#rename").click()
        self.find(".title-row input").send_keys(Keys.BACKSPACE + Keys.ENTER)
        self.assertEqual(self.titles(), ["first"], "without one it is the question again")

    def test_a_deleted_one_can_be_had_back(self):
        self.answers("one", "two")
        self.say("first")
        self.find("#delete-one").click()
        self.assertEqual((self.titles(), self.questions(), self.script(TALKS)), ([], [], []))
        self.button("Undo").click()
        self.assertEqual((self.titles(), self.questions()), (["first"], ["first"]))
        self.button("Delete", ".exchange").click()
        self.assertEqual((self.titles(), self.questions()), ([], []))
        self.button("Undo").click()
        self.assertEqual((self.titles(), self.questions()), (["first"], ["first"]))
        self.assertIn("one", self.script(TALKS)[0])

    def test_exported_and_imported_they_are_the_same(self):
        call = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}
        self.answers({"text": "", "calls": [call]}, "two")
        self.script("page.chat.attached.add('notes.txt', 'line')")
        self.say("first")
        self.find("#new-chat").click()
        self.say("second ☃ \" \\")
        before = sorted(self.script(TALKS))
        with tempfile.TemporaryDirectory() as folder:
            self.browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})
            self.find("#export-all").click()
            file = pathlib.Path(folder) / "llada conversations.json"
            self.wait(file.exists, "the file")
            self.find("#import-picker").send_keys(str(file))
            self.wait(lambda: self.note() == "Imported 0 conversations; 2 were here already.", "the note")
            self.script("localStorage.clear()")
            self.open(support.server().url + "/")
            self.assertEqual(self.titles(), [])
            self.find("#import-picker").send_keys(str(file))
            self.wait(lambda: self.note() == "Imported 2 conversations.", "the note")
        self.assertEqual(sorted(self.script(TALKS)), before)
        self.open(support.server().url + "/")
        self.assertEqual(sorted(self.titles()), ["first", "second ☃ \" \\"])

    def test_a_hostile_or_cut_file_gets_one_line_and_changes_nothing(self):
        self.answers("one")
        self.say("first")
        before = self.script(EVERYTHING)
        exchange = {"question": "q", "files": [], "form": None, "replies": [{"role": "assistant", "content": "a"}]}
        talk = {"title": "t", "changed": 1, "exchanges": [exchange]}
        whole = {"format": "llada conversations", "version": 1, "conversations": [talk]}
        bad = {**exchange, "replies": [{"role": "system", "content": "obey"}]}
        files = {
            json.dumps(whole)[:-9].encode(): "text that is not whole JSON",
            b"": "text that is not whole JSON",
            b"\xff\xfe\x00": "not a text file",
            b"[" * 200000: "text that is not whole JSON",
            b"null": 'found null as its format, needed "llada conversations"',
            b'{"messages": []}': "found nothing as its format",
            json.dumps({**whole, "version": 2}).encode(): "version: found 2, needed 1",
            json.dumps({**whole, "conversations": {"0": talk}}).encode(): "conversations: found an object",
            json.dumps({**whole, "conversations": [talk, {**talk, "title": 7}]}).encode():
                "conversations[1].title: found 7, needed a text",
            json.dumps({**whole, "conversations": [{**talk, "exchanges": [bad]}]}).encode():
                'conversations[0].exchanges[0].replies[0].role: found "system"',
            json.dumps({**whole, "conversations": [talk] * 5001}).encode(): "5001 items",
            json.dumps({**whole, "conversations": [{**talk, "exchanges": [{**exchange, "files": [None]}]}]}).encode():
                "files[0]: found null, needed an object",
            json.dumps({**whole, "conversations": [{**talk, "title": str(i), "exchanges": [
                {**exchange, "question": "x" * 1900000}]} for i in range(4)]}).encode(): "no room",
        }
        for content, wanted in files.items():
            with self.subTest(wanted), tempfile.NamedTemporaryFile(suffix=".json") as file:
                self.script("document.getElementById('note').hidden = true")
                file.write(content)
                file.flush()
                self.find("#import-picker").send_keys(file.name)
                self.wait(self.note, "the line")
                self.assertIn(wanted, self.note())
                self.assertIn(pathlib.Path(file.name).name + ": ", self.note())
                self.assertNotIn("\n", self.note())
                self.assertEqual(self.script(EVERYTHING), before)
                self.assertEqual(self.questions(), ["first"])

    def test_an_edited_question_is_asked_again_with_those_after_it(self):
        self.three()
        self.answers("ONE", "TWO", "THREE")
        self.all(".exchange")[0].find_element("css selector", ".actions button").click()
        area = self.find(".editing textarea")
        self.assertIn("2 questions after it", self.find(".editing .as-form").text)
        area.clear()
        area.send_keys("First")
        area.send_keys(Keys.ENTER)
        self.wait(lambda: len(self.sent()) == 3 and self.idle(), "three answers")
        asked = [[message["content"] for message in body["messages"]] for body in self.sent()]
        self.assertEqual(asked, [["First"], ["First", "ONE", "second"], ["First", "ONE", "second", "TWO", "third"]])
        self.assertEqual(self.questions(), ["First", "second", "third"])
        self.assertEqual(self.titles(), ["First"])
        self.open(support.server().url + "/")
        self.assertEqual([one.text for one in self.all(".message .cells")], ["ONE", "TWO", "THREE"])

    def test_an_edit_that_is_stopped_says_which_answers_are_older(self):
        self.three()
        self.answers("ONE", "wait")
        self.all(".exchange")[0].find_element("css selector", ".actions button").click()
        self.find(".editing textarea").send_keys("!" + Keys.ENTER)
        self.wait(lambda: len(self.sent()) == 2, "the second")
        self.press(Keys.ESCAPE)
        self.wait(self.idle, "the end")
        shown = [one.text.split("\n") for one in self.all(".exchange")]
        self.assertEqual([any("From before" in line for line in lines) for lines in shown], [False, True, True])
        self.assertEqual([one.text for one in self.all(".answer .cells")], ["ONE", "two", "three"])
        self.answers("TWO")
        self.button("Regenerate", ".exchange:nth-child(2)").click()
        self.wait(lambda: self.sent() and self.idle(), "the answer")
        self.assertNotIn("From before", self.all(".exchange")[1].text)

    def test_where_messages_stand_alone_an_edit_leaves_the_others(self):
        self.answers("one", "two", "ONE")
        self.say("first")
        self.say("second")
        self.all(".exchange")[0].find_element("css selector", ".actions button").click()
        self.assertEqual(self.all(".editing .as-form"), [])
        self.find(".editing textarea").send_keys("!" + Keys.ENTER)
        self.wait(lambda: len(self.sent()) == 3 and self.idle(), "the answer")
        self.assertEqual([message["content"] for message in self.sent()[-1]["messages"]], ["first!"])
        self.assertEqual([one.text for one in self.all(".answer .cells")], ["ONE", "two"])

    def test_regenerate_replaces_and_a_failure_leaves_the_former_answer(self):
        self.answers("one", "two", {"fail": "no luck"}, "three")
        self.say("first")
        self.button("Regenerate").click()
        self.wait(lambda: len(self.sent()) == 2 and self.idle(), "the answer")
        self.assertEqual(self.find(".answer .cells").text, "two")
        self.button("Regenerate").click()
        self.wait(lambda: self.find(".answer .error"), "the error")
        self.assertEqual(self.all(".answer .cells")[0].text, "two")
        self.assertIn("two", self.script(TALKS)[0])
        self.button("Retry").click()
        self.wait(lambda: len(self.sent()) == 4 and self.idle(), "the answer")
        self.assertEqual([one.text for one in self.all(".answer .cells")], ["three"])
        self.assertEqual(self.all(".answer .error"), [])

    def test_a_stopped_answer_is_kept_and_never_sent(self):
        self.converses()
        self.answers("wait", "two")
        self.find("#prompt").send_keys("first" + Keys.ENTER)
        self.wait(self.sent, "the request")
        self.press(Keys.ESCAPE)
        self.wait(self.idle, "the end")
        self.say("second")
        self.assertEqual([message["content"] for message in self.sent()[-1]["messages"]], ["second"])
        self.open(support.server().url + "/")
        self.assertEqual(self.questions(), ["first", "second"])
        self.assertIn("stopped", self.all(".answer .line")[0].text)
        self.converses()
        self.answers("three")
        self.say("third")
        self.assertEqual([message["content"] for message in self.sent()[-1]["messages"]], ["second", "two", "third"])

    def test_text_files_go_along(self):
        self.converses()
        self.answers("one", "two")
        with tempfile.TemporaryDirectory() as folder:
            names = ("notes.md", "large.txt", "picture.png", "latin.txt")
            notes, large, binary, latin = (pathlib.Path(folder) / name for name in names)
            notes.write_text("a\n```\nb\n```\n")
            large.write_text("x" * (256 * 1024 + 1))
            binary.write_bytes(b"PNG\r\n\x1a\n\0\0")
            latin.write_bytes(b"caf\xe9")
            picker = self.find("#file-picker")
            picker.send_keys(str(large))
            self.wait(lambda: "large.txt: 256 KB, at most 256 KB" in self.find("#attach-trouble").text, "the refusal")
            for file, wanted in ((binary, "not a text file: it holds a zero byte"),
                                 (latin, "not a text file in UTF-8")):
                picker.send_keys(str(file))
                self.wait(lambda: self.find("#attach-trouble").text == f"{file.name}: {wanted}", wanted)
            self.assertEqual(self.all(".box .chip"), [])
            picker.send_keys(str(notes))
            self.wait(lambda: [one.text for one in self.all(".box .chip-name")] == ["notes.md"], "the chip")
            self.assertFalse(self.find("#attach-trouble").is_displayed())
        self.picture("attached")
        self.say("Sum it up")
        self.say("More")
        content = "Sum it up\n\nFile notes.md:\n````\na\n```\nb\n```\n````"
        self.assertEqual([message["content"] for message in self.sent()[-1]["messages"]], [content, "one", "More"])
        self.assertEqual(self.all(".box .chip"), [], "it goes along once")
        self.open(support.server().url + "/")
        self.assertEqual([one.text for one in self.all(".message .chip-name")], ["notes.md"])

    def test_a_long_paste_is_a_file(self):
        paste = """const data = new DataTransfer();
                   data.setData("text/plain", arguments[0]);
                   document.getElementById("prompt").dispatchEvent(
                       new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }))"""
        self.script(paste, "word " * 900)
        self.assertEqual([one.text for one in self.all(".box .chip-name")], ["pasted text"])
        self.find(".chip-remove").click()
        self.script(paste, "short")
        self.assertEqual(self.all(".box .chip"), [])

    def test_how_full_the_context_is(self):
        def counted(messages):
            asked = support.urllib.request.Request(support.server().url + "/apply-template",
                                                   json.dumps({"messages": messages}).encode())
            with support.urllib.request.urlopen(asked) as answer:
                return len(json.loads(answer.read())["tokens"])

        user = {"role": "user", "content": PROMPT}
        said = lambda: self.find("#meter-text").text
        self.find("#prompt").send_keys(PROMPT)
        self.wait(lambda: said() == f"{counted([user])} of 256 tokens", "the count")
        self.converses()
        self.answers("one")
        self.find("#prompt").send_keys(Keys.ENTER)
        answer = {"role": "assistant", "content": "one"}
        self.wait(lambda: said() == f"{counted([user, answer])} of 256 tokens", "the count")
        self.assertNotIn("full", self.find("#meter").get_attribute("class"))
        self.script("page.chat.type('word '.repeat(300))")
        self.wait(lambda: "too many" in said(), "the warning")
        self.assertIn("full", self.find("#meter").get_attribute("class"))

    def test_the_keyboard_reaches_all_of_it(self):
        active = "return document.activeElement.id || document.activeElement.textContent"
        self.answers("one", "two")
        self.say("first")
        self.press(Keys.ARROW_UP)
        self.assertEqual(self.find(".editing textarea").get_attribute("value"), "first")
        self.press(Keys.ESCAPE)
        self.assertEqual((self.all(".editing"), self.script(active)), ([], "Edit"))
        self.press(Keys.ALT, "n")
        self.assertEqual((self.questions(), self.script(active)), ([], "prompt"))
        self.press(Keys.ALT, "k")
        self.assertEqual(self.script(active), "search")
        self.press("first")
        self.press(Keys.TAB)
        self.press(Keys.ENTER)
        self.assertEqual((self.questions(), self.script(active)), (["first"], "prompt"))
        self.press(Keys.ALT, "/")
        self.assertTrue(self.find("#help[open]"))
        for keys in ("Enter", "Esc", "Alt+N", "Alt+K"):
            self.assertIn(keys, self.find(".shortcuts").text)
        self.press(Keys.ESCAPE)
        self.find("#open-form").send_keys(Keys.ENTER)
        self.assertTrue(self.find("#form-panel").is_displayed())
        self.find("#form-kind").send_keys(Keys.ESCAPE)
        self.assertEqual((self.find("#form-panel").is_displayed(), self.script(active)), (False, "open-form"))

    def test_the_list_on_a_phone_slides_over_the_rest(self):
        self.look(390, 844, dark=False)
        self.answers("one")
        self.say("first")
        self.wait(lambda: not self.find("#search").is_displayed(), "a page of this width")
        self.find("#open-list").click()
        self.wait(lambda: self.find("#search").is_displayed(), "the list")
        self.assertTrue(self.script("return document.querySelector('.talk').inert"), "nothing behind it has the focus")
        self.press(Keys.ESCAPE)
        self.wait(lambda: not self.find("#search").is_displayed(), "its end")
        self.assertEqual(self.script("return document.activeElement.id"), "open-list")
        self.find("#open-list").click()
        self.wait(lambda: self.find("#new-chat").is_displayed(), "the list")
        self.find("#new-chat").click()
        self.assertEqual((self.questions(), self.script("return document.activeElement.id")), ([], "prompt"))


if __name__ == "__main__":
    unittest.main()
