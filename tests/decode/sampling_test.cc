// Sampling from part of the vocabulary, against a direct implementation that sorts everything.
#include "decode/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "base/random.h"
#include "decode/canvas.h"
#include "decode/script.h"

namespace llada::decode {
namespace {

// The ids that may be sampled, by the words of the options: sort all, cut, renormalise, cut again.
std::vector<int32_t> allowed_directly(const std::vector<double>& logits, const DecodeOptions& o,
                                      const std::vector<int32_t>& never) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::erase_if(ids, [&](int32_t id) { return std::ranges::count(never, id) > 0; });
  std::ranges::stable_sort(
      ids, [&](int32_t a, int32_t b) { return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]; });
  if (o.top_k > 0 && o.top_k < std::ssize(ids)) ids.resize(static_cast<size_t>(o.top_k));
  std::vector<double> p;
  for (const int32_t id : ids)
    p.push_back(std::exp(logits[static_cast<size_t>(id)] - logits[static_cast<size_t>(ids[0])]));
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  size_t kept = ids.size();
  if (o.top_p < 1) {
    double sum = 0;
    for (kept = 0; kept < ids.size();)
      if ((sum += p[kept++] / total) >= o.top_p) break;
  }
  std::vector<int32_t> out;
  for (size_t i = 0; i < kept; ++i)
    if (o.min_p == 0 || p[i] >= o.min_p) out.push_back(ids[i]);
  return out;
}

int32_t sampled_directly(std::vector<double> logits, const DecodeOptions& o, const std::vector<int32_t>& never,
                         const std::vector<int32_t>& repeated, const Draw& draw) {
  for (const auto& [id, bias] : o.logit_bias) logits[static_cast<size_t>(id)] += bias;
  for (const int32_t id : repeated) {
    double& value = logits[static_cast<size_t>(id)];
    value = value > 0 ? value / o.repeat_penalty : value * o.repeat_penalty;
  }
  std::vector<int32_t> ids = allowed_directly(logits, o, never);
  std::ranges::sort(ids);
  int32_t best = -1;
  double most = -std::numeric_limits<double>::infinity();
  for (const int32_t id : ids) {
    double score = logits[static_cast<size_t>(id)];
    if (o.temperature > 0)
      score -= o.temperature * std::log(-std::log(uniform(o.seed, static_cast<uint64_t>(draw.forward),
                                                          static_cast<uint64_t>(draw.row), static_cast<uint64_t>(id))));
    if (score > most) most = score, best = id;
  }
  return best;
}

std::vector<float> random_logits(std::mt19937_64& rng, size_t size, bool ties) {
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(size);
  for (float& value : logits) value = ties ? std::round(normal(rng)) : normal(rng);
  return logits;
}

TEST(Sampling, IsThatOfTheDirectImplementation) {
  std::mt19937_64 rng(11);
  const std::vector<int64_t> ks = {0, 1, 2, 5, 39, 40, 41, 1000};
  const std::vector<double> ps = {0, 0.1, 0.5, 0.9, 0.999, 1}, penalties = {1, 1.3, 0.5, 4};
  for (int round = 0; round < 4000; ++round) {
    const size_t size = round % 7 == 0 ? 1 : 40;
    const auto logits = random_logits(rng, size, round % 2 == 0);
    DecodeOptions o;
    o.temperature = round % 5 == 0 ? 0 : 0.25 * static_cast<double>(rng() % 8 + 1);
    o.seed = rng();
    o.top_k = ks[rng() % ks.size()];
    o.top_p = ps[rng() % ps.size()];
    o.min_p = ps[rng() % ps.size()];
    o.repeat_penalty = penalties[rng() % penalties.size()];
    SamplingRule rule;
    if (size > 3) rule.never_sampled = {2, 39};
    std::vector<int32_t> repeated;
    for (int32_t id = 0; id < static_cast<int32_t>(size); ++id)
      if (rng() % 4 == 0) repeated.push_back(id);
    if (round % 3 == 0)
      for (int32_t id = 0; id < static_cast<int32_t>(size); id += 1 + static_cast<int32_t>(rng() % 9))
        o.logit_bias.emplace_back(id, static_cast<double>(rng() % 41) / 2 - 10);
    const Draw draw{static_cast<int64_t>(rng() % 100), static_cast<int32_t>(rng() % 1000)};
    const Prediction got = predict(logits, o, rule, repeated, draw);
    EXPECT_EQ(got.token, sampled_directly({logits.begin(), logits.end()}, o, rule.never_sampled, repeated, draw))
        << "round " << round << " top_k " << o.top_k << " top_p " << o.top_p << " min_p " << o.min_p;
    EXPECT_EQ(got.position, draw.row);
  }
}

TEST(Sampling, ConfidenceIsThatOfTheCleanSoftmax) {
  const std::vector<float> logits = {1, 3, 2, 2.5F, -1};
  DecodeOptions o;
  o.temperature = 0.5, o.top_k = 2, o.repeat_penalty = 3;
  SamplingRule rule{.never_sampled = {4}, .out_of_softmax = {3}};
  const std::vector<int32_t> repeated = {1};
  const double sum = std::exp(1.0) + std::exp(3.0) + std::exp(2.0) + std::exp(-1.0);  // without id 3
  std::map<int32_t, int> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    o.seed = seed;
    const Prediction p = predict(logits, o, rule, repeated, {});
    ++seen[p.token];
    EXPECT_EQ(p.logit, logits[static_cast<size_t>(p.token)]);
    EXPECT_NEAR(p.probability, p.token == 3 ? 0 : std::exp(double{logits[static_cast<size_t>(p.token)]}) / sum, 1e-12);
    EXPECT_EQ(p.runner_up, 3) << "the second best of the clean logits, ids that are never sampled left out";
    EXPECT_NEAR(p.margin, std::exp(3.0) / sum, 1e-12) << "3 is out of the softmax";
    double entropy = 0;
    for (const double logit : {1.0, 3.0, 2.0, -1.0}) entropy -= std::exp(logit) / sum * std::log(std::exp(logit) / sum);
    EXPECT_NEAR(p.entropy, entropy, 1e-12);
  }
  EXPECT_EQ(seen.size(), 2u);  // 2 and 3: id 1 was divided to 1
  EXPECT_GT(seen[2], 0);
  EXPECT_GT(seen[3], 0);
}

// Dream's published sampler: divide by the temperature, cut by top-p, then by top-k, and take confidence, entropy and
// margin of what is left. Of the clean softmax the order of these two rows is the other one.
TEST(Sampling, DreamsRulesReadWhatIsSampledFrom) {
  const std::vector<float> a = {3, 2.9F}, b = {3, 1.5F, 1.5F, 1.5F, 1.5F, 1.5F};
  const SamplingRule rule;
  const auto entropy = [&](const std::vector<float>& logits, double temperature, double top_p = 1, int64_t top_k = 0) {
    const DecodeOptions o{AcceptanceOptions{.acceptance = Acceptance::dream_entropy},
                          SamplingOptions{.temperature = temperature, .top_k = top_k, .top_p = top_p}};
    return predict(logits, o, rule, {}, {});
  };
  EXPECT_NEAR(entropy(a, 0).entropy, 0.692, 1e-3);
  EXPECT_NEAR(entropy(b, 0).entropy, 1.540, 1e-3);
  EXPECT_NEAR(entropy(a, 0.2).entropy, 0.663, 1e-3);
  EXPECT_NEAR(entropy(b, 0.2).entropy, 0.0236, 1e-3);
  // By hand: logits (3, 2.9) over 0.2 are (15, 14.5).
  const double first = 1 / (1 + std::exp(-0.5));
  const Prediction p = entropy(a, 0.2);
  EXPECT_NEAR(p.probability, p.token == 0 ? first : 1 - first, 1e-6);
  EXPECT_NEAR(p.margin, 2 * first - 1, 1e-6);
  // b over 1: e^1.5 = 4.48 to 5 ones. 0.47 of it is the first alone, which is then sure.
  for (const Prediction& cut : {entropy(b, 1, 0.47), entropy(b, 1, 1, 1)}) {
    EXPECT_EQ(cut.token, 0);
    EXPECT_EQ(cut.probability, 1);
    EXPECT_EQ(cut.entropy, 0);
    EXPECT_EQ(cut.margin, 1);
  }
  // Other rules keep the clean confidence, and without temperature there is nothing to heat.
  DecodeOptions other{AcceptanceOptions{.acceptance = Acceptance::entropy}, SamplingOptions{.temperature = 0.2}};
  EXPECT_NEAR(predict(a, other, rule, {}, {}).entropy, 0.692, 1e-3);
  EXPECT_FALSE(needs_logits(other));
  other.acceptance = Acceptance::dream_margin;
  EXPECT_TRUE(needs_logits(other));
  other.temperature = 0;
  EXPECT_FALSE(needs_logits(other));
}

TEST(Sampling, TiesAtABorderGoToTheLowerId) {
  const std::vector<float> logits = {1, 2, 2, 2, 0};
  DecodeOptions o;
  o.temperature = 5;
  const auto drawn = [&] {
    std::vector<bool> seen(5);
    for (uint64_t seed = 0; seed < 300; ++seed)
      o.seed = seed, seen[static_cast<size_t>(predict(logits, o, {}, {}, {}).token)] = true;
    return seen;
  };
  o.top_k = 2;
  EXPECT_EQ(drawn(), (std::vector<bool>{false, true, true, false, false}));
  o.top_k = 0, o.top_p = 0.3;  // of 2.0 and 1.0: each 2 has 0.29
  EXPECT_EQ(drawn(), (std::vector<bool>{false, true, true, false, false}));
  o.top_p = 1, o.min_p = 1;
  EXPECT_EQ(drawn(), (std::vector<bool>{false, true, true, true, false})) << "all that are as good as the best";
  o.min_p = 0, o.top_p = 0;
  EXPECT_EQ(drawn(), (std::vector<bool>{false, true, false, false, false})) << "one is always left";
}

TEST(Sampling, AllMassOnOneTokenAndHugeLogits) {
  std::vector<float> logits(100, -3e38F);
  logits[17] = 3e38F;
  DecodeOptions o;
  o.temperature = 1, o.top_p = 0.9, o.min_p = 0.1, o.top_k = 50;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    o.seed = seed;
    const Prediction p = predict(logits, o, {}, {}, {});
    EXPECT_EQ(p.token, 17);
    EXPECT_EQ(p.probability, 1);
    EXPECT_EQ(p.entropy, 0);
  }
}

// In distribution: what is kept is drawn as softmax(logits / temperature) says.
TEST(Sampling, FrequenciesAreThoseOfTheRenormalisedSoftmax) {
  const std::vector<float> logits = {0, 1, 2, 3, -50};
  DecodeOptions o;
  o.temperature = 2, o.top_k = 3;
  std::vector<double> count(5);
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++count[static_cast<size_t>(predict(logits, o, {}, {}, {i, 5}).token)];
  const double sum = std::exp(0.5) + std::exp(1.0) + std::exp(1.5);
  for (const int id : {1, 2, 3}) {
    const double p = std::exp(id / 2.0) / sum;
    EXPECT_NEAR(count[static_cast<size_t>(id)] / kDraws, p, 5 * std::sqrt(p * (1 - p) / kDraws)) << id;
  }
  EXPECT_EQ(count[0] + count[4], 0);
}

// Over seeds, one draw for all forwards has the same distribution; over forwards it is one token.
TEST(Sampling, OneDrawIsATokenOfTheSameDistribution) {
  const std::vector<float> logits = {0, 1, 2, 3};
  SamplingRule once;
  once.fixed_noise = true;
  DecodeOptions o;
  o.temperature = 2;
  double sum = 0;
  for (const float x : logits) sum += std::exp(x / 2);
  constexpr uint64_t kDraws = 20000;
  for (const int32_t position : {0, 7}) {
    std::vector<double> count(4);
    for (o.seed = 0; o.seed < kDraws; ++o.seed)
      ++count[static_cast<size_t>(predict(logits, o, once, {}, {static_cast<int64_t>(o.seed % 3), position}).token)];
    for (size_t id = 0; id < 4; ++id) {
      const double p = std::exp(logits[id] / 2) / sum;
      EXPECT_NEAR(count[id] / kDraws, p, 5 * std::sqrt(p * (1 - p) / kDraws)) << id;
    }
  }
  std::set<int32_t> with_one, with_many, of_positions;
  o.seed = 3;
  for (int32_t i = 0; i < 50; ++i) {
    with_one.insert(predict(logits, o, once, {}, {i, 7}).token);
    with_many.insert(predict(logits, o, {}, {}, {i, 7}).token);
    of_positions.insert(predict(logits, o, once, {}, {0, i}).token);
  }
  EXPECT_EQ(with_one.size(), 1u);
  EXPECT_EQ(with_many.size(), 4u);
  EXPECT_EQ(of_positions.size(), 4u) << "positions have draws of their own";
}

// Predictions, trials and the sparse path's trials have the rows of logits that are theirs, and the sparse path the
// number of its own forward.
TEST(Sampling, TrialsAreSampledFromTheirOwnLogits) {
  const SpecialIds ids = test_ids();
  const Canvas canvas = lay_generation(kPrompt, 8, ids);
  std::vector<float> logits, sparse;
  for (uint64_t i = 0; i < 30; ++i) logits.push_back(static_cast<float>(draw(1, i)));
  for (uint64_t i = 0; i < 20; ++i) sparse.push_back(static_cast<float>(draw(2, i)));
  const auto row = [](const std::vector<float>& all, size_t i) { return std::span(all).subspan(10 * i, 10); };
  DecodeOptions o;
  o.temperature = 1, o.top_k = 6;
  for (const bool once : {false, true}) {
    SamplingRule rule;
    rule.fixed_noise = once;
    StepResult result = {.predictions = {{.position = 4}},
                         .trials = {{.position = 2}, {.position = 3}},
                         .sparse = {{.position = 5}, {.position = 2}},
                         .landed = 8};
    ASSERT_TRUE(predict_all(logits, sparse, o, rule, ids, canvas, canvas, 11, result));
    const auto expect = [&](const Prediction& got, std::span<const float> of, int64_t forward, int32_t position) {
      const Prediction wanted = predict(of, o, rule, {}, {forward, position});
      EXPECT_EQ(got.position, position);
      EXPECT_EQ(got.token, wanted.token) << position;
      EXPECT_EQ(got.probability, wanted.probability) << position;
    };
    expect(result.predictions[0], row(logits, 0), 11, 4);
    expect(result.trials[0], row(logits, 1), 11, 2);
    expect(result.trials[1], row(logits, 2), 11, 3);
    expect(result.sparse[0], row(sparse, 0), 8, 5);
    expect(result.sparse[1], row(sparse, 1), 8, 2);
  }
}

// A pass that lands later is penalized for what stood on the canvas when it began.
TEST(Sampling, APassIsPenalizedForTheCanvasThatItSaw) {
  const SpecialIds ids = test_ids();
  const Canvas before = lay_generation(kPrompt, 8, ids);
  Canvas now = before;
  const auto next = static_cast<size_t>(kPrompt.size());
  now.tokens[next] = 5, now.states[next] = TokenState::visible;
  DecodeOptions o;
  o.repeat_penalty = 100;
  const auto position = static_cast<int32_t>(next) + 1;
  std::vector<float> logits(10, 0.5f);
  logits[5] = 3, logits[6] = 1;
  StepResult result = {.predictions = {{.position = position}}, .sparse = {{.position = position}}, .landed = 1};
  ASSERT_TRUE(predict_all(logits, logits, o, {}, ids, now, before, 3, result));
  EXPECT_EQ(result.predictions[0].token, 6);
  EXPECT_EQ(result.sparse[0].token, 5);
}

// A model that says the same of a position in every forward gives revision nothing to change, whatever is sampled.
// With noise of each forward's own it would change tokens all the time.
TEST(Sampling, RevisionOfSampledTokensChangesNothingThatTheModelDoesNot) {
  SpecialIds ids = test_ids();
  DecodeOptions o;
  o.gen_length = 24, o.block_length = 8;
  o.temperature = 1;
  o.acceptance = Acceptance::threshold, o.threshold = 0.1;
  o.stable_threshold = 0.99, o.edit_threshold = 0.05;
  const auto run = [&](std::optional<bool> once) {
    SamplingRule rule = head_rule(o, ids);
    if (once) rule.fixed_noise = *once;
    ScriptRunner runner([&](const StepPlan&, int64_t forward, int32_t position) {
      std::vector<float> logits;
      for (uint64_t id = 0; id < 7; ++id)
        logits.push_back(static_cast<float>(2 * draw(static_cast<uint64_t>(position), id)));
      return predict(logits, o, rule, {}, {forward, position});
    });
    Canvas canvas = lay_generation(kPrompt, o.gen_length, ids);
    auto strategy = make_strategy(o, ids, canvas);
    EXPECT_TRUE(strategy);
    const auto stats = denoise(canvas, **strategy, runner, {});
    EXPECT_TRUE(stats);
    canvas.tokens.resize(static_cast<size_t>(canvas.answer_end()));  // padding is no part of it, and may stay masked
    return std::pair(canvas.tokens, stats->counters.revisions_changed);
  };
  // Full attention; rows that predict the next position; blocks of a block-causal model; the plans of two caches.
  const struct {
    bool shifted;
    int64_t block;
    KvChoice kv;
  } models[] = {{false, 0, KvChoice::none},
                {true, 0, KvChoice::none},
                {false, 8, KvChoice::none},
                {false, 8, KvChoice::block},
                {true, 0, KvChoice::dual}};
  for (const auto& model : models) {
    ids.shift_logits = model.shifted, ids.attention_block = model.block, o.kv = model.kv;
    for (o.seed = 1; o.seed < 6; ++o.seed) {
      for (const Revision way : {Revision::dual_path, Revision::edit}) {
        o.revision = way;
        const auto [tokens, changed] = run({});
        EXPECT_EQ(changed, 0) << o.seed << " " << name(way);
        EXPECT_GT(run(false).second, 0) << "the script would show a change";
        o.revision = Revision::none;
        EXPECT_EQ(run(true).first, tokens) << "and so the tokens are those without revision";
      }
    }
  }
}

TEST(Sampling, LogitsThatAreNotFiniteEndTheStep) {
  const SpecialIds ids = test_ids();
  const Canvas canvas = lay_generation(kPrompt, 4, ids);
  DecodeOptions o;
  o.temperature = 1, o.top_k = 3;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    std::vector<float> logits(20, 1.0F);
    logits[15] = bad;  // of the second row, far from what top-k keeps
    StepResult result;
    result.predictions = {{.position = 2, .token = 1}, {.position = 3, .token = 1}};
    const Status status = predict_all(logits, {}, o, {}, ids, canvas, canvas, 0, result);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::data);
    EXPECT_EQ(status.error().message.find("the logits of position 3 are not finite"), 0u) << status.error().message;
  }
}

// At the ends of the ranges every prediction is a number still.
TEST(Sampling, TheGreatestAndLeastValuesOverflowNothing) {
  const SpecialIds ids = test_ids();
  Canvas canvas = lay_generation(kPrompt, 4, ids);
  std::vector<float> logits(20);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = i % 2 == 0 ? 3e4F : -3e4F;
  for (const Acceptance acceptance : {Acceptance::threshold, Acceptance::dream_entropy, Acceptance::dream_margin})
    for (const double temperature : {5e-324, 1e-300, 1e-6, 1e6})
      for (const double penalty : {1e-6, 1e6}) {
        DecodeOptions o;
        o.acceptance = acceptance, o.temperature = temperature, o.repeat_penalty = penalty, o.top_p = 0.9;
        ASSERT_TRUE(validate(o));
        StepResult result;
        result.predictions = {{.position = 2, .token = 1}, {.position = 3, .token = 1}};
        const Status status = predict_all(logits, {}, o, {}, ids, canvas, canvas, 0, result);
        ASSERT_TRUE(status) << temperature << " " << penalty << ": " << status.error().message;
        for (const Prediction& p : result.predictions)
          for (const double x : {double{p.logit}, p.probability, p.entropy, p.margin}) EXPECT_TRUE(std::isfinite(x));
      }
  DecodeOptions beyond;
  beyond.temperature = 1.1e6;
  EXPECT_FALSE(validate(beyond));
}

TEST(Sampling, NearbyTokensAreThoseOfBothSidesWithinTheWindow) {
  const SpecialIds ids = test_ids();
  Canvas canvas = lay_generation(std::vector<int32_t>{1, 2, 3}, 3 * kNearby, ids);
  const auto put = [&](size_t at, int32_t token) {
    canvas.tokens[at] = token, canvas.states[at] = TokenState::visible;
  };
  put(5, 4), put(7, 5), put(8, kEos);
  EXPECT_EQ(tokens_nearby(canvas, 4, ids), (std::vector<int32_t>{1, 2, 3, 4, 5})) << "not the end token";
  EXPECT_EQ(tokens_nearby(canvas, kNearby + 1, ids), (std::vector<int32_t>{2, 3, 4, 5})) << "0 is too far before";
  EXPECT_EQ(tokens_nearby(canvas, kNearby + 7, ids), (std::vector<int32_t>{5}));
  EXPECT_EQ(tokens_nearby(canvas, kNearby + 8, ids), (std::vector<int32_t>{}));
  put(2 * kNearby, 6);
  EXPECT_EQ(tokens_nearby(canvas, 2 * kNearby, ids), (std::vector<int32_t>{})) << "not its own";
  EXPECT_EQ(tokens_nearby(canvas, kNearby - 1, ids), (std::vector<int32_t>{1, 2, 3, 4, 5})) << "too far behind";
  put(4, 4);
  EXPECT_EQ(tokens_nearby(canvas, kNearby + 4, ids), (std::vector<int32_t>{4, 5, 6})) << "each once";
}

// With shifted logits row i - 1 predicts position i, whose neighbours count.
TEST(Sampling, ThePenaltyLooksAroundThePredictedPosition) {
  SpecialIds ids = test_ids();
  std::vector<int32_t> prompt(kNearby + 2, 1);  // 2 is nearby position kNearby alone, 3 kNearby + 1 as well
  prompt[0] = 2, prompt[1] = 3;
  Canvas canvas = lay_generation(prompt, 3, ids);
  DecodeOptions o;
  o.repeat_penalty = 100;
  std::vector<float> logits(10, 0.0F);
  logits[2] = 5, logits[3] = 4.9F, logits[4] = 4.8F;
  StepResult result;
  const auto token = [&](bool shifted) {
    ids.shift_logits = shifted;
    result.predictions = {{.position = kNearby}};
    EXPECT_TRUE(predict_all(logits, {}, o, {}, ids, canvas, canvas, 0, result));
    return result.predictions[0].token;
  };
  EXPECT_EQ(token(true), 2) << "it is too far from position kNearby + 1";
  EXPECT_EQ(token(false), 4);
}

TEST(Sampling, OptionsThatWouldBeIgnoredAreRefused) {
  DecodeOptions o;
  o.top_k = 5;
  EXPECT_EQ(validate(o).error().message,
            "top_k: found 5 with temperature 0, which always takes the best token, so that top_k would change nothing; "
            "needed temperature above 0");
  o.temperature = 1;
  EXPECT_TRUE(validate(o));
  EXPECT_TRUE(needs_logits(o));
  EXPECT_FALSE(needs_logits({SamplingOptions{.temperature = 1}}));
  o = {SamplingOptions{.repeat_penalty = 1.1}};
  EXPECT_TRUE(validate(o)) << "a penalty changes the best token too";
}

}  // namespace
}  // namespace llada::decode
