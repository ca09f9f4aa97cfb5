#!/usr/bin/env bash
# Installs the release build into a folder of its own, moves the build away, and uses what is installed as a stranger would:
# a C program with pkg-config, a C++ program with find_package, the program, its manual pages and completions. Then the
# Debian packages, by lintian where that is installed. usage: test_install.sh (after the release build)
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD build=$PWD/build/release away=$PWD/build/release.away
place=$(mktemp -d)
back() { if [ -d "$away" ]; then rm -rf "$build"; mv "$away" "$build"; fi; rm -rf "$place"; }
trap back EXIT
fail() { echo "install: $*" >&2; exit 1; }

cmake --install "$build" --prefix "$place/usr" >/dev/null
tools/debian.sh "$place/packages" || fail "the packages"
mv "$build" "$away"
export LD_LIBRARY_PATH=$place/usr/lib PATH=$place/usr/bin:$PATH PKG_CONFIG_PATH=$place/usr/lib/pkgconfig
model=$source/models/tiny-llada prompt='Write as JSON: Eric is 31 years old, lives in Oslo and works as a baker.'

echo "install: the program"
llada run -m "$model" "$prompt" --threshold 0.9 -q </dev/null >"$place/answer"
grep -q '"name": "Eric"' "$place/answer" || fail "the program's answer is $(cat "$place/answer")"

echo "install: C with pkg-config"
[ "$(pkg-config --modversion llada)" = "$(llada --version | sed -n 's/^llada \([^ ]*\).*/\1/p')" ] || fail "versions differ"
# shellcheck disable=SC2046
cc -std=c99 -Wall -Wextra -Werror examples/generate.c -o "$place/generate" $(pkg-config --cflags --libs llada)
"$place/generate" "$model" "$prompt" threshold=0.9 2>/dev/null >"$place/answer.c"
cmp "$place/answer" "$place/answer.c" || fail "C's answer is not the program's"
cc -std=c99 -Wall -Wextra -Werror examples/infill.c -o "$place/infill" $(pkg-config --cflags --libs llada)
gaps='Ken has 20+6=<mask:2> puzzles. Theo has 26-3=<mask:2> puzzles.'
"$place/infill" "$model" "$gaps" | head -1 >"$place/filled.c"
llada infill -m "$model" --text "$gaps" -q >"$place/filled"
cmp "$place/filled" "$place/filled.c" || fail "C's infilled text is not the program's"

echo "install: C++ with find_package"
cmake -S tests/install -B "$place/consumer" -DEXAMPLES="$source/examples" -DCMAKE_PREFIX_PATH="$place/usr" >/dev/null
cmake --build "$place/consumer" >/dev/null
"$place/consumer/consumer" "$model" <<<"$prompt" 2>/dev/null >"$place/answer.cc"
cmp "$place/answer" "$place/answer.cc" || fail "C++'s answer is not the program's"

echo "install: manual pages and completions"
for page in "$place"/usr/share/man/man1/*.gz; do
  zcat "$page" | groff -man -Tutf8 -ww -z 2>"$place/roff" || fail "$page"
  [ ! -s "$place/roff" ] || fail "$page: $(head -3 "$place/roff")"
done
pages=$(find "$place/usr/share/man/man1" -name 'llada*.1.gz' | wc -l)
[ "$pages" = $(($({ llada --help; llada-study --help; } | grep -cE '^  [a-z]+ {2,}') + 2)) ] || fail "not a page for every command"
complete_bash() {  # words... -> completions of the last
  bash -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "_${1//-/_}"; printf "%s\n" "${COMPREPLY[@]}"' - \
    "$place/usr/share/bash-completion/completions/$1" "$@"
}
[ "$(complete_bash llada run --gen-l)" = --gen-length ] || fail "bash: --gen-l"
[ "$(complete_bash llada run --accept dream-m | sort | tr '\n' ' ')" = "dream-margin dream-maskgit " ] || fail "bash: --accept dream-m"
[ "$(complete_bash llada convert --type q4 | tr '\n' ' ')" = "q4_k_m q4_k_s q4_1 q4_0 " ] || fail "bash: convert --type q4"
[ "$(complete_bash llada run --preset-decode ba)" = balanced ] || fail "bash: --preset-decode ba"
complete_bash llada ru | grep -qx run || fail "bash: ru"
complete_bash llada-study sim | grep -qx simulate || fail "bash: llada-study sim"
[ "$(complete_bash llada-study run --gen-l)" = --gen-length ] || fail "bash: llada-study run --gen-l"
for shell in zsh fish; do
  if ! command -v $shell >/dev/null; then echo "install: $shell is not installed; its completion is not checked"; continue; fi
  case $shell in
    zsh) zsh -n "$place/usr/share/zsh/vendor-completions/_llada" || fail zsh ;;
    fish) fish -c "source $place/usr/share/fish/vendor_completions.d/llada.fish; complete -C 'llada run --gen-l'" |
        grep -q -- --gen-length || fail fish ;;
  esac
done

echo "install: Debian packages"
ls "$place/packages"/*.deb | sed 's/.*\//  /'
[ "$(ls "$place/packages"/*.deb | wc -l)" = 4 ] || fail "not four packages"
if command -v lintian >/dev/null; then
  lintian --allow-root --fail-on error,warning "$place/packages"/*.deb || fail lintian
else
  echo "install: lintian is not installed; the packages are not checked"
fi
echo "install: passed"
