// Shared by the 64-bit Arm tables. The three tables (neon, neon_dotprod, neon_i8mm) differ only in how they multiply
// int8 by int8 (neon_integer-inl.h, compiled once for each). Everything in floats is baseline Armv8-A and exists once.
// A tile of columns is kTile weight rows (outputs) that the int8 kernels handle together.
#pragma once
#include "kernels/kernels.h"

namespace llada::kernels::neon {

inline constexpr int64_t kGroup = 32;  // values that share an activation scale
inline constexpr int64_t kTile = 4;    // columns of a tile; also rows of an activation block

// The processor's answer (Linux auxiliary vector), not the build's.
bool has_dotprod();
bool has_i8mm();

void rms_norm(const float* x, const float* weight, float eps, int64_t n, float* y);
void add(const float* x, int64_t n, float* y);
void swiglu(const float* gate, const float* up, int64_t n, float* y);
void geglu(const float* gate, const float* up, int64_t n, float* y);
void soft_cap(float* x, int64_t n, float cap);
void rope(float* heads, const RopeArgs& args);
void store_half(const float* x, int64_t n, uint16_t* y);
void attention(const AttentionArgs& args);
SoftmaxStats softmax_stats(const float* logits, int64_t n);
Top2 top2(const float* logits, int64_t n);

void matmul_float(const MatmulArgs& args);  // F32, F16, BF16 as stored

}  // namespace llada::kernels::neon
