#!/usr/bin/env python3
"""Packs the Python package, its library and the program as one wheel for every Python 3.

    wheel.py OUT --library libllada.so --tree FOLDER --platform manylinux_2_28_x86_64

The tree is what CMake installs of the program. Equal files give equal bytes: names are sorted, times are
SOURCE_DATE_EPOCH's, rights those of a file or a program. The facts about the package are those of pyproject.toml.
"""
import argparse
import base64
import hashlib
import os
import pathlib
import re
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / "python" / "llada"


def project():
    """The lines of pyproject.toml that become metadata; the standard library reads TOML from Python 3.11 on alone."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

    def value(key):
        return re.search(rf'^{key} = "(.*)"$', text, re.M).group(1)

    def table(name):
        return re.search(rf"^\[{re.escape(name)}\]\n(.*?)(?=^\[)", text, re.M | re.S).group(1)

    classifiers = re.findall(r'"(.*?)"', re.search(r"^classifiers = \[(.*?)^\]", text, re.M | re.S).group(1))
    keywords = re.findall(r'"(.*?)"', re.search(r"^keywords = \[(.*?)\]", text, re.M).group(1))
    extras = {name: re.findall(r'"(.*?)"', needs)
              for name, needs in re.findall(r"^([\w-]+) = \[(.*)\]$", table("project.optional-dependencies"), re.M)}
    version = re.search(r"project\(llada VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)
    return version, value, classifiers, keywords, extras


def metadata():
    version, value, classifiers, keywords, extras = project()
    lines = ["Metadata-Version: 2.1", "Name: llada", f"Version: {version}", f"Summary: {value('description')}",
             "License: MIT", f"Keywords: {','.join(keywords)}", f"Requires-Python: {value('requires-python')}",
             *(f"Classifier: {one}" for one in classifiers), "Description-Content-Type: text/markdown"]
    for name, needs in extras.items():
        lines += [f"Provides-Extra: {name}", *(f'Requires-Dist: {need} ; extra == "{name}"' for need in needs)]
    return version, "\n".join(lines) + "\n\n" + (ROOT / value("readme")).read_text(encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--tree", type=pathlib.Path, required=True)
    parser.add_argument("--platform", required=True)
    args = parser.parse_args()
    version, about = metadata()
    info, data = f"llada-{version}.dist-info", f"llada-{version}.data"
    files = {f"llada/{path.relative_to(PYTHON).as_posix()}": path.read_bytes() for path in PYTHON.rglob("*")
             if path.is_file() and "__pycache__" not in path.parts}
    files[f"llada/{args.library.name}"] = args.library.read_bytes()
    # pip puts scripts into bin and data beside it, where the program looks for its model.
    files[f"{data}/scripts/llada"] = (args.tree / "bin/llada").read_bytes()
    for path in sorted((args.tree / "share").rglob("*")):
        name = path.relative_to(args.tree).as_posix()
        if path.is_file() and name.startswith(("share/llada/", "share/man/")):
            files[f"{data}/data/{name}"] = path.read_bytes()
        elif path.is_file() and "/licences/" in name:
            files[f"{info}/licenses/{path.name}"] = path.read_bytes()
    files[f"{info}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files[f"{info}/METADATA"] = about.encode()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: llada.cpp\nRoot-Is-Purelib: false\n"
                              f"Tag: py3-none-{args.platform}\n").encode()
    record = f"{info}/RECORD"
    lines = []
    for name in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(files[name])}\n")
    files[record] = "".join([*lines, f"{record},,\n"]).encode()

    moment = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")))[:6]
    wheel = args.out / f"llada-{version}-py3-none-{args.platform}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files, key=lambda name: (name.startswith(info), name)):  # the facts last, as the format asks
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100755 if name.endswith(("scripts/llada", ".so")) else 0o100644) << 16
            archive.writestr(entry, files[name])
    print(wheel)


if __name__ == "__main__":
    main()
