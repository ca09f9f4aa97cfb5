"""Schemathesis against the description that the server gives of itself: whatever it makes up, no answer is a server
error, and status and type are those that the description names. A program of its own, since Schemathesis is one."""

import json
import os
import re
import subprocess
import sys
import tempfile

import support

# A request may ask for as many answers as run and wait at a time, each as long as the context, which takes as many
# forwards of as many rows. Of these few and short ones all together take seconds, so that a request which is not
# answered within REPLY_SECONDS hangs, on a slow and busy machine too.
LIMITS = ("--parallel", "4", "--queue", "4", "--ctx-size", "96")
REPLY_SECONDS = "180"
SECONDS = os.environ.get("LLADA_FUZZ_SECONDS", "60")
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance"


# Two programs with one thread each: two threads of one Python 3.11 cannot parse Python at once (CPython's issue 106905),
# which Hypothesis does.
SEEDS = (1, 2)


def narrowed(url):
    """The description with one schema in the place of any: those that are made up are refused, nearly all."""
    description = json.loads(support.get("/openapi.json", url))
    schemas = description["components"]["schemas"]
    chat, tool = schemas["Chat"]["properties"], schemas["Tool"]["properties"]["function"]["properties"]
    chat["tools"]["maxItems"] = 1
    chat["tool_choice"] = {"enum": ["none", "auto"]}
    tool["parameters"] = {"const": {"type": "object", "properties": {"value": {"type": "integer"}}}}
    chat["response_format"]["anyOf"][2]["properties"]["json_schema"]["properties"]["schema"] = {
        "const": {"type": "boolean"}}
    return json.dumps(description)


def fuzz(url, path, seed):
    tool = os.path.join(os.path.dirname(sys.executable), "schemathesis")
    return subprocess.Popen([tool, "run", path, "--url", url, "--checks", CHECKS, "--max-time", SECONDS,
                             "--phases", "coverage,fuzzing", "--seed", str(seed), "--workers", "1",
                             "--max-failures", "5", "--request-timeout", REPLY_SECONDS, "--warnings", "off",
                             "--no-color"],
                            cwd=support.ROOT / "build", stdout=subprocess.PIPE, text=True)


def main():
    with tempfile.TemporaryDirectory() as store:
        server = support.Server(*LIMITS, "--store", store)
        try:
            path = os.path.join(store, "openapi.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(narrowed(server.url))
            return fuzz_both(server.url, path)
        finally:
            server.stop()


def fuzz_both(url, path):
    runs = [fuzz(url, path, seed) for seed in SEEDS]
    failed = 0
    for run in runs:
        output = run.communicate()[0]
        print(output)
        failed |= run.returncode
        # Out of time before its first case, it would say that all is well.
        if not re.search(r"\d generated", output):
            print("fuzz_openapi: no case was generated")
            failed = 1
    print("fuzz_openapi: afterwards the server says", support.get("/health", url).strip())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
