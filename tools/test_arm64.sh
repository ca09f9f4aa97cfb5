#!/usr/bin/env bash
# Cross-builds for 64-bit Arm and tests it on three emulated processors: everything on `max`, the kernels on
# cortex-a76 (no int8 matrix multiplication) and cortex-a72 (no dot products). Skips, saying so, where the emulator or
# the compiler is missing; missing arm64 libraries are an error. Arguments go to ctest; TARGETS limits what is built.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
  echo "SKIPPED: $1 is not installed (Debian: $2); the arm64 tests were not run"
  exit 0
}
command -v qemu-aarch64 >/dev/null || command -v qemu-aarch64-static >/dev/null || skip qemu-aarch64 qemu-user
command -v aarch64-linux-gnu-g++ >/dev/null || skip aarch64-linux-gnu-g++ g++-aarch64-linux-gnu

cmake --preset arm64 >/dev/null
# shellcheck disable=SC2086
cmake --build --preset arm64 ${TARGETS:+--target $TARGETS} -- --quiet
QEMU_CPU=max ctest --preset arm64 "$@"
QEMU_CPU=cortex-a76 ctest --preset arm64 -R '^kernels\.' "$@"
QEMU_CPU=cortex-a72 ctest --preset arm64 -R '^kernels\.' "$@"
echo "arm64: max, cortex-a76 and cortex-a72 passed"
