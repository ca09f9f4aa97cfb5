// llada score: texts and task files from the command line, what is refused, and an end by Ctrl-C.

#include "cli/process.h"

namespace llada::test {
namespace {

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
  static Words command(const Words& more) { return with({"score", "-m", tiny_model(), "--threads", "2"}, more); }
  static ProcessResult score(const Words& more) { return done(command(more)); }
  static Json score_json(const Words& more) { return json_of(command(with(more, {"--json"}))); }
  TempFolder folder;
};

TEST_F(ScoreCli, OneIsNotMany) {
  const ProcessResult one = score({"--continuation", "3", "--method", "exact"});
  EXPECT_TRUE(one.out.ends_with("\n1 forward, 1 row\n")) << one.out;
}

TEST_F(ScoreCli, TextsAreScored) {
  const Words texts = {"-p", "Sort: 3 1 2", "--continuation", " 1 2 3", "--continuation", " 3 2 1"};
  const Json json = score_json(with(texts, {"--top", "2"}));
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
  EXPECT_THAT(score(texts).out, HasSubstr("  3 2 1\n"));
  score({"--continuation", "1 2 3", "--method", "duel", "--order", "--threshold 0.9"});
}

// A block-causal model's own block stands where nobody names one.
TEST_F(ScoreCli, DuelDecodesInTheModelsBlocks) {
  const Words words = {"--continuation", " 1 2 3", "--method", "duel", "--attention-block", "16", "--json"};
  EXPECT_EQ(score(with(words, {"--order", "--block-length 16"})).out, score(words).out);
  expect_one_line(run_llada(command(with(words, {"--order", "--block-length 32"}))), 2, "block_length: found 32");
}

TEST_F(ScoreCli, TaskFilesAreAnswered) {
  const std::string tasks = questions(4);
  const Json json = score_json({"--tasks", tasks, "--chat", "--draws", "8", "--out", file("answers.jsonl")});
  EXPECT_EQ(json["method"], "mc");
  const Json arc = json["tasks"]["arc"];
  EXPECT_EQ(arc["n"], 4);
  EXPECT_GE(arc["acc"], 0.75);
  EXPECT_GE(arc["acc_norm"], 0.75);
  EXPECT_EQ(json["interrupted"], false);
  const auto answers = lines_of(folder.read("answers.jsonl"));
  EXPECT_EQ(answers.size(), 4u);
  for (const std::string& line : answers) EXPECT_EQ(Json::parse(line)["answer"], 1);
  // The seed decides which masks are drawn, and nothing else does.
  const auto scores = [&](const std::string& seed) {
    score({"--tasks", tasks, "--draws", "3", "--seed", seed, "--out", file("s.jsonl")});
    return folder.read("s.jsonl");
  };
  EXPECT_EQ(scores("1"), scores("1"));
  EXPECT_NE(scores("1"), scores("2"));
  // Few-shot examples come before the question.
  const auto asked = [&](const Words& more) {
    return score_json(with({"--tasks", tasks, "--draws", "2"}, more))["tasks"]["arc"];
  };
  EXPECT_GT(asked({"--examples", tasks, "--shots", "2"})["rows"], asked({})["rows"]);
  EXPECT_EQ(asked({"--limit", "2"})["n"], 2);
}

TEST_F(ScoreCli, CtrlCKeepsWhatIsThere) {
  LLADA_NEEDS_TERMINAL();
  const std::string tasks = questions(2000);
  const ProcessResult result = run_llada_on_terminal(command({"--tasks", tasks, "--out", file("kept.jsonl")}),
                                                     {.environment = {"TERM=xterm"}, .interrupt_after = "right"});
  EXPECT_EQ(result.status, 130);
  EXPECT_THAT(result.out, HasSubstr("interrupted after "));
  EXPECT_TRUE(fs::exists(file("kept.jsonl")));
}

}  // namespace
}  // namespace llada::test
