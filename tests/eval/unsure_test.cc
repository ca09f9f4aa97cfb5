// What revision is worth where a model is unsure, as a large one is of hard questions: the long model with noise of a
// fixed seed on its matrices, whose early commits are wrong often enough to be worth a second look.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/random.h"
#include "engine/decode_choice.h"
#include "eval/evaluate.h"
#include "formats/safetensors.h"
#include "formats/temp_folder.h"
#include "must.h"
#include "tensor/half.h"

namespace llada::eval {
namespace {

constexpr double kNoise = 0.17;  // of a matrix' root mean square; 0.1 leaves nearly all answers right, 0.2 six of ten
constexpr uint64_t kSeed = 1;
constexpr int64_t kOfEachTask = 50;  // 300 answers

// Of mean 0 and variance 1: four uniform numbers, so that every platform adds the same.
double noise(uint64_t key, uint64_t element) {
  double sum = -2;
  for (uint64_t i = 0; i < 4; ++i) sum += draw(key, 4 * element + i);
  return sum * std::sqrt(3.0);
}

void disturb(std::span<std::byte> values, uint64_t key) {
  const size_t n = values.size() / 2;
  const auto at = [&](size_t i) {
    uint16_t bits = 0;
    std::memcpy(&bits, &values[2 * i], 2);
    return bf16_to_float(bits);
  };
  double squares = 0;
  for (size_t i = 0; i < n; ++i) squares += static_cast<double>(at(i)) * at(i);
  const double scale = kNoise * std::sqrt(squares / static_cast<double>(n));
  for (size_t i = 0; i < n; ++i) {
    const uint16_t bits = float_to_bf16(static_cast<float>(at(i) + scale * noise(key, i)));
    std::memcpy(&values[2 * i], &bits, 2);
  }
}

std::shared_ptr<const Model> unsure_model(const TempFolder& folder) {
  const std::string shipped = LLADA_SOURCE_DIR "/models/tiny-llada-long";
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy_file(shipped + "/" + name, folder / name);
  std::ifstream file(shipped + "/model.safetensors", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const auto weights = parse_safetensors(std::as_bytes(std::span(bytes)), "weights");
  EXPECT_TRUE(weights) << weights.error().message;
  uint64_t matrices = 0;
  for (const SafetensorsTensor& t : weights->tensors) {
    if (t.view.shape.rank != 2 || t.view.type != DType::BF16) continue;
    disturb(std::as_writable_bytes(std::span(bytes)).subspan(t.offset, static_cast<size_t>(t.view.bytes())),
            random_key(kSeed, matrices++, 0));
  }
  EXPECT_GT(matrices, 10U);
  folder.write("model.safetensors", bytes);
  auto model = Model::load(folder.path(), {.threads = 1});
  EXPECT_TRUE(model) << model.error().message;
  return *model;
}

StrategyUnderTest balanced(const std::string& name, bool revises) {
  DecodeChoice choice;
  choice.give_preset("balanced");
  choice.give(*decode::setting("gen_length", "auto:384"));
  if (!revises) choice.give(*decode::setting("revision", "none"));
  const Status resolved = choice.resolve(decode::ModelKind());
  EXPECT_TRUE(resolved) << resolved.error().message;
  return {name, "", choice.options};
}

// labels: long
TEST(UnsureModel, RevisionIsWorthFivePointsAtThreePercentOfTheRows) {
  const TempFolder folder;
  const auto model = unsure_model(folder);
  auto examples = must(load_examples(LLADA_SOURCE_DIR "/eval/long_public.jsonl", kOfEachTask));
  const size_t count = examples->size();
  ASSERT_EQ(count, 300U);
  auto evaluator = must(Evaluator::create(model, std::move(*examples), {}));
  const auto without = (*evaluator)->answers(balanced("without", false), (*evaluator)->all());
  const auto with = (*evaluator)->answers(balanced("with", true), (*evaluator)->all());
  ASSERT_TRUE(without && with);
  Score sum_without, sum_with;
  int64_t won = 0, lost = 0;
  for (size_t i = 0; i < count; ++i) {
    const Score &a = (*without)[i].score, &b = (*with)[i].score;
    sum_without += a, sum_with += b;
    won += b.right > a.right, lost += b.right < a.right;
  }
  EXPECT_GE(sum_with.right, sum_without.right + static_cast<int64_t>(count) / 20);
  EXPECT_GT(paired95(won, lost, static_cast<int64_t>(count)).low, 0.0) << won << " won, " << lost << " lost";
  EXPECT_LE(static_cast<double>(sum_with.rows), 1.03 * static_cast<double>(sum_without.rows));
}

}  // namespace
}  // namespace llada::eval
