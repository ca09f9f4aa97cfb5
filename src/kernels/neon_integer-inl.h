// The int8 matrix product, written once and compiled once per instruction set (neon.cc, neon_dotprod.cc, neon_i8mm.cc).
// The including file first defines `Isa`, the part that differs:
//   arrange, store_row          how the 4 x 32 bytes of a tile (four columns of weights, or four rows of activations)
//                               are ordered. Always: bytes 0..63 are values 0..15 of the four, bytes 64..127 values
//                               16..31.
//   kNibbleBits                 4: nibbles may stay in the upper half of a byte, which makes their products 16 times
//                               too large (and six bits in the upper ones, 4 times); 0: they may not
//   dots                        integer dot products of R rows and four columns
//   spread, scaled, exchange    which lanes of an accumulator belong to which row and column
//
// Layouts. Packed weights: neon_packed-inl.h; matrices of few columns are unpacked to int8 a chunk of k at a time, once
// for all rows. Activations: blocks of four rows, per block an ActivationGroup for every 32 values; missing rows are
// zero.
//
// Every element is the sum over groups, ascending, of fma(row scale, float(dot) * column scale, sum). For types with an
// offset it is followed by fma(row scale * row sum, offset, sum). The bits are the same for any tile and on all three
// sets.
#pragma once
#include <limits>

#include "kernels/neon_common.h"
#include "kernels/neon_packed-inl.h"
#include "kernels/neon_unpack-inl.h"
#include "kernels/neon_vector.h"
#include "kernels/tables.h"

namespace llada::kernels::neon {
namespace {

struct ActivationGroup {
  int8_t q[kTile * kGroup];
  float scale[kTile];
  float sum[kTile];  // scale * (sum of the row's 32 q), for types with an offset
};
static_assert(sizeof(ActivationGroup) == 160);

struct UnpackedGroup {
  int8_t q[kTile * kGroup];
  float scale[2][kTile];
  float offset[kTile];
};

template <DType type>
struct UnpackedSource {
  static constexpr bool kSmall = Unpack<type>::kSmall, kHalves = Unpack<type>::kHalves, kOffset = Unpack<type>::kOffset;
  static constexpr int kShift = 0;
  const UnpackedGroup* groups;
  LLADA_INLINE void load(int64_t g, int8x16_t w[kRegisters]) const { load_tile(groups[g].q, w); }
  LLADA_INLINE float32x4_t scale(int64_t g, int half) const { return vld1q_f32(groups[g].scale[half]); }
  LLADA_INLINE float32x4_t offset(int64_t g) const { return vld1q_f32(groups[g].offset); }
};

template <int kShift>
LLADA_INLINE float32x4_t to_float(int32x4_t dot) {
  if constexpr (kShift == 0) {
    return vcvtq_f32_s32(dot);
  } else {
    return vcvtq_n_f32_s32(dot, kShift);
  }
}

struct Output {
  float* y;
  int64_t stride, rows, columns;  // rows and columns that exist
};

// R rows by four columns over `groups` groups. x0 and x1: the activation blocks of rows 0..3 and 4..7. first: the sums
// start at zero, otherwise at the values in `out`.
template <int R, class Source>
__attribute__((noinline)) void multiply_tile(const Source& from, int64_t groups, const ActivationGroup* x0,
                                             const ActivationGroup* x1, bool first, const Output out) {
  const Source source = from;  // in registers
  constexpr int kSums = Isa::template kSums<R>;
  float32x4_t sum[kSums];
#pragma GCC unroll 8
  for (int i = 0; i < kSums; ++i)
    sum[i] = first || i >= out.rows ? vdupq_n_f32(0) : load_some(out.y + i * out.stride, out.columns);
  if (!first) Isa::template exchange<kSums>(sum);
  for (int64_t g = 0; g < groups; ++g) {
    int8x16_t w[kRegisters];
    source.load(g, w);
    const ActivationGroup* x[2] = {x0 + g, R > 4 ? x1 + g : x0 + g};
    int32x4_t dot[kSums];
    float32x4_t rows[2], columns[2];
    const auto clear = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (int i = 0; i < kSums; ++i) dot[i] = fresh_zero();
    };
    const auto scales = [&](int half) __attribute__((always_inline)) {
      loads_stay_behind();
      Isa::spread(source.scale(g, half), columns);
    };
    const auto row_scales = [&]() __attribute__((always_inline)) {
      rows[0] = vld1q_f32(x[0]->scale);
      rows[1] = vld1q_f32(x[1]->scale);
    };
    clear();
    if constexpr (Source::kHalves) {
      Isa::template dots<R, 0, 1, Source::kSmall>(w, x[0]->q, x[1]->q, dot);
      scales(0);
      float32x4_t product[kSums];
#pragma GCC unroll 8
      for (int i = 0; i < kSums; ++i) product[i] = vmulq_f32(to_float<Source::kShift>(dot[i]), columns[i & 1]);
      clear();
      Isa::template dots<R, 1, 2, Source::kSmall>(w, x[0]->q, x[1]->q, dot);
      scales(1);
      row_scales();
      unroll<kSums>([&](auto i) __attribute__((always_inline)) {
        product[i] = vfmaq_f32(product[i], to_float<Source::kShift>(dot[i]), columns[i & 1]);
        sum[i] = Isa::template scaled<i>(sum[i], product[i], rows);
      });
    } else {
      Isa::template dots<R, 0, 2, Source::kSmall>(w, x[0]->q, x[1]->q, dot);
      scales(0);
      row_scales();
      unroll<kSums>([&](auto i) __attribute__((always_inline)) {
        sum[i] = Isa::template scaled<i>(sum[i], vmulq_f32(to_float<Source::kShift>(dot[i]), columns[i & 1]), rows);
      });
    }
    if constexpr (Source::kOffset) {
      rows[0] = vld1q_f32(x[0]->sum);
      rows[1] = vld1q_f32(x[1]->sum);
      Isa::spread(source.offset(g), columns);
      unroll<kSums>([&](auto i) __attribute__((always_inline)) {
        sum[i] = Isa::template scaled<i>(sum[i], columns[i & 1], rows);
      });
    }
  }
  Isa::template exchange<kSums>(sum);
#pragma GCC unroll 8
  for (int i = 0; i < kSums; ++i)
    if (i < out.rows) store_some(out.y + i * out.stride, out.columns, sum[i]);
}

// All rows against one tile of columns.
template <class Source>
void multiply_rows(const MatmulArgs& a, const Source& source, int64_t g0, int64_t groups, int64_t c, int64_t columns) {
  const int64_t block_groups = a.k / kGroup;
  const auto* x = reinterpret_cast<const ActivationGroup*>(a.activations) + g0;
  for (int64_t r = 0, step; r < a.rows; r += step) {
    const ActivationGroup* x0 = x + r / kTile * block_groups;
    const int64_t left = a.rows - r;
    step = left >= 8 ? 8 : left < kTile ? left : kTile;
    const Output out = {a.y + r * a.y_stride + c, a.y_stride, step, columns};
    switch (step) {
      case 8:
        multiply_tile<8>(source, groups, x0, x0 + block_groups, g0 == 0, out);
        break;
      case 2:
        multiply_tile<2>(source, groups, x0, x0, g0 == 0, out);
        break;
      case 1:
        multiply_tile<1>(source, groups, x0, x0, g0 == 0, out);
        break;
      default:
        multiply_tile<4>(source, groups, x0, x0, g0 == 0, out);
    }
  }
}

bool integer_path(DType type) { return traits(type).quantized; }
int64_t column_tile(DType) { return kTile; }

int64_t activation_bytes(int64_t rows, int64_t k) {
  return (rows + kTile - 1) / kTile * (k / kGroup) * static_cast<int64_t>(sizeof(ActivationGroup));
}

LLADA_INLINE void quantize_group(const float* x, ActivationGroup& group, int item) {
  float32x4_t v[8], largest = vdupq_n_f32(0);
  for (int i = 0; i < 8; ++i) {
    v[i] = vld1q_f32(x + 4 * i);
    largest = vmaxq_f32(largest, vabsq_f32(v[i]));  // keeps NaN, as vmaxnmq would not
  }
  const float max = vmaxvq_f32(largest);
  const bool zero = !(max > 0x1p-120f);  // so small that 127 / max would not be finite
  const float inverse = zero ? 0.0f : 127.0f / max;
  int32x4_t q[8];
  for (int i = 0; i < 8; ++i) q[i] = vcvtnq_s32_f32(vmulq_n_f32(v[i], inverse));
  const auto bytes = [&](int i) __attribute__((always_inline)) {
    return vcombine_s8(vqmovn_s16(vcombine_s16(vqmovn_s32(q[i]), vqmovn_s32(q[i + 1]))),
                       vqmovn_s16(vcombine_s16(vqmovn_s32(q[i + 2]), vqmovn_s32(q[i + 3]))));
  };
  const int8x16_t low = bytes(0), high = bytes(4);
  Isa::store_row(group.q, item, low, high);
  const bool finite = max < std::numeric_limits<float>::infinity();
  group.scale[item] = !finite ? std::numeric_limits<float>::quiet_NaN() : zero ? 0.0f : max / 127.0f;
  group.sum[item] = group.scale[item] * static_cast<float>(vaddlvq_s8(low) + vaddlvq_s8(high));
}

// Row r of activations whose row has `groups` groups.
void quantize_row(const float* x, int64_t groups, int64_t r, std::byte* activations) {
  auto* group = reinterpret_cast<ActivationGroup*>(activations) + r / kTile * groups;
  for (int64_t g = 0; g < groups; ++g) quantize_group(x + g * kGroup, group[g], static_cast<int>(r % kTile));
}

// The rows behind the last one, up to the end of its block.
void fill_row_block(int64_t rows, int64_t groups, std::byte* activations) {
  for (int64_t r = rows; r % kTile != 0; ++r) {
    auto* group = reinterpret_cast<ActivationGroup*>(activations) + r / kTile * groups;
    for (int64_t g = 0; g < groups; ++g) {
      Isa::store_row(group[g].q, static_cast<int>(r % kTile), vdupq_n_s8(0), vdupq_n_s8(0));
      group[g].scale[r % kTile] = group[g].sum[r % kTile] = 0;
    }
  }
}

void quantize_rows(const float* x, int64_t rows, int64_t k, int64_t r0, int64_t r1, TypeSet, std::byte* activations) {
  for (int64_t r = r0; r < r1; ++r) quantize_row(x + r * k, k / kGroup, r, activations);
  if (r1 == rows) fill_row_block(rows, k / kGroup, activations);  // whoever writes the last row fills its block
}

// From the floats: a row's bytes lie scattered over its block.
void pick_rows(const PickArgs& a) {
  for (int64_t i = 0; i < a.count; ++i) quantize_row(a.x + a.picked[i] * a.k, a.k / kGroup, i, a.out);
  fill_row_block(a.count, a.k / kGroup, a.out);
}

template <DType type>
void matmul_packed(const MatmulArgs& a) {
  using Source = PackedSource<type>;
  const int64_t groups = a.k / kGroup;
  for (int64_t c = a.n0; c < a.n1; c += kTile) {
    const std::byte* tile = a.weights + c / kTile * tile_bytes<type>(a.k);
    Source source;
    source.q = tile;
    source.scales = tile + groups * Source::kBytes;
    source.heads = source.scales + groups * Source::kScaleBytes;
    multiply_rows(a, source, 0, groups, c, a.n1 - c < kTile ? a.n1 - c : kTile);
  }
}

template <DType type>
void matmul_stored(const MatmulArgs& a) {
  constexpr int64_t kChunk = 32;  // groups unpacked at once: 5.5 KiB, a third of a small core's L1
  const int64_t groups = a.k / kGroup, row_stride = row_bytes(type, a.k);
  UnpackedGroup unpacked[kChunk];
  for (int64_t c = a.n0; c < a.n1; c += kTile) {
    const int64_t columns = a.n1 - c < kTile ? a.n1 - c : kTile;
    for (int64_t g0 = 0; g0 < groups; g0 += kChunk) {
      const int64_t count = groups - g0 < kChunk ? groups - g0 : kChunk;
      for (int64_t g = 0; g < count; ++g) {
        ColumnGroup column[kTile];
        int8x16_t tile[kRegisters];
        unpack_tile<type>(a.weights, row_stride, c, columns, g0 + g, column, tile);
        for (int i = 0; i < kRegisters; ++i) vst1q_s8(unpacked[g].q + 16 * i, tile[i]);
        for (int i = 0; i < kTile; ++i) {
          unpacked[g].scale[0][i] = column[i].scale[0];
          if constexpr (Unpack<type>::kHalves) unpacked[g].scale[1][i] = column[i].scale[1];
          if constexpr (Unpack<type>::kOffset) unpacked[g].offset[i] = column[i].offset;
        }
      }
      multiply_rows(a, UnpackedSource<type>{unpacked}, g0, count, c, columns);
    }
  }
}

void matmul(const MatmulArgs& args) {
  const MatmulArgs a = computed_args(args);
  const bool packed = computed_bytes(a.type, a.n, a.k) > 0;
  switch (a.type) {
    case DType::Q8_0:
      return packed ? matmul_packed<DType::Q8_0>(a) : matmul_stored<DType::Q8_0>(a);
    case DType::Q8_M:
      return packed ? matmul_packed<DType::Q8_M>(a) : matmul_stored<DType::Q8_M>(a);
    case DType::Q4_0:
      return packed ? matmul_packed<DType::Q4_0>(a) : matmul_stored<DType::Q4_0>(a);
    case DType::Q4_1:
      return packed ? matmul_packed<DType::Q4_1>(a) : matmul_stored<DType::Q4_1>(a);
    case DType::Q4_K:
      return packed ? matmul_packed<DType::Q4_K>(a) : matmul_stored<DType::Q4_K>(a);
    case DType::Q6_K:
      return packed ? matmul_packed<DType::Q6_K>(a) : matmul_stored<DType::Q6_K>(a);
    default:
      return matmul_float(a);
  }
}

// Without dot products there are no digests: attention over many keys stays in floats. Digests' own products would be
// the widening ones of neon.cc, no faster than float ones.
int64_t digest_bytes(DType, int64_t, int64_t) { return 0; }
void digest(const DigestArgs&) {}

constexpr KernelTable make_table(std::string_view isa) {
  return {
      isa,
#define LLADA_KERNEL(result, name, arguments) name,
#include "kernels/kernels.inc"
#undef LLADA_KERNEL
  };
}

}  // namespace
}  // namespace llada::kernels::neon
