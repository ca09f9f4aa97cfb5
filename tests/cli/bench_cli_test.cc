// synth and bench as programs: what their JSON holds, what they refuse, and that an interrupted synth leaves
// nothing.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "cli/process.h"
#include "formats/temp_folder.h"

namespace llada::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class BenchCli : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  size_t files() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }
  const TempFolder temp_;
  const fs::path folder_ = temp_.path();
};

void expect_keys(const json& object, const std::set<std::string>& keys) {
  for (const std::string& key : keys) EXPECT_TRUE(object.contains(key)) << key << " in " << object.dump();
}

const std::vector<std::string> kSmall = {
    "bench", "--preset",          "tiny:q4_0", "--rows",           "1,4", "--types",      "q4_0,f16", "--repeats",
    "2",     "--attention-keys",  "64",        "--attention-rows", "4",   "--gen-length", "12",       "--block-length",
    "4",     "--tokens-per-step", "3",         "--prompt-tokens",  "5",   "--threads",    "2",        "--stream-mib",
    "1"};

std::vector<std::string> small_bench(const std::vector<std::string>& more) {
  std::vector<std::string> words = kSmall;
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(BenchCli, TheReportHasTheKeysThatOtherToolsRelyOn) {
  const auto result = run_llada(small_bench({"--json"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const json report = json::parse(result.out);
  expect_keys(report, {"machine", "gemm", "forward", "attention", "end_to_end", "shared", "label", "repeats", "model"});
  EXPECT_EQ(report["label"], "measured");
  expect_keys(report["machine"], {"cpu", "isa", "threads", "read_gb_per_s", "int8_gop_per_s", "float_gflop_per_s"});
  EXPECT_EQ(report["machine"]["threads"], 2);
  EXPECT_GT(report["machine"]["read_gb_per_s"], 0);
  ASSERT_EQ(report["gemm"].size(), 4u);
  for (const json& g : report["gemm"])
    expect_keys(g, {"k", "n", "rows", "type", "timings", "gop_per_s", "percent_of_int8_peak", "relative_error",
                    "relative_error_with_8_bit_activations", "relative_error_with_outliers"});
  ASSERT_EQ(report["forward"].size(), 2u);
  for (const json& f : report["forward"])
    expect_keys(f, {"rows", "logits", "ms_median", "gop_per_s", "percent_of_int8_peak", "read_gb_per_s", "new_shape_ms",
                    "phases"});
  EXPECT_GT(report["forward"][1]["phases"]["matmul"], 0);
  ASSERT_EQ(report["end_to_end"].size(), 3u);
  for (const json& e : report["end_to_end"]) {
    expect_keys(
        e, {"prompt_tokens", "gen_tokens", "block_length", "tokens_per_step", "refresh", "rows_policy", "seconds"});
    EXPECT_EQ(e["prompt_tokens"], 5);
    EXPECT_EQ(e["forwards"], 6);
    expect_keys(e["autoregression_bound"],
                {"bytes_per_token", "read_gb_per_s", "tokens_per_s", "ratio", "ratio_without_first"});
    EXPECT_GT(e["autoregression_bound"]["ratio"], 0);
  }
  EXPECT_EQ(report["end_to_end"][0]["refresh"], "block");
  EXPECT_EQ(report["end_to_end"][1]["rows_policy"], "masked or just committed");
  EXPECT_EQ(report["end_to_end"][2]["refresh"], "once");
}

TEST_F(BenchCli, SharedForwardsAreReported) {
  const auto result = run_llada(small_bench({"--only", "shared", "--requests", "1,2", "--json"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const json report = json::parse(result.out);
  ASSERT_EQ(report["shared"].size(), 2u);
  for (const json& s : report["shared"])
    expect_keys(s,
                {"requests", "prompt_tokens", "gen_tokens", "block_length", "tokens_per_step", "row_budget", "seconds",
                 "tokens_per_s", "tokens_per_s_ratio", "forwards", "rows", "rows_per_forward", "requests_per_forward"});
  EXPECT_EQ(report["shared"][0]["requests_per_forward"], 1);
  EXPECT_EQ(report["shared"][0]["tokens_per_s_ratio"], 1);
  EXPECT_EQ(report["shared"][1]["requests"], 2);
  const auto text = run_llada(small_bench({"--only", "shared", "--requests", "2"}));
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("requests at a time in shared forwards: 12 tokens each from a prompt of 5"),
            std::string::npos)
      << text.out;
}

// labels: long
TEST_F(BenchCli, OnlyTheAskedPartsRun) {
  const auto result = run_llada(small_bench({"--only", "gemm,forward", "--json"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const json report = json::parse(result.out);
  EXPECT_FALSE(report["gemm"].empty());
  EXPECT_FALSE(report["forward"].empty());
  EXPECT_TRUE(report["attention"].empty());
  EXPECT_TRUE(report["end_to_end"].empty());
  EXPECT_TRUE(report["shared"].empty());
  const auto machine =
      run_llada({"bench", "--only", "machine", "--threads", "1", "--repeats", "1", "--stream-mib", "1"});
  ASSERT_EQ(machine.status, 0) << machine.err;
  EXPECT_NE(machine.out.find("read GB/s"), std::string::npos) << machine.out;
}

TEST_F(BenchCli, AFileAndItsPresetDoTheSameForwards) {
  const auto written = run_llada({"synth", "--preset", "tiny", "--type", "q8_0", path("m.gguf"), "--json"});
  ASSERT_EQ(written.status, 0) << written.err;
  const json summary = json::parse(written.out);
  expect_keys(summary, {"out", "preset", "type", "model", "parameters", "bytes_out", "runnable"});
  EXPECT_EQ(summary["bytes_out"], fs::file_size(path("m.gguf")));
  EXPECT_EQ(summary["runnable"], true);
  const auto result = run_llada({"bench", "-m", path("m.gguf"), "--only", "forward", "--rows", "2", "--repeats", "1",
                                 "--stream-mib", "1", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json report = json::parse(result.out);
  EXPECT_EQ(report["model"]["parameters"], summary["parameters"]);
  EXPECT_EQ(report["forward"][0]["rows"], 2);
}

// Killed while it writes: the data has no name yet where the file system can do without one, and a name that
// ends in .tmp elsewhere; never the asked one.
TEST_F(BenchCli, AKilledSynthLeavesNoModel) {
  if (std::string(LLADA_EMULATOR) != "") GTEST_SKIP() << "the emulator would be killed in its place";
  const std::string out = path("m.gguf");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::execl(LLADA_BINARY, "llada", "synth", "--preset", "llada-8b", "--layers", "1", "--type", "q4_0", out.c_str(),
            nullptr);
    ::_exit(127);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(60));  // 700 MB take longer
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "it was done before it could be killed";
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace llada::test
