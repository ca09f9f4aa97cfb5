"""The lines of docs/scale.md about Ray, on what is here; by itself, on the small model that the installed package has.

    scale_lines.py FOLDER PROMPT      # answers PROMPT by each line, in a cluster of its own, and prints the answers
"""

import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]


def lines(path, address, tokens):
    """The lines of Python as a text, and the line of a shell: of a model's path and address and a number of tokens."""
    text = (ROOT / "docs/scale.md").read_text(encoding="utf-8")
    part = text.split("\n## Ray\n")[1].split("\n|")[0]
    found = [line[4:] for line in part.splitlines() if line.startswith("    ")]
    names = {"/models/m.gguf": path, "s3://bucket/m.gguf": address, "threads=8": "threads=1",
             '"gen_length": 256': f'"gen_length": {tokens}', "--gen-length 256": f"--gen-length {tokens}",
             "replicas=2-8": "replicas=1-2"}
    for name, here in names.items():
        assert sum(name in line for line in found), name
        found = [line.replace(name, here) for line in found]
    (shell,) = [line for line in found if line.startswith("serve run ")]
    return "\n".join(line for line in found if not line.startswith(("pip ", "serve run "))), shell


def ask(url, prompt):
    body = json.dumps({"messages": [{"role": "user", "content": prompt}]}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]


def main(folder, prompt):
    import ray

    python, shell = lines("tiny-llada", "tiny-llada", 32)
    pathlib.Path(folder, "prompts.jsonl").write_text(json.dumps({"prompt": prompt}) + "\n", encoding="utf-8")
    with open(ROOT / "eval/eval_public.jsonl", encoding="utf-8") as tasks:
        pathlib.Path(folder, "eval.jsonl").write_text("".join(tasks.readlines()[:3]), encoding="utf-8")
    begin, names = time.monotonic(), {}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    exec(python.replace("/data/", folder + "/"), names)
    (row,) = ray.data.read_parquet(folder + "/answers").take_all()
    assert names["result"]["n"] == 3, names["result"]
    print(f"generate: {row['generated_text']}")
    print(f"first answer and three examples in {time.monotonic() - begin:.1f} s", file=sys.stderr)
    ray.shutdown()
    # pip's folder of programs, as in a shell of the environment.
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    child = subprocess.Popen(shlex.split(shell, comments=True), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=sys.stderr, env={**os.environ, "PATH": path})
    deadline = time.monotonic() + 180
    while True:
        try:
            print(f"serve run: {ask('http://127.0.0.1:8000/v1/chat/completions', prompt)}", flush=True)
            break
        except OSError:
            assert child.poll() is None and time.monotonic() < deadline, "no answer of serve run"
            time.sleep(0.5)
    for _ in range(18):  # Ray loses an interrupt that comes before it says that the application is ready
        child.send_signal(signal.SIGINT)
        try:
            child.wait(5)
            break
        except subprocess.TimeoutExpired:
            pass
    else:
        raise AssertionError("serve run did not end by 18 interrupts")


if __name__ == "__main__":
    main(*sys.argv[1:])
