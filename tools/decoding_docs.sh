#!/usr/bin/env bash
# Measures the strategies of docs/lab/decoding.md and long-answers.md, writes their tables and draws them. What is measured
# already is kept: remove OUT to start again.
# usage: decoding_docs.sh [table...]   tables: ladder presets repair (all by default, an hour of two cores, half of
#                                      them for the references), long (four hours of a core) and long-reference (half an hour)
#   LLADA   the program (build/release/bin/llada)      MODEL  a model (the shipped ones as F16 GGUF)
#   OUT     where reports go (build/decoding)          WRAP   a command in front of every measurement
#   TASKS   (those of the table)
#   LIMIT   examples of each task (200; 100 of repair; 25 of long-reference)
set -euo pipefail
cd "$(dirname "$0")/.."
llada=${LLADA:-build/release/bin/llada}
out=${OUT:-build/decoding}
tables=("$@")
[ $# -gt 0 ] || tables=(ladder presets repair)
mkdir -p "$out"

# The shipped model of this name as F16.
f16() {
  [ -e "$out/$1-f16.gguf" ] || "$llada" convert "models/$1" "$out/$1-f16.gguf" --type f16 >&2
  echo "$out/$1-f16.gguf"
}

# tables|name|options. The reference runs in every table but long, and is measured once.
cat >"$out/strategies.txt" <<'LIST'
ladder|block cache|--kv block
ladder|block cache, threshold|--kv block --threshold 0.9
ladder|block cache, threshold, MBSD|--kv block --threshold 0.9 --mbsd --mbsd-trigger 12
ladder|block cache, threshold, revision|--kv block --revision dual-path
ladder|threshold|--threshold 0.9
ladder|threshold, MBSD|--threshold 0.9 --mbsd --mbsd-trigger 12
ladder|threshold, revision|--revision dual-path
presets|balanced|--preset-decode balanced
presets|fast|--preset-decode fast
presets|threshold 0.9|--threshold 0.9
presets|threshold 0.7|--threshold 0.7
long|block cache|--kv block
long long-reference|block cache, gate|--kv block --threshold 1 --entropy-gate 0.2
long|block cache, MBSD|--kv block --threshold 1 --entropy-gate 0.2 --mbsd --mbsd-trigger 12 --mbsd-threshold 0.9
long long-reference|block cache, MBSD, revision|--kv block --entropy-gate 0.2 --mbsd --mbsd-trigger 12 --mbsd-threshold 0.9 --revision dual-path --threshold 0.9 --stable-threshold 0.99
long|block cache, revision|--kv block --entropy-gate 0.2 --revision dual-path --threshold 0.9 --stable-threshold 0.99
long|block cache, threshold, gate|--kv block --threshold 0.9 --entropy-gate 0.2
long|block cache, threshold|--kv block --threshold 0.98
long|frozen, gate|--kv frozen --threshold 1 --entropy-gate 0.2
long|frozen, MBSD|--kv frozen --threshold 1 --entropy-gate 0.2 --mbsd --mbsd-trigger 12 --mbsd-threshold 0.9 --latency-table 32:1
long|frozen, MBSD, revision|--kv frozen --entropy-gate 0.2 --mbsd --mbsd-trigger 12 --mbsd-threshold 0.9 --latency-table 32:1 --revision dual-path --threshold 0.9 --stable-threshold 0.99
long long-reference|balanced|--preset-decode balanced
long long-reference|sliding by 64, revision|--kv dual --slide --block-length 64 --tail 16 --entropy-gate 0.2 --revision dual-path --threshold 0.9 --stable-threshold 0.99
long long-reference|sliding by 32, refreshed, revision|--kv dual --refresh-after 48 --slide --tail 16 --entropy-gate 0.2 --revision dual-path --threshold 0.9 --stable-threshold 0.99
repair|t32 .99|--tail 32 --threshold 0.99
repair|t32 .97|--tail 32 --threshold 0.97
repair|t32 .9|--tail 32 --threshold 0.9
repair|rev .9/.99|--tail 32 --revision dual-path --threshold 0.9 --stable-threshold 0.99
repair|rev .97/.99|--tail 32 --revision dual-path --threshold 0.97 --stable-threshold 0.99
repair|mbsd .97|--tail 32 --threshold 0.97 --mbsd
LIST

for table in "${tables[@]}"; do
  examples=200 tasks="gsm-mini json sort bool choice" set=eval_public name=tiny-llada common="--gen-length 128"
  case $table in
    repair) examples=100 tasks="gsm-mini json sort" set=tuning ;;
    long*) tasks="story records sort-steps rewrite form count" set=long_public name=tiny-llada-long
      common="--gen-length auto:384" ;;&
    long-reference) examples=25 ;;
  esac
  examples=${LIMIT:-$examples}
  model=${MODEL:-$(f16 $name)}
  compare=()
  while IFS='|' read -r of strategy options; do
    start="--preset-decode exact "
    [[ $options != *--preset-decode* ]] || start=
    [[ " $of " != *" $table "* ]] || compare+=(--compare "$strategy: $start$common $options")
  done <"$out/strategies.txt"
  mkdir -p "$out/$table"
  # What phones would take for the same forwards is modelled from a recording of them. With everything recomputed for every
  # token a long answer takes ten times as long as in all other ways together, so the reference has a table of its own, of
  # fewer examples; a likelihood in one forward per token would take longer still.
  if [ "$table" = long ]; then
    for profile in sm8750-paper v79-8elite; do
      "$llada-study" simulate --profile $profile --latency 1,32,64,128,256,512,768 --latency-logits 32 --json >"$out/long/$profile.latency"
    done
  fi
  for task in ${TASKS:-$tasks}; do
    report=$out/$table/$task.json
    grep "\"task\": \"$task\"" eval/$set.jsonl >"$out/$task.$set.jsonl"
    [ ! -s "$report" ] || continue
    case $table in
      long) extra=(--no-reference --record "$out/long/$task.recording") ;;
      long-reference) extra=(--reference "$out/$task.reference" --likelihood-groups 4) ;;
      *) extra=(--reference "$out/$task.reference") ;;
    esac
    ${WRAP:-} "$llada" eval -m "$model" --tasks "$out/$task.$set.jsonl" --limit $examples "${extra[@]}" --json \
      "${compare[@]}" >"$report.part"
    mv "$report.part" "$report"
  done
done
for page in docs/lab/decoding.md docs/lab/long-answers.md; do python3 tools/decoding_tables.py "$out" "$page"; done
tools/decoding_chart.py
