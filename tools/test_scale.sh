#!/usr/bin/env bash
# Work beyond one process (docs/scale.md), after a release build: llada.ray on a cluster of four nodes of this machine,
# some of which are killed, and the files of deploy/. Needs a Python with ray[data,serve], fsspec, openai and PyYAML:
# LLADA_SCALE_PYTHON, or build/scale/bin/python. Checkers are looked for beside that Python and in build/prometheus.
# Whatever cannot be tried has a line with SKIPPED; the exit status is 77 where nothing can. LLADA_TEST_LONG: also the
# time beside `llada batch`, and the steps of deploy/Dockerfile.
# usage: test_scale.sh [unittest's words, such as deploy_test or ray_test.DataSets]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${LLADA_SCALE_PYTHON:-build/scale/bin/python}
if ! "$python" -c 'import ray.data, ray.serve, fsspec, openai, yaml' 2>/dev/null; then
  echo "scale: SKIPPED: found no Python with ray[data,serve], fsspec, openai and PyYAML (tools/setup.sh scale)"
  exit 77
fi
export LLADA=${LLADA:-$PWD/build/release/bin/llada} PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tests/scale:tests/clients
export LLADA_PROGRAM=$LLADA PATH=$PWD/build/prometheus/usr/bin:$(dirname "$python"):$PATH
is_whole=
[ $# -gt 0 ] || { is_whole=1; set -- cluster_model_test deploy_test ray_test; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
result=0
"$python" -W ignore -m unittest -v "$@" 2>&1 | tee "$log" || result=$?
sed -n "s/.*\.\.\. skipped '\(.*\)'$/scale: SKIPPED: \1/p" "$log"
[ -n "$is_whole" ] && [ $result = 0 ] || exit $result
# The image: minutes, even with what a compiler cache has.
if [ -z "${LLADA_TEST_LONG:-}" ]; then
  echo "scale: SKIPPED: the image's steps take long: LLADA_TEST_LONG"
elif [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
  echo "scale: SKIPPED: the image's steps: needed root and debootstrap"
else
  cache=$(ccache --get-config cache_dir 2>/dev/null) || cache=
  tools/image_root.py build/image ${cache:+--ccache "$cache"}
fi
