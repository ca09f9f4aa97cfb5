// The options of a run for those above the engine: decode's struct, the list of its fields, and how texts and JSON
// become options.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "decode/fields.h"
#include "decode/removed.h"
#include "decode/settings.h"

namespace llada {

class Fields;

// {"gen_length": 64, "slide": true, "kv": "dual"}: keys and values as in decode/fields.h. Invalid: "WHERE: KEY: found
// ..., needed ...".
Result<std::vector<decode::Setting>> read_settings(const Fields& object);

// The flags of a field, "-n,--n-predict", its own first; and the field of one of them, or null.
std::string flag_names(const decode::Field& field);
const decode::Field* find_flag(std::string_view word);

// Options as words: separated by white space, "--name value" or "--name=value". A switch may have =true or =false. Text
// in single quotes is taken as it is, and \' outside of them is one.
struct DecodeWords {
  std::vector<decode::Setting> settings;
  std::string preset;  // of --preset-decode
};
inline constexpr std::string_view kPresetFlag = "--preset-decode";
Result<DecodeWords> read_words(std::string_view text);
bool names(std::span<const decode::Setting> settings, std::string_view key);

}  // namespace llada
