#!/usr/bin/env bash
# Writes what users get into the folder OUT: programs, packages, wheels, their sums and a bill of materials. Equal sources
# and tools give equal bytes. Each file is checked as far as this machine can; tools/test_release.sh installs them elsewhere.
# usage: release.sh OUT [PART...]
#   static     llada-VERSION-linux-PROCESSOR.tar.gz: the program for any Linux, with manual pages and a small model
#   packages   the same as llada_VERSION.deb and .rpm, with a unit for systemd
#   wheel      the Python package with its library for glibc 2.28 and later, and the program
#   source     the sources, a Homebrew formula and a Nix expression of them
#   windows    llada-VERSION-windows-x86_64.zip: the program and the library for Windows
#   debian     packages of the library and of llada-study for this release of Debian or Ubuntu alone; by name alone
# Without a part: static, packages, wheel, source and windows. LLADA_PROCESSORS='x86_64' leaves out aarch64. LLADA_URL is
# the address of the folder that the files will be downloaded from, for the formula, which without it names OUT.
set -euo pipefail
cd "$(dirname "$0")/.."
usage() { sed -n '/^# usage/,/^set/p' "$0" | sed -n 's/^# //p' >&2; exit 2; }
[ $# -gt 0 ] || usage
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
wanted=("$@")
[ $# -gt 0 ] || wanted=(static packages wheel source windows)
read -ra processors <<<"${LLADA_PROCESSORS:-x86_64 aarch64}"
parts=$PWD/build/parts tools=$PWD/build/release-tools
version=$(sed -n 's/^project(llada VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
# Without a history, as in an image, the day of the sources.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8 TZ=UTC CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
umask 022
mkdir -p "$parts"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "release: $*" >&2; exit 1; }
quiet() { "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; fail "$1 ${2:-} failed"; }; }
preset_of() { case $1 in x86_64) echo static ;; aarch64) echo static-arm64 ;; *) fail "no processor $1, needed x86_64 or aarch64" ;; esac; }

# ---- The program, linked statically: build/parts/PROCESSOR is what an archive has ----

# Debian's archive of curl needs libraries that have none; this one has HTTP and HTTPS alone, from Debian's sources of the
# version that is installed, as the bill says. It is made anew where that version, the compiler or this recipe is another.
make_curl() {  # processor
  local place=$parts/curl-$1 source=${LLADA_CURL_SOURCE:-} toolchain=() version made
  version=$(dpkg-query -W -f '${source:Version}\n' libcurl4-openssl-dev | sed -n 1p)
  made=$({ declare -f make_curl; echo "$source $version $(gcc -dumpfullversion)"; } | sha256sum)
  [ "$(cat "$place/made" 2>/dev/null)" != "$made" ] || return 0
  rm -rf "$place"
  [ "$1" = x86_64 ] || toolchain=(-DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/arm64.cmake")
  if [ -z "$source" ]; then
    local lists=$work/apt options
    mkdir -p "$lists/state/partial" "$lists/sources" "$parts/curl"
    options=(-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$lists/sources" -o Dir::State::lists="$lists/state")
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
      case $file in
        *.sources) sed 's/^Types: .*/Types: deb-src/' "$file" >"$lists/sources/${file##*/}" ;;
        *.list) [ ! -f "$file" ] || sed -n 's/^deb /deb-src /p' "$file" >"$lists/sources/${file##*/}" ;;
      esac
    done
    apt-get "${options[@]}" -qq update >"$work/log" 2>&1 || true  # not every source has sources
    (cd "$parts/curl" && rm -rf curl-* && quiet apt-get "${options[@]}" -qq source curl="$version")
    source=$(echo "$parts"/curl/curl-*/)
  fi
  quiet cmake -G Ninja -S "$source" -B "$work/curl" "${toolchain[@]}" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O2 \
    -DCMAKE_C_FLAGS="-ffile-prefix-map=$source=curl -ffile-prefix-map=$work=." -DBUILD_SHARED_LIBS=OFF -DBUILD_CURL_EXE=OFF \
    -DBUILD_TESTING=OFF -DHTTP_ONLY=ON -DCURL_USE_OPENSSL=ON -DCURL_USE_LIBSSH2=OFF -DCURL_USE_LIBPSL=OFF -DUSE_LIBIDN2=OFF \
    -DCURL_ZLIB=OFF -DENABLE_MANUAL=OFF -DCURL_CA_BUNDLE=none -DCURL_CA_PATH=none -DENABLE_THREADED_RESOLVER=ON
  quiet cmake --build "$work/curl" --target libcurl
  mkdir -p "$place/lib/pkgconfig"
  cp -r "$source/include" "$place/include"
  cp "$work"/curl/lib/libcurl.a "$place/lib"
  rm -rf "$work/curl"
  cat >"$place/lib/pkgconfig/libcurl.pc" <<END
prefix=$place
Name: libcurl
Description: curl with HTTP and HTTPS alone
Version: $(sed -n 's/^#define LIBCURL_VERSION "\(.*\)"/\1/p' "$source/include/curl/curlver.h")
Libs: -L\${prefix}/lib -lcurl
Libs.private: -lssl -lcrypto
Cflags: -I\${prefix}/include -DCURL_STATICLIB
END
  echo "$made" >"$place/made"
}

# Without root's rights a folder becomes the root folder in a user namespace, where the system has them.
in_root() {
  if [ "$(id -u)" = 0 ]; then chroot "$@"; else unshare --user --map-root-user chroot "$@"; fi
}

made=
make_program() {  # processor
  [[ " $made " != *" $1 "* ]] || return 0
  made+=" $1"
  local preset tree=$parts/$1
  preset=$(preset_of "$1")
  make_curl "$1"
  quiet cmake --preset "$preset" -DCMAKE_PREFIX_PATH="$parts/curl-$1"
  quiet cmake --build --preset "$preset" --target llada llada_manual llada_shipped
  for needed in libcurl4-openssl-dev libsqlite3-dev libedit-dev; do
    grep -qx $needed "build/$preset/parts" || fail "$1: the program is without $needed (tools/setup.sh release)"
  done
  rm -rf "$tree"
  quiet cmake --install "build/$preset" --prefix "$tree" --strip
  for file in bin/llada share/doc/llada/LICENSE share/man/man1/llada.1.gz share/llada/tiny-llada.gguf; do
    [ -s "$tree/$file" ] || fail "$1: found no $file"
  done
  if readelf -l "$tree/bin/llada" | grep -q INTERP; then fail "$1: the program needs a loader"; fi
  # With nothing else in its root folder, as the model's name alone says where it lies.
  local emulator=() answer
  local ask=(run tiny-llada 'Sort the numbers from smallest to largest: 38 41 6 51 3' -q)
  [ "$1" = "$(uname -m)" ] || emulator=("qemu-$1")
  if [ ${#emulator[@]} = 0 ]; then answer=$(in_root "$tree" /bin/llada "${ask[@]}" </dev/null) || answer=
  else answer=$("${emulator[@]}" "$tree/bin/llada" "${ask[@]}" </dev/null) || answer=; fi
  [ "$answer" = '3 6 38 41 51' ] || fail "$1: the program answered '$answer', needed '3 6 38 41 51'"
}

# ---- The parts ----

make_static() {
  local name
  for processor in "${processors[@]}"; do
    make_program "$processor"
    name=llada-$version-linux-$processor
    tar -C "$parts" --sort=name --mtime=@"$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=ustar \
      --transform "s,^$processor,$name," -cf - "$processor" | gzip -9n >"$out/$name.tar.gz"
  done
}

make_packages() {
  for processor in "${processors[@]}"; do
    make_program "$processor"
    (cd "build/$(preset_of "$processor")" && rm -rf "$work/cpack" && quiet cpack -G 'DEB;RPM' -B "$work/cpack")
    mv "$work"/cpack/*.deb "$work"/cpack/*.rpm "$out"
  done
}

make_wheel() {
  local zig=$tools/lib/python3*/site-packages/ziglang/zig build
  # shellcheck disable=SC2086
  zig=$(echo $zig)
  [ -x "$zig" ] || fail "wheel: found no ziglang in $tools (tools/setup.sh release)"
  for processor in "${processors[@]}"; do
    make_program "$processor"
    build=build/wheel-$processor
    quiet cmake -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/zig.cmake -DLLADA_ZIG="$zig" \
      -DLLADA_ZIG_TARGET="$processor-linux-gnu.2.28" -DCMAKE_BUILD_TYPE=Release -DLLADA_PCH=ON -DLLADA_UNITY=ON \
      -DLLADA_CUDA=OFF -DLLADA_HEXAGON_CLANG= -DSKBUILD=ON -DCMAKE_SHARED_LINKER_FLAGS=-s
    CCACHE_COMPILERTYPE=clang quiet cmake --build "$build" --target llada_shared
    quiet "$tools/bin/python" tools/release/wheel.py "$out" --library "$build/src/api/libllada.so" --tree "$parts/$processor" \
      --platform "manylinux_2_28_$processor"
    wheel=$out/llada-$version-py3-none-manylinux_2_28_$processor.whl
    "$tools/bin/auditwheel" show "$wheel" >"$work/audit" 2>&1 || { cat "$work/audit" >&2; fail "wheel: auditwheel"; }
    tr '\n' ' ' <"$work/audit" | grep -qE "\"manylinux_2_(1[0-9]|2[0-8])_$processor\"" || { cat "$work/audit" >&2; fail "wheel: needs a newer system"; }
    [ "$(stat -c %s "$wheel")" -lt 15000000 ] || fail "wheel: has more than 15 MB"
  done
}

make_source() {
  local archive=llada-$version-source.tar.gz
  git archive --format=tar --prefix="llada-$version/" HEAD | gzip -9n >"$out/$archive"
  sed -e "s,@URL@,${LLADA_URL:-file://$out}/$archive,; s,@SHA256@,$(sha256sum "$out/$archive" | cut -d' ' -f1)," \
    -e "s,@VERSION@,$version," deploy/homebrew/llada.rb.in >"$out/llada.rb"
  cp deploy/nix/default.nix "$out/llada.nix"
}

make_windows() { quiet tools/release/windows.sh "$out"; }

# CPack's own answer to a shared library is scripts that call ldconfig; Debian's is a trigger, which takes their place.
make_debian() {
  local multiarch library
  multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
  [ -f build/release/build.ninja ] || quiet cmake --preset release -DLLADA_TESTS=OFF
  quiet cmake --build build/release --target llada llada-study llada_shared llada_manual llada_shipped
  # As Debian has it, so that libraries of two architectures can be installed together; the build's own place comes back.
  quiet cmake -B build/release -D CMAKE_INSTALL_LIBDIR="lib/$multiarch"
  local status=0
  (cd build/release && cpack -G DEB -B "$work/cpack") >"$work/log" 2>&1 || status=$?
  cmake -B build/release -U CMAKE_INSTALL_LIBDIR >/dev/null
  [ $status = 0 ] || { cat "$work/log" >&2; fail "debian: cpack"; }
  library=$(echo "$work"/cpack/libllada[0-9]*.deb)
  dpkg-deb -R "$library" "$work/library"
  rm -f "$work/library/DEBIAN/postinst" "$work/library/DEBIAN/postrm"
  echo 'activate-noawait ldconfig' >"$work/library/DEBIAN/triggers"
  dpkg-deb --root-owner-group -b "$work/library" "$library" >/dev/null
  mkdir -p "$out/debian"
  mv "$work"/cpack/*.deb "$out/debian"
}

# Said before the other parts take half an hour.
[[ " ${wanted[*]} " != *" windows "* ]] || tools/release/windows.sh --check
for one in "${wanted[@]}"; do
  case $one in
    static | packages | wheel | source | windows | debian) "make_$one" ;;
    *) echo "release: no part '$one'" >&2; usage ;;
  esac
  echo "release: $one done"
done
[ "${wanted[*]}" != debian ] || exit 0

inside=()
programs=$(find build/static build/static-arm64 -maxdepth 1 -name parts 2>/dev/null | sed -n 1p || true)
[ -z "$programs" ] || inside+=(--part "program=$programs")
if compgen -G 'build/wheel-*' >/dev/null; then
  { printf '%s\n' libpcre2-dev libutf8proc-dev libfmt-dev nlohmann-json3-dev "gcc-$(gcc -dumpversion)-base"; echo "ziglang $("$tools/bin/python" -m ziglang version)"; } >"$work/wheel"
  inside+=(--part "wheel=$work/wheel")
fi
zip=$out/llada-$version-windows-x86_64.zip
if [ -f "$zip" ]; then
  python3 -m zipfile -l "$zip" | sed -nE 's,.*/licences/((gcc-|mingw-)[^ ]*|[^ ]*-dev) .*,\1,p' >"$work/windows"
  inside+=(--part "windows=$work/windows")
fi
python3 tools/release/bill.py "$out" --version "$version" "${inside[@]}" >/dev/null
(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\n' | sort | xargs sha256sum >"$work/sums" && mv "$work/sums" SHA256SUMS)
ls -l "$out"
