#include "decode/settings.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "decode/removed.h"

namespace llada::decode {
namespace {

// Drafts of blocks ahead are asked for by naming how.
bool asks_for_drafts(const Field& field) { return field.group == FieldGroup::drafts && field.key != "mbsd"; }

constexpr double kRevisedThreshold = 0.7;  // that ways of revising were published with

class Resolver {
 public:
  // soft: left out where it contradicts an earlier setting.
  Status add(const Setting& s, bool soft) {
    const Field& f = *s.field;
    DecodeOptions next = options_;
    if (const Status status = set_field(next, f.key, s.text); !status) return as_typed_value(s, status.error());
    const unsigned rules = f.key == "accept" ? rule_bit(next.acceptance) : f.rules;
    auto way = f.key == "revision"            ? std::optional(next.revision)
               : f.revision != Revision::none ? std::optional(f.revision)
                                              : std::nullopt;
    if (soft && way && gives_way(*way)) return {};
    if (way && way_ && f.key != "revision" && reads_options_of(*way_, *way)) way = way_;
    if (way && way_ && f.key == "revision" && implied_ && reads_options_of(*way, *way_)) way_ = way;
    const Status fits = check(s, rules, way);
    if (!fits && soft) return {};
    LLADA_TRY_STATUS(fits);
    if (rules != 0) {
      rules_ &= rules;
      if (chooser_.empty()) chooser_ = s.typed;
    }
    if (way && !way_) way_ = way, reviser_ = s.typed;
    implied_ = implied_ && f.key != "revision";
    drafts_ |= asks_for_drafts(f);
    seen_.emplace_back(f.key, s.typed);
    options_ = std::move(next);
    return {};
  }

  DecodeOptions finish() {
    if (!chooser_.empty()) options_.acceptance = static_cast<Acceptance>(std::countr_zero(rules_));
    if (way_) options_.revision = *way_;
    if (options_.revision != Revision::none) {
      if (chooser_.empty()) options_.acceptance = Acceptance::threshold;
      if (first("threshold") == nullptr) options_.threshold = kRevisedThreshold;
    }
    if (drafts_ && first("mbsd") == nullptr) options_.mbsd = true;
    return options_;
  }

 private:
  static Status as_typed_value(const Setting& s, const Error& error) {
    return invalid("{}", as_typed(error, {&s, 1}).message);
  }
  // Another way was chosen.
  bool gives_way(Revision way) const {
    return way_ && !reads_options_of(*way_, way) && !(implied_ && reads_options_of(way, *way_));
  }
  const std::string* first(std::string_view key) const {
    const auto found = std::ranges::find(seen_, key, &std::pair<std::string_view, std::string>::first);
    return found == seen_.end() ? nullptr : &found->second;
  }
  Status check(const Setting& s, unsigned rules, std::optional<Revision> way) const {
    const std::string* before = first(s.field->key);
    if (before != nullptr && *before == s.typed) return invalid("{}: given twice", s.typed);
    if (way && way_ && *way_ != *way)
      return invalid("{}: {} already chose {} revision", s.typed, reviser_, name(*way_));
    if (before != nullptr) return invalid("{}: {} already set the same {}", s.typed, *before, s.field->key);
    if (rules != 0 && (rules_ & rules) == 0)
      return invalid("{}: {} already chose how tokens are accepted: {}, which does not go with it", s.typed, chooser_,
                     name(static_cast<Acceptance>(std::countr_zero(rules_))));
    return {};
  }

  DecodeOptions options_;
  unsigned rules_ = ~0u;         // those that read everything that was named
  std::optional<Revision> way_;  // of revising
  bool implied_ = true;          // by options of one way alone
  bool drafts_ = false;
  std::string chooser_, reviser_;  // the settings that chose the rule and the way first
  std::vector<std::pair<std::string_view, std::string>> seen_;
};

// The setting that an error about `key` is about: the option itself, or one that chose it.
const Setting* culprit(std::string_view key, std::span<const Setting> settings) {
  const Setting* chose = nullptr;
  for (const Setting& s : settings) {
    if (s.field->key == key) return &s;
    if (chose == nullptr &&
        ((key == "revision" && s.field->revision != Revision::none) || (key == "mbsd" && asks_for_drafts(*s.field))))
      chose = &s;
  }
  return chose;
}

}  // namespace

Result<Setting> setting(std::string_view key, std::string_view text) {
  const Field* field = find_field(key);
  if (field == nullptr) return invalid("{}", no_option(key));
  return Setting{field, std::string(text), std::string(key)};
}

bool asks_for_schedule(const Setting& s) {
  DecodeOptions options{AcceptanceOptions{.acceptance = Acceptance::threshold}};
  if (!set_field(options, s.field->key, s.text)) return false;
  return s.field->key == "steps" || has_schedule(options.acceptance);
}

namespace {

OrRefused<DecodeOptions> resolved(std::span<const Setting> given, std::span<const Setting> preset,
                                  const DecodeUse& use) {
  Resolver alone, resolver;  // a preset has to make sense alone, whatever is given beside it
  for (const Setting& s : preset) LLADA_TRY_STATUS(alone.add(s, false));
  for (const Setting& s : given) LLADA_TRY_STATUS(resolver.add(s, false));
  for (const Setting& s : preset) LLADA_TRY_STATUS(resolver.add(s, true));
  DecodeOptions options = resolver.finish();
  // Refusals for the model alone are left to callers that know it, but of two reasons the model's is told.
  const bool own = use.kind.uniform.length > 0 || needs_blocks(options);
  if (const auto status = validate(options, use.infill, own ? use.kind : ModelKind()); !status) {
    const auto of_model = validate(options, use.infill, use.kind);
    const Refused& refused = (of_model ? status : of_model).error();
    return std::unexpected(Refused(as_typed(refused, given, preset), refused.of_model));
  }
  return options;
}

// Refuses options that the model cannot follow, as far as its attention tells.
OrRefused<void> fits(const OrRefused<DecodeOptions>& options, const DecodeUse& use) {
  if (!options) return std::unexpected(options.error());
  return validate(*options, use.infill, use.kind);
}

}  // namespace

OrRefused<DecodeOptions> decode_options(std::span<const Setting> given, const PresetSettings& preset,
                                        const DecodeUse& use) {
  auto options = resolved(given, preset.settings, use);
  if (given.empty() || preset.settings.empty()) return options;
  const auto status = fits(options, use);
  const auto works = [&](std::span<const Setting> own, std::span<const Setting> of_preset) {
    return fits(resolved(own, of_preset, use), use).has_value();
  };
  // Options that are wrong without the other are refused as they are, here or by callers that know the model.
  if (status || !works(given, {}) || !works({}, preset.settings)) return options;
  Refused error(as_typed(status.error(), given, preset.settings), status.error().of_model);
  const Setting* cause = nullptr;  // the option that the error is about, or one without which the preset would do
  for (const Setting& s : given)
    if (cause == nullptr && error.message.starts_with(s.typed + ":")) cause = &s;
  for (size_t i = 0; i < given.size() && cause == nullptr; ++i) {
    std::vector<Setting> others(given.begin(), given.end());
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    if (works(others, preset.settings)) cause = &given[i];
  }
  if (cause == nullptr) cause = &given.front();
  error.message =
      fmt::format("{}{}{}: does not go with preset {}: {}{}", cause->typed, cause->field->is_switch() ? "" : " ",
                  cause->field->is_switch() ? "" : cause->text, preset.name, error.message, preset.way_out);
  return std::unexpected(error);
}

Error as_typed(Error error, std::span<const Setting> given, std::span<const Setting> preset) {
  const Field* field = field_of(error);
  if (field == nullptr) return error;
  const Setting* s = culprit(field->key, given);
  if (s == nullptr) s = culprit(field->key, preset);
  if (s != nullptr) error.message.replace(0, field->key.size(), s->typed);
  return error;
}

const Field* field_of(const Error& error) {
  const size_t colon = error.message.find(':');
  return colon == std::string::npos ? nullptr : find_field(std::string_view(error.message).substr(0, colon));
}

}  // namespace llada::decode
