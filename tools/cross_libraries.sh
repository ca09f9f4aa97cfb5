#!/usr/bin/env bash
# The libraries that llada stands on, from Debian's sources, as archives for another system: PCRE2, utf8proc, SQLite; and
# the headers of fmt, CLI11, nlohmann-json and Boost, which are this machine's.
# usage: cross_libraries.sh FOLDER "COMPILER OPTIONS" ARCHIVER
set -euo pipefail
libraries=$(realpath -m "$1") cc="$2 -O2 -I." ar=$3
[ ! -e "$libraries/done" ] || exit 0

need() { command -v "$1" >/dev/null || { echo "cross_libraries.sh: found no $1, needed the package $2" >&2; exit 1; }; }
need dpkg-source dpkg-dev
need tclsh tcl

# Debian's source packages, whose lists the machine need not have: fetched beside them, unpacked, not patched.
fetch_sources() {
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
  printf 'prefix=%s\nName: %s\nDescription: %s\nVersion: %s\nLibs: -L${prefix}/lib -l%s\nCflags: -I${prefix}/include %s\n' \
    "$libraries" "$1" "$1" "$3" "$2" "${4:-}" >"$libraries/lib/pkgconfig/$1.pc"
}

# headers PACKAGE TARGET [DEFINITION]: what find_package() reads.
headers() {
  mkdir -p "$libraries/lib/cmake/$1"
  echo "add_library($1::$2 INTERFACE IMPORTED)
target_include_directories($1::$2 INTERFACE $libraries/include)
target_compile_definitions($1::$2 INTERFACE ${3:-})" >"$libraries/lib/cmake/$1/$1Config.cmake"
}

rm -rf "$libraries"
mkdir -p "$libraries"/{lib/pkgconfig,include,source}
pushd "$libraries/source" >/dev/null
fetch_sources
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
