// JSON Schema by keywords: a table of schemas with texts that fit and texts that do not, whose verdicts another
// program's validator has confirmed (python/tests/test_check_forms.py), and what is refused or left out.
#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "forms/form.h"
#include "forms/json_schema.h"
#include "forms/json_values.h"
#include "forms/regex.h"

namespace llada::forms {
namespace {

TEST(SchemaKeywords, FitAsTheTableSays) {
  std::ifstream file(LLADA_SOURCE_DIR "/tests/data/schema_keywords.jsonl");
  std::string line;
  int rows = 0;
  while (std::getline(file, line)) {
    const Json row = Json::parse(line);
    const auto made = automaton_of({FormKind::json_schema, row["schema"].dump()});
    ASSERT_TRUE(made) << line << ": " << made.error().message;
    for (const Json& text : row["fits"]) EXPECT_TRUE(made->fits(text.get<std::string>())) << line << ": " << text;
    for (const Json& text : row["not"]) EXPECT_FALSE(made->fits(text.get<std::string>())) << line << ": " << text;
    ++rows;
  }
  EXPECT_GE(rows, 71);
}

std::string refusal(const std::string& schema) {
  const auto made = check_form({FormKind::json_schema, schema});
  return made ? "" : made.error().message.substr(std::string("json_schema: ").size());
}

std::vector<std::string> warnings(const std::string& schema, std::string_view where = "$") {
  std::vector<std::string> lines;
  const auto made = check_form({FormKind::json_schema, schema, /*loose=*/true}, &lines, where);
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return lines;
}

void expect_texts(const std::string& schema, const std::vector<std::string>& fit,
                  const std::vector<std::string>& others) {
  const auto made = automaton_of({FormKind::json_schema, schema});
  ASSERT_TRUE(made) << made.error().message;
  for (const std::string& text : fit) EXPECT_TRUE(made->fits(text)) << text;
  for (const std::string& text : others) EXPECT_FALSE(made->fits(text)) << text;
}

// Strict: by the path, with the reason. Else left out with a line that says both.
TEST(SchemaKeywords, WhatCannotBeFollowedIsSaid) {
  for (
      const auto& [schema, place, why] : std::vector<std::array<std::string, 3>>{
          {R"({"properties": {"a": {"type": "array", "uniqueItems": true}}})", "$.properties.a.uniqueItems",
           "unique items are supported for listed values only"},
          {R"({"properties": {"a": {"type": "string", "pattern": "(?=x)y"}}})", "$.properties.a.pattern",
           "found a group that begins with '(?' at byte 2, which is not supported"},
          {R"({"$ref": "https://example.com/other.json"})", "$.$ref",
           R"(found "https://example.com/other.json", which is in another document; needed a place in this one, like #/$defs/NAME)"},
          {R"({"$ref": "#/$defs/x"})", "$.$ref", R"(found "#/$defs/x", needed a place that this schema has)"},
          {R"({"oneOf": [{"type": "array"}, {"type": "array", "items": {"type": "integer"}}]})", "$.oneOf",
           "a value may fit both [0] and [1], which cannot be told apart"},
          {R"({"not": {"uniqueItems": true}})", "$.not", "not supported of this schema"},
          {R"({"type": "object", "minProperties": 2})", "$.minProperties",
           "a lower bound on the number of members is supported for named ones only"},
          {R"({"contains": {"const": 1}, "maxContains": 2})", "$.maxContains", "not supported"},
          {R"({"items": {"type": "number", "multipleOf": 0.0000000001}})", "$.items.multipleOf",
           "found 1e-10, needed a step from 1e-9 to 1e15"},
          {R"({"type": "strin"})", "$.type",
           R"(found "strin", needed string, number, integer, boolean, null, array, object)"},
          {R"({"type": "object", "additionalProperties": 5})", "$.additionalProperties", "found 5, needed a schema"},
          {R"({"minLength": -1})", "$.minLength", "found -1, needed a whole number from 0 on"},
          {R"({"enum": []})", "$.enum", "found [], needed a list of values"},
          {R"({"allOf": {}})", "$.allOf", "found {}, needed a list of schemas"}}) {
    EXPECT_EQ(refusal(schema), place + ": " + why);
    const auto lines = warnings(schema);
    ASSERT_EQ(lines.size(), 1u) << schema;
    EXPECT_EQ(lines[0], place + ": " + why + "; left out");
  }
  EXPECT_TRUE(warnings(R"({"items": {"$ref": "x.json"}})", "tools[3].input_schema")[0].starts_with(
      "tools[3].input_schema.items.$ref: "));
  EXPECT_EQ(refusal(R"({"type": "integer", "minimum": 3, "maximum": 2})"), "$: no value fits the schema");
  EXPECT_EQ(refusal(R"({"not": {}})"), "$: no value fits the schema");
  EXPECT_EQ(refusal(R"({"type": "object", "required": ["a"], "properties": {"a": false}})"),
            "$: no value fits the schema");
}

// The line that refuses a schema names what of it costs most.
TEST(SchemaKeywords, OfASchemaThatIsTooLargeTheHeaviestIsNamed) {
  std::string names, words;
  for (int i = 0; i < 40; ++i) names += fmt::format(R"("n{}": {{"type": "integer"}}, )", i);
  for (int i = 0; i < 4000; ++i) words += fmt::format(R"({}"{}{}")", i ? ", " : "", std::string(70, 'w'), i);
  const auto error = [&](const std::string& schema) {
    const auto made =
        automaton_of({FormKind::json_schema, R"({"properties": {)" + names + R"("a": {"items": )" + schema + "}}}"});
    return made ? "" : made.error().message;
  };
  EXPECT_TRUE(error(R"({"pattern": "[ -~]*a[ -~]{30}"})").ends_with("most of it is $.properties.a.items.pattern"))
      << error(R"({"pattern": "[ -~]*a[ -~]{30}"})");
  EXPECT_TRUE(error(R"({"enum": [)" + words + "]}").ends_with("most of it is $.properties.a.items.enum"))
      << error(R"({"enum": [)" + words + "]}");
  const std::string list = R"({"type": "array", "minItems": 90000, "items": {"type": "integer"}})";
  EXPECT_TRUE(error(list).ends_with("most of it is $.properties.a.items.minItems")) << error(list);
  EXPECT_EQ(error(R"({"type": "string"})"), "");
}

// A schema that asks about a member of itself to read itself, and references that lead on and on: each reading is one
// more frame of the stack.
TEST(SchemaKeywords, ReadingsInEachOtherHaveABound) {
  EXPECT_EQ(refusal(R"({"required": ["a"], "properties": {"a": {"$ref": "#"}}, "type": "object",
                        "if": {"required": ["b"]}, "then": {"required": ["c"]}})"),
            "$: no value fits the schema");
  const auto chain = [](int length) {
    std::string schema = R"({"$ref": "#/$defs/0", "$defs": {)";
    for (int i = 0; i < length; ++i) schema += fmt::format(R"("{}": {{"$ref": "#/$defs/{}"}}, )", i, i + 1);
    return schema + fmt::format(R"("{}": {{"type": "null"}}}}}})", length);
  };
  EXPECT_EQ(refusal(chain(90)), "");
  for (const int length : {110, 6000})
    EXPECT_TRUE(refusal(chain(length)).contains("found more than 100 schemas that lead into each other"))
        << refusal(chain(length));
}

// Each of these keywords cost time with the square of its entries, or more: up to a minute for 60 kB.
std::vector<Form> costly_schemas() {
  const auto grown = [](std::string_view begin, std::string_view item, int times, std::string_view end) {
    std::string all(begin);
    for (int i = 0; i < times; ++i) {
      if (i > 0) all += ',';
      for (const char c : item) c == '#' ? all += std::to_string(i) : all += c;
    }
    return all.append(end);
  };
  std::string words;
  for (int i = 0; i < 2000; ++i) words += fmt::format(R"({}"v{}")", i ? "," : "", i);
  std::vector<Form> all;
  for (std::string& schema : std::vector<std::string>{
           grown(R"({"type":"string","allOf":[)", R"({"not":{"pattern":"s[a-z]{#}"}})", 50, "]}"),
           grown(R"({"type":"object","patternProperties":{)", R"("^b#":{"type":"string"})", 2000, "}}"),
           grown(R"({"type":"object","properties":{)",
                 R"("p#":{"type":"string","pattern":"(a|b)*a(a|b){11}","minLength":#})", 800, "}}"),
           grown(R"({"type":"object","properties":{)", R"("p#":{"type":"integer","multipleOf":90#})", 100, "}}"),
           grown(R"({"type":"array","uniqueItems":true,"minItems":3,"maxItems":50,"items":{"enum":[)", R"("e#")", 600,
                 "]}}"),
           grown(R"({"enum":[)" + words + R"(],"anyOf":[)", R"({"minLength":#})", 2000, "]}"),
           grown(R"({"enum":[)" + words + R"(],"allOf":[)", R"({"not":{"const":"w#"}})", 2000, "]}"),
           grown(R"({"allOf":[)", R"({"anyOf":[{"minimum":#},{"minLength":#}]})", 12, "]}"),
           grown(R"({"type":"object","propertyNames":{"allOf":[)", R"({"pattern":"[a-z0-9]#*"})", 1000,
                 R"(]},"properties":{)" + grown("", R"("p#":{})", 1000, "}}"))})
    all.push_back({FormKind::json_schema, std::move(schema), true});
  return all;
}

// The steps that a reading counts are its time, whichever keyword takes them.
TEST(SchemaKeywords, ReadingThatTakesLongIsKnownSoon) {
  const auto known = [](const Form& form) {
    const auto few = check_form(form, nullptr, "$", Budget::kFewSteps);
    EXPECT_TRUE(few) << few.error().message;
    return few && *few;
  };
  for (const Form& form : costly_schemas()) EXPECT_FALSE(known(form)) << form.text.substr(0, 80);
  EXPECT_TRUE(known({FormKind::json_schema, R"({"type": "object", "properties": {"a": {"type": "string"}}})"}));
}

// labels: long
TEST(SchemaKeywords, ReadingHasABoundInTime) {
  for (const Form& form : costly_schemas()) {
    const std::clock_t begin = std::clock();
    static_cast<void>(check_form(form));
    EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 6) << form.text.substr(0, 80);
  }
}

// A length that needs too many states beside a format is tried once, and said at each place.
TEST(SchemaKeywords, SameConstraintsAreLeftOutAtEachPlace) {
  std::string members;
  for (int i = 0; i < 30; ++i)
    members += fmt::format(R"({}"p{}": {{"type": "string", "format": "uri", "maxLength": 255}})", i ? ", " : "", i);
  std::vector<std::string> lines;
  const auto known = check_form({FormKind::json_schema, fmt::format(R"({{"properties": {{{}}}}})", members), true},
                                &lines, "$", 10 * Budget::kFewSteps);
  ASSERT_TRUE(known && *known);
  ASSERT_GE(lines.size(), 20u);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(lines[static_cast<size_t>(i)],
              fmt::format("$.properties.p{}.maxLength: needs more than 20000 states; left out", i));
}

// Alternatives that may match anywhere end in the same states, so that their number does not double the subsets.
TEST(SchemaKeywords, AlternativesAnywhereAreFew) {
  Budget budget;
  const auto read =
      parse_regex("list|date|time|string|enum|int|double|long|boolean|number", budget, Letters::plain, Match::anywhere);
  ASSERT_TRUE(read);
  const auto made = compile(*read, 0, &budget);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_LT(Budget::kMostSteps - budget.steps_left(), 300'000);
  EXPECT_TRUE(made->fits("a string"));
  EXPECT_FALSE(made->fits("a strin"));
}

TEST(SchemaKeywords, ListsOfValuesMayBeLong) {
  std::string words, consts, conditions, names, twos;
  for (int i = 0; i < 9000; ++i) words += fmt::format(R"({}"w{}")", i ? ", " : "", i);
  for (int i = 0; i < 1000; ++i) consts += fmt::format(R"({}{{"const": "c{}", "title": "t"}})", i ? ", " : "", i);
  for (int i = 0; i < 25; ++i) {
    conditions += fmt::format(
        R"({}{{"if": {{"properties": {{"n{}": {{"const": 1}}}}}}, "then": {{"required": ["a"]}}}})", i ? ", " : "", i);
    names += fmt::format(R"("n{}": {{"type": "integer"}}, )", i);
    twos += fmt::format(R"({}"n{}": 2)", i ? ", " : "", i);
  }
  expect_texts(R"({"enum": [)" + words + "]}", {R"("w0")", R"("w8999")"}, {R"("w9000")"});
  expect_texts(R"({"oneOf": [)" + consts + "]}", {R"("c0")", R"("c999")"}, {R"("c1000")"});
  expect_texts(R"({"properties": {)" + names + R"("a": {"type": "null"}}, "allOf": [)" + conditions + "]}",
               {"{" + twos + "}", "{" + twos + R"(, "a": null})"}, {"{}", R"({"n24": 2})"});
  // The same value in two branches fits neither of them alone.
  expect_texts(R"({"oneOf": [{"enum": [1, 2]}, {"enum": [1.0, 3]}]})", {"2", "3"}, {"1", "1.0"});
}

TEST(SchemaKeywords, AreAnnotationsWhereNoDraftHasThem) {
  EXPECT_TRUE(warnings(R"({"type": "object", "id": "x", "links": [], "x-a": 1, "discriminator": {"propertyName": "k"},
      "properties": {"a": {"type": "string", "format": "int32", "readonly": true, "maximum": 3}}})")
                  .empty());
}

// Conditions double the cases. Those that are not followed any more are said; answers are valid all the same.
TEST(SchemaKeywords, ConditionsThatNoAnswerMeetsAreSaid) {
  std::string properties, conditions, depend;
  for (int i = 0; i < 6; ++i) {
    properties += fmt::format(R"({}"k{}": {{"type": "integer"}})", i ? ", " : "", i);
    conditions +=
        fmt::format(R"({}{{"if": {{"properties": {{"k{}": {{"minimum": 0}}}}}}, "then": {{"required": ["a{}"]}}}})",
                    i ? ", " : "", i, i);
    depend += fmt::format(R"({}"k{}": {{"required": ["k0"]}})", i ? ", " : "", i);
  }
  const std::string begin = R"({"type": "object", "properties": {)" + properties + "}, ";
  const std::string tests =
      begin + R"("required": ["k0", "k1", "k2", "k3", "k4", "k5"], "allOf": [)" + conditions + "]}";
  EXPECT_THAT(warnings(tests),
              testing::ElementsAre("$.allOf[3].if: beside others it makes more than 8 cases; no answer fits it",
                                   "$.allOf[4].if: beside others it makes more than 8 cases; no answer fits it",
                                   "$.allOf[5].if: beside others it makes more than 8 cases; no answer fits it"));
  EXPECT_THAT(
      warnings(begin + R"("dependentSchemas": {)" + depend + "}}"),
      testing::ElementsAre("$.dependentSchemas.k5: beside others it makes more than 16 cases; no answer has k5"));
  // The same where a schema has to be followed.
  std::vector<std::string> lines;
  EXPECT_TRUE(check_form({FormKind::json_schema, tests}, &lines, "$"));
  EXPECT_EQ(lines.size(), 3u);
}

// None is made whole, and each is read or refused at once.
TEST(SchemaKeywords, CostLittle) {
  const auto times = [](int count, const std::string& text, const std::string& last) {
    std::string out;
    for (int i = 0; i < count; ++i) out += text + ", ";
    return out + last;
  };
  std::string twice = R"({"type": "integer"})", conditions = R"({"required": ["k"], "allOf": [)";
  for (int i = 0; i < 12; ++i) twice = R"({"allOf": [{"anyOf": [)" + twice + R"(, {"type": "string"}]}, {}]})";
  for (int i = 0; i < 16; ++i)
    conditions +=
        fmt::format(R"({{"if": {{"properties": {{"k": {{"const": {}}}}}}}, "then": {{"required": ["a{}"]}}}}, )", i, i);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_NE(refusal(R"({"anyOf": [)" + times(40'000, R"({"type": "integer"})", "{}") + "]}"), "");
  EXPECT_EQ(refusal(R"({"oneOf": [)" + times(60, R"({"required": ["a"]})", R"({"required": ["b"]})") + "]}"), "");
  EXPECT_EQ(refusal(twice), "");
  EXPECT_EQ(refusal(conditions + R"({}], "properties": {"k": {"type": "integer"}}})"), "");
  EXPECT_NE(refusal(R"({"allOf": [)" +
                    times(12, R"({"anyOf": [{"minLength": 1}, {"maxLength": 3}, {"pattern": "a"}]})", "{}") + "]}"),
            "");
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 20.0);
}

}  // namespace
}  // namespace llada::forms
