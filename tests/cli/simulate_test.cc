// llada simulate, which llada-study has, and runs on simulated and failing devices, from outside.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/process.h"
#include "formats/temp_folder.h"

namespace llada::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

std::string temporary(const std::string& name) {
  return (std::filesystem::temp_directory_path() / ("llada_simulate_" + std::to_string(::getpid()) + name)).string();
}

std::string read_and_remove(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  std::filesystem::remove(path);
  return text.str();
}

// labels: long
TEST(Simulate, JsonHasTheKeysThatToolsRelyOn) {
  const auto result = run_llada({"simulate", "--profile", "sm8750-paper", "--preset", "llada-8b:q4_0", "--prompt", "78",
                                 "--gen", "128", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["profile"], "sm8750-paper");
  EXPECT_EQ(json["preset"], "llada-8b:q4_0");
  EXPECT_EQ(json["label"], "modelled");
  ASSERT_EQ(json["ladder"].size(), 6u);
  for (const Json& line : json["ladder"])
    for (const char* key : {"name", "seconds", "seconds_low", "seconds_high", "passes", "rows_per_pass",
                            "tokens_per_pass", "joules", "bytes_mapped_per_pass", "exposed_map_seconds"})
      EXPECT_TRUE(line.contains(key)) << key;
  EXPECT_EQ(json["ladder"][0]["name"], "CPU");
  EXPECT_EQ(json["ladder"][5]["name"], "+ revision");
  EXPECT_EQ(json["sensitivity"].size(), 4u);  // and tokens per pass
}

// labels: long
TEST(Simulate, TextSaysThatItIsModelledAndWhereSomrDoesNothing) {
  const auto v81 = run_llada({"simulate", "--profile", "v81-8elite-gen5"});
  ASSERT_EQ(v81.status, 0) << v81.err;
  EXPECT_NE(v81.out.find("All numbers are modelled."), std::string::npos);
  EXPECT_NE(v81.out.find("SOMR contributes nothing on this chip"), std::string::npos);
  EXPECT_NE(v81.out.find("npu.matmul_gflops = 5200 GFLOP/s [M]"), std::string::npos);
  const auto all = run_llada({"simulate", "--compare-profiles", "--json"});
  ASSERT_EQ(all.status, 0) << all.err;
  EXPECT_EQ(Json::parse(all.out)["profiles"].size(), 8u);
}

// labels: long
TEST(Simulate, SweepAndTrace) {
  const std::string trace = temporary(".json");
  const auto sweep =
      run_llada({"simulate", "--profile", "sm8750-paper", "--sweep", "window=3.0:4.0:0.5", "--json", "--trace", trace});
  ASSERT_EQ(sweep.status, 0) << sweep.err;
  const Json rows = Json::parse(sweep.out)["sweep"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1]["window_gib"], 3.5);
  EXPECT_GT(rows[0]["policy_bytes_mapped_per_pass"]["lru"], rows[0]["policy_bytes_mapped_per_pass"]["plan"]);
  const Json events = Json::parse(read_and_remove(trace));
  EXPECT_GT(events["traceEvents"].size(), 1000u);
  for (const char* lane : {"npu", "cpu", "map"}) EXPECT_TRUE(events.dump().contains(std::string("\"") + lane)) << lane;
}

TEST(Simulate, LatencyHasSteps) {
  const auto result = run_llada({"simulate", "--profile", "v79-8elite", "--latency", "1,32,33,128", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json points = Json::parse(result.out)["latency"];
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[3]["rows"], 128);
  EXPECT_LT(points[1]["ms"].get<double>(), 1.1 * points[0]["ms"].get<double>()) << "the tile holds 32 rows";
  EXPECT_GT(points[2]["ms"].get<double>(), 1.3 * points[1]["ms"].get<double>());
}

// The phone's head runs on its CPU, where every row with logits costs.
TEST(Simulate, LatencyFallsWithTheRowsThatHaveLogits) {
  const auto ms = [](const Words& more) {
    Words words = {"simulate", "--profile", "sm8750-paper", "--latency", "32,128", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Json points = Json::parse(run_llada(words).out)["latency"];
    return std::pair{points[0]["ms"].get<double>(), points[1]["ms"].get<double>()};
  };
  const auto all = ms({}), some = ms({"--latency-logits", "32"}), more = ms({"--latency-logits", "999"});
  EXPECT_EQ(all, more);
  EXPECT_EQ(all.first, some.first);
  EXPECT_LT(some.second, 0.7 * all.second);
}

TEST(Simulate, WrongCallsAreOneLineWithStatusTwo) {
  const std::pair<Words, std::string> calls[] = {
      {{}, "--profile: needed one of a6000-pcie4"},
      {{"--profile", "v80"}, "profile: found 'v80'"},
      {{"--profile", "v79-8elite", "--gen", "many"}, "--gen"},
      {{"--profile", "v79-8elite", "--latency", "32", "--latency-logits", "0"}, "latency-logits: found 0"},
      {{"--profile", "v79-8elite", "--latency-logits", "8"}, "--latency-logits: needs --latency"},
      {{"--profile", "v79-8elite", "--tokens-per-pass", "x"}, "needed a number"},
      {{"--profile", "v79-8elite", "--tokens-per-pass", "99"}, "tokens per pass: found 99"},
      {{"--profile", "v79-8elite", "--sweep", "window=1:2"}, "needed window=FROM:TO:STEP"},
      {{"--profile", "v79-8elite", "--sweep", "window=2:1:0.5"}, "sweep: found window=2:1:0.5"},
      {{"--profile", "v79-8elite", "--compare-profiles"}, "--compare-profiles"},
      {{"--profile", "v79-8elite", "--replay", "no-such-file"}, "no-such-file"},
      {{"--profile", "v79-8elite", "--preset", "dream-8b"}, "preset: found 'dream-8b'"},
  };
  for (const auto& [words, says] : calls) {
    Words all = {"simulate"};
    all.insert(all.end(), words.begin(), words.end());
    const auto result = run_llada(all);
    EXPECT_EQ(result.status, 2) << says;
    EXPECT_EQ(result.out, "") << says;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
  }
}

const ProcessInput kStudy{.program = LLADA_STUDY}, kFailing{.program = LLADA_FAILING};

Words run_on(const std::string& device) {
  return {"run",
          "-m",
          tiny_model(),
          "-p",
          "Sort the numbers from smallest to largest: 38 41 6 51 3",
          "--gen-length",
          "24",
          "--block-length",
          "4",
          "--json",
          "--preset-decode",
          "exact",
          "--device",
          device};
}

// labels: long
TEST(RunOnSim, TheAnswerIsTheCpusAndItsTimeIsLabelledModelled) {
  const auto cpu = run_llada(run_on("cpu")), sim = run_llada(run_on("sim:v79-8elite,window=30%"), kStudy);
  ASSERT_EQ(cpu.status, 0) << cpu.err;
  ASSERT_EQ(sim.status, 0) << sim.err;
  const Json a = Json::parse(cpu.out), b = Json::parse(sim.out);
  EXPECT_EQ(a["tokens"], b["tokens"]);
  EXPECT_EQ(a["stats"]["canvas_hash"], b["stats"]["canvas_hash"]);
  EXPECT_FALSE(a["stats"].contains("modelled"));
  EXPECT_EQ(b["stats"]["modelled"]["profile"], "v79-8elite");
  EXPECT_GT(b["stats"]["modelled"]["seconds"], 0);
}

TEST(RunOnSim, AFailedDeviceIsOneWarningAndTheSameAnswer) {
  const auto cpu = run_llada(run_on("cpu")), failing = run_llada(run_on("sim:v79-8elite,fail=gone:100"), kFailing);
  ASSERT_EQ(failing.status, 0) << failing.err;
  EXPECT_EQ(Json::parse(cpu.out)["tokens"], Json::parse(failing.out)["tokens"]);
  EXPECT_EQ(std::ranges::count(failing.err, '\n'), 1) << failing.err;
  EXPECT_NE(failing.err.find("llada: warning: sim:v79-8elite: the device is gone at op 100 (injected)"),
            std::string::npos)
      << failing.err;
}

// labels: long
TEST(RunOnSim, WithoutAFallbackTheStatusIsOneAndTheTextSoFarIsPrinted) {
  const Json whole = Json::parse(run_llada(run_on("cpu")).out);
  const auto failing = run_llada(run_on("cpu,fail=gone:1000"), kFailing);
  EXPECT_EQ(failing.status, 1);
  EXPECT_NE(failing.err.find("cpu: the device is gone at op 1000 (injected)"), std::string::npos) << failing.err;
  const Json part = Json::parse(failing.out);
  EXPECT_EQ(part["finish_reason"], "failed");
  ASSERT_GT(part["tokens"].size(), 0u);
  ASSERT_LT(part["tokens"].size(), whole["tokens"].size());
  for (size_t i = 0; i < part["tokens"].size(); ++i) EXPECT_EQ(part["tokens"][i], whole["tokens"][i]);
}

// The program that people have says where the others are, and what it does not take.
TEST(Study, LiesBesideTheProgram) {
  const TempFolder folder;
  const std::string alone = folder / "llada";
  std::filesystem::copy_file(LLADA_BINARY, alone);
  for (const Words& words : {Words{"simulate"}, {"synth", "x.gguf"}}) {
    const auto result = run_llada(words, {.program = alone});
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_EQ(result.err, "llada: no command '" + words[0] +
                              "'; more commands are of llada-study, which is not beside this program (see llada "
                              "--help)\n");
  }
  for (const Words& words : {Words{"study"}, {"doctor", "--device", "hexagon"}}) {
    const auto result = run_llada(words, {.program = alone});
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, "llada " + words[0] +
                              ": found no llada-study beside this program, needed it for this command " +
                              "(in a checkout: tools/build.sh llada-study)\n");
  }
  const auto refused = run_llada(run_on("sim:v79-8elite"));
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("device 'sim:v79-8elite' is not available here; this build has: cpu, hexagon, cuda"),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(run_llada({"study", "synth", "--help"}).out, run_llada({"synth", "--help"}, kStudy).out);
  EXPECT_EQ(run_llada({"help", "synth"}).out, run_llada({"synth", "--help"}, kStudy).out);
  EXPECT_EQ(run_llada({"rum"}).err, "llada: no command 'rum'; did you mean run? (see llada --help)\n");
  const std::string own = run_llada({"--help"}, kStudy).out;
  for (const char* command : {"\n  simulate ", "\n  synth ", "\n  doctor "})
    EXPECT_NE(own.find(command), std::string::npos) << own;
}

TEST(Devices, AreListedWithWhatWasFound) {
  const auto text = run_llada({"devices"}, kStudy);
  for (const char* name : {"cpu: ", "sim:a6000-pcie4: ", "sim:rtx4060-pcie4: ", "sim:sm8750-paper: ", "sim:v75-8gen3: ",
                           "sim:v75-hvx: ", "sim:v79-hvx: ", "sim:v79-8elite: ", "sim:v81-8elite-gen5: ", "hexagon: ",
                           "cuda: "})  // the last two say what is missing where nothing was found
    EXPECT_NE(text.out.find(name), std::string::npos) << name;
  const auto given = run_llada({"devices"}, {.environment = {"LLADA_CDSPRPC=/nonexistent/lib.so"}});
  if (given.out.find("hexagon: not usable: this build") == std::string::npos) {
    EXPECT_NE(given.out.find("/nonexistent/lib.so"), std::string::npos) << given.out;
  }
}

}  // namespace
}  // namespace llada::test
