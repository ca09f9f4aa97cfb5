#!/usr/bin/env bash
# Runs the fuzz targets for SECONDS in all, shared evenly. The corpus grows in build/fuzz/corpus. usage: fuzz.sh [SECONDS]
set -uo pipefail
cd "$(dirname "$0")/.."
cmake --preset fuzz >/dev/null && cmake --build --preset fuzz -- --quiet || exit 1
targets=(build/fuzz/bin/fuzz_*)
each=$(((${1:-60} + ${#targets[@]} - 1) / ${#targets[@]}))
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
for target in "${targets[@]}"; do
  name=$(basename "$target")
  mkdir -p "build/fuzz/corpus/$name"
  dirs=("build/fuzz/corpus/$name")
  [ -d "fuzz/seeds/$name" ] && dirs+=("fuzz/seeds/$name")
  if "$target" -max_total_time="$each" -timeout=5 -rss_limit_mb=2048 -print_final_stats=1 "${dirs[@]}" >"$log" 2>&1; then
    echo "$name: $(sed -n 's/stat::number_of_executed_units: *//p' "$log") inputs in ${each}s, no finding"
  else
    status=1
    echo "$name: FAILED"
    tail -n 40 "$log"
  fi
done
exit $status
