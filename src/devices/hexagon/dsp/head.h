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

// The largest of n numbers (at most kChunk) and the largest of the others, ties to the lower place; a value that is no
// number counts as larger than all. -1: there is none above -infinity.
struct Two {
  int32_t best, second;
};
// Sums over all finite numbers but the one at `top`, the largest: of 2^-t and of d 2^-t with d = largest - number and t
// = d log2(e), relative to 2^-lowest. Terms have 30 and 23 digits behind the point. lowest: the smallest t, in whole
// numbers; kNoTerm: there are no others.
constexpr int32_t kNoTerm = 255;
struct Terms {
  uint64_t sum, weighted;
  int32_t lowest;
};
// Two ways to the same bits: the definition in plain C++ (head_plain.cc), and the vector unit's (head_vectors.cc, for
// numbers whose last vector may be read whole).
struct ChunkKernels {
  Two (*two_largest)(const float* numbers, uint32_t n);
  Terms (*softmax_terms)(const float* numbers, uint32_t n, uint32_t top);
};
extern const ChunkKernels kPlainChunk, kVectorChunk;

// Logits of tokens [begin, begin + n) of one row; overwritten. The logit of an excluded token is -infinity.
WirePrediction reduce_chunk(float* logits, uint32_t begin, uint32_t n, TokenList out_of_softmax,
                            TokenList never_sampled, const ChunkKernels& kernels);
// next's tokens follow those of total.
void merge(WirePrediction& total, const WirePrediction& next);
// The neutral element of merging.
WirePrediction no_prediction();

}  // namespace dsp
