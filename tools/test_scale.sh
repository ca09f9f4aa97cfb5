#!/usr/bin/env bash
# Work beyond one process (docs/scale.md), after a release build: llada.ray on a cluster of four nodes of this machine, some
# of which are killed, and the files of deploy/. Needs a Python with ray[data,serve], fsspec, openai and PyYAML:
# LLADA_SCALE_PYTHON, or build/scale/bin/python; says SKIPPED where there is none. Checkers are looked for beside that
# Python and in build/prometheus.
# usage: test_scale.sh [unittest's words, such as deploy_test or ray_test.DataSets]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${LLADA_SCALE_PYTHON:-build/scale/bin/python}
if ! "$python" -c 'import ray.data, ray.serve, fsspec, openai, yaml' 2>/dev/null; then
  echo "scale: SKIPPED: found no Python with ray[data,serve], fsspec, openai and PyYAML (tools/setup.sh scale)"
  exit 0
fi
export LLADA=${LLADA:-$PWD/build/release/bin/llada} PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tests/scale:tests/clients
export LLADA_PROGRAM=$LLADA PATH=$PWD/build/prometheus/usr/bin:$(dirname "$python"):$PATH
[ $# -gt 0 ] || set -- cluster_model_test deploy_test ray_test
"$python" -W ignore -m unittest -v "$@"
