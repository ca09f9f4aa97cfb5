// A real GPT-2 vocabulary and the strings that the field tests tokenizers with. The data are not part of the
// repository: the folder comes from LLADA_VOCAB_DIR, or is shared/vocab beside the sources; without it,
// skipped.
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>

#include "text/support.h"

namespace llada {
namespace {

// The few parts of GGUF that a vocabulary needs: string and integer arrays of the metadata.
class MetadataReader {
 public:
  explicit MetadataReader(std::string bytes) : bytes_(std::move(bytes)) {
    at_ = 16;  // magic, version, tensor count
    for (auto left = number<uint64_t>(); left > 0; --left) {
      const std::string key = string();
      value(key, number<uint32_t>());
    }
  }

  std::map<std::string, std::vector<std::string>> strings;
  std::map<std::string, std::vector<int32_t>> integers;

 private:
  template <class T>
  T number() {
    T out{};
    if (at_ + sizeof out > bytes_.size()) throw std::out_of_range("vocabulary file");
    std::memcpy(&out, bytes_.data() + at_, sizeof out);
    at_ += sizeof out;
    return out;
  }

  std::string string() {
    const auto length = number<uint64_t>();
    const std::string out = bytes_.substr(at_, length);
    at_ += length;
    return out;
  }

  void value(const std::string& key, uint32_t type) {
    static constexpr int kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == 8) {
      strings[key].push_back(string());
    } else if (type == 9) {
      const auto element = number<uint32_t>();
      for (auto left = number<uint64_t>(); left > 0; --left) value(key, element);
    } else if (type == 4 || type == 5) {
      integers[key].push_back(number<int32_t>());
    } else {
      at_ += static_cast<size_t>(kSizes[type]);
    }
  }

  std::string bytes_;
  size_t at_ = 0;
};

std::string vocabulary_folder() {
  if (const char* folder = std::getenv("LLADA_VOCAB_DIR")) return folder;
  return LLADA_SOURCE_DIR "/../shared/vocab";
}

TEST(Gpt2Vocabulary, TestStringsGiveTheExpectedIds) {
  const std::string path = vocabulary_folder() + "/ggml-vocab-gpt-2.gguf";
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << "no vocabulary: set LLADA_VOCAB_DIR to a folder with ggml-vocab-gpt-2.gguf";
  const MetadataReader metadata(text_test::read_text(path));
  TokenizerSpec spec;
  spec.tokens = metadata.strings.at("tokenizer.ggml.tokens");
  spec.merges = metadata.strings.at("tokenizer.ggml.merges");
  spec.pre = metadata.strings.at("tokenizer.ggml.pre").at(0);
  for (const int32_t kind : metadata.integers.at("tokenizer.ggml.token_type"))
    spec.kinds.push_back(static_cast<TokenKind>(kind));
  const auto tokenizer = Tokenizer::create(std::move(spec), path);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  ASSERT_EQ(tokenizer->vocab_size(), 50257);

  const std::string texts = text_test::read_text(path + ".inp"), separator = "\n__ggml_vocab_test__\n";
  std::istringstream lines(text_test::read_text(path + ".out"));
  std::string line;
  int compared = 0;
  for (size_t begin = 0; begin <= texts.size() && std::getline(lines, line); ++compared) {
    const size_t end = std::min(texts.find(separator, begin), texts.size());
    const std::string text = texts.substr(begin, end - begin);
    std::istringstream numbers(line);
    const std::vector<int32_t> expected{std::istream_iterator<int32_t>(numbers), {}};
    EXPECT_EQ(tokenizer->encode(text), expected) << text;
    EXPECT_EQ(tokenizer->decode(expected), text);
    begin = end + separator.size();
  }
  EXPECT_GT(compared, 40);
}

}  // namespace
}  // namespace llada
