// Members of an object by name and type: one table of what is read and what is refused, with its line.
#include "json/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "json/lines.h"

namespace llada {
namespace {

constexpr JsonLimits kManyFields{.depth = 16, .values = size_t{1} << 22, .run_bytes = size_t{1} << 26};

template <class T>
std::string text_of(const Result<T>& read) {
  if (!read) return fmt::format("{} | {}", read.error().message, read.error().field());
  if constexpr (requires { read->has_value(); })
    return read->has_value() ? fmt::format("{}", **read) : "none";
  else if constexpr (std::is_same_v<T, Fields>)
    return read->all().dump();
  else if constexpr (std::is_same_v<T, std::vector<Fields>>)
    return fmt::format("{} objects", read->size());
  else
    return fmt::format("{}", *read);
}
std::string text_of(const Status& status) {
  return status ? "good" : text_of(Result<int>(std::unexpected(status.error())));
}

TEST(Fields, EachTypeIsReadOrRefusedInOneLine) {
  struct Case {
    std::string value;  // of the member v
    std::function<std::string(const Fields&)> read;
    std::string needed;  // of the error behind "needed"; or else what is read
    bool good = false;
  };
  const auto integer = [](const Fields& f) { return text_of(f.integer("v", -3, 10)); };
  const auto optional_integer = [](const Fields& f) { return text_of(f.optional_integer("v", -3, 10)); };
  const auto real = [](const Fields& f) { return text_of(f.real("v", -0.5, 1e3)); };
  const auto boolean = [](const Fields& f) { return text_of(f.boolean("v")); };
  const auto text = [](const Fields& f) { return text_of(f.text("v")); };
  const auto texts = [](const Fields& f) { return text_of(f.texts("v")); };
  const auto integers = [](const Fields& f) { return text_of(f.integers("v", 0, 9)); };
  const auto reals = [](const Fields& f) { return text_of(f.reals("v", 0, 9)); };
  const auto object = [](const Fields& f) { return text_of(f.object("v")); };
  const auto objects = [](const Fields& f) { return text_of(f.objects("v")); };
  const auto pairs = [](const Fields& f) {
    return text_of(f.tuples("v", 2, [&](const Json& pair) -> Status {
      if (pair[0] > pair[1]) return f.wrong("v", pair, "rising pairs");
      return {};
    }));
  };
  const std::string whole = "a whole number from -3 to 10", real_range = "a number from -0.5 to 1000",
                    digit = "a whole number from 0 to 9";
  const Case cases[] = {
      {"7", integer, "7", true},
      {"-3", integer, "-3", true},
      {"7.0", integer, "7", true},
      {"1e1", integer, "10", true},
      {"7.5", integer, whole},
      {"-4", integer, whole},
      {"11", integer, whole},
      {"18446744073709551615", integer, whole},
      {"1e300", integer, whole},
      {"\"7\"", integer, whole},
      {"true", integer, whole},
      {"7", optional_integer, "7", true},
      {"null", optional_integer, "none", true},
      {"11", optional_integer, whole},
      {"1", real, "1", true},
      {"999.5", real, "999.5", true},
      {"-1", real, real_range},
      {"1e4", real, real_range},
      {"\"1\"", real, real_range},
      {"true", boolean, "true", true},
      {"0", boolean, "true or false"},
      {"\"a\"", text, "a", true},
      {"3", text, "a string"},
      {"[]", text, "a string"},
      {"\"a\"", texts, "[\"a\"]", true},
      {"[\"a\",\"b\"]", texts, "[\"a\", \"b\"]", true},
      {"null", texts, "[]", true},
      {"[1]", texts, "a string or a list of strings"},
      {"[0,9.0]", integers, "[0, 9]", true},
      {"3", integers, "a list"},
      {"[0.5,2]", reals, "[0.5, 2]", true},
      {"{\"a\":1}", object, "{\"a\":1}", true},
      {"[]", object, "an object"},
      {"[{},{}]", objects, "2 objects", true},
      {"{}", objects, "a list"},
      {"[[1,2],[3,4]]", pairs, "good", true},
  };
  for (const Case& c : cases) {
    const auto fields = Fields::parse("{\"v\":" + c.value + "}", "f:3");
    ASSERT_TRUE(fields) << c.value;
    const std::string refused = fmt::format("f:3: v: found {}, needed {} | v", Json::parse(c.value).dump(), c.needed);
    EXPECT_EQ(c.read(*fields), c.good ? c.needed : refused) << c.value;
    // Left out it is missing, but where that is a value.
    const auto empty = Fields::parse("{}", "f");
    const std::string missing = c.read(*empty);
    if (missing != "none" && missing != "[]") {
      EXPECT_THAT(missing, testing::StartsWith("f: v: is missing; needed ")) << c.value;
    }
    EXPECT_EQ(c.read(*Fields::parse("{\"v\":null}", "f")), missing);
  }
  const auto inner = Fields::parse(R"({"v":[1,-1,[2,1],{"a":[{"b":3}]},[1]]})", "f");
  EXPECT_EQ(text_of(inner->integers("v", 0, 9)), "f: v: found -1, needed a whole number from 0 to 9 | v");
  EXPECT_EQ(text_of(inner->objects("v")), "f: v[0]: found 1, needed an object | v[0]");
  EXPECT_EQ(pairs(*Fields::parse("{\"v\":[[1,2],[2,1]]}", "f")), "f: v: found [2,1], needed rising pairs | v");
  EXPECT_EQ(pairs(*Fields::parse("{\"v\":[[1]]}", "f")), "f: v: found [1], needed lists of 2 | v");
}

TEST(Fields, ErrorsHaveThePathFromTheRoot) {
  const auto root = Fields::parse(R"({"tools":[{},{"function":{"name":3,"n":{"m":[]}}}],"a":"b"})", "f");
  const auto tools = root->objects("tools");
  const auto function = (*tools)[1].object("function");
  EXPECT_EQ(text_of(function->text("name")),
            "f: tools[1].function.name: found 3, needed a string | tools[1].function.name");
  EXPECT_EQ(text_of(function->object("n")->text("x")),
            "f: tools[1].function.n.x: is missing; needed a string | tools[1].function.n.x");
  EXPECT_EQ(text_of(function->finish()), "good");
  EXPECT_EQ(text_of((*tools)[1].object("function")->finish()),
            "f: tools[1].function.name: is not known here | tools[1].function.name");
  EXPECT_EQ(text_of(Fields::of(3, "", "input[2]")), "input[2]: found 3, needed an object | input[2]");
  // Without a source, as requests are read.
  EXPECT_EQ(text_of(Fields(root->all()).integer("a", 0, 1)), "a: found \"b\", needed a whole number from 0 to 1 | a");
  EXPECT_EQ(shown(std::string(100, 'x')), "\"" + std::string(56, 'x') + "...");
}

TEST(Fields, WhatNobodyReadIsRefused) {
  auto fields = *Fields::parse(R"({"a":1,"b":null,"c":2,"d":3})", "f");
  EXPECT_EQ(text_of(fields.finish()), "f: a: is not known here | a");
  EXPECT_EQ(fields.find("a")->dump(), "1");
  EXPECT_EQ(fields.look("c")->dump(), "2");  // does not count
  EXPECT_EQ(text_of(fields.finish()), "f: c: is not known here | c");
  fields.ignore({"c", "x"});
  EXPECT_EQ(fields.find("c"), nullptr);
  fields.put("d", 4);
  fields.put("e", 5);
  EXPECT_EQ(text_of(fields.integer("d", 0, 9)), "4");
  EXPECT_EQ(text_of(fields.integer("e", 0, 9)), "5");
  EXPECT_EQ(text_of(fields.finish()), "good");
  auto lenient = *Fields::parse(R"({"a\n":0,"b":1})", "f");
  EXPECT_EQ(text_of(lenient.finish()), "f: a\\x0a: is not known here | a\\x0a");
  lenient.object_by([](const Fields& all, const std::string& name, const Json& value) -> std::string {
    return value == 0 ? "" : fmt::format("{} of {} is too much", name, all.all().size());
  });
  EXPECT_EQ(text_of(lenient.finish()), "f: b: b of 2 is too much | b");
}

TEST(Fields, AMemberMayHaveSeveralNames) {
  const auto fields = *Fields::parse(R"({"old":3,"new":null})", "f");
  EXPECT_EQ(text_of(fields.integer({"new", "old"}, 0, 9)), "3");
  EXPECT_EQ(text_of(fields.text({"new", "old"})), "f: old: found 3, needed a string | old");
  EXPECT_EQ(text_of(fields.text({"x", "y"})), "f: x or y: is missing; needed a string | x or y");
  EXPECT_EQ(text_of(fields.text("x", "z")), "z");
  EXPECT_EQ(text_of(fields.finish()), "good");
}

TEST(Fields, AFileSaysWhatItIs) {
  const auto head = [](const char* text) { return text_of(Fields::parse(text, "f")->head("llada-x", 2)); };
  EXPECT_EQ(head(R"({"format":"llada-x","version":2})"), "good");
  EXPECT_EQ(head(R"({"format":"y","version":2})"), "f: format: found \"y\", needed llada-x | format");
  EXPECT_EQ(head(R"({"format":"llada-x","version":3})"),
            "f: version: found 3, needed a whole number from 2 to 2 | version");
  const auto fields = *Fields::parse(R"({"model":"a"})", "f");
  EXPECT_EQ(text_of(fields.same("model", "b", "made", "this run")),
            "f: made with model 'a', this run has 'b'; name another file | ");
  std::string seen;
  const auto visit = [&](std::string_view line, const std::string& where) -> Status {
    seen += fmt::format("{}={} ", where, line);
    return {};
  };
  ASSERT_TRUE(for_each_json_line("{}\n \n\n[1]", "f", visit));
  EXPECT_EQ(seen, "f:1={} f:4=[1] ");
  EXPECT_EQ(json_line("\xff"), "\"\xEF\xBF\xBD\"\n");
}

// Among many members too, and wherever the fields move.
TEST(Fields, InsideItEverythingStandsAsItWasSent) {
  const std::string schema = R"({"z":1.10,"schema":{"y":[{"c":-0,"b":2}]},"a":12345678901234567890123})";
  std::string many;
  for (int i = 0; i < 30'000; ++i) many += fmt::format("\"{}\":1,", i);
  auto body =
      Fields::parse("{" + many + R"("json\u005fschema" : { "schema" : )" + schema + "},\"n\":1.50}", "f", kManyFields);
  ASSERT_TRUE(body);
  EXPECT_EQ(body->text_of(body->find("json_schema")->at("schema")), schema);
  EXPECT_EQ(body->text_of(*body->find("n")), "1.50");
  const Fields moved = std::move(*body);
  EXPECT_EQ(moved.text_of(moved.look("json_schema")->at("schema")), schema);
  EXPECT_EQ(moved.object("json_schema")->text_of(moved.look("json_schema")->at("schema")), schema);
  EXPECT_EQ(moved.look("29999")->dump(), "1");
  EXPECT_EQ(moved.look("30000"), nullptr);
  EXPECT_EQ(moved.all().size(), 30'002);
}

}  // namespace
}  // namespace llada
