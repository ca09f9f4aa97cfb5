// What of a Hugging Face folder is refused before its weights are there, and what an answer ends at.
#include "engine/folder_check.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/model.h"

namespace llada {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FolderCheck : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("llada_folder_check_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json"})
      fs::copy_file(fs::path(LLADA_SOURCE_DIR "/models/tiny-llada") / name, folder_ / name);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void change(const char* name, const std::string& from, const std::string& to) {
    std::ifstream in(folder_ / name);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    ASSERT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
    std::ofstream(folder_ / name) << text;
  }
  std::string outcome() const {
    const Status status = check_folder(folder_.string());
    return status ? "fine" : status.error().message;
  }
  fs::path folder_;
};

TEST_F(FolderCheck, WithoutWeights) {
  EXPECT_EQ(outcome(), "fine");
  change("config.json", R"("embedding_size": 1024)", R"("embedding_size": 1000)");
  EXPECT_THAT(outcome(), HasSubstr("is 1005, below the vocabulary size 1000"));
  change("config.json", R"("mask_token_id": 1005,)", "");
  for (const char* name : {"eos_token_id", "pad_token_id", "bos_token_id", "eot_token_id"})
    change("config.json", name, std::string("no_") + name);
  EXPECT_THAT(outcome(), HasSubstr("the tokenizer has 1006 tokens, the embedding table 1000"));
  fs::remove(folder_ / "tokenizer.json");
  EXPECT_THAT(outcome(), HasSubstr("has no tokenizer that can be read"));
}

TEST_F(FolderCheck, AnAnswerEndsAtEveryEnd) {
  ModelConfig config;
  config.mask_id = 5, config.eos_id = 1, config.end_ids = {7, 1, 8};
  EXPECT_THAT(resolve_special_ids(config, nullptr, ChatStyle::plain).end_ids, testing::UnorderedElementsAre(1, 7, 8));
}

}  // namespace
}  // namespace llada
