#!/usr/bin/env bash
# The archive for Windows among the files of a release. usage: windows.sh OUT, or --check: are its tools here
set -euo pipefail
while read -r tool package; do
  command -v "$tool" >/dev/null ||
    { echo "release: windows: found no $tool, needed the package $package (tools/setup.sh release)" >&2; exit 1; }
done <<END
x86_64-w64-mingw32-g++-posix g++-mingw-w64-x86-64-posix
x86_64-w64-mingw32-windres binutils-mingw-w64-x86-64
dpkg-source dpkg-dev
tclsh tcl
make make
gcc gcc
END
[ "${1:?a folder}" = --check ] || exec "$(dirname "$0")/../windows.sh" zip "$1"
