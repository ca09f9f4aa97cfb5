#!/usr/bin/env bash
# Runs every fuzz target for SECONDS in all, shared evenly, from its seed corpus. usage: fuzz.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -- --quiet
targets=(build/fuzz/bin/fuzz_*)
each=$(( (${1:-60} + ${#targets[@]} - 1) / ${#targets[@]} ))
for target in "${targets[@]}"; do
  name=$(basename "$target")
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus"
  seeds=()
  [ -d "fuzz/seeds/$name" ] && seeds=("fuzz/seeds/$name")
  echo "== $name for ${each}s"
  "$target" -max_total_time="$each" -timeout=5 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 "$corpus" "${seeds[@]}" 2>&1 | grep -E 'ERROR|SUMMARY|stat::number_of_executed|BINGO' || true
  [ "${PIPESTATUS[0]}" = 0 ]
done
