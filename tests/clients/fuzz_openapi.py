"""Schemathesis against the description that the server gives of itself: whatever it makes up, no answer is a server
error, and status and type are those that the description names. A program of its own, since Schemathesis is one."""

import os
import re
import subprocess
import sys

import support

SECONDS = os.environ.get("LLADA_FUZZ_SECONDS", "60")
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance"


def main():
    url = support.server().url
    tool = os.path.join(os.path.dirname(sys.executable), "schemathesis")
    done = subprocess.run([tool, "run", url + "/openapi.json", "--checks", CHECKS, "--max-time", SECONDS,
                           "--phases", "coverage,fuzzing", "--seed", "1", "--workers", "4", "--max-failures", "5",
                           "--request-timeout", "20", "--warnings", "off", "--no-color"],
                          check=False, cwd=support.ROOT / "build", stdout=subprocess.PIPE, text=True)
    print(done.stdout)
    print("fuzz_openapi: afterwards the server says", support.get("/health").strip())
    # Out of time before its first case, it would say that all is well.
    if not re.search(r"\d generated", done.stdout):
        print("fuzz_openapi: no case was generated")
        return 1
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
