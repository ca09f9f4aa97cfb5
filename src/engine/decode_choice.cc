#include "engine/decode_choice.h"

#include <algorithm>
#include <random>

#include "base/check.h"
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

const Setting* DecodeChoice::schedule() const {
  if (!preset_.empty() || !default_preset_) return nullptr;
  const auto found = std::ranges::find_if(given_, decode::asks_for_schedule);
  return found == given_.end() ? nullptr : &*found;
}

// The preset's settings, less those that do not apply to gaps.
Status DecodeChoice::read_preset(const decode::ModelKind& kind) {
  preset_settings_.clear();
  if (kind.uniform.length > 0) return take_numbers_of(kind.uniform);
  if (used_preset_.empty()) return {};
  const auto read = [&]() -> Status {
    LLADA_TRY(const DecodePreset preset, find_decode_preset(used_preset_, files_, kind));
    tuned_for_ = preset.model, built_in_ = preset.built_in;
    LLADA_TRY(DecodeWords words, read_words(preset.options));
    if (!words.preset.empty()) return invalid("{}: a preset cannot name another one", used_preset_);
    std::erase_if(words.settings, [&](const Setting& s) {
      return infill_ && (s.field->key == "gen_length" || s.field->key == "tail");
    });
    for (Setting& s : words.settings)
      s.typed = fmt::format("{} (of preset {})", flags_ ? s.typed : s.field->key, preset.name);
    preset_settings_ = std::move(words.settings);
    return {};
  };
  if (const Status status = read(); !status) return invalid("{}: {}", preset_typed_, status.error().message);
  return {};
}

// The model's published numbers stand in the place of a preset.
Status DecodeChoice::take_numbers_of(const UniformCanvas& canvas) {
  if (!used_preset_.empty())
    return invalid(
        "{}: found {} with a model whose canvases hold random tokens, which has numbers of its own; needed "
        "none",
        preset_typed_, used_preset_);
  const std::pair<std::string_view, std::string> numbers[] = {
      {"denoising_steps", fmt::format("{}", canvas.steps)},
      {"entropy_bound", fmt::format("{}", canvas.entropy_bound)},
      {"confidence_threshold", fmt::format("{}", canvas.confidence_threshold)}};
  for (const auto& [key, text] : numbers) {
    LLADA_TRY(auto number, decode::setting(key, text));
    number.typed += " (of the model)";
    preset_settings_.push_back(std::move(number));
  }
  return {};
}

Status DecodeChoice::resolve(const std::optional<decode::ModelKind>& kind) {
  constexpr int64_t kSomeBlock = 32, kSomeCanvas = 256;  // those of all published models
  if (kind) return resolve_for(*kind);
  const auto full = resolve_for({});
  if (full || infill_) return full;
  const auto behind_causal_text = [&] {
    const decode::ModelKind some(kSomeBlock, {}, true);
    return resolve_for(some) && decode::validate(options, infill_, some);
  };
  const auto blocks = resolve_for(kSomeBlock);
  if (blocks || behind_causal_text() || resolve_for({0, {.length = kSomeCanvas}})) return {};
  // Every kind of model refuses: where the first one's reason is the kind, that of a block-causal one.
  return full.error().of_model ? blocks : full;
}

decode::OrRefused<void> DecodeChoice::resolve_for(const decode::ModelKind& kind) {
  random_ = kind.uniform.length > 0;
  const Setting* schedule = random_ ? nullptr : this->schedule();
  used_preset_ = preset_.empty() && default_preset_ && schedule == nullptr && !random_ ? kDefaultPreset : preset_;
  LLADA_TRY_STATUS(read_preset(kind));
  // The block that sees itself is decided together, where nobody says otherwise. A preset of tune was measured with the
  // length that it leaves out.
  if (!used_preset_.empty() && built_in_ && kind.attention_block > 0 && !names("block_length")) {
    LLADA_TRY(auto block, decode::setting("block_length", fmt::format("{}", kind.attention_block)));
    preset_settings_.push_back(std::move(block));
  }
  const std::string way_out = fmt::format("; {} exact starts without it", preset_typed_);
  auto resolved = decode::decode_options(given_, {used_preset_, preset_settings_, way_out}, {infill_, kind});
  if (!resolved) {
    if (schedule != nullptr)
      resolved.error().message += fmt::format(" ({} is decoded without preset {})", schedule->typed, kDefaultPreset);
    return std::unexpected(resolved.error());
  }
  options = *resolved;
  note_.clear();
  if (schedule != nullptr)
    note_ = fmt::format("{} asks for a fixed schedule, so preset {} is not used", schedule->typed, kDefaultPreset);
  choose_length(kind);
  return {};
}

bool DecodeChoice::names(std::string_view key) const {
  const auto is_it = [&](const Setting& s) { return s.field->key == key; };
  return std::ranges::any_of(given_, is_it) || std::ranges::any_of(preset_settings_, is_it);
}

DecodeChoice DecodeChoice::defaults() const {
  DecodeChoice own(infill_);
  own.default_preset_ = default_preset_, own.default_length_ = default_length_, own.draws_seed_ = draws_seed_;
  LLADA_CHECK(own.resolve_for({}).has_value());
  return own;
}

DecodeChoice DecodeChoice::request_defaults(const decode::ModelKind& kind) {
  DecodeChoice choice;
  choice.use_defaults();
  LLADA_CHECK(choice.resolve_for(kind).has_value());
  return choice;
}

std::string DecodeChoice::described(const decode::Field& field) const {
  if (field.key == "seed" && draws_seed_ && !names("seed")) return "drawn";
  decode::DecodeOptions plain;
  if (default_length_ && !infill_) open_length(plain);
  const std::string text = field.show(field, options);
  return used_preset_.empty() || text == field.show(field, plain) ? text : "preset: " + text;
}

void DecodeChoice::choose_length(const decode::ModelKind& kind) {
  length_by_default_ = false;
  if (!default_length_ || infill_ || names("gen_length")) return;
  decode::DecodeOptions open = options;
  open_length(open);
  const bool own = random_ || open.acceptance == decode::Acceptance::causal;
  if (!decode::validate(open, false, own ? kind : decode::ModelKind()))
    return;  // steps, early_stop none ...: the length has to be known
  options = open;
  length_by_default_ = true;
}

void DecodeChoice::draw_seed() {
  const auto drawn = [](const Setting& s) { return s.field->key == "seed" && s.text == decode::kDrawnSeed; };
  if (std::ranges::any_of(given_, drawn) || ((options.temperature != 0 || random_) && !names("seed")))
    options.seed = std::random_device()();
}

}  // namespace llada
