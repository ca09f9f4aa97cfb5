#!/usr/bin/env bash
# Every command once, small, under valgrind: fails on a read of memory that nobody wrote, on an invalid access, and where a command
# does not end as it should. usage: valgrind.sh [folder of the program]   (build/release/bin)
# Valgrind 3.19 does not know AVX-512, so the kernels are AVX2's and the oracle's. Memory that is freed or given out again is filled.
set -uo pipefail
cd "$(dirname "$0")/.."
llada=${1:-build/release/bin}/llada
command -v valgrind >/dev/null || { echo "valgrind: not installed" >&2; exit 2; }
[ -x "$llada" ] || { echo "valgrind: no program at $llada" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=models/tiny-llada
failed=0

check() {  # isa command...
  local isa=$1 begin=$SECONDS status
  shift
  LLADA_ISA=$isa valgrind -q --error-exitcode=99 --exit-on-first-error=no --num-callers=25 --max-stackframe=4000000 \
    --malloc-fill=0x5a --free-fill=0xa5 "$llada" "$@" >"$work/out" 2>"$work/err" </dev/null
  status=$?
  if [ "$status" = 0 ] && ! grep -q '^==' "$work/err"; then
    printf 'ok      %3ss  LLADA_ISA=%s llada %s\n' $((SECONDS - begin)) "$isa" "$*"
  else
    printf 'FAILED  %3ss  LLADA_ISA=%s llada %s (status %s)\n' $((SECONDS - begin)) "$isa" "$*" "$status"
    head -60 "$work/err"
    failed=1
  fi
}

head -1 eval/eval_public.jsonl >"$work/one.jsonl"
head -2 eval/tuning.jsonl >"$work/two.jsonl"
printf 'word %.0s' $(seq 700) >"$work/long.txt"

check avx2 devices
check avx2 inspect "$model" --tensors
check avx2 convert "$model" "$work/q8_0.gguf" --type q8_0
check avx2 synth --preset tiny --type q4_0 --threads 2 "$work/tiny.gguf"
check avx2 run -m "$model" -p '3+4' --gen-length 32 --threshold 0.9 --revise --kv prefix
check avx2 run -m "$work/q8_0.gguf" -p '3+4' --gen-length 32 --block-length 16 --steps 2 --cfg-scale 1 --temperature 0.5 --early-stop none
check scalar run -m "$work/q8_0.gguf" -p '3+4' --gen-length 8 --block-length 8 --steps 1 --early-stop none
# Attention over digests, whose last block is not full.
check avx2 run -m "$work/tiny.gguf" -f "$work/long.txt" --gen-length 16 --block-length 16 --steps 2 --early-stop none --kv prefix
check avx2 run -m "$model" -p '3+4' --gen-length 16 --block-length 16 --steps 1 --early-stop none --device sim:v79-8elite
check avx2 infill -m "$model" --text '3+4=<mask:2>'
check avx2 eval -m "$work/q8_0.gguf" --tasks "$work/one.jsonl" --gen-length 16 --compare 'fast: --threshold 0.5' --no-reference --record "$work/run.rec"
check avx2 tune -m "$work/q8_0.gguf" --tasks "$work/two.jsonl" --options '--gen-length 16 --block-length 16' --generations 1 --breadth 1 -o "$work/mine.json"
check avx2 simulate --profile sm8750-paper --preset llada-8b:q4_0 --ablation paper
check avx2 bench --preset tiny:q4_0 --only forward --rows 1,9 --repeats 1 --stream-mib 1
[ "$failed" = 0 ]
