// llada score: texts and task files from the command line, what is refused, and an end by Ctrl-C.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "formats/temp_folder.h"

namespace llada::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

class ScoreCli : public ::testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder / name; }
  // `count` questions in ARC's shape about sorting, of which the model knows the answers.
  std::string questions(int count) const {
    std::ofstream out(file("arc.jsonl"));
    for (int i = 0; i < count; ++i)
      out << fmt::format(
          R"({{"question":"Sort the numbers from smallest to largest: {0} 4 2","choices":{{"text":["4 {0} 2","2 4 {0}"],"label":["A","B"]}},"answerKey":"B"}})"
          "\n",
          5 + i % 40);
    return file("arc.jsonl");
  }
  static ProcessResult score(Words words) {
    words.insert(words.begin(), {"score", "-m", tiny_model(), "--threads", "2"});
    return run_llada(words);
  }
  TempFolder folder;
};

TEST_F(ScoreCli, OneIsNotMany) {
  const ProcessResult one = score({"--continuation", "3", "--method", "exact"});
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_TRUE(one.out.ends_with("\n1 forward, 1 row\n")) << one.out;
}

TEST_F(ScoreCli, TextsAreScored) {
  const Words texts = {"-p", "Sort: 3 1 2", "--continuation", " 1 2 3", "--continuation", " 3 2 1"};
  Words words = texts;
  words.insert(words.end(), {"--json", "--top", "2"});
  const ProcessResult result = score(words);
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["method"], "chain");
  ASSERT_EQ(json["continuations"].size(), 2u);
  for (const Json& text : json["continuations"]) {
    double sum = 0;
    std::string spelled;
    for (const Json& token : text["tokens"]) {
      sum += token["log_probability"].get<double>();
      spelled += token["text"];
      EXPECT_EQ(token["top"].size(), 2u);
      EXPECT_GE(token["top"][0]["log_probability"], token["log_probability"]);
    }
    EXPECT_DOUBLE_EQ(sum, text["log_probability"]);
    EXPECT_EQ(spelled, text["text"]);
  }
  const ProcessResult table = score(texts);
  EXPECT_EQ(table.status, 0);
  EXPECT_NE(table.out.find("  3 2 1\n"), std::string::npos) << table.out;
  const ProcessResult other = score({"--continuation", "1 2 3", "--method", "duel", "--order", "--threshold 0.9"});
  EXPECT_EQ(other.status, 0) << other.err;
}

// A block-causal model's own block stands where nobody names one.
TEST_F(ScoreCli, DuelDecodesInTheModelsBlocks) {
  Words words = {"--continuation", " 1 2 3", "--method", "duel", "--attention-block", "16", "--json"};
  const ProcessResult own = score(words);
  ASSERT_EQ(own.status, 0) << own.err;
  words.insert(words.end(), {"--order", "--block-length 16"});
  EXPECT_EQ(score(words).out, own.out);
  words.back() = "--block-length 32";
  const ProcessResult other = score(words);
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.err.find("block_length: found 32"), std::string::npos) << other.err;
}

TEST_F(ScoreCli, TaskFilesAreAnswered) {
  const std::string tasks = questions(4);
  const ProcessResult result =
      score({"--tasks", tasks, "--chat", "--draws", "8", "--json", "--out", file("answers.jsonl")});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["method"], "mc");
  const Json arc = json["tasks"]["arc"];
  EXPECT_EQ(arc["n"], 4);
  EXPECT_GE(arc["acc"], 0.75);
  EXPECT_GE(arc["acc_norm"], 0.75);
  EXPECT_EQ(json["interrupted"], false);
  std::ifstream answers(file("answers.jsonl"));
  int lines = 0;
  for (std::string line; std::getline(answers, line); ++lines) EXPECT_EQ(Json::parse(line)["answer"], 1);
  EXPECT_EQ(lines, 4);
  // The seed decides which masks are drawn, and nothing else does.
  const auto scores = [&](const std::string& seed) {
    EXPECT_EQ(score({"--tasks", tasks, "--draws", "3", "--seed", seed, "--out", file("s.jsonl")}).status, 0);
    std::ifstream in(file("s.jsonl"));
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_EQ(scores("1"), scores("1"));
  EXPECT_NE(scores("1"), scores("2"));
  // Few-shot examples come before the question.
  EXPECT_GT(Json::parse(score({"--tasks", tasks, "--examples", tasks, "--shots", "2", "--draws", "2", "--json"})
                            .out)["tasks"]["arc"]["rows"],
            Json::parse(score({"--tasks", tasks, "--draws", "2", "--json"}).out)["tasks"]["arc"]["rows"]);
  EXPECT_EQ(Json::parse(score({"--tasks", tasks, "--limit", "2", "--draws", "2", "--json"}).out)["tasks"]["arc"]["n"],
            2);
}

TEST_F(ScoreCli, CtrlCKeepsWhatIsThere) {
  LLADA_NEEDS_TERMINAL();
  const std::string tasks = questions(2000);
  TerminalInput input;
  input.environment = {"TERM=xterm"};
  input.interrupt_after = "right";
  const ProcessResult result = run_llada_on_terminal(
      {"score", "-m", tiny_model(), "--tasks", tasks, "--threads", "2", "--out", file("kept.jsonl")}, input);
  EXPECT_EQ(result.status, 130);
  EXPECT_NE(result.out.find("interrupted after "), std::string::npos) << result.out;
  EXPECT_TRUE(fs::exists(file("kept.jsonl")));
}

}  // namespace
}  // namespace llada::test
