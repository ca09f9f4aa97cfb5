// The fields of a body, of which those inside keep their order and numbers their digits, whatever stands beside them.
#include "serve/body.h"

#include <gtest/gtest.h>

#include <string>

namespace llada::serve {
namespace {

TEST(Body, InsideItEverythingStandsAsItWasSent) {
  const std::string schema = R"({"z":1.10,"schema":{"y":[{"c":-0,"b":2}]},"a":12345678901234567890123})";
  std::string many;
  for (int i = 0; i < 30'000; ++i) many += fmt::format("\"{}\":1,", i);
  auto body = Body::parse("{" + many + R"("json\u005fschema" : { "schema" : )" + schema + "}}");
  ASSERT_TRUE(body);
  const Json* found = body->find("json_schema");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(body->text_of(found->at("schema")), schema);
  const Body moved = std::move(*body);
  EXPECT_EQ(moved.text_of(moved.look("json_schema")->at("schema")), schema);
  EXPECT_EQ(moved.look("29999")->dump(), "1");
  EXPECT_EQ(moved.look("30000"), nullptr);
  EXPECT_EQ(moved.all().size(), 30'001);
}

}  // namespace
}  // namespace llada::serve
