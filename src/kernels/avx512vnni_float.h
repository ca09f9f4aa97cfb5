// The AVX-512 float kernels. Only declarations: this header is also read by files compiled for any processor.
#pragma once
#include "kernels/kernels.h"

namespace llada::kernels::avx512vnni {

// Sets every entry that has nothing to do with weights: rms_norm ... attention, softmax_stats, top2.
void use_row_kernels(KernelTable& table);

void float_attention(const AttentionArgs& args);

// F32, F16 and BF16 weights; entries of the same names without "float_".
int64_t float_column_tile();
int64_t float_packed_bytes(DType type, int64_t n, int64_t k);
void float_pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed);
void float_matmul(const MatmulArgs& args);

}  // namespace llada::kernels::avx512vnni
