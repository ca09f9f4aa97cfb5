// What Python, JavaScript and PCRE read differently, construct by construct: refused by its place, or fitted by such
// texts alone as fit in each of them.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "forms/automaton.h"
#include "forms/form.h"

namespace llada::forms {
namespace {

using Texts = std::vector<std::string>;

struct Read {
  const char* regex;
  Texts fit, others;
};

TEST(RegexDialects, ReadAlikeOrAsStated) {
  const Read rows[] = {
      // Repetitions and braces.
      {"x{2}", {"xx"}, {"x{2}", "x"}},
      {"x{2,}", {"xx", "xxxx"}, {"x"}},
      {"x{0000000001,000000000000000000000000002}", {"x", "xx"}, {"xxx"}},
      {"x{0}y", {"y"}, {"xy"}},
      {R"({"a": {}})", {R"({"a": {}})"}, {}},
      {"x{ }", {"x{ }"}, {"x"}},
      {"x{y}{1a}{1,2", {"x{y}{1a}{1,2"}, {}},
      {"a}]", {"a}]"}, {}},
      {"a*?b+?c??d{1,2}?", {"bd", "aabbcdd"}, {"a"}},
      // Groups and alternatives.
      {"(a|)(|b)(?:)()", {"", "a", "ab", "b"}, {"ba"}},
      {"|a", {"", "a"}, {}},
      {"^a|b$", {"a", "b"}, {"ab"}},
      // Anchors, which are of the whole text wherever they stand.
      {"(a$)", {"a"}, {"", "aa"}},
      {"(^a|b)(c|d$)", {"ac", "bd"}, {"a", "c"}},
      {"^$|(^(?:\\S+\\s+){0,1}\\S+$)", {"", "a", "a b"}, {" ", "a ", "a b c"}},
      {"x*^y*$z*", {"", "y", "yy"}, {"x", "xy", "yz", "z"}},
      {"(x|^)a(y|$)", {"a", "xa", "ay", "xay"}, {"", "x"}},
      {"(a(b|$)){2,3}", {"aba", "abab", "ababab", "ababa"}, {"ab", "aa", "a", "abababa"}},
      {"(,?([a-z]+|$)){3}", {"abc", "a,b", "a,", "a", "a,b,c", ""}, {"a,b,c,d", ",,,"}},
      {"((^|,)[a-z]){2,}", {"a,b", "a,b,c"}, {"a", "ab", ",a"}},
      {"(^)*(a|$)+(?:^b)?", {"a", "aa", ""}, {"ab", "b"}},
      // Letters of a kind: of ASCII, as all dialects have them.
      {R"(\d)", {"7"}, {"x", "\u0663"}},
      {R"(\w)", {"a", "_", "0"}, {"-", "\u00e9"}},
      {R"(\s)", {" ", "\t", "\n", "\v", "\f", "\r"}, {"\x1c", "\u00a0", "\ufeff", "\u0085"}},
      {R"(\D)", {"x", "\x1c"}, {"7", "\u00e9", "\u0663"}},
      {R"(\W)", {"-", "\n"}, {"a", "\u00e9"}},
      {R"(\S)", {"x"}, {" ", "\x1c", "\x1f", "\u00e9"}},
      {R"([^\s])", {"x"}, {" ", "\x1c", "\u00e9"}},
      {R"([^\S])", {" "}, {"x", "\x1c"}},
      {R"([\s\S][\d\D][\W\w])", {"a\n\u00e9", "\u00e9\x1c\U0001f600"}, {"ab"}},
      {".", {"x", "\u00e9", "\x0b"}, {"\n", "\r", "\u2028"}},
      // Classes.
      {"[-a]", {"-", "a"}, {}},
      {"[a-]", {"-", "a"}, {"b"}},
      {"[a-c-e]", {"-", "b", "e"}, {"d"}},
      {"[--9]", {"-", ".", "7"}, {","}},
      {R"([\w-.]+)", {"a-b.c"}, {"+"}},
      {"[a^]", {"a", "^"}, {}},
      {"[^^]", {"a"}, {"^"}},
      {"[$.*+?(){}|]", {"$", ".", "|", "{"}, {"a"}},
      {"[&a|~]", {"&", "|"}, {"b"}},
      {"[[a]", {"[", "a"}, {"b"}},
      {R"([\b])", {"\b"}, {"b"}},
      {R"([\]\[])", {"[", "]"}, {}},
      // Escapes of one character.
      {R"(\t\n\r\f)", {"\t\n\r\f"}, {}},
      {R"(\x41\u0042\u{1f600})", {"AB\U0001f600"}, {}},
      {R"(\.\*\/\-\ \#)", {".*/- #"}, {}},
      {"# a", {"# a"}, {"", "#a"}},
  };
  for (const Read& row : rows) {
    const auto made = automaton_of({FormKind::regex, row.regex});
    ASSERT_TRUE(made) << row.regex << ": " << made.error().message;
    for (const std::string& text : row.fit) EXPECT_TRUE(made->fits(text)) << row.regex << " on '" << text << "'";
    for (const std::string& text : row.others) EXPECT_FALSE(made->fits(text)) << row.regex << " on '" << text << "'";
  }
}

TEST(RegexDialects, TheRestIsRefusedByItsPlace) {
  struct Refused {
    const char *regex, *found;
    int at;
  };
  constexpr const char *kBraces = "braces that are a repetition in some dialects and text in others",
                       *kGroup = "a group that begins with '(?'", *kSet = "a set operation", *kName = "a class by name",
                       *kAgain = "a repetition of a repetition", *kNothing = "a repetition of nothing";
  const std::vector<Refused> rows = {
      {"x{,3}", kBraces, 1},
      {"x{,}", kBraces, 1},
      {"x{ 1}", kBraces, 1},
      {"x{1, 2}", kBraces, 1},
      {"x{1,2,3}", kBraces, 1},
      {"{3}", kNothing, 0},
      {"(*UTF)a", kNothing, 1},
      {"x{9999999999}", "a repetition of more than 100000", 1},
      {"a++", "a possessive repetition", 2},
      {"a{2}+", "a possessive repetition", 4},
      {"a{2}{3}", kAgain, 4},
      {"a*??", kAgain, 3},
      {"a*{,3}", kAgain, 2},
      {"(?<n>a)", kGroup, 2},
      {"(?P<n>a)", kGroup, 2},
      {"(?'n'a)", kGroup, 2},
      {"(?P=n)", kGroup, 2},
      {"(?i)a", kGroup, 2},
      {"(?i:a)", kGroup, 2},
      {"(?>a)", kGroup, 2},
      {"(?|a)", kGroup, 2},
      {"(?#a)", kGroup, 2},
      {"(?(1)a)", kGroup, 2},
      {"a(?=b)", kGroup, 3},
      {"(?<!b)a", kGroup, 2},
      {"(?R)", kGroup, 2},
      {"^*a", kNothing, 1},
      {"a$+", kNothing, 2},
      {"[]a]", "']' first in a class", 1},
      {"[^]a]", "']' first in a class", 2},
      {"[]", "']' first in a class", 1},
      {"[[:digit:]]", kName, 1},
      {"[a[=b=]]", kName, 2},
      {"[[.a.]]", kName, 1},
      {"[a&&b]", kSet, 2},
      {"[a--b]", kSet, 2},
      {"[!--]", kSet, 2},
      {"[a||b]", kSet, 2},
      {"[a~~b]", kSet, 2},
      {R"([a-\d])", "a range that ends with a class", 5},
      {"[b-a]", "a range whose end is before its beginning", 4},
      {R"(\012)", "an octal escape", 2},
      {R"([\012])", "an octal escape", 3},
      {R"(\x4)", "an escape without its hexadecimal digits", 3},
      {R"(\x{41})", "an escape without its hexadecimal digits", 2},
  };
  // Letters and digits behind a backslash: anchors, classes and references in one dialect, letters in another.
  for (const char c : std::string_view("ABCEGHIJKLMNOPQRTUVXYZabceghijklmopqvyz123456789")) {
    const auto made = automaton_of({FormKind::regex, std::string("x\\") + c});
    ASSERT_FALSE(made) << c;
    EXPECT_EQ(made.error().message, fmt::format("regex: found the escape '\\{}' at byte 2, which is not supported", c));
  }
  for (const Refused& row : rows) {
    const auto made = automaton_of({FormKind::regex, row.regex});
    ASSERT_FALSE(made) << row.regex;
    const std::string begin = std::string("regex: found ") + row.found + " at byte " + std::to_string(row.at);
    EXPECT_TRUE(made.error().message == begin || made.error().message == begin + ", which is not supported")
        << row.regex << ": " << made.error().message;
  }
}

std::string drawn(std::mt19937& rng, int depth) {
  const auto any = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  std::string out;
  for (int i = any(4); i >= 0; --i) {
    const int kind = any(depth > 0 ? 8 : 5);
    if (kind < 3) {
      out += kind == 2 ? "." : kind == 1 ? "b" : "a";
    } else if (kind < 5) {
      out += kind == 3 ? "^" : "$";
      continue;
    } else {
      out += "(" + drawn(rng, depth - 1) + ")";
    }
    out += std::array{"", "", "", "*", "?", "+", "{2}", "{0,2}", "{2,3}"}[static_cast<size_t>(any(9))];
  }
  return any(3) == 0 ? out + "|" + drawn(rng, depth - 1) : out;
}

// Beside the standard library's, on all short texts: as a whole, and anywhere as a schema's pattern.
TEST(RegexDialects, AnchorsAsAnotherReaderHasThem) {
  std::vector<std::string> texts = {""};
  for (size_t i = 0; texts.back().size() < 5; ++i)
    for (const char c : {'a', 'b'}) texts.push_back(texts[i] + c);
  std::mt19937 rng(7);
  int fit = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string regex = drawn(rng, 2);
    const std::regex other(regex);
    const auto whole = automaton_of({FormKind::regex, regex});
    const auto found = automaton_of({FormKind::json_schema, R"({"type": "string", "pattern": ")" + regex + "\"}"});
    for (const std::string& text : texts) {
      fit += whole && whole->fits(text);
      EXPECT_EQ(whole && whole->fits(text), std::regex_match(text, other)) << regex << " on '" << text << "'";
      EXPECT_EQ(found && found->fits('"' + text + '"'), std::regex_search(text, other)) << regex << " in " << text;
    }
  }
  EXPECT_GT(fit, 1000);
}

// Whatever stands behind a brace is read once.
TEST(RegexDialects, BracesAreReadInLinearTime) {
  std::string many(400'000, '1');
  EXPECT_FALSE(automaton_of({FormKind::regex, "x{" + many + "}"}));
  for (size_t i = 0; i < many.size(); i += 2) many[i] = '{';
  EXPECT_FALSE(automaton_of({FormKind::regex, many}));
}

}  // namespace
}  // namespace llada::forms
