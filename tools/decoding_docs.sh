#!/usr/bin/env bash
# Measures the strategies of docs/decoding.md on eval/eval_public.jsonl and writes that page's tables.
# Takes about twenty minutes of two cores; tasks that are measured already are kept (remove OUT to start again).
# usage: decoding_docs.sh [task...]   tasks: gsm-mini json sort bool choice (all by default)
#   LLADA   the program (build/release/bin/llada)      MODEL  a model (the shipped one as F16 GGUF)
#   OUT     where reports go (build/decoding)          EXAMPLES  of each task (200)
#   WRAP    a command in front of every measurement, e.g. taskset -c 0,1
set -euo pipefail
cd "$(dirname "$0")/.."
llada=${LLADA:-build/release/bin/llada}
out=${OUT:-build/decoding}
examples=${EXAMPLES:-200}
tasks=("$@")
[ $# -gt 0 ] || tasks=(gsm-mini json sort bool choice)
mkdir -p "$out"
model=${MODEL:-$out/tiny-llada-f16.gguf}
[ -n "${MODEL:-}" ] || [ -e "$model" ] || "$llada" convert models/tiny-llada "$model" --type f16

# table|name|options
cat >"$out/strategies.txt" <<'LIST'
ladder|reference|
ladder|block cache|--kv block
ladder|+ threshold|--kv block --threshold 0.9
LIST

compare=()
while IFS='|' read -r _ name options; do
  [ "$name" = reference ] || compare+=(--compare "$name: $options")
done < <(sort -u -t'|' -k2,2 "$out/strategies.txt")
for task in "${tasks[@]}"; do
  [ ! -s "$out/$task.json" ] || continue
  grep "\"task\": \"$task\"" eval/eval_public.jsonl >"$out/$task.jsonl"
  ${WRAP:-} "$llada" eval -m "$model" --tasks "$out/$task.jsonl" --limit "$examples" --reference "$out/$task.reference" \
    --json "${compare[@]}" >"$out/$task.json.part"
  mv "$out/$task.json.part" "$out/$task.json"
done
python3 tools/decoding_tables.py "$out" docs/decoding.md
