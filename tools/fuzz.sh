#!/usr/bin/env bash
# Runs the fuzz targets for SECONDS in all, shared evenly. The corpus grows in build/fuzz/corpus. usage: fuzz.sh [SECONDS]
set -uo pipefail
cd "$(dirname "$0")/.."
cmake --preset fuzz >/dev/null && cmake --build --preset fuzz --target fuzz_gguf fuzz_safetensors fuzz_tokenizer fuzz_profile fuzz_seeds -- --quiet || exit 1
build/fuzz/bin/fuzz_seeds build/fuzz/seeds
mkdir -p build/fuzz/seeds/profile
for profile in profiles/*.json; do (printf p; cat "$profile") >"build/fuzz/seeds/profile/$(basename "$profile")"; done
printf 'dsim:v79-8elite,window=40%%,memory=lru,fail=gone:3' >build/fuzz/seeds/profile/device
targets=(build/fuzz/bin/fuzz_gguf build/fuzz/bin/fuzz_safetensors build/fuzz/bin/fuzz_tokenizer build/fuzz/bin/fuzz_profile)
each=$(((${1:-60} + ${#targets[@]} - 1) / ${#targets[@]}))
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
for target in "${targets[@]}"; do
  name=$(basename "$target")
  mkdir -p "build/fuzz/corpus/$name"
  dirs=("build/fuzz/corpus/$name")
  seeds=build/fuzz/seeds/${name#fuzz_}
  [ -d "$seeds" ] && dirs+=("$seeds")
  if "$target" -max_total_time="$each" -timeout=5 -rss_limit_mb=2048 -print_final_stats=1 "${dirs[@]}" >"$log" 2>&1; then
    echo "$name: $(sed -n 's/stat::number_of_executed_units: *//p' "$log") inputs in ${each}s, no finding"
  else
    status=1
    echo "$name: FAILED"
    tail -n 40 "$log"
  fi
done
exit $status
