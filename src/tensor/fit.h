// Scales for a few values that are to become small integers: the searches behind the K types, IQ4 and the weighted
// forms of the plain types. Source: the method of ggml's quantizers, whose stored bytes these reproduce. So every sum
// is a float's, in the order of the values, and a product of three is taken from the left. Private to tensor.
#pragma once
#include <bit>
#include <cstdint>

namespace llada {

// The nearest integer, ties to even, of |value| < 2^22; others become some integer of that range, as in the source.
inline int nearest(float value) {
  return static_cast<int>(std::bit_cast<uint32_t>(value + 0x1.8p23f) & 0x7fffff) - 0x400000;
}

inline constexpr float kNoScale = 1e-15f;  // of groups whose largest magnitude is below it, the scale is zero

// The value of largest magnitude with its sign; of equal ones the first.
float signed_extreme(const float* x, int n);

// The scale s for which the sum of weight * (x - s * q)^2 is least, over the rounded x / s of a few s. q is in
// [-half, half - 1], and stored as q + half. weights: null for x^2.
float fit_symmetric(const float* x, const float* weights, int n, int half, int8_t* q);

// The same with weights x^2, from one s on, by moving one q at a time while that helps.
float fit_symmetric_by_turns(const float* x, int n, int half, int8_t* q);

// x are not negative, nor are q, up to `top`.
float fit_positive(const float* x, const float* weights, int n, int top, uint8_t* q);

// Scales that a search tries: (top + from + step * i) / (range of x), i in [0, count].
struct ScaleSearch {
  float from, step;
  int count;
  bool absolute;  // errors count by their magnitude, not squared
};

// x is about scale * q - min with q in [0, top] and min >= 0.
struct ScaleAndMin {
  float scale, min;
};
ScaleAndMin fit_scale_and_min(const float* x, const float* weights, int n, int top, const ScaleSearch& search,
                              uint8_t* q);

}  // namespace llada
