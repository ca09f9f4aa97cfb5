#!/usr/bin/env bash
# Asks `llada serve` with clients that others wrote: tests/clients, then a fuzzing client of its OpenAPI description,
# which may find no answer 5xx. Needs what `tools/setup.sh clients` installs; LLADA names another program.
# usage: clients.sh [test files, as in "page openai"; "fuzz" for the last part; all by default]
set -euo pipefail
cd "$(dirname "$0")/.."
export LLADA=${LLADA:-$PWD/build/release/bin/llada} PYTHONPATH=tests/clients PYTHONDONTWRITEBYTECODE=1
parts=("$@")
[ $# -gt 0 ] || parts=(openai batches langchain others protocols matrix lm_eval docs proxy page fuzz)

modules=() fuzz=
for part in "${parts[@]}"; do
  if [ "$part" = fuzz ]; then fuzz=1; else modules+=("${part}_test"); fi
done
[ ${#modules[@]} = 0 ] || build/clients/bin/python -W ignore -m unittest "${modules[@]}"
[ -z "$fuzz" ] || build/clients/bin/python tests/clients/fuzz_openapi.py
