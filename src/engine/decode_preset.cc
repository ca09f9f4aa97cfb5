#include "engine/decode_preset.h"

#include <array>
#include <cstdint>

#include "base/os.h"
#include "decode/removed.h"
#include "engine/options.h"
#include "formats/family.h"
#include "json/fields.h"
#include "json/parse.h"
#include "text/text_file.h"

namespace llada {
namespace {

struct BuiltIn {
  std::string_view name;
  std::string_view options;
  std::string_view block_causal = {};  // for block-causal models; empty: the same
  std::string_view unrevised = {};     // for those whose finished text is not revised; empty: as block_causal
};

// A block and what stands before it is all that a block-causal model sees, so K/V of finished blocks is exact and there
// is no tail. Chosen with a small model of ours: no checkpoint of LLaDA2 was at hand (docs/lab/decoding.md).
constexpr const char* kBlockCausal =
    "--kv block --entropy-gate 1 --revision dual-path --threshold 0.9 --stable-threshold 0.99 --revise-rows 8";
constexpr const char* kBlockCausalFast =
    "--kv block --entropy-gate 1 --revision dual-path --threshold 0.85 --stable-threshold 0.99 --revise-rows 8";

// What is finished was read causally, or its rows cannot be computed alone. Not measured, since no checkpoint was at
// hand: the published threshold, and a lower one.
constexpr const char* kUnrevised = "--kv block --threshold 0.9";
constexpr const char* kUnrevisedFast = "--kv block --threshold 0.8";

// How they were chosen, and what each has measured: docs/lab/decoding.md and long-answers.md there.
constexpr std::array kBuiltIn = {
    // LLaDA's own sampler at its slowest: one token per forward, everything recomputed, on a canvas of a fixed length.
    BuiltIn{"exact", "--gen-length 128"},
    // A forward computes the block and what changed before it, and everything once 80 tokens have changed; masks more
    // than half a block behind the block are not read; and what is written is checked until it is stable
    // (decode/dual_path.h) or the answer complete.
    BuiltIn{"balanced",
            "--kv dual --refresh-after 80 --slide --tail 16 --entropy-gate 1 --revision dual-path --threshold 0.9 "
            "--stable-threshold 0.99 --revise-rows 8",
            kBlockCausal, kUnrevised},
    // Fewer forwards and rows for a little less certainty.
    BuiltIn{"fast",
            "--kv dual --refresh-after 256 --slide --tail 16 --entropy-gate 1 --revision dual-path --threshold 0.85 "
            "--stable-threshold 0.99 --revise-rows 8",
            kBlockCausalFast, kUnrevisedFast},
};

// These, and the published samplers, which are their families'.
std::vector<BuiltIn> built_in() {
  std::vector<BuiltIn> all(kBuiltIn.begin(), kBuiltIn.end());
  for (const Family* family : families())
    for (const FamilyPreset& preset : family->presets) all.push_back({preset.name, preset.options});
  return all;
}

constexpr int64_t kVersion = 1;

// {"threshold": 0.9, "slide": true} as flags.
Result<std::string> options_of(Fields& fields) {
  LLADA_TRY(const auto object, fields.object("options"));
  LLADA_TRY(const auto settings, read_settings(object));
  std::string words;
  for (const decode::Setting& s : settings)
    words += fmt::format("{}{}={}", words.empty() ? "" : " ", decode::flag(*s.field), decode::as_word(s.text));
  return words;
}

}  // namespace

Result<DecodePreset> parse_decode_preset(std::string_view text, const std::string& source) {
  LLADA_TRY(auto fields, Fields::parse(text, source));
  LLADA_TRY_STATUS(fields.head("llada-preset", kVersion));
  DecodePreset preset;
  LLADA_TRY(preset.name, fields.text("name"));
  const Json* given = fields.look("options");
  const bool is_object = given != nullptr && given->is_object();
  LLADA_TRY(preset.options, is_object ? options_of(fields) : fields.text("options"));
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
  for (const BuiltIn& preset : built_in()) names.push_back(preset.name);
  return names;
}

Result<DecodePreset> find_decode_preset(const std::string& name_or_path, bool files, const decode::ModelKind& kind) {
  for (const BuiltIn& preset : built_in()) {
    if (name_or_path != preset.name) continue;
    std::string_view options = preset.options;
    if (kind.attention_block > 0 && !preset.block_causal.empty()) options = preset.block_causal;
    if ((kind.keeps_finished() || kind.whole_blocks) && !preset.unrevised.empty()) options = preset.unrevised;
    return DecodePreset{.name = std::string(preset.name), .options = std::string(options), .built_in = true};
  }
  const std::string known = fmt::format("{}", fmt::join(decode_presets(), ", "));
  if (const auto instead = decode::replaced_by("preset", name_or_path); !instead.empty())
    return invalid("'{}' was removed: {}; needed one of {}", name_or_path, instead, known);
  if (!files) return invalid("found '{}', needed one of {}", name_or_path, known);
  if (name_or_path.empty() || !os::exists(name_or_path))
    return invalid("found '{}', needed one of {}, or a preset file", name_or_path, known);
  LLADA_TRY(const std::string text, read_text_file(name_or_path, size_t{1} << 20));
  return parse_decode_preset(text, name_or_path);
}

std::string decode_preset_text(const DecodePreset& preset, const PresetOrigin& origin) {
  const Json json = {{"format", "llada-preset"},
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
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace llada
