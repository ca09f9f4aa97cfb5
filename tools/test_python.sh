#!/usr/bin/env bash
# The Python package, after a release build: its tests against that build, types, then as a user gets it: an sdist, a
# wheel from the sdist alone, repaired so that it brings its libraries, in a fresh environment without a compiler, and
# imported by every Python from 3.9 on that is installed.
# usage: test_python.sh [tests]   tests: those alone, with Debian's pytest; else needs tools/setup.sh python
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD tools=$PWD/build/python-tools/bin
export PYTHONDONTWRITEBYTECODE=1 LLADA_CLI=$source/build/release/bin/llada
tests() {  # python
  LLADA_LIBRARY=$source/build/release/src/api/libllada.so "$1" -m pytest python/tests -q -p no:cacheprovider -rs
}
if [ "${1:-}" = tests ]; then tests /usr/bin/python3; exit; fi
place=$(mktemp -d "$source/build/python.XXXXXX")
trap 'rm -rf "$place"' EXIT
fail() { echo "python: $*" >&2; exit 1; }

echo "python: tests"
tests "$tools/python"

echo "python: types, and nothing that Python 3.9 lacks"
"$tools/mypy" --cache-dir "$place/mypy"
"$tools/vermin" -q -t=3.9- --no-tips python/llada examples/python

# The build folder is as deep as the release build's and the compiler has the name that it has there, so that ccache
# knows its files; without it this is a whole build.
echo "python: sdist and wheel"
"$tools/python" -m build -n -s -o "$place" . >"$place/log" 2>&1 || { tail -20 "$place/log"; fail "no sdist"; }
tar -xzf "$place"/llada-*.tar.gz -C "$place"
[ "$(du -sm "$place"/llada-*/ | cut -f1)" -lt 20 ] || fail "the sdist has more than 20 MB"
export CC=${CC:-$(command -v cc)} CXX=${CXX:-$(command -v c++)}
(cd "$place"/llada-*/ && "$tools/python" -m build -n -w -C build-dir=build/wheel -o "$place/wheel" . \
  >"$place/log" 2>&1) || { tail -20 "$place/log"; fail "no wheel"; }
wheel=$(basename "$place"/wheel/*)
[[ $wheel == llada-*-py3-none-linux_*.whl ]] || fail "found $wheel, needed one wheel for every Python"
PATH=$tools:$PATH "$tools/auditwheel" repair -w "$place/repaired" "$place/wheel/$wheel" >"$place/log" 2>&1 ||
  { cat "$place/log"; fail auditwheel; }
basename "$place"/repaired/*-manylinux_*.whl
unzip -l "$place"/repaired/*.whl | grep 'llada/py.typed' >/dev/null || fail "no py.typed in the wheel"

echo "python: the wheel alone"
/usr/bin/python3 -m venv "$place/fresh"
"$place/fresh/bin/pip" install -q --disable-pip-version-check --no-index "$place"/repaired/*.whl
model=$source/models/tiny-llada prompt='Write as JSON: Eric is 31 years old, lives in Oslo and works as a baker.'
alone() { (cd "$place" && env -i HOME="$place" PATH=/nowhere LANG=C.UTF-8 "$place/fresh/bin/python" "$@"); }
alone "$source/examples/python/generate.py" "$model" "$prompt" >"$place/answer"
grep -q '"name": "Eric"' "$place/answer" || fail "the answer is $(cat "$place/answer")"
alone -c '
import importlib.metadata, llada, sys
assert llada.__version__ == importlib.metadata.version("llada"), "versions differ"
assert "numpy" not in sys.modules and "site-packages" in llada.__file__' || fail "the wheel"
checked=
for minor in {9..20}; do
  "python3.$minor" --version >/dev/null 2>&1 || continue
  "$place/fresh/bin/pip" install -q --disable-pip-version-check --no-index --no-deps --only-binary=:all: \
    --python-version "3.$minor" --target "$place/3.$minor" "$place"/repaired/*.whl
  PYTHONPATH=$place/3.$minor "python3.$minor" "$source/examples/python/generate.py" "$model" "$prompt" >"$place/answer"
  grep -q '"name": "Eric"' "$place/answer" || fail "Python 3.$minor: the answer is $(cat "$place/answer")"
  checked+=" 3.$minor"
done
echo "python: the wheel answers in$checked"
echo "python: passed"
