// Which fields of a body may stand there unread. How fields are read is tested with json/fields.h.
#include "serve/http/body.h"

#include <gtest/gtest.h>

namespace llada::serve {
namespace {

TEST(Body, ValuesThatChangeNothingPass) {
  struct Case {
    const char *body, *loose, *strict;  // what is refused; empty: nothing
  };
  constexpr Case kCases[] = {
      {R"({"model":"x","user":1,"n_probs":0,"tools":[],"z":null})", "", ""},
      {R"({"unknown":false})", "", "unknown"},
      {R"({"unknown":1})", "unknown", "unknown"},
      {R"({"n_probs":1})", "n_probs", "n_probs"},
      {R"({"skip_special_tokens":false})", "skip_special_tokens", "skip_special_tokens"},  // false asks for something
      {R"({"best_of":1})", "", ""},
      {R"({"best_of":2})", "best_of", "best_of"},
      {R"({"n":2,"best_of":2})", "n", "n"},
      {R"({"functions":[1],"function_call":"none"})", "", ""},
      {R"({"functions":[1]})", "functions", "functions"}};
  for (const Case& c : kCases)
    for (const bool strict : {false, true}) {
      const auto body = read_body(c.body, {}, strict);
      ASSERT_TRUE(body) << c.body;
      const Status done = body->finish();
      EXPECT_EQ(done ? "" : ApiError(done.error()).param, strict ? c.strict : c.loose) << c.body;
    }
  const auto body = read_body(R"({"a\n\"b":1})");
  const ApiError refused = body->finish().error();
  EXPECT_EQ(refused.message, R"(a\x0a"b: this field, or this value of it, is not supported here)");
}

}  // namespace
}  // namespace llada::serve
