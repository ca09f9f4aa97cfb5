// The packed copies of weights that the int8 products of neon_integer-inl.h read. That file includes this one after
// `Isa`.
//
// Per tile of four columns there are three areas: the quants of every group, its scales, and for Q4_K and Q6_K heads,
// which eight groups share.
//   Q8_0  quants: 128 values
//         scales: four F16
//   Q8_M  quants: as Q8_0
//         scales: four float scales and four float offsets
//   Q4_0  quants: 64 bytes, value bytes j and j + 64 in the low and high nibble of byte j, two's complement
//         scales: four F16
//   Q4_1  quants: as Q4_0, unsigned
//         scales: four F16 scales and four F16 offsets
//   Q4_K  quants: as Q4_1
//         scales: four scales and four mins of a byte
//         heads:  four F16 d and four F16 -dmin
//   Q6_K  quants: 48 bytes for each half of the values, two's complement: bytes j, j + 16 and j + 32 of the half in the
//         low six bits of three vectors, byte j + 48 in their upper two bits, lowest bits first
//         scales: two times four scales of a byte
//         heads:  four F16 d
#pragma once
#include "kernels/computed.h"
#include "kernels/neon_common.h"
#include "kernels/neon_unpack-inl.h"
#include "kernels/neon_vector.h"
#include "tensor/view.h"

namespace llada::kernels::neon {
namespace {

constexpr int kRegisters = 8;  // of a tile's 128 bytes

LLADA_INLINE void load_tile(const int8_t* q, int8x16_t w[kRegisters]) {
#pragma GCC unroll 8
  for (int i = 0; i < kRegisters; ++i) w[i] = vld1q_s8(q + 16 * i);
}

// Group g of the tile that starts at column c; columns that do not exist repeat the last one.
template <DType type>
LLADA_INLINE void unpack_tile(const std::byte* weights, int64_t row_stride, int64_t c, int64_t columns, int64_t g,
                              ColumnGroup out[kTile], int8x16_t tile[kRegisters]) {
  Values values[kTile];
  for (int64_t i = 0; i < kTile; ++i) {
    Unpack<type>::group(weights + (c + (i < columns ? i : columns - 1)) * row_stride, g, out[i]);
    values[i] = out[i].q;
  }
  Isa::arrange(values, tile);
}

// Where a tile's weights come from; g is relative to the source's first group. `scales` and `heads` are the
// second and third area.
struct PackedAreas {
  const std::byte *q, *scales, *heads;
};

struct HalfScales : PackedAreas {  // an F16 scale for every column and group
  static constexpr bool kHalves = false, kOffset = false;
  static constexpr int64_t kScaleBytes = 8, kHeadBytes = 0;
  LLADA_INLINE float32x4_t scale(int64_t g, int) const {
    return load4(reinterpret_cast<const __fp16*>(scales) + g * kTile);
  }
  LLADA_INLINE float32x4_t offset(int64_t) const { return vdupq_n_f32(0); }
};

template <DType type>
struct PackedSource;

template <class Areas>
struct ByteQuants : Areas {
  static constexpr bool kSmall = false;
  static constexpr int kShift = 0;
  static constexpr int64_t kBytes = 128;
  LLADA_INLINE void load(int64_t g, int8x16_t w[kRegisters]) const {
    load_tile(reinterpret_cast<const int8_t*>(this->q) + g * kBytes, w);
  }
  static LLADA_INLINE void store(const int8x16_t tile[kRegisters], uint8_t* q) {
    for (int i = 0; i < kRegisters; ++i) vst1q_s8(reinterpret_cast<int8_t*>(q) + 16 * i, tile[i]);
  }
};

template <>
struct PackedSource<DType::Q8_0> : ByteQuants<HalfScales> {};

struct FloatScales : PackedAreas {
  static constexpr bool kHalves = false, kOffset = true;
  static constexpr int64_t kScaleBytes = 32, kHeadBytes = 0;
  LLADA_INLINE const float* floats(int64_t g) const { return reinterpret_cast<const float*>(scales) + g * 2 * kTile; }
  LLADA_INLINE float32x4_t scale(int64_t g, int) const { return vld1q_f32(floats(g)); }
  LLADA_INLINE float32x4_t offset(int64_t g) const { return vld1q_f32(floats(g) + kTile); }
};
template <>
struct PackedSource<DType::Q8_M> : ByteQuants<FloatScales> {};

LLADA_INLINE void store_nibbles(const int8x16_t tile[kRegisters], uint8_t* q) {
  for (int i = 0; i < kRegisters / 2; ++i)
    vst1q_u8(q + 16 * i,
             vsliq_n_u8(vreinterpretq_u8_s8(vandq_s8(tile[i], vdupq_n_s8(15))), vreinterpretq_u8_s8(tile[i + 4]), 4));
}

template <>
struct PackedSource<DType::Q4_0> : HalfScales {
  static constexpr bool kSmall = true;
  static constexpr int kShift = Isa::kNibbleBits;
  static constexpr int64_t kBytes = 64;
  LLADA_INLINE void load(int64_t g, int8x16_t w[kRegisters]) const {
#pragma GCC unroll 8
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
  static LLADA_INLINE void store(const int8x16_t tile[kRegisters], uint8_t* q) { store_nibbles(tile, q); }
};

// Four bytes as floats.
LLADA_INLINE int16x4_t widen(const int8_t* p) {
  int32_t word;
  std::memcpy(&word, p, sizeof word);
  return vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(word))));
}
LLADA_INLINE float32x4_t byte_floats(const int8_t* p) { return vcvtq_f32_s32(vmovl_s16(widen(p))); }

struct UnsignedNibbles : PackedAreas {
  static constexpr bool kSmall = true, kHalves = false, kOffset = true;
  static constexpr int kShift = 0;
  static constexpr int64_t kBytes = 64;
  LLADA_INLINE void load(int64_t g, int8x16_t w[kRegisters]) const {
#pragma GCC unroll 8
    for (int i = 0; i < kRegisters / 2; ++i) {
      const uint8x16_t both = vld1q_u8(reinterpret_cast<const uint8_t*>(q) + g * kBytes + 16 * i);
      w[i] = vreinterpretq_s8_u8(vandq_u8(both, vdupq_n_u8(15)));
      w[i + 4] = vreinterpretq_s8_u8(vshrq_n_u8(both, 4));
    }
  }
  static LLADA_INLINE void store(const int8x16_t tile[kRegisters], uint8_t* q) { store_nibbles(tile, q); }
};

template <>
struct PackedSource<DType::Q4_1> : UnsignedNibbles {
  static constexpr int64_t kScaleBytes = 16, kHeadBytes = 0;
  LLADA_INLINE const __fp16* halves(int64_t g) const { return reinterpret_cast<const __fp16*>(scales) + g * 2 * kTile; }
  LLADA_INLINE float32x4_t scale(int64_t g, int) const { return load4(halves(g)); }
  LLADA_INLINE float32x4_t offset(int64_t g) const { return load4(halves(g) + kTile); }
};

template <>
struct PackedSource<DType::Q4_K> : UnsignedNibbles {
  static constexpr int64_t kScaleBytes = 8, kHeadBytes = 16;
  // which: 0 scales, 1 mins; both are below 64.
  LLADA_INLINE float32x4_t times_head(int64_t g, int64_t which) const {
    const auto* head = reinterpret_cast<const __fp16*>(heads) + g / 8 * 2 * kTile;
    return vmulq_f32(load4(head + which * kTile),
                     byte_floats(reinterpret_cast<const int8_t*>(scales) + g * kScaleBytes + which * kTile));
  }
  LLADA_INLINE float32x4_t scale(int64_t g, int) const { return times_head(g, 0); }
  LLADA_INLINE float32x4_t offset(int64_t g) const { return times_head(g, 1); }
};

template <>
struct PackedSource<DType::Q6_K> : PackedAreas {
  static constexpr bool kSmall = true, kHalves = true, kOffset = false;
  static constexpr int kShift = Isa::kNibbleBits / 2;
  static constexpr int64_t kBytes = 96, kScaleBytes = 8, kHeadBytes = 8;
  LLADA_INLINE void load(int64_t g, int8x16_t w[kRegisters]) const {
#pragma GCC unroll 8
    for (int half = 0; half < 2; ++half) {
      const uint8_t* at = reinterpret_cast<const uint8_t*>(q) + g * kBytes + 48 * half;
      const uint8x16_t a = vld1q_u8(at), b = vld1q_u8(at + 16), c = vld1q_u8(at + 32);
      const uint8x16_t fourth = vandq_u8(vsriq_n_u8(vsriq_n_u8(c, b, 2), a, 4), vdupq_n_u8(0xfc));
      const uint8x16_t four[4] = {vshlq_n_u8(a, 2), vshlq_n_u8(b, 2), vshlq_n_u8(c, 2), fourth};
#pragma GCC unroll 8
      for (int i = 0; i < 4; ++i) {
        const int8x16_t upper = vreinterpretq_s8_u8(four[i]);
        w[4 * half + i] = kShift == 2 ? upper : vshrq_n_s8(upper, 2);
      }
    }
  }
  LLADA_INLINE float32x4_t scale(int64_t g, int half) const {
    return vmulq_f32(load4(reinterpret_cast<const __fp16*>(heads) + g / 8 * kTile),
                     byte_floats(reinterpret_cast<const int8_t*>(scales) + g * kScaleBytes + half * kTile));
  }
  LLADA_INLINE float32x4_t offset(int64_t) const { return vdupq_n_f32(0); }
  static LLADA_INLINE void store(const int8x16_t tile[kRegisters], uint8_t* q) {
    for (int half = 0; half < 2; ++half) {
      const auto value = [&](int i) { return vreinterpretq_u8_s8(tile[4 * half + i]); };
      const auto low = [&](int i) { return vandq_u8(value(i), vdupq_n_u8(0x3f)); };
      vst1q_u8(q + 48 * half, vsliq_n_u8(low(0), value(3), 6));
      vst1q_u8(q + 48 * half + 16, vsliq_n_u8(low(1), vshrq_n_u8(value(3), 2), 6));
      vst1q_u8(q + 48 * half + 32, vsliq_n_u8(low(2), vshrq_n_u8(value(3), 4), 6));
    }
  }
};

template <DType type>
constexpr int64_t tile_bytes(int64_t k) {
  using Source = PackedSource<type>;
  return k / kGroup * (Source::kBytes + Source::kScaleBytes) + k / (8 * kGroup) * Source::kHeadBytes;
}

int64_t packed_tile_bytes(DType type, int64_t k) {
  switch (type) {
    case DType::Q4_0:
      return tile_bytes<DType::Q4_0>(k);
    case DType::Q4_1:
      return tile_bytes<DType::Q4_1>(k);
    case DType::Q8_0:
      return tile_bytes<DType::Q8_0>(k);
    case DType::Q8_M:
      return tile_bytes<DType::Q8_M>(k);
    case DType::Q4_K:
      return tile_bytes<DType::Q4_K>(k);
    case DType::Q6_K:
      return tile_bytes<DType::Q6_K>(k);
    default:
      return 0;
  }
}

// Padding a few columns to whole tiles would break the bound of a tenth more than the file; those stay as
// stored.
int64_t computed_bytes(DType type, int64_t n, int64_t k) {
  const int64_t tile = packed_tile_bytes(type, k);
  if (tile == 0) return 0;
  const int64_t bytes = (n + kTile - 1) / kTile * tile;
  return bytes * 10 <= n * row_bytes(type, k) * 11 ? bytes : 0;
}

// The scales beside the quants of group g of column i; row: the column's stored bytes.
template <DType type>
void pack_scales(const std::byte* row, const ColumnGroup& column, int64_t g, int64_t i, std::byte* scales,
                 std::byte* heads) {
  auto* bytes = reinterpret_cast<uint8_t*>(scales) + g * PackedSource<type>::kScaleBytes + i;
  auto* halves = reinterpret_cast<__fp16*>(heads + g / 8 * PackedSource<type>::kHeadBytes) + i;
  if constexpr (type == DType::Q4_K) {
    const auto& stored = reinterpret_cast<const GroupQ4_K*>(row)[g / 8];
    int scale, min;
    scale_and_min(stored.scales, g % 8, scale, min);
    bytes[0] = static_cast<uint8_t>(scale);
    bytes[kTile] = static_cast<uint8_t>(min);
    halves[0] = std::bit_cast<__fp16>(stored.d);
    halves[kTile] = std::bit_cast<__fp16>(static_cast<uint16_t>(stored.dmin ^ 0x8000));
  } else if constexpr (type == DType::Q6_K) {
    const auto& stored = reinterpret_cast<const GroupQ6_K*>(row)[g / 8];
    bytes[0] = static_cast<uint8_t>(stored.scales[g % 8 * 2]);
    bytes[kTile] = static_cast<uint8_t>(stored.scales[g % 8 * 2 + 1]);
    halves[0] = std::bit_cast<__fp16>(stored.d);
  } else if constexpr (type == DType::Q4_1) {
    auto* both = reinterpret_cast<__fp16*>(scales) + g * 2 * kTile + i;
    both[0] = static_cast<__fp16>(column.scale[0]);
    both[kTile] = static_cast<__fp16>(column.offset);
  } else if constexpr (type == DType::Q8_M) {
    auto* floats = reinterpret_cast<float*>(scales) + g * 2 * kTile + i;
    floats[0] = column.scale[0];
    floats[kTile] = column.offset;
  } else {
    reinterpret_cast<__fp16*>(scales)[g * kTile + i] = static_cast<__fp16>(column.scale[0]);
  }
}

template <DType type>
void pack_tiles(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  using Source = PackedSource<type>;
  const int64_t k = weight.shape.columns(), groups = k / kGroup;
  for (int64_t c = n0; c < n1; c += kTile) {
    std::byte* q = packed + c / kTile * tile_bytes<type>(k);
    std::byte *scales = q + groups * Source::kBytes, *heads = scales + groups * Source::kScaleBytes;
    const int64_t columns = n1 - c < kTile ? n1 - c : kTile;
    for (int64_t g = 0; g < groups; ++g) {
      ColumnGroup column[kTile];
      int8x16_t tile[kRegisters];
      unpack_tile<type>(weight.data, weight.row_stride(), c, columns, g, column, tile);
      Source::store(tile, reinterpret_cast<uint8_t*>(q + g * Source::kBytes));
      for (int64_t i = 0; i < kTile; ++i)
        pack_scales<type>(weight.data + (c + (i < columns ? i : columns - 1)) * weight.row_stride(), column[i], g, i,
                          scales, heads);
    }
  }
}

void pack_computed(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  if (weight.type == DType::Q4_0) pack_tiles<DType::Q4_0>(weight, n0, n1, packed);
  if (weight.type == DType::Q4_1) pack_tiles<DType::Q4_1>(weight, n0, n1, packed);
  if (weight.type == DType::Q8_0) pack_tiles<DType::Q8_0>(weight, n0, n1, packed);
  if (weight.type == DType::Q8_M) pack_tiles<DType::Q8_M>(weight, n0, n1, packed);
  if (weight.type == DType::Q4_K) pack_tiles<DType::Q4_K>(weight, n0, n1, packed);
  if (weight.type == DType::Q6_K) pack_tiles<DType::Q6_K>(weight, n0, n1, packed);
}

int64_t packed_bytes(DType type, int64_t n, int64_t k) { return packed_bytes_of(computed_bytes, type, n, k); }
void pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  pack_any(pack_computed, computed_bytes, weight, n0, n1, packed);
}

}  // namespace
}  // namespace llada::kernels::neon
