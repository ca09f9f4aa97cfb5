// Activations on the vector unit, to the bits of plain::quantize_row(), which is called for numbers that are not
// ordinary.
//
// Two passes over a row's blocks of 32 inputs, each a vector. The first takes their largest magnitudes, so that the
// row's largest scale is known. The second, 32 blocks at a time, computes all that depends on a block alone (its scale,
// its inverse), a lane per block, and rounds its inputs, a lane per input.
#include "devices/hexagon/dsp/activations.h"
#include "devices/hexagon/dsp/fixed_vectors.h"

namespace dsp {
namespace {

constexpr uint32_t kBlocks = kLanes;  // handled together
constexpr int32_t k127 = 0xfe0000;    // the mantissa of 127
constexpr int32_t kLowestField = 30;

// Lane b: `op` over the 32 lanes of get(b). Two vectors become one of half as many parts each, and so on; of few blocks
// the lanes behind them repeat.
template <class Get, class Op>
inline __attribute__((always_inline)) HVX_Vector by_block(uint32_t count, const Get& get, const Op& op) {
  HVX_Vector part[kBlocks];
  uint32_t parts = 1;
  while (parts < count) parts *= 2;
  for (uint32_t i = 0; i < parts; ++i) part[i] = i < count ? get(i) : splat(0);
  for (uint32_t half = parts / 2; half > 0; half /= 2)
    for (uint32_t i = 0; i < half; ++i) {
      const HVX_VectorPair pair = Q6_W_vshuff_VVR(part[i + half], part[i], -4);
      part[i] = op(Q6_V_lo_W(pair), Q6_V_hi_W(pair));
    }
  HVX_Vector all = part[0];
  for (uint32_t step = 64; step >= 4 * parts; step /= 2) all = op(all, Q6_V_vror_VR(all, static_cast<int32_t>(step)));
  return all;
}

HVX_Vector low_product(HVX_Vector a, HVX_Vector b) { return Q6_Vw_vmpyieacc_VwVwVuh(Q6_Vw_vmpyieo_VhVh(a, b), a, b); }
// A quotient that is off by one at most, made exact; `rest` is the rest of the dividend.
HVX_Vector exact(HVX_Vector quotient, HVX_Vector rest, HVX_Vector divisor) {
  const HVX_Vector less = Q6_Vw_vasr_VwR(rest, 31);  // -1 where the quotient is too large
  const HVX_VectorPred more = Q6_Q_vcmp_gt_VwVw(divisor, rest);
  return Q6_Vw_vadd_VwVw(quotient, Q6_V_vmux_QVV(more, less, splat(1)));
}

// Scales from a block's largest magnitude, a lane per block.
struct Scales {
  HVX_Vector exponent, mantissa;  // of the scale, as in activations.h
  HVX_Vector inverse;             // 127 / largest = inverse / 2^23 * 2^(...), at most 2^24
  HVX_Vector right;               // of an input's product with it, less the input's field
};
HVX_Vector scale_exponent(Format format, HVX_Vector bits) {
  const HVX_Vector field = Q6_Vuw_vlsr_VuwR(bits, 23), digits = Q6_V_vand_VV(bits, splat(0x7fffff));
  if (format == Format::f16)  // one more where it is no power of two
    return Q6_Vw_vsub_VwVw(Q6_Vw_vadd_VwVw(field, Q6_Vw_vmin_VwVw(digits, splat(1))), splat(140));
  const HVX_Vector mantissa = Q6_V_vor_VV(digits, splat(0x800000));
  const HVX_VectorPred small = Q6_Q_vcmp_gt_VwVw(splat(k127), mantissa);
  // The field of max / 127, but for a mantissa that is rounded up to a power of two.
  return Q6_Vw_vsub_VwVw(field, Q6_V_vmux_QVV(small, splat(133), splat(132)));
}
Scales scales_of(Format format, HVX_Vector bits) {
  const HVX_Vector field = Q6_Vuw_vlsr_VuwR(bits, 23), one = splat(1);
  Scales s;
  s.exponent = scale_exponent(format, bits);
  if (format == Format::f16) {
    s.mantissa = splat(1 << 14), s.inverse = splat(0);
    s.right = Q6_Vw_vadd_VwVw(s.exponent, splat(140 + 9));
    return s;
  }
  const HVX_Vector mantissa = Q6_V_vor_VV(Q6_V_vand_VV(bits, splat(0x7fffff)), splat(0x800000));
  // scale = (mantissa << 8 or 7) / 127, so that the quotient has 25 digits.
  const HVX_VectorPred small = Q6_Q_vcmp_gt_VwVw(splat(k127), mantissa);
  const HVX_Vector dividend = Q6_Vw_vasl_VwVw(mantissa, Q6_V_vmux_QVV(small, splat(7), splat(6)));  // halved
  HVX_Vector q = multiply_q31(dividend, splat(33818641));                                           // 2^32 / 127
  const HVX_Vector rest = Q6_Vw_vadd_VwVw(Q6_Vw_vsub_VwVw(Q6_Vw_vasl_VwR(dividend, 1), Q6_Vw_vasl_VwR(q, 7)), q);
  q = exact(q, rest, splat(127));
  const HVX_Vector scale = Q6_Vuw_vlsr_VuwR(Q6_Vw_vadd_VwVw(q, one), 1);  // 2^23 to 2^24
  const HVX_Vector rounded = Q6_Vuw_vlsr_VuwR(Q6_Vw_vadd_VwVw(scale, splat(256)), 9);
  const HVX_Vector carry = Q6_Vuw_vlsr_VuwR(rounded, 15);
  s.mantissa = Q6_Vw_vlsr_VwVw(rounded, carry);
  s.exponent = Q6_Vw_vadd_VwVw(s.exponent, carry);
  // inverse = (127 << 25 or 24) / mantissa; the dividend's low word is 0.
  const HVX_VectorPred large = Q6_Q_vcmp_gt_VwVw(mantissa, splat(k127));
  const HVX_Vector ratio = multiply_q31(reciprocal_q30(Q6_Vw_vasl_VwR(mantissa, 7)), splat(0x7f000000));
  q = Q6_Vw_vlsr_VwVw(ratio, Q6_V_vmux_QVV(large, splat(4), splat(5)));
  q = exact(q, Q6_Vw_vsub_VwVw(splat(0), low_product(q, mantissa)), mantissa);
  s.inverse = Q6_Vuw_vlsr_VuwR(Q6_Vw_vadd_VwVw(q, one), 1);
  s.right = Q6_Vw_vadd_VwVw(field, Q6_V_vmux_QVV(large, splat(23), splat(22)));
  return s;
}

inline __attribute__((always_inline)) HVX_Vector tie(HVX_Vector v, HVX_Vector right) {
  return Q6_V_vand_VV(Q6_Vw_vlsr_VwVw(v, right), splat(1));
}
// value / 2^right, right from 1 to 31, nearest, ties to even; value + 2^(right - 1) has 31 bits.
inline __attribute__((always_inline)) HVX_Vector rounded(HVX_Vector value, HVX_Vector right) {
  const HVX_Vector half = Q6_Vw_vasl_VwVw(splat(1), Q6_Vw_vsub_VwVw(right, splat(1)));
  const HVX_Vector up = Q6_Vw_vadd_VwVw(Q6_Vw_vsub_VwVw(half, splat(1)), tie(value, right));
  return Q6_Vw_vlsr_VwVw(Q6_Vw_vadd_VwVw(value, up), right);
}

// A block's inputs as integers: x * inverse rounded to float, then to an integer.
inline __attribute__((always_inline)) HVX_Vector quantize_int8(HVX_Vector x, int32_t inverse, int32_t right) {
  const HVX_Vector magnitude = magnitude_of(x), field = Q6_Vuw_vlsr_VuwR(magnitude, 23), one = splat(1);
  const HVX_Vector mantissa = Q6_Vuw_vlsr_VuwR(Q6_V_vor_VV(Q6_Vw_vasl_VwR(magnitude, 8), splat(INT32_MIN)), 1);
  const HVX_Vector factor = splat(inverse << 6);
  const HVX_VectorPair whole = Q6_W_vmpyoacc_WVwVh(Q6_W_vmpye_VwVuh(mantissa, factor), mantissa, factor);
  const HVX_Vector high = Q6_V_hi_W(whole);
  const HVX_Vector rest = Q6_Vw_vmin_VwVw(Q6_Vuw_vlsr_VuwR(Q6_V_lo_W(whole), 1), one);
  const HVX_Vector top = Q6_Vuw_vlsr_VuwR(high, 28);
  const HVX_Vector normal = Q6_Vw_vasl_VwVw(Q6_V_vor_VV(high, rest), Q6_Vw_vsub_VwVw(one, top));  // one at bit 28
  const HVX_Vector odd = Q6_V_vand_VV(Q6_Vuw_vlsr_VuwR(normal, 5), one);
  const HVX_Vector near = Q6_V_vand_VV(Q6_Vw_vadd_VwVw(normal, Q6_Vw_vadd_VwVw(odd, splat(15))), splat(~31));
  const HVX_Vector behind = Q6_Vw_vsub_VwVw(Q6_Vw_vsub_VwVw(splat(right), field), top);
  return with_sign(rounded(near, Q6_Vw_vmin_VwVw(behind, splat(31))), Q6_Vw_vasr_VwR(x, 31));
}
inline __attribute__((always_inline)) HVX_Vector quantize_int16(HVX_Vector x, int32_t right) {
  const HVX_Vector magnitude = magnitude_of(x), field = Q6_Vuw_vlsr_VuwR(magnitude, 23);
  const HVX_Vector mantissa = Q6_V_vor_VV(Q6_V_vand_VV(magnitude, splat(0x7fffff)), splat(0x800000));
  const HVX_Vector behind = Q6_Vw_vsub_VwVw(splat(right), field);
  return with_sign(rounded(mantissa, Q6_Vw_vmin_VwVw(behind, splat(30))), Q6_Vw_vasr_VwR(x, 31));
}

template <class To, class From>
inline void put(To* to, uint32_t at, From value) {
  const auto narrow = static_cast<To>(value);
  __builtin_memcpy(reinterpret_cast<uint8_t*>(to) + at * sizeof(To), &narrow, sizeof(To));
}
template <int R>
inline void put_rest(BlockQ4<R>& block, uint32_t r, int32_t sum, int32_t mantissa, int32_t shift) {
  auto* pair = reinterpret_cast<uint16_t*>(&block.pair[r / 2]);
  put(pair, r % 2, -8 * sum), put(pair, 2 + r % 2, mantissa);
  put(reinterpret_cast<int32_t*>(block.shift), r, shift);
}
template <class Block>
inline void put_rest(Block& block, uint32_t r, int32_t sum, int32_t mantissa, int32_t shift) {
  put(reinterpret_cast<int32_t*>(block.correction), r, -128 * sum);
  put(reinterpret_cast<uint16_t*>(&block.mantissa), r, mantissa);
  put(reinterpret_cast<int32_t*>(block.shift), r, shift);
}

// The bytes of four blocks, of 8 bytes each, to where they belong: plane 0 of a block, or the low bytes of 16 bits.
template <int R>
Words (*plane_of(BlockQ4<R>& block, uint32_t))[R] {
  return block.q;
}
template <int R>
Words (*plane_of(BlockQ8<R>& block, uint32_t))[R] {
  return block.q;
}
Words (*plane_of(BlockF16& block, uint32_t plane))[4] { return plane == 0 ? block.high : block.low; }

template <class Block>
inline __attribute__((always_inline)) void put_bytes(HVX_Vector bytes, Block* blocks, uint32_t count, uint32_t r,
                                                     uint32_t plane) {
  alignas(128) int64_t words[16];
  *reinterpret_cast<HVX_Vector*>(words) = bytes;
  for (uint32_t b = 0; b < count && b < 4; ++b)
    for (uint32_t g = 0; g < 4; ++g) plane_of(blocks[b], plane)[g][r].both = words[4 * b + g];
}

HVX_Vector bytes_of(const HVX_Vector* q, HVX_Vector add, bool high) {
  const auto half = [&](uint32_t i) {
    return Q6_Vh_vpacke_VwVw(Q6_Vw_vadd_VwVw(q[i + 1], add), Q6_Vw_vadd_VwVw(q[i], add));
  };
  return high ? Q6_Vb_vpacko_VhVh(half(2), half(0)) : Q6_Vb_vpacke_VhVh(half(2), half(0));
}

// False where the row has a number that is not finite, or a block without numbers of 2^-97 or more but not of zeros.
template <Format format, class Block>
bool quantize_row(const float* row, uint32_t inputs, uint32_t r, uint32_t* work, RowGroup& head, Block* blocks) {
  const uint32_t real = inputs / kBlock, padded = blocks_of(inputs);
  const auto* x = reinterpret_cast<const HVX_Vector*>(row);
  const HVX_Vector lanes = lane_numbers();
  const auto largest_of = [&](uint32_t first) -> HVX_Vector& { return *reinterpret_cast<HVX_Vector*>(work + first); };
  HVX_Vector top = splat(-1000), most = splat(0), least = splat(255);
  for (uint32_t first = 0; first < padded; first += kBlocks) {
    const uint32_t count = real - first < kBlocks ? real - first : kBlocks;
    HVX_Vector largest = by_block(
        count, [&](uint32_t b) { return magnitude_of(x[first + b]); },
        [](HVX_Vector a, HVX_Vector b) { return Q6_Vw_vmax_VwVw(a, b); });
    largest = Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VwVw(splat(static_cast<int32_t>(count)), lanes), largest, splat(0));
    largest_of(first) = largest;
    const HVX_VectorPred nothing = Q6_Q_vcmp_eq_VwVw(largest, splat(0));
    const HVX_Vector field = Q6_Vuw_vlsr_VuwR(largest, 23);
    most = Q6_Vw_vmax_VwVw(most, field);
    least = Q6_Vw_vmin_VwVw(least, Q6_V_vmux_QVV(nothing, splat(255), field));
    const HVX_Vector exponent =
        format == Format::f16 ? scale_exponent(format, largest) : scales_of(format, largest).exponent;
    top = Q6_Vw_vmax_VwVw(top, Q6_V_vmux_QVV(nothing, splat(-1000), exponent));
  }
  if (reduce_max(most) == 255 || reduce_min(least) < kLowestField) return false;

  const int32_t highest = reduce_max(top), base = base_shift(padded);
  HVX_Vector floored = splat(0);
  for (uint32_t first = 0; first < padded; first += kBlocks) {
    const uint32_t count = padded - first < kBlocks ? padded - first : kBlocks;
    const HVX_Vector largest = largest_of(first), zero = splat(0);
    const Scales s = scales_of(format, largest);
    HVX_Vector shift = Q6_Vw_vsub_VwVw(splat(base + highest), s.exponent);
    // A block of nothing, or too small beside the others, is dropped: its inputs are shifted to nothing.
    const HVX_VectorPred nothing = Q6_Q_vcmp_eq_VwVw(largest, zero), small = Q6_Q_vcmp_gt_VwVw(shift, splat(31));
    const auto kept = [&](HVX_Vector v, HVX_Vector dropped) {
      return Q6_V_vmux_QVV(nothing, dropped, Q6_V_vmux_QVV(small, dropped, v));
    };
    shift = kept(shift, zero);
    const HVX_Vector floors = format == Format::q4 ? Q6_Vw_vmin_VwVw(shift, splat(1)) : splat(1);
    floored = Q6_Vw_vadd_VwVw(floored, kept(floors, zero));
    alignas(128) int32_t inverse[kBlocks], right[kBlocks], sums[kBlocks], mantissas[kBlocks], shifts[kBlocks];
    const auto keep = [](int32_t* to, HVX_Vector v) { *reinterpret_cast<HVX_Vector*>(to) = v; };
    keep(inverse, s.inverse), keep(right, kept(s.right, splat(1000)));
    keep(mantissas, kept(s.mantissa, zero)), keep(shifts, shift);

    HVX_Vector q[kBlocks];
    const uint32_t here = real - first < count ? real - first : count;
#pragma clang loop unroll_count(4)  // one's latencies hide behind the others
    for (uint32_t b = 0; b < here; ++b)
      q[b] = format == Format::f16 ? quantize_int16(x[first + b], right[b])
                                   : quantize_int8(x[first + b], inverse[b], right[b]);
    for (uint32_t b = here; b < (count + 3) / 4 * 4; ++b) q[b] = zero;
    for (uint32_t b = 0; b < count; b += 4) {
      if (format == Format::f16) put_bytes(bytes_of(q + b, splat(128), true), blocks + first + b, count - b, r, 0);
      put_bytes(bytes_of(q + b, zero, false), blocks + first + b, count - b, r, format == Format::f16 ? 1 : 0);
    }
    keep(sums, by_block(
                   count, [&](uint32_t b) { return q[b]; },
                   [](HVX_Vector a, HVX_Vector b) { return Q6_Vw_vadd_VwVw(a, b); }));
    for (uint32_t b = 0; b < count; ++b) put_rest(blocks[first + b], r, sums[b], mantissas[b], shifts[b]);
  }
  head.bias[r] = reduce_sum(floored) / 2;
  head.exponent[r] = base + highest + unit_exponent(format);
  return true;
}

template <Format format, class Block>
void fill(const float* x, uint32_t stride, uint32_t rows, uint32_t capacity, uint32_t inputs, uint32_t* work,
          uint8_t* group) {
  auto& head = *reinterpret_cast<RowGroup*>(group);
  auto* blocks = reinterpret_cast<Block*>(group + sizeof(RowGroup));
  for (uint32_t r = 0; r < rows; ++r) {
    const float* row = x + static_cast<uint64_t>(r) * stride;
    if (!quantize_row<format>(row, inputs, r, work, head, blocks))
      plain::quantize_row(format, row, inputs, r, capacity, work, group);
  }
  // Absent rows are multiplied as they are: whatever there is gives sums that nobody stores.
  for (uint32_t r = rows; r < capacity; ++r) head.bias[r] = 0, head.exponent[r] = 0;
}

}  // namespace

void quantize_group(Format format, const float* x, uint32_t stride, uint32_t rows, uint32_t inputs, uint32_t first,
                    uint32_t* work, uint8_t* group) {
  const uint32_t capacity = group_rows(format, rows, first);
  const uint32_t present = rows - first < capacity ? rows - first : capacity;
  x += static_cast<uint64_t>(first) * stride;
  if (most_rows(Format::q8) == 8 && format == Format::q8 && capacity == 8)
    fill<Format::q8, BlockQ8<8>>(x, stride, present, capacity, inputs, work, group);
  else if (format == Format::q8)
    fill<Format::q8, BlockQ8<4>>(x, stride, present, capacity, inputs, work, group);
  else if (format == Format::f16)
    fill<Format::f16, BlockF16>(x, stride, present, capacity, inputs, work, group);
  else if (capacity == 8)
    fill<Format::q4, BlockQ4<8>>(x, stride, present, capacity, inputs, work, group);
  else
    fill<Format::q4, BlockQ4<4>>(x, stride, present, capacity, inputs, work, group);
}

}  // namespace dsp
