#include "decode/fields.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "decode/removed.h"

namespace llada::decode {
std::span<const Field> fields() {
  static const std::vector<Field> all = [] {
    std::vector<Field> list;
    for (const auto part : {length_fields(), acceptance_fields(), sampling_fields(), ending_fields(), form_fields(),
                            cache_fields(), speculation_fields(), revision_fields(), uniform_fields()})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }();
  return all;
}

std::string_view title(FieldGroup group) {
  static constexpr std::string_view kTitles[] = {"Length",
                                                 "Acceptance",
                                                 "Sampling",
                                                 "Guidance",
                                                 "End of the answer",
                                                 "Form of the answer",
                                                 "Caches",
                                                 "Drafts of blocks ahead",
                                                 "Revision",
                                                 "Canvases of random tokens"};
  return kTitles[static_cast<size_t>(group)];
}

const Field* find_field(std::string_view key) {
  const auto found = std::ranges::find(fields(), key, &Field::key);
  return found == fields().end() ? nullptr : &*found;
}

std::string flag(const Field& field) {
  std::string text = "--" + std::string(field.key);
  std::ranges::replace(text, '_', '-');
  return text;
}

std::string needed(const Field& f) {
  if (f.key == "latency_table") return "ROWS:MS,..., device or none";
  if (f.key == "seed") return "a whole number of 64 bits";
  if (f.is_switch()) return "true or false";
  if (f.text) return "text";
  if (!f.words.empty()) return fmt::format("one of {}", fmt::join(f.words, ", "));
  const bool bounded = std::isfinite(f.range.most);
  std::string text = f.unit == "N" ? "a whole number" : "a number";
  text += fmt::format(" {} {}", f.range.above_least ? "above" : "from", f.range.least);
  if (bounded && f.range.below_most) text += fmt::format(" and below {}", f.range.most);
  if (bounded && !f.range.below_most)
    text += fmt::format(" {} {}", f.range.above_least ? "and at most" : "to", f.range.most);
  for (const std::string_view word : {f.word, f.second_word})
    if (!word.empty()) text += fmt::format(", or {}", word);
  return text;
}

std::string help_of(const Field& f, std::string_view initial) {
  std::string text(f.help);
  if (!f.words.empty()) text += fmt::format(": {}", fmt::join(f.words, ", "));
  return initial.empty() || (f.is_switch() && initial == "false") ? text : fmt::format("{} ({})", text, initial);
}

Status set_field(DecodeOptions& options, std::string_view key, std::string_view text) {
  const Field* f = find_field(key);
  if (f == nullptr) return invalid("{}", no_option(key));
  DecodeOptions next = options;
  if (const Status status = f->read(*f, text, next); !status) return invalid("{}: {}", key, status.error().message);
  LLADA_TRY_STATUS(f->check(*f, next));
  options = std::move(next);
  return {};
}

Result<std::string> get_field(const DecodeOptions& options, std::string_view key) {
  const Field* f = find_field(key);
  if (f == nullptr) return invalid("{}", no_option(key));
  return f->show(*f, options);
}

Status check_fields(const DecodeOptions& options, bool infill) {
  for (const Field& f : fields())
    if (!(infill && f.key == "gen_length")) LLADA_TRY_STATUS(f.check(f, options));
  return {};
}

std::string as_flags(const DecodeOptions& options) {
  std::string text;
  for (const Field& f : fields()) {
    if (f.show(f, options) == f.show(f, {})) continue;
    if (!text.empty()) text += ' ';
    text += flag(f);
    if (!f.is_switch() || f.show(f, options) == "false") text.append("=").append(as_word(f.show(f, options)));
  }
  return text;
}

std::string as_word(std::string_view text) {
  if (text.find_first_of(" \t\r\n'") == std::string_view::npos) return std::string(text);
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string field_table() {
  const DecodeOptions defaults{LengthOptions{.gen_length = kAutoLength, .auto_length = true}};
  std::string table = "| group | option | value | default | effect |\n|---|---|---|---|---|\n";
  std::string_view heading;
  for (const Field& f : fields()) {
    const std::string value = f.is_switch()     ? ""
                              : f.words.empty() ? needed(f)
                                                : fmt::format("{}", fmt::join(f.words, ", "));
    const std::string initial =
        f.key == "seed" ? "drawn where tokens are sampled, else 0; eval, tune: 0" : f.show(f, defaults);
    const bool first = title(f.group) != heading;
    heading = title(f.group);
    std::string names = fmt::format("`{}{}{}`", flag(f), f.aliases.empty() ? "" : ",", f.aliases);
    for (size_t at = 0; (at = names.find(',', at)) != std::string::npos; at += 4) names.replace(at, 1, "`, `");
    table += fmt::format("| {} | {} | {} | {} | {} |\n", first ? heading : "", names, value, initial, f.help);
  }
  return table;
}

}  // namespace llada::decode
