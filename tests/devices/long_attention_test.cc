// Attention over so many positions that kernels may read digests: they follow every write of the store, for any number
// of threads, and a step that computes a few rows equals one that computes them all.
#include <gtest/gtest.h>

#include <algorithm>

#include "devices/cpu/cpu_device.h"
#include "kernels/kernels.h"
#include "one_stream.h"
#include "sched/executor.h"
#include "small_model.h"
#include "tensor/half.h"

namespace llada {
namespace {

constexpr int64_t kPositions = kernels::kDigestKeys + 37;

// One layer: a position's key and value depend on its own token alone.
ModelConfig long_config() {
  ModelConfig c = small_config(RopePairing::half_split, 1);
  c.layers = 1, c.width = 64, c.heads = 2, c.head_dim = 64, c.rotary_dims = 64, c.ffn_width = 32;
  c.vocab = 200, c.context = static_cast<int>(kPositions);
  return c;
}

class LongAttention : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = new SmallModel(make_small_model(DType::F32, long_config())); }
  static void TearDownTestSuite() { delete model_; }

  struct Engine {
    std::unique_ptr<Device> device;
    std::unique_ptr<Executor> executor;
    std::unique_ptr<KvStore> kv;

    explicit Engine(int threads, DType type = DType::F16, bool exact = false) {
      device = std::move(*make_cpu_device({.threads = threads, .isa = "", .exact_attention = exact},
                                          model_->graph.weights, model_->views, {}));
      executor = std::make_unique<Executor>(*device, forwards_of(model_->graph));
      kv = std::make_unique<KvStore>(store_of(model_->graph, kPositions, type));
    }

    // The first of `wanted` rows' logits.
    std::vector<float> run(const std::vector<int32_t>& positions, const std::vector<int32_t>& tokens,
                           bool trial = false) {
      OneStream in = step_of(tokens, positions, {static_cast<int32_t>(positions.size()) - 1});
      in.spans[0].trial = trial;
      OneResult out;
      const auto status = run_one(*executor, in, *kv, out);
      EXPECT_TRUE(status) << status.error().message;
      return out.logits;
    }
  };

  static std::vector<int32_t> all() { return ascending(0, kPositions); }
  static std::vector<int32_t> tokens(uint64_t seed) {
    std::vector<int32_t> t;
    for (int64_t p = 0; p < kPositions; ++p)
      t.push_back(static_cast<int32_t>(uniform(seed, static_cast<uint64_t>(p), 0, 0) * 200));
    return t;
  }

  static inline const SmallModel* model_ = nullptr;
};

TEST_F(LongAttention, DigestsFollowEveryWrite) {
  const std::vector<int32_t> old = tokens(1);
  std::vector<int32_t> edited = old;
  for (const int32_t p : {3, 64, 700, static_cast<int32_t>(kPositions) - 1}) edited[static_cast<size_t>(p)] ^= 1;

  Engine steps(2), fresh(3);
  const std::vector<float> first = steps.run(all(), old);
  const auto saved = steps.kv->save(std::vector<int32_t>{3, 64, 700, static_cast<int32_t>(kPositions) - 1});
  const std::vector<float> second =
      steps.run({3, 64, 700, static_cast<int32_t>(kPositions) - 1}, edited);  // written by a step
  EXPECT_EQ(second, fresh.run(all(), edited)) << "few rows as all rows, two threads as three";
  EXPECT_NE(first, second);

  steps.kv->put_back(saved);  // written by put_back
  EXPECT_EQ(steps.run({1, static_cast<int32_t>(kPositions) - 1}, old), first);

  const std::vector<float> trial = steps.run({3, 64, 700, static_cast<int32_t>(kPositions) - 1}, edited, true);
  EXPECT_EQ(trial, second) << "a trial's own keys and values";
  EXPECT_EQ(steps.run({1, static_cast<int32_t>(kPositions) - 1}, old), first) << "and nothing of it left";
}

TEST_F(LongAttention, IsCloseToFloats) {
  Engine narrow(2), exact(2, DType::F32);
  const std::vector<int32_t> t = tokens(2);
  const std::vector<float> got = narrow.run(all(), t), want = exact.run(all(), t);
  double difference = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) difference += std::pow(got[i] - want[i], 2), size += std::pow(want[i], 2);
  EXPECT_LT(std::sqrt(difference / size), 0.01);
}

// A step of a few rows up to and with its attention, over a store with keys and values of any kind; what it gave, and
// what the kernels give for the same queries when no digest is offered.
TEST_F(LongAttention, ExactIsAttentionOverTheStoredKeysBitForBit) {
  const kernels::KernelTable& table = **kernels::select("");
  OneStream in;
  for (int32_t r = 0; r < 9; ++r) in.positions.push_back(100 * r + 7), in.tokens.push_back(r), in.wanted.push_back(r);
  in.spans = {{0, 9, 0, static_cast<int32_t>(kPositions), false}};
  const auto program = std::make_shared<const Program>(model_->graph.forward(plain_shape(9, 9)));
  const auto op = std::ranges::find(program->ops, OpKind::attention, &Op::kind);
  for (const bool exact : {true, false}) {
    Engine engine(2, DType::F16, exact);
    auto *keys = reinterpret_cast<uint16_t*>(engine.kv->keys(0, 0, 0)),
         *values = reinterpret_cast<uint16_t*>(engine.kv->values(0, 0, 0));
    for (int64_t i = 0; i < kPositions * 64; ++i) {
      keys[i] = float_to_f16(static_cast<float>(uniform(5, static_cast<uint64_t>(i), 0, 0)) - 0.5f);
      values[i] = float_to_f16(static_cast<float>(uniform(6, static_cast<uint64_t>(i), 0, 0)) - 0.5f);
    }
    const int64_t store = engine.kv->bytes();
    const StepInputs step = in.over(*engine.kv);
    StepOutputs out;
    const llada::Run run{.program = program,
                         .first = 0,
                         .last = static_cast<size_t>(op - program->ops.begin()) + 1,
                         .inputs = &step,
                         .outputs = &out};
    ASSERT_TRUE(engine.device->submit(run));
    const ExpertHost& arena = *engine.device->capabilities().experts;
    const auto q = arena.peek(*program, op->in[0]), got = arena.peek(*program, op->out[0]);
    ASSERT_EQ(q.size(), 9 * 128);
    std::vector<float> want(got.size()), scratch(static_cast<size_t>(kernels::attention_scratch(kPositions)));
    for (int64_t head = 0; head < 2; ++head)
      table.attention({q.data() + head * 64, 128, keys, values, DType::F16, kPositions, 64, 0.125f, 0, 9, nullptr,
                       scratch.data(), want.data() + head * 64, 128});
    const bool digests = !exact && table.digest_bytes(DType::F16, kPositions, 64) > 0;
    EXPECT_EQ(std::ranges::equal(got, want), !digests) << "exact " << exact;
    EXPECT_EQ(engine.kv->bytes() > store, digests) << "exact " << exact;
    EXPECT_EQ(engine.device->info().description.ends_with(", exact attention"), exact);
  }
}

}  // namespace
}  // namespace llada
