// A block-causal model from outside: what answers, and what is refused in one line.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "engine/llada2_files.h"

namespace llada::test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

class Llada2Cli : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("llada_llada2_cli_{}", ::getpid());
    std::filesystem::create_directories(folder_);
    write_hf_folder(make_small_model(DType::F32, tiny_llada2(32)), model());
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }
  static std::string model() { return (folder_ / "hf").string(); }
  static std::string file(const char* name) { return (folder_ / name).string(); }

  static inline std::filesystem::path folder_;
};

TEST_F(Llada2Cli, RunsAndItsBlocksAreExact) {
  ASSERT_EQ(run_llada({"convert", model(), file("q8.gguf"), "--type", "q8_0"}).status, 0);
  std::vector<std::vector<int32_t>> tokens;
  for (const char* kv : {"none", "block"}) {
    const auto run = run_llada({"run", "-m", file("q8.gguf"), "-p", "Sort 3 1 2", "--preset-decode", "llada2",
                                "--gen-length", "20", "--steps", "8", "--kv", kv, "--json"});
    ASSERT_EQ(run.status, 0) << run.err;
    const Json json = Json::parse(run.out);
    tokens.push_back(json.at("tokens").get<std::vector<int32_t>>());
    EXPECT_EQ(tokens.back().size(), 20u) << "padding is not shown";
    EXPECT_LE(json.at("stats").at("content_tokens"), 20);
  }
  EXPECT_EQ(tokens[0], tokens[1]);
}

// What only a block-causal model can do is asked of it alone, beside a preset and without one.
TEST_F(Llada2Cli, EditsBlocksTogether) {
  for (const char* preset : {"llada2.1", "balanced", "exact"}) {
    std::vector<Json> answers;
    for (const char* kv : {"none", "block"}) {
      const auto run =
          run_llada({"run", "-m", model(), "-p", "Sort 3 1 2", "--preset-decode", preset, "--revision", "edit-blocks",
                     "--edit-threshold", "0", "--early-stop", "none", "--gen-length", "70", "--kv", kv, "--json"});
      ASSERT_EQ(run.status, 0) << run.err;
      answers.push_back(Json::parse(run.out));
    }
    EXPECT_EQ(answers[0].at("tokens"), answers[1].at("tokens")) << preset;
  }
  const auto refused = run_llada({"run", "-m", LLADA_SOURCE_DIR "/models/tiny-llada", "-p", "x", "--preset-decode",
                                  "exact", "--revision", "edit-blocks"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("--revision: found edit-blocks with full attention, where every position reads"));
}

// `balanced` has a form of its own for these models, which is the default too; the published samplers have names.
TEST_F(Llada2Cli, PresetsHaveAFormForIt) {
  const auto answer = [](std::initializer_list<std::string> more) {
    std::vector<std::string> words = {"run", "-m", model(), "-p", "Sort 3 1 2", "--gen-length", "40", "--json"};
    words.insert(words.end(), more);
    const auto run = run_llada(words);
    EXPECT_EQ(run.status, 0) << run.err;
    return run.status == 0 ? Json::parse(run.out) : Json();
  };
  const auto same = [](const Json& a, const Json& b) {
    return a.at("tokens") == b.at("tokens") && a.at("stats").at("steps") == b.at("stats").at("steps") &&
           a.at("stats").at("rows") == b.at("stats").at("rows");
  };
  const Json plain = answer({});
  EXPECT_EQ(plain.at("preset"), "balanced");
  EXPECT_TRUE(same(plain, answer({"--preset-decode", "balanced"})));
  EXPECT_TRUE(same(plain, answer({"--kv", "block", "--entropy-gate", "1", "--revise-rows", "8", "--threshold", "0.9",
                                  "--stable-threshold", "0.99"})));
  EXPECT_FALSE(same(plain, answer({"--preset-decode", "llada2"}))) << "the two cannot be told apart here";
  EXPECT_FALSE(same(answer({"--preset-decode", "llada2"}), answer({"--preset-decode", "llada2.1"})));
  // What goes beside this form and not beside the other.
  EXPECT_TRUE(answer({"--preset-decode", "balanced", "--kv", "none"}).contains("tokens"));
  for (const char* preset : {"fast", "exact"}) EXPECT_EQ(answer({"--preset-decode", preset}).at("preset"), preset);
}

TEST_F(Llada2Cli, EvaluatesPresetsInTheirFormForIt) {
  write_bytes(file("tasks.jsonl"), R"({"task":"json","prompt":"Sort 3 1 2","response":"b","answer":"b"})"
                                   "\n");
  const auto eval = run_llada({"eval", "-m", model(), "--tasks", file("tasks.jsonl"), "--no-reference", "--json",
                               "--compare", "balanced: --preset-decode balanced --gen-length 40", "--compare",
                               "words: --kv block --entropy-gate 1 --revise-rows 8 --threshold 0.9 "
                               "--stable-threshold 0.99 --gen-length 40"});
  ASSERT_EQ(eval.status, 0) << eval.err;
  const Json results = Json::parse(eval.out).at("results");
  for (const char* count : {"nfe_mean", "rows_mean"})
    EXPECT_EQ(results.at(0).at("tasks").at("json").at(count), results.at(1).at("tasks").at("json").at(count));
}

TEST_F(Llada2Cli, ChatAndEvalWork) {
  const auto chat =
      run_llada({"run", "-m", model(), "--chat", "--preset-decode", "llada2.1", "--gen-length", "8", "--json"},
                {.stdin_text = "a\n"});
  ASSERT_EQ(chat.status, 0) << chat.err;
  EXPECT_EQ(std::ranges::count(chat.out, '\n'), 1);
  write_bytes(file("tasks.jsonl"), R"({"task":"json","prompt":"a","response":"b","answer":"b"})"
                                   "\n");
  const auto eval = run_llada({"eval", "-m", model(), "--tasks", file("tasks.jsonl"), "--json", "--compare",
                               "exact: --preset-decode exact --gen-length 8 --kv block", "--likelihood-groups", "2"});
  ASSERT_EQ(eval.status, 0) << eval.err;
  const Json result = Json::parse(eval.out).at("results").at(0);
  EXPECT_EQ(result.at("agreement"), 1.0) << "exact blocks answer as full recomputation does";
}

TEST_F(Llada2Cli, ItsRecordingsAreFollowedByABlockCausalModel) {
  write_bytes(file("tasks.jsonl"), R"({"task":"json","prompt":"Sort 3 1 2","response":"b","answer":"b"})"
                                   "\n");
  ASSERT_EQ(run_llada({"convert", model(), file("eight.gguf"), "--type", "f32"}).status, 0);
  std::fstream eight(file("eight.gguf"), std::ios::in | std::ios::out | std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(eight), {}}, key = "llada2.attention.block_length";
  const size_t value = bytes.find(key) + key.size() + 4;  // behind the key its type, then the number
  ASSERT_EQ(bytes[value], 32);
  eight.seekp(static_cast<std::streamoff>(value)).put(8);
  eight.close();
  const auto follow = [](const std::string& model, const std::string& runs) {
    return run_llada(
        {"bench", "-m", model, "--only", "e2e", "--repeats", "1", "--stream-mib", "1", "--replay", runs, "--json"});
  };
  // The second has blocks that the scripted runs of bench could not have with their usual length of 32.
  for (const auto& [of, options] : {std::pair{model(), ""}, {file("eight.gguf"), " --block-length 8"}}) {
    const auto eval = run_llada(
        {"eval", "-m", of, "--tasks", file("tasks.jsonl"), "--no-reference", "--json", "--record", file("runs.jsonl"),
         "--compare",
         std::string("frozen: --preset-decode exact --gen-length 64 --kv frozen --threshold 0.99") + options});
    ASSERT_EQ(eval.status, 0) << eval.err;
    const Json recorded = Json::parse(eval.out).at("results").at(0);
    const auto bench = follow(of, file("runs.jsonl"));
    ASSERT_EQ(bench.status, 0) << bench.err;
    const Json followed = Json::parse(bench.out).at("replayed").at(0);
    EXPECT_EQ(followed.at("forwards"), recorded.at("tasks").at("json").at("nfe_mean"));
    EXPECT_EQ(followed.at("rows"), recorded.at("tasks").at("json").at("rows_mean"));
  }
  for (const auto& [other, says] :
       {std::pair{std::string(LLADA_SOURCE_DIR "/models/tiny-llada"), "found an attention block of 8, needed 0"},
        {model(), "found an attention block of 8, needed 32"}}) {
    const auto refused = follow(other, file("runs.jsonl"));
    EXPECT_EQ(refused.status, 2);
    EXPECT_NE(refused.err.find(says), std::string::npos) << refused.err;
  }
}

// A context of 80 has room for two blocks of 32: what fits by its tokens alone is too long with its padding.
TEST_F(Llada2Cli, ChatForgetsForTheSakeOfPadding) {
  ModelConfig config = tiny_llada2(32);
  config.context = 80;
  write_hf_folder(make_small_model(DType::F32, config), file("odd"));
  std::string lines;
  for (int i = 0; i < 6; ++i) lines += "ab\n";
  for (const char* length : {"12", "20", "24"}) {
    const auto chat = run_llada({"run", "-m", file("odd"), "--chat", "--preset-decode", "llada2", "--gen-length",
                                 length, "--steps", "4", "--json"},
                                {.stdin_text = lines});
    ASSERT_EQ(chat.status, 0) << length << ": " << chat.err;
    EXPECT_EQ(std::ranges::count(chat.out, '\n'), 6) << length;
    EXPECT_NE(chat.err.find("were forgotten to fit the context of 80 tokens"), std::string::npos) << chat.err;
  }
}

TEST_F(Llada2Cli, WhatHasNoMeaningIsOneLineAndStatusTwo) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"run", "-m", model(), "-p", "a", "--gen-length", "8", "--kv", "dual"},
       "--kv: found dual with a block-causal model"},
      {{"run", "-m", model(), "-p", "a", "--gen-length", "64", "--tail", "16"},
       "--tail: found 16 with a block-causal model"},
      {{"run", "-m", model(), "-p", "a", "--gen-length", "8", "--block-length", "64"},
       "--block-length: found 64 with a block-causal model of blocks of 32; needed 32"},
      {{"run", "-m", model(), "-p", "a", "--gen-length", "8", "--preset-decode", "fast", "--slide"},
       "--slide: found true with a block-causal model"},
      {{"infill", "-m", model(), "--text", "a <mask:2> b"}, "infill: a block-causal model"}};
  for (const auto& [words, says] : cases) {
    const auto run = run_llada(words);
    EXPECT_EQ(run.status, 2) << says;
    EXPECT_EQ(run.out, "");
    EXPECT_NE(run.err.find(says), std::string::npos) << run.err;
    EXPECT_EQ(std::ranges::count(run.err, '\n'), 1) << run.err;
  }
}

}  // namespace
}  // namespace llada::test
