#!/usr/bin/env bash
# Makes what can be given to others, in build/packages: Debian packages of this machine's processor, and a tarball with the
# program, linked statically, for x86-64 and for arm64 (needs what tools/setup.sh arm64 installs). The program of
# each answers a prompt; a tarball's does so with nothing else in its root folder, on arm64 under qemu-aarch64.
# usage: package.sh [deb] [x86_64] [arm64]   (all by default)
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=("$@")
[ $# -gt 0 ] || wanted=(deb x86_64 arm64)
out=$PWD/build/packages
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=
fail() { echo "package: $*" >&2; exit 1; }

answers() {  # model program...
  local found; found=$("${@:2}" run -m "$1" 'Sort the numbers from smallest to largest: 38 41 6 51 3' -q </dev/null) || return 1
  [ "$found" = '3 6 38 41 51' ]
}

build() {  # preset pack...: builds without tests, and packs by that command
  local preset=$1
  shift
  { cmake --preset "$preset" -DLLADA_TESTS=OFF && cmake --build --preset "$preset" && "$@"; } >"$work/log" 2>&1 ||
    { tail -n 30 "$work/log" >&2; exit 1; }
}

tarball() { (cd "build/$1" && cpack -B "$out"); }

unpack() {  # tarball: into the folder $root, with a model
  root=$(mktemp -d -p "$work")
  tar -xzf "$1" -C "$root" --strip-components=1 || fail "$1: is no tarball"
  for file in bin/llada share/doc/llada/LICENSE share/doc/llada/README.md share/man/man1/llada.1.gz; do
    [ -s "$root/$file" ] || fail "$1: has no $file"
  done
  [ -n "$(ls "$root/share/doc/llada/licences")" ] || fail "$1: has no licences of what is linked in"
  if readelf -l "$root/bin/llada" | grep -q INTERP; then fail "$1: its program needs a loader"; fi
  cp -r models/tiny-llada "$root/model"
}

# Without root's rights a folder becomes the root folder in a user namespace, where the system has them.
in_root() {
  if [ "$(id -u)" = 0 ]; then chroot "$@"; else unshare --user --map-root-user chroot "$@"; fi
}

for one in "${wanted[@]}"; do
  case $one in
    deb)
      build release tools/debian.sh "$out" &&
        answers models/tiny-llada build/release/bin/llada ;;
    x86_64)
      build static tarball static && unpack "$out"/llada-*-linux-x86_64.tar.gz &&
        answers /model in_root "$root" /bin/llada ;;
    arm64)
      command -v qemu-aarch64 >/dev/null || fail "arm64: found no qemu-aarch64, needed it (tools/setup.sh arm64)"
      build static-arm64 tarball static-arm64 && unpack "$out"/llada-*-linux-aarch64.tar.gz &&
        answers "$root/model" qemu-aarch64 "$root/bin/llada" ;;
    *) echo "usage: package.sh [deb] [x86_64] [arm64]" >&2; exit 2 ;;
  esac || fail "$one: the program does not answer as it should"
  echo "package: $one done"
done
rm -rf "$out/_CPack_Packages"
ls -l "$out"
