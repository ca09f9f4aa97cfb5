// What every device must do, whatever it is made of: the forward of a small model against plain double
// arithmetic, partial recomputation over the K/V store, guidance, sampling rules, the reduced head against
// its own logits.
#include <gmock/gmock.h>

#include <algorithm>

#include "devices_under_test.h"
#include "formats/family.h"
#include "must.h"
#include "one_stream.h"
#include "sched/executor.h"
#include "small_model.h"

namespace llada {
namespace {

class Conformance : public OnDevice {
 protected:
  void open(DType type, RopePairing pairing = RopePairing::half_split, int kv_heads = 4, int sequences = 1,
            DType kv = DType::F32) {
    open(type, small_config(pairing, kv_heads), sequences, kv);
  }
  void open(DType type, const ModelConfig& config, int sequences = 1, DType kv = DType::F32) {
    kv_.reset();  // its memory is of the device before
    model_ = make_small_model(type, config);
    device_ = *must(GetParam().open(model_));
    executor_ = std::make_unique<Executor>(*device_, forwards_of(model_.graph));
    kv_ = std::make_unique<KvStore>(store_of(model_.graph, 64, kv, device_.get(), sequences));
    tokens_ = random_tokens(19, 1500);
  }

  // A type whose head the device's accelerator computes.
  static DType head_type() { return GetParam().name == "hexagon" ? DType::Q8_0 : DType::F32; }

  OneStream inputs(const std::vector<int32_t>& rows, const std::vector<int32_t>& wanted) const {
    return step_of(tokens_, rows, wanted, model_.graph.keys);
  }
  std::vector<int32_t> every_row() const { return ascending(0, static_cast<int32_t>(tokens_.size())); }
  OneResult run(const OneStream& in) {
    OneResult out;
    const auto status = run_one(*executor_, in, *kv_, out);
    EXPECT_TRUE(status) << status.error().message;
    return out;
  }

  SmallModel model_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<KvStore> kv_;
  std::vector<int32_t> tokens_;
};

// A trial answers as if its inputs stood in the canvas and everything else were read from the store, for its own
// rows only; afterwards the store is as it was.
TEST_P(Conformance, TrialsAreForwardsThatLeaveNoTrace) {
  for (const DType kv : {DType::F32, DType::F16}) {
    open(DType::F32, RopePairing::half_split, 2, 1, kv);
    run(inputs(every_row(), {}));
    const auto stored = [&](const std::vector<int32_t>& positions) {
      const auto saved = kv_->save(positions);
      return std::pair(saved.data, saved.versions);
    };
    const auto n = static_cast<int32_t>(tokens_.size());
    // One step: dense rows 3 and 4 with logits of 4; a trial at 7; a trial of 9 and 10 with logits of 9.
    OneStream in = inputs({3, 4}, {1});
    in.spans.push_back({2, 1, 0, n, true});
    in.spans.push_back({3, 2, 0, n, true});
    in.tokens.insert(in.tokens.end(), {1400, tokens_[9], 1401});
    in.positions.insert(in.positions.end(), {7, 9, 10});
    in.wanted = {1, 2, 3};
    in.sampling.forward_number = 5;
    const OneResult together = run(in);
    ASSERT_EQ(together.predictions.size(), 3u);
    const auto logits = [](const OneResult& out, size_t row) {
      return std::vector<float>(out.logits.begin() + static_cast<std::ptrdiff_t>(row * 1500),
                                out.logits.begin() + static_cast<std::ptrdiff_t>((row + 1) * 1500));
    };
    EXPECT_EQ(kv_->version(0, 3), 5);
    EXPECT_EQ(kv_->version(0, 7), 0) << "a trial stores nothing";
    const auto after = stored(every_row());

    // The same apart, by plain forwards over the store as the dense rows left it, put back each time.
    const auto apart = [&](std::vector<int32_t> rows, std::vector<int32_t> tokens, int32_t wanted) {
      const auto saved = kv_->save(rows);
      OneStream alone = inputs(rows, {wanted});
      alone.tokens = std::move(tokens);
      const OneResult out = run(alone);
      kv_->put_back(saved);
      return logits(out, 0);
    };
    EXPECT_EQ(logits(together, 1), apart({7}, {1400}, 0));
    EXPECT_EQ(logits(together, 2), apart({9, 10}, {tokens_[9], 1401}, 0));
    EXPECT_EQ(stored(every_row()), after) << "save and put_back lose nothing";
    EXPECT_NE(logits(together, 1), apart({7}, {tokens_[7]}, 0)) << "the input matters";
    // The dense rows do not see the trials: alone they come out the same.
    EXPECT_EQ(logits(together, 0), logits(run(inputs({3, 4}, {1})), 0));
  }
}

// Float weights: rounding only. Quantized weights multiply int8 activations, whose rounding (1/254 of a
// group's maximum, random in sign) leaves an error that is small beside the spread of the logits but no
// rounding error.
struct Case {
  DType type;
  double tolerance;
};

// labels: -threads
TEST_P(Conformance, LogitsOfEveryWeightType) {
  for (const auto& [type, tolerance] :
       {Case{DType::F32, 1e-4}, {DType::F16, 1e-4}, {DType::BF16, 1e-4}, {DType::Q8_0, 0.13}, {DType::Q4_0, 0.13}}) {
    open(type, type == DType::F16 ? RopePairing::adjacent : RopePairing::half_split, type == DType::BF16 ? 2 : 4);
    const Rows expected = reference_forward(model_, tokens_);
    const OneResult out = run(inputs(every_row(), every_row()));
    ASSERT_EQ(out.logits.size(), tokens_.size() * 1500);
    double worst = 0, squares = 0;
    for (size_t p = 0; p < tokens_.size(); ++p)
      for (size_t t = 0; t < 1500; ++t) {
        const double difference = out.logits[p * 1500 + t] - expected[p][t];
        worst = std::max(worst, std::fabs(difference));
        squares += difference * difference;
      }
    // The worst of so many logits is chance; their mean is what rounding activations in groups of 32 costs.
    EXPECT_LT(std::sqrt(squares / static_cast<double>(out.logits.size())), 0.024) << traits(type).name;
    // The DSP multiplies F16 and BF16 as 16-bit integers: 2^7 times finer than int8, but weights and products are
    // rounded as well, which takes two of those bits.
    const bool fixed = GetParam().name == "hexagon" && (type == DType::F16 || type == DType::BF16);
    EXPECT_LT(worst, fixed ? 0.12 / 32 : tolerance) << traits(type).name;
  }
}

// Where every row reads all keys, it does not matter where these lie; under a causal rule a row reads those that lie
// before its own.
TEST_P(Conformance, KeysLieWhereTheStepSays) {
  open(DType::F32, RopePairing::half_split, 2);
  const auto n = static_cast<int32_t>(tokens_.size());
  OneStream in = inputs(every_row(), every_row());
  for (int32_t p = 0; p < n; ++p) in.places.push_back((7 * p + 5) % n);
  const Rows expected = reference_forward(model_, tokens_);
  const auto compare = [&](const OneResult& out, size_t row, size_t position) {
    double worst = 0;
    for (size_t t = 0; t < 1500; ++t)
      worst = std::max(worst, std::fabs(out.logits[row * 1500 + t] - expected[position][t]));
    EXPECT_LT(worst, 1e-4) << "position " << position;
  };
  const OneResult all = run(in);
  for (size_t p = 0; p < tokens_.size(); ++p) {
    EXPECT_EQ(all.predictions[p].position, static_cast<int32_t>(p));
    compare(all, p, p);
  }
  OneStream some = inputs({4, 9}, {0, 1});  // over what that step has stored
  some.places = {in.places[4], in.places[9]};
  const OneResult again = run(some);
  compare(again, 0, 4), compare(again, 1, 9);

  in.rule = some.rule = KeyRule::causal();
  const OneResult causal = run(in);
  const auto first = static_cast<size_t>(std::ranges::find(in.places, 0) - in.places.begin());
  OneStream alone = inputs({static_cast<int32_t>(first)}, {0});
  alone.places = {0}, alone.rule = in.rule;
  const OneResult one = run(alone);
  EXPECT_EQ(std::vector(causal.logits.begin() + static_cast<std::ptrdiff_t>(first * 1500),
                        causal.logits.begin() + static_cast<std::ptrdiff_t>((first + 1) * 1500)),
            one.logits)
      << "the row in the first place reads itself alone";
}

TEST_P(Conformance, LogitsOfEveryArchitecture) {
  ModelConfig together = small_llada2();  // the rows of 4 positions choose experts together; the last block is cut off
  together.expert_capacity = 3, together.expert_block = 4;
  together.expert_groups = together.expert_groups_used = 1;
  for (const ModelConfig& config : {small_dream(), small_llada_moe(), small_llada2(), together}) {
    open(DType::F32, config);
    if (config.expert_capacity > 0 && GetParam().name.starts_with("cuda")) {
      EXPECT_THAT(why_not(device_->supports(**forwards_of(model_.graph)(plain_shape(4, 4)))),
                  testing::HasSubstr("choose experts together"));
      continue;
    }
    const Rows expected = reference_forward(model_, tokens_);
    const OneResult out = run(inputs(every_row(), every_row()));
    double worst = 0;
    for (size_t p = 0; p < tokens_.size(); ++p)
      for (size_t t = 0; t < 1500; ++t) worst = std::max(worst, std::fabs(out.logits[p * 1500 + t] - expected[p][t]));
    EXPECT_LT(worst, 2e-4) << config.family->name;
  }
}

// Experts are batched by the rows that chose them; a row's result must not show who shared its expert.
TEST_P(Conformance, ARowOfExpertsDoesNotKnowItsBatch) {
  for (const DType type : {DType::F32, DType::Q8_0, DType::Q4_0}) {
    open(type, small_llada_moe());
    const OneResult full = run(inputs(every_row(), {10, 11, 12}));
    EXPECT_EQ(run(inputs({10, 11, 12}, {0, 1, 2})).logits, full.logits) << traits(type).name;
    device_ = *must(device_->share(3));
    executor_ = std::make_unique<Executor>(*device_, forwards_of(model_.graph));
    EXPECT_EQ(run(inputs(every_row(), {10, 11, 12})).logits, full.logits) << traits(type).name;
  }
}

TEST_P(Conformance, ReducedHeadAgreesWithItsLogits) {
  open(head_type());
  OneStream in = inputs(every_row(), {3, 7, 18});
  const OneResult out = run(in);
  ASSERT_EQ(out.predictions.size(), 3u);
  for (size_t r = 0; r < 3; ++r) {
    const float* row = out.logits.data() + r * 1500;
    const auto best = std::max_element(row, row + 1500) - row;
    double sum = 0, weighted = 0, second = -1e30;
    int64_t runner_up = -1;
    for (int64_t t = 0; t < 1500; ++t) {
      const double d = static_cast<double>(row[t]) - row[best];
      sum += std::exp(d), weighted += d * std::exp(d);
      if (t != best && row[t] > second) second = row[t], runner_up = t;
    }
    const Prediction& p = out.predictions[r];
    EXPECT_EQ(p.token, best);
    EXPECT_EQ(p.runner_up, runner_up);
    EXPECT_EQ(p.logit, row[best]);
    EXPECT_NEAR(p.probability, 1 / sum, 1e-6 / sum);
    EXPECT_NEAR(p.entropy, std::log(sum) - weighted / sum, 1e-5);
    EXPECT_NEAR(p.margin, (1 - std::exp(second - row[best])) / sum, 1e-6);
  }
}

TEST_P(Conformance, RowsOverTheStoreEqualTheFullForwardBitForBit) {
  for (const DType kv : {DType::F32, DType::F16}) {
    open(DType::Q8_0, RopePairing::half_split, 2, 1, kv);
    const OneResult full = run(inputs(every_row(), {10, 11, 12}));
    for (const std::vector<int32_t>& rows :
         {std::vector<int32_t>{10, 11, 12}, {0, 10, 11, 12, 18}, {4, 5, 6, 7, 8, 9, 10, 11, 12}}) {
      std::vector<int32_t> wanted;
      for (size_t r = 0; r < rows.size(); ++r)
        if (rows[r] >= 10 && rows[r] <= 12) wanted.push_back(static_cast<int32_t>(r));
      const OneResult part = run(inputs(rows, wanted));
      EXPECT_EQ(part.logits, full.logits);
    }
  }
}

TEST_P(Conformance, AStepWithoutLogitsRefreshesTheStore) {
  open(DType::F32);
  const OneResult before = run(inputs(every_row(), {5}));
  tokens_[2] = (tokens_[2] + 1) % 1500;
  EXPECT_TRUE(run(inputs(every_row(), {})).predictions.empty());  // every layer's K/V now knows the new token
  const OneResult refreshed = run(inputs({5}, {0}));
  EXPECT_EQ(refreshed.logits, run(inputs(every_row(), {5})).logits);
  EXPECT_NE(refreshed.logits, before.logits);
}

TEST_P(Conformance, GuidanceMixesTheTwoStreams) {
  open(DType::F32, RopePairing::half_split, 4, 2);
  const std::vector<int32_t> conditional = tokens_;
  std::vector<int32_t> unconditional = tokens_;
  for (size_t p = 0; p < 8; ++p) unconditional[p] = 77;
  const Rows c = reference_forward(model_, conditional), u = reference_forward(model_, unconditional);
  const auto n = static_cast<int32_t>(tokens_.size());
  OneStream in = inputs(every_row(), {9, 15, 9 + n, 15 + n});
  for (int32_t p = 0; p < n; ++p) in.tokens.push_back(unconditional[static_cast<size_t>(p)]), in.positions.push_back(p);
  in.spans.push_back({n, n, 1, n});
  in.guidance = 1.5;
  const OneResult out = run(in);
  ASSERT_EQ(out.predictions.size(), 2u);
  for (size_t r = 0; r < 2; ++r)
    for (size_t t = 0; t < 1500; ++t) {
      const size_t p = r == 0 ? 9 : 15;
      EXPECT_NEAR(out.logits[r * 1500 + t], u[p][t] + 2.5 * (c[p][t] - u[p][t]), 5e-4);
    }
}

TEST_P(Conformance, ExcludedTokens) {
  open(head_type());
  OneStream in = inputs(every_row(), {6});
  const Prediction plain = run(in).predictions[0];
  in.sampling.never_sampled = {plain.token};
  const Prediction second = run(in).predictions[0];
  EXPECT_EQ(second.token, plain.runner_up);
  EXPECT_LT(second.probability, plain.probability) << "the softmax still counts the token that may not be sampled";
  in.sampling.never_sampled.clear();
  in.sampling.out_of_softmax = {plain.token};
  const Prediction first = run(in).predictions[0];
  EXPECT_EQ(first.token, plain.token) << "sampled all the same";
  EXPECT_EQ(first.probability, 0.0);
  in.sampling.never_sampled = {plain.token};
  const Prediction both = run(in).predictions[0];
  EXPECT_EQ(both.token, plain.runner_up);
  EXPECT_NEAR(both.probability, second.probability / (1 - plain.probability), 1e-6);
}

// Gumbel-max draws token t with probability softmax(logits / T)[t].
// labels: -threads
TEST_P(Conformance, SamplingFollowsTheTemperedDistribution) {
  open(head_type());
  run(inputs(every_row(), {}));
  OneStream in = inputs({6}, {0});  // the other rows' K/V is there
  const OneResult greedy = run(in);
  in.sampling.temperature = 0.5;
  double sum = 0;
  for (const float l : greedy.logits) sum += std::exp((l - greedy.predictions[0].logit) / 0.5);
  const double expected = 1 / sum;
  int hits = 0;
  const int draws = emulated(GetParam()) ? 60 : 400;
  in.keep_logits = false;
  for (int i = 0; i < draws; ++i) {
    in.sampling.forward_number = i;
    hits += run(in).predictions[0].token == greedy.predictions[0].token;
  }
  EXPECT_NEAR(static_cast<double>(hits) / draws, expected, 4 * std::sqrt(expected * (1 - expected) / draws))
      << "four standard deviations";
  in.sampling.forward_number = 3;
  const int32_t again = run(in).predictions[0].token;
  EXPECT_EQ(run(in).predictions[0].token, again);
  // Drawn once, the noise of every forward is that of the first.
  in.sampling.forward_number = 0;
  const int32_t first = run(in).predictions[0].token;
  in.sampling.fixed_noise = true;
  for (int i = 0; i < 12; ++i) {
    in.sampling.forward_number = i;
    EXPECT_EQ(run(in).predictions[0].token, first) << i;
  }
}

TEST_P(Conformance, DamagedWeightsAreAnError) {
  open(DType::F32);
  auto* output = reinterpret_cast<float*>(model_.storage.back().data());
  for (int i = 0; i < 64 * 1500; ++i) output[i] = std::numeric_limits<float>::quiet_NaN();
  device_ = *must(GetParam().open(model_));
  executor_ = std::make_unique<Executor>(*device_, forwards_of(model_.graph));
  OneResult out;
  const auto status = run_one(*executor_, inputs(every_row(), {3}), *kv_, out);
  ASSERT_FALSE(status);
  EXPECT_EQ(exit_status(status.error()), 1);
}

TEST_P(Conformance, SharedDevicesAgree) {
  open(DType::Q4_0);
  const OneResult here = run(inputs(every_row(), every_row()));
  device_ = *must(device_->share(3));
  executor_ = std::make_unique<Executor>(*device_, forwards_of(model_.graph));
  EXPECT_EQ(run(inputs(every_row(), every_row())).logits, here.logits);
}

// labels: device native for hexagon cuda_emulated cuda_tensor_emulated
INSTANTIATE_TEST_SUITE_P(Devices, Conformance, testing::ValuesIn(all_devices()),
                         [](const testing::TestParamInfo<DeviceUnderTest>& device) { return device.param.name; });

}  // namespace
}  // namespace llada
