#!/usr/bin/env bash
# Writes tests/data/geometry again: the peaked models' logits and answers by the forward in double arithmetic
# (tests/geometry). A minute on one core; needed only when tests/geometry/peaked_model.cc changes what the models are.
# usage: geometry_goldens.sh [NAME...]
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release -DLLADA_TESTS=ON >/dev/null
cmake --build --preset release --target make_goldens -- --quiet
build/release/bin/make_goldens tests/data/geometry "$@"
