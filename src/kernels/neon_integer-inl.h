// The int8 matrix product, written once and compiled once per instruction set (neon.cc, neon_dotprod.cc,
// neon_i8mm.cc). The including file first defines `Isa`, the part that differs:
//   place        how the 4 x 32 bytes of a tile (four columns of weights, or four rows of activations) are
//   ordered.
//                Always: bytes 0..63 are values 0..15 of the four, bytes 64..127 values 16..31.
//   kNibbleBits  4: nibbles may stay in the upper half of a byte, their products are 16 times too large; 0:
//   they may not dots         integer dot products of R rows and four columns spread, scaled, exchange which
//   lanes of an accumulator belong to which row and column
//
// Layouts. Weights, packed (Q4_0, Q8_0), per tile of four columns: for every group the 128 values (Q4_0: 64
// bytes, value bytes j and j + 64 in the low and high nibble of byte j, two's complement), then for every
// group four F16 scales. Activations: blocks of four rows, per block an ActivationGroup for every 32 values;
// missing rows are zero. Other types are unpacked to int8 a chunk of k at a time, once for all rows.
//
// Every element is sum over groups g, ascending, of fma(row scale, float(dot) * column scale, sum), for types
// with an offset followed by fma(row scale * row sum, offset, sum): the same bits for any tile, and on all
// three sets.
#pragma once
#include "kernels/neon_common.h"
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

constexpr int kRegisters = 8;  // of a tile's 128 bytes

LLADA_INLINE void load_tile(const int8_t* q, int8x16_t w[kRegisters]) {
  for (int i = 0; i < kRegisters; ++i) w[i] = vld1q_s8(q + 16 * i);
}

// Where a tile's weights come from; g is relative to the source's first group.
template <DType type>
struct PackedSource;

template <>
struct PackedSource<DType::Q8_0> {
  static constexpr bool kSmall = false, kHalves = false, kOffset = false;
  static constexpr int kShift = 0;
  static constexpr int64_t kBytes = 128;
  const std::byte* q;
  const std::byte* scales;
  LLADA_INLINE void load(int64_t g, int8x16_t w[kRegisters]) const {
    load_tile(reinterpret_cast<const int8_t*>(q) + g * kBytes, w);
  }
  LLADA_INLINE float32x4_t scale(int64_t g, int) const {
    return load4(reinterpret_cast<const __fp16*>(scales) + g * kTile);
  }
  LLADA_INLINE float32x4_t offset(int64_t) const { return vdupq_n_f32(0); }
};

template <>
struct PackedSource<DType::Q4_0> {
  static constexpr bool kSmall = true, kHalves = false, kOffset = false;
  static constexpr int kShift = Isa::kNibbleBits;
  static constexpr int64_t kBytes = 64;
  const std::byte* q;
  const std::byte* scales;
  LLADA_INLINE void load(int64_t g, int8x16_t w[kRegisters]) const {
    for (int i = 0; i < kRegisters / 2; ++i) {
      const int8x16_t both = vld1q_s8(reinterpret_cast<const int8_t*>(q) + g * kBytes + 16 * i);
      if constexpr (kShift == 4) {
        w[i] = vshlq_n_s8(both, 4);
        w[i + 4] = vandq_s8(both, vdupq_n_s8(-16));
      } else {
        w[i] = vshrq_n_s8(vshlq_n_s8(both, 4), 4);
        w[i + 4] = vshrq_n_s8(both, 4);
      }
    }
  }
  LLADA_INLINE float32x4_t scale(int64_t g, int) const {
    return load4(reinterpret_cast<const __fp16*>(scales) + g * kTile);
  }
  LLADA_INLINE float32x4_t offset(int64_t) const { return vdupq_n_f32(0); }
};

struct UnpackedGroup {
  int8_t q[kTile * kGroup];
  float scale[2][kTile];
  float offset[kTile];
};

template <DType type>
struct UnpackedSource {
  static constexpr bool kSmall = Unpack<type>::kSmall, kHalves = Unpack<type>::kHalves,
                        kOffset = Unpack<type>::kOffset;
  static constexpr int kShift = 0;
  const UnpackedGroup* groups;
  LLADA_INLINE void load(int64_t g, int8x16_t w[kRegisters]) const { load_tile(groups[g].q, w); }
  LLADA_INLINE float32x4_t scale(int64_t g, int half) const { return vld1q_f32(groups[g].scale[half]); }
  LLADA_INLINE float32x4_t offset(int64_t g) const { return vld1q_f32(groups[g].offset); }
};

// Group g of the tile that starts at column c; columns that do not exist repeat the last one.
template <DType type>
LLADA_INLINE void unpack_tile(const std::byte* weights, int64_t row_stride, int64_t c, int64_t columns,
                              int64_t g, ColumnGroup out[kTile], int8x16_t tile[kRegisters]) {
  Values values[kTile];
  for (int64_t i = 0; i < kTile; ++i) {
    Unpack<type>::group(weights + (c + (i < columns ? i : columns - 1)) * row_stride, g, out[i]);
    values[i] = out[i].q;
  }
  Isa::arrange(values, tile);
}

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

// R rows by four columns over `groups` groups. x0 and x1: the activation blocks of rows 0..3 and 4..7.
// first: the sums start at zero, otherwise at what is in `out`.
template <int R, class Source>
__attribute__((noinline)) void multiply_tile(const Source source, int64_t groups, const ActivationGroup* x0,
                                             const ActivationGroup* x1, bool first, const Output out) {
  constexpr int kSums = Isa::template kSums<R>;
  float32x4_t sum[kSums];
  for (int i = 0; i < kSums; ++i)
    sum[i] = first || i >= out.rows ? vdupq_n_f32(0) : load_some(out.y + i * out.stride, out.columns);
  if (!first) Isa::template exchange<kSums>(sum);
  for (int64_t g = 0; g < groups; ++g) {
    int8x16_t w[kRegisters];
    source.load(g, w);
    const ActivationGroup* x[2] = {x0 + g, R > 4 ? x1 + g : x0 + g};
    float32x4_t rows[2] = {vld1q_f32(x[0]->scale), vld1q_f32(x[1]->scale)}, columns[2];
    Isa::spread(source.scale(g, 0), columns);
    int32x4_t dot[kSums];
    for (int i = 0; i < kSums; ++i) dot[i] = vdupq_n_s32(0);
    if constexpr (Source::kHalves) {
      Isa::template dots<R, 0, 1, Source::kSmall>(w, x[0]->q, x[1]->q, dot);
      float32x4_t product[kSums];
      for (int i = 0; i < kSums; ++i) {
        product[i] = vmulq_f32(to_float<Source::kShift>(dot[i]), columns[i & 1]);
        dot[i] = vdupq_n_s32(0);
      }
      Isa::template dots<R, 1, 2, Source::kSmall>(w, x[0]->q, x[1]->q, dot);
      Isa::spread(source.scale(g, 1), columns);
      unroll<kSums>([&](auto i) __attribute__((always_inline)) {
        product[i] = vfmaq_f32(product[i], to_float<Source::kShift>(dot[i]), columns[i & 1]);
        sum[i] = Isa::template scaled<i>(sum[i], product[i], rows);
      });
    } else {
      Isa::template dots<R, 0, 2, Source::kSmall>(w, x[0]->q, x[1]->q, dot);
      unroll<kSums>([&](auto i) __attribute__((always_inline)) {
        sum[i] = Isa::template scaled<i>(sum[i], vmulq_f32(to_float<Source::kShift>(dot[i]), columns[i & 1]),
                                         rows);
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
  for (int i = 0; i < kSums; ++i)
    if (i < out.rows) store_some(out.y + i * out.stride, out.columns, sum[i]);
}

// All rows against one tile of columns.
template <class Source>
void multiply_rows(const MatmulArgs& a, const Source& source, int64_t g0, int64_t groups, int64_t c,
                   int64_t columns) {
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

int64_t packed_tile_bytes(DType type, int64_t k) {
  const int64_t scales = kTile * static_cast<int64_t>(sizeof(uint16_t));
  return k / kGroup *
         ((type == DType::Q4_0 ? PackedSource<DType::Q4_0>::kBytes : PackedSource<DType::Q8_0>::kBytes) +
          scales);
}

bool integer_path(DType type) { return traits(type).quantized; }
int64_t column_tile(DType) { return kTile; }

// Padding a few columns to whole tiles would break the bound of a tenth more than the file; those stay as
// stored.
int64_t packed_bytes(DType type, int64_t n, int64_t k) {
  if (type != DType::Q4_0 && type != DType::Q8_0) return 0;
  const int64_t tiles = (n + kTile - 1) / kTile;
  return tiles * kTile * 10 <= n * 11 ? tiles * packed_tile_bytes(type, k) : 0;
}

template <DType type>
void pack_tiles(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  constexpr int64_t kBytes = PackedSource<type>::kBytes;
  const int64_t k = weight.shape.columns(), groups = k / kGroup;
  for (int64_t c = n0; c < n1; c += kTile) {
    auto* q = reinterpret_cast<int8_t*>(packed + c / kTile * packed_tile_bytes(type, k));
    auto* scales = reinterpret_cast<__fp16*>(q + groups * kBytes);
    for (int64_t g = 0; g < groups; ++g) {
      ColumnGroup column[kTile];
      int8x16_t tile[kRegisters];
      unpack_tile<type>(weight.data, weight.row_stride(), c, n1 - c < kTile ? n1 - c : kTile, g, column,
                        tile);
      if constexpr (type == DType::Q4_0) {
        for (int i = 0; i < kRegisters / 2; ++i)
          vst1q_s8(q + g * kBytes + 16 * i,
                   vorrq_s8(vandq_s8(tile[i], vdupq_n_s8(15)), vshlq_n_s8(tile[i + 4], 4)));
      } else {
        for (int i = 0; i < kRegisters; ++i) vst1q_s8(q + g * kBytes + 16 * i, tile[i]);
      }
      for (int64_t i = 0; i < kTile; ++i) scales[g * kTile + i] = static_cast<__fp16>(column[i].scale[0]);
    }
  }
}

void pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  if (weight.type == DType::Q4_0) {
    pack_tiles<DType::Q4_0>(weight, n0, n1, packed);
  } else if (weight.type == DType::Q8_0) {
    pack_tiles<DType::Q8_0>(weight, n0, n1, packed);
  }
}

int64_t activation_bytes(int64_t rows, int64_t k) {
  return (rows + kTile - 1) / kTile * (k / kGroup) * static_cast<int64_t>(sizeof(ActivationGroup));
}

LLADA_INLINE void quantize_group(const float* x, ActivationGroup& group, int item) {
  float32x4_t v[8], largest = vdupq_n_f32(0);
  for (int i = 0; i < 8; ++i) {
    v[i] = vld1q_f32(x + 4 * i);
    largest = vmaxnmq_f32(largest, vabsq_f32(v[i]));
  }
  const float max = vmaxnmvq_f32(largest);
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
  group.scale[item] = zero ? 0.0f : max / 127.0f;
  group.sum[item] = group.scale[item] * static_cast<float>(vaddlvq_s8(low) + vaddlvq_s8(high));
}

void quantize_rows(const float* x, int64_t rows, int64_t k, int64_t r0, int64_t r1, std::byte* activations) {
  const int64_t groups = k / kGroup;
  const auto row = [&](int64_t r, auto&& write) {
    auto* group = reinterpret_cast<ActivationGroup*>(activations) + r / kTile * groups;
    for (int64_t g = 0; g < groups; ++g) write(g, group[g], static_cast<int>(r % kTile));
  };
  for (int64_t r = r0; r < r1; ++r)
    row(r, [&](int64_t g, ActivationGroup& group, int item) {
      quantize_group(x + r * k + g * kGroup, group, item);
    });
  if (r1 != rows) return;
  for (int64_t r = rows; r % kTile != 0; ++r)  // whoever writes the last row fills its block
    row(r, [](int64_t, ActivationGroup& group, int item) {
      Isa::store_row(group.q, item, vdupq_n_s8(0), vdupq_n_s8(0));
      group.scale[item] = group.sum[item] = 0;
    });
}

template <DType type>
void matmul_packed(const MatmulArgs& a) {
  const int64_t groups = a.k / kGroup;
  for (int64_t c = a.n0; c < a.n1; c += kTile) {
    const std::byte* tile = a.weights + c / kTile * packed_tile_bytes(type, a.k);
    const PackedSource<type> source = {tile, tile + groups * PackedSource<type>::kBytes};
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

void matmul(const MatmulArgs& a) {
  const bool packed = packed_bytes(a.type, a.n, a.k) > 0;
  switch (a.type) {
    case DType::Q8_0:
      return packed ? matmul_packed<DType::Q8_0>(a) : matmul_stored<DType::Q8_0>(a);
    case DType::Q4_0:
      return packed ? matmul_packed<DType::Q4_0>(a) : matmul_stored<DType::Q4_0>(a);
    case DType::Q4_1:
      return matmul_stored<DType::Q4_1>(a);
    case DType::Q5_0:
      return matmul_stored<DType::Q5_0>(a);
    case DType::Q5_1:
      return matmul_stored<DType::Q5_1>(a);
    case DType::Q4_K:
      return matmul_stored<DType::Q4_K>(a);
    case DType::Q5_K:
      return matmul_stored<DType::Q5_K>(a);
    case DType::Q6_K:
      return matmul_stored<DType::Q6_K>(a);
    default:
      return matmul_float(a);
  }
}

// No digests: attention over many keys stays in floats.
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
