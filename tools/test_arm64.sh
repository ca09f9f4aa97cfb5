#!/usr/bin/env bash
# Cross-builds for 64-bit Arm and tests it on three emulated processors: everything on `max`, the kernels (with those
# over the DSP's tiles) on cortex-a76 (no int8 matrix multiplication) and cortex-a72 (no dot products). Skips, saying so,
# where the emulator or the compiler is missing; missing arm64 libraries are an error. Arguments go to ctest; TARGETS
# limits what is built.
# The Hexagon device is tested with an Arm host too: the stand-in, an arm64 program under its emulator, starts
# qemu-hexagon, which this machine runs as it is.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
  echo "SKIPPED: $1 is not installed (Debian: $2); the arm64 tests were not run"
  exit 0
}
command -v qemu-aarch64 >/dev/null || command -v qemu-aarch64-static >/dev/null || skip qemu-aarch64 qemu-user
command -v aarch64-linux-gnu-g++ >/dev/null || skip aarch64-linux-gnu-g++ g++-aarch64-linux-gnu

for tool in qemu-hexagon clang-19 ld.lld; do
  command -v "$tool" >/dev/null ||
    echo "SKIPPED: $tool is not installed (Debian: qemu-user, clang-19, lld-19); the Hexagon device was not tested with an arm64 host"
done

cmake --preset arm64 >/dev/null
# shellcheck disable=SC2086
cmake --build --preset arm64 ${TARGETS:+--target $TARGETS} -- --quiet
if command -v python3 >/dev/null && [ -n "$(find build/arm64/src/kernels -name neon_i8mm.cc.o 2>/dev/null)" ]; then
  tools/count_arm64.py --check build/arm64  # instructions per multiply-add: no load of the machine changes them
fi
# Many tests in one emulated process: most of a short one's time is the translation of the program's start.
if command -v python3 >/dev/null; then QEMU_CPU=max tools/run_tests.py arm64 "$@"
else QEMU_CPU=max ctest --preset arm64 "$@"; fi
if [ -x build/arm64/bin/test_engine ]; then  # a short generation with an Arm host, which the stages leave out with longer ones
  QEMU_CPU=max ctest --preset arm64 -R '^engine\.HexagonRun\.EveryWindow'
fi
QEMU_CPU=cortex-a76 ctest --preset arm64 -R '^(kernels|hexagon_host)\.' "$@"
QEMU_CPU=cortex-a72 ctest --preset arm64 -R '^(kernels|hexagon_host)\.' "$@"
emulator=$(command -v qemu-aarch64 || command -v qemu-aarch64-static)
# Vectors of SME from the shortest to the longest, of which an outer product is emulated sum by sum; `max` has 32 bytes
# by itself. SME2 is in qemu from 10.1 on.
if [ -x build/arm64/bin/test_kernels ]; then
  for bytes in 16 64 128 256; do
    [ "$bytes" -le 64 ] && tests='Sme.*' || tests='Sme.EveryShape*:Sme.ColumnsOfAny*'
    QEMU_CPU=max,sme-default-vector-length=$bytes "$emulator" build/arm64/bin/test_kernels --gtest_brief=1 \
      --gtest_filter="$tests"
  done
fi
# Newer phones have pages of 16 KiB, some servers of 64 KiB.
if [ -x build/arm64/bin/test_base ]; then
  for page in 16384 65536; do
    QEMU_CPU=max "$emulator" -p "$page" build/arm64/bin/test_base --gtest_brief=1 --gtest_filter='Pages.*:Files.*'
  done
fi
echo "arm64: max, cortex-a76 and cortex-a72 passed"
