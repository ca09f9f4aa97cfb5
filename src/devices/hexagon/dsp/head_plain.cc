// The definition of a chunk's numbers, in plain C++.
#include "devices/hexagon/dsp/fixed_math.h"
#include "devices/hexagon/dsp/head.h"

namespace dsp {
namespace {

Two two_largest(const float* numbers, uint32_t n) {
  Two out = {-1, -1};
  int32_t best = kOrderedNothing, second = kOrderedNothing;
  for (uint32_t i = 0; i < n; ++i) {
    const int32_t at = static_cast<int32_t>(i), number = ordered_bits(numbers[i]);
    if (number > best)
      second = best, out.second = out.best, best = number, out.best = at;
    else if (number > second)
      second = number, out.second = at;
  }
  return out;
}

Terms softmax_terms(const float* numbers, uint32_t n, uint32_t top) {
  uint32_t largest = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t magnitude = bits_of(numbers[i]) & kMagnitude;
    if (magnitude < kInfinityBits && magnitude > largest) largest = magnitude;
  }
  const int32_t exponent = exponent_of(largest), reference = fixed_q(numbers[top], exponent);
  int32_t d[kChunk], t[kChunk], lowest = INT32_MAX;
  for (uint32_t i = 0; i < n; ++i) {
    t[i] = INT32_MAX;
    if (i == top || !finite(numbers[i])) continue;
    d[i] = distance_q24(reference - fixed_q(numbers[i], exponent), exponent);
    t[i] = multiply_q31(d[i], kHalfLog2E);
    lowest = t[i] < lowest ? t[i] : lowest;
  }
  Terms out = {0, 0, lowest >> 23};
  for (uint32_t i = 0; i < n; ++i) {
    const int32_t behind = (t[i] >> 23) - out.lowest;
    if (t[i] == INT32_MAX || behind > 30) continue;
    const int32_t weight = power_of_fraction(t[i]) >> behind;
    out.sum += static_cast<uint32_t>(weight);
    out.weighted += static_cast<uint32_t>(multiply_q31(weight, d[i]));
  }
  return out;
}

}  // namespace

const ChunkKernels kPlainChunk = {two_largest, softmax_terms};

}  // namespace dsp
