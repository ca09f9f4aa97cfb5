#!/usr/bin/env python3
"""Takes the steps of deploy/Dockerfile in root folders instead of containers, and starts what they made as its user: for
machines without a container engine. Needs Linux, root, debootstrap, unshare, iproute2 and a mirror of Debian; an hour
without a compiler cache. Files are those of HEAD.

    tools/image_root.py FOLDER [--ccache DIR]      # the roots stay in FOLDER
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
SUITES = {"debian:12-slim": "bookworm"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def run(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, **more)


class Stage:
    def __init__(self, root, ccache):
        self.root, self.ccache = root, ccache
        self.env, self.place, self.user, self.facts = {"PATH": PATH, "HOME": "/root"}, "/", "0", {}

    def command(self, words, user=None):
        """In the root, with its own mounts, which end with it, and a network of its own where it is a user's."""
        mounts = f"mount -t proc proc {self.root}/proc && mount --rbind /dev {self.root}/dev && "
        if self.ccache and user is None:
            mounts += f"mkdir -p {self.root}/ccache && mount --bind {self.ccache} {self.root}/ccache && "
        env = {**self.env, **({"CCACHE_DIR": "/ccache"} if self.ccache and user is None else {})}
        inner = ["chroot", f"--userspec={user}:{user}" if user else "--userspec=0:0", str(self.root), "env", "-i",
                 *(f"{name}={value}" for name, value in env.items()), *words]
        link = ["--net"] if user else []
        up = "ip link set lo up && " if user else ""
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", *link, "sh", "-ec",
                mounts + up + "exec " + shlex.join(inner)]

    def run(self, line):
        run(*self.command(["sh", "-ec", f"cd {self.place}\n{line}"]))


def steps(text):
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    for line in filter(str.strip, text.splitlines()):
        word, _, rest = line.strip().partition(" ")
        yield word, rest.strip()


def copy(stages, stage, rest):
    words = rest.split()
    if words[0].startswith("--from="):
        origin = stages[words.pop(0).partition("=")[2]].root
        target = stage.root / words[-1].lstrip("/")
        for pattern in words[:-1]:
            found = list(origin.glob(pattern.lstrip("/")))
            assert found, f"COPY: {pattern} is not there"
            for path in found:
                shutil.copy2(path, target)
    else:
        assert words == [".", "."], rest
        target = stage.root / stage.place.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        archive = run("git", "-C", SOURCE, "archive", "HEAD", stdout=subprocess.PIPE).stdout
        run("tar", "-x", "-C", target, input=archive)


def make(folder, ccache):
    stages, stage = {}, None
    for word, rest in steps((SOURCE / "deploy/Dockerfile").read_text(encoding="utf-8")):
        print(f"image: {word} {' '.join(rest.split())[:100]}", flush=True)
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            base = folder / "base"
            if not base.exists():
                run("debootstrap", "--variant=minbase", SUITES[image], folder / "part", stdout=subprocess.DEVNULL)
                # As this machine finds others.
                shutil.copy2("/etc/resolv.conf", folder / "part/etc/resolv.conf")
                shutil.copytree("/etc/apt/apt.conf.d", folder / "part/etc/apt/apt.conf.d", dirs_exist_ok=True)
                (folder / "part").rename(base)
            root = folder / (name or "image")
            shutil.rmtree(root, ignore_errors=True)
            run("cp", "-a", "--reflink=auto", base, root)
            stage = stages[name or "image"] = Stage(root, ccache)
        elif word == "RUN":
            stage.run(rest)
        elif word == "COPY":
            copy(stages, stage, rest)
        elif word == "WORKDIR":
            stage.place = rest
            (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "ENV":
            stage.env.update(pair.split("=", 1) for pair in shlex.split(rest))
        elif word == "USER":
            stage.user = rest
        elif word in ("ENTRYPOINT", "CMD"):
            stage.facts[word] = json.loads(rest)
        elif word == "HEALTHCHECK":
            stage.facts[word] = json.loads(rest[rest.index("["):])
        elif word not in ("VOLUME", "EXPOSE", "STOPSIGNAL"):
            sys.exit(f"image: {word}: needed a step that is known here")
    return stage


def start(stage):
    """Its own line as its own user, in a network of its own; its health check; a question; SIGTERM."""
    run("cp", "-r", SOURCE / "models/tiny-llada", stage.root / "models/model.gguf")  # a folder is a model, too
    check = shlex.join(stage.facts["HEALTHCHECK"])
    ask = ("exec 3<>/dev/tcp/127.0.0.1/8080; printf 'POST /v1/completions HTTP/1.0\\r\\nHost: llada\\r\\nContent-Length: 44"
           "\\r\\n\\r\\n{\"prompt\": \"Ken has 20+6=\", \"max_tokens\": 2}\\n' >&3; cat <&3")
    ready = shlex.join([word.replace("/health", "/ready") for word in stage.facts["HEALTHCHECK"]])
    script = (f"{shlex.join(stage.facts['ENTRYPOINT'] + stage.facts['CMD'])} & "
              f"for i in $(seq 100); do {ready} && break; sleep 0.2; done; {check}; echo \"health: $?\"; id -u; "
              f"bash -c {shlex.quote(ask)}; kill -TERM $!; wait $!; echo \"ended: $?\"")
    done = subprocess.run(stage.command(["bash", "-c", script], user=stage.user), capture_output=True, text=True, timeout=120)
    print(done.stdout + done.stderr)
    for needed in ("health: 0", f"\n{stage.user}\n", '"text":"26"', "ended: 0"):
        if needed not in done.stdout:
            sys.exit(f"image: found no {needed!r}")
    size = run("du", "-sm", "--one-file-system", stage.root, stdout=subprocess.PIPE, text=True).stdout.split()[0]
    print(f"image: built, healthy, answered, ended; {size} MB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--ccache")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("image: needed root")
    args.folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    start(make(args.folder.resolve(), args.ccache))
    print(f"image: {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
