#!/usr/bin/env bash
# What is in a DSP module that no test can have executed: forms of instructions (registers, numbers and addresses
# left out) of the module that the tested program does not contain. Fails when among them is one that the emulator
# is known to run wrongly or not at all: HVX float, user DMA, and words that the disassembler does not know, but for the
# matrix unit's that src/devices/hexagon/dsp/hmx.h has, where they make packets as they stand there.
# usage: hexagon_scan.sh MODULE.so TESTED_PROGRAM
#        hexagon_scan.sh --self-test
set -euo pipefail
export LC_ALL=C

if [ "${1:-}" = --self-test ]; then  # a disassembler whose files are its listings
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  printf '#!/bin/sh\nfor file; do :; done; cat "$file"\n' >"$work/llvm-objdump-22"
  chmod +x "$work/llvm-objdump-22"
  known='       0:\t80 c0 01 b0\tb001c080 { \tr0 = add(r1,#0x4) } \n      14:\t00 c0 9f 52\t529fc000 { \tjumpr r31 } \n'
  printf "$known" >"$work/tested"
  word() { printf '      18:\\t00 00 00 00\\t%s %s\\n' "$1" "${2:-<unknown>}"; }
  for row in '0:' "1:$(word a6e0c011)" "0:$(word a6e0c013)" "0:$(word 920041e2)$(word 9202e3ef)" "1:$(word 920041e2)" \
    "1:$(word 920041e2)$(word a6e0c013)" "1:$(word 920041e2)$(word 529fc000 '{ \tjumpr r31 }')$(word 9202e3ef)" \
    "1:$(word 9202e3ef)" "1:$(word 9202e3ef)$(word 920041e2)" \
    "1:$(word b0014080 '{ \tr0 = add(r1,#0x4)')$(word a6e0c013)" '1:      18:\t00 c0 00 1d\t1d00c000 { \tv0.sf = v1.qf32 } \n'; do
    printf "$known${row#*:}" >"$work/module"
    status=0
    PATH="$work:$PATH" "$0" "$work/module" "$work/tested" >"$work/out" 2>&1 || status=$?
    if [ "$status" != "${row%%:*}" ]; then echo "self-test: status $status of $row"; cat "$work/out"; exit 1; fi
  done
  PATH="$work:$PATH" "$0" "$work/tested" "$work/tested" | grep -q ': 2 forms of instructions, 0 of them' || exit 1
  echo "self-test passed"
  exit 0
fi
module=$1 tested=$2

objdump=
for candidate in llvm-objdump-22 llvm-objdump-21 llvm-objdump-20 llvm-objdump-19; do
  if command -v "$candidate" >/dev/null; then objdump=$candidate; break; fi
done
if [ -z "$objdump" ]; then echo "hexagon_scan: SKIPPED, no llvm-objdump 19 or later (package llvm-19)"; exit 0; fi

# As the newest processor: with features alone a disassembler knows no instruction that came after v60.
for cpu in hexagonv81 hexagonv79 hexagonv75 hexagonv73; do
  unknown=$("$objdump" -d --mcpu=$cpu "$module" 2>&1 >/dev/null || true)
  [[ $unknown == *'not a recognized'* ]] || break
done

forms() {  # one instruction form per line
  "$objdump" -d --mcpu=$cpu --mattr=+hvx,+hvx-length128b "$1" |
    awk -F'\t' '  # UNIT: a packet of hmx.h; WORD: any other word without a name
      function other(w) { print "WORD " w }
      BEGIN { begins = 1 }
      /^ *[0-9a-f]+:/ {
        word = toupper(substr($3, 1, 8)); $1 = $2 = ""; $3 = substr($3, 9)
        first = begins; begins = substr(word, 5, 1) !~ /[4-9AB]/  # bits 15 and 14: whether its packet ends here
        if (rows != "" && word == "9202E3EF" && /<unknown>/) { print "UNIT " rows " " word; rows = ""; next }
        if (rows != "") { other(rows); rows = "" }
        if (!/<unknown>/) print
        else if (first && word == "920041E2") rows = word
        else if (first && word ~ /^(9200C3FE|A6E0C013|A6E0DA10|A6E0C118)$/) print "UNIT " word
        else other(word)
      }
      END { if (rows != "") other(rows) }' |
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
wrong='^WORD |v(N|[0-9:]+)\.(sf|hf|bf|f8|qf16|qf32)|vfmv|vilog2|vrmpyz|dmstart|dmlink|dmpoll|dmwait|mxmem|mxclracc'
# Words that no disassembler knows, as ^WORD (NUMBER|NUMBER)$: zeros between functions, and what a test has executed.
listed='^WORD (00000000)$'
echo "$module: $(wc -l <"$work/module") forms of instructions, $(wc -l <"$work/never") of them in no tested program:"
while IFS= read -r form; do
  printf '  %4d x  %s\n' "$(grep -cxF -- "$form" "$work/module.all")" "$form"
done <"$work/never"
if grep -E "$wrong" "$work/module" | grep -vE "$listed"; then
  echo "$module: the forms above cannot be tested by an emulator of v67" >&2
  exit 1
fi
