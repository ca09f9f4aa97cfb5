// Every option of decoding, written once: name, value, range, help, and the rule that it chooses by being named. The
// command line, JSON, presets, tuning, the table in docs/strategies.md and the validation of single values read this
// list, the sum of the parts' own (options.h). A new option is a member of its part and an entry beside it. Which
// options go together: pairs.cc.
#pragma once
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "decode/options.h"

namespace llada::decode {

enum class FieldGroup { length, acceptance, sampling, guidance, ending, form, caches, drafts, revision, random_canvas };
std::string_view title(FieldGroup group);  // a heading of help and tables

struct Range {
  double least = 0, most = std::numeric_limits<double>::infinity();
  bool above_least = false, below_most = false;  // that end of the range is not part of it
};

struct Field {
  std::string_view key;   // of JSON and of key=value: "gen_length"; the flag is --gen-length
  std::string_view unit;  // the value's name in help; empty: a switch
  std::string_view help;
  FieldGroup group{};
  Range range = {};                           // of numbers
  std::string_view word = {};                 // the text of -1, as in "all"
  std::string_view second_word = {};          // the text of -2
  std::string_view aliases = {};              // further flags, "-n,--n-predict"
  std::string_view tune = {};                 // the values that `llada tune` tries, neighbours alike
  unsigned rules = 0;                         // rule_bit()s of the rules that read it; naming it chooses one. 0: any
  Revision revision = Revision::none;         // the way of revising that reads it; naming it chooses that way
  bool basic = false;                         // one of those that the short help shows
  bool text = false;                          // the value is free text, not a number or a word
  std::span<const std::string_view> words{};  // of a choice
  Status (*read)(const Field&, std::string_view text, DecodeOptions&) = nullptr;
  std::string (*show)(const Field&, const DecodeOptions&) = nullptr;
  Status (*check)(const Field&, const DecodeOptions&) = nullptr;  // the range

  bool is_switch() const { return unit.empty(); }
};

// A seed that stands for one that is drawn for each answer (DecodeChoice::draw_seed()).
inline constexpr std::string_view kDrawnSeed = "-1";

// In the order of the help: groups together.
std::span<const Field> fields();
const Field* find_field(std::string_view key);

std::string flag(const Field& field);                               // "--gen-length"
std::string needed(const Field& field);                             // "a whole number from 1 to 1048576"
std::string help_of(const Field& field, std::string_view initial);  // with its choices and its default

// One option by key and text, and back; the text of a value reads back as that value. Invalid, with `options`
// unchanged: "KEY: found 'x', needed ...". Combinations are not looked at (validate()), and nothing else is chosen by
// it (settings.h).
Status set_field(DecodeOptions& options, std::string_view key, std::string_view text);
Result<std::string> get_field(const DecodeOptions& options, std::string_view key);

// Whether every value is in its range: "KEY: found x, needed ...".
Status check_fields(const DecodeOptions& options, bool infill);

// The options that differ from the defaults, as flags: "--gen-length=64 --slide". A text with white space is in single
// quotes.
std::string as_flags(const DecodeOptions& options);
std::string as_word(std::string_view text);

// The list as Markdown, for docs/strategies.md. Its defaults are those without a preset, where a length follows the
// answer.
std::string field_table();

}  // namespace llada::decode
