// Categories, scripts and form C of every code point, against what the published library and Unicode 16.0's
// own tables say (tools/make_unicode_tables.py).
// labels of this file: native
#include <gmock/gmock.h>

#include <cstdlib>
#include <sstream>

#include "text/nfc.h"
#include "text/pre_tokenizer.h"
#include "text/support.h"
#include "text/utf8.h"

namespace llada {
namespace {

constexpr char32_t kCodePoints = 0x110000;

bool is_surrogate(char32_t c) { return c >= 0xD800 && c < 0xE000; }

// "Lu 41,1a 65,17": a name, then pairs of a gap and a length.
struct Property {
  std::string name;
  std::vector<bool> members = std::vector<bool>(kCodePoints, false);
};

std::vector<Property> properties() {
  std::istringstream lines(text_test::read_text(text_test::fixture_path("properties.txt")));
  std::vector<Property> out;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Property property;
    words >> property.name;
    size_t at = 0, gap = 0, length = 0;
    char comma = 0;
    while (words >> std::hex >> gap >> comma >> length) {
      at += gap;
      for (const size_t end = at + length; at < end; ++at) property.members.at(at) = true;
    }
    out.push_back(std::move(property));
  }
  return out;
}

// Planes 4 to 13 hold no character in any version; of the others, under emulators and sanitizers only those
// that grow.
char32_t after(char32_t c) {
  if (c >= 0x40000 && c < 0xE0000) return 0xE0000;
  const bool quick = std::getenv("LLADA_TEST_QUICK") != nullptr;
  return quick && c >= 0x20000 ? kCodePoints : c;
}

// How often `regex`, one class long, is wrong about a code point.
int wrong_members(const std::string& regex, const std::vector<bool>& members, bool negated,
                  char32_t end = kCodePoints) {
  const auto pre_tokenizer = PreTokenizer::create(std::vector{"(?:" + regex + ")+"});
  if (!pre_tokenizer) {
    ADD_FAILURE() << regex << ": " << pre_tokenizer.error().message;
    return -1;
  }
  PreTokenizer::Scratch scratch(*pre_tokenizer);
  int wrong = 0;
  for (char32_t at = 0; at < end;) {
    // A short text, which the pre-tokenizer sees whole, and its cuts where membership changes.
    std::string text;
    std::vector<size_t> cuts, found;
    bool last = false;
    for (int count = 0; count < 4096 && at < end; at = after(at + 1)) {
      if (is_surrogate(at)) continue;
      const bool member = members[at] != negated;
      if (count++ > 0 && member != last) cuts.push_back(text.size());
      last = member;
      append_utf8(text, at);
    }
    if (text.empty()) continue;
    size_t position = 0;
    for (const std::string_view piece : pre_tokenizer->split(text, scratch)) {
      if (position > 0) found.push_back(position);
      position += piece.size();
    }
    std::vector<size_t> difference;
    std::ranges::set_symmetric_difference(cuts, found, std::back_inserter(difference));
    wrong += static_cast<int>(difference.size());
    // A text that is all in or all out has no cuts: its first character against one that is the other way.
    if (cuts.empty()) {
      std::string pair = text.substr(0, static_cast<size_t>(utf8_unit(text).length));
      const auto other = std::ranges::find(members, last == negated) - members.begin();
      append_utf8(pair, static_cast<char32_t>(other));
      wrong += pre_tokenizer->split(pair, scratch).size() == 2 ? 0 : 1;
    }
  }
  return wrong;
}

TEST(Unicode, EveryCategoryAndScriptIsThePublishedLibrarys) {
  const auto all = properties();
  ASSERT_EQ(all.size(), 44u);
  std::vector<int> times(kCodePoints, 0);  // how many categories have it
  for (const Property& property : all) {
    EXPECT_EQ(wrong_members("\\p{" + property.name + "}", property.members, false), 0) << property.name;
    if (property.name.size() == 2)
      for (char32_t c = 0; c < kCodePoints; ++c) times[c] += property.members[c] ? 1 : 0;
  }
  for (char32_t c = 0; c < kCodePoints; ++c) ASSERT_EQ(times[c], is_surrogate(c) ? 0 : 1) << "the fixture";
}

TEST(Unicode, PropertiesInAndOutOfClassesAndTheirComplements) {
  const auto all = properties();
  const auto union_of = [&](const std::vector<std::string>& names) {
    std::vector<bool> members(kCodePoints, false);
    for (const Property& property : all)
      if (std::ranges::count(names, property.name) > 0)
        for (char32_t c = 0; c < kCodePoints; ++c) members[c] = members[c] || property.members[c];
    return members;
  };
  const struct {
    std::vector<std::string> names;
    std::vector<std::string> regexes, negated;
  } cases[] = {
      {{"Lu", "Ll", "Lt", "Lm", "Lo"}, {"\\p{L}", "[\\p{L}]", "[^\\P{L}]"}, {"\\P{L}", "[\\P{L}]", "\\p{^L}"}},
      {{"Lu", "Ll", "Lt"}, {"\\p{LC}", "\\p{lc}"}, {}},
      {{"Mn", "Mc", "Me"}, {"\\p{M}", "[\\p{M}]"}, {"[^\\p{M}]"}},
      {{"Mn"}, {"[\\p{Mn}]"}, {"\\P{Mn}", "[^\\p{Mn}]"}},
      {{"Cc", "Cf", "Co", "Cn"}, {"\\p{C}", "[\\p{C}]"}, {"\\P{C}", "[\\P{C}]"}},
      {{"Nd"}, {"\\d", "[\\d]", "[\\p{Nd}]"}, {"\\D", "[\\D]", "[^\\d]"}},
      {{"Han"}, {"\\p{Hani}", "[\\p{han}]"}, {"\\P{Han}", "[^\\p{Han}]"}},
      {{"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So"}, {"[\\p{P}\\p{S}]"}, {"[^\\p{S}\\p{P}]"}},
  };
  for (const auto& c : cases) {
    const std::vector<bool> members = union_of(c.names);
    for (const std::string& regex : c.regexes) EXPECT_EQ(wrong_members(regex, members, false, 0x20000), 0) << regex;
    for (const std::string& regex : c.negated) EXPECT_EQ(wrong_members(regex, members, true, 0x20000), 0) << regex;
  }
}

TEST(Unicode, WhatCannotBeListedIsRefused) {
  for (const char* regex : {"[\\P{Han}]", "\\p{Unknown}", "\\p{_}", "\\p{Nonsense}"})
    EXPECT_FALSE(PreTokenizer::create(std::vector<std::string>{regex})) << regex;
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "\\p{C}";
  EXPECT_FALSE(PreTokenizer::create(std::vector{many})) << "a short regex that translates to megabytes";
}

std::u32string code_points(const std::string& words) {
  std::istringstream in(words);
  std::u32string out;
  for (uint32_t c = 0; in >> std::hex >> c;) out += static_cast<char32_t>(c);
  return out;
}

std::string utf8(const std::u32string& text) {
  std::string out;
  for (const char32_t c : text) append_utf8(out, c);
  return out;
}

std::string nfc(std::string_view text) {
  std::string buffer;
  return std::string(to_nfc(text, buffer));
}

TEST(Nfc, EqualsTheReferenceAndIsStable) {
  std::istringstream lines(text_test::read_text(text_test::fixture_path("nfc.txt")));
  int count = 0, changed = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const size_t equals = line.find('=');
    const std::string text = utf8(code_points(line.substr(0, equals)));
    const std::string expected = equals == std::string::npos ? text : utf8(code_points(line.substr(equals + 1)));
    changed += expected != text ? 1 : 0;
    ASSERT_EQ(nfc(text), expected) << line;
    ASSERT_EQ(nfc(expected), expected) << line;
    // A starter that composes with nothing cuts a text in two.
    ASSERT_EQ(nfc(text + "\u11a7" + text), expected + "\u11a7" + expected) << line;
  }
  EXPECT_GT(count, 2000);
  EXPECT_GT(changed, 800);
}

// Every L, V and T, and one beyond each end.
TEST(Nfc, HangulIsArithmetic) {
  for (char32_t l = 0x10FF; l <= 0x1113; ++l)
    for (char32_t v = 0x1160; v <= 0x1176; ++v)
      for (char32_t t = 0x11A7; t <= 0x11C3; ++t) {
        const bool lv = l >= 0x1100 && l <= 0x1112 && v >= 0x1161 && v <= 0x1175;
        const bool lvt = lv && t >= 0x11A8 && t <= 0x11C2;
        const char32_t syllable = 0xAC00 + ((l - 0x1100) * 21 + (v - 0x1161)) * 28;
        const std::u32string expected = lvt  ? std::u32string{syllable + (t - 0x11A7)}
                                        : lv ? std::u32string{syllable, t}
                                             : std::u32string{l, v, t};
        ASSERT_EQ(nfc(utf8({l, v, t})), utf8(expected))
            << std::hex << uint32_t{l} << ' ' << uint32_t{v} << ' ' << uint32_t{t};
        if (lv) {
          ASSERT_EQ(nfc(utf8({syllable, t})), utf8(expected));
        }
      }
}

}  // namespace
}  // namespace llada
