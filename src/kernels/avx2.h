// The AVX2 kernels, and the AVX-VNNI products that share their layouts. Only declarations: this header is
// also read by files compiled for any processor.
#pragma once
#include "kernels/kernels.h"

namespace llada::kernels::avx2 {

// Sets every entry that has nothing to do with weights: rms_norm ... attention, softmax_stats, top2.
void use_row_kernels(KernelTable& table);

// F32, F16 and BF16 weights; entries of the same names without "float_".
int64_t float_packed_bytes(DType type, int64_t n, int64_t k);
void float_pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed);
void float_matmul(const MatmulArgs& args);

// Quantized weights: x86_int8-inl.h.
int64_t packed_bytes(DType type, int64_t n, int64_t k);
void pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed);
int64_t activation_bytes(int64_t rows, int64_t k);
void quantize_rows(const float* x, int64_t rows, int64_t k, int64_t r0, int64_t r1, TypeSet readers,
                   std::byte* activations);
void pick_rows(const PickArgs& args);
void matmul(const MatmulArgs& args);

inline constexpr int64_t kColumnTile = 16;  // of every type
// Activations: of each row the groups of 32, 8 bits each and then the scale, a float.
inline constexpr int64_t kActivationGroupBytes = 52, kActivationScaleAt = 32;

void float_attention(const AttentionArgs& args);
// Attention by digests where a row sees many keys, else in floats, and the digests.
void use_digests(KernelTable& table);

}  // namespace llada::kernels::avx2

namespace llada::kernels::avxvnni {
void pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed);
void matmul(const MatmulArgs& args);
void use_digests(KernelTable& table);
}  // namespace llada::kernels::avxvnni
