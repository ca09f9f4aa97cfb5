// Which rows go on: the rule on worked examples and against a plain reading of it, and whole forwards whose rows become
// fewer.
#include "devices/row_choice.h"

#include <gmock/gmock.h>

#include "devices/cpu/cpu_device.h"
#include "devices_under_test.h"
#include "one_stream.h"
#include "small_model.h"

namespace llada {
namespace {

using testing::ElementsAre;

TEST(RowChoice, TheBestGoOnWithWhoIsBeforeThem) {
  const std::vector<int32_t> positions = {4, 5, 6, 9, 10, 11};
  const std::vector<float> gains = {0.1f, 0.2f, 0.9f, 0.8f, 0.3f, 0.4f};
  EXPECT_THAT(choose(gains, positions, 1), ElementsAre(2));
  EXPECT_THAT(choose(gains, positions, 2), ElementsAre(1, 2)) << "position 5 before 6";
  EXPECT_THAT(choose(gains, positions, 3), ElementsAre(1, 2, 3)) << "position 8 before 9 is no candidate";
  EXPECT_THAT(choose(gains, positions, 4), ElementsAre(1, 2, 3, 5));
  EXPECT_THAT(choose(gains, positions, 6), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(choose(std::vector<float>(6, 0.5f), positions, 2), ElementsAre(0, 1)) << "ties go to the first";
  EXPECT_THAT(choose(std::vector<float>{0, 1, 2, NAN, 5, 6}, positions, 1), ElementsAre(3));
  EXPECT_TRUE(choose({}, {}, 3).empty());
}

TEST(RowChoice, BehindTheFrontierNobodyGoesOnAlone) {
  const std::vector<int32_t> positions = {2, 4, 5, 6, 7, 8};
  const std::vector<float> gains = {0.5f, 0.1f, 0.2f, 0.9f, 0.3f, 0.95f};
  EXPECT_THAT(choose(gains, positions, 3, 5), ElementsAre(0, 2, 3)) << "position 8 needs four, 6 needs two";
  EXPECT_THAT(choose(gains, positions, 4, 5), ElementsAre(2, 3, 4, 5)) << "8, with all before it from 5 on";
  EXPECT_THAT(choose(gains, positions, 1, 5), ElementsAre(0));
  EXPECT_THAT(choose(gains, positions, 2, 0), ElementsAre(0, 1)) << "no room for 8 or 6: the first of all";
  EXPECT_THAT(choose(std::vector<float>{-1, -2, 3, 2, 1, 0}, positions, 4, 6), ElementsAre(1, 2, 3, 4))
      << "position 4 goes on with 5, whatever it gained";
  EXPECT_THAT(choose(gains, positions, 6, 5), ElementsAre(0, 1, 2, 3, 4, 5));
}

// softmax over candidates of the largest of three neighbouring scores, one score after the other.
std::vector<double> plainly_received(const std::vector<float>& q, const std::vector<float>& k, int64_t dim,
                                     const std::vector<int32_t>& rows, double scale) {
  std::vector<double> sums(rows.size(), 0);
  for (const int32_t query : rows) {
    std::vector<double> scores, weights;
    for (const int32_t key : rows) {
      double s = 0;
      for (int64_t d = 0; d < dim; ++d)
        s += double{q[static_cast<size_t>(query * dim + d)]} * double{k[static_cast<size_t>(key * dim + d)]};
      scores.push_back(scale * s);
    }
    double total = 0;
    for (size_t j = 0; j < rows.size(); ++j) {
      double most = scores[j];
      if (j > 0) most = std::max(most, scores[j - 1]);
      if (j + 1 < rows.size()) most = std::max(most, scores[j + 1]);
      weights.push_back(std::exp(most));
      total += weights.back();
    }
    for (size_t j = 0; j < rows.size(); ++j) sums[j] += weights[j] / total;
  }
  return sums;
}

TEST(RowChoice, ReceivedIsTheSumOfPooledSoftmaxes) {
  constexpr int64_t kDim = 24;  // not a multiple of the lanes
  std::vector<float> q(7 * kDim), k(7 * kDim);
  for (size_t i = 0; i < q.size(); ++i)
    q[i] = static_cast<float>(uniform(1, i, 0, 0) - 0.5), k[i] = static_cast<float>(uniform(2, i, 0, 0) - 0.5);
  const std::vector<int32_t> rows = {1, 2, 4, 6};
  std::vector<double> sums(rows.size(), 1.0);  // it adds
  add_received({.q = q.data(), .k = k.data(), .q_stride = kDim, .k_stride = kDim, .dim = kDim, .scale = 3}, rows, sums);
  const auto expected = plainly_received(q, k, kDim, rows, 3);
  double total = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_NEAR(sums[i] - 1, expected[i], 1e-5) << i;
    total += sums[i] - 1;
  }
  EXPECT_NEAR(total, 4, 1e-9) << "every query gives away 1";
}

// ---- Forwards

class FewerRows : public testing::TestWithParam<std::string> {
 protected:
  // 16 positions; the first ten have tokens, the others are masks and candidates.
  static OneStream canvas(int32_t changed = 0) {
    OneStream step;
    for (int32_t p = 0; p < 16; ++p) {
      step.tokens.push_back(p < 10 ? 20 + p + (p == 3 ? changed : 0) : 7);
      step.positions.push_back(p);
      if (p >= 10) step.wanted.push_back(p);
    }
    step.spans = {{.begin = 0, .count = 16, .sequence = 0, .keys = 16}};
    step.keep_logits = true;
    return step;
  }
  static KvStore store(const SmallModel& model) {
    return std::move(*KvStore::create({.layers = model.graph.layers,
                                       .sequences = 1,
                                       .kv_heads = model.graph.kv_heads,
                                       .head_dim = model.graph.head_dim,
                                       .positions = 16,
                                       .type = DType::F32}));
  }
  static StepOutputs run(Executor& executor, const OneStream& step, KvStore& kv, int32_t keep) {
    StepInputs in = step.over(kv);
    in.streams[0].keep = keep;
    StepOutputs out;
    const Status status = executor.run(in, out);
    EXPECT_TRUE(status) << status.error().message;
    return out;
  }
  // Keys and values of a position in a layer.
  static std::vector<float> stored(const SmallModel& model, KvStore& kv, int layer, int32_t position) {
    std::vector<float> all;
    for (int h = 0; h < model.graph.kv_heads; ++h)
      for (const auto* data : {kv.keys(layer, 0, h), kv.values(layer, 0, h)}) {
        const auto* floats = reinterpret_cast<const float*>(data) + position * model.graph.head_dim;
        all.insert(all.end(), floats, floats + model.graph.head_dim);
      }
    return all;
  }
};

TEST_P(FewerRows, OnACanvasThatHasNotChangedTheyPredictWhatAllOfThemDo) {
  for (const ModelConfig& config : {small_config(), small_llada2()}) {
    const SmallModel model = make_small_model(DType::Q8_0, config);
    const auto device = make_cpu_device({.threads = 2, .isa = GetParam()}, model.graph.weights, model.views, {});
    ASSERT_TRUE(device) << device.error().message;
    Executor executor(**device, forwards_of(model.graph));
    KvStore kv = store(model);
    const StepOutputs all = run(executor, canvas(), kv, -1);
    EXPECT_TRUE(all.chosen.empty());
    for (const int32_t keep : {1, 3, 5}) {
      const StepOutputs some = run(executor, canvas(), kv, keep);
      ASSERT_EQ(some.chosen.size(), static_cast<size_t>(keep));
      ASSERT_EQ(some.predictions.size(), static_cast<size_t>(keep));
      const size_t vocabulary = all.logits[0].size() / 6;
      ASSERT_EQ(some.logits[0].size(), static_cast<size_t>(keep) * vocabulary);
      for (size_t i = 0; i < some.chosen.size(); ++i) {
        const auto row = static_cast<size_t>(some.chosen[i]);
        EXPECT_EQ(some.predictions[i].position, 10 + some.chosen[i]);
        EXPECT_EQ(some.predictions[i].logit, all.predictions[row].logit) << keep;
        EXPECT_TRUE(std::equal(all.logits[0].begin() + static_cast<std::ptrdiff_t>(row * vocabulary),
                               all.logits[0].begin() + static_cast<std::ptrdiff_t>((row + 1) * vocabulary),
                               some.logits[0].begin() + static_cast<std::ptrdiff_t>(i * vocabulary)));
      }
    }
    const StepOutputs every = run(executor, canvas(), kv, 6);
    EXPECT_TRUE(every.chosen.empty()) << "nobody is left behind: the plain program";
  }
}

TEST_P(FewerRows, RowsLeftBehindKeepTheirKeysInTheLaterLayers) {
  const SmallModel model = make_small_model(DType::F32, small_config());
  const auto device = make_cpu_device({.threads = 1, .isa = GetParam()}, model.graph.weights, model.views, {});
  ASSERT_TRUE(device) << device.error().message;
  Executor executor(**device, forwards_of(model.graph));
  KvStore kv = store(model);
  run(executor, canvas(), kv, -1);
  const KvStore::Saved before = kv.save(canvas().positions);
  const StepOutputs all = run(executor, canvas(1), kv, -1);  // another token at position 3
  KvStore fresh = store(model);
  fresh.put_back(before);
  OneStream later = canvas(1);
  StepInputs in = later.over(fresh);
  in.streams[0].keep = 2, in.streams[0].sampling.forward_number = 9;
  StepOutputs some;
  const Status status = executor.run(in, some);
  ASSERT_TRUE(status) << status.error().message;
  KvStore old = store(model);
  old.put_back(before);
  for (int32_t p = 0; p < 16; ++p) {
    const bool left = p >= 10 && !std::ranges::binary_search(some.chosen, p - 10);
    for (int layer = 0; layer < 3; ++layer) {
      const auto now = stored(model, fresh, layer, p), then = stored(model, old, layer, p);
      const bool changes = layer > 0 || p == 3;
      EXPECT_EQ(now != then, changes && !(left && layer == 2)) << "position " << p << ", layer " << layer;
      EXPECT_TRUE(layer == 2 || now == stored(model, kv, layer, p)) << "as a whole forward has them";
    }
    EXPECT_EQ(fresh.version(0, p) == 9, !left) << p;
  }
  // What is left behind is read as it was, so predictions differ from a whole forward's, a little.
  const auto row = static_cast<size_t>(some.chosen[0]);
  EXPECT_NE(some.predictions[0].logit, all.predictions[row].logit);
  EXPECT_NEAR(some.predictions[0].logit, all.predictions[row].logit, 0.5);
}

// At a block's start: nothing behind the last row that goes on has keys in the later layers, whatever is in memory.
TEST_P(FewerRows, NothingBehindTheLastOneIsRead) {
  const SmallModel model = make_small_model(DType::F32, small_llada2());
  const auto device = make_cpu_device({.threads = 2, .isa = GetParam()}, model.graph.weights, model.views, {});
  ASSERT_TRUE(device) << device.error().message;
  Executor executor(**device, forwards_of(model.graph));
  std::vector<StepOutputs> results;
  for (const int fill : {0x00, 0xff}) {  // zeros, and NaN
    KvStore kv = store(model);
    std::memset(kv.memory(), fill, static_cast<size_t>(2 * kv.half_bytes()));
    const OneStream step = canvas();
    StepInputs in = step.over(kv);
    in.streams[0].keep = 4, in.streams[0].frontier = 10;
    const Status status = executor.run(in, results.emplace_back());
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_THAT(results.back().chosen, ElementsAre(0, 1, 2, 3)) << "from the frontier on without a gap";
    for (int32_t p = 0; p < 16; ++p) EXPECT_EQ(kv.version(0, p) != KvStore::kAbsent, p < 14) << p;
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(results[0].predictions[i].logit, results[1].predictions[i].logit);
}

// Streams choose among their own rows: alone and beside others, whatever the others do.
TEST_P(FewerRows, AStreamChoosesAmongItsOwnRows) {
  const SmallModel model = make_small_model(DType::Q4_0, small_llada2());
  const auto device = make_cpu_device({.threads = 3, .isa = GetParam()}, model.graph.weights, model.views, {});
  ASSERT_TRUE(device) << device.error().message;
  Executor executor(**device, forwards_of(model.graph));
  KvStore first = store(model), second = store(model), third = store(model);
  for (KvStore* kv : {&first, &second, &third}) run(executor, canvas(), *kv, -1);
  StepInputs in;
  in.streams = {{.kv = &first, .keep = 2}, {.kv = &second}, {.kv = &third, .keep = 4}};
  canvas(1).add_to(in, 0), canvas(2).add_to(in, 1), canvas(3).add_to(in, 2);
  StepOutputs together;
  const Status status = executor.run(in, together);
  ASSERT_TRUE(status) << status.error().message;
  size_t next = 0;
  for (const auto& [changed, keep] : {std::pair{1, 2}, {2, -1}, {3, 4}}) {
    KvStore kv = store(model);
    run(executor, canvas(), kv, -1);
    for (const Prediction& p : run(executor, canvas(changed), kv, keep).predictions) {
      ASSERT_LT(next, together.predictions.size());
      EXPECT_EQ(together.predictions[next].position, p.position);
      EXPECT_EQ(together.predictions[next++].logit, p.logit) << "changed " << changed;
    }
  }
  EXPECT_EQ(next, together.predictions.size());
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const kernels::KernelTable* table : kernels::available()) names.emplace_back(table->isa);
  return names;
}
INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, FewerRows, testing::ValuesIn(instruction_sets()),
                         [](const auto& set) { return set.param; });

TEST(FewerRowsOfAStep, StepsThatMakeNoSenseAreRefused) {
  const SmallModel model = make_small_model(DType::F32, small_config());
  const auto device = make_cpu_device({.threads = 1, .isa = "scalar"}, model.graph.weights, model.views, {});
  Executor executor(**device, forwards_of(model.graph));
  KvStore kv = std::move(*KvStore::create(
      {.layers = 3, .sequences = 1, .kv_heads = 4, .head_dim = 16, .positions = 4, .type = DType::F32}));
  OneStream step;
  step.tokens = {1, 2, 3, 4}, step.positions = {0, 1, 2, 3}, step.wanted = {1, 2};
  step.spans = {{.begin = 0, .count = 4, .sequence = 0, .keys = 4}};
  StepOutputs all;
  ASSERT_TRUE(executor.run(step.over(kv), all));
  const auto message = [&](const std::function<void(StepInputs&)>& damage) {
    StepInputs in = step.over(kv);
    in.streams[0].keep = 1;
    damage(in);
    StepOutputs out;
    const Status status = executor.run(in, out);
    return status ? std::string("accepted") : status.error().message;
  };
  EXPECT_EQ(message([](StepInputs&) {}), "accepted");
  EXPECT_EQ(message([](StepInputs& in) { in.streams[0].keep = 3; }),
            "program: impossible shape: 3 of 2 candidates in 4 rows go on");
  EXPECT_EQ(message([](StepInputs& in) { in.streams[0].keep = 0; }),
            "program: impossible shape: 0 of 2 candidates in 4 rows go on");
  EXPECT_EQ(message([](StepInputs& in) { in.streams[0].frontier = 1; }),
            "step: row 3 is behind the frontier 1 of its stream and no candidate");
  EXPECT_EQ(message([](StepInputs& in) { in.spans[0].trial = true; }),
            "step: stream 0 chooses rows, and has guidance or trials");
  EXPECT_EQ(message([](StepInputs& in) { in.predictions[1].unconditional = 0; }),
            "step: prediction 1 of a stream that chooses rows is not of one row in order");
  EXPECT_EQ(message([](StepInputs& in) { std::swap(in.predictions[0], in.predictions[1]); }),
            "step: prediction 1 of a stream that chooses rows is not of one row in order");
}

}  // namespace
}  // namespace llada
