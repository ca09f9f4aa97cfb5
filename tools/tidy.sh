#!/usr/bin/env bash
# clang-tidy over the sources, with the checks of .clang-tidy. usage: tidy.sh [file or folder...]   (src without one)
# Needs clang-tidy 19: an older one does not know std::expected. LLADA_TIDY names it.
set -euo pipefail
cd "$(dirname "$0")/.."
tidy=${LLADA_TIDY:-$(command -v clang-tidy-19 || true)}
[ -n "$tidy" ] || { echo "tidy: clang-tidy-19 is not installed (Debian: clang-tidy-19)" >&2; exit 77; }
# Each file is compiled by itself; those of a target that is always compiled together get a neighbour's flags.
cmake -S . -B build/tidy -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DLLADA_PCH=OFF \
  -DLLADA_UNITY=OFF -DLLADA_TESTS=OFF >build/tidy.log || { cat build/tidy.log; exit 1; }
[ $# -gt 0 ] || set -- src
# Other processors' code, and the DSP's, have compilers of their own.
mapfile -t files < <(find "$@" -name '*.cc' | grep -vE '/dsp/|/standin/|/neon|_macos|/(absent_|no_)' | sort)
[ ${#files[@]} -gt 0 ] || { echo "tidy: no source file in $*" >&2; exit 2; }
printf '%s\n' "${files[@]}" | xargs -P "${LLADA_JOBS:-$(nproc)}" -n 1 \
  "$tidy" -p build/tidy --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-ignored-optimization-argument \
  2> >(grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed|^Use -header' >&2 || true) &&
  echo "tidy: ${#files[@]} files are in order"
