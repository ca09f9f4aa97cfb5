#!/usr/bin/env python3
"""What `make test` would have caught: of the last N commits that changed the program and a test, the stage of
tools/test.sh that runs the tests they changed. A commit counts for the quickest stage that has one of its tests; then
every changed test counts for its own.

    tools/caught.py [N]    (50; after a release build with the tests)
"""
import collections
import json
import re
import subprocess
import sys

FOLDERS = {"python/tests/": "python", "tests/clients/": "clients", "tests/first_hour/": "hour", "tests/install/": "install"}
ORDER = ["quick", "python", "long", "hour", "install", "clients", "gone"]


def git(*words):
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True, errors="replace").stdout


def labels():
    """{Suite.Name: labels of the quickest of its instances}"""
    text = subprocess.run(["ctest", "--preset", "release", "--show-only=json-v1"], check=True, capture_output=True,
                          text=True).stdout
    found = collections.defaultdict(set)
    for test in json.loads(text)["tests"]:
        for p in test.get("properties", []):
            if p["name"] == "LABELS":
                own = test["name"].split(".", 1)[1].split(" ")[0]
                suite, _, name = own.partition(".")
                key = f"{suite.rsplit('/', 1)[-1]}.{name.split('/')[0]}"
                found[key].update(["quick"] if "quick" in p["value"] else ["long"])
    return found


def main():
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    known, counts, each, rest, seen = labels(), collections.Counter(), collections.Counter(), [], 0
    for commit in git("rev-list", "--no-merges", "HEAD").split():
        files = git("show", "--name-only", "--format=", commit).split()
        tests = [f for f in files if f.startswith(("tests/", "python/tests/"))]
        if not tests or not any(f.startswith(("src/", "python/llada/", "include/")) for f in files):
            continue
        stages = {stage for folder, stage in FOLDERS.items() for f in tests if f.startswith(folder)}
        names = set()
        for line in git("show", "-U0", "--format=", commit, "--", "tests/*.cc").splitlines():
            match = re.search(r"^(?:@@.*@@ |\+)TEST\w*\((\w+), (\w+)\)", line)
            if match:
                names.add(".".join(match.groups()))
        for name in names:
            of_test = known.get(name, {"gone"})
            each[min(of_test, key=ORDER.index)] += 1
            stages |= of_test
        if not stages:
            continue  # fixtures and recorded data alone
        stage = min(stages, key=ORDER.index)
        counts[stage] += 1
        if stage not in ("quick", "python"):
            rest.append(f"  {stage:8}{git('log', '-1', '--format=%h %s', commit).strip()[:100]}")
        seen += 1
        if seen == wanted:
            break
    print(f"of {seen} changes: " + ", ".join(f"{counts[s]} {s}" for s in ORDER if counts[s]))
    print(f"of their {sum(each.values())} tests: " + ", ".join(f"{each[s]} {s}" for s in ORDER if each[s]))
    print("\n".join(rest), end="")


if __name__ == "__main__":
    main()
