// llada simulate, which llada-study has, and runs on simulated and failing devices, from outside.
#include <unistd.h>

#include "cli/process.h"

namespace llada::test {
namespace {

// labels: long
TEST(Simulate, JsonHasTheKeysThatToolsRelyOn) {
  const Json json = json_of({"simulate", "--profile", "sm8750-paper", "--preset", "llada-8b:q4_0", "--prompt", "78",
                             "--gen", "128", "--json"});
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
  const auto v81 = done({"simulate", "--profile", "v81-8elite-gen5"});
  EXPECT_THAT(v81.out, HasSubstr("All numbers are modelled."));
  EXPECT_THAT(v81.out, HasSubstr("SOMR contributes nothing on this chip"));
  EXPECT_THAT(v81.out, HasSubstr("npu.matmul_gflops = 5200 GFLOP/s [M]"));
  EXPECT_EQ(json_of({"simulate", "--compare-profiles", "--json"})["profiles"].size(), 10u);
}

// labels: long
TEST(Simulate, SweepAndTrace) {
  const TempFolder folder;
  const std::string trace = folder / "trace.json";
  const Json rows = json_of(
      {"simulate", "--profile", "sm8750-paper", "--sweep", "window=3.0:4.0:0.5", "--json", "--trace", trace})["sweep"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1]["window_gib"], 3.5);
  EXPECT_GT(rows[0]["policy_bytes_mapped_per_pass"]["lru"], rows[0]["policy_bytes_mapped_per_pass"]["plan"]);
  const Json events = Json::parse(folder.read("trace.json"));
  EXPECT_GT(events["traceEvents"].size(), 1000u);
  for (const char* lane : {"npu", "cpu", "map"}) EXPECT_TRUE(events.dump().contains(std::string("\"") + lane)) << lane;
}

TEST(Simulate, LatencyHasSteps) {
  const Json points = json_of({"simulate", "--profile", "v79-8elite", "--latency", "1,32,33,128", "--json"})["latency"];
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[3]["rows"], 128);
  EXPECT_LT(points[1]["ms"].get<double>(), 1.1 * points[0]["ms"].get<double>()) << "the tile holds 32 rows";
  EXPECT_GT(points[2]["ms"].get<double>(), 1.3 * points[1]["ms"].get<double>());
}

// The phone's head runs on its CPU, where every row with logits costs.
TEST(Simulate, LatencyFallsWithTheRowsThatHaveLogits) {
  const auto ms = [](const Words& more) {
    const Json points =
        json_of(with({"simulate", "--profile", "sm8750-paper", "--latency", "32,128", "--json"}, more))["latency"];
    return std::pair{points[0]["ms"].get<double>(), points[1]["ms"].get<double>()};
  };
  const auto all = ms({}), some = ms({"--latency-logits", "32"}), more = ms({"--latency-logits", "999"});
  EXPECT_EQ(all, more);
  EXPECT_EQ(all.first, some.first);
  EXPECT_LT(some.second, 0.7 * all.second);
}

const ProcessInput kStudy{.program = LLADA_STUDY}, kFailing{.program = LLADA_FAILING};

Words run_on(const std::string& device) {
  return with({"run", "-m", tiny_model(), "-p", "Sort the numbers from smallest to largest: 38 41 6 51 3"},
              split("--gen-length 24 --block-length 4 --json --preset-decode exact --device " + device));
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
  EXPECT_THAT(failing.err, HasSubstr("llada: warning: sim:v79-8elite: the device is gone at op 100 (injected)"));
}

// labels: long
TEST(RunOnSim, WithoutAFallbackTheStatusIsOneAndTheTextSoFarIsPrinted) {
  const Json whole = json_of(run_on("cpu"));
  const auto failing = run_llada(run_on("cpu,fail=gone:1000"), kFailing);
  EXPECT_EQ(failing.status, 1);
  EXPECT_THAT(failing.err, HasSubstr("cpu: the device is gone at op 1000 (injected)"));
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
  fs::copy_file(LLADA_BINARY, alone);
  for (const Words& words : {Words{"simulate"}, {"synth", "x.gguf"}})
    expect_one_line(run_llada(words, {.program = alone}), 2,
                    "llada: no command '" + words[0] +
                        "'; more commands are of llada-study, which is not beside this program (see llada --help)\n");
  expect_one_line(run_llada({"bench"}, {.program = alone}), 2,
                  "llada: no command 'bench'; did you mean batch? More commands are of llada-study");
  for (const Words& words : {Words{"study"}, {"doctor", "--device", "hexagon"}})
    expect_one_line(run_llada(words, {.program = alone}), 2,
                    "llada " + words[0] + ": found no llada-study beside this program, needed it for this command " +
                        "(in a checkout: tools/build.sh llada-study)\n");
  expect_one_line(run_llada(run_on("sim:v79-8elite")), 2,
                  "device 'sim:v79-8elite' is not available here; this build has: cpu, hexagon, cuda");
  EXPECT_EQ(run_llada({"study", "synth", "--help"}).out, run_llada({"synth", "--help"}, kStudy).out);
  EXPECT_EQ(run_llada({"help", "synth"}).out, run_llada({"synth", "--help"}, kStudy).out);

  const std::string own = run_llada({"--help"}, kStudy).out;
  for (const char* command : {"\n  simulate ", "\n  synth ", "\n  doctor "}) EXPECT_THAT(own, HasSubstr(command));
}

TEST(Devices, AreListedWithWhatWasFound) {
  const auto text = run_llada({"devices"}, kStudy);
  for (const std::string& name :  // the last two say what is missing where nothing was found
       split("cpu sim:a6000-pcie4 sim:rtx4060-pcie4 sim:sm8750-paper sim:v75-8gen3 sim:v75-hvx sim:v79-hvx "
             "sim:v79-8elite sim:v81-8elite-gen5 hexagon cuda"))
    EXPECT_THAT(text.out, HasSubstr(name + ": "));
  const auto given = run_llada({"devices"}, {.environment = {"LLADA_CDSPRPC=/nonexistent/lib.so"}});
  if (given.out.find("hexagon: not usable: this build") == std::string::npos) {
    EXPECT_THAT(given.out, HasSubstr("/nonexistent/lib.so"));
  }
}

}  // namespace
}  // namespace llada::test
