// Rows and weights of the matrix unit on the vector unit, to the bits of their definitions in unit_tiles.cc.
#include "devices/hexagon/dsp/fixed_vectors.h"
#include "devices/hexagon/dsp/unit_tiles.h"

namespace dsp {
namespace {

inline __attribute__((always_inline)) HVX_Vector splat_half(uint32_t v) {
  return Q6_V_vsplat_R(static_cast<int32_t>(v << 16 | v));
}

// ---- Rows

struct RowScale {
  int32_t exponent;           // of the row
  int32_t least = INT32_MAX;  // magnitudes below it are zero
  int32_t add = 0;            // to a magnitude's bits
};
RowScale scale_of_row(const float* x, uint32_t blocks) {
  if (x == nullptr) return {.exponent = 0};
  HVX_Vector most = splat(0);
  for (uint32_t b = 0; b < blocks; ++b)
    most = Q6_Vw_vmax_VwVw(most, magnitude_of(reinterpret_cast<const HVX_Vector*>(x)[b]));
  const int32_t field = reduce_max(most) >> 23;
  if (field == 255) return {.exponent = kUnitNotFinite};
  if (field < 8) return {.exponent = 0};
  return {field - 134, (field > 22 ? field - 21 : 1) << 23, (134 - field) * (1 << 23)};
}

// Halves in the low halves of words; the high ones have the sign's copies or what else there is.
inline __attribute__((always_inline)) HVX_Vector halves_of(HVX_Vector bits, const RowScale& row) {
  const HVX_Vector magnitude = magnitude_of(bits), scaled = Q6_Vw_vadd_VwVw(magnitude, splat(row.add));
  const HVX_Vector tie = Q6_V_vand_VV(Q6_Vuw_vlsr_VuwR(scaled, 13), splat(1));
  const HVX_Vector up = Q6_Vw_vadd_VwVw(scaled, Q6_Vw_vadd_VwVw(tie, splat(0xfff)));
  const HVX_Vector half = Q6_Vw_vsub_VwVw(Q6_Vuw_vlsr_VuwR(up, 13), splat(112 << 10));
  const HVX_VectorPred kept = Q6_Q_vcmp_gt_VwVw(magnitude, splat(row.least - 1));
  return Q6_V_vor_VV(Q6_V_vand_QV(kept, half), Q6_V_vand_VV(Q6_Vuw_vlsr_VuwR(bits, 16), splat(0x8000)));
}

// ---- Weights

// Of two blocks' scales, by halfwords.
struct Scales {
  HVX_Vector digits, half;  // 1,024 to 2,048 (0: of zero), times 4 and times 2
  HVX_Vector field;         // 45 - u - zeros in an exponent's place
  HVX_Vector sign;          // in the highest bit
};
inline __attribute__((always_inline)) HVX_Vector digits_of(HVX_Vector magnitude, HVX_Vector zeros) {
  const HVX_Vector up = Q6_Vuh_vlsr_VuhR(Q6_Vh_vasl_VhVh(magnitude, zeros), 1);
  return Q6_Vuh_vlsr_VuhR(Q6_Vh_vadd_VhVh(up, splat_half(8)), 4);
}
inline __attribute__((always_inline)) HVX_Vector absolute(HVX_Vector v) {  // of -2^15 it is 2^15 without a sign
  return Q6_Vh_vmax_VhVh(v, Q6_Vh_vsub_VhVh(Q6_V_vzero(), v));
}
inline __attribute__((always_inline)) Scales scales_of(HVX_Vector scales, uint32_t shift) {
  const HVX_Vector magnitude = absolute(scales), zeros = Q6_Vuh_vcl0_Vuh(magnitude);
  const HVX_Vector digits = digits_of(magnitude, zeros), sign = Q6_V_vand_VV(scales, splat_half(0x8000));
  const HVX_Vector field = Q6_Vh_vsub_VhVh(splat_half((45 - shift) << 10), Q6_Vh_vasl_VhR(zeros, 10));
  return {Q6_Vh_vasl_VhR(digits, 2), Q6_Vh_vasl_VhR(digits, 1), field, sign};
}
// The scales of one of two blocks, each for the two inputs of a word.
inline __attribute__((always_inline)) Scales of_block(const Scales& both, bool second) {
  const auto twice = [&](HVX_Vector v) __attribute__((always_inline)) {
    const HVX_VectorPair pair = Q6_W_vshuff_VVR(v, v, -2);
    return second ? Q6_V_hi_W(pair) : Q6_V_lo_W(pair);
  };
  return {twice(both.digits), twice(both.half), twice(both.field), twice(both.sign)};
}

// Products of 64 scales and as many q, kTogether vectors of them: step by step for all, so that one's latencies hide
// behind the others' work.
constexpr int kTogether = 4;
struct Quants {
  HVX_Vector digits[kTogether];  // times 8
  HVX_Vector zeros[kTogether];   // in an exponent's place
  HVX_Vector sign[kTogether];    // in the highest bit
};
#define DSP_TOGETHER _Pragma("clang loop unroll(full)") for (int i = 0; i < kTogether; ++i)

// small: products may lie below 2^-14. Where they do not, the signs are among zeros and field.
template <bool small>
inline __attribute__((always_inline)) void put_weights(const Scales& s, const Quants& q, HVX_Vector* to) {
  HVX_Vector once[kTogether], twice[kTogether], bits[kTogether];
  DSP_TOGETHER once[i] = Q6_Vh_vmpy_VhVh_s1_rnd_sat(q.digits[i], s.digits);
  DSP_TOGETHER twice[i] = Q6_Vh_vmpy_VhVh_s1_rnd_sat(q.digits[i], s.half);
  DSP_TOGETHER bits[i] = Q6_Vh_vmin_VhVh(Q6_Vh_vsub_VhVh(once[i], splat_half(1024)), twice[i]);
  DSP_TOGETHER bits[i] = Q6_Vh_vadd_VhVh(Q6_Vh_vsub_VhVh(s.field, q.zeros[i]), bits[i]);
  DSP_TOGETHER {
    HVX_VectorPred kept = Q6_Q_vcmp_gt_VhVh(twice[i], Q6_V_vzero());
    if (small) {
      kept = Q6_Q_and_QQ(kept, Q6_Q_vcmp_gt_VhVh(bits[i], splat_half(1023)));
      bits[i] = Q6_V_vor_VV(bits[i], Q6_V_vxor_VV(s.sign, q.sign[i]));
    }
    bits[i] = Q6_V_vand_QV(kept, bits[i]);
  }
  DSP_TOGETHER to[i] = bits[i];
}
template <bool small>
inline __attribute__((always_inline)) void put_weights(const Scales& s, const HVX_Vector* quants, HVX_Vector* to) {
  HVX_Vector magnitude[kTogether], zeros[kTogether];
  Quants q;
  DSP_TOGETHER q.sign[i] = Q6_V_vand_VV(quants[i], splat_half(0x8000)), magnitude[i] = absolute(quants[i]);
  DSP_TOGETHER zeros[i] = Q6_Vuh_vcl0_Vuh(magnitude[i]);
  DSP_TOGETHER q.digits[i] = Q6_Vh_vasl_VhR(digits_of(magnitude[i], zeros[i]), 3);
  DSP_TOGETHER q.zeros[i] = Q6_Vh_vasl_VhR(zeros[i], 10);
  if (!small) DSP_TOGETHER q.zeros[i] = Q6_V_vor_VV(q.zeros[i], q.sign[i]);
  put_weights<small>(s, q, to);
}

// Q4_0: q is 0, or its magnitude a power of two times 4, 5, 6 or 7 quarters. So four products of a scale are made, and
// each weight takes one of them. A weight's high byte and its low one are chosen apart, for 128 weights at a time, and
// put together at last: the choice takes three predicates for 128 weights instead of 64.
//
// A nibble's code says by its two lowest bits which product, and is added to its high byte: sign and power of two, and
// a bit that says that q is not 0. What the three bits add is taken from the products before.
constexpr uint32_t kFifth = 0x01, kSixth = 0x02, kNotZero = 0x10;
constexpr uint32_t code_of(int32_t q) {
  if (q == 0) return 0;
  uint32_t magnitude = static_cast<uint32_t>(q < 0 ? -q : q), power = 0;
  while (magnitude >> power > 1) ++power;
  const uint32_t quarters = (magnitude << 2) >> power;
  return (q < 0 ? 0x80u : 0u) + (power << 2) + kNotZero + (quarters & 1) * kFifth + (quarters >> 1 & 1) * kSixth;
}
// Halfword i: of a byte whose five low bits are i, the lowest of another nibble among them.
struct CodesOfQ4 {
  uint16_t codes[2 * kLanes];
};
constexpr CodesOfQ4 make_codes() {
  CodesOfQ4 table = {};
  for (uint32_t i = 0; i < kLanes; ++i)
    table.codes[i] = static_cast<uint16_t>(code_of(static_cast<int32_t>(i % 16) - 8));
  return table;
}
alignas(128) constexpr CodesOfQ4 kCodes = make_codes();

// The four products of two blocks' scales, 4, 5, 6 and 7 quarters, as halves without what the codes add.
struct ProductsOfQ4 {
  HVX_Vector products[4], scales;
};
inline __attribute__((always_inline)) ProductsOfQ4 products_of(HVX_Vector scales) {
  const Scales s = scales_of(scales, static_cast<uint32_t>(unit_weight_shift(Format::q4)));
  const HVX_Vector field = Q6_Vh_vsub_VhVh(Q6_V_vor_VV(s.field, s.sign), splat_half((15 << 10) + (kNotZero << 8)));
  ProductsOfQ4 p = {.products = {}, .scales = scales};
#pragma clang loop unroll(full)
  for (uint32_t c = 0; c < 4; ++c) {
    const HVX_Vector digits = splat_half((1024 + 256 * c) * 8);
    const HVX_Vector once = c == 0 ? Q6_Vuh_vlsr_VuhR(s.half, 1) : Q6_Vh_vmpy_VhVh_s1_rnd_sat(digits, s.digits);
    HVX_Vector bits = Q6_Vh_vsub_VhVh(once, splat_half(1024));
    if (c != 0) bits = Q6_Vh_vmin_VhVh(bits, Q6_Vh_vmpy_VhVh_s1_rnd_sat(digits, s.half));
    const uint32_t added = (c & 1) * kFifth + (c >> 1) * kSixth;
    p.products[c] = Q6_Vh_vadd_VhVh(bits, Q6_Vh_vsub_VhVh(field, splat_half(added << 8)));
  }
  return p;
}
// Those of one block: their high bytes and their low ones, four times each.
struct BytesOfQ4 {
  HVX_Vector high[4], low[4];
  HVX_Vector scales;  // as halves, two times each
};
inline __attribute__((always_inline)) BytesOfQ4 of_block(const ProductsOfQ4& both, bool second) {
  const auto twice = [&](HVX_Vector v) __attribute__((always_inline)) {
    const HVX_VectorPair pair = Q6_W_vshuff_VVR(v, v, -2);
    return second ? Q6_V_hi_W(pair) : Q6_V_lo_W(pair);
  };
  BytesOfQ4 p;
#pragma clang loop unroll(full)
  for (uint32_t c = 0; c < 4; ++c) {
    const HVX_Vector halves = twice(both.products[c]);
    p.high[c] = Q6_Vb_vshuffo_VbVb(halves, halves), p.low[c] = Q6_Vb_vshuffe_VbVb(halves, halves);
  }
  p.scales = twice(both.scales);
  return p;
}
// An output without a scale has q = 0. Instructions bound it: 356 for two blocks, four to a packet.
inline __attribute__((always_inline)) void put_block(const HVX_Vector* nibbles, const BytesOfQ4& p, HVX_Vector table,
                                                     HVX_Vector* to) {
  constexpr int kVectors = 8;  // of 128 weights
  // A store reaches eight vectors either way of its address: the compiler shall not take the first one's.
  HVX_Vector* middle = to + kVectors;
  asm("" : "+r"(middle));
  const HVX_VectorPred nothing = Q6_Q_vcmp_eq_VhVh(p.scales, Q6_V_vzero());
  HVX_Vector both[kVectors / 2];
#pragma clang loop unroll(full)
  for (int i = 0; i < kVectors / 2; ++i)
    both[i] = Q6_V_vmux_QVV(nothing, Q6_V_vsplat_R(static_cast<int32_t>(0x88888888u)), nibbles[i]);
#pragma clang loop unroll(full)
  for (int i = 0; i < kVectors; ++i) {
    const HVX_Vector codes =
        Q6_Vb_vlut32_VbVbR_nomatch(i % 2 == 0 ? both[i / 2] : Q6_Vub_vlsr_VubR(both[i / 2], 4), table, 0);
    const auto having = [&](uint32_t bit) __attribute__((always_inline)) {
      return Q6_Q_vand_VR(codes, static_cast<int32_t>(bit * 0x01010101u));
    };
    const HVX_VectorPred fifth = having(kFifth), sixth = having(kSixth), not_zero = having(kNotZero);
    const auto chosen = [&](const HVX_Vector* of) __attribute__((always_inline)) {
      return Q6_V_vmux_QVV(sixth, Q6_V_vmux_QVV(fifth, of[3], of[2]), Q6_V_vmux_QVV(fifth, of[1], of[0]));
    };
    const HVX_Vector high = Q6_Vb_condacc_QVbVb(not_zero, codes, chosen(p.high));
    const HVX_Vector low = Q6_V_vand_QV(not_zero, chosen(p.low));
    middle[2 * i - kVectors] = Q6_Vb_vshuffe_VbVb(high, low);
    middle[2 * i - kVectors + 1] = Q6_Vb_vshuffo_VbVb(high, low);
  }
}
// The last block of an odd number, out of the way of the pairs' loop.
__attribute__((noinline)) void put_last(const HVX_Vector* nibbles, HVX_Vector scales, HVX_Vector table,
                                        HVX_Vector* to) {
  put_block(nibbles, of_block(products_of(scales), false), table, to);
}
void widen_q4(const uint8_t* tile, uint32_t first, uint32_t last, uint8_t* to) {
  constexpr uint32_t kVectors = 4;
  const auto* pair = reinterpret_cast<const HVX_Vector*>(tile) + 1 + first / 2 * (2 * kVectors + 1);
  const HVX_Vector table = *reinterpret_cast<const HVX_Vector*>(kCodes.codes);
  auto* out = reinterpret_cast<HVX_Vector*>(to);
  uint32_t b = first;
  for (; b + 1 < last; b += 2, pair += 2 * kVectors + 1, out += 32) {
    const ProductsOfQ4 both = products_of(pair[2 * kVectors]);
    put_block(pair, of_block(both, false), table, out);
    put_block(pair + kVectors, of_block(both, true), table, out + 16);
  }
  if (b < last) put_last(pair, pair[2 * kVectors], table, out);
}

struct BlockOfQ8 {
  static constexpr bool kSmall = false;
  static constexpr uint32_t kVectors = 8;
  static __attribute__((always_inline)) void widen(const HVX_Vector* block, const Scales& s, HVX_Vector* to) {
    const auto even = [](HVX_Vector v) __attribute__((always_inline)) {
      return Q6_Vh_vsub_VhVh(Q6_V_vand_VV(v, splat_half(0xff)), splat_half(128));
    };
    const auto odd = [](HVX_Vector v) __attribute__((always_inline)) {
      return Q6_Vh_vsub_VhVh(Q6_Vuh_vlsr_VuhR(v, 8), splat_half(128));
    };
    for (uint32_t g = 0; g < kVectors; g += 2, to += kTogether) {
      const HVX_Vector q[kTogether] = {even(block[g]), odd(block[g]), even(block[g + 1]), odd(block[g + 1])};
      put_weights<false>(s, q, to);
    }
  }
};
struct BlockOfF16 {
  static constexpr bool kSmall = true;
  static constexpr uint32_t kVectors = 16;
  static __attribute__((always_inline)) void widen(const HVX_Vector* block, const Scales& s, HVX_Vector* to) {
    for (uint32_t g = 0; g < kVectors / 2; g += 2, to += kTogether) {
      const HVX_Vector flip = Q6_V_vsplat_R(static_cast<int32_t>(0x80808080u));
      const HVX_Vector first = Q6_V_vxor_VV(block[g], flip), second = Q6_V_vxor_VV(block[g + 1], flip);
      const HVX_Vector q[kTogether] = {Q6_Vb_vshuffe_VbVb(first, block[8 + g]), Q6_Vb_vshuffo_VbVb(first, block[8 + g]),
                                       Q6_Vb_vshuffe_VbVb(second, block[9 + g]),
                                       Q6_Vb_vshuffo_VbVb(second, block[9 + g])};
      put_weights<true>(s, q, to);
    }
  }
};

template <class Block>
void widen(Format format, const uint8_t* tile, uint32_t first, uint32_t last, uint8_t* to) {
  const auto* pair = reinterpret_cast<const HVX_Vector*>(tile) + 1 + first / 2 * (2 * Block::kVectors + 1);
  auto* out = reinterpret_cast<HVX_Vector*>(to);
  for (uint32_t b = first; b < last; b += 2, pair += 2 * Block::kVectors + 1) {
    Scales both = scales_of(pair[2 * Block::kVectors], static_cast<uint32_t>(unit_weight_shift(format)));
    if (!Block::kSmall) both.field = Q6_V_vor_VV(both.field, both.sign);
    Block::widen(pair, of_block(both, false), out);
    out += kUnitTileBytes / kVector;
    if (b + 1 == last) break;
    Block::widen(pair + Block::kVectors, of_block(both, true), out);
    out += kUnitTileBytes / kVector;
  }
}

}  // namespace

void unit_rows(const float* even, const float* odd, uint32_t blocks, uint8_t* to, int32_t exponents[2]) {
  const RowScale low = scale_of_row(even, blocks), high = scale_of_row(odd, blocks);
  exponents[0] = low.exponent, exponents[1] = high.exponent;
  const HVX_Vector among = Q6_V_vand_VV(lane_numbers(), splat(3));
  const HVX_VectorPred second = Q6_Q_vcmp_eq_VwVw(among, splat(1)), third = Q6_Q_vcmp_eq_VwVw(among, splat(2));
  const auto halves = [](const float* x, uint32_t b, const RowScale& row) __attribute__((always_inline)) {
    return row.least == INT32_MAX ? splat(0) : halves_of(reinterpret_cast<const HVX_Vector*>(x)[b], row);
  };
  for (uint32_t b = 0; b < blocks; ++b) {
    const HVX_Vector both = Q6_Vh_vshuffe_VhVh(halves(odd, b, high), halves(even, b, low));
    *reinterpret_cast<HVX_Vector*>(to + b * kUnitTileBytes) =
        Q6_V_vmux_QVV(second, Q6_V_vror_VR(both, 4), Q6_V_vmux_QVV(third, Q6_V_vror_VR(both, 124), both));
  }
}

void unit_weights(Format format, const uint8_t* tile, uint32_t first, uint32_t last, uint8_t* to) {
  if (format == Format::q4)
    widen_q4(tile, first, last, to);
  else if (format == Format::q8)
    widen<BlockOfQ8>(format, tile, first, last, to);
  else
    widen<BlockOfF16>(format, tile, first, last, to);
}

}  // namespace dsp
