#!/usr/bin/env bash
# Builds a preset and shows how far it is: one line that is renewed on a terminal, elsewhere a line every 15 seconds. On an
# error the compiler's words, and nothing else, are printed.
# usage: build.sh [--preset NAME] [--tests] [target...]
#   without --tests it first installs what the build needs; without a target it builds everything
set -euo pipefail
cd "$(dirname "$0")/.."
preset=release tests=OFF
while [[ ${1:-} == --* ]]; do
  case $1 in
    --preset) preset=$2; shift 2 ;;
    --tests) tests=ON; shift ;;
    *) echo "build: unknown option $1" >&2; exit 2 ;;
  esac
done
[ "$tests" = ON ] || tools/setup.sh build
targets=()
[ $# = 0 ] || targets=(--target "$@")

cache=build/$preset/CMakeCache.txt
if [ -f "$cache" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$(pwd -P)" "$cache"; then
  echo "build: build/$preset was made in another folder; it is made anew"
  rm -rf "build/$preset"
fi

log=$(mktemp) pid=
stop() { [ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -f "$log"; }
trap stop EXIT
trap 'exit 130' INT TERM
begin=$SECONDS
new=
[ -f "build/$preset/build.ninja" ] || new=1
cmake --preset "$preset" -DLLADA_TESTS=$tests >"$log" 2>&1 || { cat "$log" >&2; exit 1; }

NINJA_STATUS='%p ' cmake --build --preset "$preset" "${targets[@]}" >"$log" 2>&1 &
pid=$!
told=$SECONDS
[ -z "$new" ] || [ "$preset" != release ] || echo "building; the first time takes three to six minutes on two cores"
while kill -0 "$pid" 2>/dev/null; do
  sleep 0.5
  share=$(tail -n 1 "$log" | grep -oE '^ *[0-9]+%' | tr -d ' ' || true)
  if [ -t 1 ]; then
    printf '\r\033[Kbuilding %s: %s, %s s' "$preset" "${share:-0%}" $((SECONDS - begin))
  elif [ $((SECONDS - told)) -ge 15 ]; then
    told=$SECONDS
    echo "building $preset: ${share:-0%}, $((SECONDS - begin)) s"
  fi
done
[ ! -t 1 ] || printf '\r\033[K'
status=0
wait "$pid" || status=$?
pid=
if [ "$status" != 0 ]; then
  sed -n '/^FAILED: /,$p' "$log" >&2
  grep -q '^FAILED: ' "$log" || cat "$log" >&2
  exit 1
fi
echo "built $preset in $((SECONDS - begin)) s"
