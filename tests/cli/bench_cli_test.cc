// synth and bench as programs: what their JSON holds, what they refuse, and that an interrupted synth leaves
// nothing.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <thread>

#include "cli/process.h"

namespace llada::test {
namespace {

using json = Json;

class BenchCli : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  const TempFolder folder_;
};

void expect_keys(const json& object, const std::set<std::string>& keys) {
  for (const std::string& key : keys) EXPECT_TRUE(object.contains(key)) << key << " in " << object.dump();
}

json small_bench(const std::string& more) {
  return json_of(with(split("bench --preset tiny:q4_0 --rows 1,4 --types q4_0,f16 --repeats 2 --attention-keys 64 "
                            "--attention-rows 4 --gen-length 12 --block-length 4 --tokens-per-step 3 --prompt-tokens 5 "
                            "--threads 2 --stream-mib 1 --json"),
                      split(more)));
}

TEST_F(BenchCli, TheReportHasTheKeysThatOtherToolsRelyOn) {
  const json report = small_bench("");
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
  const json report = small_bench("--only shared --requests 1,2");
  ASSERT_EQ(report["shared"].size(), 2u);
  for (const json& s : report["shared"])
    expect_keys(s,
                {"requests", "prompt_tokens", "gen_tokens", "block_length", "tokens_per_step", "row_budget", "seconds",
                 "tokens_per_s", "tokens_per_s_ratio", "forwards", "rows", "rows_per_forward", "requests_per_forward"});
  EXPECT_EQ(report["shared"][0]["requests_per_forward"], 1);
  EXPECT_EQ(report["shared"][0]["tokens_per_s_ratio"], 1);
  EXPECT_EQ(report["shared"][1]["requests"], 2);
  const auto text =
      done(split("bench --preset tiny:q4_0 --only shared --requests 2 --gen-length 12 --block-length 4 "
                 "--prompt-tokens 5 --repeats 1 --stream-mib 1"));
  EXPECT_THAT(text.out, HasSubstr("requests at a time in shared forwards: 12 tokens each from a prompt of 5"));
}

// labels: long
TEST_F(BenchCli, OnlyTheAskedPartsRun) {
  const json report = small_bench("--only gemm,forward");
  for (const char* part : {"gemm", "forward", "attention", "end_to_end", "shared"})
    EXPECT_EQ(report[part].empty(), part != std::string("gemm") && part != std::string("forward")) << part;
  const auto machine = done(split("bench --only machine --threads 1 --repeats 1 --stream-mib 1"));
  EXPECT_THAT(machine.out, HasSubstr("read GB/s"));
}

TEST_F(BenchCli, AFileAndItsPresetDoTheSameForwards) {
  const json summary = json_of({"synth", "--preset", "tiny", "--type", "q8_0", path("m.gguf"), "--json"});
  expect_keys(summary, {"out", "preset", "type", "model", "parameters", "bytes_out", "runnable"});
  EXPECT_EQ(summary["bytes_out"], fs::file_size(path("m.gguf")));
  EXPECT_EQ(summary["runnable"], true);
  const json report = json_of(
      with({"bench", "-m", path("m.gguf")}, split("--only forward --rows 2 --repeats 1 --stream-mib 1 --json")));
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
