// A file with a few damaged weights: every command that predicts ends with the one line and status 1, and prints no
// text.
#include "cli/process.h"

namespace llada::cli::damaged_file {
namespace {

using namespace test;

TEST(DamagedWeights, AreAnErrorOfEveryCommandThatPredicts) {
  const TempFolder folder;
  const std::string model = folder / "damaged.gguf";
  done({"convert", tiny_model(), model, "--type", "f16"});
  {
    std::fstream file(model, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-64, std::ios::end);  // the head's last numbers: NaN
    file << std::string(64, '\xff');
  }
  const std::string tasks = LLADA_SOURCE_DIR "/eval/eval_public.jsonl";
  for (const Words& command :
       {Words{"run", "-m", model, "-p", "3+4", "--gen-length", "16"},
        {"run", "-m", model, "-p", "3+4", "--gen-length", "16", "--temperature", "0.7", "--cfg-scale", "1", "--json"},
        {"infill", "-m", model, "--text", "3+4=<mask:2>"},
        {"eval", "-m", model, "--tasks", tasks, "--limit", "1", "--no-reference", "--compare", "a: --gen-length 16"}}) {
    ProcessResult result = run_llada(command);
    if (command.back() == "--json") {
      EXPECT_EQ(std::exchange(result.out, ""), "{\"text\":\"\",\"tokens\":[],\"finish_reason\":\"failed\"}\n");
    }
    expect_one_line(result, 1, " are not finite; the weights or the activations are damaged\n");
  }
}

}  // namespace
}  // namespace llada::cli::damaged_file
