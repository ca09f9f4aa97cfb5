#!/usr/bin/env bash
# The tests of the Hexagon device that take minutes under the emulator: packets per multiply-accumulate and the layer of an 8B
# model, every strategy and the recorded settings, 1,000 generations that lose their DSP process, the mappings of 100
# passes of an 8B model over 4.2 GB of real files.
# usage: hexagon_long.sh [build folder]   (build/release; test_engine, test_hexagon and test_hexagon_dsp must be built)
#        hexagon_long.sh packets [build folder]   the packet counts of the kernels alone, as a table (seconds)
set -euo pipefail
cd "$(dirname "$0")/.."
packets=
[ "${1:-}" = packets ] && packets=1 && shift
build=${1:-build/release}
command -v qemu-hexagon >/dev/null || { echo "SKIPPED: qemu-hexagon is not installed (Debian: qemu-user)"; exit 0; }
if [ -n "$packets" ]; then
  printf '| packets of the vector unit | counts |\n|---|---|\n'
  "$build/bin/test_hexagon_dsp" --gtest_filter='HexagonPackets.*' | sed -n 's/^packets \(.*\): \(.*\)/| \1 | \2 |/p'
  exit "${PIPESTATUS[0]}"
fi
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT

LLADA_HEXAGON_LAYER=1 "$build/bin/test_hexagon_dsp" --gtest_filter='*Packets*:*Llada8b'
LLADA_TEST_LONG=1 "$build/bin/test_engine" --gtest_filter='HexagonRun.RecordedSettings:HexagonRun.EveryKind*'
LLADA_TEST_KILLS=1000 "$build/bin/test_engine" --gtest_filter='HexagonRun.Killed*'
LLADA_TEST_LONG=1 LLADA_HEXAGON_FILES=$files "$build/bin/test_hexagon" --gtest_filter='MapSequence.*'
