#include "forms/regex.h"

#include <algorithm>
#include <array>
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

// RegexTexts, and about how many parts they are made of where nothing is shared.
struct RegexTexts {
  Expr texts;
  size_t size = 1;
};

bool fits_nothing(const RegexTexts& one) { return one.texts->kind == Expression::Kind::never; }
bool fits_empty_alone(const RegexTexts& one) {
  return one.texts->kind == Expression::Kind::text && one.texts->text.empty();
}

RegexTexts nothing_written() { return {text("")}; }

RegexTexts joined(std::vector<RegexTexts> parts) {
  if (std::ranges::any_of(parts, fits_nothing)) return {never()};
  RegexTexts made{nullptr, 1};
  std::vector<Expr> list;
  for (RegexTexts& part : parts)
    if (!fits_empty_alone(part)) list.push_back(std::move(part.texts)), made.size += part.size;
  made.texts = sequence(std::move(list));
  return made;
}

RegexTexts any_way(std::vector<RegexTexts> ways) {
  RegexTexts made{nullptr, 1};
  std::vector<Expr> list;
  for (RegexTexts& way : ways)
    if (!fits_nothing(way)) list.push_back(std::move(way.texts)), made.size += way.size;
  made.texts = list.empty() ? never() : either(std::move(list));
  return made;
}

// A part of an expression: what it fits by where it stands, whether it begins where the whole text does and whether it
// ends where that ends. Without ^ in it the rows are the same, without $ the columns.
struct RegexPart {
  bool begins = false, ends = false;  // there is a ^ in it, a $
  std::array<std::array<RegexTexts, 2>, 2> at = {};
  std::array<std::array<bool, 2>, 2> empty = {};  // whether the empty text fits

  bool anchored() const { return begins || ends; }
  size_t size() const {
    size_t all = 0;
    for (const bool begin : {false, true})
      for (const bool end : {false, true})
        if (begin <= begins && end <= ends) all += at[begin][end].size;
    return all;
  }
};

RegexPart part_of(bool begins, bool ends, auto&& texts, auto&& empty) {
  RegexPart made{begins, ends};
  for (const bool begin : {false, true})
    for (const bool end : {false, true}) {
      const bool fresh = begin <= begins && end <= ends;
      made.at[begin][end] = fresh ? texts(begin, end) : made.at[begin && begins][end && ends];
      made.empty[begin][end] = empty(begin, end);
    }
  return made;
}

RegexPart part_of(RegexTexts texts, bool empty) {
  return part_of(false, false, [&](bool, bool) { return texts; }, [&](bool, bool) { return empty; });
}

RegexPart anchor_of(bool begins) {
  const auto here = [=](bool begin, bool end) { return begins ? begin : end; };
  const auto texts = [&](bool begin, bool end) { return here(begin, end) ? nothing_written() : RegexTexts{never()}; };
  return part_of(begins, !begins, texts, here);
}

// What fits inside the whole text fits at its beginning and end too, where anchors hold besides. So of a part that may
// be empty the texts that are not need not be told from it.
RegexPart behind(const RegexPart& a, const RegexPart& b) {
  const auto empty = [&](bool begin, bool end) { return a.empty[begin][end] && b.empty[begin][end]; };
  const auto texts = [&](bool begin, bool end) {
    std::vector<RegexTexts> ways;
    ways.push_back(joined({a.at[begin][false], b.at[false][end]}));
    if (b.begins && a.empty[begin][false]) ways.push_back(b.at[begin][end]);
    if (a.ends && b.empty[false][end]) ways.push_back(a.at[begin][end]);
    if (a.ends && b.begins && empty(begin, end)) ways.push_back(nothing_written());
    return any_way(std::move(ways));
  };
  return part_of(a.begins || b.begins, a.ends || b.ends, texts, empty);
}

// The first and the last time stand elsewhere than those between them. A time without text may stand before or behind
// the others, which then are as few as they like.
RegexPart several(const RegexPart& a, int64_t least, int64_t most) {
  const auto empty = [&](bool begin, bool end) { return least == 0 || a.empty[begin][end]; };
  const RegexTexts inner{repeat(a.at[0][0].texts, least, most), a.at[0][0].size + 1};
  const auto texts = [&](bool begin, bool end) {
    if ((!begin && !end) || most == 0) return inner;
    const int64_t from = a.empty[begin][false] || a.empty[false][end] ? std::min<int64_t>(least, 1) : least;
    std::vector<RegexTexts> ways;
    if (empty(begin, end)) ways.push_back(nothing_written());
    if (from <= 1) ways.push_back(a.at[begin][end]);
    if (most != 1) {
      const RegexTexts between{repeat(a.at[0][0].texts, std::max<int64_t>(from - 2, 0), most < 0 ? -1 : most - 2),
                               inner.size};
      ways.push_back(joined({a.at[begin][false], between, a.at[false][end]}));
    }
    return any_way(std::move(ways));
  };
  return part_of(a.begins, a.ends, texts, empty);
}

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
    LLADA_TRY(const RegexPart all, alternatives(0));
    if (at_ < in_.size()) return wrong("')' without '('");
    return all.at[true][true].texts;
  }

 private:
  bool more() const { return at_ < in_.size(); }
  char peek() const { return in_[at_]; }
  bool take(char c) { return more() && peek() == c && ++at_ > 0; }
  std::unexpected<Error> wrong(std::string_view what) const { return invalid("found {} at byte {}", what, at_); }
  std::unexpected<Error> refused(std::string_view what) const {
    return invalid("found {} at byte {}, which is not supported", what, at_);
  }

  RegexPart anything() const { return part_of({anything_, 1}, true); }

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

  // What anchors make stand in several places counts in each.
  Status spend_on(const RegexPart& made, size_t before) {
    return made.anchored() && made.size() > before ? budget_.spend(made.size() - before) : Status();
  }

  Result<RegexPart> alternatives(int depth) {
    if (depth > kMostGroups) return invalid("found groups nested deeper than {}", kMostGroups);
    std::vector<RegexPart> branches;
    do {
      LLADA_TRY(RegexPart branch, branch_of(depth));
      branches.push_back(std::move(branch));
    } while (take('|'));
    const auto texts = [&](bool begin, bool end) {
      std::vector<RegexTexts> ways;
      for (const RegexPart& branch : branches) ways.push_back(branch.at[begin][end]);
      return any_way(std::move(ways));
    };
    const auto any = [&](auto&& is) { return std::ranges::any_of(branches, is); };
    const auto empty = [&](bool begin, bool end) {
      return any([&](const RegexPart& branch) { return branch.empty[begin][end]; });
    };
    RegexPart made = part_of(any(&RegexPart::begins), any(&RegexPart::ends), texts, empty);
    size_t before = 0;
    for (const RegexPart& branch : branches) before += branch.size();
    LLADA_TRY_STATUS(spend_on(made, before));
    return made;
  }

  Result<RegexPart> branch_of(int depth) {
    LLADA_TRY_STATUS(budget_.spend(5));  // itself, and what may stand before and behind it
    const bool open = depth == 0 && match_ == Match::anywhere;
    std::optional<RegexPart> all;
    std::vector<RegexTexts> plain;  // since the last part with an anchor
    bool may_be_empty = true;
    const auto add = [&](const RegexPart& part) -> Status {
      const size_t before = part.size() + (all ? all->size() : 0);
      all = all ? behind(*all, part) : part;
      return spend_on(*all, before);
    };
    const auto put = [&](const RegexPart& part) -> Status {
      if (!part.anchored()) {
        plain.push_back(part.at[0][0]), may_be_empty &= part.empty[0][0];
        return {};
      }
      if (!plain.empty())
        LLADA_TRY_STATUS(add(part_of(joined(std::exchange(plain, {})), std::exchange(may_be_empty, true))));
      return add(part);
    };
    if (open) LLADA_TRY_STATUS(put(anything()));
    while (more() && peek() != '|' && peek() != ')') {
      if (peek() == '^' || peek() == '$') {
        LLADA_TRY_STATUS(put(anchor_of(in_[at_++] == '^')));
        continue;
      }
      LLADA_TRY(RegexPart atom, atom_of(depth));
      LLADA_TRY(atom, repeated(std::move(atom)));
      LLADA_TRY_STATUS(put(atom));
    }
    if (open) LLADA_TRY_STATUS(put(anything()));
    if (!all || !plain.empty()) LLADA_TRY_STATUS(add(part_of(joined(std::move(plain)), may_be_empty)));
    return *std::move(all);
  }

  Result<RegexPart> atom_of(int depth) {
    const char c = peek();
    if (c == '*' || c == '+' || c == '?' || repeats()) return wrong("a repetition of nothing");
    if (c == '(') {
      ++at_;
      if (take('?') && !take(':')) return refused("a group that begins with '(?'");
      LLADA_TRY(RegexPart inner, alternatives(depth + 1));
      if (!take(')')) return wrong("the end inside a group");
      return inner;
    }
    LLADA_TRY(Expr one, letter());
    const size_t size = 1 + one->parts.size();
    return part_of({std::move(one), size}, false);
  }

  Result<Expr> letter() {
    if (take('.')) return dot();
    if (peek() == '[') return class_of();
    if (peek() == '\\') {
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

  Result<RegexPart> repeated(RegexPart atom) {
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
      const size_t before = atom.size();
      atom = several(atom, least, most);
      LLADA_TRY_STATUS(spend_on(atom, before));
      if (more() && (peek() == '*' || peek() == '+' || peek() == '?' || repeats()))
        return wrong("a repetition of a repetition");
    }
    return atom;
  }

  const std::string_view in_;
  Budget& budget_;
  const Letters letters_;
  const Match match_;
  // One object, so that all alternatives end in the same states (nfa.cc): subsets of states of their own would double
  // with each alternative.
  const Expr anything_ = repeat(any_letter(letters_), 0, -1);
  size_t at_ = 0;
};

}  // namespace

Result<Expr> parse_regex(std::string_view regex, Budget& budget, Letters letters, Match match) {
  return Parser(regex, budget, letters, match).parse();
}

}  // namespace llada::forms
