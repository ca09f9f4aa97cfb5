#!/usr/bin/env bash
# What is in a DSP module that no test can have executed: forms of instructions (registers, numbers and addresses
# left out) of the module that the tested program does not contain. Fails when among them is one that the emulator
# is known to run wrongly or not at all: HVX float, HMX, user DMA.
# usage: hexagon_scan.sh MODULE.so TESTED_PROGRAM
set -euo pipefail
export LC_ALL=C
module=$1 tested=$2

objdump=
for candidate in llvm-objdump-22 llvm-objdump-21 llvm-objdump-20 llvm-objdump-19; do
  if command -v "$candidate" >/dev/null; then objdump=$candidate; break; fi
done
if [ -z "$objdump" ]; then echo "hexagon_scan: SKIPPED, no llvm-objdump 19 or later (package llvm-19)"; exit 0; fi

forms() {  # one instruction form per line
  "$objdump" -d --no-show-raw-insn --mattr=+hvx,+hvx-length128b "$1" | awk -F'\t' '/^ *[0-9a-f]+:/ { $1 = ""; print }' |
    sed -E 's/[{}]/ /g; s/:endloop[01]+//g; s/<[^>]*>//g; s/;/\n/g' |
    sed -E 's/\b(r|v|p|q|c|g|s)[0-9]+(:[0-9]+)?/\1N/g; s/##?-?(0x)?[0-9a-f]+/#I/g; s/\b0x[0-9a-f]+/ADDR/g; s/\s+/ /g; s/^ //; s/ $//' |
    grep -vE '^(immext\(#I\))?$'
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
forms "$module" >"$work/module.all"
sort -u "$work/module.all" >"$work/module"
forms "$tested" | sort -u >"$work/tested"
comm -23 "$work/module" "$work/tested" >"$work/never"
# v68 and later, which an emulator of v67 aborts on or, worse, runs with wrong results.
wrong='v(N|[0-9:]+)\.(sf|hf|bf|f8|qf16|qf32)|vfmv|vilog2|vrmpyz|dmstart|dmlink|dmpoll|dmwait|mxmem|mxclracc'
echo "$module: $(wc -l <"$work/module") forms of instructions, $(wc -l <"$work/never") of them in no tested program:"
while IFS= read -r form; do
  printf '  %4d x  %s\n' "$(grep -cxF -- "$form" "$work/module.all")" "$form"
done <"$work/never"
if grep -E "$wrong" "$work/module"; then
  echo "$module: the forms above cannot be tested by an emulator of v67" >&2
  exit 1
fi
