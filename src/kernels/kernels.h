// CPU kernels behind one table per instruction set, chosen once (LLADA_ISA=scalar|avx2|avx512vnni|amx|neon... forces
// one). "scalar" is the oracle: the plainest correct C++, always built; every other table is compared with it.
//
// Contract of every kernel: a result element depends only on its own inputs. The order of operations does not change
// with the number of rows, the column range or the thread. So a row computed alone equals the row computed in a batch
// bit for bit. That makes "refresh every step" equal "no cache", and any thread count equal one thread. Across
// instruction sets float results differ by rounding, attention over digests by its error; quantized activations and
// integer dot products do not.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/key_range.h"
#include "tensor/view.h"

namespace llada::kernels {

// Rotates each of `heads` consecutive vectors of head_dim floats in place; only the first `rotary` elements
// turn. cos/sin: rotary/2 values for this row's position, times the rotation's magnitude. adjacent: pairs (2j, 2j+1),
// otherwise (j, j + rotary/2).
struct RopeArgs {
  const float* cos;
  const float* sin;
  int64_t heads, head_dim, rotary;
  bool adjacent;
};

// One head, rows [r0, r1): out[r] = softmax(scale * q[r] . K^T) V over the keys that the row may see.
struct AttentionArgs {
  const float* q;  // row r at q + r * q_stride, head_dim floats
  int64_t q_stride;
  const void* k;  // keys x head_dim, contiguous, kv_type
  const void* v;  // the same
  DType kv_type;  // F32 or F16
  int64_t keys, head_dim;
  float scale;
  int64_t r0, r1;
  const KeyRange* ranges;  // the keys that row r sees, none of them behind `keys` and at least one; null: all
  float* scratch;          // attention_scratch(keys) floats, private to the call
  float* out;              // row r at out + r * out_stride
  int64_t out_stride;
  // The keys' digest, or null. Rows that see at least kDigestKeys keys are computed from it, with its error (the
  // table's file states it). The caller must give one for all rows of a run or for none.
  const std::byte* digest = nullptr;
  int64_t digest_positions = 0;  // as it was made for
  float cap = 0;                 // of the scaled scores (soft_cap); 0: none. Not together with a digest

  // The keys that a row sees. Inlined, so that no code for newer processors can replace it when the program is linked.
  __attribute__((always_inline)) KeyRange range(int64_t row) const {
    if (ranges == nullptr) return {0, static_cast<int32_t>(keys)};
    return {ranges[row].first, ranges[row].last};
  }
};
// Scratch floats for a call over `keys` keys; enough for any kernel's row tile.
int64_t attention_scratch(int64_t keys);

// A digest: keys and values of a head in a narrower form of the table's own, with which long attention is several times
// as fast. Below kDigestKeys keys attention is a small share of a forward and stays as exact as floats are.
inline constexpr int64_t kDigestKeys = 1024;

// Brings positions [p0, p1) of a head's digest up to date and leaves the others as they are. Calls for parts that begin
// and end at multiples of 4 (or at `positions`) may run in parallel. Positions that a row does not see have no
// influence on its result, whatever bytes are there.
struct DigestArgs {
  const void* k;  // positions x head_dim, contiguous, kv_type
  const void* v;
  DType kv_type;
  int64_t positions, head_dim;
  int64_t p0, p1;
  std::byte* digest;  // digest_bytes(), 64-byte aligned
};

// y[r][c] = sum_k w[c][k] * x[r][k] for all rows and columns [n0, n1); n0 and n1 are multiples of
// column_tile(type) (n1 may also be n). Float types (F32, F16, BF16) read x; integer_path types read
// `activations`.
struct MatmulArgs {
  DType type;
  int64_t n, k;                  // outputs, inputs
  const std::byte* weights;      // as packed by pack(), or as stored where packed_bytes is 0
  const float* x;                // rows x k, contiguous
  const std::byte* activations;  // from quantize_rows
  int64_t rows;
  int64_t n0, n1;
  float* y;  // row r at y + r * y_stride; column c at index c
  int64_t y_stride;
};

// Over one stretch of a logits row. Both sums are NaN where a value is not finite; one that is to take no part is
// kNoLogit.
struct SoftmaxStats {
  float max;        // of the values that are numbers; -inf where there are none
  double sum;       // of exp(l - max)
  double weighted;  // of (l - max) * exp(l - max): entropy = log(sum) - weighted / sum
};
inline constexpr float kNoLogit = -1e30f;
struct Top2 {
  int32_t best, second;  // indices; ties go to the lower index; -1 when there is none above -inf; NaN is passed over
  float best_value, second_value;
};

// Some types, as bits.
using TypeSet = uint32_t;
inline constexpr TypeSet kAllTypes = ~TypeSet{0};
constexpr TypeSet type_bit(DType type) { return TypeSet{1} << static_cast<int>(type); }

// Picks some rows of quantized activations, so that they can be multiplied alone. Only the parts are picked that
// weights of the types `readers` read.
struct PickArgs {
  const float* x;                // rows x k
  const std::byte* activations;  // the same from quantize_rows
  int64_t rows, k;
  const int32_t* picked;  // count rows
  int64_t count;
  TypeSet readers;
  std::byte* out;  // activation_bytes(count, k)
};

// Meanings of the entries (shapes as above):
//
// - rms_norm: y = x / sqrt(mean(x^2) + eps) * weight, n values; the sum runs in float in a fixed order
// - add: y += x
// - swiglu: y = silu(gate) * up
// - geglu: y = gelu(gate) * up, gelu(x) = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
// - soft_cap: x = cap tanh(x / cap), n values; NaN where x is not finite: a bound must not hide it
// - store_half: y = F16(x), round to nearest even
// - digest_bytes: size of a head's digest; 0: there is none for this type and head size
// - integer_path: true when `type` multiplies with int8 activations
// - column_tile: columns that matmul handles as a unit
// - packed_bytes: size of the packed copy of an n x k matrix; 0: the stored bytes are used in place
// - pack: columns [n0, n1) (multiples of column_tile, or n) of the matrix into its packed copy
// - activation_bytes: size of the quantized activations of `rows` rows of k values (k a multiple of 32)
// - quantize_rows: quantizes rows [r0, r1); calls on disjoint row ranges may run in parallel. Groups of 32 get scale =
//   max|x| / 127 and q = round-to-nearest-even(x / scale). Groups below 2^-120 count as zero. A group with a value that
//   is not finite gets NaN as its scale, so that the row's results are NaN. `readers` are the types of the weights that
//   will read the activations; parts that only other types read may stay undefined
// - pick_rows: the same activations as quantize_rows of the picked rows alone, without quantizing a row once per pick
//
// Packed weights and activations start on 64-byte boundaries.
struct KernelTable {
  std::string_view isa;
#define LLADA_KERNEL(result, name, arguments) result(*name) arguments;
#include "kernels/kernels.inc"
#undef LLADA_KERNEL
};

// Tables that this build contains and this processor can run, best first; the last one is scalar. The amx one stands
// behind avx512vnni: where another thread shares the core it is the slower one (docs/lab/kernels.md).
const std::vector<const KernelTable*>& available();

// The name of the first table that packs weights as this one does.
std::string_view packed_layout(const KernelTable& table);

// The table named by `isa`, or the best when empty. The error lists the tables that are available.
Result<const KernelTable*> select(std::string_view isa);

}  // namespace llada::kernels
