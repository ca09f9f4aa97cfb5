// Resolves the decoding options that a user gives: a preset, options beside it, and, where no preset is named, the
// model's default decoding. The command line, the server and every other way in resolve their options here, so that
// equal requests are decoded alike.
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

  // The defaults of `run`: balanced where no preset is named, and a length that follows the answer (auto) where none is
  // given, unless an option needs a fixed one. An option replaces that value of the preset; a fixed schedule
  // (decode::asks_for_schedule) replaces the default preset as a whole, and note() says so. Without it, one token per
  // forward and DecodeOptions' own length. Where tokens are sampled, draws_seed says whether draw_seed() will be
  // called.
  void use_defaults(bool draws_seed = true) { default_preset_ = default_length_ = true, draws_seed_ = draws_seed; }
  void use_default_length() { default_length_ = true; }
  // The same without anything that was given, resolved for models with full attention; help shows these.
  DecodeChoice defaults() const;
  // The same of a request of the server or of the library, which are answered with use_defaults().
  static DecodeChoice request_defaults(const decode::ModelKind& kind = {});
  // The value of an option after resolve(), for help: "dual", "preset: dual", "drawn".
  std::string described(const decode::Field& field) const;

  // Where the request comes from somebody who may not read files: a preset is a built-in one, and errors call it
  // `typed`.
  void built_in_presets_only(std::string typed) { files_ = false, call_preset(std::move(typed)); }
  // The name in errors of the option that names a preset, for callers whose options have keys and no flags.
  void call_preset(std::string typed) { preset_typed_ = std::move(typed), flags_ = false; }

  void give(decode::Setting setting) { given_.push_back(std::move(setting)); }
  void give_preset(std::string name_or_path) { preset_ = std::move(name_or_path); }
  bool given() const { return !given_.empty() || !preset_.empty(); }

  // Validated; options that only together make no sense are refused here. Again once the model and so its kind is
  // known. Nothing: it is not known, and only options that no kind of models can follow are refused (presets have a
  // form for each). A model whose canvases hold random tokens has no presets but its own numbers.
  Status resolve(const std::optional<decode::ModelKind>& kind = {});
  // Nobody said how long an answer may be, and auto was put in.
  bool length_by_default() const { return length_by_default_; }
  // The preset that resolve() used; empty: options alone.
  const std::string& preset() const { return used_preset_; }
  // The fingerprint of the model that the preset file was tuned for; empty: none was.
  const std::string& tuned_for() const { return tuned_for_; }
  // One line on why the default preset is not used; or empty.
  const std::string& note() const { return note_; }
  // Draws the seed of the next answer where tokens are sampled and nobody gave one, or the one given is kDrawnSeed.
  void draw_seed();
  // A refusal that comes later, of the model's or the engine's, with the typed text in the place of the option's key.
  Error as_typed(Error error) const { return decode::as_typed(std::move(error), given_, preset_settings_); }
  const std::string& preset_typed() const { return preset_typed_; }

 protected:
  // A setting that says which predictions are kept or which rows are computed: presets consist of these.
  static bool decides(const decode::Setting& setting);

  std::vector<decode::Setting> given_;
  std::string preset_;
  bool infill_;

 private:
  decode::OrRefused<void> resolve_for(const decode::ModelKind& kind);
  // The setting that asks for a schedule in the place of the default preset; or null
  const decode::Setting* schedule() const;
  Status read_preset(const decode::ModelKind& kind);
  Status take_numbers_of(const UniformCanvas& canvas);
  bool names(std::string_view key) const;  // an option, or the preset
  void choose_length(const decode::ModelKind& kind);

  std::string used_preset_, tuned_for_, note_, preset_typed_ = std::string(kPresetFlag);
  std::vector<decode::Setting> preset_settings_;
  bool default_preset_ = false, default_length_ = false, draws_seed_ = false, length_by_default_ = false;
  bool files_ = true, flags_ = true;
  bool built_in_ = false;  // the preset that was used
  bool random_ = false;    // random numbers take part whatever the options are
};

}  // namespace llada
