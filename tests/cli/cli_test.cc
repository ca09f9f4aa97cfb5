// The program from outside: exit statuses, one-line errors, what comes on stdout.

#include "cli/process.h"

namespace llada::test {
namespace {

const std::string kPrompt = "Sort the numbers from smallest to largest: 38 41 6 51 3";

Words run_words(const Words& more = {}) {
  return with({"run", "-m", tiny_model(), "-p", kPrompt, "--gen-length", "24", "--threshold", "0.9"}, more);
}

// All others: tests/data/transcripts/mistakes.txt. The instruction sets that are listed are this machine's.
TEST(WrongCalls, AnUnknownInstructionSet) {
  const ProcessInput input = {.environment = {"LLADA_ISA=abacus"}};
  for (const Words& words : {Words{"run", "-m", tiny_model(), "-p", "x"}, {"devices"}})
    expect_one_line(run_llada(words, input), 2, "abacus");
}

TEST(WrongCalls, AFileNameCannotBreakTheLine) {
  expect_one_line(run_llada({"inspect", "no\nsuch\x1b[1mfile"}), 2, "no\\x0asuch\\x1b[1mfile");
}

// A shell's unset variable in quotes.
TEST(WrongCalls, AnEmptyModelIsNamed) {
  expect_one_line(run_llada({"run", "", "hi"}), 2, "MODEL: found '', needed a file, a folder or a short name");
}

TEST(Output, AFullDiskIsAFailureOfTheMachine) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  for (const Words& words :
       {run_words(), run_words({"--json"}), Words{"inspect", tiny_model()}, Words{"--help"}, Words{"run", "--help"}})
    expect_one_line(run_llada(words, {.stdout_path = "/dev/full"}), 1, "stdout: write failed");
}

TEST(Output, AReaderThatWentAwayIsNoNews) {
  const auto result = run_llada({"inspect", tiny_model(), "--tensors"}, {.close_stdout = true});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err, "");
}

// Two screens of 80 by 24, in which no line is broken by the terminal.
TEST(Help, FitsTwoScreens) {
  LLADA_NEEDS_TERMINAL();
  for (const std::string& command :
       split("run chat infill eval tune inspect convert logits devices synth bench simulate "
             "recommend pull pack score decide doctor")) {
    const auto help = run_llada_on_terminal({command, "--help"}, {.columns = 80, .rows = 24});
    EXPECT_EQ(help.status, 0);
    EXPECT_LE(std::ranges::count(help.out, '\n'), 48) << command;
    for (const int columns : {60, 80, 100}) {
      const auto whole = run_llada_on_terminal({command, "--help-all"}, {.columns = columns, .rows = 24});
      EXPECT_LE(longest_line(whole.out), static_cast<size_t>(columns)) << command << ": " << whole.out;
      EXPECT_LE(longest_line(help.out), 80u) << command << ": " << help.out;
    }
    EXPECT_EQ(run_llada({"help", command}).out, run_llada({command, "--help"}).out) << "a pipe is 80 columns wide";
  }
}

TEST(Help, Version) {
  for (const char* word : {"--version", "-v", "version"}) {
    const auto result = done({word});
    EXPECT_THAT(result.out, testing::MatchesRegex("llada [0-9](.|\n)*"));
    for (const char* part :
         {" (commit ", "\ncompiler: ", "\ninstruction sets: ", "scalar", "\ndevice cpu: ", "\ndevice cuda: "})
      EXPECT_THAT(result.out, HasSubstr(part));
  }
}

TEST(Run, WordsOfOtherProgramsMeanTheSame) {
  const Words brief = {"run", "-m", tiny_model(), "-p", kPrompt, "--json", "--system", "Be brief."};
  const Json own = json_of(with(brief, split("--gen-length 16 --temperature 20 --seed 3 --threads 1")));
  const Words other = {"run", "-m", tiny_model(), "-p", kPrompt, "--json", "-sys", "Be brief."};
  EXPECT_EQ(json_of(with(other, split("-n 16 --temp 20 -s 3 -t 1")))["tokens"], own["tokens"]);
  done({"run", "-m", tiny_model(), "-i", "-n16", "--threshold", "0.9"}, {.stdin_text = kPrompt});
  const auto loud = done(run_words({"-v", "--preset-decode", "exact"}));
  EXPECT_THAT(loud.err, HasSubstr("options: --gen-length=24 --accept=threshold\n"));
}

TEST(Run, TextIsTheAnswerAndStatsAreOneLineOnStderr) {
  const auto plain = done(run_words());
  const Json json = json_of(run_words({"--json"}));
  EXPECT_EQ(plain.out, json["text"].get<std::string>() + "\n");
  EXPECT_EQ(std::ranges::count(plain.err, '\n'), 1);
  EXPECT_THAT(plain.err, HasSubstr(fmt::format("{} tokens", json["stats"]["content_tokens"].get<int>())));
  EXPECT_TRUE(plain.err.ends_with(" tokens/s (measured)\n")) << plain.err;
  const auto loud = run_llada(run_words({"-v"}));
  EXPECT_THAT(loud.err, HasSubstr(" ms per step, peak memory "));
}

TEST(Run, JsonHasTheKeysThatToolsRelyOn) {
  const Json json = json_of(run_words({"--json", "--kv", "prefix"}));
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
  Words words = run_words({"--json"});
  const Json expected = json_of(words)["tokens"];
  words[3] = "-f", words[4] = folder.write("prompt.txt", kPrompt);
  EXPECT_EQ(json_of(words)["tokens"], expected);
  words[4] = "-";
  for (const char* option : {"-f", "-p"}) {
    words[3] = option;
    EXPECT_EQ(json_of(words, {.stdin_text = kPrompt})["tokens"], expected) << option;
  }
}

// labels: long
TEST(Run, RawLeavesTheTemplateAwayAndSystemAddsToIt) {
  const auto prompt_tokens = [](const Words& more) {
    return json_of(run_words(more))["stats"]["prompt_tokens"].get<int>();
  };
  const int chat = prompt_tokens({"--json"});
  EXPECT_LT(prompt_tokens({"--json", "--raw"}), chat);
  EXPECT_GT(prompt_tokens({"--json", "--system", "Be brief."}), chat);
}

// labels: long
TEST(Run, SamplingFollowsTheSeed) {
  const auto tokens = [](const char* seed, const char* threads) {
    return json_of(run_words({"--json", "--temperature", "20", "--seed", seed, "--threads", threads}))["tokens"];
  };
  const Json one = tokens("1", "1");
  EXPECT_EQ(tokens("1", "2"), one);
  EXPECT_NE(tokens("2", "1"), one);
}

TEST(Run, RawTakesArbitraryBytes) {
  for (const std::string& prompt : {std::string("\xff\xfe <|eot_id|> \xf0\x9f\x98\x80"), std::string("\n\n")}) {
    Words words = run_words({"--json", "--raw"});
    words[4] = prompt;
    EXPECT_EQ(json_of(words)["tokens"].size(), 24u);
  }
}

TEST(Run, BalancedIsTheDefaultAndSaysSo) {
  const Words plain = {"run", "-m", tiny_model(), kPrompt};
  const auto more = [&](const std::string& words) { return with(plain, split(words)); };
  const Json own = json_of(more("--json")), named = json_of(more("--json --preset-decode balanced"));
  EXPECT_EQ(own["preset"], "balanced");
  EXPECT_EQ(own["stats"]["canvas_hash"], named["stats"]["canvas_hash"]);
  EXPECT_EQ(own["stats"]["rows"], named["stats"]["rows"]);
  const Json exact = json_of(more("--json --preset-decode exact -n 32"));
  EXPECT_GT(exact["stats"]["nfe"], 4 * own["stats"]["nfe"].get<int>());
  // An option replaces that value of the preset and nothing else: what it has already changes nothing.
  const Json dual = json_of(more("--json --kv dual --tail 16"));
  EXPECT_EQ(dual["preset"], "balanced");
  EXPECT_EQ(dual["stats"]["canvas_hash"], own["stats"]["canvas_hash"]);
  EXPECT_EQ(dual["stats"]["rows"], own["stats"]["rows"]);
  EXPECT_GT(json_of(more("--json --tail all"))["stats"]["rows"], own["stats"]["rows"]);
  expect_one_line(run_llada(more("--kv none")), 2, "--kv none: does not go with preset balanced: --refresh");
  // A fixed schedule replaces it as a whole, which is said.
  const auto schedule = run_llada(more("--json -n 32 --steps 1"));
  EXPECT_EQ(schedule.err, "note: --steps asks for a fixed schedule, so preset balanced is not used\n");
  EXPECT_EQ(Json::parse(schedule.out)["preset"], "");
  EXPECT_EQ(Json::parse(schedule.out)["stats"]["nfe"], 1);
  const auto text = run_llada(plain);
  EXPECT_THAT(text.err, HasSubstr(" (balanced), "));
  EXPECT_EQ(text.err.find('\x1b'), std::string::npos);
  const auto quiet = run_llada(more("-q"));
  EXPECT_EQ(quiet.err, "");
  EXPECT_EQ(quiet.out, text.out);
  const auto piped = run_llada({"run", "-m", tiny_model(), "-q"}, {.stdin_text = kPrompt});
  EXPECT_EQ(piped.out, text.out) << piped.err;
}

TEST(Run, EveryPresetSamplesAndSaysItsSeed) {
  for (const std::string preset : {"exact", "balanced", "fast", "llada2.1"}) {
    Words words = with({"run", "-m", tiny_model(), "-p", kPrompt, "--preset-decode", preset},
                       split("--temp 4 --top-k 20 --top-p 0.95 -n 32 --json"));
    if (preset == "llada2.1") words = with(words, {"--kv", "none"});  // its own is for block-causal models
    const auto first = done(words);
    EXPECT_EQ(first.err, "") << preset << " has nothing that is for best tokens only";
    const Json drawn = Json::parse(first.out);
    words.insert(words.end(), {"--seed", std::to_string(drawn["stats"]["seed"].get<uint64_t>())});
    EXPECT_EQ(json_of(words)["tokens"], drawn["tokens"]) << preset;
  }
  for (const char* preset : {"balanced", "fast"}) {  // what the model is unsure of is looked at again
    const Json unsure = json_of(with({"run", "-m", tiny_model(), "-p", "Once upon a time", "--preset-decode", preset},
                                     split("--temp 1 -s 1 -n 32 --json")));
    EXPECT_GT(unsure["stats"]["revisions_made"], 0) << preset;
  }
  const Words words = {"run", "-m", tiny_model(), "-p", kPrompt, "--temp", "20", "-n", "32", "--json"};
  EXPECT_NE(json_of(words)["stats"]["seed"], json_of(words)["stats"]["seed"]) << "drawn anew";
  const auto text = run_llada({"run", "-m", tiny_model(), "-p", kPrompt, "--temp", "1", "-s", "77"});
  EXPECT_THAT(text.err, HasSubstr(" tokens/s (measured), seed 77\n"));
}

TEST(Run, StopStringsAndCutAnswersAreToldApart) {
  const Json stopped = json_of(run_words({"--json", "--stop", "38", "--stop", "zzz"}));
  EXPECT_EQ(stopped["text"], "3 6 ");
  EXPECT_EQ(stopped["finish_reason"], "stop");
  Words words = run_words();
  words[6] = "3";
  const auto cut = run_llada(words);
  EXPECT_THAT(cut.err, HasSubstr("the answer was cut at 3 tokens (--gen-length)\n"));
  words.push_back("--json");
  EXPECT_EQ(json_of(words)["finish_reason"], "length");
}

TEST(Run, TraceHoldsTheSpans) {
  const TempFolder folder;
  const auto result = done(run_words({"--trace", folder / "trace.json"}));
  const Json trace = Json::parse(folder.read("trace.json"));
  std::vector<std::string> names;
  double load_end = 0, decode_begin = 0;
  for (const Json& event : trace["traceEvents"]) {
    names.push_back(event["name"]);
    if (event["name"] == "load") load_end = event["ts"].get<double>() + event["dur"].get<double>();
    if (event["name"] == "decode") decode_begin = event["ts"];
  }

  for (const char* needed : {"load", "decode", "step 0", "matmul", "attention", "head"})
    EXPECT_THAT(names, testing::Contains(StartsWith(needed)));
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
    done({"convert", tiny_model(), file, "--type", type});
    Words words = run_words({"--json"});
    words[2] = file;
    const auto peak = json_of(words)["stats"]["peak_memory_bytes"].get<int64_t>();
    const auto file_bytes = static_cast<int64_t>(fs::file_size(file));
    const int64_t keys_and_values = int64_t{6} * 2 * 256 * 256 * 4;  // layers, K and V, positions, width, at most f32
    EXPECT_GT(peak, file_bytes / 4) << type << ": not a whole model's worth was measured";
    EXPECT_LE(peak, file_bytes + keys_and_values + (int64_t{64} << 20)) << type;
  }
}

TEST(Infill, FillsTheGapsAndKeepsTheText) {
  const std::string gaps = "There are <mask:2> rings in the <mask> of Liam.";
  const auto plain = done({"infill", "-m", tiny_model(), "--text", gaps});
  EXPECT_TRUE(plain.out.starts_with("There are ")) << plain.out;
  EXPECT_TRUE(plain.out.ends_with(" of Liam.\n")) << plain.out;
  EXPECT_THAT(plain.out, HasSubstr(" rings in the "));

  const Json json = json_of({"infill", "-m", tiny_model(), "--text", "-", "--json"}, {.stdin_text = gaps});
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

// A line of a file of tasks, as the shipped examples are written.
std::string task(const std::string& name, const std::string& prompt, const std::string& answer) {
  return Json({{"task", name}, {"prompt", prompt}, {"response", answer}, {"answer", answer}}).dump() + '\n';
}
const std::string kSortTask = task("sort", kPrompt, "3 6 38 41 51");
const std::string kSortTasks =
    kSortTask + task("sort", "Sort the numbers from largest to smallest: 9 8 20 31", "31 20 9 8");
// Deciding everything at once goes wrong here.
const std::string kHardTask =
    task("gsm-mini", "Mia rides 5 km every morning and 5 km every evening. How many km is that in 4 days?", "40");

// labels: long
TEST(Eval, ComparesStrategiesInOneReport) {
  const TempFolder folder;
  const std::string tasks =
      folder.write("tasks.jsonl", kSortTask + task("sort", "Sort the numbers from smallest to largest: 9 8", "none"));
  const Json json = json_of({"eval", "-m", tiny_model(), "--tasks", tasks, "--json", "--compare",
                             "slow: --preset-decode exact --gen-length 16", "--compare", "fast: --gen-length 16"});
  ASSERT_EQ(json["results"].size(), 2u);
  for (const Json& result : json["results"]) {
    EXPECT_EQ(result["tasks"]["sort"]["n"], 2);
    EXPECT_EQ(result["tasks"]["sort"]["accuracy"], 0.5);
    EXPECT_EQ(result["accuracy_mean"], 0.5);
  }
  EXPECT_EQ(json["results"][1]["name"], "fast");
  EXPECT_LT(json["results"][1]["nfe_mean"], json["results"][0]["nfe_mean"]);
  EXPECT_THAT(done({"eval", "-m", tiny_model(), "--tasks", tasks, "--limit", "1", "--gen-length", "16"}).out,
              HasSubstr("100.0%"));
}

// labels: long
TEST(Eval, TellsQualityThreeWays) {
  const TempFolder folder;
  const Words words =
      with({"eval", "-m", tiny_model(), "--tasks", folder.write("tasks.jsonl", kHardTask)},
           {"--reference", folder / "reference.jsonl", "--compare", "same: --preset-decode exact --gen-length 40",
            "--compare", "hasty: --preset-decode exact --gen-length 40 --threshold 0.01"});
  const Json json = json_of(with(words, {"--json", "--record", folder / "steps.jsonl"}));
  EXPECT_EQ(json["reference"]["n"], 1);
  const Json &same = json["results"][0], &hasty = json["results"][1];
  EXPECT_EQ(same["agreement"], 1.0);
  EXPECT_EQ(same["edit_distance_mean"], 0.0);
  EXPECT_EQ(same["accuracy_difference"], 0.0);
  EXPECT_EQ(same["log_probability_per_token"], json["reference"]["log_probability_per_token"]);
  EXPECT_LT(hasty["agreement"], 1.0);
  EXPECT_LT(hasty["log_probability_per_token"], same["log_probability_per_token"]);
  EXPECT_LT(hasty["log_probability_per_token"], 0.0);

  int runs = 0;
  for (const std::string& line : lines_of(folder.read("steps.jsonl"))) runs += Json::parse(line).contains("run");
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(fs::exists(folder / "reference.jsonl"));
  const auto table = done(words);
  for (const char* column : {"same", "edits", "log p", "reference"}) EXPECT_THAT(table.out, HasSubstr(column));
}

// labels: long
TEST(Tune, WritesAPresetThatRunTakes) {
  const TempFolder folder;
  const auto tuned =
      done({"tune", "-m", tiny_model(), "--tasks", folder.write("tasks.jsonl", kSortTasks), "-o",
            folder / "preset.json", "--options", "--gen-length 16", "--minimize", "forwards", "--max-loss", "0"});
  EXPECT_THAT(tuned.out, HasSubstr("<- chosen"));
  EXPECT_THAT(tuned.err, HasSubstr("reference: one token per forward, 100.0 % right"));
  const Json preset = Json::parse(folder.read("preset.json"));
  EXPECT_EQ(preset["format"], "llada-preset");
  EXPECT_TRUE(preset["options"].get<std::string>().starts_with("--gen-length 16 "));
  EXPECT_LT(preset["tuned"]["nfe_mean"], 4);
  const Json run =
      json_of({"run", "-m", tiny_model(), "-p", kPrompt, "--preset-decode", folder / "preset.json", "--json"});
  EXPECT_EQ(run["text"], "3 6 38 41 51");
  EXPECT_EQ(run["tokens"].size(), 16u);
}

TEST(Tune, RefusesWhatItCouldNotTell) {
  const TempFolder folder;
  const auto tune = [&](const std::string& tasks) {
    return run_llada({"tune", "-m", tiny_model(), "--tasks", folder.write("tasks.jsonl", tasks), "-o",
                      folder / "preset.json", "--reference", folder / "reference.jsonl", "--options",
                      "--gen-length 4 --block-length 4"});
  };
  // Before the reference, which may take hours.
  expect_one_line(tune(kHardTask), 2, "found 1 example of task 'gsm-mini', needed at least 2");
  EXPECT_FALSE(fs::exists(folder / "reference.jsonl"));
  // Answers that do not fit the canvas are all wrong, by any candidate.
  expect_one_line(tune(kSortTasks), 2,
                  "found 0 of 2 answers right, needed 1 or more, or no candidate could lose any; 2 of 2 were cut at "
                  "--gen-length 4");
  EXPECT_FALSE(fs::exists(folder / "preset.json"));
}

TEST(Presets, AreTakenByEveryCommandAndGiveWay) {
  const Json fast = json_of({"run", "-m", tiny_model(), "-p", kPrompt, "--preset-decode", "fast", "--json"});
  EXPECT_EQ(fast["text"], "3 6 38 41 51");
  EXPECT_LT(fast["stats"]["nfe"], 8);
  // An option beside the preset replaces the preset's own, in either order.
  for (const char* order : {"--preset-decode balanced --tail {}", "--tail {} --preset-decode balanced"}) {
    const auto rows = [&](const char* tail) -> int64_t {
      return json_of(with({"run", "-m", tiny_model(), "-p", kPrompt, "--json"},
                          split(fmt::format(fmt::runtime(order), tail))))["stats"]["rows"];
    };
    EXPECT_LT(rows("0"), rows("16"));
  }
  const Json gaps =
      json_of({"infill", "-m", tiny_model(), "--text", "a <mask> b", "--preset-decode", "balanced", "--json"});
  EXPECT_EQ(gaps["spans"].size(), 1u);
  expect_one_line(
      run_llada({"eval", "-m", tiny_model(), "--tasks", "x", "--compare", "b: --preset-decode balanced --threshold 2"}),
      2, "threshold: found 2");
}

TEST(Eval, AnExampleThatDoesNotFitIsNamedBeforeAnyForward) {
  const TempFolder folder;
  const std::string tasks =
      folder.write("tasks.jsonl", task("sort", "Sort: 2 1", "1 2") + task("long", std::string(900, '7'), ""));
  expect_one_line(run_llada({"eval", "-m", tiny_model(), "--tasks", tasks, "--gen-length", "16", "--reference",
                             folder / "reference.jsonl"}),
                  2, "example 1 (from 0, task long): ");
  EXPECT_EQ(folder.files(), 1u);  // the reference had not begun
}

TEST(Inspect, DescribesTheShippedModel) {
  const Json json = json_of({"inspect", tiny_model(), "--tensors", "--json"});
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
  EXPECT_THAT(done({"inspect", tiny_model(), "--tensors"}).out, HasSubstr("blk.5.ffn_down.weight"));
}

TEST(Convert, TheResultAnswersLikeItsSource) {
  const TempFolder folder;
  const std::string out = folder.write("tiny.gguf", "something older");
  const auto converted = done({"convert", tiny_model(), out, "--type", "f16"});
  EXPECT_EQ(converted.err.find('\x1b'), std::string::npos);
  EXPECT_THAT(converted.out, HasSubstr("f16 in 44 tensors, f32 in 13 tensors"));
  EXPECT_LE(std::ranges::count(converted.err, '\n'), 10);
  EXPECT_EQ(folder.files(), 1u);

  const Json inspected = json_of({"inspect", out, "--json"}), source = json_of({"inspect", tiny_model(), "--json"});
  EXPECT_EQ(inspected["format"], "gguf");
  EXPECT_EQ(inspected["parameters"], source["parameters"]);
  EXPECT_EQ(inspected["tokenizer"]["merges"], source["tokenizer"]["merges"]);
  EXPECT_EQ(inspected["config"]["special_ids"], source["config"]["special_ids"]);
  Words words = run_words({"--json"});
  const Json expected = json_of(words)["text"];
  words[2] = out;
  EXPECT_EQ(json_of(words)["text"], expected);
}

TEST(Convert, AnExistingFileSurvivesAFailure) {
  const TempFolder folder;
  const std::string out = folder.write("kept.gguf", "kept");
  EXPECT_EQ(run_llada({"convert", tiny_model() + "/config.json", out, "--type", "f16"}).status, 2);
  EXPECT_EQ(folder.read("kept.gguf"), "kept");
}

// Where the GPU cannot be used, whatever the reason, that is one line, and the listing says the same.
TEST(Devices, AGpuThatCannotBeUsedIsOneLine) {
  const auto listed = done({"devices"});
  const size_t at = listed.out.find("cuda: not usable: ");
  if (at == std::string::npos) GTEST_SKIP() << "not run: there is a GPU";
  const std::string why = listed.out.substr(at, listed.out.find('\n', at) - at);
  expect_one_line(run_llada({"run", "-m", tiny_model(), "-p", "hi", "--device", "cuda"}), 2, why);
}

TEST(Devices, NameWhatRunWouldUse) {
  const Json json = json_of({"devices", "--json"});
  ASSERT_FALSE(json["devices"].empty());
  const Json& cpu = json["devices"][0];
  EXPECT_EQ(cpu["name"], "cpu");
  EXPECT_EQ(cpu["instruction_sets"].back(), "scalar");
  EXPECT_EQ(cpu["description"], json_of(run_words({"--json"}))["stats"]["device"]);
  const Json scalar = json_of({"devices", "--json"}, {.environment = {"LLADA_ISA=scalar"}});
  EXPECT_THAT(scalar["devices"][0]["description"].get<std::string>(), HasSubstr("scalar"));
}

}  // namespace
}  // namespace llada::test
