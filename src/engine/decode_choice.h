// What somebody asks of decoding, and the options that come of it: a preset, options of their own beside it, and, where
// neither says how tokens are decided, what the model is decoded with by default. The command line, the server and
// every other way in resolve their options here, so that equal requests are decoded alike.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/options.h"

namespace llada {

class DecodeChoice {
 public:
  decode::DecodeOptions options;  // after resolve()

  explicit DecodeChoice(bool infill = false) : infill_(infill) {}

  // What is used where neither a preset nor an option that says how tokens are decided is given: balanced; without it,
  // one token per forward. And the length where nobody says it:
  // as long as the answer needs (auto), unless an option needs a fixed one; without it, DecodeOptions' own.
  void use_defaults() { by_default_ = true; }
  // What an option is where neither the request nor a preset says it; help shows these.
  decode::DecodeOptions defaults() const;
  // The same of a request of the server or of the library, which are answered with use_defaults().
  static decode::DecodeOptions request_defaults();

  // Where the request comes from somebody who may not read files: a preset is a built-in one, and errors call it
  // `typed`.
  void built_in_presets_only(std::string typed) { files_ = false, call_preset(std::move(typed)); }
  // What errors call the option that names a preset.
  void call_preset(std::string typed) { preset_typed_ = std::move(typed); }

  void give(decode::Setting setting) { given_.push_back(std::move(setting)); }
  void give_preset(std::string name_or_path) { preset_ = std::move(name_or_path); }
  bool given() const { return !given_.empty() || !preset_.empty(); }

  // Validated; what only together makes no sense is refused here. Again once the model is known: attention_block is the
  // block of a block-causal model, 0 of others. Nothing: the model is not known, and what one kind of models can do is
  // not refused (presets have a form for each).
  Status resolve(std::optional<int64_t> attention_block = {});
  // Nobody said how long an answer may be, and auto was put in.
  bool length_by_default() const { return length_by_default_; }
  // The preset that resolve() used; empty: options alone.
  const std::string& preset() const { return used_preset_; }
  // The fingerprint of the model that the preset file was tuned for; empty: none was.
  const std::string& tuned_for() const { return tuned_for_; }
  // One line about what was left out of the preset that was given, or empty.
  const std::string& note() const { return note_; }
  // Draws the seed of the next answer where tokens are sampled and nobody gave one, or the one given is kDrawnSeed.
  void draw_seed();
  // A refusal that comes later, of the model's or the engine's, with what was typed in the place of the option's key.
  Error as_typed(Error error) const { return decode::as_typed(std::move(error), given_, preset_settings_); }

 protected:
  // A setting that says which predictions are kept or what is computed; other options stand beside a preset.
  static bool decides(const decode::Setting& setting);

  std::vector<decode::Setting> given_;
  std::string preset_;
  bool infill_;

 private:
  Status resolve_for(int64_t attention_block);
  std::string chosen_preset() const;
  Status read_preset(int64_t attention_block);
  bool names(std::string_view key) const;  // an option, or the preset
  void choose_length(int64_t attention_block);

  std::string used_preset_, tuned_for_, note_, preset_typed_ = std::string(kPresetFlag);
  std::vector<decode::Setting> preset_settings_;
  bool by_default_ = false, length_by_default_ = false, files_ = true;
  bool built_in_ = false;  // the preset that was used
};

}  // namespace llada
