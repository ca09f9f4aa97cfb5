// Work that takes long says how far it is, gives what it has, and ends early with it.
#include <chrono>

#include "cli/process.h"
#include "cli/report.h"
#include "lab/bench_report.h"

namespace llada::test {
namespace {

class LongWork : public ::testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_ / name; }
  std::string write(const std::string& name, const std::string& text) const { return folder_.write(name, text); }
  const TempFolder folder_;
};

const Words kBench = split(
    "bench --preset tiny:q4_0 --only machine,gemm,forward,e2e --rows 1,4 --types q4_0,f16 --repeats 2 --stream-mib 1 "
    "--gen-length 12 --block-length 4 --tokens-per-step 3 --threads 2");

TEST_F(LongWork, BenchFits80ColumnsAndSaysHowLongItTakes) {
  const auto result = done(kBench);
  EXPECT_LE(longest_line(result.out), 80u) << result.out;
  EXPECT_THAT(result.err, HasSubstr("bench: this will take about"));
  for (const char* part :
       {"ceilings", "q4_0    256", "rows        ms", "tokens/s", "ceilings at the end", "peak memory"})
    EXPECT_THAT(result.out, HasSubstr(part));
  EXPECT_THAT(result.out, Not(HasSubstr("interrupted")));
}

// labels: long
TEST_F(LongWork, BenchThatIsStoppedKeepsItsRows) {
  LLADA_NEEDS_TERMINAL();
  Words words = kBench;
  words[10] = "400";  // repeats: long enough for the signal to come before the end
  const auto table = run_llada_on_terminal(words, {.environment = {"TERM=xterm"}, .interrupt_after = "q4_0    256"});
  EXPECT_EQ(table.status, 130) << table.out;
  EXPECT_THAT(table.out, HasSubstr("interrupted: the rest was not measured"));
  EXPECT_THAT(table.out, Not(HasSubstr("ceilings at the end")));
  words.push_back("--json");
  const auto json = run_llada_on_terminal(words, {.environment = {"TERM=dumb"}, .interrupt_after = "this will take"});
  EXPECT_EQ(json.status, 130) << json.out;
  const size_t begin = json.out.find("{\"label\"");
  ASSERT_NE(begin, std::string::npos) << json.out;
  const Json report = Json::parse(json.out.substr(begin));
  EXPECT_EQ(report["interrupted"], true);
  EXPECT_GT(report["machine"]["read_gb_per_s"], 0) << "what was measured before is whole";
  EXPECT_LT(report["end_to_end"].size(), 4u);
}

// What was done is counted and kept, whatever the work is.
TEST_F(LongWork, WorkOnTasksThatIsStoppedKeepsWhatWasDone) {
  LLADA_NEEDS_TERMINAL();
  std::string tasks, questions;
  for (int i = 0; i < 3000; ++i) {
    const std::string prompt = fmt::format("Sort the numbers from smallest to largest: 38 {} 6 51 3", i);
    tasks += Json({{"task", "sort"}, {"prompt", prompt}, {"answer", "3"}}).dump() + "\n";
    questions += Json({{"type", "predicate"}, {"instructions", prompt}, {"answer", true}}).dump() + "\n";
  }
  tasks = write("tasks.jsonl", tasks), questions = write("questions.jsonl", questions);
  const auto stopped = [](const Words& words) {
    const auto got = run_llada_on_terminal(words, {.environment = {"TERM=xterm"}, .interrupt_after = " of 3000"});
    EXPECT_EQ(got.status, 130) << got.out;
    return got.out;
  };
  EXPECT_THAT(stopped({"eval", "-m", tiny_model(), "--tasks", tasks}), HasSubstr("whole answer right"));
  const std::string reference = file("reference.jsonl");
  EXPECT_THAT(stopped({"eval", "-m", tiny_model(), "--tasks", tasks, "--reference", reference, "--json"}),
              HasSubstr("\"interrupted\": true"));
  EXPECT_GT(fs::file_size(reference), 200u);
  EXPECT_THAT(stopped({"tune", "-m", tiny_model(), "--tasks", tasks, "-o", file("preset.json")}),
              HasSubstr("preset.json was not written"));
  EXPECT_THAT(stopped({"decide", "-m", tiny_model(), "--calibrate", questions, "-o", file("t.json")}),
              HasSubstr("t.json was not written"));
}

// Making an 8B model takes far longer than anybody waits for an answer to Ctrl-C.
// labels: long
TEST_F(LongWork, BenchEndsWhileAModelIsMade) {
  LLADA_NEEDS_TERMINAL();
  const auto begin = std::chrono::steady_clock::now();
  const auto table =
      run_llada_on_terminal(split("bench --preset llada-8b:q4_0 --only forward --rows 1 --repeats 1 --stream-mib 1"),
                            {.environment = {"TERM=xterm"}, .interrupt_after = "making"});
  EXPECT_EQ(table.status, 130) << table.out;
  EXPECT_THAT(table.out, HasSubstr("ceilings"));
  EXPECT_THAT(table.out, HasSubstr("interrupted: the rest was not measured"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(90));
}

TEST_F(LongWork, BenchQuickIsLittle) {
  const Json report = json_of({"bench", "--preset", "tiny:q4_0", "--quick", "--json", "--threads", "2"});
  EXPECT_EQ(report["interrupted"], false);
  EXPECT_EQ(report["repeats"], 2);
  EXPECT_TRUE(report["gemm"].empty());
  EXPECT_EQ(report["forward"].size(), 2u);
  EXPECT_EQ(report["end_to_end"].size(), 1u);
  const Json chosen =
      json_of(split("bench --preset llada-8b:q4_0 --quick --only gemm --rows 2 --types q8_0 --repeats 1 "
                    "--stream-mib 1 --json"));
  EXPECT_EQ(chosen["gemm"][0]["rows"], 2) << "what is asked for stays";
}

const std::string kTasks =
    R"({"task":"sort","prompt":"Sort the numbers from smallest to largest: 38 41 6 51 3","response":"3 6 38 41 51",)"
    R"("answer":"3 6 38 41 51"})"
    "\n";

TEST_F(LongWork, EvalMeasuresTheReferenceOnce) {
  const Words words = with({"eval", "-m", tiny_model(), "--tasks", write("tasks", kTasks)},
                           {"--compare", "exact: --preset-decode exact --gen-length 16", "--compare",
                            "other: --gen-length 16 --threshold 0.9"});
  const Json report = json_of(with(words, {"--json"}));
  EXPECT_EQ(report["results"][0]["measured_as"], "reference");
  EXPECT_EQ(report["results"][0]["seconds_mean"], report["reference"]["seconds_mean"]) << "to the last bit: one run";
  EXPECT_EQ(report["results"][0]["agreement"], 1.0);
  EXPECT_FALSE(report["results"][1].contains("measured_as"));
  const auto table = run_llada(words);
  EXPECT_LE(longest_line(table.out), 80u) << table.out;
  EXPECT_THAT(table.out, HasSubstr("exact (the same options as reference, measured once)"));
}

TEST_F(LongWork, TuneHasJsonAndItsPresetKnowsItsModel) {
  const Json report = json_of(with({"tune", "-m", tiny_model(), "--tasks", write("tasks", kTasks + kTasks), "--options",
                                    "--gen-length 16 --block-length 8", "-o", file("mine.json"), "--json"},
                                   split("--generations 1 --breadth 1 --max-loss 100 --minimize forwards")));
  const int64_t chosen = report["chosen"];
  EXPECT_EQ(report["out"], file("mine.json"));
  EXPECT_GT(report["frontier"][chosen]["nfe_mean"], 0);
  const std::string options = Json::parse(std::ifstream(file("mine.json")))["options"];
  EXPECT_THAT(options, HasSubstr(report["frontier"][chosen]["options"].get<std::string>()));

  for (const std::string& model : {tiny_model(), std::string(LLADA_SOURCE_DIR "/models/tiny-llada-moe")}) {
    const auto run = done({"infill", "-p", "3+4=<mask:1>", "--preset-decode", file("mine.json"), "-m", model});
    EXPECT_EQ(run.err.find("tuned for another model") != std::string::npos, model != tiny_model()) << run.err;
  }
}

TEST_F(LongWork, AnEndlessPromptIsRefusedBeforeItIsCut) {
  const std::string prompt = write("prompt", std::string(size_t{50} << 20, 'a'));
  expect_one_line(run_llada({"run", "-m", tiny_model(), "-f", prompt}), 2,
                  "a prompt of 52428800 bytes is too long; the model was trained for 256 positions");
}

TEST_F(LongWork, ConvertSaysThatItRoundsTwice) {
  const auto first = done({"convert", tiny_model(), file("q4.gguf"), "--type", "q4_0"});
  EXPECT_THAT(first.err, Not(HasSubstr("rounded already")));
  const auto second = done({"convert", file("q4.gguf"), file("f16.gguf"), "--type", "f16"});
  EXPECT_THAT(second.err, HasSubstr("holds weights in q4_0, which are rounded already"));
  const auto same = run_llada({"convert", file("q4.gguf"), file("again.gguf"), "--type", "q4_0"});
  EXPECT_THAT(same.err, Not(HasSubstr("rounded already")));
}

TEST_F(LongWork, DevicesSayWhetherTheyCanBeUsed) {
  const Json report = json_of({"devices", "--json"});
  for (const Json& device : report["devices"]) {
    const std::string name = device["name"], description = device["description"];
    if (name == "cpu" || name.starts_with("sim:")) {
      EXPECT_EQ(device["usable"], true) << name;
    }
    if (device["usable"] == true) continue;
    const auto run = run_llada({"run", "-m", tiny_model(), "-p", "x", "--gen-length", "8", "--device", name});
    EXPECT_EQ(run.status, 2) << name << run.err;
  }
}

TEST(Numbers, SlowIsNotZero) {
  EXPECT_EQ(cli::rate_text(0), "0");
  EXPECT_EQ(cli::rate_text(0.1447), "0.14");
  EXPECT_EQ(cli::rate_text(0.9949), "0.99");
  EXPECT_EQ(cli::rate_text(4.62), "4.6");
  EXPECT_EQ(cli::rate_text(811.7), "812");
}

TEST(BenchPrinter, GivesEachLineOnceAndNotesBelowTheirTable) {
  bench::BenchReport report;
  report.machine.cpu = "a processor";
  cli::BenchPrinter printer(1 << 20);
  EXPECT_THAT(printer.update(report), HasSubstr("a processor"));
  EXPECT_EQ(printer.update(report), "");
  report.gemm.push_back({.k = 11, .n = 22, .rows = 3, .type = DType::Q4_0});
  const std::string first = printer.update(report);
  EXPECT_THAT(first, HasSubstr("GOP/s"));
  report.gemm.push_back({.k = 12345, .n = 22, .rows = 4, .type = DType::Q4_0});
  const std::string second = printer.update(report);
  EXPECT_THAT(second, Not(HasSubstr("GOP/s"))) << "one heading";
  EXPECT_THAT(second, HasSubstr("12345"));
  bench::ForwardResult cached;
  cached.rows = 1, cached.ms = 2, cached.percent_of_floor = 269;
  report.forward.push_back(cached);
  const std::string third = printer.update(report);
  EXPECT_LT(third.find("error: relative"), third.find("share of each kind"));
  EXPECT_THAT(third, HasSubstr("a cache held them"));
  report.interrupted = true;
  const std::string last = printer.finish(report, {});
  EXPECT_THAT(last, HasSubstr("logits for every row"));
  EXPECT_THAT(last, HasSubstr("interrupted"));
  EXPECT_LE(longest_line(first + second + third + last), 80u);
}

}  // namespace
}  // namespace llada::test
