#!/usr/bin/env bash
# Builds with clang 19 and libc++ (the compiler and standard library nearest to Android's NDK and macOS that Debian has) and
# runs the tests of the layers up to the engine and the C API, the Python package's where pytest is installed, and a short
# answer. Not a stage of tools/test.sh: a first build takes as long as the release build, and the code that is compiled is
# the same. Arguments go to ctest.
# Debian's fmt and GoogleTest are compiled for GCC's standard library: fmt's headers alone are used, GoogleTest is built
# from Debian's copy of its sources.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh clang

parts="base json tensor text formats kernels graph memory models decode engine api"
cmake --preset clang -DLLADA_CUDA=OFF >/dev/null
# shellcheck disable=SC2046
cmake --build --preset clang --target llada llada_shared $(printf 'test_%s ' $parts) -- --quiet
LLADA_TEST_QUICK=1 ctest --preset clang --no-tests=error -LE long -R "^($(tr ' ' '|' <<<"$parts"))\." "$@"

if /usr/bin/python3 -c 'import pytest' 2>/dev/null; then
  LLADA_LIBRARY=$PWD/build/clang/src/api/libllada.so LLADA_CLI=$PWD/build/clang/bin/llada PYTHONDONTWRITEBYTECODE=1 \
    /usr/bin/python3 -m pytest -q -p no:cacheprovider python/tests
else
  echo "clang: pytest is not installed; the Python package is not tested"
fi

# The same answer as GCC's build gives: what a language may leave open must not show.
models=build/clang/models
mkdir -p "$models"
build/clang/bin/llada convert models/tiny-llada "$models/tiny.gguf" --type q8_0 >/dev/null
ask=(run -m "$models/tiny.gguf" -p 'Sort the numbers from smallest to largest: 38 41 6 51 3' --quiet)
answer=$(build/clang/bin/llada "${ask[@]}")
[ "$answer" = "3 6 38 41 51" ] || { echo "test_clang: found '$answer', needed '3 6 38 41 51'" >&2; exit 1; }
echo "clang: passed"
