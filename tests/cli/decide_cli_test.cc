// llada decide and llada eval --decide: questions by flags and by a request, temperatures, what is refused.
#include <cmath>

#include "cli/process.h"

namespace llada::test {
namespace {

class DecideCli : public ::testing::Test {
 protected:
  static Json decide(const Words& more) {
    return json_of(with({"decide", "-m", tiny_model(), "--threads", "2", "--json"}, more));
  }
  TempFolder folder;
};

const std::string kBody = R"({"input": "Jane is 52 years old.", "questions": [
  {"type": "predicate", "instructions": "Is Jane old?"},
  {"type": "choice", "instructions": "Who?", "choices": [{"value": "Jane"}, {"value": "Paul"}]}]})";

TEST_F(DecideCli, AQuestionByFlagsIsTheSameAsByARequest) {
  const Words asked = {"-p", "Jane is 52 years old.", "--question", "Who?", "--choice", "Jane|Paul"};
  const Json by_flags = decide(asked), by_request = decide({"--request", folder.write("body.json", kBody)});
  EXPECT_EQ(by_flags["answers"][0]["probabilities"], by_request["answers"][1]["probabilities"]);
  EXPECT_EQ(by_request["answers"][0]["type"], "predicate");
  const auto table = done(with({"decide", "-m", tiny_model()}, asked));
  EXPECT_TRUE(table.out.starts_with("Who?\n  0.")) << table.out;
  EXPECT_THAT(table.out, HasSubstr("confidence"));
}

TEST_F(DecideCli, TemperaturesAreFittedAndUsed) {
  std::string rows;
  for (int i = 0; i < 12; ++i)
    rows += fmt::format(R"({{"task": "bool", "prompt": "Is {} more than 5?", "answer": "{}"}})"
                        "\n",
                        i, i > 5 ? "yes" : "no");
  const std::string tasks = folder.write("tasks.jsonl", rows), kept = folder / "kept.json";
  const Json shown = decide({"--calibrate", tasks, "--out", kept});
  EXPECT_EQ(shown["fitted"], 6);
  EXPECT_EQ(shown["before"]["bool"]["n"], 6);
  EXPECT_EQ(shown["temperatures"]["choice"], 1);
  const auto odds = [](const Words& more) {
    const double p = decide(with({"--question", "Is 9 more than 5?"}, more))["answers"][0]["probability"].get<double>();
    return std::log(p / (1 - p));
  };
  EXPECT_NEAR(odds({"--calibration", kept}) * shown["temperatures"]["predicate"].get<double>(), odds({}), 1e-6);
  EXPECT_EQ(json_of({"eval", "-m", tiny_model(), "--tasks", tasks, "--decide", "--json"})["tasks"]["bool"]["n"], 12);
  EXPECT_EQ(run_llada({"eval", "-m", tiny_model(), "--tasks", tasks, "--decide", "--raw"}).status, 2);
}

}  // namespace
}  // namespace llada::test
