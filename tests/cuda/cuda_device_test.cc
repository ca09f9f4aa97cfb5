// Emulated: the cuda device on geometries that the shipped models do not have, and on numbers that are none. Device
// memory starts as bytes that are no number (tests/cuda_emulator).
#include "devices/cuda/cuda_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "devices/cpu/cpu_device.h"
#include "devices/one_stream.h"
#include "devices/small_model.h"
#include "engine/golden.h"
#include "kernels/kernels.h"
#include "sched/executor.h"
#include "tensor/half.h"

namespace llada {
namespace {

// A model on the device, with a store of its geometry.
class OnCuda {
 public:
  OnCuda(const SmallModel& m, DType kv = DType::F32, int64_t positions = 64) : m_(m) {
    auto host = make_cpu_device({.threads = 1, .isa = ""}, m.graph.weights, m.views, {});
    device_ = std::move(*make_cuda_device({.budget_bytes = 128 << 20}, m.graph.weights, m.views, std::move(*host)));
    executor_ = std::make_unique<Executor>(*device_, forwards_of(m.graph));
    kv_.emplace(store_of(m.graph, positions, kv, device_.get()));
  }

  Status run(const OneStream& in) { return run_one(*executor_, in, *kv_, out); }
  Status run_beside(const OneStream& in) {
    const auto pass = std::make_shared<SidePass>();
    pass->inputs = in.over(*kv_);
    LLADA_TRY_STATUS(executor_->begin_side_pass(pass));
    LLADA_TRY_STATUS(executor_->join(*pass));
    out = OneResult(std::move(pass->outputs));
    return {};
  }
  KvStore& kv() { return *kv_; }
  OneResult out;

 private:
  const SmallModel& m_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Executor> executor_;
  std::optional<KvStore> kv_;
};

OneStream whole(const std::vector<int32_t>& tokens) {
  const std::vector<int32_t> all = ascending(0, static_cast<int32_t>(tokens.size()));
  return step_of(tokens, all, all);
}

ModelConfig geometry(int head_dim, int heads, int kv_heads, int ffn, int vocab, bool tied) {
  ModelConfig c = small_config();
  c.layers = 2, c.width = 96;
  c.head_dim = head_dim, c.heads = heads, c.kv_heads = kv_heads, c.rotary_dims = head_dim;
  c.ffn_width = ffn, c.vocab = vocab, c.tied_head = tied;
  return c;
}

// Activations are floats whatever the weights are stored as, so every type is held to one bound. Twice the spread of a
// logit is some 8.
TEST(CudaDevice, GeometriesOfLargeModels) {
  const std::pair<const char*, ModelConfig> cases[] = {
      {"heads of 64, tied", geometry(64, 4, 2, 160, 1013, true)},
      {"heads of 128, one K/V head", geometry(128, 3, 1, 224, 1499, false)},
      {"heads of 128, tied, many", geometry(128, 4, 4, 32, 521, true)},
      {"heads of 96", geometry(96, 2, 1, 96, 67, false)},
  };
  for (const auto& [what, config] : cases)
    for (const DType type : {DType::F32, DType::Q8_0, DType::Q4_0}) {
      if (quick() && type == DType::Q4_0) continue;
      const SmallModel m = make_small_model(type, config);
      const auto tokens = random_tokens(37, config.vocab);  // more than a tile of keys
      const Rows expected = reference_forward(m, tokens);
      OnCuda cuda(m);
      const auto status = must(cuda.run(whole(tokens)));
      const auto n = static_cast<size_t>(config.vocab);
      double worst = 0;
      for (size_t p = 0; p < tokens.size(); ++p)
        for (size_t t = 0; t < n; ++t) worst = std::max(worst, std::fabs(cuda.out.logits[p * n + t] - expected[p][t]));
      EXPECT_LT(worst, 2e-4) << what << " " << traits(type).name;
      // A few rows over the store: the same bits.
      const std::vector<float> full = cuda.out.logits;
      ASSERT_TRUE(cuda.run(step_of(tokens, {9, 20, 21, 36}, {1, 3})));
      EXPECT_TRUE(std::equal(cuda.out.logits.begin(), cuda.out.logits.begin() + static_cast<std::ptrdiff_t>(n),
                             full.begin() + static_cast<std::ptrdiff_t>(20 * n)))
          << what;
    }
}

// A pass beside the steps is the host's, to the bit, and the GPU's but for rounding.
TEST(CudaDevice, APassBesideIsTheHosts) {
  const SmallModel m = make_small_model(DType::F32, small_config());
  const auto tokens = random_tokens(12, m.config.vocab);
  OnCuda cuda(m);
  ASSERT_TRUE(cuda.run(whole(tokens)));
  const OneStream in = step_of(tokens, {4, 5, 6}, {0, 2});
  ASSERT_TRUE(cuda.run_beside(in));
  const OneResult beside = std::exchange(cuda.out, {});
  ASSERT_EQ(beside.predictions.size(), 2u);
  const auto cpu = make_cpu_device({.threads = 1, .isa = ""}, m.graph.weights, m.views, {});
  Executor host(**cpu, forwards_of(m.graph));
  OneResult expected;
  ASSERT_TRUE(run_one(host, in, cuda.kv(), expected));
  EXPECT_EQ(beside.logits, expected.logits);
  ASSERT_TRUE(cuda.run(in));
  ASSERT_EQ(beside.logits.size(), cuda.out.logits.size());
  for (size_t i = 0; i < beside.logits.size(); ++i) ASSERT_NEAR(beside.logits[i], cuda.out.logits[i], 1e-3) << i;
  for (size_t r = 0; r < 2; ++r) EXPECT_EQ(beside.predictions[r].token, cuda.out.predictions[r].token);
}

// The host keeps narrower forms of many keys between its passes: rows that the GPU has written since are formed anew.
TEST(CudaDevice, APassBesideSeesWhatTheGpuHasWritten) {
  const SmallModel m = make_small_model(DType::F32, geometry(64, 2, 1, 96, 67, true));
  constexpr int32_t kKeys = kernels::kDigestKeys + 100;
  const auto tokens = random_tokens(kKeys, m.config.vocab);
  OnCuda cuda(m, DType::F16, kKeys);
  std::vector<uint16_t> stored(static_cast<size_t>(cuda.kv().sequence_bytes(kKeys)) / sizeof(uint16_t));
  for (size_t i = 0; i < stored.size(); ++i)
    stored[i] = float_to_f16(static_cast<float>(uniform(7, static_cast<uint64_t>(i), 0, 0)) - 0.5f);
  cuda.kv().write(0, 0, kKeys, std::as_bytes(std::span(stored)).data());
  const OneStream asked = step_of(tokens, {40, 41}, {0, 1});
  ASSERT_TRUE(cuda.run_beside(asked));
  const OneResult before = std::exchange(cuda.out, {});
  ASSERT_TRUE(cuda.run(step_of(tokens, {0, 1, 2, 3, 4, 5, 6, 7}, {0})));
  ASSERT_TRUE(cuda.run_beside(asked));
  EXPECT_NE(cuda.out.logits, before.logits);
  auto copy = cuda.kv().grown(kKeys);  // has no narrower forms yet
  ASSERT_TRUE(copy);
  const auto cpu = make_cpu_device({.threads = 1, .isa = ""}, m.graph.weights, m.views, {});
  Executor host(**cpu, forwards_of(m.graph));
  OneResult expected;
  ASSERT_TRUE(run_one(host, asked, *copy, expected));
  EXPECT_EQ(cuda.out.logits, expected.logits);
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

void expect_not_finite(const Status& status, const std::string& what) {
  ASSERT_FALSE(status) << what << ": text came out";
  EXPECT_EQ(exit_status(status.error()), 1) << what;
  EXPECT_NE(status.error().message.find("not finite; the weights or the activations are damaged"), std::string::npos)
      << what << ": " << status.error().message;
  EXPECT_EQ(status.error().message.find('\n'), std::string::npos) << what;
}

// One element of every weight in turn. All experts are used, so that there is none whose damage does not matter.
TEST(CudaDevice, OneDamagedWeightIsAlwaysTheError) {
  ModelConfig dense = small_dream(), mixture = small_llada_moe(), grouped = small_llada2();
  mixture.experts_used = 6;
  grouped.experts_used = 8, grouped.expert_groups_used = 4, grouped.attention_block = 0;
  for (ModelConfig config : {dense, mixture, grouped}) {
    config.vocab = 700;  // more than a chunk of the head
    config.layers = 2;
    SmallModel m = make_small_model(DType::F32, config);
    const auto tokens = random_tokens(9, config.vocab);
    for (size_t w = 0; w < m.graph.weights.size(); ++w) {
      const WeightInfo& info = m.graph.weights[w];
      auto* const floats = reinterpret_cast<float*>(m.storage[w].data());
      // Of the table a row that is read, and one of a token that is not wanted.
      size_t at = static_cast<size_t>(uniform(11, w, 0, 0) * static_cast<double>(info.dims[0] * info.dims[1]));
      if (info.name == "token_embd.weight") at = static_cast<size_t>(tokens[2] * info.dims[0] + 5);
      const float value = w % 3 == 0 ? kNan : w % 3 == 1 ? kInf : -kInf;
      const float before = std::exchange(floats[at], value);
      OnCuda cuda(m);
      OneStream in = whole(tokens);
      in.wanted = {7};
      in.keep_logits = w % 2 == 0;
      expect_not_finite(cuda.run(in), fmt::format("{} {} [{}]", info.name, info.expert, at));
      floats[at] = before;
      if (quick()) w += 4;
    }
  }
}

// A logit of the 700 that is no number, wherever it stands, and with rules that leave tokens out.
TEST(CudaDevice, OneDamagedLogitIsTheError) {
  ModelConfig config = small_config();
  config.vocab = 700, config.layers = 1;
  SmallModel m = make_small_model(DType::F32, config);
  const auto tokens = random_tokens(5, config.vocab);
  auto* const head = reinterpret_cast<float*>(m.storage.back().data());
  for (const int32_t token : {0, 511, 512, 699})
    for (const float value : {kNan, kInf, -kInf}) {
      const float before = std::exchange(head[token * 64 + 3], value);
      OnCuda cuda(m);
      OneStream in = whole(tokens);
      in.keep_logits = false;
      expect_not_finite(cuda.run(in), fmt::format("token {}", token));
      in.sampling.never_sampled = {token};
      expect_not_finite(cuda.run(in), fmt::format("token {} never sampled", token));
      in.sampling.out_of_softmax = {token};
      in.sampling.temperature = 0.8;
      expect_not_finite(cuda.run(in), fmt::format("token {} out of the softmax", token));
      head[token * 64 + 3] = before;
    }
}

// A key or value of the store, in the host's half, as put_back() leaves it.
TEST(CudaDevice, OneDamagedKeyOrValueIsTheError) {
  const SmallModel m = make_small_model(DType::F32, small_config(RopePairing::half_split, 2));
  const auto tokens = random_tokens(40, m.config.vocab);
  for (const DType type : {DType::F32, DType::F16}) {
    OnCuda cuda(m, type);
    ASSERT_TRUE(cuda.run(whole(tokens)));
    const auto put = [&](std::byte* at, float value) {
      if (type == DType::F16)
        *reinterpret_cast<uint16_t*>(at) = float_to_f16(value);
      else
        *reinterpret_cast<float*>(at) = value;
    };
    const int64_t element = type == DType::F16 ? 2 : 4;
    for (const float value : {kNan, kInf, -kInf})
      for (const bool key : {true, false})
        for (int32_t position = 0; position < 40; position += quick() ? 13 : 3) {
          const auto saved = cuda.kv().save(std::vector<int32_t>{position});
          put((key ? cuda.kv().keys(1, 0, 1) : cuda.kv().values(1, 0, 1)) + (position * 16 + 7) * element, value);
          cuda.kv().wrote(KvViewer::memory, 1, 0, position);
          // One row, whose scores of that key may all be minus infinity.
          expect_not_finite(cuda.run(step_of(tokens, {5}, {0})),
                            fmt::format("{} of position {}, {}", key ? "key" : "value", position, value));
          cuda.kv().put_back(saved);
          // Beyond the keys that are read it does not matter.
          put(cuda.kv().keys(1, 0, 1) + (45 * 16 + 7) * element, value);
          ASSERT_TRUE(cuda.run(step_of(tokens, {5}, {0})));
        }
  }
}

// Rows of one tile that see different keys: what the later rows' keys and values are does not touch the earlier ones.
TEST(CudaDevice, KeysThatARowMayNotSeeHaveNoInfluence) {
  ModelConfig config = small_config(RopePairing::half_split, 2);
  config.attention_block = 6;  // rows 4 to 7, which go together, are of two blocks
  SmallModel m = make_small_model(DType::F32, config);
  const auto tokens = random_tokens(24, config.vocab);
  const auto logits = [&](float damage) {
    // The damaged token stands at position 9, which rows of the first block do not see.
    auto* const row = reinterpret_cast<float*>(m.storage.front().data()) + tokens[9] * config.width;
    const std::vector<float> before(row, row + config.width);
    if (damage != 0) std::fill_n(row, config.width, damage);
    OnCuda cuda(m, DType::F32, 24);
    OneStream in = whole(tokens);
    in.wanted = {3, 4, 5};
    in.rule = m.graph.keys;
    const auto status = cuda.run(in);
    EXPECT_TRUE(status) << status.error().message;
    std::copy(before.begin(), before.end(), row);
    return cuda.out.logits;
  };
  const auto clean = logits(0);
  ASSERT_EQ(clean.size(), 3u * static_cast<size_t>(config.vocab));
  EXPECT_EQ(logits(kNan), clean);
  EXPECT_EQ(logits(kInf), clean);
}

}  // namespace
}  // namespace llada
