#!/usr/bin/env bash
# Builds and tests. Without a stage's name: what every change must pass, in 45 minutes on two cores without a compiler
# cache; of the sanitizers that is the layers below the engine. `all` adds what takes twice as long again: each
# instruction set forced, every command under valgrind, the other layers under asan, threads under tsan, arm64 under
# qemu, the fuzz targets, and public packages beside ours (Dream's layers, the cache folder of Hugging Face's hub).
# The stage `hour` pastes every line of README.md and docs/quickstart.md into a terminal, against recorded screens.
# A stage selects tests by their labels, which stand beside the tests (CONTRIBUTING.md).
# A stage whose tools cannot be had on this machine is reported as SKIPPED and never counted as passed.
# usage: test.sh [stage...]   stages: release hour install python clients asan (the default), isa memcheck asan-rest
# tsan arm64 fuzz upstream (with those: all), and wheel, by name alone: what builds and checks a package is hundreds of
# MB to install.
set -uo pipefail
cd "$(dirname "$0")/.."
stages=("$@")
usual=(release hour install python clients asan)
[ $# -gt 0 ] || stages=("${usual[@]}")
[ "${1:-}" != all ] || stages=("${usual[@]}" isa memcheck asan-rest tsan arm64 fuzz upstream)
below_engine="base tensor text formats kernels graph memory models decode hub"
is_below="^(${below_engine// /|})\."  # of a test's name
jobs=$(nproc)
passed=0 failed=0 skipped=0
report=()

tools/setup.sh test || exit 1

finish() {  # stage status seconds note
  case $2 in
    passed) passed=$((passed + 1)) ;; failed) failed=$((failed + 1)) ;; SKIPPED) skipped=$((skipped + 1)) ;;
  esac
  report+=("$(printf '%-9s %-8s %4ss  %s' "$1" "$2" "$3" "$4")")
}

build() {  # preset [cmake --build options]
  local preset=$1
  shift
  cmake --preset "$preset" -DLLADA_TESTS=ON >/dev/null && cmake --build --preset "$preset" "$@" -- --quiet
}

# What a test was given makes its line longer than any terminal; its name says which one it is.
short_names() { sed -uE 's/ +# GetParam\(\) = .* (\.*) +(Passed|\*\*\*|Not)/ \1 \2/; s/^( *Start .*[^ ]) +# GetParam.*/\1/'; }

# Where the start of a program costs more than most tests in it, many tests share one.
run_tests() {  # preset [ctest's options of selection]
  if command -v python3 >/dev/null; then tools/run_tests.py "$1" -j "$jobs" "${@:2}"
  else ctest --preset "$1" --no-tests=error -j "$jobs" "${@:2}"; fi
}

run_stage() {
  local stage=$1 log note="" status=passed begin=$SECONDS
  log=$(mktemp)
  case $stage in
    release) build release && ctest --preset release --no-tests=error -j "$jobs" | tee "$log" | short_names || status=failed ;;
    isa)
      # The best instruction set ran in `release`; the engine's recorded runs are made again with every other one that this processor has.
      # The oracle is slow on purpose: it answers for logits and for the shorter recorded runs.
      build release || status=failed
      local sets; sets=$(set -o pipefail; build/release/bin/llada devices --json | sed -n 's/.*"instruction_sets":\[\([^]]*\)\].*/\1/p' | tr -d '"' | tr ',' ' ') || status=failed
      # The oracle is on every processor: a list without it was not read.
      [[ " $sets " == *" scalar "* ]] || { status=failed; note="no list of instruction sets from llada devices"; }
      for isa in $(cut -s -d' ' -f2- <<<"$sets"); do
        echo "== LLADA_ISA=$isa"
        tests=golden
        [ "$isa" = scalar ] && tests=oracle
        LLADA_ISA=$isa ctest --preset release --no-tests=error -j "$jobs" -L "$tests" | tee -a "$log" | short_names || status=failed
        note="$note $isa"
      done ;;
    hour)
      build release --target llada && timeout 600 /usr/bin/python3 tests/first_hour/first_hour.py | tee "$log"
      case ${PIPESTATUS[0]} in
        0) note=$(grep '^first_hour: ' "$log") ;;
        77) status=SKIPPED note=$(grep SKIPPED "$log") ;;
        *) status=failed ;;
      esac ;;
    memcheck)
      if ! command -v valgrind >/dev/null; then status=SKIPPED note="valgrind is not installed"
      else build release --target llada && tools/valgrind.sh || status=failed; fi ;;
    install)
      build release --target llada llada_shared llada_manual && timeout 400 tools/test_install.sh | tee "$log" || status=failed
      note=$(grep -h 'not installed' "$log" | tr '\n' ' ') ;;
    asan)
      # The layers that read bytes from outside and own memory: half the time to compile of all.
      # shellcheck disable=SC2046
      build asan --target $(printf 'test_%s ' $below_engine) &&
        LLADA_TEST_QUICK=1 run_tests asan -LE long -R "$is_below" | tee "$log" || status=failed ;;
    asan-rest)
      build asan && LLADA_TEST_QUICK=1 run_tests asan -LE long -E "$is_below" |
        tee "$log" || status=failed ;;
    tsan)
      build tsan --target tests_threads &&
        LLADA_TEST_QUICK=1 run_tests tsan -L threads -LE long | tee "$log" || status=failed ;;
    arm64)
      if ! command -v qemu-aarch64 >/dev/null || ! command -v aarch64-linux-gnu-g++ >/dev/null; then
        status=SKIPPED note="qemu-user or the arm64 cross compiler is not installed"
      else
        LLADA_TEST_QUICK=1 TARGETS=tests_emulated tools/test_arm64.sh -LE 'long|native' | tee "$log" | short_names || status=failed
      fi ;;
    fuzz)
      if ! command -v clang++-19 >/dev/null; then status=SKIPPED note="clang 19 is not installed"
      else tools/fuzz.sh 45 | tee "$log" || status=failed; fi ;;
    upstream)
      if ! tools/setup.sh upstream; then status=SKIPPED note="PyTorch or transformers cannot be installed here"
      else
        build release --target llada && timeout 170 build/venv/bin/python tools/upstream/dream.py | tee "$log"
        case ${PIPESTATUS[0]} in
          0) note=$(grep 'generations equal, ' "$log") ;;
          3) status=SKIPPED note=$(grep SKIPPED "$log") ;;
          *) status=failed ;;
        esac
        timeout 170 build/venv/bin/python tests/hub/python_tools.py --llada build/release/bin/llada | tee "$log"
        case ${PIPESTATUS[0]} in
          0) note="$note; the hub's cache: $(tail -n 1 "$log")" ;;
          3) note="$note; the hub's cache: SKIPPED" ;;
          *) status=failed ;;
        esac
      fi ;;
    clients)
      if ! tools/setup.sh clients; then status=SKIPPED note="Chromium or the clients cannot be installed here"
      else
        build release --target llada && timeout 900 tools/clients.sh 2>&1 | tee "$log" || status=failed
        note=$(grep -E '^Ran [0-9]+ tests' "$log" | tr '\n' ' ')
      fi ;;
    python)
      if ! /usr/bin/python3 -c 'import pytest' 2>/dev/null; then status=SKIPPED note="python3-pytest is not installed"
      else
        build release --target llada llada_shared && timeout 400 tools/test_python.sh tests 2>&1 | tee "$log" || status=failed
        note=$(grep -hE '^[0-9]+ passed' "$log")
      fi ;;
    wheel)
      if ! tools/setup.sh python; then status=SKIPPED note="what builds and checks a Python package cannot be installed here"
      else
        build release --target llada llada_shared && timeout 1500 tools/test_python.sh 2>&1 | tee "$log" || status=failed
        note=$(grep -hE '^[0-9]+ passed|manylinux|answers in' "$log" | tr '\n' ' ')
      fi ;;
    *) echo "test: unknown stage $stage" >&2; exit 2 ;;
  esac
  local counts; counts=$(grep -hE 'tests passed|tests failed' "$log" | tr '\n' ' ')
  local skips; skips=$(grep -cE '\*\*\*Skipped' "$log")
  [ "$skips" = 0 ] || counts+="$skips tests SKIPPED "
  rm -f "$log"
  finish "$stage" "$status" $((SECONDS - begin)) "$counts$note"
}

for stage in "${stages[@]}"; do
  echo "==== $stage"
  run_stage "$stage"
done
echo
printf '%s\n' "${report[@]}"
echo "stages: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
