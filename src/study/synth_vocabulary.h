// A byte-level BPE vocabulary of a preset's size: the 256 bytes, then words of lower case letters that grow by a letter
// at a time (each with its merge). Behind them come the control tokens at their published ids, and unused ids. Text in
// letters takes about a token per three of them, so prompts cost as much as with a real tokenizer.
#pragma once
#include "base/tokenizer_spec.h"
#include "study/presets.h"

namespace llada {

TokenizerSpec synthesize_vocabulary(const Preset& preset);

}  // namespace llada
