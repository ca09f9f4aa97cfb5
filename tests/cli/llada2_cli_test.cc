// A block-causal model from outside: what answers, and what is refused in one line.
#include "cli/process.h"
#include "engine/llada2_files.h"

namespace llada::test {
namespace {

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
  static std::string tasks() {
    write_bytes(file("tasks.jsonl"), R"({"task":"json","prompt":"Sort 3 1 2","response":"b","answer":"b"})"
                                     "\n");
    return file("tasks.jsonl");
  }

  static inline std::filesystem::path folder_;
};

TEST_F(Llada2Cli, RunsAndItsBlocksAreExact) {
  done({"convert", model(), file("q8.gguf"), "--type", "q8_0"});
  std::vector<std::vector<int32_t>> tokens;
  for (const std::string kv : {"none", "block"}) {
    const Json json = json_of(with({"run", "-m", file("q8.gguf"), "-p", "Sort 3 1 2", "--json", "--kv", kv},
                                   split("--preset-decode llada2 --gen-length 20 --steps 8")));
    tokens.push_back(json.at("tokens").get<std::vector<int32_t>>());
    EXPECT_EQ(tokens.back().size(), 20u) << "padding is not shown";
    EXPECT_LE(json.at("stats").at("content_tokens"), 20);
  }
  EXPECT_EQ(tokens[0], tokens[1]);
}

// `balanced` has a form of its own for these models, which is the default too; the published samplers have names.
const std::string kBalancedWords =
    "--kv block --entropy-gate 1 --revise-rows 8 --threshold 0.9 --stable-threshold 0.99";
TEST_F(Llada2Cli, PresetsHaveAFormForIt) {
  const auto answer = [](const std::string& more) {
    return json_of(with({"run", "-m", model(), "-p", "Sort 3 1 2", "--gen-length", "40", "--json"}, split(more)));
  };
  const auto same = [](const Json& a, const Json& b) {
    return a.at("tokens") == b.at("tokens") && a.at("stats").at("steps") == b.at("stats").at("steps") &&
           a.at("stats").at("rows") == b.at("stats").at("rows");
  };
  const Json plain = answer("");
  EXPECT_EQ(plain.at("preset"), "balanced");
  EXPECT_TRUE(same(plain, answer("--preset-decode balanced")));
  EXPECT_TRUE(same(plain, answer(kBalancedWords)));
  EXPECT_FALSE(same(plain, answer("--preset-decode llada2"))) << "the two cannot be told apart here";
  EXPECT_FALSE(same(answer("--preset-decode llada2"), answer("--preset-decode llada2.1")));
  // What goes beside this form and not beside the other.
  EXPECT_TRUE(answer("--preset-decode balanced --kv none").contains("tokens"));
  for (const std::string preset : {"fast", "exact"})
    EXPECT_EQ(answer("--preset-decode " + preset).at("preset"), preset);
}

TEST_F(Llada2Cli, EvaluatesPresetsInTheirFormForIt) {
  const Json results = json_of({"eval", "-m", model(), "--tasks", tasks(), "--no-reference", "--json", "--compare",
                                "balanced: --preset-decode balanced --gen-length 40", "--compare",
                                "words: " + kBalancedWords + " --gen-length 40"})
                           .at("results");
  for (const char* count : {"nfe_mean", "rows_mean"})
    EXPECT_EQ(results.at(0).at("tasks").at("json").at(count), results.at(1).at("tasks").at("json").at(count));
}

TEST_F(Llada2Cli, ChatAndEvalWork) {
  const auto chat = done({"run", "-m", model(), "--chat", "--preset-decode", "llada2.1", "--gen-length", "8", "--json"},
                         {.stdin_text = "a\n"});
  EXPECT_EQ(std::ranges::count(chat.out, '\n'), 1);
  const Json result = json_of({"eval", "-m", model(), "--tasks", tasks(), "--json", "--compare",
                               "exact: --preset-decode exact --gen-length 8 --kv block", "--likelihood-groups", "2"})
                          .at("results")
                          .at(0);
  EXPECT_EQ(result.at("agreement"), 1.0) << "exact blocks answer as full recomputation does";
}

TEST_F(Llada2Cli, ItsRecordingsAreFollowedByABlockCausalModel) {
  done({"convert", model(), file("eight.gguf"), "--type", "f32"});
  std::fstream eight(file("eight.gguf"), std::ios::in | std::ios::out | std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(eight), {}}, key = "llada2.attention.block_length";
  const size_t value = bytes.find(key) + key.size() + 4;  // behind the key its type, then the number
  ASSERT_EQ(bytes[value], 32);
  eight.seekp(static_cast<std::streamoff>(value)).put(8);
  eight.close();
  const auto follow = [](const std::string& model) {
    return with({"bench", "-m", model, "--replay", file("runs.jsonl"), "--json"},
                split("--only e2e --repeats 1 --stream-mib 1"));
  };
  // The second has blocks that the scripted runs of bench could not have with their usual length of 32.
  for (const auto& [of, options] : {std::pair{model(), ""}, {file("eight.gguf"), " --block-length 8"}}) {
    const Json recorded =
        json_of({"eval", "-m", of, "--tasks", tasks(), "--no-reference", "--json", "--record", file("runs.jsonl"),
                 "--compare",
                 std::string("frozen: --preset-decode exact --gen-length 64 --kv frozen --threshold 0.99") + options})
            .at("results")
            .at(0);
    const Json followed = json_of(follow(of)).at("replayed").at(0);
    EXPECT_EQ(followed.at("forwards"), recorded.at("tasks").at("json").at("nfe_mean"));
    EXPECT_EQ(followed.at("rows"), recorded.at("tasks").at("json").at("rows_mean"));
  }
  for (const auto& [other, says] :
       {std::pair{std::string(LLADA_SOURCE_DIR "/models/tiny-llada"), "found an attention block of 8, needed 0"},
        {model(), "found an attention block of 8, needed 32"}}) {
    const auto refused = run_llada(follow(other));
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr(says));
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
    const auto chat = done({"run", "-m", file("odd"), "--chat", "--preset-decode", "llada2", "--gen-length", length,
                            "--steps", "4", "--json"},
                           {.stdin_text = lines});
    EXPECT_EQ(std::ranges::count(chat.out, '\n'), 6) << length;
    EXPECT_THAT(chat.err, HasSubstr("were forgotten to fit the context of 80 tokens"));
  }
}

TEST_F(Llada2Cli, WhatHasNoMeaningIsOneLineAndStatusTwo) {
  for (const auto& [words, says] :
       {std::pair{"--gen-length 8 --kv dual", "--kv: found dual with a block-causal model"},
        {"--gen-length 64 --tail 16", "--tail: found 16 with a block-causal model"},
        {"--gen-length 8 --block-length 64",
         "--block-length: found 64 with a block-causal model of blocks of 32; needed 32"},
        {"--gen-length 8 --preset-decode fast --slide", "--slide: found true with a block-causal model"}})
    expect_one_line(run_llada(with({"run", "-m", model(), "-p", "a"}, split(words))), 2, says);
  expect_one_line(run_llada({"infill", "-m", model(), "--text", "a <mask:2> b"}), 2, "infill: a block-causal model");
}

}  // namespace
}  // namespace llada::test
