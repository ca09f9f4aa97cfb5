#include "engine/options.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "json/fields.h"

namespace llada {

Result<std::vector<decode::Setting>> read_settings(const Fields& object) {
  std::vector<decode::Setting> settings;
  const std::string where = fmt::format("{}: {}.", object.source(), object.path(""));
  for (const auto& [key, value] : object.all().items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    auto setting = decode::setting(key, text);
    if (!setting) return invalid("{}: {}", where, setting.error().message);
    decode::DecodeOptions scratch;
    if (const Status status = set_field(scratch, key, text); !status)
      return invalid("{}: {}", where, status.error().message);
    settings.push_back(std::move(*setting));
  }
  return settings;
}

std::string flag_names(const decode::Field& field) {
  return decode::flag(field) + (field.aliases.empty() ? "" : ",") + std::string(field.aliases);
}

const decode::Field* find_flag(std::string_view word) {
  for (const decode::Field& field : decode::fields())
    for (const auto part : std::views::split(flag_names(field), ','))
      if (std::string_view(part) == word) return &field;
  return nullptr;
}

namespace {

Result<std::vector<std::string>> split_words(std::string_view text) {
  std::vector<std::string> pieces;
  bool inside = false, quoted = false;  // of a word; of quotes in it
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!quoted && std::string_view(" \t\r\n").contains(c)) {
      inside = false;
      continue;
    }
    if (!std::exchange(inside, true)) pieces.emplace_back();
    if (c == '\'')
      quoted = !quoted;
    else if (!quoted && c == '\\' && i + 1 < text.size() && text[i + 1] == '\'')
      pieces.back() += text[++i];
    else
      pieces.back() += c;
  }
  if (quoted) return invalid("found a ' without its end");
  return pieces;
}

}  // namespace

Result<DecodeWords> read_words(std::string_view text) {
  LLADA_TRY(const auto pieces, split_words(text));
  DecodeWords words;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const size_t equals = pieces[i].find('=');
    const std::string_view name = std::string_view(pieces[i]).substr(0, equals);
    const decode::Field* field = find_flag(name);
    if (field == nullptr && name != kPresetFlag) return invalid("{}", decode::no_option(name));
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
      if (value.empty()) return invalid("{}: found '', needed a name or a file", name);
      words.preset = std::move(value);
    }
  }
  return words;
}

bool names(std::span<const decode::Setting> settings, std::string_view key) {
  return std::ranges::any_of(settings, [&](const decode::Setting& s) { return s.field->key == key; });
}

}  // namespace llada
