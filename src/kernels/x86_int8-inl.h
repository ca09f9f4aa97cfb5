// Layouts and loops of the 256-bit integer products, shared by AVX2 and AVX-VNNI: included once by a file
// that defines the words below for its instructions; LLADA_VECTOR_NAMESPACE names its namespace. Everything
// is in an anonymous namespace and nothing inline from other headers is called (see x86_rows-inl.h).
//
// Words: column tile = 16 output columns, in two vectors X (columns 0..7) and Y (8..15); step = 4 consecutive
// k, so that a vector holds 8 columns x 4 k and meets one 32-bit broadcast of activations; group = 32 k = 8
// steps; block = 8 groups.
//
// Weights per column tile and group:
//   Q4_0  packed: 8 x 32 B (low nibbles X, high nibbles Y), 16 F16 scales
//   Q8_0  packed: 8 x (X, Y), 16 F16 scales
//   other types are used as stored: a block is expanded on the stack for all rows: 8 x (X, Y) of unsigned
//   quants, then floats: 16 scales (Q5_1, Q5_K, Q6_K: two times 16, one for each half of the group) and 16
//   offsets where the type has them.
// Activations: q and scales exactly as the oracle's (rows x k int8, then rows x groups floats), then for rows
// x groups: scale * sum(q) as float, and sums of q over k % 4 < 2 and k % 4 >= 2 as pairs of int16: of the
// first half, of the second half, of the group.
//
// A group's integer sum is exact; it is converted and added as sum * (weight scale * activation scale).
// Results are float sums over the groups in ascending order.
//
// The including file defines:
//   Sum start_zero(), Sum start(__m256i pairs, int center): zero, or -center * the pair sums, so that a sum
//     over quants becomes one over (quant - center)
//   Sum step(Sum, __m256i quants, __m256i activations): unsigned times signed, exact for what a form adds up
//   __m256i finish(Sum): as 8 x int32
//   wide_step, wide_finish, kWideCenter: the same for Q8_0, whose quants are packed xor kWideFlip
//   kIntRows: rows of a tile
#pragma once
#include "kernels/x86_int8_layout-inl.h"

namespace llada::kernels::LLADA_VECTOR_NAMESPACE {
namespace {

inline constexpr int64_t kRowBlock = 128;
inline constexpr int64_t kPackedBlock = 32;  // groups; 9 or 17 KiB of packed weights that stay in L1

// What a type is to the products.
struct Q4_0Form {
  static constexpr int kCenter = 8, kHalves = 1;
  static constexpr bool kOffset = false, kNibbles = true, kWide = false, kPacked = true;
  static constexpr int64_t kBytes = 288;
};
struct Q8_0Form {
  static constexpr int kCenter = kWideCenter, kHalves = 1;
  static constexpr bool kOffset = false, kNibbles = false, kWide = true, kPacked = true;
  static constexpr int64_t kBytes = 544;
};
template <int Center, int Halves, bool Offset>
struct ExpandedForm {
  static constexpr int kCenter = Center, kHalves = Halves;
  static constexpr bool kOffset = Offset, kNibbles = false, kWide = false, kPacked = false;
  static constexpr int64_t kBytes = 512 + 64 * Halves + (Offset ? 64 : 0);
};
using FourBitsForm = ExpandedForm<0, 1, true>;  // Q4_1, Q4_K
using FiveBitsForm =
    ExpandedForm<0, 2, true>;  // Q5_1, Q5_K: a sum over 32 unsigned 5-bit quants exceeds int16
using Q5_0Form = ExpandedForm<16, 1, false>;
using Q6_KForm = ExpandedForm<32, 2, false>;

struct IntTile {
  const uint8_t* weights;
  const int8_t* q;  // of the tile's first row and group, likewise the next three
  const float* scales;
  const float* weighted;
  const int16_t* pairs;
  int64_t k, groups;  // k: distance of two rows in q; groups: of this call
  float* sums;        // rows x 16, added to
};

template <class Form>
inline __m256 weight_scale(const uint8_t* w, int half, int j) {
  if constexpr (Form::kPacked) return _mm256_cvtph_ps(load_128(w + Form::kBytes - 32 + 16 * j));
  return _mm256_loadu_ps(reinterpret_cast<const float*>(w + 512 + 64 * half + 32 * j));
}

template <class Form, int Rows>
__attribute__((noinline)) void multiply_tile(const IntTile& t) {
  const int64_t row_groups = t.k / kGroup;
  const uint8_t* w = t.weights;
  __m256 sums[Rows][2];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
    for (int j = 0; j < 2; ++j) sums[r][j] = _mm256_loadu_ps(t.sums + r * kTile + 8 * j);
  for (int64_t g = 0; g < t.groups; ++g, w += Form::kBytes) {
#pragma GCC unroll 2
    for (int half = 0; half < Form::kHalves; ++half) {
      constexpr int kSteps = 8 / Form::kHalves;
      Sum acc[Rows][2];
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        const int16_t* pairs = t.pairs + ((r * row_groups + g) * 3 + (Form::kHalves == 2 ? half : 2)) * 2;
        acc[r][0] = acc[r][1] = Form::kCenter == 0 ? start_zero() : start(broadcast_32(pairs), Form::kCenter);
      }
#pragma GCC unroll 8
      for (int s = 0; s < kSteps; ++s) {
        __m256i x, y;
        const int step_index = half * kSteps + s;
        if constexpr (Form::kNibbles) {
          const __m256i both = load_256(w + 32 * step_index), nibble = _mm256_set1_epi8(15);
          x = _mm256_and_si256(both, nibble);
          y = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
        } else {
          x = load_256(w + 64 * step_index);
          y = load_256(w + 64 * step_index + 32);
        }
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r) {
          const __m256i a = broadcast_32(t.q + r * t.k + g * kGroup + 4 * step_index);
          if constexpr (Form::kWide) {
            acc[r][0] = wide_step(acc[r][0], x, a);
            acc[r][1] = wide_step(acc[r][1], y, a);
          } else {
            acc[r][0] = step(acc[r][0], x, a);
            acc[r][1] = step(acc[r][1], y, a);
          }
        }
      }
      const __m256 scale[2] = {weight_scale<Form>(w, half, 0), weight_scale<Form>(w, half, 1)};
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        const __m256 activation = _mm256_broadcast_ss(t.scales + r * row_groups + g);
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j) {
          const __m256i whole = Form::kWide ? wide_finish(acc[r][j]) : finish(acc[r][j]);
          sums[r][j] =
              _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), _mm256_mul_ps(scale[j], activation), sums[r][j]);
        }
      }
    }
    if constexpr (Form::kOffset) {
      const auto* offsets = reinterpret_cast<const float*>(w + 512 + 64 * Form::kHalves);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        const __m256 weighted = _mm256_broadcast_ss(t.weighted + r * row_groups + g);
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j)
          sums[r][j] = _mm256_fmadd_ps(_mm256_loadu_ps(offsets + 8 * j), weighted, sums[r][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
    for (int j = 0; j < 2; ++j) _mm256_storeu_ps(t.sums + r * kTile + 8 * j, sums[r][j]);
}

template <class Form, int Rows>
inline void multiply_some(const IntTile& t, int64_t rows) {
  if (rows == Rows) return multiply_tile<Form, Rows>(t);
  if constexpr (Rows > 1) multiply_some<Form, Rows - 1>(t, rows);
}

// Groups [g0, g0 + groups) of one column tile for rows [r0, r0 + rows); weights: of group g0.
template <class Form>
inline void multiply_groups(const MatmulArgs& a, const ActivationLayout& layout, int64_t r0, int64_t rows,
                            int64_t g0, int64_t groups, const uint8_t* weights, float* sums) {
  const int64_t row_groups = a.k / kGroup, tiles = (rows + kIntRows - 1) / kIntRows;
  for (int64_t i = 0; i < tiles; ++i) {  // of nearly equal height
    const int64_t first = rows * i / tiles, last = rows * (i + 1) / tiles;
    const int64_t at = (r0 + first) * row_groups + g0;
    IntTile t;
    t.weights = weights;
    t.q = reinterpret_cast<const int8_t*>(a.activations) + at * kGroup;
    t.scales = reinterpret_cast<const float*>(a.activations + layout.scales) + at;
    t.weighted = reinterpret_cast<const float*>(a.activations + layout.weighted) + at;
    t.pairs = reinterpret_cast<const int16_t*>(a.activations + layout.pairs) + at * 6;
    t.k = a.k;
    t.groups = groups;
    t.sums = sums + first * kTile;
    multiply_some<Form, kIntRows>(t, last - first);
  }
}

template <class Form, DType type>
inline void multiply_form(const MatmulArgs& a) {
  alignas(64) float sums[kRowBlock * kTile];
  alignas(64) uint8_t expanded[Form::kPacked ? 1 : kBlockGroups * Form::kBytes];
  const ActivationLayout layout(a.rows, a.k);
  const int64_t groups = a.k / kGroup, stride = Form::kPacked ? 0 : stored_row_bytes(type, a.k);
  for (int64_t r0 = 0; r0 < a.rows; r0 += kRowBlock) {
    const int64_t rows = a.rows - r0 < kRowBlock ? a.rows - r0 : kRowBlock;
    for (int64_t c = a.n0; c < a.n1; c += kTile) {
      __builtin_memset(sums, 0, static_cast<size_t>(rows * kTile) * sizeof(float));
      constexpr int64_t kBlock = Form::kPacked ? kPackedBlock : kBlockGroups;
      for (int64_t g = 0; g < groups; g += kBlock) {
        const int64_t count = groups - g < kBlock ? groups - g : kBlock;
        const uint8_t* weights = expanded;
        if constexpr (Form::kPacked) {
          weights = reinterpret_cast<const uint8_t*>(a.weights) + (c / kTile * groups + g) * Form::kBytes;
        } else {
          const Source source{a.weights, stride, c, a.n - c < kTile ? a.n - c : kTile};
          uint8_t* out = expanded;
          for (int64_t i = 0; i < count; ++i)
            out = expand_group<type>(source, g + i, Form::kHalves == 2, Form::kOffset, out);
        }
        multiply_groups<Form>(a, layout, r0, rows, g, count, weights, sums);
      }
      const int64_t columns = a.n1 - c < kTile ? a.n1 - c : kTile;
      for (int64_t r = 0; r < rows; ++r)
        __builtin_memcpy(a.y + (r0 + r) * a.y_stride + c, sums + r * kTile,
                         static_cast<size_t>(columns) * sizeof(float));
    }
  }
}

inline void multiply_int8(const MatmulArgs& a) {
  switch (a.type) {
    case DType::Q4_0:
      return multiply_form<Q4_0Form, DType::Q4_0>(a);
    case DType::Q8_0:
      return multiply_form<Q8_0Form, DType::Q8_0>(a);
    case DType::Q4_1:
      return multiply_form<FourBitsForm, DType::Q4_1>(a);
    case DType::Q5_0:
      return multiply_form<Q5_0Form, DType::Q5_0>(a);
    case DType::Q5_1:
      return multiply_form<FiveBitsForm, DType::Q5_1>(a);
    case DType::Q4_K:
      return multiply_form<FourBitsForm, DType::Q4_K>(a);
    case DType::Q5_K:
      return multiply_form<FiveBitsForm, DType::Q5_K>(a);
    default:
      return multiply_form<Q6_KForm, DType::Q6_K>(a);
  }
}

}  // namespace
}  // namespace llada::kernels::LLADA_VECTOR_NAMESPACE
