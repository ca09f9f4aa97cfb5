// WeDLM: logits and whole answers of Qwen2's and Qwen3's classes over rows in the order in which they were decided, and
// of a loop that gives what its published engine does (tools/upstream/wedlm.py).
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/session.h"
#include "formats/convert.h"
#include "kernels/kernels.h"
#include "memory/prefix_cache.h"

namespace llada::wedlm {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Le;

const std::string kMade = LLADA_SOURCE_DIR "/tests/data/wedlm/";
constexpr const char* kKinds[] = {"qwen3", "qwen2"};

const json& golden(const std::string& kind) {
  static const json all = json::parse(std::ifstream(kMade + "golden.json"));
  return all["models"][kind];
}

// A folder as a GGUF; made once. The folders have no tokenizer.
class Converted {
 public:
  explicit Converted(const std::string& kind)
      : path_(testing::TempDir() + fmt::format("llada_wedlm_{}_{}.gguf", kind, ::getpid())) {
    const auto folder = ModelFile::open(kMade + kind);
    if (!folder || !convert_to_gguf(*folder, nullptr, path_, {.type = DType::BF16, .progress = {}}))
      throw std::runtime_error("no conversion");
  }
  ~Converted() { std::filesystem::remove(path_); }
  static const std::string& path(const std::string& kind) {
    static const Converted qwen3("qwen3"), qwen2("qwen2");
    return kind == "qwen3" ? qwen3.path_ : qwen2.path_;
  }

 private:
  const std::string path_;
};

std::shared_ptr<const Model> load(const std::string& kind, LoadOptions options = {}) {
  options.threads = 2;
  const auto model = Model::load(Converted::path(kind), options);
  if (!model) throw std::runtime_error(model.error().message);
  return *model;
}

decode::DecodeOptions published(const json& answer, decode::KvChoice kv = decode::KvChoice::block) {
  decode::DecodeOptions o;
  o.gen_length = answer["length"], o.block_length = answer["window"];
  o.acceptance = decode::Acceptance::wedlm, o.entropy_bound = answer["bound"];
  o.kv = kv;
  return o;
}

Generation generate(const std::shared_ptr<const Model>& model, const json& answer, const decode::DecodeOptions& o) {
  auto got = (*Session::create(model, {}))->generate(answer["prompt"].get<std::vector<int32_t>>(), o, {});
  if (!got) throw std::runtime_error(got.error().message);
  return std::move(*got);
}

void expect_published(const std::shared_ptr<const Model>& model, const std::string& kind, const std::string& what) {
  const auto session = Session::create(model, {});
  for (const json& one : golden(kind)["logits"]) {
    const auto ids = one["ids"].get<std::vector<int32_t>>();
    const auto rows = one["rows"].get<std::vector<std::vector<double>>>();
    std::vector<int32_t> positions;
    for (size_t i = ids.size() - rows.size(); i < ids.size(); ++i) positions.push_back(static_cast<int32_t>(i));
    const auto got = (*session)->logits(ids, positions);
    ASSERT_TRUE(got) << got.error().message;
    double worst = 0;
    for (size_t i = 0; i < got->size(); ++i)
      worst = std::max(worst, std::fabs(static_cast<double>((*got)[i]) - rows[i / rows[0].size()][i % rows[0].size()]));
    EXPECT_THAT(worst, Le(5e-4)) << what << ", " << ids.size() << " tokens";
  }
  for (const json& answer : golden(kind)["answers"]) {
    const Generation got = generate(model, answer, published(answer));
    const auto tokens = answer["tokens"].get<std::vector<int32_t>>();
    ASSERT_GE(got.tokens.size(), tokens.size());
    EXPECT_EQ(std::vector(got.tokens.begin(), got.tokens.begin() + std::ssize(tokens)), tokens) << what;
    EXPECT_EQ(got.stats.decode.nfe, answer["forwards"].get<int64_t>()) << what;
  }
}

// labels: native
TEST(Wedlm, LogitsAndAnswersAreThoseOfItsClassAndLoop) {
  for (const std::string kind : kKinds)
    for (const auto* table : kernels::available())
      expect_published(load(kind, {.isa = std::string(table->isa)}), kind, fmt::format("{}, {}", kind, table->isa));
}

TEST(Wedlm, FoldersAndFilesSayTheSame) {
  for (const std::string kind : kKinds)
    for (const std::string& path : {kMade + kind, Converted::path(kind)}) {
      const auto file = ModelFile::open(path);
      ASSERT_TRUE(file) << file.error().message;
      EXPECT_TRUE(file->config().decided_first);
      EXPECT_EQ(file->config().attention_block, 16);
      EXPECT_EQ(file->config().mask_id, 90);
      EXPECT_EQ(file->config().qk_norm, kind == "qwen3");
      EXPECT_EQ(file->config().qkv_bias, kind == "qwen2");
    }
}

TEST(Wedlm, WhatIsKeptIsWhatWouldBeComputed) {
  const auto model = load("qwen3");
  for (const json& answer : golden("qwen3")["answers"]) {
    const Generation kept = generate(model, answer, published(answer));
    const Generation all = generate(model, answer, published(answer, decode::KvChoice::none));
    EXPECT_EQ(kept.stats.canvas_hash, all.stats.canvas_hash);
    EXPECT_EQ(kept.stats.decode.nfe, all.stats.decode.nfe);
    EXPECT_LE(kept.stats.decode.rows, all.stats.decode.rows);
  }
}

// One window of one position is an autoregressive model that reads a mask, whatever the rule.
TEST(Wedlm, WindowsOfOneDecideOneTokenAfterTheOther) {
  const auto model = load("qwen3");
  json answer = golden("qwen3")["answers"][1];
  answer["window"] = 1;
  const Generation got = generate(model, answer, published(answer));
  const auto session = Session::create(model, {});
  auto text = answer["prompt"].get<std::vector<int32_t>>();
  const int32_t mask = model->special_ids().mask;
  for (const int32_t token : got.tokens) {
    text.push_back(mask);
    auto row = *(*session)->logits(text, std::vector{static_cast<int32_t>(text.size() - 1)});
    row[static_cast<size_t>(mask)] = -INFINITY;
    text.back() = static_cast<int32_t>(std::ranges::max_element(row) - row.begin());
    ASSERT_EQ(text.back(), token);
    if (token == model->special_ids().eos) break;
  }
}

TEST(Wedlm, KeptPrefixesChangeNothing) {
  const auto model = load("qwen3");
  const auto session = Session::create(model, {.prefixes = std::make_shared<PrefixCache>(int64_t{1} << 24)});
  ASSERT_TRUE(session) << session.error().message;
  json asked = golden("qwen3")["answers"][2];
  int64_t reused = 0;
  for (int repeat = 0; repeat < 2; ++repeat) {
    const auto shared = (*session)->generate(asked["prompt"].get<std::vector<int32_t>>(), published(asked), {});
    ASSERT_TRUE(shared) << shared.error().message;
    EXPECT_EQ(shared->tokens, generate(model, asked, published(asked)).tokens);
    reused += shared->stats.reused_positions;
  }
  EXPECT_EQ(reused, 64) << "whole pages of a prompt of 70";
}

TEST(Wedlm, RefusesWhatItsWindowCannotDo) {
  const auto model = load("qwen3");
  json asked = golden("qwen3")["answers"][0];
  decode::DecodeOptions o = published(asked);
  o.neighbour_penalty = 1;
  const auto refused = (*Session::create(model, {}))->generate(std::vector<int32_t>{5, 6}, o, {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("neighbour_penalty: found 1 with a model that reads finished text"));
}

}  // namespace
}  // namespace llada::wedlm
