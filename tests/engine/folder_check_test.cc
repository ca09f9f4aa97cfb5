// What of a Hugging Face folder is refused before its weights are there, and what an answer ends at.
#include "engine/folder_check.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/convert.h"
#include "engine/inspect.h"
#include "engine/model.h"
#include "formats/temp_folder.h"
#include "must.h"

namespace llada {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FolderCheck : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json"})
      fs::copy_file(fs::path(LLADA_SOURCE_DIR "/models/tiny-llada") / name, folder_ / name);
  }
  void change(const char* name, const std::string& from, const std::string& to) {
    std::ifstream in(folder_ / name);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    ASSERT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
    std::ofstream(folder_ / name) << text;
  }
  std::string outcome() const { return why_not(check_folder(folder_.string())); }
  const TempFolder temp_;
  const fs::path folder_ = temp_.path();
};

TEST_F(FolderCheck, WithoutWeights) {
  EXPECT_EQ(outcome(), "");
  change("config.json", R"("embedding_size": 1024)", R"("embedding_size": 1000)");
  EXPECT_THAT(outcome(), HasSubstr("is 1005, below the vocabulary size 1000"));
  change("config.json", R"("mask_token_id": 1005,)", "");
  for (const char* name : {"eos_token_id", "pad_token_id", "bos_token_id", "eot_token_id"})
    change("config.json", name, std::string("no_") + name);
  EXPECT_THAT(outcome(), HasSubstr("the tokenizer has 1006 tokens, the embedding table 1000"));
  fs::remove(folder_ / "tokenizer.json");
  EXPECT_THAT(outcome(), HasSubstr("has no tokenizer that can be read"));
}

TEST_F(FolderCheck, AnAutoregressiveModelIsNamedWithTheOptionsThatItNeeds) {
  change("config.json", "LLaDAModelLM", "LlamaForCausalLM");
  EXPECT_THAT(outcome(), HasSubstr("llama is the architecture of autoregressive models, and the file says nothing of "
                                   "diffusion; needed attention_block N (0: each position sees all)"));
}

TEST_F(FolderCheck, OptionsSayWhatItsFileDoesNot) {
  change("config.json", "LLaDAModelLM", "LlamaForCausalLM");
  EXPECT_TRUE(check_folder(folder_.string(), {.mask_id = 1005, .attention_block = 4}));
  EXPECT_THAT(why_not(check_folder(folder_.string(), {.mask_id = 1005, .attention_block = 1 << 20})),
              HasSubstr("1048576 positions are decoded together, needed at most the context"));
}

TEST_F(FolderCheck, WhatTheHubAnnouncesIsComparedWithTheMemory) {
  fs::create_directories(folder_ / "root/proc");
  std::ofstream(folder_ / "root/proc/meminfo") << "MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n";
  LoadOptions load;
  load.system_root = (folder_ / "root").string();
  const auto outcome = [&](int64_t bytes, const char* architecture = "llada") {
    return why_not(check_announced("a/b", architecture, bytes, &load));
  };
  EXPECT_EQ(outcome(8'192'000'000), "");
  EXPECT_THAT(outcome(16'000'000'000),
              HasSubstr("a/b: its weights are 16.00 GB, the machine has 8.19 GB of memory left"));
  EXPECT_THAT(outcome(1, "phi3"), HasSubstr("general.architecture is \"phi3\", which is an ordinary, autoregressive"));
  EXPECT_THAT(outcome(1, "bert2000"), HasSubstr("general.architecture is \"bert2000\", llada, "));
  EXPECT_THAT(outcome(1, "clover_moe"), HasSubstr("is not supported: it needs Gated DeltaNet layers"));
  EXPECT_TRUE(check_announced("a/b", "", 16'000'000'000, nullptr)) << "nobody is about to load it";
  // A machine of little memory keeps packed weights on disk.
  std::ofstream(folder_ / "root/proc/meminfo") << "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n";
  load.pack_cache.use = PackCache::Use::found;
  EXPECT_EQ(outcome(16'000'000'000), "");
  load.pack_cache.use = PackCache::Use::none;
  EXPECT_THAT(outcome(16'000'000'000), HasSubstr("has 4.10 GB"));
  load.system_root.clear();
  EXPECT_EQ(outcome(16'000'000'000), "") << "nobody looks";
}

TEST_F(FolderCheck, AMaskThatEndsAnswersIsRefused) {
  change("config.json", R"("mask_token_id": 1005)", R"("mask_token_id": 1001)");
  EXPECT_THAT(outcome(), HasSubstr("token 1001 is the mask and ends an answer, needed another mask (mask_id)"));
}

// A padding token that is a byte of text is no fault of a folder; a GGUF file's vocabulary has no place for it.
TEST_F(FolderCheck, AFileThatWouldNotOpenIsNotWritten) {
  fs::create_symlink(LLADA_SOURCE_DIR "/models/tiny-llada/model.safetensors", folder_ / "model.safetensors");
  const std::string out = folder_ / "out.gguf";
  ASSERT_TRUE(convert_model({.path = folder_, .out_path = out, .type = "q8_0", .imatrix = {}}, {}));
  change("config.json", R"("bos_token_id": 1000)", R"("bos_token_id": 0)");
  ASSERT_EQ(outcome(), "");
  for (const char* type : {"q8_0", "f16"}) {
    const auto report = convert_model({.path = folder_, .out_path = out, .type = type, .imatrix = {}}, {});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().kind, ErrorKind::invalid_input);
    EXPECT_THAT(report.error().message,
                testing::StartsWith(folder_.string() + ": cannot be kept in a GGUF file: " + out));
  }
  const auto kept = must(inspect_model(out));
  EXPECT_EQ(kept->config.pad_id, 1001);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 5) << "nothing else is left";
}

// No text is ever padded here, so padding that is text takes nothing from the vocabulary.
TEST_F(FolderCheck, PaddingMayBeAByteOfText) {
  fs::create_symlink(LLADA_SOURCE_DIR "/models/tiny-llada/model.safetensors", folder_ / "model.safetensors");
  change("config.json", R"("pad_token_id": 1001)", R"("pad_token_id": 0)");
  const std::string out = folder_ / "out.gguf";
  const auto report = must(convert_model({.path = folder_, .out_path = out, .type = "q8_0", .imatrix = {}}, {}));
  const auto summary = must(inspect_model(out));
  EXPECT_EQ(summary->config.pad_id, 0);
  EXPECT_NE(summary->command, "");
}

TEST_F(FolderCheck, WithoutATokenizerItIsInspected) {
  fs::create_symlink(LLADA_SOURCE_DIR "/models/tiny-llada/model.safetensors", folder_ / "model.safetensors");
  fs::remove(folder_ / "tokenizer.json");
  const auto summary = must(inspect_model(folder_.string()));
  EXPECT_THAT(summary->missing, HasSubstr("has no tokenizer that can be read"));
  EXPECT_EQ(summary->command, "");
  EXPECT_FALSE(summary->tokenizer);
  EXPECT_GT(summary->parameters, 0);
}

TEST_F(FolderCheck, AnEmptyTokenizerIsNamed) {
  std::ofstream(folder_ / "tokenizer.json", std::ios::trunc).flush();
  EXPECT_THAT(outcome(), HasSubstr("tokenizer.json: is empty, a JSON object needed"));
}

// The text of a token that the model uses as its end is plain text in a prompt, also where config.json alone says so.
TEST_F(FolderCheck, IdsOfTheConfigurationAreControlTokens) {
  std::ofstream(folder_ / "tokenizer_config.json")
      << R"({"added_tokens_decoder": {"1001": {"content": "<|endoftext|>", "special": false, "normalized": false}}})";
  ModelConfig config;
  const auto read = [&] {
    auto spec = read_folder_tokenizer(folder_.string(), config);
    EXPECT_TRUE(spec) << spec.error().message;
    return *spec;
  };
  EXPECT_EQ(read().eos, -1);
  EXPECT_EQ(Tokenizer::create(read(), "f")->encode("<|endoftext|>"), std::vector<int32_t>{1001});
  config.eos_id = config.pad_id = 1001, config.bos_id = 5, config.eot_id = 2000;
  const TokenizerSpec spec = read();
  EXPECT_EQ(spec.eos, 1001);
  EXPECT_EQ(spec.pad, 1001);
  EXPECT_EQ(spec.bos, -1) << "a piece of text";
  EXPECT_EQ(spec.eot, 1004) << "known by its name";
  EXPECT_GT(Tokenizer::create(spec, "f")->encode("<|endoftext|>").size(), 1u);
}

TEST_F(FolderCheck, ATokenizerThatIsTooLargeIsToldOfByInspectAndConvert) {
  fs::create_symlink(LLADA_SOURCE_DIR "/models/tiny-llada/model.safetensors", folder_ / "model.safetensors");
  change("tokenizer_config.json", R"("added_tokens_decoder": {)",
         R"("added_tokens_decoder": {"1030": {"content": "<|more|>", "special": true},)");
  const std::string line = folder_.string() + ": the tokenizer has 1031 tokens, the embedding table 1024";
  const auto summary = must(inspect_model(folder_.string()));
  EXPECT_THAT(summary->config.notes, testing::Contains(line));
  EXPECT_EQ(
      why_not(convert_model(
          {.path = folder_.string(), .out_path = (folder_ / "out.gguf").string(), .type = "f16", .imatrix = {}}, {})),
      line);
  EXPECT_FALSE(fs::exists(folder_ / "out.gguf"));
}

TEST_F(FolderCheck, ADamagedTokenizerIsNotConverted) {
  fs::create_symlink(LLADA_SOURCE_DIR "/models/tiny-llada/model.safetensors", folder_ / "model.safetensors");
  change("tokenizer.json", R"("merges": [)", R"("merges": ["a nope",)");
  const auto converted = convert_model(
      {.path = folder_.string(), .out_path = (folder_ / "out.gguf").string(), .type = "f16", .imatrix = {}}, {});
  ASSERT_FALSE(converted);
  EXPECT_EQ(exit_status(converted.error()), 2);
  EXPECT_THAT(converted.error().message, HasSubstr(R"(merge 0 ("a nope") needs the token "nope")"));
  EXPECT_FALSE(fs::exists(folder_ / "out.gguf"));
}

TEST_F(FolderCheck, AnAnswerEndsAtEveryEnd) {
  ModelConfig config;
  config.mask_id = 5, config.eos_id = 1, config.end_ids = {7, 1, 8};
  EXPECT_THAT(resolve_special_ids(config, nullptr, ChatStyle::plain).end_ids, testing::UnorderedElementsAre(1, 7, 8));
}

}  // namespace
}  // namespace llada
