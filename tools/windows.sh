#!/usr/bin/env bash
# llada.exe and llada.dll for 64-bit Windows, by Debian's mingw-w64: the preset `windows`.
#   tools/windows.sh libraries   what they stand on, from Debian's sources, into build/windows-libraries
#   tools/windows.sh build       that where it is missing, then the program and the library
#   tools/windows.sh zip DIR     these in DIR/llada-VERSION-windows-x86_64.zip
# tools/test_windows.sh runs them under wine.
set -euo pipefail
cd "$(dirname "$0")/.."
host=x86_64-w64-mingw32

need() { command -v "$1" >/dev/null || { echo "tools/windows.sh: found no $1, needed the package $2" >&2; exit 1; }; }

libraries() {
  need $host-gcc-posix g++-mingw-w64-x86-64-posix
  tools/cross_libraries.sh build/windows-libraries $host-gcc-posix $host-gcc-ar-posix
}

build() {
  libraries
  cmake --preset windows >build/windows-configure.log || { cat build/windows-configure.log; exit 1; }
  cmake --build build/windows --target llada llada_shared "$@"
}

case ${1:-} in
  libraries) libraries ;;
  build) build "${@:2}" ;;
  zip)
    out=$(realpath "${2:?a folder}")
    converter=
    for program in build/{release,static}/bin/llada; do [ ! -x "$program" ] || converter=$program; done
    [ -n "$converter" ] || {
      echo "tools/windows.sh: found neither build/static/bin/llada nor build/release/bin/llada, needed one to convert" \
           "the zip's model (tools/build.sh)" >&2
      exit 1
    }
    build
    version=$(sed -n 's/^project(llada VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
    name=llada-$version-windows-x86_64
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    mkdir -p "$folder/$name"/{bin,lib,include/llada,share/llada,licences}
    cp build/windows/bin/llada.exe build/windows/bin/llada.dll "$folder/$name/bin"
    cp build/windows/src/api/libllada.dll.a "$folder/$name/lib"
    cp include/llada/llada.h "$folder/$name/include/llada"
    cp LICENSE README.md CHANGELOG.md "$folder/$name"
    SOURCE_DATE_EPOCH=0 $host-strip "$folder/$name"/bin/llada.{exe,dll}  # which else writes the time into them
    # tests/windows/windows_test.py has shown that both programs convert to the same bytes.
    $converter convert models/tiny-llada "$folder/$name/share/llada/tiny-llada.gguf" --type q4_0 >/dev/null
    for library in marked dompurify katex; do cp third_party/$library/LICENCE "$folder/$name/licences/$library"; done
    # Who gives on what is linked in gives on its licence too.
    for part in libpcre2-dev libutf8proc-dev libsqlite3-dev libfmt-dev libcli11-dev nlohmann-json3-dev libboost-dev \
                gcc-mingw-w64-base mingw-w64-common; do
      [ ! -e /usr/share/doc/$part/copyright ] || cp /usr/share/doc/$part/copyright "$folder/$name/licences/$part"
    done
    python3 - "$folder" "$name" "$out/$name.zip" <<'PYTHON'
import pathlib, sys, zipfile
folder, name, out = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
    for file in sorted((folder / name).rglob("*")):
        if file.is_file():  # one date, so that equal files give an equal archive
            entry = zipfile.ZipInfo(str(file.relative_to(folder)), (2026, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())
print(out)
PYTHON
    ;;
  *) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
