// A file with a few damaged weights: every command that predicts ends with the one line and status 1, and prints no
// text.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cli/process.h"

namespace llada::cli::damaged_file {
namespace {

using test::run_llada;

TEST(DamagedWeights, AreAnErrorOfEveryCommandThatPredicts) {
  const auto path = std::filesystem::temp_directory_path() / ("llada_damaged_" + std::to_string(::getpid()) + ".gguf");
  const std::string model = path.string();
  ASSERT_EQ(run_llada({"convert", test::tiny_model(), model, "--type", "f16"}).status, 0);
  {
    std::fstream file(model, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-64, std::ios::end);  // the head's last numbers: NaN
    file << std::string(64, '\xff');
  }
  const std::string tasks = LLADA_SOURCE_DIR "/eval/eval_public.jsonl";
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"run", "-m", model, "-p", "3+4", "--gen-length", "16"},
        {"run", "-m", model, "-p", "3+4", "--gen-length", "16", "--temperature", "0.7", "--cfg-scale", "1", "--json"},
        {"infill", "-m", model, "--text", "3+4=<mask:2>"},
        {"eval", "-m", model, "--tasks", tasks, "--limit", "1", "--no-reference", "--compare", "a: --gen-length 16"}}) {
    const auto result = run_llada(command);
    EXPECT_EQ(result.status, 1) << command[0];
    if (command.back() == "--json")
      EXPECT_EQ(result.out, "{\"text\":\"\",\"tokens\":[],\"finish_reason\":\"failed\"}\n");
    else
      EXPECT_EQ(result.out, "") << command[0];
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(" are not finite; the weights or the activations are damaged\n"), std::string::npos)
        << result.err;
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace llada::cli::damaged_file
