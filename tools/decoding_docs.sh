#!/usr/bin/env bash
# Measures the strategies of docs/decoding.md on eval/eval_public.jsonl and writes that page's tables. Most of an hour of two
# cores, a third of it for the reference. What is measured already is kept: remove OUT to start again.
# usage: decoding_docs.sh [table...]   tables: ladder presets repair cache (all by default)
#   LLADA   the program (build/release/bin/llada)      MODEL  a model (the shipped one as F16 GGUF)
#   OUT     where reports go (build/decoding)          WRAP   a command in front of every measurement
#   TASKS   (gsm-mini json sort bool choice)
set -euo pipefail
cd "$(dirname "$0")/.."
llada=${LLADA:-build/release/bin/llada}
out=${OUT:-build/decoding}
tables=("$@")
[ $# -gt 0 ] || tables=(ladder presets repair cache)
mkdir -p "$out"
model=${MODEL:-$out/tiny-llada-f16.gguf}
[ -n "${MODEL:-}" ] || [ -e "$model" ] || "$llada" convert models/tiny-llada "$model" --type f16

# table|name|options. The reference runs in every table and is measured once.
cat >"$out/strategies.txt" <<'LIST'
ladder|block cache|--kv block
ladder|block cache, threshold|--kv block --threshold 0.9
ladder|block cache, threshold, MBSD|--kv block --threshold 0.9 --mbsd --mbsd-trigger 12
ladder|block cache, threshold, revision|--kv block --revise
ladder|block cache, threshold, MBSD, revision|--kv block --revise --mbsd --mbsd-trigger 12
ladder|threshold|--threshold 0.9
ladder|threshold, MBSD|--threshold 0.9 --mbsd --mbsd-trigger 12
ladder|threshold, revision|--revise
ladder|threshold, MBSD, revision|--revise --mbsd --mbsd-trigger 12
LIST

for table in "${tables[@]}"; do
  examples=200 tasks="gsm-mini json sort bool choice"
  case $table in repair | cache) examples=100 tasks="gsm-mini json sort" ;; esac
  compare=()
  while IFS='|' read -r of name options; do
    [ "$of" != "$table" ] || compare+=(--compare "$name: $options")
  done <"$out/strategies.txt"
  mkdir -p "$out/$table"
  for task in ${TASKS:-$tasks}; do
    report=$out/$table/$task.json
    [ ! -s "$report" ] || continue
    grep "\"task\": \"$task\"" eval/eval_public.jsonl >"$out/$task.jsonl"
    ${WRAP:-} "$llada" eval -m "$model" --tasks "$out/$task.jsonl" --limit $examples --reference "$out/$task.reference" \
      --json "${compare[@]}" >"$report.part"
    mv "$report.part" "$report"
  done
done
python3 tools/decoding_tables.py "$out" docs/decoding.md
