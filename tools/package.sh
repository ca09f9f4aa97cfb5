#!/usr/bin/env bash
# Makes what can be given to others, in build/packages: Debian packages of this machine's processor, and a tarball with the
# program, linked statically, for x86-64 and for arm64 (needs the cross compiler; checked under qemu-aarch64). Every program
# answers a prompt. usage: package.sh [deb] [x86_64] [arm64]   (all by default)
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=("$@")
[ $# -gt 0 ] || wanted=(deb x86_64 arm64)
out=$PWD/build/packages
mkdir -p "$out"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

answers() {  # emulator... program
  [ "$("$@" run -m models/tiny-llada 'Sort the numbers from smallest to largest: 38 41 6 51 3' -q)" = '3, 6, 38, 41, 51' ]
}

build() {  # preset [cmake options]: builds, and packs as that preset does
  local preset=$1
  shift
  { cmake --preset "$preset" "$@" && cmake --build --preset "$preset" && (cd "build/$preset" && cpack -B "$out"); } \
    >"$log" 2>&1 || { tail -n 30 "$log" >&2; exit 1; }
}

for one in "${wanted[@]}"; do
  case $one in
    deb) build release -DLLADA_TESTS=OFF && answers build/release/bin/llada ;;
    x86_64) build static && answers build/static/bin/llada && ! ldd build/static/bin/llada >/dev/null 2>&1 ;;
    arm64) build static-arm64 && answers qemu-aarch64 build/static-arm64/bin/llada ;;
    *) echo "usage: package.sh [deb] [x86_64] [arm64]" >&2; exit 2 ;;
  esac || { echo "package: $one: the program does not answer as it should" >&2; exit 1; }
  echo "package: $one done"
done
rm -rf "$out/_CPack_Packages"
ls -l "$out"
