// Options as somebody writes them: keys with texts, in any order, beside a preset. Naming what only one rule reads
// chooses that rule: threshold=0.9 is acceptance by threshold, wino_back=0.8 is WINO. The command line, --compare,
// preset files and whoever else takes options from a user go through here.
#pragma once
#include <span>
#include <string>

#include "decode/fields.h"

namespace llada::decode {

struct Setting {
  const Field* field = nullptr;
  std::string text;
  std::string typed;  // as errors name it: "-n", "--wino"; the key where nothing is typed
};

Result<Setting> setting(std::string_view key, std::string_view text);

// The options that `given` asks for, validated. A setting of the preset gives way to what is given: the same option, or
// one that chooses another rule; so do its rules that compare best tokens where tokens are sampled or penalised, and
// then `note` says so. Errors (invalid input) begin with what was typed: "-n: found 0, needed ...".
Result<DecodeOptions> decode_options(std::span<const Setting> given, std::span<const Setting> preset = {},
                                     bool infill = false, std::string* note = nullptr);

// An error whose first word is the key of an option, with what was typed in its place: for refusals that come later,
// from validate_for() or the engine.
Error as_typed(Error error, std::span<const Setting> given, std::span<const Setting> preset = {});

}  // namespace llada::decode
