// Credit decoding (CreditDecoding; the constants are those of dInfer): a token that has been predicted before
// at a position gets credit, which raises its logit, so a prediction that comes back needs less probability
// to be committed, and one that just appeared needs more company.
//   credit[t] <- 0.8 credit[t]; credit[best] += p(best)^0.2; logit[t] += 0.7 ln(1 + credit[t])
// A forward tells the best and the second-best token of a row only, so the fused softmax is taken over three
// parts: these two, and all other tokens together with no credit. What is lost is the credit of a third
// token, whose probability is below both.
//
// Behind an entropy gate (acceptance.h) a prediction has no credit, and adds none, while the masks on its left that are
// not above --threshold (rules without one: its default) have more than kCreditOpen nats together. What was predicted
// while the line was open may stand a place too far to the right, and predicting it again does not make it right: with
// credit for all, long answers lose 3 to 8 points (docs/lab/long-answers.md; docs/decoding.md, "How the presets were
// chosen"). Such a forward does not count for the position: what credit it has does not decay in it. The paper has no
// gate and gives credit to all, as we do without one.
#pragma once
#include <map>
#include <vector>

#include "decode/types.h"

namespace llada::decode {

inline constexpr double kCreditOpen = 0.2;

class Credit {
 public:
  explicit Credit(int32_t mask_id) : mask_id_(mask_id) {}

  // Adds this forward to the position's credit and returns the prediction with token, runner-up, probability
  // and margin of the fused softmax. Logit and entropy stay the model's.
  Prediction fuse(int32_t position, Prediction prediction);

 private:
  const int32_t mask_id_;
  std::map<int32_t, std::map<int32_t, double>> credit_;  // position -> token -> credit
};

}  // namespace llada::decode
