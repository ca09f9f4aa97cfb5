// The same options decode alike whatever command has them: run, infill, eval; and prompts without text are refused.
#include "cli/process.h"

namespace llada::test {
namespace {

const char* const kSum = "Mia has 5 apples. Tom has 3 more than Mia. How many apples do Mia and Tom have together?";

const std::string kSumTask =
    Json({{"task", "sum"}, {"prompt", kSum}, {"response", "x"}, {"answer", "x"}}).dump() + '\n';

Json answered(const Words& words, Words options) {
  options.emplace_back("--json");
  return json_of(with(words, options));
}

TEST(SameOptions, EvalDecodesAsRunDoes) {
  const TempFolder folder;
  const std::string tasks = folder.write("tasks.jsonl", kSumTask);
  for (const Words& options : {Words{}, Words{"--kv", "prefix"}, Words{"--threshold", "0.6"}, Words{"--steps", "16"},
                               Words{"--preset-decode", "exact", "--threshold", "0.8"}}) {
    const Json run = answered({"run", "-m", tiny_model(), "-p", kSum}, options);
    const Json eval = answered({"eval", "-m", tiny_model(), "--tasks", tasks}, options);
    const std::string text = fmt::format("one: {}", fmt::join(options, " "));
    const Json compared =
        answered({"eval", "-m", tiny_model(), "--tasks", tasks, "--no-reference", "--compare", text}, {});
    for (const Json* result : {&eval["results"][0], &compared["results"][0]}) {
      EXPECT_EQ((*result)["nfe_mean"], run["stats"]["nfe"].get<double>()) << text;
      EXPECT_EQ((*result)["rows_mean"], run["stats"]["rows"].get<double>()) << text;
      EXPECT_EQ((*result)["tokens_per_forward"], run["stats"]["tokens_per_forward"]) << text;
    }
  }
}

// An answer that goes on behind the length is counted, for people in a line that begins with WARNING.
TEST(SameOptions, CutAnswersAreSaidToBe) {
  const TempFolder folder;
  const std::string tasks = folder.write("tasks.jsonl", kSumTask);
  const Words eval = {"eval", "-m", tiny_model(), "--tasks", tasks, "-n", "8"};
  EXPECT_EQ(answered(eval, {})["results"][0]["cut"], 1);
  const std::string warning = "WARNING: cut at --gen-length 8 before their end: 1 of 1 answer\n";
  EXPECT_THAT(run_llada(eval).out, HasSubstr(warning));
  EXPECT_THAT(run_llada(with(eval, {"--json"})).err, HasSubstr(warning));
  const Words run = {"run", "-m", tiny_model(), "-p", kSum, "-n", "8"};
  EXPECT_EQ(answered(run, {})["finish_reason"], "length");
  EXPECT_TRUE(run_llada(run).err.starts_with("the answer was cut at 8 tokens (--gen-length)\n"));
}

TEST(SameOptions, InfillStartsFromThePresetToo) {
  const Words infill = {"infill", "-m", tiny_model(), "--text",
                        "Ken has 20+6=<mask:2> puzzles. Theo has 26-3=<mask:2> puzzles."};
  const Json plain = answered(infill, {}), named = answered(infill, {"--preset-decode", "balanced"});
  EXPECT_EQ(plain["preset"], "balanced");
  EXPECT_EQ(plain["stats"]["canvas_hash"], named["stats"]["canvas_hash"]);
  EXPECT_EQ(plain["stats"]["nfe"], named["stats"]["nfe"]);
  EXPECT_EQ(answered(infill, {"--preset-decode", "exact"})["stats"]["nfe"], 4);
}

TEST(SameOptions, HelpOptionsExplainsEachInEightyColumns) {
  const std::string help = run_llada({"help", "options"}).out;
  EXPECT_LE(longest_line(help), 80u) << help;
}

}  // namespace
}  // namespace llada::test
