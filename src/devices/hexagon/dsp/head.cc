#include "devices/hexagon/dsp/head.h"

#include "devices/hexagon/dsp/fixed_math.h"

namespace dsp {
namespace {

// How many tokens of the list are in the chunk.
uint32_t exclude(float* logits, uint32_t begin, uint32_t n, TokenList list, float* kept) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < list.count; ++i) {
    const uint32_t at = static_cast<uint32_t>(list.tokens[i]) - begin;
    if (at >= n) continue;
    if (kept != nullptr && count < kMostExcluded) kept[count] = logits[at];
    logits[at] = -kInfinity;
    ++count;
  }
  return count;
}
// In reverse, so that a token named twice gets its first value.
void put_back(float* logits, uint32_t begin, uint32_t n, TokenList list, const float* kept) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < list.count; ++i)
    if (static_cast<uint32_t>(list.tokens[i]) - begin < n) ++count;
  for (uint32_t i = list.count; i-- > 0;) {
    const uint32_t at = static_cast<uint32_t>(list.tokens[i]) - begin;
    if (at < n && --count < kMostExcluded) logits[at] = kept[count];
  }
}

}  // namespace

WirePrediction no_prediction() {
  return {.best = -1,
          .second = -1,
          .best_logit = -kInfinity,
          .second_logit = -kInfinity,
          .max = -kInfinity,
          .rest = 0,
          .weighted = 0,
          .reserved = 0};
}

WirePrediction reduce_chunk(float* logits, uint32_t begin, uint32_t n, TokenList out_of_softmax,
                            TokenList never_sampled, const ChunkKernels& kernels) {
  WirePrediction p = no_prediction();
  float kept[kMostExcluded];
  uint32_t excluded = exclude(logits, begin, n, out_of_softmax, kept);
  Two two = kernels.two_largest(logits, n);
  if (two.best >= 0) p.max = logits[two.best];
  if (two.best >= 0 && finite(p.max)) {
    const Terms terms = kernels.softmax_terms(logits, n, static_cast<uint32_t>(two.best));
    if (terms.lowest < kNoTerm) {
      p.rest = times_power(static_cast<float>(terms.sum), -30 - terms.lowest);
      p.weighted = times_power(-static_cast<float>(terms.weighted), -23 - terms.lowest);
    }
  }
  put_back(logits, begin, n, out_of_softmax, kept);
  excluded += exclude(logits, begin, n, never_sampled, nullptr);
  if (excluded > 0) two = kernels.two_largest(logits, n);
  if (two.best >= 0) p.best = static_cast<int32_t>(begin) + two.best, p.best_logit = logits[two.best];
  if (two.second >= 0) p.second = static_cast<int32_t>(begin) + two.second, p.second_logit = logits[two.second];
  return p;
}

void merge(WirePrediction& total, const WirePrediction& next) {
  if (next.max != next.max) {
    total.max = next.max;
  } else if (next.max > total.max) {
    // The smaller side's sum, its own largest included, is rescaled to the larger one.
    const float shift = total.max - next.max;
    if (total.max > -kInfinity) {
      const float shrink = exponential(shift), sum = 1.0f + total.rest;
      total.rest = fma(sum, shrink, next.rest);
      total.weighted = fma(fma(shift, sum, total.weighted), shrink, next.weighted);
    } else {
      total.rest = next.rest, total.weighted = next.weighted;
    }
    total.max = next.max;
  } else if (next.max > -kInfinity) {
    const float shift = next.max - total.max, shrink = exponential(shift), sum = 1.0f + next.rest;
    total.rest = fma(sum, shrink, total.rest);
    total.weighted = fma(fma(shift, sum, next.weighted), shrink, total.weighted);
  }
  // Strictly greater: tokens ascend, so ties stay with the lower one.
  if (next.best_logit > total.best_logit) {
    const bool keep = total.best_logit >= next.second_logit;
    total.second = keep ? total.best : next.second;
    total.second_logit = keep ? total.best_logit : next.second_logit;
    total.best = next.best, total.best_logit = next.best_logit;
  } else if (next.best_logit > total.second_logit) {
    total.second = next.best, total.second_logit = next.best_logit;
  }
}

}  // namespace dsp
