// Kernels of one row, float in float, in the vector unit's integers; rows_plain.h defines every bit of them. Errors to
// first order, with u = 2^-24 and n elements: rms_norm (6 + sqrt(n) / 16) u of the result; rope 2 u of both products;
// swiglu 6 u of the result. add, scale and guide round once per operation. tests/hexagon_dsp/tolerance.h derives them.
#pragma once
#include <stdint.h>

namespace dsp {

void rms_norm(const float* x, const float* weight, float epsilon, uint32_t n, float* y);  // y may be x
// table: rotary / 2 cosines, then as many sines. adjacent: pairs (2j, 2j + 1), otherwise (j, j + rotary / 2).
void rope(float* x, const float* table, uint32_t heads, uint32_t head_dim, uint32_t rotary, bool adjacent);
void swiglu(const float* gate, const float* up, uint32_t n, float* y);
void add(const float* x, uint32_t n, float* y);
void guide(const float* conditional, const float* unconditional, float scale, uint32_t n, float* y);
void scale(const float* x, float factor, uint32_t n, float* y);
void copy(const float* x, uint32_t n, float* y);

void store_half(const float* x, uint32_t n, uint16_t* y);
void load_half(const uint16_t* x, uint32_t n, float* y);

}  // namespace dsp
