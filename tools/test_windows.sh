#!/usr/bin/env bash
# llada.exe and llada.dll for Windows under wine: answers, files, locks, kills, sockets, consoles
# (tests/windows/windows_test.py). Needs the packages wine64, openssl and g++-mingw-w64-x86-64-posix, and a release
# build beside which they are compared. Exit status 77: something of that is missing and nothing was tested.
# usage: test_windows.sh [names of tests]
set -euo pipefail
cd "$(dirname "$0")/.."
skip() { echo "SKIPPED: $*; nothing was tested" >&2; exit 77; }
command -v wine >/dev/null || skip "found no wine, needed the packages wine and wine64"
command -v x86_64-w64-mingw32-g++-posix >/dev/null ||
  skip "found no compiler for Windows, needed the package g++-mingw-w64-x86-64-posix"
command -v openssl >/dev/null || skip "found no openssl, needed the package openssl"
[ -x build/release/bin/llada ] || skip "found no build/release/bin/llada, needed a release build (tools/build.sh)"
tools/windows.sh build
export WINEPREFIX=$PWD/build/wine WINEDEBUG=-all WINEDLLOVERRIDES=mscoree,mshtml=
[ -d "$WINEPREFIX" ] || wineboot --init
exec python3 tests/windows/windows_test.py "$@"
