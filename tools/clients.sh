#!/usr/bin/env bash
# Asks `llada serve` with clients that others wrote: tests/clients, then a fuzzing client of its OpenAPI description,
# which may find no answer 5xx, then 32 clients of every protocol at once for some seconds (serve_load.py). Needs what
# `tools/setup.sh clients` installs; LLADA names another program.
# usage: clients.sh [test files, as in "page openai"; "fuzz" and "load" for the last parts; all by default]
set -euo pipefail
cd "$(dirname "$0")/.."
export LLADA=${LLADA:-$PWD/build/release/bin/llada} PYTHONPATH=tests/clients PYTHONDONTWRITEBYTECODE=1
parts=("$@")
[ $# -gt 0 ] || parts=(openai batches langchain others protocols tools matrix lm_eval docs proxy page fuzz load)

modules=() fuzz='' load='' older=()
for part in "${parts[@]}"; do
  case $part in
    fuzz) fuzz=1 ;;
    load) load=1 ;;
    page) modules+=(page{,_look,_talks,_forms,_safety,_careless}_test) ;;
    tools)
      modules+=(tools_test.{OpenAi,PydanticAi,LangChain,Smolagents,AgentsSdk,Others})
      older+=(tools_test.{Instructor,LlamaIndex}) ;;
    *) modules+=("${part}_test") ;;
  esac
done
[ ${#modules[@]} = 0 ] || build/clients/bin/python -W ignore -m unittest "${modules[@]}"
[ ${#older[@]} = 0 ] || build/clients-older/bin/python -W ignore -m unittest "${older[@]}"
[ -z "$fuzz" ] || build/clients/bin/python tests/clients/fuzz_openapi.py
[ -z "$load" ] || tools/serve_load.py --llada "$LLADA" --clients 32 --warm-up 0.05 --minutes 0.15
