// Credit by hand: one forward, a second that agrees, a runner-up that had been predicted before, and who gets none
// behind an entropy gate.
#include "decode/credit.h"

#include <cmath>

#include "decode/script.h"

namespace llada::decode::credits {
namespace {

Prediction predict(int32_t token, double probability, int32_t second, double second_probability) {
  return {.position = 0,
          .token = token,
          .probability = probability,
          .margin = probability - second_probability,
          .runner_up = second};
}

TEST(Credit, AddsUpAndDecays) {
  Credit credit(kMask);
  const double first = std::pow(0.5, 0.2), w1 = 0.5 * std::pow(1 + first, 0.7);
  EXPECT_NEAR(credit.fuse(0, predict(1, 0.5, 2, 0.3)).probability, w1 / (w1 + 0.5), 1e-12);
  const double second = 0.8 * first + std::pow(0.6, 0.2), w2 = 0.6 * std::pow(1 + second, 0.7);
  EXPECT_NEAR(credit.fuse(0, predict(1, 0.6, 2, 0.1)).probability, w2 / (w2 + 0.4), 1e-12);
  EXPECT_NEAR(credit.fuse(7, predict(1, 0.5, 2, 0.3)).probability, w1 / (w1 + 0.5), 1e-12) << "by position";
}

TEST(Credit, ARunnerUpMayOvertake) {
  for (const int32_t other : {2, 0}) {  // a vocabulary begins at 0
    Credit credit(kMask);
    for (int i = 0; i < 3; ++i) credit.fuse(0, predict(other, 0.9, 1, 0.05));
    const Prediction p = credit.fuse(0, predict(1, 0.45, other, 0.44));
    EXPECT_EQ(p.token, other);
    EXPECT_EQ(p.runner_up, 1);
    EXPECT_GT(p.probability, 0.44);
    EXPECT_GT(p.margin, 0);
    EXPECT_LE(p.probability, 1);
  }
}

TEST(Credit, NeverTurnsIntoTheMask) {
  Credit credit(kMask);
  Prediction p = predict(1, 0.01, kMask, 0.009);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(credit.fuse(0, p).token, 1);
  p.runner_up = -1;
  EXPECT_EQ(credit.fuse(0, p).token, 1);
}

// Four masks: the first stays doubtful with `open` nats, the second is sure at once, the last two are at 0.7 in every
// forward. Credit lifts 0.7 to 0.79 in the first forward and to 0.82, over the threshold, in the second; without credit
// in the first it stays below. Returned are the positions that each forward decides.
using Trace = std::vector<std::vector<int32_t>>;
Trace decided(double gate, double open, double sure_entropy) {
  DecodeOptions o = {
      .gen_length = 4, .block_length = 4, .acceptance = Acceptance::threshold, .early_stop = EarlyStop::none};
  o.threshold = 0.8, o.credit = true, o.entropy_gate = gate;
  const auto script = [&](const StepPlan&, int64_t forward, int32_t p) -> Prediction {
    if (p == 2) return {.position = p, .token = static_cast<int32_t>(forward), .probability = 0.3, .entropy = open};
    return {.position = p, .token = p, .probability = p == 3 ? 0.95 : 0.7, .entropy = p == 3 ? sure_entropy : 0};
  };
  Trace trace;
  for (const auto& step : run_script(o, kPrompt, script).trace) {
    trace.emplace_back();
    for (const auto& [position, token] : step) trace.back().push_back(position);
  }
  return trace;
}

TEST(Credit, IsNotGivenBehindOpenMasksWhereThereIsAGate) {
  const Trace with = {{3}, {4, 5}, {2}}, without = {{3}, {4}, {5}, {2}};
  EXPECT_EQ(decided(1, 0.1, 0), with);
  EXPECT_EQ(decided(1, 0.5, 0), without);
  EXPECT_EQ(decided(1, 0.1, 0.5), with) << "what is above the threshold is not open";
  EXPECT_EQ(decided(0, 0.5, 0), with) << "no gate: as published";
}

}  // namespace
}  // namespace llada::decode::credits
