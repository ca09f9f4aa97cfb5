#!/usr/bin/env bash
# Installs what tools/release.sh wrote into OUT as users would, on systems made by debootstrap: each wheel, archive and
# package of this processor answers by the shipped model's name, and the time to that answer is printed. Needs root,
# debootstrap and a mirror; no network in the roots. Archive and wheel for 64-bit Arm answer under qemu-aarch64. With
# what pip gets, the wheel's Ray answers, too. The last line names what could not be had here and so is not tested.
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
missing=() pythons=
lacks() { echo "test_release: $*; not tested"; missing+=("$1"); }
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f s", b - a }'; }

prompt_to_package='
import sys, llada
with llada.Model.load("tiny-llada") as model:
    print(model.generate(sys.argv[1]) if sys.argv[1:] else model.info.device)'
computes() { [[ "$1" == *", $2, "* ]] || fail "$3 computes with $1, needed $2"; }

# Debian's mirror is this system's, where that is Debian, Ubuntu's the one of debootstrap's script. Scripts are those of
# releases that every debootstrap knows.
scripts=/usr/share/debootstrap/scripts
mirror=
if [ "$(. /etc/os-release && echo "$ID")" = debian ]; then
  mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    sed -nE 's/^(URIs: *|deb )([^ ]+).*/\2/p' | sed -n 1p || true)
fi
strap() {
  debootstrap --variant=minbase "$@" >"$work/log" 2>&1 && return
  tail -n 5 "$work/log"
  rm -rf "$root.part"
  return 1
}

# Debian has no package of Ubuntu's keys: this one, by its fingerprint, out of Ubuntu's own.
ubuntu_key=F6ECB3762474EDA9D21B7022871920D1991BC93C
ubuntu_keyring() {  # suite: a file in $keyring
  keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg
  [ ! -f $keyring ] || return 0
  keyring=$roots/ubuntu.gpg
  [ ! -f "$keyring" ] || return 0
  strap --no-check-gpg --download-only "$1" "$root.part" "" "$scripts/gutsy" || return 1
  mkdir -m 700 "$work/gpg"
  dpkg-deb --fsys-tarfile "$root.part"/var/cache/apt/archives/ubuntu-keyring_*.deb |
    tar -xO ./usr/share/keyrings/ubuntu-archive-keyring.gpg | gpg -q --homedir "$work/gpg" --import
  gpg -q --homedir "$work/gpg" --export $ubuntu_key >"$work/key" && [ -s "$work/key" ] && mv "$work/key" "$keyring"
}

system() {  # suite: its root folder in $root
  root=$roots/$1
  [ ! -d "$root" ] || return 0
  local source=("$mirror" "$scripts/sid") more=()
  case $1 in
    jammy | noble)
      ubuntu_keyring "$1" || return 1
      source=("" "$scripts/gutsy") more=(--components=main,universe --keyring="$keyring") ;;
  esac
  strap --include=python3,python3-venv "${more[@]}" "$1" "$root.part" "${source[@]}" || return 1
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

for suite in bullseye jammy bookworm noble trixie forky; do
  system "$suite" || { lacks "$suite" "cannot be had here"; continue; }
  place=$root/tmp/llada
  rm -rf "$place"
  mkdir "$place"
  cp "$wheel" "$place"
  begin=$(now)
  plain "$root" sh -ec "python3 -m venv /tmp/llada/v; /tmp/llada/v/bin/pip install -q --no-index /tmp/llada/*.whl"
  sorted "$(plain "$root" /tmp/llada/v/bin/llada run tiny-llada "$prompt" -q </dev/null)" "$suite: the wheel's program"
  took=$(since "$begin")
  python=$(plain "$root" /tmp/llada/v/bin/python --version)
  sorted "$(plain "$root" /tmp/llada/v/bin/python -c "$prompt_to_package" "$prompt")" "$suite: the wheel's package"
  # The library has another compiler than the program and chooses the same instruction set.
  best=$(plain "$root" /tmp/llada/v/bin/llada --version | sed -n 's/^instruction sets: \([^,]*\).*/\1/p')
  computes "$(plain "$root" /tmp/llada/v/bin/python -c "$prompt_to_package")" "$best" "$suite: the wheel's package"
  libc=$(plain "$root" getconf GNU_LIBC_VERSION)
  echo "$suite: $python, $libc: wheel installed and answered in $took"
  pythons+=" ${python#Python }"
  cp "$deb" "$place/llada.deb"
  begin=$(now)
  plain "$root" dpkg -i /tmp/llada/llada.deb >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$suite: dpkg"; }
  sorted "$(plain "$root" llada run tiny-llada "$prompt" -q </dev/null)" "$suite: the package's program"
  echo "$suite: package installed and answered in $(since "$begin")"
  plain "$root" dpkg -r llada >"$work/log" 2>&1 || fail "$suite: dpkg -r"
  [ ! -e "$root/usr/bin/llada" ] || fail "$suite: dpkg -r left the program"
  rm -rf "$place"
done
for minor in {9..14}; do
  [[ "$pythons" == *" 3.$minor."* ]] || lacks "Python 3.$minor" "no system here has it"
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

# Processors: the oldest x86-64 and one with AVX2 alone; Arm without and with dot products and i8mm. Each takes the best
# instruction set that it has.
emulated() {  # emulator, folder, processor=instruction set...
  local has
  for one in "${@:3}"; do
    sorted "$("$1" -cpu "${one%=*}" "$2/bin/llada" run tiny-llada "$prompt" -q </dev/null 2>"$work/log")" "${one%=*}"
    has=$("$1" -cpu "${one%=*}" "$2/bin/llada" --version 2>"$work/log" | sed -n 's/^instruction sets: \([^,]*\).*/\1/p')
    [ "$has" = "${one#*=}" ] || fail "an emulated ${one%=*} computes with '$has', needed ${one#*=}"
    echo "archive: answers on an emulated ${one%=*} with $has"
  done
}
if command -v qemu-x86_64 >/dev/null && [ "$processor" = x86_64 ]; then
  emulated qemu-x86_64 "$work/bare" qemu64=scalar Haswell=avx2
else
  lacks "old x86-64" "found no qemu-x86_64"
fi
arm=$(echo "$out"/llada-*-linux-aarch64.tar.gz)
if command -v qemu-aarch64 >/dev/null && [ -f "$arm" ]; then
  mkdir "$work/arm"
  tar -xzf "$arm" -C "$work/arm" --strip-components=1
  emulated qemu-aarch64 "$work/arm" cortex-a53=neon cortex-a76=neon_dotprod max=neon_i8mm
  serves "archive, emulated Arm" qemu-aarch64 "$work/arm/bin/llada"
  # Their scripts would need Arm's own system: unpacked, and said to be for Arm.
  dpkg-deb -x "$out"/llada_*_arm64.deb "$work/arm_deb"
  said=$(qemu-aarch64 "$work/arm_deb/usr/bin/llada" run tiny-llada "$prompt" -q </dev/null)
  sorted "$said" "Arm: the package's program"
  [ "$(dpkg-deb -f "$out"/llada_*_arm64.deb Architecture)" = arm64 ] || fail "Arm's package has another processor"
  echo "package: its program answers on an emulated Arm"
else
  lacks "64-bit Arm's programs" "found no qemu-aarch64 or no archive for it"
fi

# Arm's wheel in Arm's own Pythons, whose packages are unpacked and not configured: that would need a kernel's help.
arm_python() {  # suite: its root folder in $root
  root=$roots/$1-arm64
  [ ! -d "$root" ] || return 0
  strap --foreign --arch=arm64 --include=python3 "$1" "$root.part" "$mirror" "$scripts/sid" || return 1
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
  for suite in bullseye forky; do
    arm_python $suite || { lacks "$suite for Arm" "cannot be had here"; continue; }
    for one in cortex-a53=neon cortex-a76=neon_dotprod max=neon_i8mm; do
      cpu=${one%=*} has=${one#*=}
      arm_run() { PYTHONPATH=$work/arm_wheel qemu-aarch64 -cpu "$cpu" -L "$root" "$root/usr/bin/python3" -c "$@"; }
      package="import sys; sys.prefix = '$work/arm_wheel'$prompt_to_package"
      sorted "$(arm_run "$package" "$prompt")" "$suite: Arm's wheel, $cpu"
      computes "$(arm_run "$package")" "$has" "$suite: Arm's wheel, $cpu:"
      which=$(arm_run 'import platform; print("Python", platform.python_version(), *platform.libc_ver())')
      echo "wheel: its package answers on an emulated $cpu with $has, $which"
    done
  done
else
  lacks "64-bit Arm's wheel" "found no qemu-aarch64 or no wheel for it"
fi

# The wheel with Ray, whose own packages pip gets: docs/scale.md's lines, in a network and with processes of their own.
python3 -m venv "$work/ray"
if "$work/ray/bin/pip" install -q --disable-pip-version-check "$wheel[ray]" >"$work/log" 2>&1; then
  mkdir "$work/lines"
  unshare --net --mount --pid --fork --kill-child --mount-proc sh -ec 'ip link set lo up; exec "$@"' - \
    env -i HOME="$work" PATH=/usr/bin:/bin RAY_TMPDIR="$work/t" RAY_USAGE_STATS_ENABLED=0 \
    RAY_DATA_DISABLE_PROGRESS_BARS=1 "$work/ray/bin/python" tests/scale/scale_lines.py "$work/lines" "$prompt" >"$work/answers" 2>"$work/log" ||
    { tail -n 30 "$work/log" >&2; fail "the wheel with Ray"; }
  for door in generate "serve run"; do
    sorted "$(sed -n "s/^$door: //p" "$work/answers")" "the wheel with Ray, $door"
  done
  which="$("$work/ray/bin/python" --version), $("$work/ray/bin/ray" --version)"
  echo "wheel: docs/scale.md's lines answer on $which, $(sed -n 's/^first answer/the first answer/p' "$work/log")"
else
  lacks "Ray" "pip cannot have it here"
fi

if command -v rpm >/dev/null; then
  unpack() {  # folder, rpm's words
    rpm --root "$work/$1" --install --nosignature --ignoreos "${@:2}" >"$work/log" 2>&1 ||
      { cat "$work/log" >&2; fail "rpm: $1"; }
  }
  mkdir "$work/rpm" "$work/rpm_arm"
  unpack rpm "$rpm"
  said=$(env -i PATH="$PATH" chroot "$work/rpm" /usr/bin/llada run tiny-llada "$prompt" -q </dev/null)
  sorted "$said" "the rpm's program"
  echo "rpm: installed into an empty root folder and answered"
  arm=$(echo "$out"/llada-*.aarch64.rpm)
  if command -v qemu-aarch64 >/dev/null && [ -f "$arm" ]; then
    unpack rpm_arm --ignorearch "$arm"
    said=$(qemu-aarch64 "$work/rpm_arm/usr/bin/llada" run tiny-llada "$prompt" -q </dev/null)
    sorted "$said" "Arm: the rpm's program"
    echo "rpm: its program answers on an emulated Arm"
  fi
else
  lacks "rpm" "found no rpm"
fi
if command -v lintian >/dev/null; then
  lintian --allow-root --fail-on error,warning "$out"/*.deb || fail lintian
  echo "deb: lintian finds nothing"
else
  lacks "lintian" "found no lintian"
fi
echo "test_release: passed${missing[*]:+, without$(printf ' %s,' "${missing[@]}" | sed 's/,$//')}"
