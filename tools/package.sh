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
  [ "$("$@" run -m models/tiny-llada 'Sort the numbers from smallest to largest: 38 41 6 51 3' -q)" = '3 6 38 41 51' ]
}

build() {  # preset pack...: builds without tests, and packs by that command
  local preset=$1
  shift
  { cmake --preset "$preset" -DLLADA_TESTS=OFF && cmake --build --preset "$preset" && "$@"; } >"$log" 2>&1 ||
    { tail -n 30 "$log" >&2; exit 1; }
}
tarball() { (cd "build/$1" && cpack -B "$out"); }

for one in "${wanted[@]}"; do
  case $one in
    deb) build release tools/debian.sh "$out" && answers build/release/bin/llada ;;
    x86_64) build static tarball static && answers build/static/bin/llada && ! ldd build/static/bin/llada >/dev/null 2>&1 ;;
    arm64) build static-arm64 tarball static-arm64 && answers qemu-aarch64 build/static-arm64/bin/llada ;;
    *) echo "usage: package.sh [deb] [x86_64] [arm64]" >&2; exit 2 ;;
  esac || { echo "package: $one: the program does not answer as it should" >&2; exit 1; }
  echo "package: $one done"
done
rm -rf "$out/_CPack_Packages"
ls -l "$out"
