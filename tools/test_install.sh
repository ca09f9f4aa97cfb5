#!/usr/bin/env bash
# Installs the release build into a folder of its own, moves the build away, and uses what is installed as a stranger would:
# a C program with pkg-config, a C++ program with find_package, the program, its manual pages and completions, a wheel of
# them in a fresh environment. Then the Debian packages, by lintian where that is installed.
# usage: test_install.sh (after the release build)
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD build=$PWD/build/release away=$PWD/build/release.away
place=$(mktemp -d)
back() { if [ -d "$away" ]; then rm -rf "$build"; mv "$away" "$build"; fi; rm -rf "$place"; }
trap back EXIT
fail() { echo "install: $*" >&2; exit 1; }

cmake --install "$build" --prefix "$place/usr" >/dev/null
tools/release.sh "$place/out" debian >/dev/null || fail "the packages"
for again in first second; do
  mkdir "$place/$again"
  SOURCE_DATE_EPOCH=1700000000 tools/release/wheel.py "$place/$again" --library "$build/src/api/libllada.so" --tree "$place/usr" \
    --platform "linux_$(uname -m)" >/dev/null || fail "the wheel"
done
mv "$build" "$away"
export LD_LIBRARY_PATH=$place/usr/lib PATH=$place/usr/bin:$PATH PKG_CONFIG_PATH=$place/usr/lib/pkgconfig
model=$source/models/tiny-llada prompt='Write as JSON: Eric is 31 years old, lives in Oslo and works as a baker.'

echo "install: the program"
llada run -m "$model" "$prompt" --threshold 0.9 -q </dev/null >"$place/answer"
grep -q '"name": "Eric"' "$place/answer" || fail "the program's answer is $(cat "$place/answer")"

echo "install: the shipped model by its name"
sorted() { [ "$1" = '3 6 38 41 51' ] || fail "$2 answered '$1', needed '3 6 38 41 51'"; }
prompt_of_sort='Sort the numbers from smallest to largest: 38 41 6 51 3'
sorted "$(cd "$place" && llada run tiny-llada "$prompt_of_sort" -q </dev/null)" "the program"
status=0
llada >"$place/said" 2>"$place/guide" </dev/null || status=$?
[ $status = 2 ] && [ ! -s "$place/said" ] || fail "llada alone ended with $status"
sed -n 's/^  llada run //p' "$place/guide" >"$place/line"
sorted "$(eval "llada run $(cat "$place/line") -q" </dev/null)" "the line that llada alone tells,"
mv "$place/usr/share/llada" "$place/hidden"
if llada run tiny-llada "$prompt_of_sort" </dev/null 2>"$place/said"; then fail "an answer without a model"; fi
grep -q "^llada run: tiny-llada: found no $place/usr/share/llada/tiny-llada.gguf, needed" "$place/said" || fail "$(cat "$place/said")"
[ "$(wc -l <"$place/said")" = 1 ] || fail "not one line: $(cat "$place/said")"
mv "$place/hidden" "$place/usr/share/llada"

echo "install: a wheel"
cmp "$place"/first/*.whl "$place"/second/*.whl || fail "two wheels of the same files differ"
/usr/bin/python3 -m venv "$place/venv" || fail "python3 has no venv"
"$place/venv/bin/pip" install -q --disable-pip-version-check --no-index "$place"/first/*.whl
sorted "$(cd "$place" && env -i "$place/venv/bin/llada" run tiny-llada "$prompt_of_sort" -q </dev/null)" "the wheel's program"
sorted "$(cd "$place" && env -i PATH=/nowhere "$place/venv/bin/python" -c '
import sys, llada
with llada.Model.load("tiny-llada") as model:
    print(model.generate(sys.argv[1]))' "$prompt_of_sort")" "the wheel's package"
"$place/venv/bin/pip" uninstall -q -y llada
[ -z "$(find "$place/venv" -name '*llada*' -print -quit)" ] || fail "pip left $(find "$place/venv" -name '*llada*' | head -3)"

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
packages=("$place"/out/debian/*.deb)
printf '  %s\n' "${packages[@]##*/}"
[ ${#packages[@]} = 4 ] || fail "not four packages"
dpkg-deb -x "$place"/out/debian/llada_*.deb "$place/root"
unit=$place/root/usr/lib/systemd/system/llada.service
started=$(sed -n 's/^ExecStart=\([^ ]*\) serve .*/\1/p' "$unit")
[ -x "$place/root$started" ] || fail "the unit starts '$started', which the package does not have"
if command -v systemd-analyze >/dev/null; then  # 10 of its points are 1.0
  systemd-analyze security --offline=true --threshold=20 "$unit" >"$place/exposure" ||
    fail "the unit: $(tail -n 1 "$place/exposure")"
  tail -n 1 "$place/exposure"
else
  echo "install: systemd-analyze is not installed; the unit is not checked"
fi
if command -v lintian >/dev/null; then
  lintian --allow-root --fail-on error,warning "${packages[@]}" || fail lintian
else
  echo "install: lintian is not installed; the packages are not checked"
fi
echo "install: passed"
