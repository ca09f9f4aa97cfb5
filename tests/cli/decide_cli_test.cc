// llada decide and llada eval --decide: questions by flags and by a request, temperatures, what is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "formats/temp_folder.h"

namespace llada::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class DecideCli : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name) << text;
    return folder / name;
  }
  static ProcessResult decide(Words words) {
    words.insert(words.begin(), {"decide", "-m", tiny_model(), "--threads", "2"});
    return run_llada(words);
  }
  TempFolder folder;
};

const std::string kBody = R"({"input": "Jane is 52 years old.", "questions": [
  {"type": "predicate", "instructions": "Is Jane old?"},
  {"type": "choice", "instructions": "Who?", "choices": [{"value": "Jane"}, {"value": "Paul"}]}]})";

TEST_F(DecideCli, AQuestionByFlagsIsTheSameAsByARequest) {
  const auto flags = decide({"-p", "Jane is 52 years old.", "--question", "Who?", "--choice", "Jane|Paul", "--json"});
  ASSERT_EQ(flags.status, 0) << flags.err;
  const auto request = decide({"--request", file("body.json", kBody), "--json"});
  ASSERT_EQ(request.status, 0) << request.err;
  const Json by_flags = Json::parse(flags.out), by_request = Json::parse(request.out);
  EXPECT_EQ(by_flags["answers"][0]["probabilities"], by_request["answers"][1]["probabilities"]);
  EXPECT_EQ(by_request["answers"][0]["type"], "predicate");
  const auto table = decide({"-p", "Jane is 52 years old.", "--question", "Who?", "--choice", "Jane|Paul"});
  EXPECT_TRUE(table.out.starts_with("Who?\n  0.")) << table.out;
  EXPECT_NE(table.out.find("confidence"), std::string::npos) << table.out;
}

TEST_F(DecideCli, TemperaturesAreFittedAndUsed) {
  std::string rows;
  for (int i = 0; i < 12; ++i)
    rows += fmt::format(R"({{"task": "bool", "prompt": "Is {} more than 5?", "answer": "{}"}})"
                        "\n",
                        i, i > 5 ? "yes" : "no");
  const std::string tasks = file("tasks.jsonl", rows), kept = folder / "kept.json";
  const auto fitted = decide({"--calibrate", tasks, "--out", kept, "--json"});
  ASSERT_EQ(fitted.status, 0) << fitted.err;
  const Json shown = Json::parse(fitted.out);
  EXPECT_EQ(shown["fitted"], 6);
  EXPECT_EQ(shown["before"]["bool"]["n"], 6);
  EXPECT_EQ(shown["temperatures"]["choice"], 1);
  const Words asked = {"--question", "Is 9 more than 5?", "--json"};
  Words with = asked;
  with.insert(with.end(), {"--calibration", kept});
  const auto odds = [](const ProcessResult& result) {
    const double p = Json::parse(result.out)["answers"][0]["probability"].get<double>();
    return std::log(p / (1 - p));
  };
  EXPECT_NEAR(odds(decide(with)) * shown["temperatures"]["predicate"].get<double>(), odds(decide(asked)), 1e-6);
  const auto eval = run_llada({"eval", "-m", tiny_model(), "--tasks", tasks, "--decide", "--json"});
  ASSERT_EQ(eval.status, 0) << eval.err;
  EXPECT_EQ(Json::parse(eval.out)["tasks"]["bool"]["n"], 12);
  EXPECT_EQ(run_llada({"eval", "-m", tiny_model(), "--tasks", tasks, "--decide", "--raw"}).status, 2);
}

}  // namespace
}  // namespace llada::test
