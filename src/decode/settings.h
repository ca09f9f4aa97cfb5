// Options as somebody writes them: keys with texts, in any order, beside a preset. Naming an option that only one rule
// reads chooses that rule: threshold=0.9 is acceptance by threshold, edit_steps=4 is editing. The command line,
// --compare, preset files and whoever else takes options from a user go through here.
#pragma once
#include <span>
#include <string>

#include "decode/fields.h"

namespace llada::decode {

struct Setting {
  const Field* field = nullptr;
  std::string text;
  std::string typed;  // as errors name it: "-n", "--kv"; the key where nothing is typed
};

Result<Setting> setting(std::string_view key, std::string_view text);

// The preset in force, as settings.
struct PresetSettings {
  std::string_view name;
  std::span<const Setting> settings;
  std::string_view way_out = {};  // behind an error about an option that does not go with it
};

// The purpose of the options: the gaps of a text, a kind of model (the default: any with masks, or not known).
struct DecodeUse {
  bool infill = false;
  ModelKind kind = {};
};

// The options that `given` asks for, validated. A given value replaces that value of the preset, and the rest of the
// preset stays. Naming another acceptance rule replaces the preset's rule and its values; naming another way of
// revising replaces that. Errors (invalid input) begin with the typed text: "-n: found 0, needed ..."; where only the
// preset and a given option contradict each other, with both.
OrRefused<DecodeOptions> decode_options(std::span<const Setting> given, const PresetSettings& preset = {},
                                        const DecodeUse& use = {});

// Whether the setting asks for a fixed schedule: a number of steps (0 too: one token per forward), a rule with a
// schedule, random order.
bool asks_for_schedule(const Setting& setting);

// The option that an error is about: the name before its colon. Null: none.
const Field* field_of(const Error& error);

// The error with the typed text in the place of that option's key: for refusals that come later, from validate() for
// the model or the engine.
Error as_typed(Error error, std::span<const Setting> given, std::span<const Setting> preset = {});

}  // namespace llada::decode
