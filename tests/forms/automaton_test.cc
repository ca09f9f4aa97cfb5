// Regular expressions, JSON texts, schemas and templates as automata: against another matcher, against counting, and
// against what must be refused.
#include "forms/automaton.h"

#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "forms/form.h"
#include "forms/json_values.h"
#include "forms/regex.h"
#include "text/utf8.h"

namespace llada::forms {
namespace {

Automaton of(FormKind kind, const std::string& text) {
  auto made = automaton_of({kind, text});
  EXPECT_TRUE(made.has_value()) << text << ": " << (made ? "" : made.error().message);
  return made ? *made : Automaton{};
}

std::string error_of(FormKind kind, const std::string& text) {
  const auto made = automaton_of({kind, text});
  EXPECT_FALSE(made.has_value()) << text;
  return made ? "" : made.error().message;
}

// A random expression of a dialect that the standard library's matcher reads the same.
std::string random_regex(std::mt19937& random, int depth) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  if (depth == 0) {
    static const char* kAtoms[] = {"a", "b", "c", "[ab]", "[^a]", ".", "\\d", "\\w", "1"};
    return kAtoms[pick(9)];
  }
  static const char* kRepeats[] = {"*", "+", "?", "{2}", "{1,2}", "{0,1}", "{1,}"};
  const std::string a = random_regex(random, depth - 1), b = random_regex(random, depth - 1);
  switch (pick(4)) {
    case 0:
      return a + b;
    case 1:
      return "(" + a + "|" + b + ")";
    case 2:
      return "(?:" + a + ")" + kRepeats[pick(7)];
    default:
      return a;
  }
}

TEST(Regex, FitsWhatAnotherMatcherFits) {
  std::mt19937 random(7);
  int fitting = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string regex = random_regex(random, 3);
    const std::regex reference(regex, std::regex::ECMAScript);
    const Automaton automaton = of(FormKind::regex, regex);
    for (int k = 0; k < 60; ++k) {
      std::string text;
      for (unsigned n = random() % 7; n > 0; --n) text += "abc1_-"[random() % 6];
      fitting += automaton.fits(text);
      ASSERT_EQ(automaton.fits(text), std::regex_match(text, reference)) << regex << " on '" << text << "'";
    }
  }
  EXPECT_GT(fitting, 1000);
}

TEST(Regex, KnowsCharactersOfSeveralBytes) {
  const Automaton euro = of(FormKind::regex, "[α-ω]+|€|.{2}x");
  EXPECT_TRUE(euro.fits("αβγω"));
  EXPECT_TRUE(euro.fits("€"));
  EXPECT_TRUE(euro.fits("🙂éx"));
  EXPECT_FALSE(euro.fits("Ω"));
  EXPECT_FALSE(euro.fits("\xe2\x82"));
  EXPECT_FALSE(euro.fits("\xe2\x82x"));  // no two characters
  const Automaton any = of(FormKind::regex, "[^x]");
  EXPECT_FALSE(any.fits("\xed\xa0\x80"));  // a surrogate
  EXPECT_TRUE(any.fits("\xf4\x8f\xbf\xbf"));
  EXPECT_FALSE(any.fits("\xf4\x90\x80\x80"));
  EXPECT_FALSE(any.fits("\xc0\x80"));  // overlong
}

TEST(Regex, RefusesWithThePlace) {
  EXPECT_EQ(error_of(FormKind::regex, "a(b"), "regex: found the end inside a group at byte 3");
  EXPECT_EQ(error_of(FormKind::regex, "a(?=b)"),
            "regex: found a group that begins with '(?' at byte 3, which is not supported");
  EXPECT_EQ(error_of(FormKind::regex, "(a)\\1"), "regex: found the escape '\\1' at byte 4, which is not supported");
  EXPECT_EQ(error_of(FormKind::regex, "a{3,2}"), "regex: found a repetition whose most is below its least at byte 1");
  EXPECT_EQ(error_of(FormKind::regex, "[^\\S\\s]"), "regex: no text fits the form");
  EXPECT_EQ(error_of(FormKind::regex, "((a{999}){999}){999}"), "regex: the form needs more than 400000 states");
  EXPECT_EQ(error_of(FormKind::regex, "(a|b)*a(a|b){30}"), "regex: the form needs more than 40000 states");
}

TEST(Regex, RefusesWhatWouldNestWithoutEnd) {
  std::string many = "a";
  for (int i = 0; i < 40'000; ++i) many += "{1}";
  EXPECT_EQ(error_of(FormKind::regex, many), "regex: found a repetition of a repetition at byte 4");
  EXPECT_TRUE(of(FormKind::regex, "a{1}{x").fits("a{x"));
  EXPECT_EQ(error_of(FormKind::regex, "(((){100000}){100000}){100000}"), "regex: the form is too large");
}

TEST(Regex, JoinsSurrogates) {
  const Automaton pair = of(FormKind::regex, "\\ud83d\\ude00|[\\uD83D\\uDE01-\\uD83D\\uDE03]x");
  EXPECT_TRUE(pair.fits("😀"));
  EXPECT_TRUE(pair.fits("😂x"));
  EXPECT_FALSE(pair.fits("😀x"));
  for (const char* lone : {"\\ud83d", "\\ude00\\ud83d", "\\ud83d\\u0041", "\\u{d83d}\\ude00"})
    EXPECT_NE(error_of(FormKind::regex, lone).find("found a surrogate without its other half"), std::string::npos);
}

TEST(Automaton, IsMinimal) {
  EXPECT_EQ(of(FormKind::choice, "cat|rat|bat").states(), 4);
  EXPECT_EQ(of(FormKind::regex, "(a|b)*abb").states(), 4);
  EXPECT_EQ(of(FormKind::regex, "(ab|ab|a(b)){2}").states(), 5);
  EXPECT_EQ(of(FormKind::regex, "a*").states(), 1);
}

TEST(Choice, FitsItsTextsAlone) {
  const Automaton choice = of(FormKind::choice, "yes|no|either\\|or|日本");
  for (const char* text : {"yes", "no", "either|or", "日本"}) EXPECT_TRUE(choice.fits(text)) << text;
  for (const char* text : {"", "ye", "noo", "either", "日"}) EXPECT_FALSE(choice.fits(text)) << text;
  EXPECT_EQ(error_of(FormKind::choice, "a||b"), "choice: found an empty choice, needed texts with | between them");
}

TEST(Numbers, IntegersBetweenBounds) {
  std::mt19937 random(3);
  for (int i = 0; i < 150; ++i) {
    int64_t a = static_cast<int64_t>(random() % 2600) - 1300, b = static_cast<int64_t>(random() % 2600) - 1300;
    if (a > b) std::swap(a, b);
    const auto both = compile(json_integer(a, b)), low = compile(json_integer(a, {})),
               high = compile(json_integer({}, b));
    ASSERT_TRUE(both && low && high);
    for (int64_t n = -1400; n <= 1400; ++n) {
      const std::string text = std::to_string(n);
      ASSERT_EQ(both->fits(text), a <= n && n <= b) << a << " " << b << " " << n;
      ASSERT_EQ(low->fits(text), a <= n) << a << " " << n;
      ASSERT_EQ(high->fits(text), n <= b) << b << " " << n;
    }
    ASSERT_FALSE(both->fits("00") || both->fits("-0") || both->fits("") || both->fits("01"));
  }
}

// Bounds of up to two digits behind the point, against texts of up to three.
TEST(Numbers, NumbersBetweenBounds) {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    const unsigned unit = i % 3 == 0 ? 1 : i % 3 == 1 ? 10 : 100;
    const double low = static_cast<double>(random() % (40 * unit)) - 20.0 * unit;
    const double high = low + 1 + static_cast<double>(random() % (15 * unit));
    NumberRange r{low / unit, high / unit, random() % 2 == 0, random() % 2 == 0};
    const bool open = i % 10 == 9;
    if (open) (random() % 2 == 0 ? r.least : r.most).reset();
    const auto range = compile(json_number(r));
    ASSERT_TRUE(range.has_value());
    for (int n = -22'000; n <= 22'000; n += 5) {
      const double value = n / 1000.0;
      const std::string text = fmt::format("{}", value);
      if (text == "-0") continue;
      const bool inside = (!r.least || (r.above ? value > *r.least : value >= *r.least)) &&
                          (!r.most || (r.below ? value < *r.most : value <= *r.most));
      ASSERT_EQ(range->fits(text), inside) << r.least.value_or(-99) << (r.above ? " above " : " ")
                                           << r.most.value_or(99) << (r.below ? " below " : " ") << text;
    }
  }
}

// As a validator reads it, which makes doubles of both: digits beyond a double's cannot reach a bound that is out.
TEST(Numbers, NoTextRoundsToABoundThatIsOut) {
  const auto fits = [](NumberRange r, const std::string& text) { return compile(json_number(r))->fits(text); };
  for (const char* bound : {"0.", "1.", "0.1", "0.00001", "12345.5", "0.000000000000001", "1000000000000000."})
    for (size_t zeros = 0; zeros < 40; ++zeros) {
      const std::string text = bound + std::string(zeros, '0') + "1";
      const double least = std::stod(bound);
      if (fits({least, {}, true, false}, text)) {
        EXPECT_GT(std::stod(text), least) << text;
      }
      EXPECT_TRUE(fits({least, {}, false, false}, text)) << text;
    }
  EXPECT_FALSE(fits({0.0, {}, true, false}, "0." + std::string(400, '0') + "1"));
  EXPECT_FALSE(fits({{}, 5.0, false, true}, "4.99999999999999999999"));
  EXPECT_TRUE(fits({{}, 5.0, false, true}, "4.99999999999999"));
  EXPECT_TRUE(fits({{}, 5.0, false, false}, "4.99999999999999999999"));
  EXPECT_TRUE(fits({0.1, 0.12, true, true}, "0.11") && fits({0.1, 0.12, true, true}, "0.1000000001"));
  EXPECT_FALSE(fits({0.1, 0.12, true, true}, "0.1") || fits({0.1, 0.12, true, true}, "0.1200"));
  EXPECT_TRUE(fits({1e-7, 2.5e-7, false, false}, "0.00000025") && !fits({1e-7, 2.5e-7, false, false}, "0.000000251"));
  EXPECT_TRUE(fits({-0.5, 0.0, false, false}, "-0.5") && fits({-0.5, 0.0, false, false}, "0"));
  EXPECT_FALSE(fits({-0.5, 0.0, false, false}, "-0.0") || fits({-0.5, 0.0, false, false}, "-0.51"));
}

TEST(Schema, FitsValidTextsInOneSpelling) {
  const Automaton person = of(FormKind::json_schema, R"({"type": "object", "properties": {
      "name": {"type": "string", "minLength": 1, "maxLength": 3},
      "age": {"type": "integer", "minimum": 0, "maximum": 150},
      "tags": {"type": "array", "items": {"enum": ["x", 2, null]}, "maxItems": 2},
      "when": {"type": "string", "format": "date"}}, "required": ["name", "tags"]})");
  for (const char* text : {R"({"name": "Ann", "tags": []})", R"({"name": "\"\\\n", "age": 150, "tags": ["x", null]})",
                           R"({"name": "né", "tags": [2], "when": "2024-02-28"})"})
    EXPECT_TRUE(person.fits(text)) << text;
  for (const char* text :
       {R"({"name": "Anne", "tags": []})", R"({"name": "", "tags": []})", R"({"name": "A"})",
        R"({"tags": [], "name": "A"})", R"({"name":"A", "tags": []})", R"({"name": "A", "age": 151, "tags": []})",
        R"({"name": "A", "tags": [2, 2, 2]})", R"({"name": "A", "tags": [], "when": "2024-02-30"})",
        R"({"name": "A", "tags": [], "more": 1})"})
    EXPECT_FALSE(person.fits(text)) << text;
}

// A list names its item twice; each level of lists adds the same few states all the same.
TEST(Schema, ListsInListsAreLinear) {
  std::string schema = R"({"type": "integer"})", text = "-12, 3";
  std::vector<int32_t> states;
  for (int depth = 1; depth <= 24; ++depth) {
    schema = R"({"type": "array", "items": )" + schema + "}", text = "[" + text + "]";
    const Automaton made = of(FormKind::json_schema, schema);
    states.push_back(made.states());
    EXPECT_TRUE(made.fits(text));
    EXPECT_EQ(made.fits(text.substr(0, text.size() - 1) + ", []]"), depth > 1) << text;
    EXPECT_FALSE(made.fits("[" + text + "]"));
  }
  for (size_t i = 3; i < states.size(); ++i) EXPECT_EQ(states[i] - states[i - 1], states[2] - states[1]) << i;
  std::string objects = R"({"type": "boolean"})";
  for (int depth = 1; depth <= 12; ++depth)
    objects = R"({"additionalProperties": {"type": "array", "items": )" + objects + "}}";
  EXPECT_LT(of(FormKind::json_schema, objects).states(), 12 * 60);
}

TEST(Schema, MembersThatMayBeLeftOut) {
  const Automaton object =
      of(FormKind::json_schema, R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}})");
  std::set<std::string> fitting;
  for (int mask = 0; mask < 8; ++mask) {
    std::string inside;
    for (int i = 0; i < 3; ++i)
      if (mask >> i & 1) inside += fmt::format("{}\"{}\": {}", inside.empty() ? "" : ", ", "abc"[i], i + 1);
    EXPECT_TRUE(object.fits("{" + inside + "}")) << inside;
  }
  EXPECT_FALSE(object.fits(R"({, "b": 2})"));
  EXPECT_FALSE(object.fits(R"({"a": 1, })"));
  EXPECT_FALSE(object.fits(R"({"a": 1 "b": 2})"));
}

TEST(Schema, FollowsReferencesToADepth) {
  const Automaton tree = of(FormKind::json_schema, R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object",
      "properties": {"v": {"type": "boolean"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
      "required": ["v", "next"]}}})");
  std::string text = "null";
  for (int depth = 0; depth < kMostLevels + 1; ++depth) {
    text = R"({"v": true, "next": )" + text + "}";
    EXPECT_EQ(tree.fits(text), depth < 4) << depth;
  }
  EXPECT_EQ(error_of(FormKind::json_schema, R"({"$ref": "#/$defs/x"})"),
            R"(json_schema: $.$ref: found "#/$defs/x", needed a place that this schema has)");
  EXPECT_EQ(error_of(FormKind::json_schema, R"({"$ref": "#"})"), "json_schema: $: no value fits the schema");
}

// A reader of JSON that holds a double has rounded them: no text would be the value that was asked for.
TEST(Schema, RefusesRoundedNumbers) {
  EXPECT_TRUE(
      of(FormKind::json_schema, R"({"enum": [18446744073709551615, -1.5, 1e19]})").fits("18446744073709551615"));
  EXPECT_TRUE(of(FormKind::json_schema, R"({"const": -9223372036854775808})").fits("-9223372036854775808"));
  EXPECT_EQ(
      error_of(FormKind::json_schema, R"({"properties": {"a": {"const": [{"b": 18446744073709551617}]}}})"),
      R"(json_schema: $.properties.a.const: found [{"b": 1.8446744073709552e+19}], needed numbers above -2^63 and below 2^64)");
  EXPECT_EQ(error_of(FormKind::json_schema, R"({"enum": [1, -9223372036854775809]})"),
            "json_schema: $.enum: found -9.223372036854776e+18, needed numbers above -2^63 and below 2^64");
}

// None is made whole: each would have millions of parts, or take minutes.
TEST(Form, ExpressionsAreBounded) {
  const auto times = [](int count, const std::string& text) {
    std::string out;
    for (int i = 0; i < count; ++i) out += text;
    return out;
  };
  const auto refused = [](FormKind kind, const std::string& text) { return check_form({kind, text}).error().message; };
  EXPECT_EQ(refused(FormKind::regex, times(200'000, "[^a]")), "regex: the form is too large");
  EXPECT_EQ(refused(FormKind::regex, times(40'000, "\\D")), "regex: the form is too large");
  EXPECT_EQ(refused(FormKind::choice, times(200'000, "a|") + "b"), "choice: the form is too large");
  std::string letters;
  for (char32_t code = 0x800; code < 0xd800; code += 2) append_utf8(letters, code);
  EXPECT_EQ(refused(FormKind::regex, "[^" + letters + "]"), "regex: the form is too large");
  std::string schema = R"({"$ref": "#/$defs/a0", "$defs": {)";
  for (int i = 0; i < 12; ++i)
    schema += fmt::format(R"("a{0}": {{"anyOf": [{{"$ref": "#/$defs/a{1}"}}, {{"$ref": "#/$defs/a{1}"}}, {{"$ref":
        "#/$defs/a{1}"}}]}}, )",
                          i, i + 1);
  EXPECT_NE(refused(FormKind::json_schema, schema + R"("a12": {"type": "object"}}})").find("more than 6000 cases"),
            std::string::npos);
  EXPECT_EQ(refused(FormKind::json_schema, "{\"enum\": [" + times(21'000, "1, ") + "1]}"),
            "json_schema: JSON with more than 20000 values");
  // Large and yet cheap: what is the same is one object.
  EXPECT_TRUE(check_form({FormKind::regex, times(10'000, ".")}));
  EXPECT_TRUE(check_form({FormKind::form_template, times(1'000, "<json> <text>\n")}));
  EXPECT_TRUE(check_form({FormKind::json_schema, "{\"anyOf\": [" + times(999, R"({"type": "object"}, )") +
                                                     R"({"type": ["object", "object"]}]})"}));
}

TEST(Form, WhatIsTheSameIsOneObject) {
  EXPECT_EQ(json_any(3), json_any(3));
  EXPECT_EQ(json_object(2), json_object(2));
  Budget budget;
  const auto dots = parse_regex("..", budget);
  EXPECT_EQ((*dots)->parts[0], (*dots)->parts[1]);
}

TEST(Schema, ObjectsOfAnyMembers) {
  const auto made =
      automaton_of({FormKind::json_schema,
                    R"({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}})"});
  ASSERT_TRUE(made);
  for (const char* text : {"{}", R"({"a": []})", R"({"a": [1, 2], "\"": [-3]})"}) EXPECT_TRUE(made->fits(text)) << text;
  for (const char* text : {"", "[]", R"({"a": 1})", R"({"a": ["b"]})",
                           R"({"a": []})"
                           "}"})
    EXPECT_FALSE(made->fits(text)) << text;
  // Where there are properties no others are written, whatever they could be.
  const auto some = automaton_of(
      {FormKind::json_schema, R"({"properties": {"a": {"const": 1}}, "additionalProperties": {"type": "integer"}})"});
  ASSERT_TRUE(some);
  EXPECT_TRUE(some->fits("{}") && some->fits(R"({"a": 1})"));
  EXPECT_FALSE(some->fits(R"({"b": 1})"));
}

TEST(Schema, IsJson) {
  EXPECT_EQ(error_of(FormKind::json_schema, "{"), "json_schema: not valid JSON: it ends too early, at byte 1");
}

TEST(Schema, PatternIsFoundAnywhereInTheString) {
  const Automaton some = of(FormKind::json_schema, R"({"type": "string", "pattern": "b\"+|^x$"})");
  EXPECT_TRUE(some.fits(R"("ab\"c")"));
  EXPECT_TRUE(some.fits(R"("x")"));
  EXPECT_FALSE(some.fits(R"("xx")"));
  EXPECT_FALSE(some.fits(R"("ab")"));
}

TEST(JsonObject, NestsToItsDepth) {
  const Automaton two = of(FormKind::json_object, "2");
  EXPECT_TRUE(two.fits(R"({"a": [1, -2.5e3, "x"], "b": {"c": null}})"));
  EXPECT_TRUE(two.fits("{}"));
  EXPECT_FALSE(two.fits(R"({"a": [[1]]})"));
  EXPECT_FALSE(two.fits("[]"));
  EXPECT_FALSE(two.fits(R"({"a": 01})"));
  EXPECT_EQ(error_of(FormKind::json_object, "6"), "json_object: found '6', needed 1 to 5 levels");
}

TEST(JsonObject, ErrorsAreOneLine) {
  EXPECT_EQ(error_of(FormKind::json_object, "{9}\n{9}"), "json_object: found '{9} {9}', needed 1 to 5 levels");
  EXPECT_EQ(
      error_of(FormKind::json_schema, R"({"properties": {"a\nb": {"type": "x"}}})"),
      R"(json_schema: $.properties.a b.type: found "x", needed string, number, integer, boolean, null, array, object)");
}

TEST(Template, HasTypedGaps) {
  const Automaton person =
      of(FormKind::form_template, R"({"name": <string 1..5>, "age": <int 0..150>} <choice a|b> << <)");
  EXPECT_TRUE(person.fits(R"({"name": "Ann", "age": 7} b < <)"));
  EXPECT_FALSE(person.fits(R"({"name": "Ann", "age": 151} b < <)"));
  EXPECT_FALSE(person.fits(R"({"name": "", "age": 7} b < <)"));
  EXPECT_EQ(
      error_of(FormKind::form_template, "ab <date>"),
      "template: the gap at byte 3: found 'date', needed string, int, number, bool, choice, regex, word, text or json");
  EXPECT_EQ(error_of(FormKind::form_template, "<int 5>"),
            "template: the gap at byte 0: found '5', needed a range like 0..150");
  EXPECT_EQ(error_of(FormKind::form_template, "<string ..-5>"),
            "template: the gap at byte 0: found '..-5', needed a range of characters");
  EXPECT_EQ(error_of(FormKind::form_template, "x<int"), "template: the gap at byte 1 has no '>'");
}

}  // namespace
}  // namespace llada::forms
