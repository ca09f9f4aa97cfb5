"""What the tests of the server's page share: Debian's Chromium, driven by Selenium, and what a reader does there."""

import os
import time
import unittest

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import support

PROMPT = "Fred has 20 puzzles. Ken has 6 more than Fred. How many puzzles do Fred and Ken have together?"
SAMPLE = "Sort the numbers from smallest to largest: 38 41 6 51 3"
PICTURES = os.environ.get("LLADA_PICTURES")  # a folder for screenshots to look at
LOOKS = [(width, height, dark) for width, height in ((390, 844), (1280, 900)) for dark in (False, True)]

# Answers in place of the server's: a text, {text, calls} or {fail}, each sent as one frame with a token per word. What
# was asked is in window.sent.
FAKE = r"""
window.sent = [];
const given = arguments[0];
page.server.stream = async (path, body, signal, take) => {
  sent.push(structuredClone(body));
  const answer = given.shift();
  if (answer === "wait") {
    take({ choices: [{ delta: { content: "a part" } }],
           llada: { step: 0, masks_left: 3, forwards: 1, canvas: { begin: 0, length: 4 },
                    edits: [{ position: 0, text: "a part", state: "stable", confidence: 1 }] } });
    await new Promise((_, stop) => signal.addEventListener("abort", () => stop(new Error("aborted"))));
  }
  if (answer.fail) throw new ServerError(answer.fail, 500);
  const text = answer.text ?? answer, words = text.match(/\s*\S+|\s+$/g) || [];
  const edits = words.map((word, position) => ({ position, text: word, state: "stable", confidence: 0.8 }));
  take({ choices: [{ delta: { content: text, tool_calls: answer.calls }, finish_reason: "stop" }],
         llada: { step: 0, masks_left: 0, forwards: 1, edits, canvas: { begin: 0, length: words.length } },
         usage: { prompt_tokens: 9, completion_tokens: words.length, forwards: 1, seconds: 1 } });
};
"""


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        cls.browser = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()

    def setUp(self):
        self.look(1180, 800, dark=False)
        self.open(support.server().url + "/")
        self.script("localStorage.clear(); sessionStorage.clear()")
        self.open(support.server().url + "/")

    def tearDown(self):
        self.assertEqual(self.console(), [], "the console holds something")
        self.assertFalse(self.find("#trouble").is_displayed(), self.find("#trouble").text)

    def open(self, url):
        self.browser.get(url)
        self.wait(lambda: self.find("#options select"), "the list of options")

    def look(self, width, height, dark):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def console(self):
        """What Chromium would mark: not its advice on password fields."""
        log = self.browser.get_log("browser")
        return [entry["message"] for entry in log if entry["level"] in ("WARNING", "SEVERE")]

    def picture(self, name):
        if PICTURES:
            self.browser.save_screenshot(os.path.join(PICTURES, name + ".png"))

    def find(self, selector):
        found = self.browser.find_elements(By.CSS_SELECTOR, selector)
        return found[-1] if found else None

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def script(self, code, *values):
        return self.browser.execute_script(code, *values)

    def wait(self, condition, what, seconds=30):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline, "waited in vain for " + what)
            time.sleep(0.02)

    def finished(self, answers=1):
        self.wait(lambda: len(self.all(".answer[aria-busy=false]")) == answers, "the answer")

    def set_option(self, key, value, place="#options"):
        field = self.find(f"{place} .field[data-key={key}]")
        self.script("""const input = arguments[0].querySelector("input, select");
                       input.value = arguments[1];
                       input.dispatchEvent(new Event("input", {bubbles: true}))""", field, value)

    def set_preset(self, preset, place="#options"):
        self.script("""arguments[0].value = arguments[1];
                       arguments[0].dispatchEvent(new Event("input", {bubbles: true}))""",
                    self.all(place + " select")[0], preset)

    def ask(self, prompt=PROMPT, length=support.LENGTH):
        self.set_preset(support.OPTIONS["preset"])
        self.set_option("gen_length", str(length))
        self.find("#prompt").send_keys(prompt + Keys.ENTER)

    def ask_sample(self):
        self.all(".sample")[0].click()

    def text(self):
        """Of the last answer's cells that are content, as one reads them."""
        return self.script("""const last = [...document.querySelectorAll(".answer")].pop();
                              return [...last.querySelectorAll(".cell:not(.behind)")]
                                .map(cell => cell.textContent).join("")""")

    def answers(self, *given):
        self.script(FAKE.replace("\\\\", "\\"), list(given))

    def sent(self):
        return self.script("return sent")

    def say(self, text):
        """Asks, and waits for the end of the answer."""
        done = len(self.all(".answer[aria-busy=false]"))
        self.script("page.chat.type(arguments[0])", text)
        self.find("#prompt").send_keys(Keys.ENTER)
        self.wait(lambda: len(self.all(".answer[aria-busy=false]")) > done and self.idle(), "the answer to " + text)

    def idle(self):
        return not self.script("return page.work.busy")

    def button(self, text, place=""):
        """The last button that says so."""
        found = [one for one in self.all(place + " button") if one.text == text and one.is_displayed()]
        self.assertTrue(found, f"no button {text}")
        return found[-1]

    def note(self):
        return self.find("#note span").text if self.find("#note").is_displayed() else ""

    def press(self, *keys):
        actions = webdriver.ActionChains(self.browser)
        for key in keys[:-1]:
            actions.key_down(key)
        actions.send_keys(keys[-1])
        for key in keys[:-1]:
            actions.key_up(key)
        actions.perform()

    def choose(self, kind):
        """Opens "Answer as" and chooses."""
        if not self.find("#form-panel").is_displayed():
            self.find("#open-form").click()
        self.script("""const kind = document.getElementById("form-kind");
                       kind.value = arguments[0];
                       kind.dispatchEvent(new Event("input", { bubbles: true }))""", kind)

    def converses(self):
        """The page takes the model for one that reads a whole conversation."""
        self.script("page.single = false")

    def questions(self):
        return [one.text for one in self.all(".message.user > p:first-of-type")]

    def overflow(self):
        return self.script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
