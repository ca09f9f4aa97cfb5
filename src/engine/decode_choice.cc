#include "engine/decode_choice.h"

#include <algorithm>
#include <random>

#include "decode/length.h"
#include "engine/decode_preset.h"

namespace llada {

using decode::Setting;

namespace {

void open_length(decode::DecodeOptions& options) {
  options.auto_length = true, options.gen_length = decode::kAutoLength;
}

}  // namespace

bool DecodeChoice::decides(const Setting& setting) {
  using enum decode::FieldGroup;
  const decode::FieldGroup group = setting.field->group;
  return group == acceptance || group == caches || group == drafts || group == revision ||
         setting.field->key == "steps";
}

std::string DecodeChoice::chosen_preset() const {
  if (!preset_.empty() || !by_default_ || std::ranges::any_of(given_, decides)) return preset_;
  return "balanced";
}

// The preset's settings, less what does not apply to gaps.
Status DecodeChoice::read_preset(int64_t attention_block) {
  preset_settings_.clear();
  if (used_preset_.empty()) return {};
  const auto read = [&]() -> Status {
    LLADA_TRY(const DecodePreset preset, find_decode_preset(used_preset_, files_, attention_block));
    tuned_for_ = preset.model, built_in_ = preset.built_in;
    LLADA_TRY(DecodeWords words, read_words(preset.options));
    if (!words.preset.empty()) return invalid("{}: a preset cannot name another one", used_preset_);
    std::erase_if(words.settings, [&](const Setting& s) {
      return infill_ && (s.field->key == "gen_length" || s.field->key == "tail");
    });
    // As options beside the preset are called: llada.preset has llada.threshold beside it, --preset-decode --threshold.
    const bool flags = preset_typed_.starts_with("--");
    const std::string beside = preset_typed_.substr(0, preset_typed_.rfind("preset"));
    for (Setting& s : words.settings)
      s.typed = fmt::format("{} (of preset {})", flags ? s.typed : beside + std::string(s.field->key), preset.name);
    preset_settings_ = std::move(words.settings);
    return {};
  };
  if (const Status status = read(); !status) return invalid("{}: {}", preset_typed_, status.error().message);
  return {};
}

Status DecodeChoice::resolve(std::optional<int64_t> attention_block) {
  constexpr int64_t kSomeBlock = 32;  // that of all published block-causal models
  if (attention_block) return resolve_for(*attention_block);
  const Status status = resolve_for(0);
  return status || resolve_for(kSomeBlock) ? Status() : status;
}

Status DecodeChoice::resolve_for(int64_t attention_block) {
  used_preset_ = chosen_preset();
  LLADA_TRY_STATUS(read_preset(attention_block));
  // What is decoded together is the block that sees itself, where nobody says otherwise. A preset of tune was measured
  // with the length that it leaves out.
  if (!used_preset_.empty() && built_in_ && attention_block > 0 && !names("block_length")) {
    LLADA_TRY(auto block, decode::setting("block_length", fmt::format("{}", attention_block)));
    preset_settings_.push_back(std::move(block));
  }
  note_.clear();
  LLADA_TRY(options, decode::decode_options(given_, preset_settings_, infill_, &note_));
  if (preset_.empty()) note_.clear();  // nobody asked for what is left out
  choose_length(attention_block);
  return {};
}

bool DecodeChoice::names(std::string_view key) const {
  const auto is_it = [&](const Setting& s) { return s.field->key == key; };
  return std::ranges::any_of(given_, is_it) || std::ranges::any_of(preset_settings_, is_it);
}

decode::DecodeOptions DecodeChoice::defaults() const {
  decode::DecodeOptions own;
  if (by_default_ && !infill_) open_length(own);
  return own;
}

decode::DecodeOptions DecodeChoice::request_defaults() {
  DecodeChoice choice;
  choice.use_defaults();
  return choice.defaults();
}

void DecodeChoice::choose_length(int64_t attention_block) {
  length_by_default_ = false;
  if (!by_default_ || infill_ || names("gen_length")) return;
  decode::DecodeOptions open = options;
  open_length(open);
  if (!decode::validate(open)) return;  // steps, early_stop none ...: the length has to be known
  if (open.evict > 0 && decode::predicts_length(open, attention_block)) return;
  options = open;
  length_by_default_ = true;
}

void DecodeChoice::draw_seed() {
  const auto drawn = [](const Setting& s) { return s.field->key == "seed" && s.text == decode::kDrawnSeed; };
  if (std::ranges::any_of(given_, drawn) || (options.temperature != 0 && !names("seed")))
    options.seed = std::random_device()();
}

}  // namespace llada
