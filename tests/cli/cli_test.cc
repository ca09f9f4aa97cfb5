// The program from outside: exit statuses, one-line errors, what comes on stdout.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/process.h"
#include "formats/temp_folder.h"

namespace llada::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

const std::string kPrompt = "Sort the numbers from smallest to largest: 38 41 6 51 3";

Words run_words(const Words& more = {}) {
  Words words = {"run", "-m", tiny_model(), "-p", kPrompt, "--gen-length", "24", "--threshold", "0.9"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json run_json(const Words& words, const ProcessInput& input = {}) {
  const auto result = run_llada(words, input);
  EXPECT_EQ(result.status, 0) << result.err;
  return Json::parse(result.out);
}

void write_file(const std::string& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

struct WrongCall {
  Words words;
  std::string says;  // what the error line has to contain
  ProcessInput input = {};
};

void expect_refused(const WrongCall& call, int status) {
  std::string shown;
  for (const std::string& word : call.words) shown += word + ' ';
  const auto result = run_llada(call.words, call.input);
  EXPECT_EQ(result.status, status) << shown << result.err;
  EXPECT_EQ(result.out, "") << shown;
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << shown << result.err;
  EXPECT_TRUE(result.err.starts_with("llada")) << shown << result.err;
  EXPECT_NE(result.err.find(call.says), std::string::npos) << shown << result.err;
}

// All others: tests/data/transcripts/mistakes.txt. The instruction sets that are listed are this machine's.
TEST(WrongCalls, AnUnknownInstructionSet) {
  const ProcessInput input = {.environment = {"LLADA_ISA=abacus"}};
  expect_refused({{"run", "-m", tiny_model(), "-p", "x"}, "abacus", input}, 2);
  expect_refused({{"devices"}, "abacus", input}, 2);
}

TEST(WrongCalls, AFileNameCannotBreakTheLine) {
  expect_refused({{"inspect", "no\nsuch\x1b[1mfile"}, "no\\x0asuch\\x1b[1mfile"}, 2);
}

TEST(Output, AFullDiskIsAFailureOfTheMachine) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  for (const Words& words :
       {run_words(), run_words({"--json"}), Words{"inspect", tiny_model()}, Words{"--help"}, Words{"run", "--help"}})
    expect_refused({words, "stdout: write failed", {.stdout_path = "/dev/full"}}, 1);
}

TEST(Output, AReaderThatWentAwayIsNoNews) {
  const auto result = run_llada({"inspect", tiny_model(), "--tensors"}, {.close_stdout = true});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err, "");
}

// Two screens of 80 by 24, in which no line is broken by the terminal.
TEST(Help, FitsTwoScreens) {
  LLADA_NEEDS_TERMINAL();
  for (const std::string command :
       {"run", "chat", "infill", "eval", "tune", "inspect", "convert", "logits", "devices", "synth", "bench",
        "simulate", "recommend", "pull", "pack", "score", "decide", "doctor"}) {
    const auto help = run_llada_on_terminal({command, "--help"}, {.columns = 80, .rows = 24});
    EXPECT_EQ(help.status, 0);
    EXPECT_LE(std::ranges::count(help.out, '\n'), 48) << command;
    for (const int columns : {60, 80, 100}) {
      const auto whole = run_llada_on_terminal({command, "--help-all"}, {.columns = columns, .rows = 24});
      for (const std::string& text : {whole.out, columns == 80 ? help.out : std::string()}) {
        std::stringstream lines(text);
        for (std::string line; std::getline(lines, line);)
          EXPECT_LE(line.size() - line.ends_with('\r'), static_cast<size_t>(columns)) << command << ": " << line;
      }
    }
    EXPECT_EQ(run_llada({"help", command}).out, run_llada({command, "--help"}).out) << "a pipe is 80 columns wide";
  }
}

TEST(Help, Version) {
  for (const char* word : {"--version", "-v", "version"}) {
    const auto result = run_llada({word});
    EXPECT_EQ(result.status, 0);
    EXPECT_TRUE(result.out.starts_with("llada ")) << result.out;
    EXPECT_TRUE(std::isdigit(static_cast<unsigned char>(result.out.at(6)))) << result.out;
    for (const char* part :
         {" (commit ", "\ncompiler: ", "\ninstruction sets: ", "scalar", "\ndevice cpu: ", "\ndevice cuda: "})
      EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  }
}

TEST(Run, WordsOfOtherProgramsMeanTheSame) {
  const Json own = run_json({"run", "-m", tiny_model(), "-p", kPrompt, "--system", "Be brief.", "--gen-length", "16",
                             "--temperature", "20", "--seed", "3", "--threads", "1", "--json"});
  const Json words = run_json({"run", "-m", tiny_model(), "-p", kPrompt, "-sys", "Be brief.", "-n", "16", "--temp",
                               "20", "-s", "3", "-t", "1", "--json"});
  EXPECT_EQ(words["tokens"], own["tokens"]);
  const auto chat = run_llada({"run", "-m", tiny_model(), "-i", "-n16", "--threshold", "0.9"}, {.stdin_text = kPrompt});
  EXPECT_EQ(chat.status, 0) << chat.err;
  const auto loud = run_llada(run_words({"-v", "--preset-decode", "exact"}));
  EXPECT_NE(loud.err.find("options: --gen-length=24 --accept=threshold\n"), std::string::npos) << loud.err;
}

TEST(Run, TextIsTheAnswerAndStatsAreOneLineOnStderr) {
  const auto plain = run_llada(run_words());
  ASSERT_EQ(plain.status, 0) << plain.err;
  const Json json = run_json(run_words({"--json"}));
  EXPECT_EQ(plain.out, json["text"].get<std::string>() + "\n");
  EXPECT_EQ(std::ranges::count(plain.err, '\n'), 1);
  EXPECT_NE(plain.err.find(fmt::format("{} tokens", json["stats"]["content_tokens"].get<int>())), std::string::npos)
      << plain.err;
  EXPECT_TRUE(plain.err.ends_with(" tokens/s (measured)\n")) << plain.err;
  const auto loud = run_llada(run_words({"-v"}));
  EXPECT_NE(loud.err.find(" ms per step, peak memory "), std::string::npos) << loud.err;
}

TEST(Run, JsonHasTheKeysThatToolsRelyOn) {
  const Json json = run_json(run_words({"--json", "--kv", "prefix"}));
  EXPECT_TRUE(json["text"].is_string());
  EXPECT_EQ(json["tokens"].size(), 24u);
  const Json& stats = json["stats"];
  for (const char* key : {"nfe", "steps", "rows", "prompt_tokens", "content_tokens", "peak_memory_bytes"}) {
    ASSERT_TRUE(stats[key].is_number_integer()) << key;
    EXPECT_GT(stats[key].get<int64_t>(), 0) << key;
  }
  for (const char* key : {"tokens_per_forward", "content_tokens_per_s", "ms_per_step", "seconds"}) {
    ASSERT_TRUE(stats[key].is_number_float()) << key;
    EXPECT_GT(stats[key].get<double>(), 0) << key;
  }
  EXPECT_EQ(stats["label"], "measured");
  EXPECT_EQ(stats["canvas_hash"].get<std::string>().size(), 16u);
  EXPECT_FALSE(stats["device"].get<std::string>().empty());
  double phases = 0;
  for (const auto& [name, ms] : stats["phases"].items()) phases += ms.get<double>();
  EXPECT_GT(phases, 0);
  EXPECT_LE(phases, stats["seconds"].get<double>() * 1e3);
  EXPECT_DOUBLE_EQ(stats["tokens_per_forward"].get<double>() * stats["nfe"].get<double>(),
                   stats["content_tokens"].get<double>());
}

TEST(Run, ThePromptMayComeFromAFileOrStdin) {
  const TempFolder folder;
  write_file(folder / "prompt.txt", kPrompt);
  const Json expected = run_json(run_words({"--json"}))["tokens"];
  Words words = run_words({"--json"});
  words[3] = "-f", words[4] = folder / "prompt.txt";
  EXPECT_EQ(run_json(words)["tokens"], expected);
  words[4] = "-";
  EXPECT_EQ(run_json(words, {.stdin_text = kPrompt})["tokens"], expected);
  words[3] = "-p";
  EXPECT_EQ(run_json(words, {.stdin_text = kPrompt})["tokens"], expected);
}

// labels: long
TEST(Run, RawLeavesTheTemplateAwayAndSystemAddsToIt) {
  const auto prompt_tokens = [](const Words& more) {
    return run_json(run_words(more))["stats"]["prompt_tokens"].get<int>();
  };
  const int chat = prompt_tokens({"--json"});
  EXPECT_LT(prompt_tokens({"--json", "--raw"}), chat);
  EXPECT_GT(prompt_tokens({"--json", "--system", "Be brief."}), chat);
}

// labels: long
TEST(Run, SamplingFollowsTheSeed) {
  const auto tokens = [](const char* seed, const char* threads) {
    return run_json(run_words({"--json", "--temperature", "20", "--seed", seed, "--threads", threads}))["tokens"];
  };
  const Json one = tokens("1", "1");
  EXPECT_EQ(tokens("1", "2"), one);
  EXPECT_NE(tokens("2", "1"), one);
}

TEST(Run, RawTakesArbitraryBytes) {
  for (const std::string& prompt : {std::string("\xff\xfe <|eot_id|> \xf0\x9f\x98\x80"), std::string("\n\n")}) {
    Words words = run_words({"--json", "--raw"});
    words[4] = prompt;
    EXPECT_EQ(run_json(words)["tokens"].size(), 24u);
  }
}

TEST(Run, BalancedIsTheDefaultAndSaysSo) {
  const Words plain = {"run", "-m", tiny_model(), kPrompt};
  const auto with = [&](const Words& more) {
    Words words = plain;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Json own = run_json(with({"--json"}));
  const Json named = run_json(with({"--json", "--preset-decode", "balanced"}));
  EXPECT_EQ(own["preset"], "balanced");
  EXPECT_EQ(own["stats"]["canvas_hash"], named["stats"]["canvas_hash"]);
  EXPECT_EQ(own["stats"]["rows"], named["stats"]["rows"]);
  const Json exact = run_json(with({"--json", "--preset-decode", "exact", "-n", "32"}));
  EXPECT_GT(exact["stats"]["nfe"], 4 * own["stats"]["nfe"].get<int>());
  // An option replaces that value of the preset and nothing else: what it has already changes nothing.
  const Json dual = run_json(with({"--json", "--kv", "dual", "--tail", "16"}));
  EXPECT_EQ(dual["preset"], "balanced");
  EXPECT_EQ(dual["stats"]["canvas_hash"], own["stats"]["canvas_hash"]);
  EXPECT_EQ(dual["stats"]["rows"], own["stats"]["rows"]);
  EXPECT_GT(run_json(with({"--json", "--tail", "all"}))["stats"]["rows"], own["stats"]["rows"]);
  expect_refused({with({"--kv", "none"}), "--kv none: does not go with preset balanced: --refresh"}, 2);
  // A fixed schedule replaces it as a whole, which is said.
  const auto schedule = run_llada(with({"--json", "-n", "32", "--steps", "1"}));
  EXPECT_EQ(schedule.err, "note: --steps asks for a fixed schedule, so preset balanced is not used\n");
  EXPECT_EQ(Json::parse(schedule.out)["preset"], "");
  EXPECT_EQ(Json::parse(schedule.out)["stats"]["nfe"], 1);
  const auto text = run_llada(plain);
  EXPECT_NE(text.err.find(" (balanced), "), std::string::npos) << text.err;
  EXPECT_EQ(text.err.find('\x1b'), std::string::npos);
  const auto quiet = run_llada(with({"-q"}));
  EXPECT_EQ(quiet.err, "");
  EXPECT_EQ(quiet.out, text.out);
  const auto piped = run_llada({"run", "-m", tiny_model(), "-q"}, {.stdin_text = kPrompt});
  EXPECT_EQ(piped.out, text.out) << piped.err;
}

TEST(Run, EveryPresetSamplesAndSaysItsSeed) {
  for (const std::string preset : {"exact", "balanced", "fast", "llada2.1"}) {
    Words words = {"run", "-m",      tiny_model(), "-p", kPrompt, "--preset-decode", preset, "--temp", "4", "--top-k",
                   "20",  "--top-p", "0.95",       "-n", "32",    "--json"};
    if (preset == "llada2.1") words.insert(words.end(), {"--kv", "none"});  // its own is for block-causal models
    const auto first = run_llada(words);
    ASSERT_EQ(first.status, 0) << preset << first.err;
    EXPECT_EQ(first.err, "") << preset << " has nothing that is for best tokens only";
    const Json drawn = Json::parse(first.out);
    words.insert(words.end(), {"--seed", std::to_string(drawn["stats"]["seed"].get<uint64_t>())});
    EXPECT_EQ(run_json(words)["tokens"], drawn["tokens"]) << preset;
  }
  for (const char* preset : {"balanced", "fast"}) {  // what the model is unsure of is looked at again
    const Json unsure = run_json({"run", "-m", tiny_model(), "-p", "Once upon a time", "--preset-decode", preset,
                                  "--temp", "1", "-s", "1", "-n", "32", "--json"});
    EXPECT_GT(unsure["stats"]["revisions_made"], 0) << preset;
  }
  const Words words = {"run", "-m", tiny_model(), "-p", kPrompt, "--temp", "20", "-n", "32", "--json"};
  EXPECT_NE(run_json(words)["stats"]["seed"], run_json(words)["stats"]["seed"]) << "drawn anew";
  const auto text = run_llada({"run", "-m", tiny_model(), "-p", kPrompt, "--temp", "1", "-s", "77"});
  EXPECT_NE(text.err.find(" tokens/s (measured), seed 77\n"), std::string::npos) << text.err;
}

TEST(Run, StopStringsAndCutAnswersAreToldApart) {
  const Json stopped = run_json(run_words({"--json", "--stop", "38", "--stop", "zzz"}));
  EXPECT_EQ(stopped["text"], "3 6 ");
  EXPECT_EQ(stopped["finish_reason"], "stop");
  Words words = run_words();
  words[6] = "3";
  const auto cut = run_llada(words);
  EXPECT_NE(cut.err.find("the answer was cut at 3 tokens (--gen-length)\n"), std::string::npos) << cut.err;
  words.push_back("--json");
  EXPECT_EQ(run_json(words)["finish_reason"], "length");
}

TEST(Run, TraceHoldsTheSpans) {
  const TempFolder folder;
  const auto result = run_llada(run_words({"--trace", folder / "trace.json"}));
  ASSERT_EQ(result.status, 0) << result.err;
  std::ifstream file(folder / "trace.json");
  const Json trace = Json::parse(file);
  std::vector<std::string> names;
  double load_end = 0, decode_begin = 0;
  for (const Json& event : trace["traceEvents"]) {
    names.push_back(event["name"]);
    if (event["name"] == "load") load_end = event["ts"].get<double>() + event["dur"].get<double>();
    if (event["name"] == "decode") decode_begin = event["ts"];
  }
  const auto starts = [](const std::string& name, const char* word) { return name.starts_with(word); };
  for (const char* needed : {"load", "decode", "step 0", "matmul", "attention", "head"})
    EXPECT_TRUE(std::ranges::any_of(names, [&](const std::string& name) { return starts(name, needed); })) << needed;
  EXPECT_GT(load_end, 0);
  EXPECT_GE(decode_begin, load_end);
}

// Weights are mapped and dropped once packed, so nothing may hold a second copy of the model for long.
TEST(Run, PeakMemoryIsTheFileTheKeysAndAFixedRest) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory would be measured";
#endif
  const TempFolder folder;
  for (const std::string type : {"f16", "q8_0", "q4_0"}) {
    const std::string file = folder / (type + ".gguf");
    ASSERT_EQ(run_llada({"convert", tiny_model(), file, "--type", type}).status, 0);
    Words words = run_words({"--json"});
    words[2] = file;
    const auto peak = run_json(words)["stats"]["peak_memory_bytes"].get<int64_t>();
    const auto file_bytes = static_cast<int64_t>(fs::file_size(file));
    const int64_t keys_and_values = int64_t{6} * 2 * 256 * 256 * 4;  // layers, K and V, positions, width, at most f32
    EXPECT_GT(peak, file_bytes / 4) << type << ": not a whole model's worth was measured";
    EXPECT_LE(peak, file_bytes + keys_and_values + (int64_t{64} << 20)) << type;
  }
}

TEST(Infill, FillsTheGapsAndKeepsTheText) {
  const auto plain =
      run_llada({"infill", "-m", tiny_model(), "--text", "There are <mask:2> rings in the <mask> of Liam."});
  ASSERT_EQ(plain.status, 0) << plain.err;
  EXPECT_TRUE(plain.out.starts_with("There are ")) << plain.out;
  EXPECT_TRUE(plain.out.ends_with(" of Liam.\n")) << plain.out;
  EXPECT_NE(plain.out.find(" rings in the "), std::string::npos) << plain.out;

  const Json json = run_json({"infill", "-m", tiny_model(), "--text", "-", "--json"},
                             {.stdin_text = "There are <mask:2> rings in the <mask> of Liam."});
  EXPECT_EQ(json["text"].get<std::string>() + "\n", plain.out);
  ASSERT_EQ(json["spans"].size(), 2u);
  EXPECT_EQ(json["spans"][0]["length"], 2);
  EXPECT_EQ(json["spans"][1]["length"], 1);
  EXPECT_EQ(json["stats"]["committed_tokens"], 3);
  for (const Json& span : json["spans"]) {
    const auto position = span["position"].get<size_t>();
    for (size_t i = 0; i < span["tokens"].size(); ++i) EXPECT_EQ(span["tokens"][i], json["tokens"][position + i]);
  }
}

// labels: long
TEST(Eval, ComparesStrategiesInOneReport) {
  const TempFolder folder;
  write_file(
      folder / "tasks.jsonl",
      R"({"task":"sort","prompt":"Sort the numbers from smallest to largest: 38 41 6 51 3","response":"3 6 38 41 51","answer":"3 6 38 41 51"})"
      "\n"
      R"({"task":"sort","prompt":"Sort the numbers from smallest to largest: 9 8","response":"none","answer":"none"})"
      "\n");
  const Json json = run_json({"eval", "-m", tiny_model(), "--tasks", folder / "tasks.jsonl", "--json", "--compare",
                              "slow: --preset-decode exact --gen-length 16", "--compare", "fast: --gen-length 16"});
  ASSERT_EQ(json["results"].size(), 2u);
  for (const Json& result : json["results"]) {
    EXPECT_EQ(result["tasks"]["sort"]["n"], 2);
    EXPECT_EQ(result["tasks"]["sort"]["accuracy"], 0.5);
    EXPECT_EQ(result["accuracy_mean"], 0.5);
  }
  EXPECT_EQ(json["results"][1]["name"], "fast");
  EXPECT_LT(json["results"][1]["nfe_mean"], json["results"][0]["nfe_mean"]);
  const auto table =
      run_llada({"eval", "-m", tiny_model(), "--tasks", folder / "tasks.jsonl", "--limit", "1", "--gen-length", "16"});
  EXPECT_EQ(table.status, 0);
  EXPECT_NE(table.out.find("100.0%"), std::string::npos) << table.out;
}

const char* const kSortTasks =
    R"({"task":"sort","prompt":"Sort the numbers from smallest to largest: 38 41 6 51 3","response":"3 6 38 41 51","answer":"3 6 38 41 51"})"
    "\n"
    R"({"task":"sort","prompt":"Sort the numbers from largest to smallest: 9 8 20 31","response":"31 20 9 8","answer":"31 20 9 8"})"
    "\n";
// Deciding everything at once goes wrong here.
const char* const kHardTask =
    R"({"task":"gsm-mini","prompt":"Mia rides 5 km every morning and 5 km every evening. How many km is that in 4 days?","response":"","answer":"40"})"
    "\n";

// labels: long
TEST(Eval, TellsQualityThreeWays) {
  const TempFolder folder;
  write_file(folder / "tasks.jsonl", kHardTask);
  const Words words = {"eval",
                       "-m",
                       tiny_model(),
                       "--tasks",
                       folder / "tasks.jsonl",
                       "--reference",
                       folder / "reference.jsonl",
                       "--compare",
                       "same: --preset-decode exact --gen-length 40",
                       "--compare",
                       "hasty: --preset-decode exact --gen-length 40 --threshold 0.01"};
  Words with_json = words;
  with_json.insert(with_json.end(), {"--json", "--record", folder / "steps.jsonl"});
  const Json json = run_json(with_json);
  EXPECT_EQ(json["reference"]["n"], 1);
  const Json &same = json["results"][0], &hasty = json["results"][1];
  EXPECT_EQ(same["agreement"], 1.0);
  EXPECT_EQ(same["edit_distance_mean"], 0.0);
  EXPECT_EQ(same["accuracy_difference"], 0.0);
  EXPECT_EQ(same["log_probability_per_token"], json["reference"]["log_probability_per_token"]);
  EXPECT_LT(hasty["agreement"], 1.0);
  EXPECT_LT(hasty["log_probability_per_token"], same["log_probability_per_token"]);
  EXPECT_LT(hasty["log_probability_per_token"], 0.0);

  std::ifstream steps(folder / "steps.jsonl");
  int runs = 0;
  for (std::string line; std::getline(steps, line);) runs += Json::parse(line).contains("run");
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(fs::exists(folder / "reference.jsonl"));
  const auto table = run_llada(words);
  EXPECT_EQ(table.status, 0) << table.err;
  for (const char* column : {"same", "edits", "log p", "reference"})
    EXPECT_NE(table.out.find(column), std::string::npos) << table.out;
}

// labels: long
TEST(Tune, WritesAPresetThatRunTakes) {
  const TempFolder folder;
  write_file(folder / "tasks.jsonl", kSortTasks);
  const auto tuned =
      run_llada({"tune", "-m", tiny_model(), "--tasks", folder / "tasks.jsonl", "-o", folder / "preset.json",
                 "--options", "--gen-length 16", "--minimize", "forwards", "--max-loss", "0"});
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  EXPECT_NE(tuned.out.find("<- chosen"), std::string::npos) << tuned.out;
  EXPECT_NE(tuned.err.find("reference: one token per forward, 100.0 % right"), std::string::npos) << tuned.err;
  std::ifstream file(folder / "preset.json");
  const Json preset = Json::parse(file);
  EXPECT_EQ(preset["format"], "llada-preset");
  EXPECT_TRUE(preset["options"].get<std::string>().starts_with("--gen-length 16 "));
  EXPECT_LT(preset["tuned"]["nfe_mean"], 4);
  const Json run =
      run_json({"run", "-m", tiny_model(), "-p", kPrompt, "--preset-decode", folder / "preset.json", "--json"});
  EXPECT_EQ(run["text"], "3 6 38 41 51");
  EXPECT_EQ(run["tokens"].size(), 16u);
}

TEST(Tune, RefusesWhatItCouldNotTell) {
  const TempFolder folder;
  const Words words = {"tune",
                       "-m",
                       tiny_model(),
                       "--tasks",
                       folder / "tasks.jsonl",
                       "-o",
                       folder / "preset.json",
                       "--reference",
                       folder / "reference.jsonl",
                       "--options",
                       "--gen-length 4 --block-length 4"};
  // Before the reference, which may take hours.
  write_file(folder / "tasks.jsonl", kHardTask);
  expect_refused({words, "found 1 example of task 'gsm-mini', needed at least 2"}, 2);
  EXPECT_FALSE(fs::exists(folder / "reference.jsonl"));
  // Answers that do not fit the canvas are all wrong, by any candidate.
  write_file(folder / "tasks.jsonl", kSortTasks);
  expect_refused({words,
                  "found 0 of 2 answers right, needed 1 or more, or no candidate could lose any; 2 of 2 were cut "
                  "at --gen-length 4"},
                 2);
  EXPECT_FALSE(fs::exists(folder / "preset.json"));
}

TEST(Presets, AreTakenByEveryCommandAndGiveWay) {
  const Json fast = run_json({"run", "-m", tiny_model(), "-p", kPrompt, "--preset-decode", "fast", "--json"});
  EXPECT_EQ(fast["text"], "3 6 38 41 51");
  EXPECT_LT(fast["stats"]["nfe"], 8);
  // An option beside the preset replaces the preset's own, in either order.
  for (const Words& more :
       {Words{"--preset-decode", "balanced", "--tail", "0"}, Words{"--tail", "0", "--preset-decode", "balanced"}}) {
    Words words = {"run", "-m", tiny_model(), "-p", kPrompt, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Json own = run_json(words);
    words[6] == "--tail" ? words[7] = "16" : words[9] = "16";
    EXPECT_LT(own["stats"]["rows"], run_json(words)["stats"]["rows"]);
  }
  const Json gaps =
      run_json({"infill", "-m", tiny_model(), "--text", "a <mask> b", "--preset-decode", "balanced", "--json"});
  EXPECT_EQ(gaps["spans"].size(), 1u);
  expect_refused(
      {{"eval", "-m", tiny_model(), "--tasks", "x", "--compare", "b: --preset-decode balanced --threshold 2"},
       "threshold: found 2"},
      2);
}

TEST(Eval, AnExampleThatDoesNotFitIsNamedBeforeAnyForward) {
  const TempFolder folder;
  const std::string fits = R"({"task":"sort","prompt":"Sort: 2 1","response":"1 2","answer":"1 2"})";
  const std::string long_one =
      R"({"task":"long","prompt":")" + std::string(900, '7') + R"(","response":"","answer":""})";
  write_file(folder / "tasks.jsonl", fits + "\n" + long_one + "\n");
  expect_refused({{"eval", "-m", tiny_model(), "--tasks", folder / "tasks.jsonl", "--gen-length", "16", "--reference",
                   folder / "reference.jsonl"},
                  "example 1 (from 0, task long): "},
                 2);
  EXPECT_EQ(folder.files(), 1u);  // the reference had not begun
}

TEST(Inspect, DescribesTheShippedModel) {
  const Json json = Json::parse(run_llada({"inspect", tiny_model(), "--tensors", "--json"}).out);
  EXPECT_EQ(json["format"], "safetensors");
  EXPECT_EQ(json["architecture"], "llada");
  EXPECT_EQ(json["config"]["layers"], 6);
  EXPECT_EQ(json["config"]["special_ids"]["mask"], 1005);
  EXPECT_EQ(json["tokenizer"]["chat_style"], "llada");
  EXPECT_EQ(json["tensors"].size(), json["tensor_count"]);
  int64_t parameters = 0;
  for (const Json& tensor : json["tensors"]) {
    int64_t elements = 1;
    for (const Json& dim : tensor["dims"]) elements *= dim.get<int64_t>();
    EXPECT_EQ(tensor["bytes"], elements * 2) << tensor["name"];  // bf16
    parameters += elements;
  }
  EXPECT_EQ(json["parameters"], parameters);
  const auto text = run_llada({"inspect", tiny_model(), "--tensors"});
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.out.find("blk.5.ffn_down.weight"), std::string::npos);
}

TEST(Convert, TheResultAnswersLikeItsSource) {
  const TempFolder folder;
  const std::string out = folder / "tiny.gguf";
  write_file(out, "something older");
  const auto converted = run_llada({"convert", tiny_model(), out, "--type", "f16"});
  ASSERT_EQ(converted.status, 0) << converted.err;
  EXPECT_EQ(converted.err.find('\x1b'), std::string::npos);
  EXPECT_NE(converted.out.find("f16 in 44 tensors, f32 in 13 tensors"), std::string::npos) << converted.out;
  EXPECT_LE(std::ranges::count(converted.err, '\n'), 10);
  EXPECT_EQ(folder.files(), 1u);

  const Json inspected = run_json({"inspect", out, "--json"});
  EXPECT_EQ(inspected["format"], "gguf");
  const Json source = run_json({"inspect", tiny_model(), "--json"});
  EXPECT_EQ(inspected["parameters"], source["parameters"]);
  EXPECT_EQ(inspected["tokenizer"]["merges"], source["tokenizer"]["merges"]);
  EXPECT_EQ(inspected["config"]["special_ids"], source["config"]["special_ids"]);
  Words words = run_words({"--json"});
  const Json expected = run_json(words)["text"];
  words[2] = out;
  EXPECT_EQ(run_json(words)["text"], expected);
}

TEST(Convert, AnExistingFileSurvivesAFailure) {
  const TempFolder folder;
  const std::string out = folder / "kept.gguf";
  write_file(out, "kept");
  EXPECT_EQ(run_llada({"convert", tiny_model() + "/config.json", out, "--type", "f16"}).status, 2);
  std::ifstream file(out);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "kept");
}

// Where the GPU cannot be used, whatever the reason, that is one line, and the listing says the same.
TEST(Devices, AGpuThatCannotBeUsedIsOneLine) {
  const auto listed = run_llada({"devices"});
  ASSERT_EQ(listed.status, 0) << listed.err;
  const size_t at = listed.out.find("cuda: not usable: ");
  if (at == std::string::npos) GTEST_SKIP() << "not run: there is a GPU";
  const std::string why = listed.out.substr(at, listed.out.find('\n', at) - at);
  const auto run = run_llada({"run", "-m", tiny_model(), "-p", "hi", "--device", "cuda"});
  EXPECT_EQ(run.status, 2) << "as for any device that is not here";
  EXPECT_EQ(std::ranges::count(run.err, '\n'), 1) << run.err;
  EXPECT_NE(run.err.find(why), std::string::npos) << run.err;
}

TEST(Devices, NameWhatRunWouldUse) {
  const Json json = run_json({"devices", "--json"});
  ASSERT_FALSE(json["devices"].empty());
  const Json& cpu = json["devices"][0];
  EXPECT_EQ(cpu["name"], "cpu");
  EXPECT_EQ(cpu["instruction_sets"].back(), "scalar");
  EXPECT_EQ(cpu["description"], run_json(run_words({"--json"}))["stats"]["device"]);
  const Json scalar = run_json({"devices", "--json"}, {.environment = {"LLADA_ISA=scalar"}});
  EXPECT_NE(scalar["devices"][0]["description"].get<std::string>().find("scalar"), std::string::npos);
}

}  // namespace
}  // namespace llada::test
