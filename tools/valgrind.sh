#!/usr/bin/env bash
# Every command of llada and llada-study once, small, under valgrind: fails on a read of memory that nobody wrote, on an invalid access, and where a command
# does not end as it should. usage: valgrind.sh [folder of the program]   (build/release/bin)
# Valgrind 3.19 does not know AVX-512, so the kernels are AVX2's and the oracle's. Memory that is freed or given out again is filled.
set -uo pipefail
cd "$(dirname "$0")/.."
llada=${1:-build/release/bin}/llada
command -v valgrind >/dev/null || { echo "valgrind: not installed" >&2; exit 2; }
for program in "$llada" "$llada-study"; do
  [ -x "$program" ] || { echo "valgrind: no program at $program" >&2; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=models/tiny-llada
n=0

check() {  # isa command...: one of the jobs that run side by side
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
  n=$((n + 1))
  run_one "$n" "$@" &
}

run_one() {
  local n=$1 isa=$2 begin=$SECONDS status program=$llada
  shift 2
  [ "$1" != study ] || { program=$llada-study; shift; }
  # One thread: valgrind runs them in turns anyway.
  LLADA_ISA=$isa valgrind -q --error-exitcode=99 --num-callers=25 --malloc-fill=0x5a --free-fill=0xa5 \
    "$program" "$@" >"$work/$n.out" 2>"$work/$n.err" </dev/null
  status=$?
  if [ "$status" = 0 ] && ! grep -q '^==' "$work/$n.err"; then
    printf 'ok     %4ss  LLADA_ISA=%s %s %s\n' $((SECONDS - begin)) "$isa" "${program##*/}" "$*"
  else
    printf 'FAILED %4ss  LLADA_ISA=%s %s %s (status %s)\n' $((SECONDS - begin)) "$isa" "${program##*/}" "$*" "$status"
    head -60 "$work/$n.err"
    touch "$work/failed"
  fi
}

head -1 eval/eval_public.jsonl >"$work/one.jsonl"
printf '{"task": "sort", "prompt": "Sort the numbers from smallest to largest: %s", "response": "%s", "answer": "%s"}\n' \
  '38 41 6 51 3' '3 6 38 41 51' '3 6 38 41 51' '45 15 85 12 8' '8 12 15 45 85' '8 12 15 45 85' >"$work/two.jsonl"
printf 'word %.0s' $(seq 350) >"$work/long.txt"
echo '{"custom_id": "a", "url": "/v1/llada/score", "body": {"prompt": "3", "continuations": [" 1"]}}' >"$work/requests.jsonl"
tiny=$work/tiny.gguf q8=$work/q8_0.gguf
once="--gen-length 8 --block-length 8 --steps 1 --early-stop none --threads 1"

check avx2 study synth --preset tiny --type q4_0 --layers 1 --threads 2 "$tiny"
check avx2 convert "$model" "$q8" --type q8_0
check avx2 devices
check avx2 doctor
check avx2 pull --list
check avx2 inspect "$model" --tensors
wait
check avx2 pack "$q8" --pack-cache "$work/packed" --threads 1
wait
check avx2 pack --list --pack-cache "$work/packed"
check avx2 run -m "$q8" -p 3 $once --pack-cache "$work/packed"
# Attention over digests whose last block is not full.
check avx2 run -m "$tiny" -f "$work/long.txt" $once --raw
check avx2 run -m "$model" -p 3 --gen-length 8 --block-length 8 --threshold 0.5 --revision dual-path --kv prefix --threads 2
check scalar run -m "$tiny" -p 3 $once
check avx2 run -m "$tiny" -p 3 $once --cfg-scale 1 --temperature 0.5 --trace "$work/trace.json"
check avx2 study run -m "$tiny" -p 3 $once --device sim:v79-8elite
check avx2 run -m models/tiny-llada-moe -p 3 $once
check avx2 infill -m "$q8" --text '3+4=<mask:2>' --threads 1
check avx2 eval -m "$q8" --tasks "$work/one.jsonl" --no-reference --record "$work/run.rec" --threads 1 \
  --compare 'fast: --gen-length 8 --block-length 8 --steps 2'
check avx2 score -m "$tiny" -p 'Sort: 3 1' --continuation ' 1 3' --method mc --draws 3 --cfg 0.5 --threads 1
check avx2 batch -m "$tiny" "$work/requests.jsonl" "$work/answers.jsonl" --threads 1
check avx2 tune -m "$q8" --tasks "$work/two.jsonl" --options '--gen-length 16 --block-length 16' --generations 1 --breadth 1 \
  --max-loss 100 --threads 1 -o "$work/mine.json"
check avx2 study simulate --profile sm8750-paper --preset llada-8b:q4_0
check avx2 study bench --preset tiny:q4_0 --layers 1 --only forward --rows 1,9 --repeats 1 --stream-mib 1 --threads 1
wait
[ ! -e "$work/failed" ]
