"""The page of the server in Debian's Chromium, driven by Selenium: what a reader does, sees, and is told."""

import http.server
import json
import subprocess
import threading
import unittest
import urllib.request

from selenium import webdriver
from selenium.webdriver.common.keys import Keys

import support
from page_base import PROMPT, SAMPLE, PageTest


class Chat(PageTest):
    def test_the_answer_is_the_command_lines_and_every_cell_is_coloured(self):
        self.ask()
        self.finished()
        self.picture("chat")
        expected = support.run(PROMPT)
        self.assertEqual(self.text(), expected["text"])
        self.assertIn(expected["text"], self.find("#announce").get_attribute("textContent"))
        line = self.find(".answer .line").text
        self.assertIn(f"{expected['stats']['content_tokens']} tokens", line)
        self.assertIn(f"{expected['stats']['nfe']} forwards", line)
        self.assertIn("tokens per second", line)
        cells = self.all(".answer .cell:not(.behind)")
        self.assertEqual([cell.text for cell in cells if "level-" not in cell.get_attribute("class")], [])
        colours = {self.script("return getComputedStyle(arguments[0]).backgroundColor", cell) for cell in cells}
        self.assertNotIn("rgba(0, 0, 0, 0)", colours)

    def test_what_the_form_fixed_is_marked(self):
        self.find("#open-form").click()
        self.find("#form-kind").send_keys("a text with gaps")
        area = [one for one in self.all("#form-panel .code-area") if one.is_displayed()][0]
        area.clear()
        area.send_keys("Age: <int 10..99> years")
        self.ask(length=16)
        self.finished()
        self.picture("form")
        text = lambda selector: "".join(cell.text for cell in self.all(".answer .cell:not(.behind)" + selector))
        self.assertTrue(text(".by-form").startswith("Age:"), text(".by-form"))
        self.assertRegex(text(":not(.by-form)"), r"^[ 0-9]+$")
        self.assertIn("fixed by the form", self.find(".legend").text)

    def test_the_conversation_goes_on(self):
        self.ask("Sort the numbers from smallest to largest: 3 1 2")
        self.finished(1)
        self.find("#prompt").send_keys("And from largest to smallest?" + Keys.ENTER)
        self.finished(2)
        self.assertEqual(self.script("return page.chat.conversation.exchanges.map(one => one.replies.length)"), [1, 1])
        self.find("#new-chat").click()
        self.assertEqual(self.all(".message"), [])

    def test_the_slider_replays_from_all_masks_to_the_answer(self):
        self.set_option("threshold", "1")
        self.ask()
        self.finished()
        slider = self.find(".replay input")
        self.assertGreaterEqual(slider.size["height"], 24, "high enough for a finger")
        frames = int(slider.get_attribute("max")) + 1
        masks = []
        for frame in range(frames):
            self.script("""arguments[0].value = arguments[1];
                           arguments[0].dispatchEvent(new Event("input", {bubbles: true}))""", slider, frame)
            masks.append(len(self.all(".answer .cell.masked")))
            if masks[-1] and frame + 1 < frames:
                self.assertIn(f"{masks[-1]} masks left", self.find(".line").text)
            if frame == frames // 2:
                self.picture("replay")
        self.assertEqual(masks, sorted(masks, reverse=True))
        self.assertGreater(masks[0], masks[-1])
        self.assertEqual(self.text(), support.run(PROMPT, "--threshold", "1")["text"])
        slider.send_keys(Keys.HOME)
        self.assertEqual(len(self.all(".answer .cell.masked")), masks[0])

    def test_escape_stops_and_the_server_is_free(self):
        self.set_option("early_stop", "none")
        self.set_option("temperature", "2")
        self.set_option("block_length", "200")
        self.set_preset("exact")
        self.set_option("gen_length", "200")
        self.find("#prompt").send_keys("Go on for ever" + Keys.ENTER)
        self.wait(lambda: len(self.all(".answer .cell.masked")) > 0 and self.find(".answer .cell.fresh"), "a step")
        self.picture("forming")
        self.assertEqual(self.find("#send").text, "Stop")
        self.find("#prompt").send_keys(Keys.ESCAPE)
        self.finished()
        self.assertIn("stopped", self.find(".line").text)
        self.assertEqual(self.find("#send").text, "Send")
        self.assertGreater(len(self.all(".answer .cell.masked")), 0)
        self.wait(lambda: support.metric("llada_requests_running") == 0, "the server to be free", 5)

    def test_an_error_is_one_sentence_on_the_page(self):
        self.set_option("threshold", "7")
        self.find("#prompt").send_keys(PROMPT + Keys.ENTER)
        self.finished()
        self.assertIn("threshold", self.find(".answer .error").text)
        self.assertEqual(self.find("#prompt").get_attribute("value"), PROMPT, "it can be sent again")
        self.picture("error")
        # The browser itself notes each refused request; nothing else may be there.
        self.assertEqual([message for message in self.console() if "400" not in message], [])


class OtherTabs(PageTest):
    def test_two_settings_side_by_side(self):
        self.find("#tab-compare").click()
        for side, preset in (("#side-a", "balanced"), ("#side-b", "exact")):
            self.set_preset(preset, side)
            self.set_option("gen_length", str(support.LENGTH), side)
        prompt = self.find("#compare-prompt")
        self.assertIn("puzzles", prompt.get_attribute("value"), "a question that the shipped model knows")
        prompt.clear()
        prompt.send_keys(PROMPT + Keys.ENTER)
        self.finished(2)
        self.picture("compare")
        fast, exact = (line.text for line in self.all(".side .line"))
        self.assertIn(f"{support.run(PROMPT)['stats']['nfe']} forwards", fast)
        self.assertIn(f"{support.run(PROMPT, preset='exact')['stats']['nfe']} forwards", exact)
        for line in (fast, exact):
            self.assertIn("tokens per second", line)

    def test_gaps_from_selected_text(self):
        self.set_preset(support.OPTIONS["preset"])
        self.find("#tab-fill").click()
        text = self.find("#fill-text")
        text.clear()
        text.send_keys("Sorted: 1 2 3 4 5 6")
        self.script("arguments[0].setSelectionRange(11, 15)", text)
        self.find("#gap-length").clear()
        self.find("#gap-length").send_keys("3")
        self.find("#make-gap").click()
        self.assertEqual(text.get_attribute("value"), "Sorted: 1 2<mask:3> 5 6")
        self.find("#fill-send").click()
        self.finished()
        self.picture("fill")
        done = subprocess.run([support.LLADA, "infill", "-m", support.model(), "-p", "Sorted: 1 2<mask:3> 5 6",
                               *support.OPTION_FLAGS, "--json"], check=True, capture_output=True)
        self.assertEqual(self.text(), json.loads(done.stdout)["text"])
        self.assertEqual(len(self.all(".answer .cell:not(.given)")), 3)

    def test_settings_come_from_the_list_in_a_persons_words(self):
        options = json.loads(support.get("/v1/llada/options"))["options"]
        asked_elsewhere = {"choice", "regex", "json_schema", "json_object", "template"}  # "Answer as"
        self.find("#open-settings").click()
        keys = [field.get_attribute("data-key") for field in self.all("#options .field[data-key]")]
        self.assertEqual(sorted(keys), sorted({option["key"] for option in options} - asked_elsewhere))
        self.assertEqual(keys[:2], ["gen_length", "temperature"], "what most people look for")
        titles = self.script("return [...document.querySelectorAll('#options .field, #options summary')]"
                             ".map((one) => one.firstChild.textContent)")
        self.assertEqual(sorted(set(titles)), sorted(titles), "each stands once")
        for details in self.all("#options details")[:2]:
            details.click()
        self.picture("settings")
        words = self.script("return kWords")
        self.assertEqual(sorted(words), sorted(option["key"] for option in options), "each has words of its own")
        for option in options:
            name, said = words[option["key"]]
            self.assertNotIn("_", name)
            self.assertNotRegex(said, r"--|K/V|[Ll]ogit|[Gg]umbel|NATS|[Ff]orward", option["key"])
            self.assertRegex(said, r"^\S.{20,}[.]$", option["key"])
        self.set_option("threshold", "0.5")
        self.assertEqual(self.find("#changed").text, "1")
        self.assertEqual(self.script("return page.chatBody([]).llada"), {"threshold": 0.5})

    def test_keyboard_alone(self):
        active = "return document.activeElement.id"
        self.assertEqual(self.script(active), "prompt")
        self.script("document.getElementById('tab-chat').focus()")
        order = []
        for _ in range(14):
            webdriver.ActionChains(self.browser).send_keys(Keys.TAB).perform()
            order.append(self.script(active))
        self.assertEqual(order, ["open-help", "open-settings", "new-chat", "search", "import", "", "", "", "prompt",
                                 "attach", "open-form", "open-tools", "send", ""], "samples have no name")
        self.script("document.getElementById('tab-chat').focus()")
        webdriver.ActionChains(self.browser).send_keys(Keys.ARROW_RIGHT).perform()
        self.assertEqual(self.script(active), "tab-compare")
        self.assertTrue(self.find("#compare").is_displayed())
        self.assertFalse(self.find("#chat").is_displayed())
        for key, tab in ((Keys.END, "tab-decide"), (Keys.HOME, "tab-chat")):
            webdriver.ActionChains(self.browser).send_keys(key).perform()
            self.assertEqual(self.script(active), tab)

    def test_probabilities_without_a_mouse(self):
        self.ask_sample()
        self.finished()
        self.find(".tokens summary").send_keys(Keys.ENTER)
        self.wait(lambda: self.all(".tokens li"), "the list")
        said = [item.text for item in self.all(".tokens li")]
        self.assertEqual(len(said), len(self.all(".answer .cell:not(.behind)")))
        self.assertRegex(said[0], r'^"3", [\d.]+ % sure, step 1, final$')

    def test_gaps_have_an_example(self):
        self.find("#tab-fill").click()
        self.find("#fill-send").click()
        self.finished()
        self.assertEqual(self.text(), "Ken has 20+6=26 puzzles. Theo has 26-3=23 puzzles.")


class Trouble(PageTest):
    def trouble(self):
        return self.find("#trouble").text if self.find("#trouble").is_displayed() else ""

    def test_a_reload_keeps_what_was_there(self):
        self.ask_sample()
        self.finished()
        answer = self.text()
        self.assertEqual(answer, support.run(SAMPLE)["text"])
        self.set_option("threshold", "0.8")
        self.set_option("temperature", "0")
        self.find("#open-settings").click()
        self.find("#system").send_keys("Be brief.")
        self.find("#settings .main").click()
        self.find("#prompt").send_keys("half a thou")
        self.open(support.server().url + "/")
        self.assertEqual(self.questions(), [SAMPLE])
        self.assertEqual(self.find(".message .cells").text, answer)
        self.assertFalse(self.find("#welcome").is_displayed())
        self.assertEqual(self.find("#prompt").get_attribute("value"), "half a thou")
        self.assertEqual(self.script("return page.settings.values()"), {"threshold": 0.8, "temperature": 0})
        body = self.script("return page.chatBody([])")
        self.assertEqual(body["messages"], [{"role": "system", "content": "Be brief."}])
        self.picture("reloaded")
        self.find("#new-chat").click()
        self.open(support.server().url + "/")
        self.assertEqual(self.all(".message"), [])
        self.assertTrue(self.find("#welcome").is_displayed())

    def test_a_server_that_is_gone(self):
        own = support.Server()
        self.open(own.url + "/")
        own.stop()
        self.find("#prompt").send_keys(SAMPLE + Keys.ENTER)
        self.wait(lambda: self.find(".answer .error"), "the error")
        self.picture("gone")
        self.assertIn(f"The server at 127.0.0.1:{own.port} does not answer.", self.find(".answer .error").text)
        self.assertEqual(self.find("#prompt").get_attribute("value"), SAMPLE)
        again = support.Server(port=own.port)
        self.find(".retry").click()
        self.wait(lambda: self.find(".answer .line") and self.find(".answer[aria-busy=false] .line"), "the answer")
        self.assertEqual(self.text(), support.run(SAMPLE)["text"])
        self.assertEqual(len(self.all(".message.user")), 1)
        self.assertEqual(self.find("#prompt").get_attribute("value"), "")
        again.stop()
        self.console()

    def test_keys_are_asked_for_where_they_are_typed(self):
        path = support.ROOT / "build/clients-page-keys"
        path.write_text("right-key\n")
        guarded = support.Server("--api-key-file", str(path))
        self.browser.get(guarded.url + "/")
        self.wait(lambda: self.find("#settings[open]"), "the settings")
        self.assertEqual(self.script("return document.activeElement.id"), "api-key")
        self.assertEqual(self.trouble(), "This server asks for an API key.")
        self.picture("key")
        self.find("#api-key").send_keys("wrong-key" + Keys.ENTER)
        self.wait(lambda: "does not know" in self.trouble(), "a word about the key")
        self.assertEqual(self.script("return document.activeElement.id"), "api-key")
        self.find("#api-key").send_keys(Keys.CONTROL + "a")
        self.find("#api-key").send_keys("right-key" + Keys.ENTER)
        self.wait(lambda: self.find("#options select"), "the list of options")
        self.wait(lambda: not self.trouble(), "no trouble")
        self.assertNotIn("right-key", self.script("return JSON.stringify({...localStorage})"))
        self.ask_sample()
        self.finished()
        self.assertEqual(self.text(), support.run(SAMPLE)["text"])
        guarded.stop()
        path.unlink()
        self.assertEqual([message for message in self.console() if "401" not in message], [])

    def test_a_model_that_is_still_being_loaded(self):
        self.script("""
          const get = page.server.get.bind(page.server);
          let calls = 0;
          page.server.get = (path) => ++calls < 3 ? Promise.reject(new ServerError("loading", 503)) : get(path);
          page.open()""")
        self.wait(lambda: "being loaded" in self.trouble(), "the notice")
        self.assertEqual(self.find("#trouble").get_attribute("class"), "notice")
        self.wait(lambda: not self.trouble(), "its end")

    def test_a_model_of_single_turns_says_so(self):
        self.wait(lambda: self.find("#single").is_displayed(), "the hint, since the shipped model is one")
        self.ask_sample()
        self.finished()
        self.find("#prompt").send_keys(PROMPT + Keys.ENTER)
        self.finished(2)
        self.assertEqual(self.text(), support.run(PROMPT)["text"], "as if it had been asked alone")
        self.picture("single")
        self.script("""
          const get = page.server.get.bind(page.server);
          page.server.get = async (path) => ({ ...await get(path), ...(path === "props" && { single_turn: false }) });
          page.open()""")
        self.wait(lambda: not self.find("#single").is_displayed(), "its end with a model that converses")

    def test_below_a_path_of_a_proxy(self):
        class Proxy(http.server.BaseHTTPRequestHandler):
            def relay(self):
                size = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(size) if size else None
                if not self.path.startswith("/models/llada/"):
                    return self.send_error(404)
                asked = urllib.request.Request(support.server().url + self.path.removeprefix("/models/llada"), body,
                                               {"Content-Type": "application/json"}, method=self.command)
                with urllib.request.urlopen(asked) as answer:
                    content = answer.read()
                    self.send_response(answer.status)
                    for name in ("Content-Type", "Content-Security-Policy"):
                        if answer.headers[name]:
                            self.send_header(name, answer.headers[name])
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

            do_GET = do_POST = relay

            def log_message(self, *_):
                pass

        proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        self.open(f"http://127.0.0.1:{proxy.server_port}/models/llada/")
        self.ask_sample()
        self.finished()
        self.assertEqual(self.text(), support.run(SAMPLE)["text"])
        proxy.shutdown()
        self.console()


class Parts(PageTest):
    def test_events_are_the_same_however_the_network_cuts_them(self):
        found = self.script(r"""
          const text = ": ping\r\n\r\ndata: {\"a\":1}\n\ndata:b\ndata: c\n\nevent: x\ndata: [DONE]\r\n\r\n";
          const seen = new Set();
          for (let i = 0; i <= text.length; ++i)
            for (let j = i; j <= text.length; ++j) {
              const reader = new EventReader();
              const parts = [text.slice(0, i), text.slice(i, j), text.slice(j)];
              seen.add(JSON.stringify(parts.flatMap(part => reader.add(part))));
            }
          return [...seen]""")
        self.assertEqual([json.loads(one) for one in found], [['{"a":1}', "b\nc", "[DONE]"]])

    def test_a_character_in_two_tokens_shows_the_text_itself(self):
        found = self.script("""
          const place = document.createElement("div"), view = new AnswerView(place);
          const frame = (step, edits, canvas) => view.add({
              choices: [{delta: {content: step ? "é!" : ""}}],
              llada: {step, masks_left: 1, forwards: step + 1, edits, canvas}});
          const edit = (position, text) => ({position, text, state: "stable", confidence: 1});
          frame(0, [edit(9, "!")], {begin: 7, length: 4});
          frame(1, [edit(7, "\ufffd"), edit(8, "\ufffd")]);
          view.done();
          const last = [place.querySelector(".plain").hidden, place.querySelector(".plain").textContent];
          view.seek(0);
          return [...last, view.cells.hidden, view.spans.map(span => span.className.includes("masked"))]""")
        self.assertEqual(found, [False, "é!", False, [True, True, False, True]])


if __name__ == "__main__":
    unittest.main()
