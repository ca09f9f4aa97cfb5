// Acceptance rules on hand-worked candidates: schedule, threshold, factor, entropy, ties.
#include "decode/acceptance.h"

#include <gmock/gmock.h>

#include <cmath>

namespace llada::decode {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Candidate> scores(std::vector<double> values) {
  std::vector<Candidate> out;
  for (const double v : values)
    out.push_back({.position = static_cast<int32_t>(10 + out.size()), .token = 1, .score = v});
  return out;
}

std::vector<Candidate> entropies(std::vector<double> values) {
  std::vector<Candidate> out;
  for (const double v : values) out.push_back({.position = static_cast<int32_t>(out.size()), .token = 1, .entropy = v});
  return out;
}

TEST(Acceptance, BestTakesTiesFromTheLowestPosition) {
  const auto c = scores({0.5, 0.9, 0.5, 0.9, 0.5});
  EXPECT_THAT(accept_best(c, 1), ElementsAre(1));
  EXPECT_THAT(accept_best(c, 3), ElementsAre(0, 1, 3));
  EXPECT_THAT(accept_best(c, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(accept_best(c, 99), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(accept_best(c, 0), ElementsAre(1)) << "always progress";
}

// As Fast-dLLM's and dInfer's code has it: whatever is not below the threshold.
TEST(Acceptance, TheThresholdItselfIsEnough) {
  EXPECT_THAT(accept_from(scores({0.9, 0.95, 0.9, 0.89}), 0.9), ElementsAre(0, 1, 2));
  EXPECT_THAT(accept_from(scores({std::nextafter(0.9, 0.0), 0.95, 0.9}), 0.9), ElementsAre(1, 2));
  EXPECT_THAT(accept_from(scores({0.1, 0.3, 0.3}), 0.9), ElementsAre(1)) << "none: the best one, of equals the first";
  EXPECT_THAT(accept_from(scores({1, 0.5, 1}), 1), ElementsAre(0, 2)) << "confidences that have saturated";
  const auto rule = [](Acceptance acceptance) {
    return choose({.acceptance = acceptance, .threshold = 0.9}, scores({0.9, 0.95, 0.8}),
                  {.masks = 3, .length = 3, .steps = 3});
  };
  EXPECT_THAT(rule(Acceptance::threshold), ElementsAre(0, 1));
  EXPECT_THAT(rule(Acceptance::llada2), ElementsAre(1)) << "LLaDA2.0's code asks for more than the threshold";
  EXPECT_THAT(
      choose({.acceptance = Acceptance::threshold, .threshold = 0.9}, scores({0.9, 0.95, 0.8}), {.above = true}),
      ElementsAre(1))
      << "and so does LLaDA2.1's";
}

TEST(Acceptance, AboveIsStrict) {
  EXPECT_THAT(accept_above(scores({0.9, 0.95, 0.9, 0.89}), 0.9), ElementsAre(1));
  EXPECT_THAT(accept_above(scores({std::nextafter(0.9, 1.0), 0.95, 0.9}), 0.9), ElementsAre(0, 1));
  // Nothing above it: the best one, of equals the first.
  EXPECT_THAT(accept_above(scores({0.1, 0.9, 0.9}), 0.9), ElementsAre(1));
  EXPECT_THAT(accept_above(scores({1, 1, 1}), 1), ElementsAre(0));
  EXPECT_THAT(accept_above(scores({0, 0}), 0.5), ElementsAre(0));
}

TEST(Acceptance, FactorTakesThePrefixThatHolds) {
  // Needed with factor 1: any, 1 - 1/3, 1 - 1/4, 1 - 1/5.
  EXPECT_THAT(accept_factor(scores({0.7, 0.74, 0.1, 0.8}), 1), ElementsAre(1, 3)) << "0.8, 0.74 >= 0.667, 0.7 < 0.75";
  EXPECT_THAT(accept_factor(scores({0.76, 0.74, 0.1, 0.8}), 1), ElementsAre(0, 3)) << "0.74 fails as the third";
  EXPECT_THAT(accept_factor(scores({0.75, 0.75, 0.75, 0.1}), 1), ElementsAre(0, 1, 2)) << "equal is enough";
  EXPECT_THAT(accept_factor(scores({0.1, 0.2}), 1), ElementsAre(1)) << "the best is exempt";
  EXPECT_THAT(accept_factor(scores({0.81, 0.8, 0.8, 0.79}), 1), ElementsAre(0, 1, 2))
      << "the last alone fails: left out";
  EXPECT_THAT(accept_factor(scores({0.6, 0.6, 0.6}), 2), ElementsAre(0, 1, 2)) << "1 - 2/3, 1 - 2/4";
  // The third fails although 1 - f/(n + 1) of a later one could not be met either way: a prefix, not a
  // filter.
  EXPECT_THAT(accept_factor(scores({0.9, 0.5, 0.9, 0.5}), 0.5), ElementsAre(0, 2));
}

TEST(Acceptance, EntropySumsThoseBefore) {
  // Ascending 0.1, 0.2, 0.3, 0.4: sums before each 0, 0.1, 0.3, 0.6.
  const auto c = entropies({0.4, 0.1, 0.3, 0.2});
  EXPECT_THAT(accept_entropy(c, 0), ElementsAre(1));
  EXPECT_THAT(accept_entropy(c, 0.1), ElementsAre(1, 3));
  EXPECT_THAT(accept_entropy(c, 0.29), ElementsAre(1, 3));
  EXPECT_THAT(accept_entropy(c, 0.35), ElementsAre(1, 2, 3));
  EXPECT_THAT(accept_entropy(c, 1), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(accept_entropy(entropies({5, 5}), 0.1), ElementsAre(0)) << "the first is exempt";
  // Certain positions are free: all of them and one more.
  EXPECT_THAT(accept_entropy(entropies({2, 0, 0, 1, 0}), 0), ElementsAre(1, 2, 3, 4));
}

TEST(Acceptance, TheGateWaitsForWhatIsOpenOnTheLeft) {
  auto c = scores({0.5, 0.9, 0.4, 0.95, 0.99});
  for (size_t i = 0; i < c.size(); ++i) c[i].entropy = 1 + static_cast<double>(i);  // 1, 2, 3, 4, 5
  EXPECT_THAT(gate_entropy(c, {1, 3}, 1), ElementsAre(1)) << "1 before the first, 1 + 3 before the other";
  EXPECT_THAT(gate_entropy(c, {1, 3, 4}, 1), ElementsAre(1)) << "though others have higher scores";
  EXPECT_THAT(gate_entropy(c, {1, 3, 4}, 4), ElementsAre(1, 3, 4)) << "1 + 3: what was taken is not open";
  EXPECT_THAT(gate_entropy(c, {0, 3}, 4), ElementsAre(0)) << "2 + 3";
  EXPECT_THAT(gate_entropy(c, {0, 3}, 5), ElementsAre(0, 3)) << "as much as the gate is not more";
  EXPECT_THAT(gate_entropy(c, {4}, 0.5), ElementsAre(0)) << "none is left: the best with nothing open before it";
  EXPECT_THAT(gate_entropy(c, {4}, 1), ElementsAre(1)) << "or with so little";
  EXPECT_THAT(gate_entropy(c, {4}, 3), ElementsAre(1)) << "0.9 is better than the 0.4 that may be chosen too";
  EXPECT_THAT(gate_entropy(c, {}, 4), IsEmpty());
  // The rule first, then the gate; a gate of 0 is none.
  AcceptanceOptions options;
  options.acceptance = Acceptance::threshold, options.threshold = 0.85;
  EXPECT_THAT(choose(options, c, {}), ElementsAre(1, 3, 4));
  options.entropy_gate = 2;
  EXPECT_THAT(choose(options, c, {}), ElementsAre(1));
  // What was confirmed elsewhere passes the same gate, and is not open for others.
  const std::vector<size_t> confirmed = {0};
  EXPECT_THAT(choose(options, c, {}, confirmed), ElementsAre(0, 1));
  options.entropy_gate = 0;
  EXPECT_THAT(choose(options, c, {}, confirmed), ElementsAre(0, 1, 3, 4));
}

TEST(Acceptance, NothingOfNothing) {
  EXPECT_THAT(accept_best({}, 3), IsEmpty());
  EXPECT_THAT(accept_above({}, 0.5), IsEmpty());
  EXPECT_THAT(accept_from({}, 0.5), IsEmpty());
  EXPECT_THAT(accept_factor({}, 1), IsEmpty());
  EXPECT_THAT(accept_entropy({}, 1), IsEmpty());
}

TEST(Acceptance, DreamsTimesteps) {
  // t = 1, 0.75025, 0.5005, 0.25075, 0.001: of 8 masks 8 x (1 - 0.75025), then of 7 x (1 - 0.5005 / 0.75025)
  // ...
  EXPECT_EQ(dream_count(8, 4, 0), 1);
  EXPECT_EQ(dream_count(7, 4, 1), 2);
  EXPECT_EQ(dream_count(5, 4, 2), 2);
  EXPECT_EQ(dream_count(3, 4, 3), 3) << "the last step takes all";
  EXPECT_EQ(dream_count(2, 100, 0), 0) << "floors may be none";
  EXPECT_EQ(dream_step(2, 100, 0), 99) << "1 - t[99] / t[98] is 0.4756: of two masks none before the last step";
  EXPECT_EQ(dream_step(8, 4, 0), 0);
  EXPECT_EQ(dream_step(3, 4, 3), 3);
}

TEST(Acceptance, DreamsThreeOrders) {
  const std::vector<Candidate> candidates = {{.position = 0, .score = 0.5, .entropy = 0.9, .margin = 0.4},
                                             {.position = 1, .score = 0.6, .entropy = 1.5, .margin = 0.1},
                                             {.position = 2, .score = 0.4, .entropy = 0.2, .margin = 0.3}};
  AcceptanceOptions o;
  const auto best = [&](Acceptance rule) {
    o.acceptance = rule;
    return choose(o, candidates, {.masks = 3, .steps = 3, .step = 1});
  };
  EXPECT_THAT(best(Acceptance::dream_entropy), testing::ElementsAre(2));
  EXPECT_THAT(best(Acceptance::dream_margin), testing::ElementsAre(0));
  EXPECT_THAT(best(Acceptance::dream_maskgit), testing::ElementsAre(1));
}

// Of 10 masks in 4 steps 7, 5 and 2 stay; the schedule would take 3, 3, 2 and 2.
TEST(Acceptance, Rnd1KeepsTheMostUncertain) {
  std::vector<Candidate> candidates;
  for (int32_t p = 0; p < 10; ++p) candidates.push_back({.position = p, .entropy = (p * 7) % 10 / 10.0});
  const AcceptanceOptions o = {.acceptance = Acceptance::rnd1};
  std::vector<size_t> counts;
  for (int64_t step = 0; step < 4; ++step) {
    const auto taken = choose(o, candidates, {.masks = 10, .steps = 4, .step = step});
    if (step == 0) {
      EXPECT_THAT(taken, testing::ElementsAre(0, 3, 6)) << "0, 0.1 and 0.2";
    }
    counts.push_back(taken.size());
    for (auto i = taken.rbegin(); i != taken.rend(); ++i)
      candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(*i));
  }
  EXPECT_THAT(counts, testing::ElementsAre(3, 2, 3, 2));
}

TEST(Acceptance, WedlmAddsTheDistanceToEveryEntropy) {
  const std::vector<Candidate> candidates = {{.position = 10, .entropy = 0.39},
                                             {.position = 12, .entropy = 0.37},
                                             {.position = 13, .entropy = 0.32},
                                             {.position = 20, .entropy = 0.21}};
  AcceptanceOptions o = {.acceptance = Acceptance::wedlm, .entropy_bound = 0.4};
  const auto chosen = [&] { return choose(o, candidates, {}); };
  EXPECT_THAT(chosen(), testing::ElementsAre(0, 2)) << "0.39, 0.41, 0.38 and 0.41";
  o.entropy_bound = 0.3;
  EXPECT_THAT(chosen(), testing::ElementsAre(2)) << "below it there is none";
  o.entropy_bound = 0.5;
  EXPECT_THAT(chosen(), testing::ElementsAre(0, 1, 2, 3));
}

TEST(Acceptance, Llada2FallsBackOnItsSchedule) {
  const std::vector<Candidate> candidates = {
      {.position = 0, .score = 0.95}, {.position = 1, .score = 0.97}, {.position = 2, .score = 0.4}};
  const AcceptanceOptions o = {.acceptance = Acceptance::llada2, .threshold = 0.95};
  EXPECT_THAT(choose(o, candidates, {.masks = 3, .length = 4, .steps = 4, .step = 0}), testing::ElementsAre(1))
      << "strictly";
  EXPECT_THAT(choose(o, candidates, {.masks = 3, .length = 4, .steps = 2, .step = 0}), testing::ElementsAre(0, 1))
      << "the block's length over the steps, however many masks the prompt has left";
}

}  // namespace
}  // namespace llada::decode
