#include "devices/hexagon/dsp/key_tiles.h"

#include "devices/hexagon/dsp/hvx.h"
#include "devices/hexagon/dsp/matmul.h"

namespace dsp {
namespace {

constexpr uint32_t kBlockVectors = 16, kKeys = 32;
constexpr int32_t kFullScale = 1 << 14;  // of a tile's scale; 2^14 * 2^(exponent - 15) = 2^(exponent - 1)

// Halves as 16-bit integers q with value q * 2^(exponent - 29), rounded; |q| < 2^15.
inline __attribute__((always_inline)) HVX_Vector to_integers(HVX_Vector h, int32_t exponent) {
  const auto splat = [](int32_t v) { return Q6_V_vsplat_R(static_cast<int32_t>(static_cast<uint32_t>(v) * 0x10001u)); };
  const HVX_Vector magnitude = Q6_V_vand_VV(h, splat(0x7fff)), one = splat(1);
  const HVX_Vector field = Q6_Vuh_vlsr_VuhR(magnitude, 10);
  const HVX_Vector digits = Q6_V_vand_VV(magnitude, splat(0x3ff));
  // Subnormal numbers have field 0, no leading one, and the exponent of field 1.
  const HVX_Vector mantissa =
      Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VhVh(field, Q6_V_vzero()), Q6_V_vor_VV(digits, splat(0x400)), digits);
  const HVX_Vector behind = Q6_Vh_vsub_VhVh(splat(exponent), Q6_Vh_vmax_VhVh(field, one));
  const HVX_Vector shifted = Q6_Vh_vlsr_VhVh(Q6_Vh_vasl_VhR(mantissa, 5), Q6_Vh_vmin_VhVh(behind, splat(15)));
  const HVX_Vector q = Q6_Vuh_vavg_VuhVuh_rnd(shifted, Q6_V_vzero());
  const HVX_Vector sign = Q6_Vh_vasr_VhR(h, 15);
  return Q6_Vh_vsub_VhVh(Q6_V_vxor_VV(q, sign), sign);
}

struct Bytes {
  HVX_Vector high, low;  // of 128 elements, the high ones + 128
};
// 32 elements, and anything behind them: the vector unit's unaligned load would read beyond the end of a buffer, so the
// lines that hold the first and the last byte are loaded, which may be the same.
inline __attribute__((always_inline)) HVX_Vector half_vector(const uint16_t* row) {
  const auto first = reinterpret_cast<uintptr_t>(row), last = first + 63;
  constexpr uintptr_t kLine = ~static_cast<uintptr_t>(kVector - 1);
  return Q6_V_valign_VVR(*reinterpret_cast<const HVX_Vector*>(last & kLine),
                         *reinterpret_cast<const HVX_Vector*>(first & kLine), static_cast<int32_t>(first));
}

// One row of 32, 64 or 128 elements; absent ones are zero, of 32 those up to the 64th anything.
inline __attribute__((always_inline)) Bytes row_bytes(const uint16_t* row, uint32_t head_dim, int32_t exponent) {
  const auto* v = reinterpret_cast<const HVX_UVector*>(row);
  const HVX_Vector first = to_integers(head_dim == 32 ? half_vector(row) : v[0], exponent);
  const HVX_Vector second = head_dim == 128 ? to_integers(v[1], exponent) : Q6_V_vzero();
  return {Q6_V_vxor_VV(Q6_Vb_vpacko_VhVh(second, first), Q6_V_vsplat_R(static_cast<int32_t>(0x80808080u))),
          Q6_Vb_vpacke_VhVh(second, first)};
}

// Words [i][lane] to [lane][i] of 32 vectors: five times every vector is interleaved with the one 16 further on. Two or
// three times at once for 8 vectors (4), which stay in registers.
template <int kVectors>
inline __attribute__((always_inline)) void interleave(const HVX_Vector* from, HVX_Vector* to) {
  constexpr int kStep = 32 / kVectors;
#pragma clang loop unroll_count(2)
  for (int i = 0; i < kStep; ++i) {
    HVX_Vector v[kVectors], next[kVectors];
#pragma clang loop unroll(full)
    for (int k = 0; k < kVectors; ++k) v[k] = from[i + k * kStep];
#pragma clang loop unroll(full)
    for (int stage = kVectors; stage > 1; stage /= 2) {
#pragma clang loop unroll(full)
      for (int k = 0; k < kVectors / 2; ++k) {
        const HVX_VectorPair pair = Q6_W_vshuff_VVR(v[k + kVectors / 2], v[k], -4);
        next[2 * k] = Q6_V_lo_W(pair), next[2 * k + 1] = Q6_V_hi_W(pair);
      }
#pragma clang loop unroll(full)
      for (int k = 0; k < kVectors; ++k) v[k] = next[k];
    }
#pragma clang loop unroll(full)
    for (int k = 0; k < kVectors; ++k) to[i * kVectors + k] = v[k];
  }
}
HVX_Vector* transpose(HVX_Vector* from, HVX_Vector* to) {
  interleave<8>(from, to);
  interleave<4>(to, from);
  return from;
}

HVX_Vector* block_of(uint8_t* tile, uint32_t block) {
  return reinterpret_cast<HVX_Vector*>(tile) + 1 + block / 2 * (2 * kBlockVectors + 1) + block % 2 * kBlockVectors;
}
void put_scales(uint8_t* tile, uint32_t block, int32_t scale) {
  auto* pair = reinterpret_cast<HVX_Vector*>(tile) + 1 + block / 2 * (2 * kBlockVectors + 1) + 2 * kBlockVectors;
  auto* words = reinterpret_cast<uint32_t*>(pair) + block % 2 * 16;
  for (uint32_t i = 0; i < 16; ++i) words[i] = static_cast<uint32_t>(scale) * 0x10001u;
}

}  // namespace

int32_t largest_exponent(const uint16_t* elements, uint32_t count, uint32_t head_dim) {
  const auto* v = reinterpret_cast<const HVX_UVector*>(elements);
  HVX_Vector most = Q6_V_vzero();
  for (uint32_t i = 0; i < count * head_dim / 64; ++i)
    most = Q6_Vh_vmax_VhVh(most, Q6_V_vand_VV(v[i], Q6_V_vsplat_R(0x7fff7fff)));
  if (count * head_dim % 64 != 0) {  // the last of an odd number of rows of 32
    const HVX_Vector rest = half_vector(elements + count * head_dim - 32);
    most = Q6_Vh_vmax_VhVh(most, Q6_V_vand_QV(Q6_Q_vsetq_R(64), Q6_V_vand_VV(rest, Q6_V_vsplat_R(0x7fff7fff))));
  }
  for (int32_t step = 64; step >= 2; step /= 2) most = Q6_Vh_vmax_VhVh(most, Q6_V_vror_VR(most, step));
  const int32_t field = (Q6_R_vextract_VR(most, 0) & 0x7fff) >> 10;
  return field > 0 ? field : 1;
}

void pack_keys(const uint16_t* keys, uint32_t count, uint32_t head_dim, int32_t exponent, uint8_t* work,
               uint8_t* tile) {
  auto* high = reinterpret_cast<HVX_Vector*>(work);
  auto* low = high + kKeys;
  auto* other = low + kKeys;  // 32 vectors to move to and from
  for (uint32_t n = 0; n < kKeys; ++n) {
    // An absent key's bytes do not matter: nobody reads its score.
    const Bytes bytes = row_bytes(keys + (n < count ? n : 0) * head_dim, head_dim, exponent);
    high[n] = bytes.high, low[n] = bytes.low;
  }
  *reinterpret_cast<HVX_Vector*>(tile) = Q6_V_vsplat_R(exponent - 28);
  for (uint32_t plane = 0; plane < 2; ++plane) {
    const HVX_Vector* words = transpose(plane == 0 ? high : low, other);
    for (uint32_t w = 0; w < head_dim / 4; ++w) block_of(tile, w / 8)[8 * plane + w % 8] = words[w];
  }
  for (uint32_t block = 0; block < head_dim / 32; ++block) put_scales(tile, block, kFullScale);
}

void pack_values(const uint16_t* values, uint32_t count, uint32_t head_dim, uint32_t block, uint32_t inputs,
                 int32_t exponent, int32_t top, uint8_t* tiles) {
  // Scales reach 2^-13 of the largest.
  if (top - exponent > 13) exponent = top - 13;
  const uint32_t bytes = tile_bytes(Format::f16, inputs), tile_count = head_dim / 32;
  for (uint32_t g = 0; g < kKeys / 4; ++g) {
    Bytes row[4];
    for (uint32_t j = 0; j < 4; ++j) {
      const uint32_t key = 4 * g + j;
      if (key < count)
        row[j] = row_bytes(values + key * head_dim, head_dim, exponent);
      else
        row[j].high = Q6_V_vsplat_R(static_cast<int32_t>(0x80808080u)), row[j].low = Q6_V_vzero();
    }
    // The bytes of four keys side by side: pairs of bytes, then pairs of pairs.
    for (uint32_t plane = 0; plane < 2; ++plane) {
      const auto of = [&](uint32_t j) { return plane == 0 ? row[j].high : row[j].low; };
      const HVX_VectorPair first = Q6_W_vshuff_VVR(of(1), of(0), -1), second = Q6_W_vshuff_VVR(of(3), of(2), -1);
      const HVX_VectorPair lower = Q6_W_vshuff_VVR(Q6_V_lo_W(second), Q6_V_lo_W(first), -2);
      const HVX_VectorPair upper = Q6_W_vshuff_VVR(Q6_V_hi_W(second), Q6_V_hi_W(first), -2);
      const uint32_t at = 8 * plane + g;
      block_of(tiles, block)[at] = Q6_V_lo_W(lower);
      if (tile_count < 2) continue;
      block_of(tiles + bytes, block)[at] = Q6_V_hi_W(lower);
      if (tile_count < 4) continue;
      block_of(tiles + 2 * bytes, block)[at] = Q6_V_lo_W(upper);
      block_of(tiles + 3 * bytes, block)[at] = Q6_V_hi_W(upper);
    }
  }
  for (uint32_t t = 0; t < tile_count; ++t) {
    put_scales(tiles + t * bytes, block, kFullScale >> (top - exponent));
    *reinterpret_cast<HVX_Vector*>(tiles + t * bytes) = Q6_V_vsplat_R(top - 28);
  }
}

namespace {

// A row of 32, 64 or 128 elements; zeros where it is shorter.
struct Row {
  HVX_Vector first, second;
};
template <uint32_t kDim>
inline __attribute__((always_inline)) Row row_of(const uint16_t* row) {
  const auto* v = reinterpret_cast<const HVX_UVector*>(row);
  return {kDim == 32 ? Q6_V_vand_QV(Q6_Q_vsetq_R(64), half_vector(row)) : v[0], kDim == 128 ? v[1] : Q6_V_vzero()};
}
template <uint32_t kDim>
inline __attribute__((always_inline)) HVX_Vector larger_of(HVX_Vector most, const Row& row) {
  const HVX_Vector magnitude = Q6_V_vsplat_R(0x7fff7fff);
  most = Q6_Vh_vmax_VhVh(most, Q6_V_vand_VV(row.first, magnitude));
  return kDim == 128 ? Q6_Vh_vmax_VhVh(most, Q6_V_vand_VV(row.second, magnitude)) : most;
}
bool is_large(HVX_Vector most) {
  for (int32_t step = 64; step >= 2; step /= 2) most = Q6_Vh_vmax_VhVh(most, Q6_V_vror_VR(most, step));
  return (static_cast<uint32_t>(Q6_R_vextract_VR(most, 0)) & 0x7fff) >= kUnitLargest;
}

// Rows of keys that are there: 32 of them, or those from `first` to `last`.
template <uint32_t kDim>
struct WholeTile {
  const uint16_t* rows;
  Row operator()(uint32_t n) const { return row_of<kDim>(rows + n * kDim); }
};
template <uint32_t kDim>
struct PartOfTile {
  const uint16_t* rows;
  uint32_t first, last;
  bool checked;  // without those that are large
  Row operator()(uint32_t n) const {
    const Row none = {Q6_V_vzero(), Q6_V_vzero()};
    if (n < first || n >= last) return none;
    const Row row = row_of<kDim>(rows + n * kDim);
    return checked && is_large(larger_of<kDim>(Q6_V_vzero(), row)) ? none : row;
  }
};

// True: a row is large.
template <uint32_t kDim, class Rows>
bool put_keys(const Rows& rows, HVX_Vector* work, HVX_Vector* to) {
  HVX_Vector *const second = work + kKeys, most = Q6_V_vzero();
  for (uint32_t n = 0; n < kKeys; ++n) {
    const Row row = rows(n);
    most = larger_of<kDim>(most, row);
    work[n] = row.first;
    if (kDim == 128) second[n] = row.second;
  }
  for (uint32_t from = 0; from < kDim; from += 64) {
    const HVX_Vector* words = transpose(from == 0 ? work : second, second + kKeys);
    // Two words have four inputs.
    for (uint32_t w = 0; w < (kDim < 64 ? kDim : 64) / 2; w += 2, to += 2) {
      to[0] = Q6_Vh_vshuffe_VhVh(words[w + 1], words[w]);
      to[1] = Q6_Vh_vshuffo_VhVh(words[w + 1], words[w]);
    }
  }
  return is_large(most);
}
template <uint32_t kDim, class Rows>
bool put_values(const Rows& rows, uint32_t stride, uint8_t* tiles) {
  HVX_Vector most = Q6_V_vzero();
  for (uint32_t v = 0; v < kKeys / 2; ++v) {
    const Row even = rows(2 * v), odd = rows(2 * v + 1);
    most = larger_of<kDim>(larger_of<kDim>(most, even), odd);
    const auto put = [&](uint32_t tile, HVX_Vector vector) __attribute__((always_inline)) {
      reinterpret_cast<HVX_Vector*>(tiles + tile * stride)[v] = vector;
    };
    const HVX_VectorPair lower = Q6_W_vshuff_VVR(odd.first, even.first, -2);
    put(0, Q6_V_lo_W(lower));
    if (kDim > 32) put(1, Q6_V_hi_W(lower));
    if (kDim < 128) continue;
    const HVX_VectorPair upper = Q6_W_vshuff_VVR(odd.second, even.second, -2);
    put(2, Q6_V_lo_W(upper)), put(3, Q6_V_hi_W(upper));
  }
  return is_large(most);
}
// put(rows): of a whole tile at once, otherwise row by row, and once more without large ones.
template <uint32_t kDim, class Put>
bool put_tile(const uint16_t* rows, uint32_t first, uint32_t last, const Put& put) {
  const bool large =
      first == 0 && last == kKeys ? put(WholeTile<kDim>{rows}) : put(PartOfTile<kDim>{rows, first, last, false});
  if (large) put(PartOfTile<kDim>{rows, first, last, true});
  return large;
}
template <uint32_t kDim>
bool keys_of(const uint16_t* keys, uint32_t first, uint32_t last, uint8_t* work, uint8_t* tiles) {
  return put_tile<kDim>(keys, first, last, [&](const auto& rows) {
    return put_keys<kDim>(rows, reinterpret_cast<HVX_Vector*>(work), reinterpret_cast<HVX_Vector*>(tiles));
  });
}
template <uint32_t kDim>
bool values_of(const uint16_t* values, uint32_t first, uint32_t last, uint32_t stride, uint8_t* tiles) {
  return put_tile<kDim>(values, first, last, [&](const auto& rows) { return put_values<kDim>(rows, stride, tiles); });
}

}  // namespace

bool unit_keys(const uint16_t* keys, uint32_t first, uint32_t last, uint32_t head_dim, uint8_t* work, uint8_t* tiles) {
  const auto put = head_dim == 32 ? keys_of<32> : head_dim == 64 ? keys_of<64> : keys_of<128>;
  return put(keys, first, last, work, tiles);
}
bool unit_values(const uint16_t* values, uint32_t first, uint32_t last, uint32_t head_dim, uint32_t stride,
                 uint8_t* tiles) {
  const auto put = head_dim == 32 ? values_of<32> : head_dim == 64 ? values_of<64> : values_of<128>;
  return put(values, first, last, stride, tiles);
}

}  // namespace dsp
