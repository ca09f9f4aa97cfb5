// The AVX-512 float kernels: x86_*-inl.h over vectors of 16 floats.
#include "kernels/avx512vnni.h"

#define LLADA_VECTOR_NAMESPACE avx512vnni
#include "kernels/avx512vnni_lanes-inl.h"

namespace llada::kernels::avx512vnni {
namespace {

// The numbers that fill the registers: rows x 2 vectors of sums in a matrix product (4 vectors for few rows), keys
// whose scores are summed at once, rows x vectors of sums in the V product.
constexpr int kMatmulRows = 12, kFewRows = 4, kAttentionKeys = 16, kMixRows = 8, kMixVectors = 2;

}  // namespace
}  // namespace llada::kernels::avx512vnni

#include "kernels/x86_rows-inl.h"
// the others build on it
#include "kernels/x86_attention-inl.h"
#include "kernels/x86_float_matmul-inl.h"

namespace llada::kernels::avx512vnni {

void use_row_kernels(KernelTable& table) { set_row_kernels(table); }
void float_attention(const AttentionArgs& args) { attention(args); }
int64_t float_column_tile() { return kFloatTile; }
int64_t float_packed_bytes(DType type, int64_t n, int64_t k) { return float_packed_size(type, n, k); }
void float_pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  pack_float(weight, n0, n1, packed);
}
void float_matmul(const MatmulArgs& args) { multiply_float(args); }

}  // namespace llada::kernels::avx512vnni
