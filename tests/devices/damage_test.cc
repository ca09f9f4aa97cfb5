// One value that is not finite, anywhere a forward reads it: in one weight of any kind and type, in the embedding of
// one token, in one key or value that a row sees, in the logit of a token that takes no part. Always the one error,
// never a prediction; and none of it where no row looks. On every instruction set of the cpu device and on a sim device
// in front of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "devices/cpu/cpu_device.h"
#include "devices/cpu/scratch.h"
#include "kernels/kernels.h"
#include "must.h"
#include "one_stream.h"
#include "sched/executor.h"
#include "small_model.h"
#include "study/sim/sim_device.h"
#include "tensor/half.h"

namespace llada::damage {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
constexpr std::array kBad = {kNan, kInfinity, -kInfinity};
constexpr int64_t kPositions = 64;

bool quick_run() { return std::getenv("LLADA_TEST_QUICK") != nullptr; }

// A device's name: an instruction set of the cpu device, or "sim".
class Damage : public testing::TestWithParam<std::string> {
 protected:
  static Result<std::unique_ptr<Device>> open_device(const SmallModel& m) {
    const std::string isa = GetParam() == "sim" ? "" : GetParam();
    LLADA_TRY(auto cpu, make_cpu_device({.threads = 2, .isa = isa}, m.graph.weights, m.views, {}));
    if (GetParam() != "sim") return cpu;
    std::vector<WeightSize> sizes;
    for (const TensorView& v : m.views) sizes.push_back({v.bytes(), v.type, v.shape.rank > 1});
    LLADA_TRY(const Profile profile, load_profile("sm8750-paper"));
    LLADA_TRY(auto device, make_sim_device(profile, {}, m.graph.weights, sizes, std::move(cpu)));
    return device;
  }

  void make(DType type, const ModelConfig& config) {
    model_ = make_small_model(type, config);
    tokens_ = random_tokens(19, config.vocab);
  }
  void open(int sequences = 1, DType kv = DType::F16) {
    kv_.reset();
    device_ = *must(open_device(model_));
    executor_ = std::make_unique<Executor>(*device_, forwards_of(model_.graph));
    kv_ = std::make_unique<KvStore>(store_of(model_.graph, kPositions, kv, nullptr, sequences));
  }

  OneStream inputs(const std::vector<int32_t>& rows, const std::vector<int32_t>& wanted) const {
    OneStream in = step_of(tokens_, rows, wanted, model_.graph.keys);
    in.keep_logits = false;
    return in;
  }
  OneStream all_rows(const std::vector<int32_t>& wanted) const {
    return inputs(ascending(0, static_cast<int32_t>(tokens_.size())), wanted);
  }
  Status run(const OneStream& in) { return run_one(*executor_, in, *kv_, out_); }
  void expect_error(const Status& status, const std::string& what) {
    ASSERT_FALSE(status) << what << " gave token " << out_.predictions[0].token << " of probability "
                         << out_.predictions[0].probability;
    EXPECT_THAT(status.error().message,
                testing::ContainsRegex("^(cpu|sim:.*): the logits of position [0-9]+ are not finite"))
        << what;
  }

  // Puts `bad` into a weight: into a number of a float matrix or vector, into a scale of a quantized one. Every matrix
  // of a stack of experts, since a row uses few. Where the embedding: the row of a token of the canvas.
  void damage_weight(size_t i, float bad) {
    const WeightInfo& info = model_.graph.weights[i];
    for (size_t w = 0; w < model_.views.size(); ++w) {
      if (model_.graph.weights[w].name != info.name) continue;
      const DType type = model_.views[w].type;
      const int64_t row = info.name == "token_embd.weight" ? tokens_[11] : info.dims[1] * 2 / 3;
      std::byte* at = model_.storage[w].data() + row * row_bytes(type, info.dims[0]);
      at += info.dims[0] / traits(type).elements / 2 * traits(type).bytes;
      const uint16_t half = float_to_f16(bad), brain = float_to_bf16(bad);
      if (type == DType::F32)
        std::memcpy(at, &bad, 4);
      else if (type == DType::BF16)
        std::memcpy(at, &brain, 2);
      else
        std::memcpy(at, &half, 2);  // where all these types have their scale
    }
  }

  void expect_every_weight_counts(DType type, const ModelConfig& config) {
    make(type, config);
    std::vector<std::string> done;
    for (size_t i = 0; i < model_.graph.weights.size(); ++i) {
      const WeightInfo& info = model_.graph.weights[i];
      if (std::ranges::find(done, info.name) != done.end() || (quick_run() && i % 3 != 0)) continue;
      done.push_back(info.name);
      const auto before = model_.storage;
      const float bad = kBad[i % kBad.size()];
      damage_weight(i, bad);
      open();
      expect_error(run(all_rows({18})), fmt::format("{} in {} of {}", bad, info.name, traits(type).name));
      for (size_t w = 0; w < before.size(); ++w) std::ranges::copy(before[w], model_.storage[w].begin());
      if (HasFatalFailure()) return;
    }
    open();
    EXPECT_TRUE(run(all_rows({3}))) << "undamaged";
  }

  SmallModel model_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<KvStore> kv_;
  OneResult out_;
  std::vector<int32_t> tokens_;
};

TEST_P(Damage, InOneWeightOfEveryArchitecture) {
  for (const ModelConfig& config : {small_config(), small_dream(), small_llada_moe(), small_llada2()})
    for (const DType type : {DType::F16, DType::Q8_0}) expect_every_weight_counts(type, config);
}

// (Of those that can be written and begin with their scale; tests/kernels has the others.)
TEST_P(Damage, InOneWeightOfEveryType) {
  ModelConfig one = small_config();
  one.layers = 1, one.vocab = 300;
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto t = static_cast<DType>(type);
    if (!can_quantize(t) || traits(t).elements > 32) continue;
    if (t == DType::IQ4_NL && GetParam() == "sim") continue;  // its profile has no time for it
    expect_every_weight_counts(t, one);
  }
}

// Rows of K/V that stay as a former step left them.
TEST_P(Damage, InOneKeyOrValue) {
  for (const ModelConfig& config : {small_config(), small_llada2()})
    for (const DType kv : {DType::F16, DType::F32}) {
      make(DType::Q8_0, config);
      open(1, kv);
      const OneStream some = inputs({3, 11}, {0, 1});
      ASSERT_TRUE(run(all_rows({})));
      ASSERT_TRUE(run(some));
      const OneResult clean = out_;
      for (const bool value : {false, true})
        for (const float bad : kBad)
          for (int layer = 0; layer < 3; ++layer) {
            const auto saved = kv_->save(std::vector<int32_t>{7});
            std::byte* head = value ? kv_->values(layer, 0, 1) : kv_->keys(layer, 0, 1);
            const int64_t at = 7 * config.head_dim + 5;
            const uint16_t half = float_to_f16(bad);
            kv == DType::F16 ? std::memcpy(head + 2 * at, &half, 2) : std::memcpy(head + 4 * at, &bad, 4);
            expect_error(run(some), fmt::format("{} in a {} of layer {}", bad, value ? "value" : "key", layer));
            kv_->put_back(saved);
            if (HasFatalFailure()) return;
          }
      // Where no row looks: behind the sequence, and in a block-causal model behind the row's block.
      const auto saved = kv_->save(std::vector<int32_t>{18});
      const bool causal = config.attention_block > 0;
      const int64_t row = config.head_dim * (kv == DType::F16 ? 2 : 4), first = causal ? 16 : 19;
      for (int layer = 0; layer < 3; ++layer)
        for (int h = 0; h < config.kv_heads; ++h)
          for (std::byte* head : {kv_->keys(layer, 0, h), kv_->values(layer, 0, h)})
            std::memset(head + first * row, 0xff, static_cast<size_t>((kPositions - first) * row));
      ASSERT_TRUE(run(some));
      for (size_t r = 0; r < 2; ++r) {
        EXPECT_EQ(out_.predictions[r].token, clean.predictions[r].token);
        EXPECT_EQ(out_.predictions[r].probability, clean.predictions[r].probability);
      }
    }
}

// In a trial's own rows, and in one of the two streams of guidance.
TEST_P(Damage, InATrialOrAStream) {
  make(DType::Q8_0, small_config());
  const int32_t bad_token = 1234, n = static_cast<int32_t>(tokens_.size());
  ASSERT_EQ(std::ranges::count(tokens_, bad_token), 0);
  const size_t table = static_cast<size_t>(
      std::ranges::find(model_.graph.weights, "token_embd.weight", &WeightInfo::name) - model_.graph.weights.begin());
  const int32_t there = std::exchange(tokens_[11], bad_token);
  damage_weight(table, kNan);
  tokens_[11] = there;
  open(2);
  ASSERT_TRUE(run(all_rows({3}))) << "a token that is not in the canvas";
  const double clean = out_.predictions[0].probability;
  OneStream trial = inputs({3}, {});
  trial.spans.push_back({1, 1, 0, n, true});
  trial.tokens.push_back(bad_token), trial.positions.push_back(7), trial.wanted = {1};
  expect_error(run(trial), "a trial");
  ASSERT_TRUE(run(all_rows({3})));
  EXPECT_EQ(out_.predictions[0].probability, clean) << "nothing of the trial is left";

  for (const double guidance : {-1.0, 0.0, 1.5}) {
    OneStream in = all_rows({9, 9 + n});
    for (int32_t p = 0; p < n; ++p)
      in.tokens.push_back(p == 2 ? bad_token : tokens_[static_cast<size_t>(p)]), in.positions.push_back(p);
    in.spans.push_back({n, n, 1, n});
    in.guidance = guidance;
    expect_error(run(in), fmt::format("the unconditional stream at guidance {}", guidance));
  }
}

// The only damage is a logit of a token that is kept out of the softmax, or may not be sampled, or is far from the
// best.
TEST_P(Damage, InOneLogit) {
  for (const float bad : kBad) {
    make(DType::F32, small_config());
    const size_t head = model_.graph.weights.size() - 1;
    ASSERT_EQ(model_.graph.weights[head].name, "output.weight");
    const int32_t token = static_cast<int32_t>(model_.graph.weights[head].dims[1] * 2 / 3);
    damage_weight(head, bad);
    open();
    for (const double temperature : {0.0, 0.7}) {
      OneStream in = all_rows({3, 4});
      in.sampling.temperature = temperature;
      expect_error(run(in), fmt::format("{} at temperature {}", bad, temperature));
      in.sampling.never_sampled = {token};
      expect_error(run(in), fmt::format("{} of a token that may not be sampled", bad));
      in.sampling.out_of_softmax = {token, token};
      expect_error(run(in), fmt::format("{} of a token out of the softmax", bad));
    }
  }
}

// What the cpu device keeps between ops is filled again each time that it is asked for.
TEST(HostileScratch, IsForgottenWithEveryUse) {
  if (std::string_view(std::getenv("LLADA_POISON")) == "0") GTEST_SKIP() << "turned off by the environment";
  Scratch scratch;
  for (const int64_t bytes : {100, 50, 100, 9000}) {
    ASSERT_TRUE(scratch.reserve(bytes));
    EXPECT_TRUE(std::all_of(scratch.data(), scratch.data() + bytes, [](std::byte b) { return b == std::byte{0xff}; }))
        << bytes;
    std::memset(scratch.data(), 0, static_cast<size_t>(bytes));
  }
  ASSERT_TRUE(scratch.grow(50));
  EXPECT_EQ(scratch.data()[0], std::byte{0}) << "as it was";
}

std::vector<std::string> devices() {
  std::vector<std::string> names;
  for (const auto* table : kernels::available()) names.emplace_back(table->isa);
  names.emplace_back("sim");
  return names;
}
INSTANTIATE_TEST_SUITE_P(Devices, Damage, testing::ValuesIn(devices()),
                         [](const testing::TestParamInfo<std::string>& device) { return device.param; });

}  // namespace
}  // namespace llada::damage
