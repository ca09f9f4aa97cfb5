#!/usr/bin/env bash
# Everything for a phone with a Snapdragon in one folder, over adb, without root: the DSP's modules of every architecture
# in every variant, the probe, and the programs where BUILD_ANDROID has them (docs/android.md); then `llada-study doctor
# --device hexagon`, or the probe's experiments where there is no program. None of it has been run on a phone yet;
# docs/lab/hexagon-dsp.md says what each experiment decides.
# usage: hexagon_phone.sh [query|map|matmul|ladder|speed ...]     build, push, run
#        hexagon_phone.sh link COMPILER OUT                       only the probe, by that compiler for arm64
#   ANDROID_NDK  the NDK (r27 or later)      ADB  the adb program      BUILD  a configured build folder (build/release)
#   BUILD_ANDROID  where the preset android-arm64 was built (build/android-arm64)      CMAKE  the cmake program
set -euo pipefail
cd "$(dirname "$0")/.."

# tests/hexagon builds the same list and runs it, and has this line link it for arm64.
link() {
  local compiler=$1 out=$2 includes
  # fmt is used from its headers: the phone has no such library.
  includes=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -rf '$includes'" RETURN
  ln -s "${FMT_HEADERS:-$(pkg-config --variable=includedir fmt)/fmt}" "$includes/fmt"
  local static=-static-libstdc++
  case $compiler in *linux-gnu-g++) static="-static-libstdc++ -pthread" ;; esac
  # shellcheck disable=SC2046,SC2086
  "$compiler" -std=c++23 -O2 $static -DFMT_HEADER_ONLY -Isrc -isystem "$includes" $(cat tools/hexagon_probe.list) \
    -ldl -o "$out"
}
if [ "${1:-}" = link ]; then
  link "${2:?usage: hexagon_phone.sh link COMPILER OUT}" "${3:?usage: hexagon_phone.sh link COMPILER OUT}"
  exit 0
fi

build=${BUILD:-build/release}
adb=${ADB:-adb}
: "${ANDROID_NDK:?set ANDROID_NDK to the folder of the Android NDK}"
clang=$(find "$ANDROID_NDK/toolchains/llvm/prebuilt" -maxdepth 3 -name 'aarch64-linux-android31-clang++' | head -1)
[ -n "$clang" ] || { echo "hexagon_phone: no aarch64-linux-android31-clang++ in $ANDROID_NDK" >&2; exit 1; }

folder=$build/phone
rm -rf "$folder"
mkdir -p "$folder"
"${CMAKE:-cmake}" --build "$build" --target hexagon-phone
cp "$build"/bin/hexagon/libllada_hexagon_skel_v*.so "$folder/"
link "$clang" "$folder/hexagon_probe"
for program in llada llada-study; do
  program=${BUILD_ANDROID:-build/android-arm64}/bin/$program
  if [ -x "$program" ]; then cp "$program" "$folder/"; fi
done

place=/data/local/tmp/llada
"$adb" shell "rm -rf $place && mkdir -p $place"
"$adb" push "$folder/." $place/ >/dev/null

# The vendor's library is found by its name and the modules beside the program. On some phones a session opens only
# without the vendor's folder on the path, on others the library is found only with it: the second is a second try.
run() {
  local tried
  for tried in "" "LD_LIBRARY_PATH=/vendor/lib64 "; do
    if "$adb" shell "cd $place && $tried./$*"; then
      echo "hexagon_phone: worked ${tried:-as found }($*)"
      return 0
    fi
    echo "hexagon_phone: did not work ${tried:-as found }($*)" >&2
  done
  return 1
}
ended=0
if [ $# -eq 0 ] && [ -x "$folder/llada-study" ]; then
  run llada-study doctor --device hexagon -o hexagon.json || ended=1
  "$adb" pull $place/hexagon.json "$build/hexagon.json" && echo "llada-study simulate --profile $build/hexagon.json" || ended=1
else
  [ $# -gt 0 ] || set -- query map matmul ladder speed
  for experiment in "$@"; do
    echo "== $experiment"
    run hexagon_probe "$experiment" || ended=1
  done
fi
echo "the DSP's own words:  $adb logcat -d -s adsprpc"
exit $ended
