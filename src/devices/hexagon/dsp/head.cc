#include "devices/hexagon/dsp/head.h"

#include "devices/hexagon/dsp/float_math.h"

namespace dsp {
namespace {

void exclude(float* logits, uint32_t begin, uint32_t n, TokenList list, float* kept) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < list.count; ++i) {
    const uint32_t at = static_cast<uint32_t>(list.tokens[i]) - begin;
    if (at >= n) continue;
    if (kept != nullptr && count < kMostExcluded) kept[count++] = logits[at];
    logits[at] = -kInfinity;
  }
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
                            TokenList never_sampled) {
  WirePrediction p = no_prediction();
  float kept[kMostExcluded];
  exclude(logits, begin, n, out_of_softmax, kept);
  uint32_t top = n;
  for (uint32_t i = 0; i < n; ++i)
    if (logits[i] > p.max || logits[i] != logits[i]) p.max = logits[i], top = i;  // not a number stays
  // In four parts, so that additions need not wait for each other.
  float rest[4] = {}, weighted[4] = {};
  for (uint32_t i = 0; i < n; ++i) {
    if (i == top || !(logits[i] > -kInfinity)) continue;
    const float d = logits[i] - p.max, e = exponential(d);
    rest[i % 4] += e;
    weighted[i % 4] = fma(d, e, weighted[i % 4]);
  }
  p.rest = (rest[0] + rest[1]) + (rest[2] + rest[3]);
  p.weighted = (weighted[0] + weighted[1]) + (weighted[2] + weighted[3]);

  put_back(logits, begin, n, out_of_softmax, kept);
  exclude(logits, begin, n, never_sampled, nullptr);
  for (uint32_t i = 0; i < n; ++i) {
    if (logits[i] > p.best_logit) {
      p.second = p.best, p.second_logit = p.best_logit;
      p.best = static_cast<int32_t>(begin + i), p.best_logit = logits[i];
    } else if (logits[i] > p.second_logit) {
      p.second = static_cast<int32_t>(begin + i), p.second_logit = logits[i];
    }
  }
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
