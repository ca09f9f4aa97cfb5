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
presets|balanced|--tail 16 --threshold 0.96
presets|fast|--tail 16 --threshold 0.93 --credit
presets|(between)|--tail 16 --threshold 0.95 --credit
presets|credit 0.97|--tail 16 --threshold 0.97 --credit
presets|threshold 0.9|--threshold 0.9
presets|threshold 0.7|--threshold 0.7
repair|threshold 0.97|--tail 32 --threshold 0.97
repair|threshold 0.9|--tail 32 --threshold 0.9
repair|threshold 0.8|--tail 32 --threshold 0.8
repair|dual-path revision of 0.97|--tail 32 --revise --visible-threshold 0.97 --stable-threshold 0.99
repair|dual-path revision of 0.9|--tail 32 --revise --visible-threshold 0.9 --stable-threshold 0.99
repair|dual-path revision of 0.8|--tail 32 --revise --visible-threshold 0.8 --stable-threshold 0.97
repair|the same on a separate path|--tail 32 --revise --visible-threshold 0.9 --stable-threshold 0.99 --revise-path separate
repair|WINO|--tail 32 --wino
repair|WINO, higher thresholds|--tail 32 --wino --threshold 0.8 --wino-back 0.8
repair|token editing|--tail 32 --threshold 0.9 --edit-threshold 0.9
repair|re-masking|--tail 32 --threshold 0.9 --remask-share 0.25 --remask-below 0.98
repair|credit|--tail 32 --threshold 0.97 --credit
repair|MBSD|--tail 32 --threshold 0.97 --mbsd --mbsd-trigger 12
cache|all rows|--threshold 0.97
cache|prefix|--threshold 0.97 --kv prefix
cache|dual or block|--threshold 0.97 --kv block
cache|delayed|--threshold 0.97 --kv delayed
cache|delayed, every second forward full|--threshold 0.97 --kv delayed --refresh 2
cache|all rows, tail 32|--threshold 0.97 --tail 32
cache|all rows, tail 16|--threshold 0.97 --tail 16
cache|all rows, tail 0|--threshold 0.97 --tail 0
cache|delayed, every second full, tail 16|--threshold 0.97 --tail 16 --kv delayed --refresh 2
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
