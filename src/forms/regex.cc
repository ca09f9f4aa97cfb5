#include "forms/regex.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "text/utf8.h"

namespace llada::forms {
namespace {

constexpr int kMostGroups = 64;
constexpr int64_t kMostRepeats = 100'000;

const std::vector<CodeRange> kDigits = {{'0', '9'}};
const std::vector<CodeRange> kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const std::vector<CodeRange> kSpace = {{'\t', '\r'}, {' ', ' '}};
constexpr CodeRange kSeparators = {0x1c, 0x1f};  // \s in Python, \S in the others

std::vector<CodeRange> other_ascii(std::vector<CodeRange> ranges) {
  ranges.push_back({0x80, kLastCode});
  return others(std::move(ranges));
}

class Parser {
 public:
  Parser(std::string_view regex, Budget& budget, Letters letters, Match match)
      : in_(regex), budget_(budget), letters_(letters), match_(match) {}

  Result<Expr> parse() {
    LLADA_TRY_STATUS(budget_.spend(in_.size()));
    LLADA_TRY(Expr all, alternatives(0));
    if (at_ < in_.size()) return wrong("')' without '('");
    return all;
  }

 private:
  bool more() const { return at_ < in_.size(); }
  char peek() const { return in_[at_]; }
  bool take(char c) { return more() && peek() == c && ++at_ > 0; }
  std::unexpected<Error> wrong(std::string_view what) const { return invalid("found {} at byte {}", what, at_); }
  std::unexpected<Error> refused(std::string_view what) const {
    return invalid("found {} at byte {}, which is not supported", what, at_);
  }

  Expr anything() const { return repeat(any_letter(letters_), 0, -1); }

  Expr dot() const {
    static const std::vector<CodeRange> kRanges = others({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}});
    static const Expr plain = one_of(kRanges, Letters::plain), json = one_of(kRanges, Letters::json);
    return letters_ == Letters::json ? json : plain;
  }

  Result<Expr> class_with(std::vector<CodeRange> ranges) {
    ranges = merged(std::move(ranges));
    LLADA_TRY_STATUS(budget_.spend(16 * ranges.size()));  // about as many parts, before they are made
    Expr made = one_of(std::move(ranges), letters_);
    LLADA_TRY_STATUS(budget_.spend_on(*made));
    return made;
  }

  Result<Expr> alternatives(int depth) {
    if (depth > kMostGroups) return invalid("found groups nested deeper than {}", kMostGroups);
    std::vector<Expr> branches;
    do {
      LLADA_TRY(Expr branch, branch_of(depth));
      branches.push_back(std::move(branch));
    } while (take('|'));
    return either(std::move(branches));
  }

  Result<Expr> branch_of(int depth) {
    LLADA_TRY_STATUS(budget_.spend(5));  // itself, and what may stand before and behind it
    std::vector<Expr> parts;
    const bool begins = depth == 0 && take('^');
    bool ends = false;
    while (more() && peek() != '|' && peek() != ')') {
      if (depth == 0 && peek() == '$' && (at_ + 1 == in_.size() || in_[at_ + 1] == '|')) {
        ends = true;
        ++at_;
        break;
      }
      LLADA_TRY(Expr atom, atom_of(depth));
      LLADA_TRY(atom, repeated(std::move(atom)));
      parts.push_back(std::move(atom));
    }
    if (depth == 0 && match_ == Match::anywhere) {
      if (!begins) parts.insert(parts.begin(), anything());
      if (!ends) parts.push_back(anything());
    }
    return sequence(std::move(parts));
  }

  Result<Expr> atom_of(int depth) {
    const char c = peek();
    if (c == '^' || c == '$') return refused("an anchor inside the expression");
    if (c == '*' || c == '+' || c == '?' || repeats()) return wrong("a repetition of nothing");
    if (c == '(') {
      ++at_;
      if (take('?') && !take(':')) return refused("a group that begins with '(?'");
      LLADA_TRY(Expr inner, alternatives(depth + 1));
      if (!take(')')) return wrong("the end inside a group");
      return inner;
    }
    if (c == '.') {
      ++at_;
      return dot();
    }
    if (c == '[') return class_of();
    if (c == '\\') {
      LLADA_TRY(auto ranges, escape_of());
      return class_with(std::move(ranges));
    }
    LLADA_TRY(const char32_t code, character());
    return one_of({{code, code}}, letters_);
  }

  Result<char32_t> character() {
    const Utf8Unit unit = utf8_unit(in_.substr(at_));
    if (!unit.valid) return wrong("a byte that is not UTF-8");
    at_ += static_cast<size_t>(unit.length);
    return unit.code_point;
  }

  Result<char32_t> hex(size_t least, size_t most) {
    char32_t code = 0;
    size_t digits = 0;
    for (; more() && digits < most; ++digits, ++at_) {
      const char c = peek();
      const int value = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (value < 0) break;
      code = code * 16 + static_cast<char32_t>(value);
    }
    if (digits < least || code > kLastCode) return wrong("an escape without its hexadecimal digits");
    return code;
  }

  Result<std::vector<CodeRange>> escape_of() {
    ++at_;
    if (!more()) return wrong("the end behind '\\'");
    const char c = peek();
    const auto one = [&](char32_t code) { return std::vector<CodeRange>{{code, code}}; };
    ++at_;
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return other_ascii(kDigits);
      case 'w':
        return kWord;
      case 'W':
        return other_ascii(kWord);
      case 's':
        return kSpace;
      case 'S':
        return other_ascii({kSpace[0], kSpace[1], kSeparators});
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'f':
        return one('\f');
      case '0':
        if (more() && peek() >= '0' && peek() <= '9') return refused("an octal escape");
        return one(0);
      case 'x': {
        LLADA_TRY(const char32_t code, hex(2, 2));
        return one(code);
      }
      case 'u': {
        const bool braced = take('{');
        LLADA_TRY(const char32_t code, braced ? hex(1, 6) : hex(4, 4));
        if (braced && !take('}')) return wrong("the end of \\u{...}");
        if (code < 0xd800 || code > 0xdfff) return one(code);
        if (!braced && code < 0xdc00 && in_.substr(at_).starts_with("\\u")) {
          at_ += 2;
          LLADA_TRY(const char32_t low, hex(4, 4));
          if (low >= 0xdc00 && low <= 0xdfff) return one(0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00));
        }
        return wrong("a surrogate without its other half");
      }
      default:
        break;
    }
    --at_;
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
      return refused(std::string("the escape '\\") + c + "'");
    LLADA_TRY(const char32_t code, character());
    return one(code);
  }

  // What begins a set operation where dialects have them, and is two characters in others.
  bool operation() const {
    const std::string_view here = in_.substr(at_, 2);
    return here == "&&" || here == "--" || here == "||" || here == "~~";
  }

  Result<Expr> class_of() {
    ++at_;
    const bool inverted = take('^');
    const size_t begin = at_;
    if (more() && peek() == ']') return refused("']' first in a class");
    std::string named;  // the escapes in it; its opposite is one of ASCII, as theirs are
    std::vector<CodeRange> ranges;
    while (more() && peek() != ']') {
      if (at_ > begin && operation()) return refused("a set operation");
      const char kind = at_ + 1 < in_.size() ? in_[at_ + 1] : ' ';
      if (peek() == '[' && std::string_view(":.=").contains(kind)) return refused("a class by name");
      std::vector<CodeRange> part;
      const bool of_letters = peek() == '\\' && std::string_view("dDwWsS").contains(kind);
      if (of_letters) named += kind;
      if (peek() != '\\') {
        LLADA_TRY(const char32_t code, character());
        part = {{code, code}};
      } else if (kind == 'b') {
        at_ += 2;
        part = {{'\b', '\b'}};
      } else {
        LLADA_TRY(part, escape_of());
      }
      if (!of_letters && at_ + 1 < in_.size() && peek() == '-' && in_[at_ + 1] != ']') {
        if (operation()) return refused("a set operation");
        ++at_;
        char32_t last = 0;
        if (peek() == '\\') {
          LLADA_TRY(const auto end, escape_of());
          if (end.size() != 1 || end[0].first != end[0].last) return wrong("a range that ends with a class");
          last = end[0].first;
        } else {
          LLADA_TRY(last, character());
        }
        if (last < part[0].first) return wrong("a range whose end is before its beginning");
        part[0].last = last;
      }
      ranges.insert(ranges.end(), part.begin(), part.end());
    }
    if (!take(']')) return wrong("the end inside a class");
    for (const char c : {'d', 'w', 's'})  // [\s\S] is anything, beyond ASCII too
      if (named.contains(c) && named.contains(static_cast<char>(c - 'a' + 'A'))) ranges = {{0, kLastCode}};
    if (inverted && (named.contains('s') || named.contains('S'))) ranges.push_back(kSeparators);
    if (inverted) ranges = named.empty() ? others(std::move(ranges)) : other_ascii(std::move(ranges));
    return class_with(std::move(ranges));
  }

  // {m}, {m,} or {m,n}; none: the brace is a character. What only some dialects repeat by is refused.
  Result<std::optional<std::pair<int64_t, int64_t>>> braces() const {
    using Bounds = std::optional<std::pair<int64_t, int64_t>>;
    if (peek() != '{') return Bounds();
    const size_t end = in_.find_first_not_of("0123456789, \t", at_ + 1);
    if (end == std::string_view::npos || in_[end] != '}') return Bounds();
    const std::string_view inside = in_.substr(at_ + 1, end - at_ - 1);
    if (inside.find_first_of("0123456789,") == std::string_view::npos) return Bounds();
    const auto number = [](std::string_view digits) {
      int64_t value = digits.empty() ? -1 : 0;
      for (const char c : digits)
        value = value < 0 || c < '0' || c > '9' ? -1 : std::min(value * 10 + (c - '0'), kMostRepeats + 1);
      return value;
    };
    const size_t comma = inside.find(',');
    const bool open = comma != std::string_view::npos && comma + 1 == inside.size();
    const int64_t least = number(inside.substr(0, comma));
    const int64_t most = comma == std::string_view::npos || open ? least : number(inside.substr(comma + 1));
    if (least < 0 || most < 0) return refused("braces that are a repetition in some dialects and text in others");
    return Bounds({least, open ? -1 : most});
  }
  bool repeats() const {
    const auto bounds = braces();
    return !bounds || *bounds;
  }

  Result<Expr> repeated(Expr atom) {
    while (more()) {
      int64_t least = 0, most = -1;
      if (take('*')) {
      } else if (take('+')) {
        least = 1;
      } else if (take('?')) {
        most = 1;
      } else {
        LLADA_TRY(const auto bounds, braces());
        if (!bounds) return atom;
        std::tie(least, most) = *bounds;
        if (most >= 0 && most < least) return wrong("a repetition whose most is below its least");
        if (std::max(least, most) > kMostRepeats) return wrong("a repetition of more than 100000");
        at_ = in_.find('}', at_) + 1;
      }
      if (more() && peek() == '+') return refused("a possessive repetition");
      take('?');
      atom = repeat(std::move(atom), least, most);
      if (more() && (peek() == '*' || peek() == '+' || peek() == '?' || repeats()))
        return wrong("a repetition of a repetition");
    }
    return atom;
  }

  const std::string_view in_;
  Budget& budget_;
  const Letters letters_;
  const Match match_;
  size_t at_ = 0;
};

}  // namespace

Result<Expr> parse_regex(std::string_view regex, Budget& budget, Letters letters, Match match) {
  return Parser(regex, budget, letters, match).parse();
}

}  // namespace llada::forms
