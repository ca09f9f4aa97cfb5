// JSON of strangers as a tree: what the library makes of it, in a time that grows as the text does; members in their
// order, numbers with all their digits.
#include <gmock/gmock.h>

#include <ctime>
#include <functional>

#include "json/parse.h"
#include "must.h"

namespace llada {
namespace {

constexpr JsonLimits kLarge{.depth = 16, .values = size_t{1} << 22, .run_bytes = size_t{1} << 26};

TEST(JsonTree, IsWhatTheLibraryReads) {
  for (const char* text :
       {"{}", R"({"a":[]})", R"({"a":[{},{"b":[1,2,[3]],"c":null}],"d":{"e":{"f":"g"}}})",
        R"( { "a" : [ true , false , -1 , 18446744073709551615 , -9223372036854775808 , 1e300 , 0.1 ] } )",
        R"({"\u00e9\ud83d\ude00":"\n\"\\","":{"":""}})", R"({"z":1,"a":2,"m":[{"z":1},{"z":1}]})"}) {
    const auto read = parse_json_object(text, "f");
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(*read, Json::parse(text)) << text;
    EXPECT_EQ(read->dump(), Json::parse(text).dump()) << text;
  }
}

TEST(JsonTree, WhatIsNoObjectIsRefused) {
  for (const char* text :
       {"", " ", "{", "}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\":1}}", "{\"a\":1} x", "{\"a\":1e999}",
        "{\"a\":01}", "{\"a\":\"\x01\"}", "{\"a\":\"\xff\"}", "{a:1}", "{\"a\":nan}"}) {
    EXPECT_THAT(why_not(parse_json_object(text, "f")), testing::StartsWith("f: not valid JSON")) << text;
    EXPECT_FALSE(Json::accept(text)) << text;
  }
  EXPECT_EQ(parse_json_object("{\"a\":1} x", "f").error().message, "f: not valid JSON at byte 9 of 9");
  EXPECT_EQ(parse_json_object("{\"a\":", "f").error().message, "f: not valid JSON: it ends too early, at byte 5");
  for (const char* text : {"[]", "1", "\"a\"", "null"})
    EXPECT_EQ(parse_json_object(text, "f").error().message, "f: the JSON is not an object") << text;
  EXPECT_EQ(parse_json_object(R"({"a":[{"b":1},{"b":1,"c":{},"b":2}]})", "f").error().message,
            "f: field \"b\" appears twice");
}

double processor_seconds() {
  timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// However the tree is moved; what no double holds, and what the library spells otherwise.
TEST(JsonTree, NumbersKeepTheirText) {
  const std::string text =
      R"({"z":[1.10,-0,1e5,-0.0,12345678901234567890123,{"y":0.30,"b":-7,"a":1.5,"c":1e+22,"d":100000.0}],"é":"\"\n","n":null,"t":[true,0]})";
  auto read = must(parse_ordered_object(text, "f"));
  EXPECT_EQ(json_text(read->root, read->numbers), text);
  EXPECT_EQ(read->numbers.size(), 6);
  const Json moved = std::move(read->root["z"]);
  EXPECT_EQ(json_text(moved, read->numbers), text.substr(5, text.find("]") - 4));
  EXPECT_EQ(json_text(Json(moved), read->numbers).find("1.10"), std::string::npos);
  const auto one = must(parse_json_document("2.50", "f"));
  EXPECT_EQ(json_text(one->root, {}), "2.5");
  EXPECT_EQ(parse_ordered_object("[1]", "f").error().message, "f: the JSON is not an object");
}

TEST(JsonTree, DuplicatesAreFoundAmongMany) {
  std::string text = "{";
  for (int i = 0; i < 1000; ++i) text += fmt::format("\"{}\":0,", i);
  for (const char* name : {"0", "500", "999"})
    EXPECT_EQ(parse_ordered_object(fmt::format("{}\"{}\":1}}", text, name), "f").error().message,
              fmt::format("f: field \"{}\" appears twice", name));
  EXPECT_EQ(parse_ordered_object("{\"a\\n\":1,\"a\\n\":2}", "f").error().message, "f: field \"a\\n\" appears twice");
  EXPECT_TRUE(parse_ordered_object(text + "\"x\":1}", "f"));
}

// Work is compared with work, in this thread's own time: 8 times the text costs some 8 times as much, and cost 64
// times as much where each object's end looks through all that came before it.
TEST(JsonTree, WorkGrowsAsTheTextDoes) {
  const auto list = [](const char* begin, const char* end, const char* item) {
    return [=](int count) {
      std::string text = begin;
      for (int i = 0; i < count; ++i) text += fmt::format("{}{}", i > 0 ? "," : "", fmt::format(fmt::runtime(item), i));
      return text + end;
    };
  };
  const std::function<std::string(int)> kinds[] = {
      list("{\"a\":[", "]}", "{{}}"), list("{\"a\":[", "]}", "{{\"type\":\"integer\"}}"), list("{", "}", "\"p{}\":[]"),
      list("{\"a\":{", "}}", "\"p{}\":{{\"b\":{{\"c\":1.10}}}}"), list("{\"a\":[", "]}", "1.10")};
  for (const auto& text_of : kinds) {
    using Read = bool (*)(std::string_view text);
    const auto seconds = [&](int count, Read read) {
      const std::string text = text_of(count);
      double least = 1e9;
      for (int i = 0; i < 3; ++i) {
        const double begin = processor_seconds();
        EXPECT_TRUE(read(text));
        least = std::min(least, processor_seconds() - begin);
      }
      return least;
    };
    constexpr Read kReaders[] = {
        [](std::string_view text) { return parse_ordered_object(text, "f", kLarge).has_value(); },
        [](std::string_view text) { return parse_json_object(text, "f", kLarge).has_value(); }};
    for (const Read read : kReaders) {
      const double few = seconds(5'000, read), many = seconds(40'000, read);
      EXPECT_LT(many / few, 28) << text_of(2) << " " << few << " " << many;
    }
  }
}

TEST(JsonTree, AWatchEndsIt) {
  std::string text = R"({"a":[0)";
  for (size_t i = 1; i < 10 * kJsonWatch; ++i) text += ",0";
  text += "]}";
  int asked = 0;
  EXPECT_TRUE(parse_json_object(text, "f", kLarge, [&]() -> Status { return ++asked, Status(); }));
  EXPECT_EQ(asked, 10);
  asked = 0;
  const auto ended = parse_json_object(text, "f", kLarge, [&]() -> Status {
    if (++asked == 3) return failed("enough");
    return {};
  });
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().message, "enough");
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace llada
