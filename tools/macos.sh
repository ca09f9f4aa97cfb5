#!/usr/bin/env bash
# Compiles and links llada and libllada for macOS on Apple's processors, by zig (the Python package ziglang), without
# libedit and libcurl. They have been built and not run: nothing here can run them, so they are not optimised.
# usage: macos.sh [ZIG [cmake's options of building]]
# ZIG answers `zig version`; without it ziglang is installed into build/macos-libraries-zig.
set -euo pipefail
export CCACHE_COMPILERTYPE=clang  # of a compiler whose name does not tell
cd "$(dirname "$0")/.."
libraries=$PWD/build/macos-libraries
zig=${1:-$libraries-zig/bin/zig}
if [ ! -x "$zig" ]; then
  python3 -m venv "$libraries-zig" && "$libraries-zig/bin/pip" install -q ziglang==0.17.1
  printf '#!/bin/sh\nexec "%s" -m ziglang "$@"\n' "$libraries-zig/bin/python" >"$zig"
  chmod +x "$zig"
fi
tools/cross_libraries.sh build/macos-libraries "$zig cc -target aarch64-macos" "$zig ar"
mkdir -p "$libraries/zig"
for tool in cc c++ ar ranlib; do
  target=
  case $tool in c*) target='-target aarch64-macos' ;; esac
  printf '#!/bin/sh\nexec "%s" %s %s "$@"\n' "$zig" "$tool" "$target" >"$libraries/zig/$tool"
  chmod +x "$libraries/zig/$tool"
done
cmake --preset macos-zig >build/macos-configure.log || { cat build/macos-configure.log; exit 1; }
cmake --build build/macos-zig --target llada llada_shared "${@:2}"
file build/macos-zig/bin/llada | grep 'Mach-O 64-bit arm64 executable'
file -L build/macos-zig/src/api/libllada.dylib | grep 'Mach-O 64-bit arm64 dynamically linked shared library'
