#!/usr/bin/env bash
# Builds with clang 19 and libc++ (the compiler and standard library nearest to Android's NDK and macOS that Debian has)
# and runs the tests of the layers below the engine, and a short answer. Not a stage of tools/test.sh: a first build
# takes minutes, and the code that is compiled is the same. Arguments go to ctest.
# Debian's fmt and GoogleTest are compiled for GCC's standard library: fmt's headers alone are used, GoogleTest is built
# from Debian's copy of its sources.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh clang

parts="base tensor text formats kernels graph memory models decode"
cmake --preset clang -DLLADA_CUDA=OFF >/dev/null
# shellcheck disable=SC2046
cmake --build --preset clang --target llada $(printf 'test_%s ' $parts) -- --quiet
ctest --preset clang --no-tests=error -LE long -R "^($(tr ' ' '|' <<<"$parts"))\." "$@"

# The same answer as GCC's build gives: what a language may leave open must not show.
models=build/clang/models
mkdir -p "$models"
build/clang/bin/llada convert models/tiny-llada "$models/tiny.gguf" --type q8_0 >/dev/null
ask=(run -m "$models/tiny.gguf" -p 'Sort the numbers from smallest to largest: 38 41 6 51 3' --quiet)
answer=$(build/clang/bin/llada "${ask[@]}")
[ "$answer" = "3 6 38 41 51" ] || { echo "test_clang: found '$answer', needed '3 6 38 41 51'" >&2; exit 1; }
echo "clang: passed"
