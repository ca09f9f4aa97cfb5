// Logits reduced to predictions: chunks of kChunk tokens are reduced apart and merged in ascending order, so a row's
// sums group the same way whatever the number of workers. devices/hexagon/wire.h defines the fields.
#pragma once
#include <stdint.h>

#include "devices/hexagon/wire.h"

namespace dsp {

constexpr uint32_t kChunk = 512;
constexpr uint32_t kMostExcluded = 64;  // tokens out of the softmax

struct TokenList {
  const int32_t* tokens;
  uint32_t count;
};

// Logits of tokens [begin, begin + n) of one row; overwritten. An excluded token is -infinity for that purpose.
WirePrediction reduce_chunk(float* logits, uint32_t begin, uint32_t n, TokenList out_of_softmax,
                            TokenList never_sampled);
// next's tokens follow those of total.
void merge(WirePrediction& total, const WirePrediction& next);
// What nothing merges to.
WirePrediction no_prediction();

}  // namespace dsp
