#!/usr/bin/env bash
# Installs what the build needs, and builds the program: build/release/bin/llada. Shows how far it is: ninja's own line on a
# terminal, elsewhere a line every 20 seconds. On an error the compiler's words, and nothing else, are printed.
# usage: build.sh [target...]   everything but the tests where none is named: also the library and the manual
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh build
targets=()
[ $# = 0 ] || targets=(--target "$@")
log=$(mktemp)
trap 'rm -f "$log"' EXIT
begin=$SECONDS
cmake --preset release -DLLADA_TESTS=OFF >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
if [ ! -x build/release/bin/llada ]; then echo "building; the first time takes about three minutes on two cores"; fi
if [ -t 1 ]; then
  NINJA_STATUS='building %p, %es: ' cmake --build --preset release "${targets[@]}" || exit 1
else
  NINJA_STATUS='%p ' cmake --build --preset release "${targets[@]}" >"$log" 2>&1 &
  pid=$!
  told=$SECONDS
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    if [ $((SECONDS - told)) -ge 20 ]; then
      told=$SECONDS
      echo "building: $(tail -n 1 "$log" | awk '{print $1}') after $((SECONDS - begin)) s"
    fi
  done
  wait "$pid" || { cat "$log" >&2; exit 1; }
fi
echo "built build/release/bin/llada in $((SECONDS - begin)) s"
