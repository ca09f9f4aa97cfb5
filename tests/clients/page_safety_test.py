"""Nothing that a model, a person or a file says does anything on the page; Markdown and formulas are shown as such."""

import json
import pathlib
import tempfile
import time
import unittest

import support
from page_base import PageTest

EVIL = [
    "<script>hacked = 1</script>",
    "<img src=x onerror='hacked = 1'>",
    "<svg onload='hacked = 1'><script>hacked = 1</script></svg>",
    "<svg><a xlink:href='javascript:hacked=1'><text y='20'>x</text></a><animate onbegin='hacked=1'></svg>",
    "<iframe srcdoc='<script>parent.hacked = 1</script>'></iframe>",
    "<style>body { display: none }</style><link rel=stylesheet href='http://127.0.0.1:9/a.css'>",
    "<form action='http://127.0.0.1:9/'><button formaction='javascript:hacked=1'>x</button></form>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--><img src=x onerror=hacked=1>'>",
    "<details open ontoggle='hacked = 1'>x</details><input autofocus onfocus='hacked = 1'>",
    "[x](javascript:hacked=1) [y](JaVaScRiPt:hacked=1) [z](&#106;avascript:hacked=1) [w](java\tscript:hacked=1)",
    "[x](data:text/html,<script>hacked=1</script>) [y](vbscript:x) [z](//127.0.0.1:9/x) [w](#help) [v](/v1/models)",
    "![x](http://127.0.0.1:9/pixel.png) ![y](javascript:hacked=1) ![z](x' onerror='hacked=1)",
    "[x](https://a.example/'onmouseover='hacked=1 \"t' onclick='hacked=1\")",
    "<javascript:hacked=1> <https://a.example/\"onclick=hacked=1>",
    "```html onclick=hacked=1\n<script>hacked=1</script>\n```\n\n```\"><img/src=x/onerror=hacked=1>\ncode\n```",
    r"$\href{javascript:hacked=1}{x}$ $\url{javascript:hacked=1}$ $\includegraphics{http://127.0.0.1:9/a.png}$",
    r"$$\htmlStyle{color:red}{x}\htmlData{a=b}{y}\htmlClass{main}{z}\htmlId{prompt}{i}$$",
    r"$\text{<img src=x onerror=hacked=1>}$ $\unicode{<script>}$ $a \color{red;background:url(http://127.0.0.1:9/)}b$",
    r"$\def\a{\a\a}\a$ $\newcommand{\b}{\b\b}\b$ $" + "{" * 400 + "$",
    "| <img src=x onerror=hacked=1> |\n|---|\n| <script>hacked=1</script> |",
    "- [ ] <b onclick=hacked=1>x</b>\n\n# <img src=x onerror=hacked=1>",
    "__proto__ constructor ${hacked=1} {{hacked=1}} </textarea></script><script>hacked=1</script>",
]
# What no text may bring onto the page, wherever it stands; the page itself has none of these but its two scripts.
FOUND = """
  const bad = [...document.querySelectorAll("main *, .note *, dialog *")].filter(one =>
      /^(script|style|link|iframe|object|embed|svg|img|video|audio|base|meta|animate|a:.*)$/i.test(one.tagName) ||
      [...one.attributes].some(({ name, value }) =>
          /^on|^src|^style$/.test(name) && !/^((inline-)?size|height): [\\d.a-z%]+;$/.test(value) ||
          /^\\s*(javascript|data|vbscript):/i.test(value)));
  const links = [...document.querySelectorAll("main a")].filter(one =>
      !/^(https?:\\/\\/|mailto:)/.test(one.getAttribute("href") || "https://") ||
      (one.hasAttribute("href") && (one.target !== "_blank" || !one.rel.includes("noopener"))));
  return { bad: [...bad, ...links].map(one => one.outerHTML.slice(0, 200)), hacked: typeof hacked,
           title: document.title, ids: document.querySelectorAll("#prompt").length,
           loads: performance.getEntriesByType("resource").map(one => one.name) };
"""


class Safety(PageTest):
    def inert(self, what):
        self.script("""for (const one of document.querySelectorAll("main *"))
                         for (const name of ["mouseover", "focus", "toggle"])
                           one.dispatchEvent(new MouseEvent(name, { bubbles: true }))""")
        time.sleep(0.05)
        found = self.script(FOUND)
        self.assertEqual((found["bad"], found["hacked"], found["ids"]), ([], "undefined", 1), what)
        self.assertEqual([one for one in found["loads"] if not one.startswith(support.server().url + "/")], [], what)
        self.assertEqual(found["title"], "llada: tiny-llada")

    def test_in_answers(self):
        self.answers(*EVIL, "\n\n".join(EVIL))
        for evil in [*EVIL, "all at once"]:
            self.say("question")
            self.inert(evil)
        self.open(support.server().url + "/")
        self.inert("after a reload")

    def test_in_questions_titles_files_and_forms(self):
        self.answers(*["answer"] * len(EVIL))
        for evil in EVIL:
            self.find("#new-chat").click()
            self.script("page.chat.attached.add(arguments[0], arguments[0])", evil)
            self.script("page.chat.form.values = () => ({ choice: arguments[0] })", evil)
            self.say(evil)
            self.inert(evil)
        self.assertEqual(len(self.all(".talk-title")), len(EVIL))
        self.find("#search").send_keys("onerror")
        self.assertGreater(len(self.all(".talk-hit")), 3)
        self.inert("found")
        self.all(".exchange .actions button")[0].click()
        self.inert("edited")

    def test_in_functions_calls_and_results(self):
        for evil in EVIL:
            call = {"index": 0, "id": evil, "function": {"name": evil, "arguments": json.dumps({"a": evil})}}
            self.answers({"text": evil, "calls": [call]}, evil)
            self.find("#new-chat").click()
            self.say(evil)
            self.script("document.querySelector('.call textarea').value = arguments[0]", evil)
            self.find(".send-results").click()
            self.wait(lambda: len(self.sent()) == 2 and self.idle(), "the answer")
            self.assertEqual(self.find(".call-result").get_attribute("textContent"), evil)
            self.inert(evil)

    def test_in_imported_files_and_schemas(self):
        exchange = lambda evil: {
            "question": evil, "files": [{"name": evil, "text": evil}], "form": {"choice": evil, "regex": evil},
            "onload": evil, "replies": [
                {"role": "assistant", "content": evil, "line": evil, "innerHTML": evil,
                 "calls": [{"id": "c", "name": evil, "arguments": evil}]},
                {"role": "tool", "id": "c", "name": evil, "content": evil},
                {"role": "assistant", "content": evil, "line": evil, "stale": True}]}
        talks = [{"title": evil, "named": True, "changed": 1, "exchanges": [exchange(evil)], "__proto__": {"x": evil}}
                 for evil in EVIL]
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "a'onerror='hacked=1'.json"
            file.write_text(json.dumps({"format": "llada conversations", "version": 1, "conversations": talks}))
            self.find("#import-picker").send_keys(str(file))
            self.wait(lambda: self.note() == f"Imported {len(EVIL)} conversations.", "the note")
            for i, evil in enumerate(EVIL):
                self.script("document.querySelectorAll('.talk-name')[arguments[0]].click()", i)
                self.inert(evil)
            file.write_text(EVIL[0])
            self.find("#import-picker").send_keys(str(file))
            self.wait(lambda: "not whole JSON" in self.note(), "the note")
        self.inert("the note")
        self.find("#open-form").click()
        self.find("#form-kind").send_keys("JSON by a schema")
        for evil in EVIL:
            schema = {"type": "object", "properties": {evil: {"type": "string", "enum": [evil]}}}
            self.script("page.chat.form.schema.set(arguments[0])", json.dumps(schema))
            self.inert(evil)

    def test_the_cleaner_alone_lets_nothing_active_through(self):
        for evil in EVIL:
            left = self.script("""const place = document.createElement("div");
                                  place.append(DOMPurify.sanitize(arguments[0], kClean));
                                  document.getElementById("welcome").append(place);
                                  return place.innerHTML""", evil)
            self.assertNotRegex(left, r"(?i)<(script|style|img|svg|iframe|form|input|button|link)", evil)
            self.assertNotRegex(left, r"(?i)<[^>]*(\son\w+=|javascript:)", evil)
            self.inert(evil)
        # The policy speaks up where the cleaner reads handlers and scripts, before it has taken them away.
        refusals = ("The action has been blocked", "will not be executed")
        self.assertEqual([line for line in self.console() if not any(word in line for word in refusals)], [])

    def test_the_policy_forbids_what_the_page_does_not_do(self):
        with support.urllib.request.urlopen(support.server().url + "/") as answer:
            policy, html = answer.headers["Content-Security-Policy"], answer.read().decode()
        self.assertIn("default-src 'none'", policy)
        self.assertNotRegex(policy, r"unsafe|http|\*")
        self.assertNotRegex(html, r"<(script|link|img)[^>]+(src|href)=.https?:")
        refused = self.script("""try { document.getElementById("welcome").innerHTML = "<b>x</b>"; return "" }
                                 catch (error) { return error.name }""")
        self.assertEqual(refused, "TypeError", "text that becomes elements must come from the cleaner")
        self.script("""const script = document.createElement("p");
                       document.getElementById("welcome").append(script);
                       script.setAttribute("style", "color: red")""")
        self.assertTrue(self.console(), "an inline style is refused, and noted")


class Markdown(PageTest):
    def shown(self, text):
        self.answers(text)
        self.say("question")
        return self.find(".answer .reading")

    def test_markdown_is_shown_and_its_tokens_stay(self):
        text = ("# Head\n\nSome **bold** and `code`.\n\n1. one\n2. two\n\n| a | b |\n|--:|---|\n| 1 | 2 |\n\n> said\n\n"
                "<b>no</b>")
        reading = self.shown(text)
        self.picture("markdown")
        found = self.script("return [...arguments[0].querySelectorAll('*')].map(one => one.tagName)", reading)
        for tag in ("H3", "STRONG", "CODE", "OL", "LI", "TABLE", "TH", "TD", "BLOCKQUOTE"):
            self.assertIn(tag, found)
        self.assertIn("<b>no</b>", reading.text, "HTML is text")
        self.assertFalse(self.find(".answer .cells").is_displayed())
        self.button("Confidence").click()
        self.assertFalse(reading.is_displayed())
        self.assertEqual(self.text(), text)
        self.assertIn("level-1", self.find(".answer .cell").get_attribute("class"))
        self.button("Confidence").click()
        self.assertTrue(reading.is_displayed())
        self.open(support.server().url + "/")
        self.assertEqual(self.find(".reading strong").text, "bold", "also after a reload")

    def test_code_has_a_button_that_copies_it(self):
        self.browser.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite",
                                                                                  "clipboardSanitizedWrite"]})
        reading = self.shown("Look:\n\n```python\nif a < b:\n    print(\"&amp;\")\n```\n")
        self.assertEqual(self.find(".code-head span").text, "python")
        self.button("Copy", ".code-head").click()
        self.wait(lambda: self.find(".code-head button").text == "Copied", "the word")
        copied = self.browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
        self.assertEqual(copied, "if a < b:\n    print(\"&amp;\")")
        self.assertEqual(self.find("#announce").get_attribute("textContent"), "Copied")
        self.assertEqual(reading.find_element("css selector", "pre").get_attribute("tabindex"), "0")

    def test_formulas(self):
        for text, shown in ((r"So $\frac{a}{b}$ it is", "mfrac"), (r"So \(x^2\) it is", "msup"),
                            ("$$\n\\sum_{i=1}^n i\n\n= 1\n$$", "munderover"), ("\\[\\sqrt{2}\\]", "msqrt")):
            reading = self.shown(text)
            self.assertEqual(len(reading.find_elements("css selector", f"math {shown}")), 1, text)
            self.assertNotIn("\\", reading.text, "its source is not beside it")
        self.picture("formulas")
        for text in ("It costs $5 and then $6 more.", "From $5-$6 it is", "\\$a\\$"):
            self.answers(text + " *x*")
            self.say("question")
            self.assertEqual(self.all(".answer .reading")[-1].find_elements("css selector", "math"), [], text)
        reading = self.shown(r"$\nonsense{$ and $\frac{1$ *x*")
        self.assertEqual(reading.find_elements("css selector", "math, .katex-error"), [])

    def test_text_without_markdown_and_answers_of_a_form_keep_their_cells(self):
        for text in ("3 6 38 41 51", "Ken has 20+6=26 puzzles.\nSo the answer is 46.", "20+6=26\n#### 46"):
            self.answers(text)
            self.say("question")
            self.assertTrue(self.all(".answer .cells")[-1].is_displayed())
        self.script("page.chat.form.values = () => ({ regex: '.*' })")
        self.answers("*a* `b`")
        self.say("question")
        self.assertEqual(self.text(), "*a* `b`")
        self.assertTrue(self.all(".answer .cells")[-1].is_displayed())
        self.assertEqual(self.all(".answer .reading"), [])

    def test_hostile_texts_are_read_in_a_moment(self):
        texts = [unit * (20000 // len(unit)) for unit in (
            "*a ", "**a ", "_a ", "~~a ", "*a* _", "[", "![", "`a``", ">", "> ", "- ", "1. ", "|a", "$a", "$$a\n",
            "\\(", "\\[\n", "<a ", "<!--", "&", "a@", "http://", "\t\v\n", " \n", "# ", "[a](", "[a]: b\n", "```\n",
            "$\\frac{", "*", "_a_*")]
        took = self.script("""return arguments[0].map(text => {
                                const begin = performance.now();
                                formatted(text);
                                return performance.now() - begin;
                              })""", texts)
        slow = {text[:8]: round(ms) for text, ms in zip(texts, took) if ms > 1500}
        self.assertEqual(slow, {})


if __name__ == "__main__":
    unittest.main()
