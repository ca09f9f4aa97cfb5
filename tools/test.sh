#!/usr/bin/env bash
# Builds and tests, by stages. Without a stage: `quick` and `python`, which is `make test`: ten minutes on two cores without a
# compiler cache. A stage prints how far it is, one line for each test that fails, and where that test's output is.
#   ci         what continuous integration runs after these two: long hour install clients asan tsan neon
#   all        everything: also isa memcheck asan-rest tsan-rest arm64 scale fuzz upstream
# What a stage needs is installed when it begins; where that cannot be had the stage is SKIPPED, which never reads as passed.
# A stage selects tests by their labels, which stand beside the tests (CONTRIBUTING.md).
# usage: test.sh [stage...]
#   quick      the release build and every short test on this processor
#   python     the Python package's tests
#   long       the rest of the release build's tests: long ones, emulated DSP and GPU
#   hour       every line of README.md in a terminal, against recorded screens
#   install    programs against an installed library, manual pages, completions, Debian packages
#   clients    public clients and a browser against llada serve
#   scale      llada.ray on a cluster of this machine, and the files of deploy/ by their checkers
#   asan       the layers below the engine under the address and undefined behaviour sanitizers; asan-rest: the others
#   tsan       server, scheduler, C API and thread pool under the thread sanitizer; tsan-rest: the others
#   neon       the kernels of 64-bit Arm under qemu; arm64: everything
#   isa        recorded answers with every other instruction set of this processor
#   memcheck   every command under valgrind
#   fuzz       the fuzz targets
#   upstream   PyTorch's and Hugging Face's code beside ours
#   windows    llada.exe and llada.dll under wine; by name alone: a first build takes as long as the release build
#   wheel      the Python package as it is built and installed; by name alone: hundreds of MB to install
set -uo pipefail
cd "$(dirname "$0")/.."
ci=(long hour install clients asan tsan neon)
stages=()
for stage in "$@"; do
  case $stage in
    ci) stages+=("${ci[@]}") ;;
    all) stages+=(quick python "${ci[@]}" isa memcheck asan-rest tsan-rest arm64 scale fuzz upstream) ;;
    *) stages+=("$stage") ;;
  esac
done
[ $# -gt 0 ] || stages=(quick python)
below_engine="base json tensor text formats kernels graph memory models forms decode hub"
is_below="^(${below_engine// /|})\."  # of a test's name
shared="base sched serve api hub memory"  # what threads meet in; the others have threads of their own
is_shared="^(${shared// /|})\."
jobs=$(nproc)
logs=build/test-logs
mkdir -p "$logs"
passed=0 failed=0 skipped=0
report=()

tools/setup.sh test || exit 1

needs() { tools/setup.sh "$1" || { status=SKIPPED note="what it needs cannot be installed here"; false; }; }
build() { tools/build.sh --preset "$1" --tests "${@:2}"; }

# A stage that ends with 77 or 3 says that it could not be tried.
outcome() {  # exit status
  case $1 in 0) status=passed ;; 77 | 3) status=SKIPPED ;; *) status=failed ;; esac
}

# Runs a command with its output in $log, a line every 15 seconds, and its last words where it fails.
told() {  # command...
  local begin=$SECONDS last=$SECONDS result=0
  "$@" >"$log" 2>&1 </dev/null &
  while kill -0 $! 2>/dev/null; do
    sleep 0.3
    if [ $((SECONDS - last)) -ge 15 ]; then last=$SECONDS; echo "$stage: $((SECONDS - begin)) s"; fi
  done
  wait $! || result=$?
  outcome $result
  [ "$status" != failed ] || { tail -n "${LLADA_LOG_LINES:-40}" "$log"; echo "all of it: $log"; }
  [ "$status" = passed ]
}

tests() {  # preset [ctest's options of selection]
  outcome 0
  tools/run_tests.py "$1" -j "$jobs" --counts "$log" "${@:2}" || status=failed
  note+=" $(cat "$log" 2>/dev/null)"
  [ "$status" = passed ]
}

run_stage() {
  case $stage in
    quick) build release tests_quick llada && tests release -L quick ;;
    python) build release llada llada_shared && told timeout 400 tools/test_python.sh tests; note=$(grep -hE '^[0-9]+ passed' "$log") ;;
    long) tools/setup.sh hexagon; build release && tests release -LE quick ;;
    hour)
      needs hour && build release llada && told timeout 600 /usr/bin/python3 tests/first_hour/first_hour.py
      note=${note:-$(grep -hE '^first_hour: |SKIPPED' "$log" | tail -n 1)} ;;
    install)
      needs install && build release llada llada-study llada_shared llada_manual llada_shipped && told timeout 400 tools/test_install.sh
      note=${note:-$(grep -h 'not installed' "$log" | tr '\n' ' ')} ;;
    clients)
      needs clients && build release llada llada-study && told timeout 1200 tools/clients.sh
      note=${note:-$(grep -hE '^Ran [0-9]+ tests' "$log" | tr '\n' ' ')} ;;
    scale)
      needs scale && build release llada llada_shared && told timeout 3600 tools/test_scale.sh
      note=${note:-$(grep -hE '^Ran [0-9]+ tests|SKIPPED' "$log" | tr '\n' ' ')} ;;
    asan)
      # The layers that read bytes from outside and own memory: half the time to compile of all.
      # shellcheck disable=SC2046
      build asan $(printf 'test_%s ' $below_engine) && LLADA_TEST_QUICK=1 tests asan -LE long -R "$is_below" ;;
    asan-rest) build asan && LLADA_TEST_QUICK=1 tests asan -LE long -E "$is_below" ;;
    tsan)
      # shellcheck disable=SC2046
      build tsan $(printf 'test_%s ' $shared) && LLADA_TEST_QUICK=1 tests tsan -L threads -LE long -R "$is_shared" ;;
    tsan-rest) build tsan tests_threads && LLADA_TEST_QUICK=1 tests tsan -L threads -LE long -E "$is_shared" ;;
    neon)
      needs arm64 && build arm64 test_tensor test_kernels &&
        LLADA_TEST_QUICK=1 QEMU_CPU=max tests arm64 -LE 'long|native' -R '^(tensor|kernels)\.' ;;
    arm64)
      needs arm64 && build arm64 tests_emulated &&
        LLADA_TEST_QUICK=1 told tools/test_arm64.sh -LE 'long|native'
      note=${note:-$(grep -hE 'tests passed|tests failed' "$log" | tr '\n' ' ')} ;;
    isa)
      # The best instruction set ran in `quick` and `long`; the engine's recorded runs are made again with every other one.
      # The oracle is slow on purpose: it answers for logits and for the shorter recorded runs.
      build release || return
      local sets
      sets=$(build/release/bin/llada devices --json | sed -n 's/.*"instruction_sets":\[\([^]]*\)\].*/\1/p' | tr -d '"' | tr ',' ' ')
      # The oracle is on every processor: a list without it was not read.
      [[ " $sets " == *" scalar "* ]] || { note="no list of instruction sets from llada devices"; return; }
      local all=passed
      for isa in $(cut -s -d' ' -f2- <<<"$sets"); do
        echo "$stage: LLADA_ISA=$isa"
        selection=golden
        [ "$isa" = scalar ] && selection=oracle
        note+=" $isa:"
        LLADA_ISA=$isa tests release -L $selection || all=failed
      done
      status=$all ;;
    memcheck) needs memcheck && build release llada llada-study && told tools/valgrind.sh ;;
    fuzz) needs fuzz && told tools/fuzz.sh 45 ;;
    upstream)
      needs upstream && build release llada llada-study && told timeout 170 build/venv/bin/python tools/upstream/dream.py &&
        note=$(grep 'generations equal, ' "$log") &&
        told timeout 500 build/venv/bin/python tools/upstream/smollm2.py --quick && note="$note; $(grep '^SmolLM2' "$log")" &&
        told timeout 170 build/venv/bin/python tests/hub/python_tools.py --llada build/release/bin/llada &&
        note="$note; the hub's cache: $(tail -n 1 "$log")" &&
        told timeout 170 build/venv/bin/python tools/upstream/chat_templates.py &&
        note="$note; $(tail -n 1 "$log")" ;;
    windows)
      needs windows && build release llada && told timeout 2400 tools/test_windows.sh
      note=${note:-$(grep -hE '^Ran [0-9]+ tests|SKIPPED' "$log" | tr '\n' ' ')} ;;
    wheel)
      needs python && build release llada llada_shared && told timeout 1500 tools/test_python.sh
      note=${note:-$(grep -hE '^[0-9]+ passed|manylinux|answers in' "$log" | tr '\n' ' ')} ;;
    *) echo "test: unknown stage $stage" >&2; exit 2 ;;
  esac
}

for stage in "${stages[@]}"; do
  echo "==== $stage"
  log=$logs/$stage.log note="" status=failed begin=$SECONDS
  : >"$log"
  run_stage
  case $status in passed) passed=$((passed + 1)) ;; failed) failed=$((failed + 1)) ;; SKIPPED) skipped=$((skipped + 1)) ;; esac
  report+=("$(printf '%-9s %-8s %4ss  %s' "$stage" "$status" $((SECONDS - begin)) "${note# }")")
done
echo
printf '%s\n' "${report[@]}"
echo "stages: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
