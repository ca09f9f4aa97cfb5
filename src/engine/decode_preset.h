// Presets: decoding options under a name. Some are built in, with a form of their own for some kinds of models. `llada
// tune` writes others to files, whose "options" may also be a JSON object of keys and values.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "decode/options.h"

namespace llada {

inline constexpr std::string_view kDefaultPreset = "balanced";  // where none is named

struct DecodePreset {
  std::string name;
  std::string options;  // decoding options as on the command line, without --preset-decode
  bool built_in = false;
  std::string model = {};  // the fingerprint of the one that it was tuned for (eval/reference.h); empty: for any
};

// The origin of a tuned preset; shown from the file, never used.
struct PresetOrigin {
  std::string model, device, tasks;
  int64_t examples = 0;
  double max_loss = 0, loss = 0, held_out_loss = 0, agreement = 0, nfe_mean = 0, rows_mean = 0;
};

// A built-in name, or, where files may be read, the path of a preset file. kind: of the model that it is for. Invalid:
// neither; a file with a field that is missing, unknown or out of range. Options are not
// parsed here.
Result<DecodePreset> find_decode_preset(const std::string& name_or_path, bool files = true,
                                        const decode::ModelKind& kind = {});

std::vector<std::string_view> decode_presets();  // their names

Result<DecodePreset> parse_decode_preset(std::string_view text, const std::string& source);
std::string decode_preset_text(const DecodePreset& preset, const PresetOrigin& origin);

}  // namespace llada
