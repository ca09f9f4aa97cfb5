// The same options decode alike whatever command has them: run, infill, eval; and prompts without text are refused.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "formats/temp_folder.h"

namespace llada::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

const char* const kSum = "Mia has 5 apples. Tom has 3 more than Mia. How many apples do Mia and Tom have together?";

Json json_of(Words words, const Words& options) {
  words.insert(words.end(), options.begin(), options.end());
  words.emplace_back("--json");
  const ProcessResult result = run_llada(words);
  EXPECT_EQ(result.status, 0) << result.err;
  return result.status == 0 ? Json::parse(result.out) : Json();
}

TEST(SameOptions, EvalDecodesAsRunDoes) {
  const TempFolder folder;
  const std::string tasks = folder / "tasks.jsonl";
  std::ofstream(tasks) << Json({{"task", "sum"}, {"prompt", kSum}, {"response", "x"}, {"answer", "x"}}).dump() << "\n";
  for (const Words& options : {Words{}, Words{"--kv", "prefix"}, Words{"--threshold", "0.6"}, Words{"--steps", "16"},
                               Words{"--preset-decode", "exact", "--threshold", "0.8"}}) {
    const Json run = json_of({"run", "-m", tiny_model(), "-p", kSum}, options);
    const Json eval = json_of({"eval", "-m", tiny_model(), "--tasks", tasks}, options);
    std::string text = "one:";
    for (const std::string& word : options) text += " " + word;
    const Json compared =
        json_of({"eval", "-m", tiny_model(), "--tasks", tasks, "--no-reference", "--compare", text}, {});
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
  const std::string tasks = folder / "tasks.jsonl";
  std::ofstream(tasks) << Json({{"task", "sum"}, {"prompt", kSum}, {"response", "x"}, {"answer", "x"}}).dump() << "\n";
  const Words eval = {"eval", "-m", tiny_model(), "--tasks", tasks, "-n", "8"};
  EXPECT_EQ(json_of(eval, {})["results"][0]["cut"], 1);
  const std::string warning = "WARNING: cut at --gen-length 8 before their end: 1 of 1 answer\n";
  EXPECT_NE(run_llada(eval).out.find(warning), std::string::npos);
  Words with_json = eval;
  with_json.emplace_back("--json");
  EXPECT_NE(run_llada(with_json).err.find(warning), std::string::npos);
  const Words run = {"run", "-m", tiny_model(), "-p", kSum, "-n", "8"};
  EXPECT_EQ(json_of(run, {})["finish_reason"], "length");
  EXPECT_TRUE(run_llada(run).err.starts_with("the answer was cut at 8 tokens (--gen-length)\n"));
}

TEST(SameOptions, InfillStartsFromThePresetToo) {
  const Words infill = {"infill", "-m", tiny_model(), "--text",
                        "Ken has 20+6=<mask:2> puzzles. Theo has 26-3=<mask:2> puzzles."};
  const Json plain = json_of(infill, {}), named = json_of(infill, {"--preset-decode", "balanced"});
  EXPECT_EQ(plain["preset"], "balanced");
  EXPECT_EQ(plain["stats"]["canvas_hash"], named["stats"]["canvas_hash"]);
  EXPECT_EQ(plain["stats"]["nfe"], named["stats"]["nfe"]);
  EXPECT_EQ(json_of(infill, {"--preset-decode", "exact"})["stats"]["nfe"], 4);
}

TEST(SameOptions, PromptsWithoutTextAreRefused) {
  for (const Words& more :
       {Words{"-p", ""}, Words{"-p", " \n"}, Words{"-p", "", "--raw"}, Words{"-p", "", "--system", "Be brief."}}) {
    Words words = {"run", "-m", tiny_model()};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = run_llada(words);
    EXPECT_EQ(result.status, 2) << result.out;
    EXPECT_TRUE(result.err.starts_with("llada run: no prompt: found nothing")) << result.err;
  }
}

TEST(SameOptions, HelpOptionsExplainsEachInEightyColumns) {
  const std::string help = run_llada({"help", "options"}).out;
  for (const char* part : {"\n  --slide\n      the block begins at the first mask and moves with it",
                           "default preset: dual\n", "default drawn\n", "; default auto\n"})
    EXPECT_NE(help.find(part), std::string::npos) << part;
  for (size_t at = 0; at < help.size();) {
    const size_t end = help.find('\n', at);
    EXPECT_LE(end - at, 80u) << help.substr(at, end - at);
    at = end + 1;
  }
  const std::string run = run_llada({"run", "--help-all"}).out;
  for (const char* part : {"(preset:\n", "(drawn)", "(balanced)"}) EXPECT_NE(run.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace llada::test
