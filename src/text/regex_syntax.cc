#include "text/regex_syntax.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "text/unicode_additions.h"
#include "text/utf8.h"

namespace llada {
namespace {

// Unicode's White_Space property, as the members of a class.
constexpr std::string_view kWhiteSpace =
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
// PCRE2's \S lacks exactly this one character of White_Space's complement.
constexpr std::string_view kNotWhiteSpace = "\\S\\x{180e}";

// Bytes; a listed property has up to 12 KiB, any other regex stays far below.
constexpr size_t kMaxTranslated = size_t{256} << 10;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

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

// All members one by one: for properties that lost code points since Unicode 14.0, and for complements inside a class.
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

// The members of a PCRE2 class that mean \p{name}, by Unicode 16.0 whatever the installed PCRE2 knows
// (unicode_additions.h). `name`: a general category ("L", "Lu", "LC"), "Any", or a script ("Han", not its extensions);
// letter case and _ do not matter. Negated: the members of \P{name}. Nothing where PCRE2 cannot say it: for the
// complement of a script, and for the script Unknown.
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

class Translator {
 public:
  explicit Translator(std::string_view regex) : in_(regex) {}

  Result<std::string> run() {
    while (at_ < in_.size()) {
      if (Status status = in_class_ ? class_member() : element(); !status) return std::unexpected(status.error());
      if (out_.size() > kMaxTranslated) return refuse("so many listed properties");
    }
    if (in_class_) return refuse("a class without its ]");
    return std::move(out_);
  }

 private:
  std::string_view rest() const { return in_.substr(at_); }
  char peek(size_t ahead) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }

  std::unexpected<Error> refuse(std::string_view what) const {
    return invalid("{} at offset {} of the regex {} is not supported", what, at_, in_quotes(in_));
  }

  Status copy(size_t count) {
    out_ += in_.substr(at_, count);
    at_ += count;
    return {};
  }

  Status replace(size_t count, std::string_view text) {
    out_ += text;
    at_ += count;
    return {};
  }

  Status element() {
    switch (in_[at_]) {
      case '\\':
        return escape();
      case '[':
        return class_start();
      case '(':
        return group();
      case '{':
        return interval();
      case '^':
      case '$':
        return refuse("an anchor");
      default:
        return copy(1);
    }
  }

  Status group() {
    if (peek(1) == '*') return refuse("a verb");
    if (peek(1) != '?') return replace(1, "(?:");  // nobody reads captures
    for (const std::string_view opener : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"})
      if (rest().starts_with(opener)) return copy(opener.size());
    return refuse("this kind of group");
  }

  Status interval() {
    size_t end = 1;
    while (is_digit(peek(end))) ++end;
    if (end == 1) return refuse("a { that is no quantifier");
    if (peek(end) == ',') ++end;
    while (is_digit(peek(end))) ++end;
    if (peek(end) != '}') return refuse("a { that is no quantifier");
    if (peek(end + 1) == '+' || peek(end + 1) == '?') return refuse("a modified {m,n} quantifier");
    return copy(end + 1);
  }

  Status class_start() {
    const size_t opener = peek(1) == '^' ? 2 : 1;
    if (peek(opener) == ']') return refuse("a class that begins with ]");
    in_class_ = true;
    return copy(opener);
  }

  Status class_member() {
    if (in_[at_] == '\\') return escape();
    if (in_[at_] == '[') return refuse("a nested class");
    if (rest().starts_with("&&")) return refuse("a class intersection");
    if (in_[at_] == ']') in_class_ = false;
    return copy(1);
  }

  Status escape() {
    const char c = peek(1);
    const auto byte = static_cast<uint8_t>(c);
    switch (c) {
      case 's':
      case 'S':
        if (in_class_ && peek(2) == '-') return refuse("a range from \\s");
        if (c == 's') return replace(2, in_class_ ? std::string(kWhiteSpace) : fmt::format("[{}]", kWhiteSpace));
        return replace(2, in_class_ ? std::string(kNotWhiteSpace) : fmt::format("[{}]", kNotWhiteSpace));
      case 'p':
      case 'P':
        return named_property();
      case 'x':
      case 'u':
        return code_point();
      case 'v':
        return replace(2, "\\x0b");
      case 'd':
      case 'D':
        return property("Nd", 2, c == 'D');
      case 'r':
      case 'n':
      case 't':
      case 'f':
        return copy(2);
      default:
        break;
    }
    if (at_ + 1 < in_.size() && byte > 0x20 && byte < 0x7F && !is_word(c)) return copy(2);
    return refuse("this escape");
  }

  // \p{L}, \p{^L}, \p{Han}: a name of more than two letters is a script.
  Status named_property() {
    if (peek(2) != '{') return refuse("a property without {}");
    size_t end = peek(3) == '^' ? 4 : 3;
    const size_t name = end;
    while (is_word(peek(end))) ++end;
    if (end == name || peek(end) != '}') return refuse("this property");
    return property(in_.substr(at_ + name, end - name), end + 1, (peek(1) == 'P') != (name == 4));
  }

  // An escape of `count` characters that means the property `name`, or its complement.
  Status property(std::string_view name, size_t count, bool negated) {
    const auto members = class_members(name, negated && in_class_);
    if (!members) return refuse(in_class_ ? "this property inside a class" : "this property");
    if (!in_class_) return replace(count, fmt::format("[{}{}]", negated ? "^" : "", *members));
    if (peek(count) == '-' && peek(count + 1) != ']') return refuse("a range from a property");
    return replace(count, *members);
  }

  // \xHH below 80, \x{H...} and \uHHHH
  Status code_point() {
    const bool braces = peek(1) == 'x' && peek(2) == '{';
    const size_t digits = braces ? 3 : 2, most = braces ? 6 : peek(1) == 'u' ? 4 : 2;
    size_t end = digits;
    while (end - digits < most && is_hex(peek(end))) ++end;
    if (end == digits || (!braces && end - digits != most)) return refuse("this escape");
    if (braces && peek(end) != '}') return refuse("this escape");
    if (peek(1) == 'x' && !braces && peek(2) >= '8') return refuse("a raw byte");
    out_ += fmt::format("\\x{{{}}}", in_.substr(at_ + digits, end - digits));
    at_ += end + (braces ? 1 : 0);
    return {};
  }

  std::string_view in_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

Result<std::string> translate_regex(std::string_view regex) { return Translator(regex).run(); }

}  // namespace llada
