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

// A block's sixteen vectors, each of two inputs.
//
// Q4_0: q is 0, or its magnitude a power of two times 4, 5, 6 or 7 quarters. So four products of a scale are made, and
// each weight takes one of them by the two lowest bits of its table's word, in either byte. The rest of the word is
// added: sign and power of two, and a bit that says that q is not 0. What the three bits add is taken from the products
// before. An output without a scale has q = 0.
constexpr uint32_t kFifth = 0x0101, kSixth = 0x0202, kNotZero = 0x1004;
constexpr uint32_t word_of(int32_t q) {
  if (q == 0) return 0;
  uint32_t magnitude = static_cast<uint32_t>(q < 0 ? -q : q), power = 0;
  while (magnitude >> power > 1) ++power;
  const uint32_t quarters = (magnitude << 2) >> power;
  return (q < 0 ? 0x8000u : 0u) + (power << 10) + kNotZero + (quarters & 1) * kFifth + (quarters >> 1 & 1) * kSixth;
}
struct WordsOfQ4 {
  uint32_t words[kLanes];
};
constexpr WordsOfQ4 make_words() {
  WordsOfQ4 table = {};
  for (uint32_t i = 0; i < kLanes; ++i) table.words[i] = word_of(static_cast<int32_t>(i % 16) - 8);
  return table;
}
alignas(128) constexpr WordsOfQ4 kWords = make_words();

// The four products of two blocks' scales, as halves without what the words add.
struct ProductsOfQ4 {
  HVX_Vector products[4];  // 4, 5, 6 and 7 quarters
  HVX_Vector scales;
};
inline __attribute__((always_inline)) ProductsOfQ4 products_of(HVX_Vector scales) {
  const Scales s = scales_of(scales, static_cast<uint32_t>(unit_weight_shift(Format::q4)));
  const HVX_Vector field = Q6_Vh_vsub_VhVh(Q6_V_vor_VV(s.field, s.sign), splat_half((15 << 10) + kNotZero));
  ProductsOfQ4 p = {.products = {}, .scales = scales};
#pragma clang loop unroll(full)
  for (uint32_t c = 0; c < 4; ++c) {
    const HVX_Vector digits = splat_half((1024 + 256 * c) * 8);
    const HVX_Vector once = Q6_Vh_vmpy_VhVh_s1_rnd_sat(digits, s.digits);
    const HVX_Vector twice = Q6_Vh_vmpy_VhVh_s1_rnd_sat(digits, s.half);
    const HVX_Vector bits = Q6_Vh_vmin_VhVh(Q6_Vh_vsub_VhVh(once, splat_half(1024)), twice);
    p.products[c] = Q6_Vh_vadd_VhVh(bits, Q6_Vh_vsub_VhVh(field, splat_half((c & 1) * kFifth + (c >> 1) * kSixth)));
  }
  return p;
}
inline __attribute__((always_inline)) ProductsOfQ4 of_block(const ProductsOfQ4& both, bool second) {
  const auto twice = [&](HVX_Vector v) __attribute__((always_inline)) {
    const HVX_VectorPair pair = Q6_W_vshuff_VVR(v, v, -2);
    return second ? Q6_V_hi_W(pair) : Q6_V_lo_W(pair);
  };
  ProductsOfQ4 p;
#pragma clang loop unroll(full)
  for (uint32_t c = 0; c < 4; ++c) p.products[c] = twice(both.products[c]);
  p.scales = twice(both.scales);
  return p;
}
// A block's vectors go through six steps, each step a vector behind the one before: so one's latencies hide behind the
// others' work, and the four predicates suffice. Nibbles are looked up some vectors ahead.
inline __attribute__((always_inline)) void put_block(const HVX_Vector* nibbles, const ProductsOfQ4& p, HVX_Vector table,
                                                     HVX_Vector* to) {
  constexpr int kVectors = 16, kAhead = 4, kSteps = 6;
  const HVX_VectorPred nothing = Q6_Q_vcmp_eq_VhVh(p.scales, Q6_V_vzero());
  const HVX_Vector kept = Q6_V_vmux_QVV(nothing, Q6_V_vzero(), Q6_V_vsplat_R(0x0f0f0f0f));
  const HVX_Vector otherwise = Q6_V_vmux_QVV(nothing, Q6_V_vsplat_R(0x08080808), Q6_V_vzero());
  HVX_Vector words[kVectors], low[kVectors], high[kVectors], chosen[kVectors];
  HVX_VectorPred fifth[kVectors], sixth[kVectors], not_zero[kVectors];
  const auto bits_of_word = [&](int i, uint32_t bits) __attribute__((always_inline)) {
    return Q6_Q_vand_VR(words[i], static_cast<int32_t>(bits << 16 | bits));
  };
#pragma clang loop unroll(full)
  for (int t = -kAhead; t < kVectors + kSteps - 1; ++t) {
    if (const int i = t + kAhead; i % 2 == 0 && i < kVectors) {
      const HVX_Vector both = i % 4 == 0 ? nibbles[i / 4] : Q6_Vub_vlsr_VubR(nibbles[i / 4], 4);
      const HVX_VectorPair pair = Q6_Wh_vlut16_VbVhR(Q6_V_vor_VV(Q6_V_vand_VV(both, kept), otherwise), table, 0);
      words[i] = Q6_V_lo_W(pair), words[i + 1] = Q6_V_hi_W(pair);
    }
    const auto at = [&](int step) __attribute__((always_inline)) { return t - step >= 0 && t - step < kVectors; };
    if (const int i = t - 5; at(5)) to[i] = Q6_Vh_condacc_QVhVh(not_zero[i], words[i], chosen[i]);
    if (const int i = t - 3; at(3)) chosen[i] = Q6_V_vmux_QVV(sixth[i], high[i], low[i]);
    if (const int i = t - 1; at(1)) {
      low[i] = Q6_V_vmux_QVV(fifth[i], p.products[1], p.products[0]);
      high[i] = Q6_V_vmux_QVV(fifth[i], p.products[3], p.products[2]);
    }
    if (const int i = t - 4; at(4)) not_zero[i] = bits_of_word(i, kNotZero);
    if (const int i = t - 2; at(2)) sixth[i] = bits_of_word(i, kSixth);
    if (const int i = t; at(0)) fifth[i] = bits_of_word(i, kFifth);
  }
}
void widen_q4(const uint8_t* tile, uint32_t first, uint32_t last, uint8_t* to) {
  constexpr uint32_t kVectors = 4;
  const auto* pair = reinterpret_cast<const HVX_Vector*>(tile) + 1 + first / 2 * (2 * kVectors + 1);
  const HVX_Vector table = *reinterpret_cast<const HVX_Vector*>(kWords.words);
  auto* out = reinterpret_cast<HVX_Vector*>(to);
  for (uint32_t b = first; b < last; b += 2, pair += 2 * kVectors + 1, out += 32) {
    const ProductsOfQ4 both = products_of(pair[2 * kVectors]);
    put_block(pair, of_block(both, false), table, out);
    if (b + 1 < last) put_block(pair + kVectors, of_block(both, true), table, out + 16);
  }
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
