"""Every line of docs/server.md that begins with `curl`, run as it stands against a server (with that server's port),
and a line for every route that the server's own description lists."""

import json
import re
import subprocess
import unittest

import support

DOCUMENT = support.ROOT / "docs/server.md"


def commands():
    """The curl commands of the document's indented blocks, continued lines joined."""
    found, open_line = [], ""
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if open_line or (line.startswith("    ") and text.startswith("curl ")):
            open_line += text
            if open_line.endswith("\\"):
                open_line = open_line[:-1] + " "
            elif open_line.count("'") % 2:
                open_line += "\n"
            else:
                found.append(open_line)
                open_line = ""
    return found


class Document(unittest.TestCase):
    def test_every_curl_line(self):
        url = support.server().url
        lines = commands()
        self.assertGreater(len(lines), 12)
        for line in lines:
            with self.subTest(line):
                command = line.replace("http://localhost:8080", url).replace("curl ", "curl --fail-with-body -sS ", 1)
                done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                text = done.stdout.decode()
                if '"stream": true' in line:
                    events = [event[6:] for event in text.split("\n") if event.startswith("data: ")]
                    if "/v1/responses" in line:
                        self.assertEqual(json.loads(events[-1])["type"], "response.completed")
                    else:
                        self.assertEqual(events.pop(), "[DONE]")
                    for event in events:
                        json.loads(event)
                elif not re.search(r"/metrics|8080/( |$)", line):
                    json.loads(text)

    def test_every_route_has_a_line(self):
        routes = set(json.loads(support.get("/openapi.json"))["paths"])
        text = "\n".join(commands())
        asked = [url.removeprefix("http://localhost:8080") for url in re.split(r"[\s'\"]", text)]
        patterns = {route: re.escape(route).replace(r"\{id\}", "[^/]+") for route in routes}
        missing = [route for route in routes if not any(re.fullmatch(patterns[route], path) for path in asked)]
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
