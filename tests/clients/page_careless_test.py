"""A person who is not careful and a browser that is not kind: nothing is lost, and each refusal is a line."""

import pathlib
import tempfile
import unittest

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

import support
from page_base import PageTest

TALKS = "return Object.keys(localStorage).filter(key => key.includes(' talk ')).map(key => localStorage[key]).join()"


class Careless(PageTest):
    def ask_and_wait(self, text):
        self.script("page.chat.type(arguments[0])", text)
        self.find("#prompt").send_keys(Keys.ENTER)
        self.wait(lambda: self.find(".answer[aria-busy=true] .cell"), "the first cell")

    def end(self):
        self.script("page.work.stop()")
        self.wait(self.idle, "the end")

    def test_a_reload_while_an_answer_forms_keeps_the_question(self):
        self.answers("wait")
        self.ask_and_wait("a long question")
        self.open(support.server().url + "/")
        self.assertEqual(self.questions(), ["a long question"])
        self.assertEqual(self.find(".answer .line").text, "no answer yet")
        self.answers("one")
        self.button("Regenerate").click()
        self.wait(lambda: self.find(".cells").text == "one", "the answer")
        self.assertEqual([message["content"] for message in self.sent()[0]["messages"]], ["a long question"])

    def test_a_failure_leaves_no_trace_of_the_question_but_in_its_field(self):
        self.answers({"fail": "broken"})
        self.say("first")
        self.assertEqual((self.find("#prompt").get_attribute("value"), self.script(TALKS)), ("first", ""))

    def test_a_retry_leaves_alone_what_was_typed_since(self):
        self.answers({"fail": "broken"}, "one")
        self.say("first")
        self.script("page.chat.type('something new')")
        self.button("Retry").click()
        self.wait(lambda: self.idle() and self.find(".cells").text == "one", "the answer")
        self.assertEqual(self.questions(), ["first"])
        self.assertEqual(self.find("#prompt").get_attribute("value"), "something new")

    def test_the_present_conversation_chosen_again_does_not_stop_its_answer(self):
        self.answers("one", "wait")
        self.say("first")
        self.ask_and_wait("second")
        self.find(".talk-name[aria-current]").click()
        self.assertFalse(self.idle())
        self.end()

    def test_another_conversation_stops_the_answer_says_so_and_leaves_it_where_it_was_asked(self):
        self.answers("one", "two", "wait")
        self.say("first")
        self.find("#new-chat").click()
        self.say("other")
        self.ask_and_wait("second")
        self.all(".talk-name")[1].click()
        self.wait(self.idle, "the end")
        self.assertEqual(self.note(), "The answer that was forming is stopped.")
        self.assertEqual(self.questions(), ["first"])
        self.all(".talk-name")[0].click()
        self.assertEqual(self.questions(), ["other", "second"])
        self.assertIn("a part", self.all(".answer")[-1].text)

    def test_the_buttons_of_other_places_end_no_answer(self):
        self.answers("wait")
        self.ask_and_wait("first")
        for place in ("compare", "fill", "decide"):
            self.find("#tab-" + place).click()
            self.find(f"#{place}-send").click()
            self.assertFalse(self.idle(), place)
            self.assertEqual(self.note(), "An answer is forming. Stop it first, with Esc.")
            self.button("✕", "#note").click()
        self.end()

    def test_a_press_elsewhere_while_a_title_is_written_does_what_it_says(self):
        self.answers("one", "two")
        self.say("first")
        self.find("#new-chat").click()
        self.say("second")
        self.find("#rename").click()
        self.find(".title-row input").send_keys("named")
        self.find("#prompt").click()
        self.assertEqual(self.script("return document.activeElement.id"), "prompt")
        self.assertEqual(self.find("#title").text, "named")
        self.find("#rename").click()
        self.find(".title-row input").send_keys("again")
        ActionChains(self.browser).click_and_hold(self.all(".talk-name")[1]).pause(0.1).release().perform()
        self.wait(lambda: self.questions() == ["first"], "the other conversation")
        self.wait(lambda: self.find("#title").text == "first", "its title")
        self.assertEqual([one.text for one in self.all(".talk-title")], ["again", "first"])

    def test_two_tabs_that_ask_at_once_both_keep_their_answers(self):
        self.answers("one", "wait")
        self.say("first")
        self.ask_and_wait("here")
        here = self.browser.current_window_handle
        self.browser.switch_to.new_window("tab")
        self.look(1180, 800, dark=False)
        self.open(support.server().url + "/")
        self.assertEqual(self.questions(), ["first", "here"])
        self.answers("wait")
        self.ask_and_wait("there")
        there = self.browser.current_window_handle
        for tab in (here, there):
            self.browser.switch_to.window(tab)
            self.end()
        self.browser.close()
        self.browser.switch_to.window(here)
        self.wait(lambda: self.questions() == ["first", "here", "there"], "all three")
        self.open(support.server().url + "/")
        self.assertEqual(self.questions(), ["first", "here", "there"])
        self.assertEqual([one.text.split("\n")[0] for one in self.all(".answer")], ["one", "a part", "a part"])

    def test_a_browser_that_keeps_nothing_still_converses(self):
        refuse = """const get = () => { throw new DOMException("no", "SecurityError") };
                    Object.defineProperties(window, { localStorage: { get }, sessionStorage: { get } })"""
        added = self.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": refuse})
        try:
            self.open(support.server().url + "/")
            self.answers("one")
            self.say("first")
            self.assertEqual(self.find(".cells").text, "one")
            self.assertIn("full or keeps nothing", self.note())
        finally:
            self.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)

    def test_a_full_browser_says_so_and_the_answer_stays_on_the_page(self):
        self.script("""let text = "x".repeat(1 << 20), i = 0;
                       while (text) try { localStorage.setItem("other " + i++, text) }
                                    catch { text = text.slice(text.length / 2 + 1) }""")
        self.answers("one", "two")
        self.say("first")
        self.say("second")
        self.assertEqual([one.text for one in self.all(".cells")], ["one", "two"])
        self.assertIn("full or keeps nothing", self.note())
        self.script("localStorage.clear()")

    def test_a_paste_has_the_limits_of_a_file(self):
        paste = """const data = new DataTransfer();
                   data.setData("text/plain", "lorem ipsum ".repeat(arguments[0]));
                   page.chat.input.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true,
                                                                               cancelable: true }))"""
        trouble = lambda: self.find("#attach-trouble").text
        self.script(paste, 90000)
        self.wait(lambda: trouble() == "pasted text: 1055 KB, at most 256 KB can go along", "the line")
        for count in range(1, 17):
            self.script(paste, 400)
            self.wait(lambda: len(self.all("#attached .chip")) == count, "the file")
        self.script(paste, 400)
        self.wait(lambda: trouble() == "pasted text: a message has 16 files at most", "the line")

    def test_a_file_of_backticks_goes_along(self):
        self.answers("one")
        self.script("page.chat.attached.add('ticks', 'a`'.repeat(400000))")  # as an imported conversation may have it
        self.say("first")
        self.assertTrue(self.script("return sent[0].messages[0].content.endsWith('a`\\n```')"))

    def test_a_window_that_grows_leaves_the_list_of_a_phone(self):
        self.look(390, 844, dark=False)
        self.find("#open-list").click()
        self.look(1180, 800, dark=False)
        self.wait(lambda: not self.script("return document.querySelector('.talk').inert"), "the composer")

    def test_a_closed_line_gives_the_focus_back(self):
        self.answers("one")
        self.say("first")
        self.find("#export-one").send_keys(Keys.ENTER)
        self.button("✕", "#note").send_keys(Keys.ENTER)
        self.assertEqual(self.script("return document.activeElement.id"), "export-one")

    def test_buttons_that_vanish_leave_the_focus_with_their_exchange(self):
        within = "return document.activeElement.closest('.exchange') !== null"
        self.answers("one", "wait", {"fail": "broken"}, "two")
        self.say("first")
        self.button("Regenerate").send_keys(Keys.ENTER)
        self.wait(lambda: self.find(".answer[aria-busy=true] .cell"), "the first cell")
        self.assertTrue(self.script(within))
        self.end()
        self.say("second")
        self.button("Retry").send_keys(Keys.ENTER)
        self.wait(lambda: self.idle() and self.all(".cells")[-1].text == "two", "the answer")
        self.assertTrue(self.script(within))

    def test_a_title_of_spaces_is_none_and_a_nested_file_gets_one_line(self):
        asked = "x" * 58 + "😀" * 9
        talk = '{"title": "  ", "named": true, "exchanges": [{"question": "%s", "replies": []}]}' % asked
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "a.json"
            whole = '{"format": "llada conversations", "version": %s, "conversations": [%s]}'
            file.write_text(whole % ("[" * 100000 + "]" * 100000, ""))
            self.find("#import-picker").send_keys(str(file))
            self.wait(lambda: self.note() == "a.json: version: found a list, needed 1", "the line")
            file.write_text(whole % (1, talk))
            self.find("#import-picker").send_keys(str(file))
            self.wait(lambda: self.note() == "Imported 1 conversation.", "the note")
        self.assertEqual(self.find(".talk-title").text, "x" * 58 + "😀…")

    def test_a_key_that_no_request_can_carry_is_named(self):
        self.find("#open-settings").click()
        self.find("#api-key").send_keys("ключ" + Keys.ENTER)
        said = "The API key has a character that cannot be sent."
        self.wait(lambda: self.find("#trouble").text == said, "the line")
        self.find("#open-settings").click()
        self.find("#api-key").send_keys(Keys.CONTROL + "a" + Keys.NULL + Keys.BACKSPACE + Keys.ENTER)
        self.wait(lambda: not self.find("#trouble").is_displayed(), "the page as before")

    def test_a_filled_text_that_is_used_is_kept(self):
        self.find("#tab-fill").click()
        self.find("#fill-send").click()
        self.wait(lambda: self.find("#fill-answer .answer[aria-busy=false]"), "the answer")
        self.button("Use as the text").click()
        used = self.find("#fill-text").get_attribute("value")
        self.open(support.server().url + "/")
        self.assertEqual(self.find("#fill-text").get_attribute("value"), used)

    def test_each_paragraph_runs_the_way_of_its_script(self):
        self.answers("- פריט אחד.\n- item.\n\nשלום, עולם.")
        self.say("מה שלומך?")
        ends = self.script("""return [".user > p", ".reading li", ".reading li + li", ".reading ul + p"].map(where => {
            const text = document.querySelector(where).firstChild, at = document.createRange();
            const left = (i) => {
              at.setStart(text, i);
              at.setEnd(text, i + 1);
              return at.getBoundingClientRect().left;
            };
            return left(text.length - 1) < left(0);
          })""")
        self.assertEqual(ends, [True, True, False, True], "the last character stands at the left of the first")
        way = self.script("return getComputedStyle(document.querySelector('.reading ul')).direction")
        self.assertEqual(way, "rtl", "the marks of a list stand where its lines begin")

    def test_a_formula_stays_within_its_answer(self):
        self.answers("*one*", r"*a* $\raisebox{6em}{\text{FAKE}}$")
        self.say("first")
        self.say("second")
        outside = self.script("""const text = [...document.querySelectorAll("mtext")].pop().getBoundingClientRect();
            const answer = [...document.querySelectorAll(".reading")].pop();
            const hit = document.elementFromPoint(text.left + text.width / 2, text.top + text.height / 2);
            return [text.bottom < answer.getBoundingClientRect().top, answer.contains(hit)]""")
        self.assertEqual(outside, [True, False])

    def test_a_low_window_has_room_to_read_and_a_long_name_takes_one_line(self):
        self.look(640, 450, dark=False)
        self.answers("one\n" * 30)
        self.say("first")
        self.script("page.chat.attached.add('x'.repeat(300) + '.txt', 'x')")
        self.assertLess(self.find("#attached .chip").size["height"], 40)
        self.assertGreater(self.find("#messages").size["height"], 200)
        tops = {one.location["y"] for one in self.all(".bar > .quiet:not([aria-controls])")}
        self.assertEqual(len(tops), 1, "the buttons of the head stand in one row")
        self.assertEqual(self.overflow(), 0)


if __name__ == "__main__":
    unittest.main()
