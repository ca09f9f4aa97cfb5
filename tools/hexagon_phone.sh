#!/usr/bin/env bash
# The first five experiments on a phone with a Snapdragon, over adb, without root: builds the DSP module for the phone's
# Hexagon and the probe with the Android NDK, copies both, runs one experiment after the other and says how each ended.
# None of it has been run on a phone yet; docs/hexagon.md says what each experiment decides.
# usage: hexagon_phone.sh v68|v73|v75|v79|v81 [query|map|matmul|ladder|speed ...]
#   ANDROID_NDK  the NDK (r27 or later)      ADB  the adb program      BUILD  a configured build folder (build/release)
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${1:?usage: hexagon_phone.sh v68|v73|v75|v79|v81 [experiment...]}
shift
experiments=("$@")
[ $# -gt 0 ] || experiments=(query map matmul ladder speed)
build=${BUILD:-build/release}
adb=${ADB:-adb}
: "${ANDROID_NDK:?set ANDROID_NDK to the folder of the Android NDK}"
clang=$(find "$ANDROID_NDK/toolchains/llvm/prebuilt" -maxdepth 3 -name 'aarch64-linux-android31-clang++' | head -1)
[ -n "$clang" ] || { echo "hexagon_phone: no aarch64-linux-android31-clang++ in $ANDROID_NDK" >&2; exit 1; }

cmake --build "$build" --target "hexagon_phone_$arch"
out=$build/phone
mkdir -p "$out"
# fmt is used from its headers: the phone has no such library.
includes=$(mktemp -d)
trap 'rm -rf "$includes"' EXIT
ln -s "$(pkg-config --variable=includedir fmt)/fmt" "$includes/fmt"
"$clang" -std=c++23 -O2 -static-libstdc++ -DFMT_HEADER_ONLY -Isrc -isystem "$includes" \
  tools/hexagon_probe.cc src/devices/hexagon/{library,session,pack}.cc src/tensor/{dtype,quantize}.cc src/base/check.cc \
  -llog -ldl -o "$out/hexagon_probe"

place=/data/local/tmp/llada
"$adb" shell mkdir -p $place
"$adb" push "$out/hexagon_probe" "$build/bin/hexagon/$arch/lib"*_skel.so $place/ >/dev/null
ended=0
for experiment in "${experiments[@]}"; do
  echo "== $experiment"
  # The vendor's library is found by its name; the module by ADSP_LIBRARY_PATH.
  "$adb" shell "cd $place && LD_LIBRARY_PATH=/vendor/lib64 ADSP_LIBRARY_PATH='$place;/vendor/dsp/cdsp' ./hexagon_probe $experiment" || ended=1
done
echo "the DSP's own words:  $adb logcat -d -s adsprpc"
exit $ended
