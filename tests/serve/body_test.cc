// A schema in a body is read in the order in which it was sent, in time that grows with the body alone.
#include "serve/body.h"

#include <gtest/gtest.h>

#include <string>

namespace llada::serve {
namespace {

const std::vector<std::string> kPath = {"response_format", "json_schema", "schema"};

std::string keys(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
  return out;
}

std::string body_with(const std::string& schema, const std::string& beside = "") {
  return R"({"a": {"json_schema": {"schema": [1]}}, )" + beside + R"("response_format": {"b": [{"schema": 2}, {}],
      "json_schema": {"name": "x", "schema": {)" +
         schema + R"(}, "strict": true}, "type": "json_schema"}, "model": "m"})";
}

TEST(Body, GivesWhatIsAtAPathInItsOrder) {
  const auto order = Body::parse(body_with(R"("z": 1, "schema": {"y": [{"c": 1, "b": 2}]}, "a": 2)"))->in_order(kPath);
  ASSERT_TRUE(order && *order);
  EXPECT_EQ((*order)->dump(), R"({"z":1,"schema":{"y":[{"c":1,"b":2}]},"a":2})");
  const auto none = Body::parse(R"({"x": {"json_schema": {"schema": {}}}, "response_format": {"schema": {}}})");
  const auto missing = none->in_order(kPath);
  ASSERT_TRUE(missing.has_value());
  EXPECT_FALSE(missing->has_value());
}

// An ordered object compares each key with all before it.
TEST(Body, ManyKeysBesideTheSchemaCostNothing) {
  const std::string many = keys(30'000);
  const auto beside = Body::parse(body_with(R"("z": 1)", "\"metadata\": {" + many + "}, " + many + ", "));
  const auto order = beside->in_order(kPath);
  ASSERT_TRUE(order && *order);
  EXPECT_EQ((*order)->dump(), R"({"z":1})");
  const auto inside = Body::parse(body_with(many))->in_order(kPath);
  ASSERT_FALSE(inside.has_value());
  EXPECT_EQ(inside.error().message, "response_format.json_schema.schema: found more than 5000 keys");
}

}  // namespace
}  // namespace llada::serve
