#!/usr/bin/env bash
# Installs what tools/release.sh wrote into OUT as users would, on systems made by debootstrap: each wheel, archive and
# package of this processor answers by the shipped model's name, and the time to that answer is printed. Needs root,
# debootstrap and a mirror; no network in the roots. Archive and wheel for 64-bit Arm answer under qemu-aarch64.
# usage: test_release.sh OUT [ROOTS]   (build/roots keeps the systems)
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath "$1") roots=$(realpath -m "${2:-build/roots}")
processor=$(uname -m)
mkdir -p "$roots"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "test_release: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "needed root"
prompt='Sort the numbers from smallest to largest: 38 41 6 51 3' answer='3 6 38 41 51'
sorted() { [ "$1" = "$answer" ] || fail "$2: found '$1', needed '$answer'"; }
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f s", b - a }'; }

prompt_to_package='
import sys, llada
with llada.Model.load("tiny-llada") as model:
    print(model.generate(sys.argv[1]))'

# The mirror that this system has, for what debootstrap gets.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | sed -nE 's/^(URIs: *|deb )([^ ]+).*/\2/p' | sed -n 1p || true)
system() {  # suite: its root folder in $root
  root=$roots/$1
  [ -d "$root" ] && return
  debootstrap --variant=minbase --include=python3,python3-venv "$1" "$root.part" $mirror >"$work/log" 2>&1 ||
    { rm -rf "$root.part"; return 1; }
  mv "$root.part" "$root"
}
# A command in a root folder with /proc alone, without a network, HOME or locale.
inside() { unshare --mount --net --pid --fork --kill-child sh -ec 'mount -t proc proc "$1/proc"; exec chroot "$@"' - "$@"; }
plain() { inside "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "${@:2}"; }

(cd "$out" && sha256sum --check --quiet SHA256SUMS) || fail "SHA256SUMS"
wheel=$(echo "$out"/llada-*manylinux*_"$processor".whl)
archive=$(echo "$out"/llada-*-linux-"$processor".tar.gz)
deb=$(echo "$out"/llada_*_"$(dpkg --print-architecture)".deb)
rpm=$(echo "$out"/llada-*."$processor".rpm)
[ "$(stat -c %s "$wheel")" -lt 15000000 ] || fail "the wheel has $(stat -c %s "$wheel") bytes, needed less than 15 MB"

for suite in bullseye bookworm trixie; do
  system "$suite" || { echo "test_release: $suite cannot be had here; it is not tested"; continue; }
  cp "$wheel" "$root/tmp"
  begin=$(now)
  plain "$root" sh -ec "rm -rf /tmp/v; python3 -m venv /tmp/v; /tmp/v/bin/pip install -q --no-index /tmp/*.whl"
  sorted "$(plain "$root" /tmp/v/bin/llada run tiny-llada "$prompt" -q </dev/null)" "$suite: the wheel's program"
  took=$(since "$begin")
  sorted "$(plain "$root" /tmp/v/bin/python -c "$prompt_to_package" "$prompt")" "$suite: the wheel's package"
  # The library has another compiler than the program and chooses the same instruction set.
  best=$(plain "$root" /tmp/v/bin/llada --version | sed -n 's/^instruction sets: \([^,]*\).*/\1/p')
  device=$(plain "$root" /tmp/v/bin/python -c 'import llada; print(llada.Model.load("tiny-llada").info.device)')
  [[ "$device" == *", $best, "* ]] || fail "$suite: the wheel's package computes with $device, needed $best"
  echo "$suite: $(plain "$root" /tmp/v/bin/python --version), wheel installed and answered in $took"
  cp "$deb" "$root/tmp/llada.deb"
  begin=$(now)
  plain "$root" dpkg -i /tmp/llada.deb >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$suite: dpkg"; }
  sorted "$(plain "$root" llada run tiny-llada "$prompt" -q </dev/null)" "$suite: the package's program"
  echo "$suite: package installed and answered in $(since "$begin")"
  plain "$root" dpkg -r llada >"$work/log" 2>&1 || fail "$suite: dpkg -r"
  [ ! -e "$root/usr/bin/llada" ] || fail "$suite: dpkg -r left the program"
  rm -rf "$root"/tmp/*
done

begin=$(now)
mkdir "$work/bare"
tar -xzf "$archive" -C "$work/bare" --strip-components=1
sorted "$(env -i PATH="$PATH" chroot "$work/bare" /bin/llada run tiny-llada "$prompt" -q </dev/null)" "the archive in an empty root folder"
echo "archive: unpacked into an empty root folder and answered in $(since "$begin")"

# A server with a network of its own.
serves() {  # who, the program's command...
  unshare --net sh -ec 'ip link set lo up; said=$1 prompt=$2; shift 2; "$@" serve tiny-llada --port 8080 >"$said" 2>&1 & server=$!
    for i in $(seq 600); do curl -sf http://127.0.0.1:8080/ready >/dev/null && break; sleep 0.1; done
    curl -s http://127.0.0.1:8080/v1/chat/completions -d "{\"messages\": [{\"role\": \"user\", \"content\": \"$prompt\"}]}"
    kill $server; wait $server || true' - "$work/serve" "$prompt" "${@:2}" >"$work/reply" || fail "$1: $(cat "$work/serve")"
  grep -q "\"$answer\"" "$work/reply" || fail "$1: the server answered $(cat "$work/reply") and said $(cat "$work/serve")"
  echo "$1: the server answers"
}
serves "archive" env -i PATH="$PATH" chroot "$work/bare" /bin/llada  # no /tmp, HOME, /proc or locale there

# Processors: the oldest x86-64 and one with AVX2 alone; Arm without and with dot products and i8mm.
if command -v qemu-x86_64 >/dev/null && [ "$processor" = x86_64 ]; then
  for cpu in qemu64 Haswell; do
    sorted "$(qemu-x86_64 -cpu $cpu "$work/bare/bin/llada" run tiny-llada "$prompt" -q </dev/null 2>/dev/null)" "x86-64, $cpu"
    echo "archive: answers on an emulated $cpu, $(qemu-x86_64 -cpu $cpu "$work/bare/bin/llada" --version 2>/dev/null | grep '^instruction sets')"
  done
fi
arm=$(echo "$out"/llada-*-linux-aarch64.tar.gz)
if command -v qemu-aarch64 >/dev/null && [ -f "$arm" ]; then
  mkdir "$work/arm"
  tar -xzf "$arm" -C "$work/arm" --strip-components=1
  for cpu in cortex-a53 cortex-a76 max; do
    sorted "$(qemu-aarch64 -cpu $cpu "$work/arm/bin/llada" run tiny-llada "$prompt" -q </dev/null 2>/dev/null)" "Arm, $cpu"
    echo "archive: answers on an emulated $cpu, $(qemu-aarch64 -cpu $cpu "$work/arm/bin/llada" --version 2>/dev/null | grep '^instruction sets')"
  done
  serves "archive, emulated Arm" qemu-aarch64 "$work/arm/bin/llada"
fi

# Arm's wheel in Arm's own Python, whose packages are unpacked and not configured: that would need a kernel's help.
arm_python() {
  root=$roots/bullseye-arm64
  [ -d "$root" ] && return
  debootstrap --foreign --arch=arm64 --variant=minbase --include=python3 bullseye "$root.part" $mirror >"$work/log" 2>&1 ||
    { rm -rf "$root.part"; return 1; }
  for package in "$root.part"/var/cache/apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$root.part"
  done
  mv "$root.part" "$root"
}
arm=$(echo "$out"/llada-*manylinux*_aarch64.whl)
if command -v qemu-aarch64 >/dev/null && [ -f "$arm" ]; then
  python3 -m venv "$work/pip"
  "$work/pip/bin/pip" install -q --disable-pip-version-check --no-index --target "$work/arm_wheel" --only-binary=:all: \
    --platform manylinux_2_28_aarch64 "$arm"
  sorted "$(qemu-aarch64 "$work/arm_wheel/bin/llada" run tiny-llada "$prompt" -q </dev/null)" "Arm: the wheel's program"
  echo "wheel: its program answers on an emulated Arm"
  if arm_python; then
    arm_run() { PYTHONPATH=$work/arm_wheel qemu-aarch64 -L "$root" "$root/usr/bin/python3" "$@"; }
    sorted "$(arm_run -c "import sys; sys.prefix = '$work/arm_wheel'$prompt_to_package" "$prompt")" "Arm: the wheel's package"
    echo "wheel: its package answers on an emulated Arm, $(arm_run -c 'import platform; print("Python", platform.python_version(), *platform.libc_ver())')"
  else
    echo "test_release: Arm's bullseye cannot be had here; the wheel's library for Arm is not tested"
  fi
fi

if command -v rpm >/dev/null; then
  mkdir "$work/rpm"
  rpm --root "$work/rpm" --install --nosignature --ignoreos "$rpm" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "rpm"; }
  sorted "$(env -i PATH="$PATH" chroot "$work/rpm" /usr/bin/llada run tiny-llada "$prompt" -q </dev/null)" "the rpm's program"
  echo "rpm: installed into an empty root folder and answered"
fi
if command -v lintian >/dev/null; then
  lintian --allow-root --fail-on error,warning "$out"/*.deb || fail lintian
  echo "deb: lintian finds nothing"
fi
echo "test_release: passed"
