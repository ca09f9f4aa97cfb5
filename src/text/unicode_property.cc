#include "text/unicode_property.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "text/unicode_additions.h"

namespace llada {
namespace {

constexpr char32_t kCodePoints = 0x110000;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Loose matching of names.
std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != '_') out += lower(c);
  return out;
}

// Unicode's four-letter names of the scripts that have grown.
struct ShortName {
  std::string_view script, four;
};
constexpr ShortName kShortNames[] = {
    {"Arabic", "arab"},   {"Balinese", "bali"},   {"Common", "zyyy"},
    {"Cyrillic", "cyrl"}, {"Devanagari", "deva"}, {"Egyptian_Hieroglyphs", "egyp"},
    {"Han", "hani"},      {"Hiragana", "hira"},   {"Kannada", "knda"},
    {"Katakana", "kana"}, {"Khojki", "khoj"},     {"Khitan_Small_Script", "kits"},
    {"Lao", "laoo"},      {"Latin", "latn"},      {"Myanmar", "mymr"},
};

bool names_script(std::string_view wanted, std::string_view script) {
  if (script.empty()) return false;
  const auto* row = std::ranges::find(kShortNames, script, &ShortName::script);
  return wanted == plain(script) || (row != std::end(kShortNames) && wanted == row->four);
}

// category: "Lu". wanted: "lu", "l" or "lc".
bool in_category(std::string_view category, std::string_view wanted) {
  if (wanted[0] != lower(category[0])) return false;
  if (wanted == "lc") return category[1] == 'u' || category[1] == 'l' || category[1] == 't';
  return wanted.size() == 1 || wanted[1] == category[1];
}

void append_range(std::string& out, char32_t first, char32_t last) {
  out += fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(first));
  if (last != first) out += fmt::format("-\\x{{{:x}}}", static_cast<uint32_t>(last));
}

// All members one by one: for what lost code points since Unicode 14.0, and for complements inside a class.
std::string listed(std::string_view wanted, bool negated) {
  std::string out;
  char32_t begin = kCodePoints;  // of the open range
  const auto added = added_categories();
  auto row = added.begin();
  for (char32_t c = 0; c <= kCodePoints; ++c) {
    bool member = false;
    if (c < kCodePoints) {
      while (row != added.end() && row->last < c) ++row;
      const bool is_added = row != added.end() && row->first <= c;
      const auto* old = utf8proc_category_string(static_cast<utf8proc_int32_t>(c));
      const bool surrogate = c >= 0xD800 && c < 0xE000;  // PCRE2 refuses them; no valid text has one
      member = !surrogate && in_category(is_added ? row->category : old, wanted) != negated;
    }
    if (member && begin == kCodePoints) begin = c;
    if (!member && begin != kCodePoints) {
      append_range(out, begin, c - 1);
      begin = kCodePoints;
    }
  }
  return out;
}

}  // namespace

std::optional<std::string> class_members(std::string_view name, bool negated) {
  const std::string wanted = plain(name);
  const bool script = wanted.size() > 2;
  if (wanted.empty()) return std::nullopt;
  if (wanted == "any") return negated ? std::nullopt : std::optional<std::string>("\\p{Any}");
  if (script && (negated || wanted == "unknown" || wanted == "zzzz")) return std::nullopt;
  // Unassigned code points became characters, and one spacing mark was called nonspacing.
  if (negated || wanted == "c" || wanted == "cn" || wanted == "mn") return listed(wanted, negated);
  std::string out = fmt::format("\\p{{{}{}}}", script ? "sc:" : "", name);
  for (const AddedCategory& row : added_categories())
    if (script ? names_script(wanted, row.script) : in_category(row.category, wanted))
      append_range(out, row.first, row.last);
  return out;
}

}  // namespace llada
