// What scripts of tools/upstream recorded of published classes and loops, and tiny models in folders without tokenizer.
#pragma once
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "engine/session.h"
#include "formats/convert.h"
#include "must.h"

namespace llada::upstream {

// A folder as a GGUF file in BF16, for as long as this lives.
class Converted {
 public:
  Converted(const std::string& folder, const std::string& name)
      : path(testing::TempDir() + fmt::format("llada_{}_{}.gguf", name, ::getpid())) {
    const auto file = ModelFile::open(folder);
    if (!file || !convert_to_gguf(*file, nullptr, path, {.type = DType::BF16, .progress = {}}))
      throw std::runtime_error("no conversion of " + folder);
  }
  Converted(const Converted&) = delete;
  Converted& operator=(const Converted&) = delete;
  ~Converted() { std::filesystem::remove(path); }

  const std::string path;
};

// answer: an object with `prompt`.
inline Generation generate(const std::shared_ptr<const Model>& model, const nlohmann::json& answer,
                           const decode::DecodeOptions& o) {
  return *must((*Session::create(model, {}))->generate(answer["prompt"].get<std::vector<int32_t>>(), o, {}));
}

// The first tokens of `got`, which has whole blocks, are expected["tokens"].
inline void expect_answer(const nlohmann::json& expected, const Generation& got, const std::string& what) {
  const auto tokens = expected["tokens"].get<std::vector<int32_t>>();
  ASSERT_GE(got.tokens.size(), tokens.size()) << what;
  EXPECT_EQ(std::vector(got.tokens.begin(), got.tokens.begin() + std::ssize(tokens)), tokens) << what;
}

// all: objects with `ids`, and `rows` of logits for the last of them.
inline void expect_logits(const std::shared_ptr<const Model>& model, const nlohmann::json& all,
                          const std::string& what) {
  const auto session = Session::create(model, {});
  for (const nlohmann::json& one : all) {
    const auto ids = one["ids"].get<std::vector<int32_t>>();
    const auto rows = one["rows"].get<std::vector<std::vector<double>>>();
    std::vector<int32_t> positions;
    for (size_t i = ids.size() - rows.size(); i < ids.size(); ++i) positions.push_back(static_cast<int32_t>(i));
    const auto got = must((*session)->logits(ids, positions));
    double worst = 0;
    for (size_t i = 0; i < got->size(); ++i)
      worst = std::max(worst, std::fabs(static_cast<double>((*got)[i]) - rows[i / rows[0].size()][i % rows[0].size()]));
    EXPECT_THAT(worst, testing::Le(5e-4)) << what << ", " << ids.size() << " tokens";
  }
}

}  // namespace llada::upstream
