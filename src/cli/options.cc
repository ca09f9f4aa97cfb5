#include "cli/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "cli/help.h"
#include "cli/mistakes.h"
#include "engine/decode_preset.h"
#include "text/text_file.h"

namespace llada::cli {
namespace {

using decode::Field;
using decode::Setting;

constexpr const char* kPresetHelp = "exact, balanced, fast, as published (llada2, sdar, ...), or a llada tune file";

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

// "gen_length: ..." as "--gen-length: ..." where nothing was typed.
Error with_flag(Error error) {
  if (const Field* field = decode::field_of(error)) error.message.replace(0, field->key.size(), decode::flag(*field));
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

Status DecodeFlags::resolve(const std::optional<decode::ModelKind>& kind) {
  if (const Status status = DecodeChoice::resolve(kind); !status) return std::unexpected(with_flag(status.error()));
  return {};
}

// The value of an option: of one that takes a file or JSON the file's text, unless it is an object as it stands.
static Result<std::string> file_or_json(const Field& field, const std::string& typed) {
  const size_t first = typed.find_first_not_of(" \t\r\n");
  if (field.unit != "FILE|JSON" || first == std::string::npos || typed[first] == '{') return typed;
  return read_text_file(typed, size_t{1} << 20);
}

Status DecodeFlags::set(std::string_view name, const std::string& text, const decode::ModelKind& kind) {
  std::string flag(name);
  if (!flag.starts_with('-')) flag.insert(0, flag.size() == 1 ? "-" : "--");
  std::ranges::replace(flag, '_', '-');
  DecodeFlags next = *this;
  if (flag == kPresetFlag || flag == "--preset") {
    if (text.empty()) return invalid("{}: found '', needed a preset's name or file", kPresetFlag);
    // A preset is asked for as a whole: earlier settings of how tokens are decided are gone.
    std::erase_if(next.given_, decides);
    next.preset_ = text;
  } else {
    const Field* field = find_flag(flag);
    if (field == nullptr) {
      std::vector<std::string> names;
      for (const Field& f : decode::fields()) names.push_back(decode::flag(f));
      return invalid("{}{}", decode::no_option(flag), decode::replaced_by(flag).empty() ? suggestion(flag, names) : "");
    }
    std::erase_if(next.given_, [&](const Setting& s) { return s.field == field; });
    if (text.empty() && !field->is_switch()) return invalid("{}: found '', needed {}", flag, decode::needed(*field));
    auto value = file_or_json(*field, text.empty() ? "true" : text);
    if (!value) return invalid("{}: {}", flag, value.error().message);
    next.given_.push_back({field, *std::move(value), flag});
  }
  LLADA_TRY_STATUS(next.resolve(kind));
  *this = std::move(next);
  return {};
}

Error DecodeFlags::named(Error error) const { return with_flag(as_typed(std::move(error))); }

void add_decode_options(CLI::App& app, DecodeFlags& flags, bool infill) {
  flags.infill_ = infill;
  const DecodeChoice defaults = flags.defaults();
  offer(app.add_option(std::string(kPresetFlag), flags.preset_,
                       defaults.preset().empty() ? kPresetHelp : fmt::format("{} ({})", kPresetHelp, defaults.preset()))
            ->type_name("NAME|FILE")
            ->group("Speed"),
        fmt::format("{}", fmt::join(decode_presets(), " ")));
  for (const Field& field : decode::fields()) {
    const std::string name = decode::flag(field);
    if (infill && field.key == "gen_length") {
      const auto refuse = [name](const std::string&) {
        throw CLI::ValidationError(name, "not for infilling, where the gaps <mask:N> say it");
      };
      app.add_option_function<std::string>(flag_names(field), refuse)->group("");
      continue;
    }
    const auto set = [name, &field, &flags](const std::string& typed) {
      const auto read = file_or_json(field, typed);
      if (!read) throw CLI::ValidationError(name, read.error().message);
      const std::string& text = *read;
      decode::DecodeOptions scratch;
      if (const Status status = set_field(scratch, field.key, text); !status)
        throw CLI::ValidationError(name, with_flag(status.error()).message.substr(name.size() + 2));
      flags.given_.push_back({&field, text, name});
    };
    const std::string help = decode::help_of(field, defaults.described(field));
    CLI::Option* option =
        field.is_switch()
            ? app.add_flag_function(
                  flag_names(field), [set](int64_t n) { set(n > 0 ? "true" : "false"); }, help)
            : app.add_option_function<std::string>(flag_names(field), set, help)->type_name(std::string(field.unit));
    const std::string group(decode::title(field.group));
    option->group(field.basic ? shown_as(short_title(field.group), group) : further(group));
  }
}

Result<DecodeFlags> parse_decode_flags(std::string_view text, StartFrom start,
                                       const std::optional<decode::ModelKind>& kind) {
  LLADA_TRY(DecodeWords words, read_words(text));
  DecodeFlags flags;
  if (start == StartFrom::defaults) flags.use_defaults(false);
  if (start == StartFrom::open_length) flags.use_default_length();
  flags.give_preset(std::move(words.preset));
  for (Setting& s : words.settings) flags.give(std::move(s));
  LLADA_TRY_STATUS(flags.resolve(kind));
  return flags;
}

Result<decode::DecodeOptions> parse_decode_options(std::string_view text, const std::optional<decode::ModelKind>& kind,
                                                   StartFrom start) {
  LLADA_TRY(const DecodeFlags flags, parse_decode_flags(text, start, kind));
  return flags.options;
}

std::string decode_options_help() {
  constexpr size_t kWidth = 80, kIndent = 6;
  DecodeFlags flags;
  flags.use_defaults();
  const DecodeChoice defaults = flags.defaults();
  std::string text =
      wrapped(fmt::format(
                  "Decoding options of run, chat, infill and eval. They start from the preset {}; an option replaces "
                  "one value of the preset. --steps and the rules with a schedule (--accept schedule, random, llada2, "
                  "dream-*) replace the whole preset, unless it was named.",
                  defaults.preset()),
              0, 0, kWidth) +
      '\n';
  std::string_view heading;
  for (const Field& f : decode::fields()) {
    if (decode::title(f.group) != heading) text += fmt::format("\n{}\n", heading = decode::title(f.group));
    std::string names = flag_names(f), help(f.help);
    for (size_t at = 0; (at = names.find(',', at)) != std::string::npos; at += 2) names.replace(at, 1, ", ");
    text += fmt::format("  {}{}{}\n", names, f.is_switch() ? "" : " ", f.unit);
    std::string value = f.is_switch()     ? ""
                        : f.words.empty() ? decode::needed(f)
                                          : fmt::format("{}", fmt::join(f.words, ", "));
    if (const std::string initial = defaults.described(f); !initial.empty())
      value += fmt::format("{}default {}", value.empty() ? "" : "; ", initial);
    for (const std::string& line : {help, value})
      if (!line.empty()) text += fmt::format("{:{}}{}\n", "", kIndent, wrapped(line, kIndent, kIndent, kWidth));
  }
  return text;
}

}  // namespace llada::cli
