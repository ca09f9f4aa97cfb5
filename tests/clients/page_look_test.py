"""How the page looks and is told, in Chromium: at the sizes of a phone and a desk, light and dark."""

import time
import unittest

import support
from page_base import LOOKS, PageTest

LONG = "\n".join(["# " + "h" * 120, "", "Text with `code`, a [link](https://a.example/) and $\\frac{a}{b}$:", "",
                  "| " + " | ".join(["column"] * 12) + " |", "|" + "---|" * 12, "| value " * 12 + "|", "",
                  "```js", "const line = " + "1 + " * 80 + "1;", "```", "", "$$" + "x + " * 80 + "y$$", "", "w" * 300])
CONTROLS = """const controls = [...document.querySelectorAll(
    "button, a, input:not([type=file]), select, textarea, summary, [tabindex='0']")].filter(one =>
    one.checkVisibility({ visibilityProperty: true }) && !one.closest("[inert], [aria-hidden=true]") &&
    (!document.querySelector("dialog[open]") || one.closest("dialog")));"""
# A link inside a sentence is as high as its line, which the guidelines allow.
SMALL = CONTROLS + """return controls.filter(one => {
  const box = (one.type === "checkbox" && one.closest("label") || one).getBoundingClientRect();
  return one.tagName !== "A" && Math.min(box.width, box.height) < 24;
}).map(one => one.outerHTML.slice(0, 90));"""
NAMELESS = CONTROLS + """return controls.filter(one => !(one.getAttribute("aria-label") || one.textContent.trim() ||
  (one.labels && one.labels.length > 0 && one.labels[0].textContent.trim()) ||
  one.getAttribute("aria-labelledby"))).map(one => one.outerHTML.slice(0, 90));"""
OUTSIDE = CONTROLS + """return controls.filter(one => {
  const box = one.getBoundingClientRect(), frame = one.closest("pre, .scroll, math");
  return !frame && box.width > 0 && (box.left < -0.5 || box.right > arguments[0] + 0.5);
}).map(one => one.outerHTML.slice(0, 90));"""
# Parts that scroll up and down do not scroll sideways.
SIDEWAYS = """return [...document.querySelectorAll(
    ".messages, .welcome, .panel, .dialog-body, main > section, #conversations, .talks")].filter(one =>
  one.clientWidth > 0 && one.scrollWidth > one.clientWidth).map(one => one.id || one.className)"""


class Look(PageTest):
    def contrast(self, selector, border=False):
        """Of an element's text, or its border, on what lies behind it, as the accessibility guidelines define it."""
        return self.script("""
          const channels = (text) => text.match(/[\\d.]+/g).map(Number);
          const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
          const light = ([r, g, b]) => .2126 * linear(r / 255) + .7152 * linear(g / 255) + .0722 * linear(b / 255);
          let element = document.querySelector(arguments[0]), behind = arguments[1] ? element.parentElement : element;
          while ((channels(getComputedStyle(behind).backgroundColor)[3] ?? 1) === 0) behind = behind.parentElement;
          const style = getComputedStyle(element);
          const a = light(channels(arguments[1] ? style.borderTopColor : style.color));
          const b = light(channels(getComputedStyle(behind).backgroundColor));
          return (Math.max(a, b) + .05) / (Math.min(a, b) + .05)""", selector, border)

    def test_levels_differ_by_more_than_their_hue(self):
        bars = [self.script("return getComputedStyle(document.querySelector(arguments[0])).borderBottomWidth",
                            f".legend .level-{level}:not(.visible)") for level in range(3)]
        self.assertEqual(len(set(bars)), 3, bars)
        self.ask_sample()
        self.finished()
        self.assertTrue(self.find(".legend").is_displayed(), "what the colours mean stays there")

    def every_place(self):
        """Shows one part of the page after another, with its name."""
        yield "welcome"
        self.choose("json")
        yield "welcome-form"
        self.choose("free")
        self.find("#open-form").click()
        self.answers(LONG, "This.")
        self.say("What is long here? " + "w" * 200)
        self.say("And short?")
        self.script("document.querySelector('.messages').scrollTop = 0")
        yield "chat"
        self.choose("json")
        yield "form"
        self.find("#open-form").click()
        self.find("#open-tools").click()
        self.find("#tools-panel > .small").click()
        yield "tools"
        self.find("#open-tools").click()
        self.script("page.chat.attached.add('n'.repeat(90) + '.txt', 'text')")
        self.button("Edit", ".exchange").click()
        yield "edit"
        self.button("Cancel", ".exchange").click()
        if self.find("#open-list").is_displayed():
            self.find("#open-list").click()
            self.wait(lambda: self.script("return document.activeElement.id") == "search", "the list")
            time.sleep(0.3)  # it slides in
            yield "list"
            self.find("#close-list").click()
        for tab in ("compare", "fill", "decide"):
            self.find("#tab-" + tab).click()
            if tab == "decide":
                self.find("#decide-send").click()
                self.wait(lambda: self.all(".decision"), "the decisions")
            yield tab
        self.find("#tab-chat").click()
        for name in ("settings", "help"):
            self.find("#open-" + name).click()
            yield name
            self.find(f"#{name} .main").click()

    def test_every_place_at_every_size_light_and_dark(self):
        papers = set()
        for width, height, dark in LOOKS:
            self.look(width, height, dark)
            self.script("localStorage.clear()")
            self.open(support.server().url + "/")
            for place in self.every_place():
                with self.subTest(place=place, width=width, dark=dark):
                    self.picture(f"{'phone' if width < 600 else 'desk'}-{place}-{'dark' if dark else 'light'}")
                    self.assertEqual(self.overflow(), 0, "it scrolls sideways")
                    self.assertEqual(self.script(SIDEWAYS), [], "a part of it scrolls sideways")
                    self.assertEqual(self.script("return document.documentElement.scrollHeight"), height,
                                     "the page as a whole does not scroll")
                    self.assertEqual(self.script(SMALL), [], "targets below 24 pixels")
                    self.assertEqual(self.script(NAMELESS), [], "controls without a name")
                    self.assertEqual(self.script(OUTSIDE, width), [], "controls beyond the edge")
            papers.add(self.script("return getComputedStyle(document.body).backgroundColor"))
            for selector in ("#prompt", ".line", "#send", ".message.user p", ".reading", ".keys", ".reading code",
                             ".meter", ".talk-name", "#open-form", "#title", ".user .actions button", ".help", ".chip",
                             ".reading a"):
                self.assertGreaterEqual(self.contrast(selector), 4.5, f"{selector}, dark {dark}")
            for selector in (".box", "#fill-text", "#gap-length", ".legend .masked", "#open-settings", "#search"):
                self.assertGreaterEqual(self.contrast(selector, border=True), 3, f"border of {selector}, dark {dark}")
        self.assertEqual(len(papers), 2, "light and dark")

    def test_a_screen_reader_hears_names_roles_and_answers(self):
        self.answers("# Head\n\n`code`", "plain words")
        self.say("first")
        self.say("second")
        self.assertEqual(self.find("#announce").get_attribute("textContent"), "Answer: plain words")
        self.assertEqual(self.find("#announce").get_attribute("aria-live"), "polite")
        self.wait(lambda: self.find("#meter").is_displayed(), "the count")
        said = {(node["role"]["value"], node.get("name", {}).get("value", ""))
                for node in self.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
                if not node.get("ignored") and "role" in node}
        for wanted in (("tab", "Decide"), ("navigation", "Conversations"), ("meter", "Context in use"),
                       ("textbox", "Message"), ("button", "Copy the answer"), ("heading", "Head"), ("heading", "You"),
                       ("heading", "Answer"), ("searchbox", "Search titles and texts"), ("StaticText", "plain words")):
            self.assertIn(wanted, said)
        self.assertRegex(self.find("#meter").get_attribute("aria-valuetext"),
                         r"^\d+ of 256 tokens of the context; \d+ ")


if __name__ == "__main__":
    unittest.main()
