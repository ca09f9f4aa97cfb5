// Rows of several requests in one forward: each gives bit for bit what it gives alone, on every device.
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "devices_under_test.h"
#include "must.h"
#include "one_stream.h"
#include "small_model.h"

namespace llada {
namespace {

TokenClasses some_classes(int32_t vocabulary) {
  std::vector<int32_t> class_of;
  for (int32_t t = 0; t < vocabulary; ++t) class_of.push_back(t % 5 == 0 ? -1 : t % 7 == 0 ? t % 90 : 0);
  return {std::move(class_of), 90};
}

// What is read while the head computes is what a whole row of logits says. Rows are given in the order of `wanted`.
void expect_scores_of_logits(const OneStream& step, const OneResult& kept, const std::vector<RowScores>& scores) {
  for (size_t i = 0; i < scores.size(); ++i) {
    const auto position = step.positions[static_cast<size_t>(step.wanted[i])];
    RowReader reader(step.reading, step.sampling.key(position));
    reader.read_all(std::span(kept.logits)
                        .subspan(i * (kept.logits.size() / scores.size()))
                        .first(kept.logits.size() / scores.size()));
    EXPECT_TRUE(reader.take() == scores[i]) << i;
  }
}

class Streams : public OnDevice {
 protected:
  void open(DType type, const ModelConfig& config) {
    requests_.clear();  // their memory is of the device before
    model_ = make_small_model(type, config);
    device_ = *must(GetParam().open(model_));
    executor_ = std::make_unique<Executor>(*device_, forwards_of(model_.graph));
  }

  // A request: its canvas is in the store, and `step` is what it wants of the next forward.
  struct Request {
    std::unique_ptr<KvStore> kv;
    OneStream step;
    OneResult alone;
  };

  int32_t vocabulary() const { return static_cast<int32_t>(model_.config.vocab); }
  int32_t token(uint64_t request, int32_t position, uint64_t sequence) const {
    return static_cast<int32_t>(uniform(5 + request, static_cast<uint64_t>(position), sequence, 0) * vocabulary());
  }
  static void add_rows(OneStream& step, const std::vector<int32_t>& rows, const std::vector<int32_t>& tokens,
                       const std::vector<int32_t>& wanted, int32_t sequence, int32_t keys, bool trial) {
    const auto begin = static_cast<int32_t>(step.tokens.size());
    step.positions.insert(step.positions.end(), rows.begin(), rows.end());
    step.tokens.insert(step.tokens.end(), tokens.begin(), tokens.end());
    step.spans.push_back({begin, static_cast<int32_t>(rows.size()), sequence, keys, trial});
    for (const int32_t row : wanted) step.wanted.push_back(begin + row);
  }

  // One whose canvas has `keys` positions: rows from `first` on, with everything that requests differ in. guidance > 0
  // asks for a second sequence, a trial rides in the same forward.
  void add_request(int32_t keys, int32_t first, int32_t count, double guidance, double temperature, bool trial,
                   DType type, const KeyRule& rule) {
    const auto number = static_cast<uint64_t>(requests_.size());
    Request r;
    r.kv = std::make_unique<KvStore>(store_of(model_.graph, keys + 3, type, device_.get(), 2));
    const std::vector<int32_t> all = ascending(0, keys);
    const auto tokens_of = [&](const std::vector<int32_t>& rows, uint64_t sequence, uint64_t salt) {
      std::vector<int32_t> tokens;
      for (const int32_t p : rows) tokens.push_back(token(number + salt, p, sequence));
      return tokens;
    };
    OneStream whole;
    whole.rule = rule;
    for (int32_t s = 0; s < 2; ++s)
      add_rows(whole, all, tokens_of(all, static_cast<uint64_t>(s), 0), {}, s, keys, false);
    OneResult out;
    const auto filled = must(run_one(*executor_, whole, *r.kv, out));
    r.step.rule = rule;
    r.step.guidance = guidance;
    r.step.keep_logits = number % 3 != 1;
    if (number < 3) r.step.reading = {&classes_, temperature, number == 2 ? 0.5 : 1};
    r.step.sampling = {.temperature = temperature,
                       .seed = 17 + number,
                       .forward_number = 3 + static_cast<int64_t>(number),
                       .never_sampled = number % 2 == 0 ? std::vector<int32_t>{1, 2} : std::vector<int32_t>{},
                       .out_of_softmax = number % 3 == 0 ? std::vector<int32_t>{3} : std::vector<int32_t>{}};
    const std::vector<int32_t> rows(all.begin() + first, all.begin() + first + count);
    const std::vector<int32_t> wanted = count > 1 ? std::vector<int32_t>{0, count - 1} : std::vector<int32_t>{0};
    for (int32_t s = 0; s < (guidance > 0 ? 2 : 1); ++s) {
      add_rows(r.step, rows, tokens_of(rows, static_cast<uint64_t>(s), 50), wanted, s, keys, false);
      if (trial)
        add_rows(r.step, {keys - 2, keys - 1}, tokens_of({keys - 2, keys - 1}, static_cast<uint64_t>(s), 90), {1}, s,
                 keys, true);
    }
    requests_.push_back(std::move(r));
  }

  // Each alone, its store put back behind it.
  void run_alone() {
    for (Request& r : requests_) {
      const auto saved = everything(*r.kv);
      const auto status = must(run_one(*executor_, r.step, *r.kv, r.alone));
      r.kv->put_back(saved);
    }
  }
  static KvStore::Saved everything(const KvStore& kv) {
    std::vector<int32_t> all(static_cast<size_t>(kv.shape().positions));
    std::iota(all.begin(), all.end(), 0);
    return kv.save(all);
  }

  void expect_alike_together(const std::vector<size_t>& order) {
    StepInputs step;
    std::vector<KvStore::Saved> before;
    for (const size_t i : order) {
      Request& r = requests_[i];
      step.streams.push_back(r.step.stream_over(*r.kv));
      r.step.add_to(step, static_cast<int32_t>(step.streams.size()) - 1);
      before.push_back(everything(*r.kv));
    }
    StepOutputs out;
    const auto status = must(executor_->run(step, out));
    size_t at = 0;
    ASSERT_EQ(out.logits.size(), order.size());
    for (size_t s = 0; s < order.size(); ++s) {
      Request& r = requests_[order[s]];
      EXPECT_EQ(out.logits[s], r.alone.logits) << "request " << order[s];
      EXPECT_EQ(out.scores[s].size(), r.step.reading.classes ? r.alone.predictions.size() : 0);
      EXPECT_TRUE(out.scores[s] == r.alone.scores) << "request " << order[s];
      if (r.step.keep_logits) expect_scores_of_logits(r.step, r.alone, r.alone.scores);
      for (const Prediction& alone : r.alone.predictions) {
        ASSERT_LT(at, out.predictions.size());
        const Prediction& p = out.predictions[at++];
        EXPECT_EQ(p.token, alone.token) << "request " << order[s];
        EXPECT_EQ(p.runner_up, alone.runner_up);
        EXPECT_EQ(p.logit, alone.logit);
        EXPECT_EQ(p.probability, alone.probability);
        EXPECT_EQ(p.entropy, alone.entropy);
        EXPECT_EQ(p.margin, alone.margin);
      }
      if (device_->capabilities().clock == nullptr || !device_->capabilities().clock->dry()) {
        EXPECT_EQ(r.kv->version(0, r.step.positions[0]), r.step.sampling.forward_number);
      }
      r.kv->put_back(before[s]);
    }
    EXPECT_EQ(at, out.predictions.size());
  }

  const TokenClasses classes_ = some_classes(1500);
  SmallModel model_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Executor> executor_;
  std::vector<Request> requests_;
};

TEST_P(Streams, EachGivesWhatItGivesAlone) {
  for (const DType kv : {DType::F16, DType::F32})
    for (const ModelConfig& config : {small_config(RopePairing::half_split, 2), small_llada_moe(), small_llada2()}) {
      open(DType::Q8_0, config);
      const KeyRule rule = model_.graph.keys;
      const KeyRule window = KeyRule::window(5, 3);
      add_request(19, 4, 7, 0, 0, false, kv, rule);
      add_request(9, 0, 9, 1.5, 0, true, kv, rule);
      add_request(33, 30, 1, 0, 0.7, true, kv, window);
      add_request(12, 3, 5, 0.25, 0, false, kv, KeyRule::causal());
      ASSERT_EQ(requests_.size(), 4u);
      run_alone();
      expect_alike_together({0, 1, 2, 3});
      expect_alike_together({3, 1});
      expect_alike_together({2, 0, 3, 1});
      if (HasFailure()) return;
    }
}

// A value that is not finite, among those that one of them reads from its store: its own error, and nobody else's.
TEST_P(Streams, OneThatReadsDamagedNumbersIsAloneWithThem) {
  open(DType::Q8_0, small_config(RopePairing::half_split, 2));
  const KeyRule rule = model_.graph.keys;
  add_request(19, 4, 7, 0, 0, false, DType::F16, rule);
  add_request(12, 3, 5, 0.25, 0, false, DType::F16, rule);
  add_request(9, 0, 9, 0, 0.7, false, DType::F16, rule);
  run_alone();
  if (HasFailure()) return;
  const uint16_t nan = 0x7e00;
  std::memcpy(requests_[0].kv->values(1, 0, 1) + 2 * (2 * model_.graph.head_dim + 5), &nan, sizeof nan);
  StepInputs step;
  for (size_t i = 0; i < requests_.size(); ++i) {
    Request& r = requests_[i];
    step.streams.push_back(r.step.stream_over(*r.kv));
    r.step.add_to(step, static_cast<int32_t>(i));
  }
  StepOutputs out;
  std::vector<Status> streams;
  const auto status = must(executor_->run(step, out, &streams));
  ASSERT_EQ(streams.size(), 3u);
  ASSERT_FALSE(streams[0]);
  EXPECT_EQ(streams[0].error().kind, ErrorKind::data) << streams[0].error().message;
  size_t at = requests_[0].alone.predictions.size();
  for (size_t i = 1; i < requests_.size(); ++i) {
    EXPECT_TRUE(streams[i]) << streams[i].error().message;
    EXPECT_EQ(out.logits[i], requests_[i].alone.logits);
    for (const Prediction& alone : requests_[i].alone.predictions) {
      ASSERT_LT(at, out.predictions.size());
      EXPECT_EQ(out.predictions[at].token, alone.token);
      EXPECT_EQ(out.predictions[at++].probability, alone.probability);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Streams, testing::ValuesIn(all_devices()),
                         [](const testing::TestParamInfo<DeviceUnderTest>& device) { return device.param.name; });

// The stretches that are read hold many chunks of the head, whose threads take them in any order.
TEST(LongStreams, ScoresOfLargeVocabularies) {
  ModelConfig config = small_config(RopePairing::half_split, 2);
  config.layers = 1, config.vocab = 70'001;
  const SmallModel model = make_small_model(DType::Q8_0, config);
  const TokenClasses classes = some_classes(70'001);
  for (const auto* table : kernels::available())
    for (const int threads : {1, 3}) {
      const auto device =
          *make_cpu_device({.threads = threads, .isa = table->isa}, model.graph.weights, model.views, {});
      Executor executor(*device, forwards_of(model.graph));
      KvStore kv = store_of(model.graph, 8, DType::F16);
      OneStream step = step_of({0, 11'000, 22'000, 33'000, 44'000}, ascending(0, 5), {0, 2, 3});
      step.keep_logits = false;
      step.sampling.temperature = 0.8;
      step.reading = {&classes, 0.8};
      OneResult read, kept;
      ASSERT_TRUE(run_one(executor, step, kv, read));
      EXPECT_TRUE(read.logits.empty());
      step.keep_logits = true;
      ASSERT_TRUE(run_one(executor, step, kv, kept));
      ASSERT_EQ(read.scores.size(), 3u);
      EXPECT_TRUE(read.scores == kept.scores) << table->isa;
      expect_scores_of_logits(step, kept, read.scores);
    }
}

// Digests are of one store; rows of long and short requests, windows among them.
TEST(LongStreams, DigestsAreEachRequestsOwn) {
  const ModelConfig config = [] {
    ModelConfig c = small_config(RopePairing::half_split, 1);
    c.width = 128, c.heads = 2, c.kv_heads = 1, c.head_dim = c.rotary_dims = 64, c.layers = 1, c.ffn_width = 64;
    c.context = 2048;
    return c;
  }();
  const SmallModel model = make_small_model(DType::Q8_0, config);
  for (const auto* table : kernels::available()) {
    const auto device = *make_cpu_device({.threads = 3, .isa = table->isa}, model.graph.weights, model.views, {});
    Executor executor(*device, forwards_of(model.graph));
    const std::pair<int32_t, KeyRule> requests[] = {{1300, KeyRule::full()},
                                                    {60, KeyRule::full()},
                                                    {1500, KeyRule::window(1100, 0)},
                                                    {1400, KeyRule::window(90, 30)},
                                                    {1100, KeyRule::causal()}};
    std::vector<std::unique_ptr<KvStore>> stores;
    std::vector<OneStream> steps;
    std::vector<OneResult> alone;
    for (const auto& [keys, rule] : requests) {
      stores.push_back(std::make_unique<KvStore>(store_of(model.graph, keys, DType::F16)));
      std::vector<int32_t> before, tokens;
      for (int32_t p = 0; p < keys; ++p) {
        before.push_back((p * 7 + keys) % static_cast<int32_t>(config.vocab));
        tokens.push_back((p * 3 + 1) % static_cast<int32_t>(config.vocab));
      }
      OneResult out;
      ASSERT_TRUE(run_one(executor, step_of(before, ascending(0, keys), {}, rule), *stores.back(), out));
      OneStream step = step_of(tokens, ascending(keys - 40, keys), {0, 17, 39}, rule);
      alone.emplace_back();
      ASSERT_TRUE(run_one(executor, step, *stores.back(), alone.back()));
      steps.push_back(std::move(step));
    }
    StepInputs together;
    for (size_t i = 0; i < steps.size(); ++i) {
      together.streams.push_back({.kv = stores[i].get(), .sampling = {}, .keep_logits = true});
      steps[i].add_to(together, static_cast<int32_t>(i));
    }
    StepOutputs out;
    ASSERT_TRUE(executor.run(together, out));
    for (size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(out.logits[i], alone[i].logits) << table->isa << " " << i;
  }
}

}  // namespace
}  // namespace llada
