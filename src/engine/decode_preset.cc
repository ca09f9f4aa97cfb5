#include "engine/decode_preset.h"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "engine/json_fields.h"
#include "engine/options.h"

namespace llada {
namespace {

struct BuiltIn {
  const char* name;
  const char* options;
};

// Chosen on eval/tuning.jsonl (first 100 each of gsm-mini, json, sort; tiny-llada, F16), measured against one
// token per forward there: 92.3 % right, 52.9 forwards, 9139 rows. docs/decoding.md has the figures on other
// examples.
constexpr std::array kBuiltIn = {
    // LLaDA's own sampler at its slowest: one token per forward, everything recomputed, on a canvas of a fixed length.
    BuiltIn{"exact", "--gen-length 128"},
    // Chosen on the 600 examples of eval/tuning.jsonl among settings with at most 1/8 of the reference's forwards and
    // 1/20 of its rows: 93.2 % right, 4.2 forwards, 452 rows. No K/V policy: where prompt rows are not recomputed,
    // sort loses 20 points (docs/lab/decoding.md); what is left out instead are masks more than half a block away.
    BuiltIn{"balanced", "--tail 16 --threshold 0.98 --credit"},
    // At most 1/12 of the forwards: 92.2 % right there, 3.9 forwards, 422 rows.
    BuiltIn{"fast", "--tail 16 --threshold 0.97 --credit"},
    // Where a forward of 32 rows takes about as long as one of 1: the least time, modelled for sm8750-paper, of what
    // answers no worse there than one token per forward (first 40 examples of each task): 96.7 % right (it: 95.8), 3.1
    // forwards, 256 rows. Every second forward computes 32 rows, the others everything (docs/decoding.md).
    BuiltIn{"npu", "--kv dual --refresh 2 --tail 16 --threshold 0.97 --credit"},
    // The published samplers of LLaDA2.0 (arXiv 2512.15745) and, with token editing, LLaDA2.1, over exact block K/V;
    // not chosen here, and no checkpoint of them was at hand.
    BuiltIn{"llada2", "--accept llada2 --threshold 0.95 --kv block --early-stop block"},
    BuiltIn{"llada2.1", "--threshold 0.7 --edit-threshold 0.5 --kv block --early-stop block"},
};

constexpr int64_t kVersion = 1;

// {"threshold": 0.9, "credit": true} as flags.
Result<std::string> options_of(JsonFields& fields) {
  LLADA_TRY(const auto object, fields.object("options"));
  LLADA_TRY(const auto settings, read_settings(object));
  std::string words;
  for (const decode::Setting& s : settings)
    words += fmt::format("{}{}={}", words.empty() ? "" : " ", decode::flag(*s.field), s.text);
  return words;
}

}  // namespace

Result<DecodePreset> parse_decode_preset(std::string_view text, const std::string& source) {
  LLADA_TRY(auto fields, JsonFields::parse(text, source));
  LLADA_TRY_STATUS(fields.head("llada-preset", kVersion));
  DecodePreset preset;
  LLADA_TRY(preset.name, fields.text("name"));
  LLADA_TRY(preset.options, fields.has_object("options") ? options_of(fields) : fields.text("options"));
  if (fields.has("tuned")) {
    LLADA_TRY(auto tuned, fields.object("tuned"));
    LLADA_TRY(preset.model, tuned.text("model"));
    for (const char* name : {"device", "tasks"}) {
      LLADA_TRY(const std::string value, tuned.text(name));
    }
    LLADA_TRY(const int64_t examples, tuned.integer("examples", 1, INT64_MAX));
    static_cast<void>(examples);
    for (const char* name : {"max_loss", "loss", "held_out_loss"}) {
      LLADA_TRY(const double value, tuned.real(name, -100, 100));
      static_cast<void>(value);
    }
    for (const char* name : {"agreement", "nfe_mean", "rows_mean"}) {
      LLADA_TRY(const double value, tuned.real(name, 0, 1e15));
      static_cast<void>(value);
    }
    LLADA_TRY_STATUS(tuned.finish());
  }
  LLADA_TRY_STATUS(fields.finish());
  return preset;
}

std::vector<std::string_view> decode_presets() {
  std::vector<std::string_view> names;
  for (const BuiltIn& preset : kBuiltIn) names.push_back(preset.name);
  return names;
}

Result<DecodePreset> find_decode_preset(const std::string& name_or_path, bool files) {
  for (const BuiltIn& preset : kBuiltIn)
    if (name_or_path == preset.name) return DecodePreset{preset.name, preset.options, ""};
  const std::string known = fmt::format("{}", fmt::join(decode_presets(), ", "));
  if (!files) return invalid("found '{}', needed one of {}", name_or_path, known);
  if (name_or_path.empty() || ::access(name_or_path.c_str(), F_OK) != 0)
    return invalid("found '{}', needed one of {}, or a preset file", name_or_path, known);
  LLADA_TRY(const std::string text, read_file(name_or_path, size_t{1} << 20));
  return parse_decode_preset(text, name_or_path);
}

std::string decode_preset_text(const DecodePreset& preset, const PresetOrigin& origin) {
  const nlohmann::ordered_json json = {{"format", "llada-preset"},
                                       {"version", kVersion},
                                       {"name", preset.name},
                                       {"options", preset.options},
                                       {"tuned",
                                        {{"model", origin.model},
                                         {"device", origin.device},
                                         {"tasks", origin.tasks},
                                         {"examples", origin.examples},
                                         {"max_loss", origin.max_loss},
                                         {"loss", origin.loss},
                                         {"held_out_loss", origin.held_out_loss},
                                         {"agreement", origin.agreement},
                                         {"nfe_mean", origin.nfe_mean},
                                         {"rows_mean", origin.rows_mean}}}};
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace llada
