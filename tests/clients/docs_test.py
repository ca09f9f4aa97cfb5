"""Every line of docs/server.md, scale.md, decide.md and forms.md that begins with `curl`, run as it stands against a
server (with that server's port), its answer that of the `#` line behind it where there is one, and a line for every
route that the server's own description lists. $FILE and $BATCH are the ids of the file and the batch that lines before
made."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import support

DOCUMENTS = [support.ROOT / "docs" / name for name in ("server.md", "scale.md", "decide.md", "forms.md")]


def commands():
    """The curl commands of the documents' indented blocks, continued lines joined, each with the answer behind it."""
    found, open_line, behind = [], "", False
    for line in "\n".join(page.read_text(encoding="utf-8") for page in DOCUMENTS).splitlines():
        text = line.strip()
        if behind and line.startswith("    # "):
            found[-1] = (found[-1][0], text[2:])
        behind = behind and line.startswith("    # ")
        if open_line or (line.startswith("    ") and text.startswith("curl ")):
            open_line += text
            if open_line.endswith("\\"):
                open_line = open_line[:-1] + " "
            elif open_line.count("'") % 2:
                open_line += "\n"
            else:
                found.append((open_line, None))
                open_line, behind = "", True
    return found


def values(text):
    """The JSON values of a text, one behind the other."""
    found, decoder = [], json.JSONDecoder()
    while text.strip():
        value, end = decoder.raw_decode(text.lstrip())
        found.append(value)
        text = text.lstrip()[end:]
    return found


def pieces_of(value):
    """Texts of an answer or of an event, whatever its route."""
    if value.get("type") == "response.output_text.delta":
        yield value["delta"]
    for item in value.get("output", []):
        for part in item["content"]:
            yield part["text"]
    for choice in value.get("choices", []):
        for call in (choice.get("message") or {}).get("tool_calls", []):
            yield "{name} {arguments}".format(**call["function"])
        yield (choice.get("message") or choice.get("delta") or {}).get("content") or choice.get("text") or ""
    if "choices" not in value and "content" in value:
        content = value["content"]
        yield content if isinstance(content, str) else "".join(part["text"] for part in content)
    if isinstance(value.get("response"), str):
        yield value["response"]
    yield (value.get("message") or {}).get("content") or ""


def said(events):
    """The text that they come to: of each that replaces the one before, the last."""
    replacing = [event for event in events if "diffusion_meta" in event]
    return "".join(piece for event in replacing[-1:] or events for piece in pieces_of(event))


class Document(unittest.TestCase):
    def test_every_curl_line(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        server = support.Server("--store", folder + "/store")
        self.addCleanup(server.stop)
        request = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions",
                   "body": {"messages": [{"role": "user", "content": "Count"}], "max_tokens": 128}}
        pathlib.Path(folder, "requests.jsonl").write_text("".join(
            json.dumps({**request, "custom_id": str(i)}) + "\n" for i in range(500)), encoding="utf-8")
        url, made = server.url, {}
        lines = commands()
        self.assertGreater(len(lines), 12)
        self.assertGreater(len([answer for _, answer in lines if answer]), 10)
        for line, answer in lines:
            with self.subTest(line):
                command = line.replace("http://localhost:8080", url).replace("curl ", "curl --fail-with-body -sS ", 1)
                done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, cwd=folder,
                                      env={**os.environ, **made})
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                text = done.stdout.decode()
                if '"stream": true' in line:
                    events = [event[6:] for event in text.split("\n") if event.startswith("data: ")]
                    if "/v1/responses" in line:
                        self.assertIn(json.loads(events[-1])["type"], ("response.completed", "response.incomplete"))
                    else:
                        self.assertEqual(events.pop(), "[DONE]")
                    found = said([json.loads(event) for event in events])
                elif not re.search(r"/metrics|8080/( |$)|/content$", line):
                    found = said(values(text))
                    for value in values(text):
                        if value.get("object") in ("file", "batch"):
                            made.setdefault(value["object"].upper(), value["id"])
                if answer:
                    self.assertEqual(found, answer)

    def test_every_route_has_a_line(self):
        routes = set(json.loads(support.get("/openapi.json"))["paths"])
        text = "\n".join(line for line, _ in commands())
        asked = [url.removeprefix("http://localhost:8080") for url in re.split(r"[\s'\"]", text)]
        patterns = {route: re.escape(route).replace(r"\{id\}", "[^/]+") for route in routes}
        missing = [route for route in routes if not any(re.fullmatch(patterns[route], path) for path in asked)]
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
