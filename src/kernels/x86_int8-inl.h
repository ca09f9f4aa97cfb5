// Layouts and loops of the 256-bit integer products, shared by AVX2 and AVX-VNNI. A file includes this once, after it
// has defined the names listed below for its instructions; LLADA_VECTOR_NAMESPACE names its namespace. Everything is in
// an anonymous namespace and nothing inline from other headers is called (see x86_rows-inl.h).
//
// Words (k counts the inputs of a product):
//   column tile  16 output columns, in two vectors X (columns 0..7) and Y (8..15)
//   step         4 consecutive k, so that a vector holds 8 columns x 4 k and meets one 32-bit broadcast of activations
//   group        32 k, that is 8 steps
//   block        8 groups
//
// Weights per column tile and group:
//   Q4_0         packed: 8 x 32 B (low nibbles X, high nibbles Y), 16 F16 scales
//   Q8_0         packed: 8 x (X, Y), 16 F16 scales
//   Q4_K         packed: nibbles as Q4_0, 16 scales, 16 mins, a byte each; before a block 16 F16 d and 16 F16 dmin
//   Q6_K         packed: low nibbles as Q4_0, then 4 x 32 B with the upper two bits of X, Y, X, Y of two steps, lowest
//                bits first, 2 x 16 scales of a byte; before a block 16 F16 d
//   other types  used as stored: a block is expanded on the stack for all rows: 8 x (X, Y) of unsigned quants, then
//                floats: 16 scales (Q5_1, Q5_K, Q6_K: two times 16, one for each half of the group) and 16 offsets
//                where the type has them. (Q4_K and Q6_K were expanded too: 1 to 8 rows spent most of their time on
//                it.)
//
// Activations: q and scales exactly as the oracle's (rows x k int8, then rows x groups floats). Then for rows x groups:
// scale * sum(q) as float, and sums of q over k % 4 < 2 and k % 4 >= 2 as pairs of int16: of the first half, of the
// second half, of the group.
//
// A group's integer sum is exact. It is converted and added as sum * (weight scale * activation scale). Results are
// float sums over the groups in ascending order.
//
// The including file defines:
//   Sum start_zero()                      zero
//   Sum start(__m256i pairs, int center)  -center * the pair sums, so that a sum over quants becomes one over
//                                         (quant - center)
//   Sum step(Sum, __m256i quants, __m256i activations)
//                                         unsigned times signed, exact for what a form adds up
//   __m256i finish(Sum)                   as 8 x int32
//   wide_step, wide_finish, kWideCenter   the same for Q8_0, whose quants are packed xor kWideFlip
//   kIntRows                              rows of a tile
#pragma once
#include "kernels/x86_int8_layout-inl.h"

namespace llada::kernels::LLADA_VECTOR_NAMESPACE {
namespace {

inline constexpr int64_t kRowBlock = 128;
inline constexpr int64_t kPackedBlock = 32;  // groups; 9 to 17 KiB of packed weights that stay in L1

// What a type is to the products.
struct PackedForm {
  static constexpr int kHalves = 1;
  static constexpr bool kOffset = false, kNibbles = true, kSixBits = false, kWide = false, kPacked = true;
};
struct Q4_0Form : PackedForm {
  static constexpr DType kType = DType::Q4_0;
  static constexpr int kCenter = 8;
};
struct Q8_0Form : PackedForm {
  static constexpr DType kType = DType::Q8_0;
  static constexpr int kCenter = kWideCenter;
  static constexpr bool kNibbles = false, kWide = true;
};
struct Q4_KForm : PackedForm {
  static constexpr DType kType = DType::Q4_K;
  static constexpr int kCenter = 0;
  static constexpr bool kOffset = true;
};
struct Q6_KForm : PackedForm {
  static constexpr DType kType = DType::Q6_K;
  static constexpr int kCenter = 32, kHalves = 2;
  static constexpr bool kSixBits = true;
};
template <DType Type, int Center, int Halves, bool Offset>
struct ExpandedForm {
  static constexpr DType kType = Type;
  static constexpr int kCenter = Center, kHalves = Halves;
  static constexpr bool kOffset = Offset, kNibbles = false, kSixBits = false, kWide = false, kPacked = false;
};
using Q4_1Form = ExpandedForm<DType::Q4_1, 0, 1, true>;
using Q5_0Form = ExpandedForm<DType::Q5_0, 16, 1, false>;
// A sum over 32 unsigned 5-bit quants exceeds int16.
using Q5_1Form = ExpandedForm<DType::Q5_1, 0, 2, true>;
using Q5_KForm = ExpandedForm<DType::Q5_K, 0, 2, true>;

template <class Form>
constexpr int64_t form_bytes() {
  return Form::kPacked ? packed_group_bytes(Form::kType) : 512 + 64 * Form::kHalves + (Form::kOffset ? 64 : 0);
}
template <class Form>
constexpr int64_t header_bytes() {
  return Form::kPacked ? packed_header_bytes(Form::kType) : 0;
}

struct IntTile {
  const uint8_t* weights;
  const int8_t* q;  // of the tile's first row and group, likewise the next three
  const float* scales;
  const float* weighted;
  const int16_t* pairs;
  int64_t k, groups;  // k: distance of two rows in q; groups: of this call
  float* sums;        // rows x 16, added to
};

inline __m256 halves_at(const uint8_t* p) { return _mm256_cvtph_ps(load_128(p)); }
inline __m128i eight_bytes(const uint8_t* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }

// Scales of columns 8j .. 8j + 7 for half of a group; header: of its block.
template <class Form>
inline __m256 weight_scale(const uint8_t* header, const uint8_t* w, int half, int j) {
  if constexpr (Form::kPacked && Form::kType == DType::Q4_K)
    return _mm256_mul_ps(halves_at(header + 16 * j),
                         _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight_bytes(w + 256 + 8 * j))));
  if constexpr (Form::kPacked && Form::kType == DType::Q6_K)
    return _mm256_mul_ps(halves_at(header + 16 * j),
                         _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight_bytes(w + 384 + 16 * half + 8 * j))));
  if constexpr (Form::kPacked) return halves_at(w + form_bytes<Form>() - 32 + 16 * j);
  return _mm256_loadu_ps(reinterpret_cast<const float*>(w + 512 + 64 * half + 32 * j));
}

template <class Form>
inline __m256 weight_offset(const uint8_t* header, const uint8_t* w, int j) {
  if constexpr (Form::kPacked)  // -dmin * min
    return _mm256_mul_ps(_mm256_xor_ps(halves_at(header + 32 + 16 * j), _mm256_set1_ps(-0.0f)),
                         _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight_bytes(w + 272 + 8 * j))));
  return _mm256_loadu_ps(reinterpret_cast<const float*>(w + 512 + 64 * Form::kHalves + 32 * j));
}

// X and Y of a step.
template <class Form>
inline void load_step(const uint8_t* w, int step, __m256i& x, __m256i& y) {
  if constexpr (!Form::kNibbles) {
    x = load_256(w + 64 * step);
    y = load_256(w + 64 * step + 32);
    return;
  }
  const __m256i both = load_256(w + 32 * step), nibble = _mm256_set1_epi8(15);
  x = _mm256_and_si256(both, nibble);
  y = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
  if constexpr (Form::kSixBits) {
    const __m256i upper = load_256(w + 256 + 32 * (step / 2)), two = bytes_of(0x30);
    const __m256i ux = step % 2 == 0 ? _mm256_slli_epi16(upper, 4) : upper;
    const __m256i uy = step % 2 == 0 ? _mm256_slli_epi16(upper, 2) : _mm256_srli_epi16(upper, 2);
    x = _mm256_or_si256(x, _mm256_and_si256(ux, two));
    y = _mm256_or_si256(y, _mm256_and_si256(uy, two));
  }
}

template <class Form, int Rows>
__attribute__((noinline)) void multiply_tile(const IntTile& t) {
  const int64_t row_groups = t.k / kGroup;
  const uint8_t *w = t.weights, *header = w;
  __m256 sums[Rows][2];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
    for (int j = 0; j < 2; ++j) sums[r][j] = _mm256_loadu_ps(t.sums + r * kTile + 8 * j);
  for (int64_t g = 0; g < t.groups; ++g, w += form_bytes<Form>()) {
    if (header_bytes<Form>() > 0 && g % kBlockGroups == 0) {
      header = w;
      w += header_bytes<Form>();
    }
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
        load_step<Form>(w, step_index, x, y);
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
      const __m256 scale[2] = {weight_scale<Form>(header, w, half, 0), weight_scale<Form>(header, w, half, 1)};
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        const __m256 activation = _mm256_broadcast_ss(t.scales + r * row_groups + g);
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j) {
          const __m256i whole = Form::kWide ? wide_finish(acc[r][j]) : finish(acc[r][j]);
          sums[r][j] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), _mm256_mul_ps(scale[j], activation), sums[r][j]);
        }
      }
    }
    if constexpr (Form::kOffset) {
      const __m256 offsets[2] = {weight_offset<Form>(header, w, 0), weight_offset<Form>(header, w, 1)};
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        const __m256 weighted = _mm256_broadcast_ss(t.weighted + r * row_groups + g);
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j) sums[r][j] = _mm256_fmadd_ps(offsets[j], weighted, sums[r][j]);
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
inline void multiply_groups(const MatmulArgs& a, const ActivationLayout& layout, int64_t r0, int64_t rows, int64_t g0,
                            int64_t groups, const uint8_t* weights, float* sums) {
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

template <class Form>
inline void multiply_form(const MatmulArgs& a) {
  alignas(64) float sums[kRowBlock * kTile];
  alignas(64) uint8_t expanded[Form::kPacked ? 1 : kBlockGroups * form_bytes<Form>()];
  const ActivationLayout layout(a.rows, a.k);
  const int64_t groups = a.k / kGroup, stride = Form::kPacked ? 0 : stored_row_bytes(Form::kType, a.k);
  for (int64_t r0 = 0; r0 < a.rows; r0 += kRowBlock) {
    const int64_t rows = a.rows - r0 < kRowBlock ? a.rows - r0 : kRowBlock;
    for (int64_t c = a.n0; c < a.n1; c += kTile) {
      __builtin_memset(sums, 0, static_cast<size_t>(rows * kTile) * sizeof(float));
      constexpr int64_t kBlock = Form::kPacked ? kPackedBlock : kBlockGroups;
      for (int64_t g = 0; g < groups; g += kBlock) {
        const int64_t count = groups - g < kBlock ? groups - g : kBlock;
        const uint8_t* weights = expanded;
        if constexpr (Form::kPacked) {
          weights = reinterpret_cast<const uint8_t*>(a.weights) + c / kTile * packed_tile_bytes(Form::kType, groups) +
                    packed_tile_bytes(Form::kType, g);
        } else {
          const Source source{a.weights, stride, c, a.n - c < kTile ? a.n - c : kTile};
          uint8_t* out = expanded;
          for (int64_t i = 0; i < count; ++i)
            out = expand_group<Form::kType>(source, g + i, Form::kHalves == 2, Form::kOffset, out);
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
      return multiply_form<Q4_0Form>(a);
    case DType::Q8_0:
      return multiply_form<Q8_0Form>(a);
    case DType::Q4_1:
      return multiply_form<Q4_1Form>(a);
    case DType::Q5_0:
      return multiply_form<Q5_0Form>(a);
    case DType::Q5_1:
      return multiply_form<Q5_1Form>(a);
    case DType::Q4_K:
      return multiply_form<Q4_KForm>(a);
    case DType::Q5_K:
      return multiply_form<Q5_KForm>(a);
    default:
      return multiply_form<Q6_KForm>(a);
  }
}

}  // namespace
}  // namespace llada::kernels::LLADA_VECTOR_NAMESPACE
