#include "cli/options.h"

#include <algorithm>
#include <charconv>
#include <random>
#include <ranges>

#include "cli/help.h"
#include "cli/mistakes.h"
#include "cli/preset.h"

namespace llada::cli {
namespace {

using decode::Field;
using decode::Setting;

constexpr std::string_view kPresetFlag = "--preset-decode";
constexpr const char* kPresetHelp =
    "exact, balanced, fast, llada2, llada2.1, or a file of llada tune; options beside it replace the preset's";

// As CLI11 takes them; it calls the option by the first long one.
std::string flag_names(const Field& field) {
  return decode::flag(field) + (field.aliases.empty() ? "" : ",") + std::string(field.aliases);
}

// The headings of the short help, which shows a few options of each.
std::string short_title(decode::FieldGroup group) {
  switch (group) {
    case decode::FieldGroup::length:
    case decode::FieldGroup::ending:
      return "Length";
    case decode::FieldGroup::sampling:
    case decode::FieldGroup::guidance:
      return "Sampling";
    default:
      return "Speed";
  }
}

const Field* find_flag(std::string_view word) {
  for (const Field& field : decode::fields())
    for (const auto part : std::views::split(flag_names(field), ','))
      if (std::string_view(part) == word) return &field;
  return nullptr;
}

// Says which predictions are kept or what is computed; other options stand beside a preset.
bool decides(const Setting& s) {
  using enum decode::FieldGroup;
  const decode::FieldGroup group = s.field->group;
  return group == acceptance || group == caches || group == drafts || group == revision || s.field->key == "steps";
}

struct Words {
  std::vector<Setting> settings;
  std::string preset;  // of --preset-decode
};

// Options as words: separated by white space, "--name value" or "--name=value". A switch may have =true or =false.
Result<Words> read_words(std::string_view text) {
  std::vector<std::string_view> pieces;
  constexpr std::string_view kSpace = " \t\r\n";
  for (size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    pieces.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kSpace, end);
  }
  Words words;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const size_t equals = pieces[i].find('=');
    const std::string_view name = pieces[i].substr(0, equals);
    const Field* field = find_flag(name);
    if (field == nullptr && name != kPresetFlag) return invalid("'{}' is no decoding option", name);
    std::string value = "true";
    if (equals != std::string_view::npos) {
      value = pieces[i].substr(equals + 1);
    } else if (field == nullptr || !field->is_switch()) {
      if (++i == pieces.size()) return invalid("{}: needs a value", name);
      value = pieces[i];
    }
    if (field != nullptr) {
      words.settings.push_back({field, std::move(value), std::string(name)});
    } else {
      if (!words.preset.empty()) return invalid("{}: given twice", name);
      words.preset = std::move(value);
    }
  }
  return words;
}

// The preset's settings, less what does not apply to gaps.
// tuned_for: Preset::model.
Result<std::vector<Setting>> preset_settings(const std::string& name, bool infill, std::string& tuned_for) {
  if (name.empty()) return std::vector<Setting>();
  const auto read = [&]() -> Result<std::vector<Setting>> {
    LLADA_TRY(const Preset preset, find_preset(name));
    tuned_for = preset.model;
    LLADA_TRY(Words words, read_words(preset.options));
    if (!words.preset.empty()) return invalid("{}: a preset cannot name another one", name);
    std::erase_if(words.settings,
                  [&](const Setting& s) { return infill && (s.field->key == "gen_length" || s.field->key == "tail"); });
    for (Setting& s : words.settings) s.typed += fmt::format(" (of preset {})", preset.name);
    return words.settings;
  };
  auto settings = read();
  if (!settings) return invalid("{}: {}", kPresetFlag, settings.error().message);
  return settings;
}

// "gen_length: ..." as "--gen-length: ..." where nothing was typed.
Error with_flag(Error error) {
  const size_t colon = std::min(error.message.find(':'), error.message.size());
  if (const Field* field = decode::find_field(std::string_view(error.message).substr(0, colon)))
    error.message.replace(0, colon, decode::flag(*field));
  return error;
}

}  // namespace

Result<int64_t> parse_integer(std::string_view text, int64_t least, int64_t most) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    return invalid("found '{}', which is out of range; needed {} to {}", text, least, most);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    return invalid("found '{}', needed {} to {}", text, least, most);
  if (value < least || value > most) return invalid("found {}, needed {} to {}", value, least, most);
  return value;
}

std::string DecodeFlags::chosen_preset(int64_t attention_block) const {
  if (!preset_.empty() || !by_default_ || std::ranges::any_of(given_, decides)) return preset_;
  return attention_block > 0 ? "llada2" : "balanced";
}

Status DecodeFlags::resolve(int64_t attention_block) {
  used_preset_ = chosen_preset(attention_block);
  LLADA_TRY(preset_settings_, preset_settings(used_preset_, infill_, tuned_for_));
  // The published block length is the model's own.
  if (preset_.empty() && !used_preset_.empty() && attention_block > 0) {
    LLADA_TRY(auto block, decode::setting("block_length", fmt::format("{}", attention_block)));
    preset_settings_.push_back(std::move(block));
  }
  note_.clear();
  auto resolved = decode::decode_options(given_, preset_settings_, infill_, &note_);
  if (!resolved) return std::unexpected(with_flag(resolved.error()));
  options = std::move(*resolved);
  if (preset_.empty()) note_.clear();  // nobody asked for what is left out
  return {};
}

void DecodeFlags::draw_seed() {
  const auto names_seed = [](const Setting& s) { return s.field->key == "seed"; };
  if (options.temperature == 0 || std::ranges::any_of(given_, names_seed) ||
      std::ranges::any_of(preset_settings_, names_seed))
    return;
  options.seed = std::random_device()();
}

Status DecodeFlags::set(std::string_view name, const std::string& text, int64_t attention_block) {
  std::string flag(name);
  if (!flag.starts_with('-')) flag.insert(0, flag.size() == 1 ? "-" : "--");
  std::ranges::replace(flag, '_', '-');
  DecodeFlags next = *this;
  if (flag == kPresetFlag || flag == "--preset") {
    // A preset is asked for as a whole: what said before how tokens are decided is gone.
    std::erase_if(next.given_, decides);
    next.preset_ = text;
  } else {
    const Field* field = find_flag(flag);
    if (field == nullptr) {
      std::vector<std::string> names;
      for (const Field& f : decode::fields()) names.push_back(decode::flag(f));
      return invalid("{} is no decoding option{}", flag, suggestion(flag, names));
    }
    const auto target = [](const Field& f) { return f.target.empty() ? f.key : f.target; };
    std::erase_if(next.given_, [&](const Setting& s) { return target(*s.field) == target(*field); });
    next.given_.push_back({field, text, flag});
  }
  LLADA_TRY_STATUS(next.resolve(attention_block));
  *this = std::move(next);
  return {};
}

Error DecodeFlags::named(Error error) const {
  return with_flag(decode::as_typed(std::move(error), given_, preset_settings_));
}

void add_decode_options(CLI::App& app, DecodeFlags& flags, bool infill) {
  flags.infill_ = infill;
  app.add_option(std::string(kPresetFlag), flags.preset_, kPresetHelp)->type_name("NAME|FILE")->group("Speed");
  for (const Field& field : decode::fields()) {
    const std::string name = decode::flag(field);
    if (infill && field.key == "gen_length") {
      const auto refuse = [name](const std::string&) {
        throw CLI::ValidationError(name, "not for infilling, where the gaps <mask:N> say it");
      };
      app.add_option_function<std::string>(flag_names(field), refuse)->group("");
      continue;
    }
    const auto set = [name, &field, &flags](const std::string& text) {
      decode::DecodeOptions scratch;
      if (const Status status = set_field(scratch, field.key, text); !status)
        throw CLI::ValidationError(name, with_flag(status.error()).message.substr(name.size() + 2));
      flags.given_.push_back({&field, text, name});
    };
    const std::string help = decode::help_of(field);
    CLI::Option* option =
        field.is_switch()
            ? app.add_flag_function(
                  flag_names(field), [set](int64_t n) { set(n > 0 ? "true" : "false"); }, help)
            : app.add_option_function<std::string>(flag_names(field), set, help)->type_name(std::string(field.unit));
    const std::string group(decode::title(field.group));
    option->group(field.basic ? shown_as(short_title(field.group), group) : further(group));
  }
}

Result<decode::DecodeOptions> parse_decode_options(std::string_view text) {
  LLADA_TRY(const Words words, read_words(text));
  std::string tuned_for;
  LLADA_TRY(const auto preset, preset_settings(words.preset, false, tuned_for));
  auto options = decode::decode_options(words.settings, preset);
  if (!options) return std::unexpected(with_flag(options.error()));
  return options;
}

}  // namespace llada::cli
