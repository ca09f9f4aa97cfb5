"""Schemathesis against the description that the server gives of itself: whatever it makes up, no answer is a server
error, and status and type are those that the description names. A program of its own, since Schemathesis is one."""

import os
import subprocess
import sys

import support

SECONDS = os.environ.get("LLADA_FUZZ_SECONDS", "40")
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance"


def main():
    url = support.server().url
    tool = os.path.join(os.path.dirname(sys.executable), "schemathesis")
    status = subprocess.run([tool, "run", url + "/openapi.json", "--checks", CHECKS, "--max-time", SECONDS,
                             "--phases", "examples,coverage,fuzzing", "--seed", "1", "--workers", "4", "--max-failures", "5",
                             "--request-timeout", "20", "--warnings", "off", "--no-color"], check=False).returncode
    print("fuzz_openapi: afterwards the server says", support.get("/health").strip())
    return status


if __name__ == "__main__":
    sys.exit(main())
