#!/usr/bin/env bash
# For a machine with an NVIDIA GPU and nvcc: builds the cuda device, runs the conformance suite, the kernels' tests and
# the golden tests on it, then measures forwards of a dense model and a mixture with 25, 50 and 75 % of its experts on
# the GPU: hybrid, static, all on the CPU, moved on demand. Everything with products in float and on tensor cores.
# About ten minutes; results so far are in docs/lab/cuda.md.
# usage: cuda_gpu.sh [build|test|dense|table ...]   (all)
#   BUILD   build folder (build/cuda)      DENSE  a dense model (LLaDA-8B's geometry with random weights, 4.5 GB)
#   ARCH    of the GPU (asked of it)       MODEL  a mixture for the table (LLaDA-MoE's, 4.2 GB)
#   RUNS    of which the median is printed (1)    LAYERS  of that model (all)
#   OUT     where results go (build/cuda/results)
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/cuda}
out=${OUT:-$build/results}
parts=("$@")
[ $# -gt 0 ] || parts=(build test dense table)
mkdir -p "$out"
ended=0

build_it() {
  local arch=${ARCH:-$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)}
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLLADA_CUDA=ON -DLLADA_TESTS=ON \
    "-DLLADA_CUDA_ARCHITECTURES=$arch"
  cmake --build "$build" --target llada llada-study test_cuda_gpu test_cuda_kernels_gpu test_engine
  "$build/bin/llada" devices
}

test_it() {
  local products
  # GTEST_FAIL_IF_NO_TEST_SELECTED is newer than Debian's GoogleTest, so what ran is counted.
  "$build/bin/test_cuda_gpu" --gtest_filter='*/cuda:*/cuda_tensor' | tee "$out/conformance.log" || ended=1
  "$build/bin/test_cuda_kernels_gpu" | tee "$out/kernels.log" || ended=1
  for products in float tensor; do
    LLADA_TEST_DEVICE=cuda:fallback=none,products=$products "$build/bin/test_engine" --gtest_filter='*Golden*' |
      tee "$out/golden-$products.log" || ended=1
  done
  if grep -q 'SKIPPED\|Running 0 tests' "$out/conformance.log" "$out/kernels.log"; then
    echo "cuda_gpu: no GPU was used" >&2
    ended=1
  fi
}

# measure NAME OPTION...: prints ms per step of `llada run`; its JSON is NAME.json.
measure() {
  local name=$1 times=() run
  shift
  for ((run = 0; run < ${RUNS:-1}; ++run)); do
    if ! "$build/bin/llada" run -p measure --json "$@" </dev/null >"$out/$name.json" 2>"$out/$name.err"; then
      printf ' %12s' failed
      ended=1
      return
    fi
    times+=("$(sed -n 's/.*"ms_per_step":\([0-9.]*\).*/\1/p' "$out/$name.json")")
  done
  printf ' %12.1f' "$(printf '%s\n' "${times[@]}" | sort -n | sed -n "$((${#times[@]} / 2 + 1))p")"
}

dense() {
  local model=${DENSE:-$build/llada-8b-q4_0.gguf} products
  [ -e "$model" ] || "$build/bin/llada-study" synth --preset llada-8b --type q4_0 "$model"
  echo "dense, ms per step, measured"
  printf '%-10s %12s %12s %12s\n' products '8 rows' '32 rows' '128 + prompt'
  for products in float tensor; do
    local common=(-m "$model" --device "cuda:fallback=none,products=$products")
    printf '%-10s' "$products"
    measure "dense-8-$products" "${common[@]}" --gen-length 16 --block-length 8 --steps 8 --kv dual
    measure "dense-32-$products" "${common[@]}" --gen-length 64 --block-length 32 --steps 32 --kv dual
    measure "dense-128-$products" "${common[@]}" --gen-length 128 --block-length 32 --steps 16 --kv none
    echo
  done
}

table() {
  local model=${MODEL:-$build/llada-moe-7b-q4_0.gguf} products share plan
  [ -e "$model" ] || "$build/bin/llada-study" synth --preset llada-moe-7b --type q4_0 ${LAYERS:+--layers "$LAYERS"} "$model"
  for products in float tensor; do
    local common=(-m "$model" --device "cuda:fallback=none,products=$products"
      --gen-length 64 --block-length 32 --steps 32 --kv dual)
    echo "experts, products=$products, ms per step, measured"
    printf '%-10s %12s %12s %12s %12s\n' resident hybrid static all-cpu on-demand
    for share in 25 50 75; do
      printf '%-10s' "$share %"
      for plan in hybrid static all-cpu on-demand; do
        measure "$share-$plan-$products" "${common[@]}" --experts-on-device "$share%" --moe-plan "$plan"
      done
      echo
    done
    printf '%-10s' "all"
    measure "all-$products" "${common[@]}"
    echo
  done
}

for part in "${parts[@]}"; do
  echo "== $part"
  case $part in
    build) build_it ;;
    test) test_it ;;
    dense) dense ;;
    table) table ;;
    *) echo "cuda_gpu: found '$part', needed build, test, dense or table" >&2; exit 2 ;;
  esac
done
exit $ended
