#!/usr/bin/env bash
# For a machine with an NVIDIA GPU and nvcc: builds the cuda device, runs the conformance suite and the golden tests on it,
# then measures a mixture with 25, 50 and 75 % of its experts on the GPU: hybrid, static, all on the CPU, moved on demand.
# Under ten minutes. Nothing of it has been run on a GPU yet (docs/cuda.md).
# usage: cuda_gpu.sh [build|test|table ...]   (all)
#   BUILD   build folder (build/cuda)      MODEL  a mixture for the table (LLaDA-MoE's geometry with random weights, 4 GiB)
#   LAYERS  of that model (all)            OUT    where results go (build/cuda/results)
#   ARCH    of the GPU (asked of it)
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/cuda}
out=${OUT:-$build/results}
parts=("$@")
[ $# -gt 0 ] || parts=(build test table)
mkdir -p "$out"
ended=0

build_it() {
  local arch=${ARCH:-$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)}
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLLADA_CUDA=ON "-DLLADA_CUDA_ARCHITECTURES=$arch"
  cmake --build "$build" --target llada test_cuda_gpu test_engine
  "$build/bin/llada" devices
}

test_it() {
  # GTEST_FAIL_IF_NO_TEST_SELECTED is newer than Debian's GoogleTest, so what ran is counted.
  "$build/bin/test_cuda_gpu" --gtest_filter='*/cuda' | tee "$out/conformance.log" || ended=1
  LLADA_TEST_DEVICE=cuda:fallback=none "$build/bin/test_engine" --gtest_filter='*Golden*' | tee "$out/golden.log" || ended=1
  if grep -q 'SKIPPED\|Running 0 tests' "$out/conformance.log"; then
    echo "cuda_gpu: not run on a GPU" >&2
    ended=1
  fi
}

table() {
  local model=${MODEL:-$build/llada-moe-7b-q4_0.gguf}
  [ -e "$model" ] || "$build/bin/llada" synth --preset llada-moe-7b --type q4_0 ${LAYERS:+--layers "$LAYERS"} "$model"
  local common=(-m "$model" -p 'measure' --device cuda:fallback=none --gen-length 64 --block-length 32 --steps 32 --kv dual --json)
  echo "ms per step, measured; seconds of one run of 32 steps in $out"
  printf '%-10s %12s %12s %12s %12s\n' resident hybrid static all-cpu on-demand
  local share plan file
  for share in 25 50 75; do
    printf '%-10s' "$share %"
    for plan in hybrid static all-cpu on-demand; do
      file=$out/$share-$plan.json
      if "$build/bin/llada" run "${common[@]}" --experts-on-device "$share%" --moe-plan "$plan" >"$file" 2>"$out/$share-$plan.err"; then
        printf ' %12s' "$(sed -n 's/.*"ms_per_step":\([0-9.]*\).*/\1/p' "$file")"
      else
        printf ' %12s' failed
        ended=1
      fi
    done
    echo
  done
  "$build/bin/llada" run "${common[@]}" >"$out/all-on-gpu.json" 2>"$out/all-on-gpu.err" &&
    echo "all experts on the GPU: $(sed -n 's/.*"ms_per_step":\([0-9.]*\).*/\1/p' "$out/all-on-gpu.json")"
}

for part in "${parts[@]}"; do
  echo "== $part"
  case $part in
    build) build_it ;;
    test) test_it ;;
    table) table ;;
    *) echo "cuda_gpu: found '$part', needed build, test or table" >&2; exit 2 ;;
  esac
done
exit $ended
