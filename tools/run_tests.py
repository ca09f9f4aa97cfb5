#!/usr/bin/env python3
"""The tests that ctest would run, many in one process: most of a short test's time is the start of its program and what a
suite prepares once, and more so under a sanitizer or an emulator.

    tools/run_tests.py PRESET [-j N] [--slowest N] [--counts FILE] [ctest's options of selection, such as -L threads]
    tools/run_tests.py --self-test

Tests of one GoogleTest program go together, a suite's tests in one process; others run as they are. Where a process
ends early, is over its time, or fails, what it did not finish and what failed runs again alone, as ctest would run it,
and that counts. A line every 15 seconds says how far it is. A test that fails is one line with the file that has its
output; with CI=true in the environment the end of that file follows. At the end comes a line for each reason for which
tests were skipped, with the file that names them. The slowest of the last time begin first.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import time

FILTER = "--gtest_filter="
MOST = 40  # tests of a process
EVERY = 15  # seconds between two lines of progress
TAIL = 60  # lines of a failed test's output that CI shows
SECONDS = 1500  # of a process with several tests; ctest's own limit holds for a test alone


def listed(preset, selection):
    text = subprocess.run(["ctest", "--preset", preset, "--show-only=json-v1", *selection], check=True,
                          capture_output=True, text=True).stdout
    tests = []
    for test in json.loads(text)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        tests.append({"name": test["name"], "command": test.get("command", []), "properties": properties})
    return tests


def filter_of(test):
    """The test's own name within its program, or None where it is no test of GoogleTest."""
    filters = [word for word in test["command"] if word.startswith(FILTER)]
    if len(filters) != 1 or any(c in filters[0] for c in "*?:") or test["properties"].get("PASS_REGULAR_EXPRESSION"):
        return None
    return filters[0][len(FILTER):]


def grouped(tests, known=None):
    """Lists of tests that may share a process. known: seconds of the last time, by name."""
    programs, alone = {}, []
    for test in tests:
        if filter_of(test) is None or test["properties"].get("RUN_SERIAL"):
            alone.append([test])
            continue
        rest = [word for word in test["command"] if not word.startswith(FILTER)]
        key = json.dumps([rest, test["properties"].get("ENVIRONMENT"), test["properties"].get("WORKING_DIRECTORY")])
        suite = filter_of(test).split(".")[0]
        programs.setdefault(key, {}).setdefault(suite, []).append(test)
    groups = []
    for suites in programs.values():
        group = []
        for suite in suites.values():
            if group and len(group) + len(suite) > MOST:
                groups.append(group)
                group = []
            group = group + suite
            while len(group) > 2 * MOST:
                groups.append(group[:MOST])
                group = group[MOST:]
        groups.append(group)
    # The longest first, so that no core waits for one at the end.
    known = known or {}
    usual = sum(known.values()) / len(known) if known else 1
    return sorted(groups + alone, key=lambda group: sum(known.get(t["name"], usual) for t in group), reverse=True)


def run(test, command, seconds):
    environment = dict(os.environ)
    for setting in test["properties"].get("ENVIRONMENT", []):
        name, _, value = setting.partition("=")
        environment[name] = value
    try:
        done = subprocess.run(command, env=environment, cwd=test["properties"].get("WORKING_DIRECTORY"),
                              timeout=seconds, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace")
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as over:
        return None, f"{(over.stdout or b'').decode(errors='replace')}\nover {seconds} s"


def run_alone(test, seconds):
    """(passed | skipped | failed, output)"""
    begin = time.monotonic()
    status, output = run(test, test["command"], test["properties"].get("TIMEOUT", 1500))
    seconds[test["name"]] = time.monotonic() - begin
    if status == test["properties"].get("SKIP_RETURN_CODE", -1) or (status == 0 and "[  SKIPPED ] 1 test" in output):
        return "skipped", skip_reasons(output).get(filter_of(test)) or (output.strip().splitlines() or [""])[-1]
    return ("passed" if status == 0 else "failed"), output


def skip_reasons(output):
    """What stands behind GTEST_SKIP(), by GoogleTest's names."""
    reasons, name, lines = {}, None, None
    for line in output.splitlines():
        mark = re.match(r"\[ +(RUN|OK|FAILED|SKIPPED) +\] (\S+)", line)
        if mark and mark[1] == "RUN":
            name, lines = mark[2], None
        elif mark:
            name, lines = None, None
        elif name and re.fullmatch(r".*: Skipped", line):
            lines = []
        elif lines == [] and line.strip():
            reasons[name], lines = line.strip(), None
    return reasons


def run_group(group, seconds):
    """Results by name; seconds gets the time of each."""
    results = {}
    if len(group) > 1:
        names = ":".join(filter_of(test) for test in group)
        rest = [word for word in group[0]["command"] if not word.startswith(FILTER)]
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            status, output = run(group[0], [*rest, FILTER + names, f"--gtest_output=json:{report.name}"], SECONDS)
            try:
                suites = json.load(open(report.name))["testsuites"] if status is not None else []
            except ValueError:
                suites = []  # the program ended before it wrote one
        finished = {f"{suite['name']}.{test['name']}": test for suite in suites for test in suite["testsuite"]}
        # A program that says of all its tests that they passed and fails all the same has a leak or a race.
        clean = status == 0 or any("failures" in test for test in finished.values())
        reasons = skip_reasons(output)
        for test in group:
            found = finished.get(filter_of(test), {})
            seconds[test["name"]] = float(found.get("time", "0s").rstrip("s"))
            if clean and found.get("status") == "RUN" and "failures" not in found:
                results[test["name"]] = (("skipped", reasons.get(filter_of(test), ""))
                                         if found.get("result") == "SKIPPED" else ("passed", ""))
    for test in group:
        if test["name"] not in results:
            results[test["name"]] = run_alone(test, seconds)
    return results


PROGRAM = """#!{python}
import json, sys
words = dict(word.split("=", 1) for word in sys.argv[1:])
names, results = words["--gtest_filter"].split(":"), []
open({log!r}, "a").write(f"{{len(names)}} ")
for name in names:
    if "Dies" in name:
        sys.exit(3)
    results.append((name, "Fails" in name))
if "--gtest_output" in words:
    test = [dict(name=n.split(".")[1], status="RUN", result="SKIPPED" if "Skips" in n else "COMPLETED",
                 **(dict(failures=["x"]) if b else dict())) for n, b in results]
    json.dump(dict(testsuites=[dict(name="S", testsuite=test)]), open(words["--gtest_output"][5:], "w"))
for name in names:
    if "Skips" in name:
        print(f"[ RUN      ] {{name}}\\n/a/b.cc:7: Skipped\\nnothing here\\n\\n[  SKIPPED ] {{name}} (0 ms)")
if len(names) == 1 and "Skips" in names[0]:
    print("[  SKIPPED ] 1 test")
sys.exit(5 if "Leaks" in words["--gtest_filter"] else any(b for _, b in results))
"""


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        program, log = os.path.join(folder, "program"), os.path.join(folder, "log")
        with open(program, "w") as file:
            file.write(PROGRAM.format(python=sys.executable, log=log))
        os.chmod(program, 0o755)

        def outcome(*names):
            open(log, "w").close()
            tests = [{"name": f"p.{n}", "command": [program, f"{FILTER}S.{n}"], "properties": {}} for n in names]
            results = {}
            for group in grouped(tests):
                results.update(run_group(group, {}))
            return {n.removeprefix("p."): r for n, (r, _) in results.items()}, open(log).read().split()

        results, sizes = outcome("A", "B", "Skips")
        assert results == {"A": "passed", "B": "passed", "Skips": "skipped"} and sizes == ["3"], (results, sizes)
        test = {"name": "p.Skips", "command": [program, f"{FILTER}S.Skips"], "properties": {}}
        for group in ([test], [test, dict(test, name="p.A", command=[program, f"{FILTER}S.A"])]):
            assert run_group(group, {})["p.Skips"] == ("skipped", "nothing here"), run_group(group, {})
        assert skip_lines([("a", "x"), ("b", ""), ("c", "x")]) == ["2 skipped: x", "1 skipped: no reason is given"]
        slow = {"name": "slow", "command": ["true"], "properties": {}}
        assert grouped([test, slow], {"slow": 9, "p.Skips": 1}) == [[slow], [test]]
        results, sizes = outcome("A", "Fails", "B")  # what fails runs again alone, the rest does not
        assert results == {"A": "passed", "Fails": "failed", "B": "passed"} and sizes == ["3", "1"], (results, sizes)
        results, sizes = outcome("A", "Dies", "B")  # nobody's result is known
        assert results == {"A": "passed", "Dies": "failed", "B": "passed"} and sizes == ["3", "1", "1", "1"], sizes
        results, sizes = outcome("A", "Leaks")  # all pass, the program does not
        assert results == {"A": "passed", "Leaks": "failed"} and sizes == ["2", "1", "1"], (results, sizes)
        many = [f"T{i}" for i in range(3 * MOST)]
        results, sizes = outcome(*many)
        assert list(results.values()) == ["passed"] * len(many) and max(map(int, sizes)) <= 2 * MOST, sizes
        other = {"name": "q", "command": ["true"], "properties": {}}
        assert grouped([other]) == [[other]] and run_group([other], {})["q"][0] == "passed"
        assert run_alone({"name": "r", "command": ["sleep", "5"], "properties": {"TIMEOUT": 0.1}}, {})[0] == "failed"
    print("run_tests: self-test passed")
    return 0


def short(name):
    """A test's name without what GoogleTest prints of its parameter."""
    return name.split("  # GetParam")[0].split(" # GetParam")[0]


def skip_lines(skipped):
    """A line for each reason, the commonest first."""
    reasons = collections.Counter(reason or "no reason is given" for _, reason in skipped)
    return [f"{count} skipped: {reason[:160]}" for reason, count in reasons.most_common()]


def read_times(path):
    try:
        with open(path) as file:
            return {name: float(time) for name, time in json.load(file).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def keep_output(folder, name, output):
    path = os.path.join(folder, re.sub(r"[^A-Za-z0-9_.-]", "_", short(name)) + ".log")
    os.makedirs(folder, exist_ok=True)
    with open(path, "w") as file:
        file.write(output)
    return path


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser()
    parser.add_argument("preset")
    parser.add_argument("-j", type=int, default=os.cpu_count())
    parser.add_argument("--slowest", type=int, default=0)
    parser.add_argument("--counts")
    arguments, selection = parser.parse_known_args()
    tests = [t for t in listed(arguments.preset, selection) if not t["properties"].get("DISABLED")]
    if not tests:
        print("run_tests: no tests were selected", file=sys.stderr)
        return 1
    results, seconds, begin, told = {}, {}, time.monotonic(), time.monotonic()
    failed, skipped = [], []
    folder = os.path.join("build", "test-logs", arguments.preset)
    os.makedirs(folder, exist_ok=True)
    times = os.path.join(folder, "seconds.json")
    known = read_times(times)
    with concurrent.futures.ThreadPoolExecutor(arguments.j) as pool:
        waiting = {pool.submit(run_group, group, seconds) for group in grouped(tests, known)}
        while waiting:
            done, waiting = concurrent.futures.wait(waiting, 1, concurrent.futures.FIRST_COMPLETED)
            for future in done:
                for name, (result, output) in future.result().items():
                    results[name] = result
                    if result == "failed":
                        path = keep_output(folder, name, output)
                        failed.append((name, path))
                        print(f"FAILED {short(name)}\n       {path}" if len(short(name) + path) > 100 else
                              f"FAILED {short(name)}: {path}", flush=True)
                    elif result == "skipped":
                        skipped.append((short(name), output))
            if time.monotonic() - told >= EVERY:
                told = time.monotonic()
                print(f"tests: {len(results)} of {len(tests)}, {len(failed)} failed, {told - begin:.0f} s", flush=True)
    if os.environ.get("CI") == "true":
        for name, path in failed:
            print(f"---- {short(name)}")
            with open(path) as file:
                print("".join(file.readlines()[-TAIL:]))
    for name in sorted(seconds, key=seconds.get, reverse=True)[:arguments.slowest]:
        print(f"{seconds[name]:6.1f} s  {short(name)}")
    with open(times, "w") as file:
        json.dump({**known, **{name: round(time, 3) for name, time in seconds.items()}}, file)
    if skipped:
        path = os.path.join(folder, "skipped")
        with open(path, "w") as file:
            file.writelines(f"{name}: {reason}\n" for name, reason in sorted(skipped))
        print("\n".join(skip_lines(skipped)) + f"\ntheir names: {path}")
    counts = f"{len(tests) - len(failed) - len(skipped)} passed, {len(failed)} failed, {len(skipped)} skipped"
    print(counts)
    if arguments.counts:
        with open(arguments.counts, "w") as file:
            file.write(counts + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
