#!/usr/bin/env bash
# llada.exe and llada.dll for 64-bit Windows, by Debian's mingw-w64: the preset `windows`.
#   tools/windows.sh libraries   what they stand on, from Debian's sources, into build/windows-libraries
#   tools/windows.sh build       that where it is missing, then the program and the library
#   tools/windows.sh zip DIR     these in DIR/llada-VERSION-windows-x86_64.zip
# tools/test_windows.sh runs them under wine.
set -euo pipefail
cd "$(dirname "$0")/.."
libraries=$PWD/build/windows-libraries
host=x86_64-w64-mingw32

need() { command -v "$1" >/dev/null || { echo "tools/windows.sh: found no $1, needed the package $2" >&2; exit 1; }; }

# Debian's source packages, whose lists the machine need not have: fetched beside them, unpacked, not patched.
fetch_sources() {
  need dpkg-source dpkg-dev
  local site options
  site=$(apt-get indextargets --format '$(SITE) $(RELEASE) main' 'Created-By: Packages' 'Component: main' | sed -n 1p)
  mkdir -p lists/partial archives/partial
  echo "deb-src $site" >sources.list
  options=(-o "Dir::Etc::sourcelist=$PWD/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$PWD/lists"
           -o "Dir::Cache::archives=$PWD/archives" -o APT::Sandbox::User=root -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
  apt-get "${options[@]}" -qq update
  apt-get "${options[@]}" -qq source --download-only pcre2 utf8proc sqlite3
  for archive in pcre2_*.orig.tar.* utf8proc_*.orig.tar.* sqlite3_*.orig.tar.*; do tar xf "$archive"; done
}

# pc NAME LIBRARY VERSION: what pkg-config tells of an archive.
pc() {
  printf 'prefix=%s\nName: %s\nDescription: %s\nVersion: %s\nLibs: -L${prefix}/lib -l%s %s\nCflags: -I${prefix}/include %s\n' \
    "$libraries" "$1" "$1" "$3" "$2" "" "${4:-}" >"$libraries/lib/pkgconfig/$1.pc"
}

libraries() {
  [ -e "$libraries/done" ] && return
  need $host-gcc-posix g++-mingw-w64-x86-64-posix
  need tclsh tcl
  rm -rf "$libraries"
  mkdir -p "$libraries"/{lib/pkgconfig,include,source}
  pushd "$libraries/source" >/dev/null
  fetch_sources
  local cc="$host-gcc-posix -O2 -I." ar=$host-gcc-ar-posix
  pushd pcre2-*/src >/dev/null
  cp config.h.generic config.h && cp pcre2.h.generic pcre2.h && cp pcre2_chartables.c.dist pcre2_chartables.c
  for file in auto_possess chartables compile config context convert dfa_match error extuni find_bracket jit_compile \
              maketables match match_data newline ord2utf pattern_info script_run serialize string_utils study \
              substitute substring tables ucd valid_utf xclass; do
    $cc -DHAVE_CONFIG_H -DPCRE2_CODE_UNIT_WIDTH=8 -DPCRE2_STATIC -DSUPPORT_UNICODE -DSUPPORT_PCRE2_8 -c pcre2_$file.c
  done
  $ar rcs "$libraries/lib/libpcre2-8.a" pcre2_*.o
  cp pcre2.h "$libraries/include"
  popd >/dev/null
  pc libpcre2-8 pcre2-8 "$(basename pcre2-* | cut -d- -f2)" -DPCRE2_STATIC
  pushd utf8proc-* >/dev/null
  $cc -DUTF8PROC_STATIC -c utf8proc.c
  $ar rcs "$libraries/lib/libutf8proc.a" utf8proc.o
  cp utf8proc.h "$libraries/include"
  popd >/dev/null
  pc libutf8proc utf8proc "$(basename utf8proc-* | cut -d- -f2)" -DUTF8PROC_STATIC
  pushd sqlite3-* >/dev/null
  ./configure --disable-tcl --disable-readline >configure.log
  make -s sqlite3.c >make.log
  $cc -DSQLITE_THREADSAFE=1 -DSQLITE_OMIT_LOAD_EXTENSION -c sqlite3.c
  $ar rcs "$libraries/lib/libsqlite3.a" sqlite3.o
  cp sqlite3.h "$libraries/include"
  popd >/dev/null
  pc sqlite3 sqlite3 "$(basename sqlite3-* | cut -d- -f2)"
  popd >/dev/null
  # Libraries of headers alone are those of this machine.
  for folder in fmt CLI nlohmann boost; do ln -s "/usr/include/$folder" "$libraries/include/$folder"; done
  headers fmt fmt-header-only FMT_HEADER_ONLY
  headers CLI11 CLI11
  headers nlohmann_json nlohmann_json
  touch "$libraries/done"
}

# headers PACKAGE TARGET [DEFINITION]: what find_package() reads.
headers() {
  mkdir -p "$libraries/lib/cmake/$1"
  echo "add_library($1::$2 INTERFACE IMPORTED)
target_include_directories($1::$2 INTERFACE $libraries/include)
target_compile_definitions($1::$2 INTERFACE ${3:-})" | sed "s/^add_library(fmt::fmt-header-only/&/" >"$libraries/lib/cmake/$1/$1Config.cmake"
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
    build
    version=$(sed -n 's/^project(llada VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
    name=llada-$version-windows-x86_64
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    mkdir -p "$folder/$name"/{include/llada,licences}
    cp build/windows/bin/llada.exe build/windows/bin/llada.dll "$folder/$name"
    cp build/windows/src/api/libllada.dll.a LICENSE README.md CHANGELOG.md "$folder/$name"
    cp include/llada/llada.h "$folder/$name/include/llada"
    $host-strip "$folder/$name"/llada.exe "$folder/$name"/llada.dll
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
