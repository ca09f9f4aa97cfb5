#!/usr/bin/env python3
"""Writes a bill of materials in SPDX 2.3 of the files of a release: their SHA-256 sums, and what is linked into them.

    bill.py OUT --version 0.1.0 --part NAME=FILE...

FILE lists Debian packages, a line each, whose archives or headers are in the programs; NAME is the part of the release.
"""
import argparse
import datetime
import hashlib
import json
import os
import pathlib
import subprocess

# Debian's package: (name of the project, its licence as SPDX has it).
KNOWN = {
    "libc6-dev": ("glibc", "LGPL-2.1-or-later"), "libpcre2-dev": ("PCRE2", "BSD-3-Clause"),
    "libutf8proc-dev": ("utf8proc", "MIT"), "libfmt-dev": ("fmt", "MIT"), "libcli11-dev": ("CLI11", "BSD-3-Clause"),
    "nlohmann-json3-dev": ("nlohmann-json", "MIT"), "libboost-dev": ("Boost", "BSL-1.0"),
    "libedit-dev": ("libedit", "BSD-3-Clause"), "libbsd-dev": ("libbsd", "BSD-3-Clause"), "libmd-dev": ("libmd", "BSD-3-Clause"),
    "libncurses-dev": ("ncurses", "X11"), "libsqlite3-dev": ("SQLite", "blessing"), "zlib1g-dev": ("zlib", "Zlib"),
    "libcurl4-openssl-dev": ("curl", "curl"), "libssl-dev": ("OpenSSL", "Apache-2.0"),
    "mingw-w64-common": ("mingw-w64", "ZPL-2.1"),
    "ziglang": ("libc++ of LLVM, by ziglang", "Apache-2.0 WITH LLVM-exception"),
}


def version_of(package):
    """Debian's version; a line `NAME VERSION` says another's."""
    name, _, version = package.partition(" ")
    if not version:
        version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}\n", name], check=True, capture_output=True,
                                 text=True).stdout.split()[0]
    return name, version


def known(name):
    if name.startswith("gcc-"):
        return "GCC's runtime and libstdc++", "GPL-3.0-or-later WITH GCC-exception-3.1"
    return KNOWN[name]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--version", required=True)
    parser.add_argument("--part", action="append", default=[])
    args = parser.parse_args()
    bill = args.out / f"llada-{args.version}.spdx.json"
    packages, relations = [], []

    def add(key, name, version, licence, **more):
        identifier = "SPDXRef-" + "".join(c if c.isalnum() else "-" for c in key)
        packages.append({"SPDXID": identifier, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
                         "filesAnalyzed": False, "licenseConcluded": licence, "licenseDeclared": licence,
                         "copyrightText": "NOASSERTION", **more})
        return identifier

    parts = {}
    for one in args.part:
        part, _, path = one.partition("=")
        names = [version_of(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]
        parts[part] = [(name, version, *known(name)) for name, version in names]
    identifiers = {}
    for name, version, project, licence in sorted({entry for entries in parts.values() for entry in entries}):
        identifiers[name] = add(name, project, version, licence)
    for path in sorted(args.out.iterdir()):
        if not path.is_file() or path == bill or path.name == "SHA256SUMS":
            continue
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        file = add(path.name, path.name, args.version, "MIT", packageFileName=path.name,
                   checksums=[{"algorithm": "SHA256", "checksumValue": digest}])
        relations.append(("SPDXRef-DOCUMENT", "DESCRIBES", file))
        inside = {name for part, entries in parts.items() for name, *_ in entries
                  if part in {".whl": ("program", "wheel"), ".zip": ("windows",)}.get(path.suffix, ("program",))}
        if path.suffix in (".whl", ".gz", ".deb", ".rpm", ".zip") and "-source" not in path.name:
            relations += [(file, "STATIC_LINK", identifiers[name]) for name in sorted(inside)]
    moment = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    digest = hashlib.sha256(json.dumps([packages, relations]).encode()).hexdigest()
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"llada-{args.version}",
        "documentNamespace": f"urn:llada.cpp:{args.version}:{digest}",
        "creationInfo": {"created": moment.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: llada.cpp tools/release/bill.py"]},
        "packages": packages,
        "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b} for a, kind, b in relations],
    }
    bill.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(bill)


if __name__ == "__main__":
    main()
