// The kernels of a row (rows.h) in plain C++: their definition. The vector unit's code is tested against it, and calls
// it for numbers that are not ordinary. Products and sums of floats are IEEE single precision's, not fused.
#pragma once
#include <stdint.h>

namespace dsp::plain {

void rms_norm(const float* x, const float* weight, float epsilon, uint32_t n, float* y);
void rope(float* x, const float* table, uint32_t heads, uint32_t head_dim, uint32_t rotary, bool adjacent);
void swiglu(const float* gate, const float* up, uint32_t n, float* y);
void add(const float* x, uint32_t n, float* y);
void guide(const float* conditional, const float* unconditional, float scale, uint32_t n, float* y);
void scale(const float* x, float factor, uint32_t n, float* y);
void store_half(const float* x, uint32_t n, uint16_t* y);

// Parts of rms_norm. squares: the sum over the row of floor(q^2 / 2^16), q = fixed_q(x, exponent), an integer: its
// terms may be added in any order.
uint64_t squares(const float* x, uint32_t n, int32_t exponent);
float rms_scale(uint64_t squares, int32_t exponent, float epsilon, uint32_t n);  // 1 / sqrt(mean + epsilon)
void apply_norm(const float* x, const float* weight, float scale, uint32_t n, float* y);

}  // namespace dsp::plain
