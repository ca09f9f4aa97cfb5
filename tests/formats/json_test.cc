// JSON of strangers as a tree: what the library makes of it, in a time that grows as the text does.
#include "formats/json.h"

#include <gtest/gtest.h>

#include <ctime>

namespace llada {
namespace {

using nlohmann::json;

constexpr JsonLimits kLarge{.depth = 16, .values = size_t{1} << 22, .run_bytes = size_t{1} << 26};

TEST(JsonTree, IsWhatTheLibraryReads) {
  for (const char* text :
       {"{}", R"({"a":[]})", R"({"a":[{},{"b":[1,2,[3]],"c":null}],"d":{"e":{"f":"g"}}})",
        R"( { "a" : [ true , false , -1 , 18446744073709551615 , -9223372036854775808 , 1e300 , 0.1 ] } )",
        R"({"\u00e9\ud83d\ude00":"\n\"\\","":{"":""}})", R"({"z":1,"a":2,"m":[{"z":1},{"z":1}]})"}) {
    const auto read = parse_json_object(text, "f");
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(*read, json::parse(text)) << text;
    EXPECT_EQ(read->dump(), json::parse(text).dump()) << text;
  }
}

TEST(JsonTree, WhatIsNoObjectIsRefused) {
  for (const char* text :
       {"", " ", "{", "}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\":1}}", "{\"a\":1} x", "{\"a\":1e999}",
        "{\"a\":01}", "{\"a\":\"\x01\"}", "{\"a\":\"\xff\"}", "{a:1}", "{\"a\":nan}"}) {
    const auto read = parse_json_object(text, "f");
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().message, "f: not valid JSON") << text;
    EXPECT_FALSE(json::accept(text)) << text;
  }
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

// Work is compared with work, in this thread's own time: 16 times the text costs some 16 times as much, and cost 256
// times as much where each object's end looks through all that came before it.
TEST(JsonTree, WorkGrowsAsTheTextDoes) {
  const auto seconds = [](int objects) {
    std::string text = R"({"messages":[{})";
    for (int i = 1; i < objects; ++i) text += ",{}";
    text += "]}";
    double least = 1e9;
    for (int i = 0; i < 3; ++i) {
      const double begin = processor_seconds();
      const auto read = parse_json_object(text, "f", kLarge);
      least = std::min(least, processor_seconds() - begin);
      EXPECT_EQ(read->at("messages").size(), objects);
    }
    return least;
  };
  const double few = seconds(20'000), many = seconds(320'000);
  EXPECT_LT(many / few, 64) << few << " " << many;
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
