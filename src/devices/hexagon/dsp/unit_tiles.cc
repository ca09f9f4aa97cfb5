#include "devices/hexagon/dsp/unit_tiles.h"

#include "devices/hexagon/dsp/float_math.h"
#include "devices/hexagon/dsp/hvx.h"

namespace dsp {
namespace plain {
namespace {

// Where input i of a block lies among the tile's.
uint32_t place(uint32_t i) { return (i & ~3u) | (i & 1) << 1 | (i >> 1 & 1); }

// One row, to halfwords 2 j + odd.
int32_t unit_row(const float* x, uint32_t blocks, uint8_t* to, uint32_t odd) {
  uint32_t most = 0;
  for (uint32_t i = 0; x != nullptr && i < blocks * kBlock; ++i) {
    const uint32_t magnitude = bits_of(x[i]) & 0x7fffffffu;
    most = magnitude > most ? magnitude : most;
  }
  const auto field = static_cast<int32_t>(most >> 23);
  const bool zero = field < 8 || field == 255;
  const uint32_t least = static_cast<uint32_t>(field > 22 ? field - 21 : 1) << 23;
  for (uint32_t i = 0; i < blocks * kBlock; ++i) {
    const uint32_t bits = zero ? 0 : bits_of(x[i]), magnitude = bits & 0x7fffffffu;
    uint32_t half = 0;
    if (!zero && magnitude >= least) {
      const uint32_t scaled = magnitude + (static_cast<uint32_t>(134 - field) << 23);
      half = ((scaled + 0xfff + (scaled >> 13 & 1)) >> 13) - (112 << 10);
    }
    reinterpret_cast<uint16_t*>(to + i / kBlock * kUnitTileBytes)[2 * place(i % kBlock) + odd] =
        static_cast<uint16_t>(half | (bits >> 16 & 0x8000u));
  }
  return field == 255 ? kUnitNotFinite : zero ? 0 : field - 134;
}

// The magnitude's 11 digits, 1,024 to 2,048 (0: of zero), and the zeros before them in 16 bits.
struct Digits {
  uint32_t digits, zeros;
};
Digits digits_of(uint32_t magnitude) {
  if (magnitude == 0) return {0, 16};
  const auto zeros = static_cast<uint32_t>(__builtin_clz(magnitude)) - 16;
  return {((magnitude << zeros >> 1) + 8) >> 4, zeros};
}

uint16_t weight(int32_t scale, int32_t q, int32_t shift) {
  const auto magnitude = [](int32_t v) { return static_cast<uint32_t>(v < 0 ? -v : v); };
  const Digits a = digits_of(magnitude(scale)), b = digits_of(magnitude(q));
  if (a.digits == 0 || b.digits == 0) return 0;
  const uint32_t product = a.digits * b.digits;  // 2^20 to 2^22
  const auto once = static_cast<int32_t>((product + (1u << 9)) >> 10) - 1024;
  const auto twice = static_cast<int32_t>((product + (1u << 10)) >> 11);
  const int32_t field = 45 - shift - static_cast<int32_t>(a.zeros + b.zeros);
  const int32_t bits = field * 1024 + (once < twice ? once : twice);
  return bits < 1024 ? 0 : static_cast<uint16_t>(bits | ((scale < 0) != (q < 0) ? 0x8000 : 0));
}

int32_t quant(Format format, const uint8_t* block, uint32_t n, uint32_t i) {
  const auto byte = [&](uint32_t vector) { return int32_t{block[vector * kVector + 4 * n + i % 4]}; };
  if (format == Format::q4) return (i % 8 < 4 ? byte(i / 8) & 15 : byte(i / 8) >> 4) - 8;
  if (format == Format::q8) return byte(i / 4) - 128;
  return (byte(i / 4) - 128) * 256 + byte(8 + i / 4);
}

}  // namespace

void unit_rows(const float* even, const float* odd, uint32_t blocks, uint8_t* to, int32_t exponents[2]) {
  exponents[0] = unit_row(even, blocks, to, 0);
  exponents[1] = unit_row(odd, blocks, to, 1);
}

void unit_weights(Format format, const uint8_t* tile, uint32_t first, uint32_t last, uint8_t* to) {
  const uint32_t vectors = format == Format::q4 ? 4 : format == Format::q8 ? 8 : 16;
  for (uint32_t b = first; b < last; ++b) {
    const uint8_t* pair = tile + kVector * (1 + b / 2 * (2 * vectors + 1));
    const uint8_t* block = pair + b % 2 * vectors * kVector;
    const auto* scales = reinterpret_cast<const int16_t*>(pair + 2 * vectors * kVector) + b % 2 * kLanes;
    auto* halves = reinterpret_cast<uint16_t*>(to + (b - first) * kUnitTileBytes);
    for (uint32_t i = 0; i < kBlock; ++i)
      for (uint32_t n = 0; n < kLanes; ++n)
        halves[place(i) / 2 * 64 + 2 * n + place(i) % 2] =
            weight(scales[n], quant(format, block, n, i), unit_weight_shift(format));
  }
}

}  // namespace plain

namespace {

constexpr uint32_t kTogether = 4;  // so that one row's latencies hide behind another's work

}  // namespace

bool unit_sum_fits(Format format, const uint8_t* tile, uint32_t n, const float* x, uint32_t blocks, float y) {
  const auto power = [](int32_t e) { return float_of(static_cast<uint32_t>(e + 127) << 23); };
  const auto absolute = [](float v) { return float_of(bits_of(v) & 0x7fffffffu); };
  const int32_t weight_unit = reinterpret_cast<const int32_t*>(tile)[n] - 15;
  if (weight_unit < -120 || weight_unit > 30) return true;
  const uint32_t vectors = format == Format::q4 ? 4 : format == Format::q8 ? 8 : 16;
  float sum = 0, all = 0, inputs = 0, weights = 0, most = 0;
  for (uint32_t b = 0; b < blocks; ++b) {
    const uint8_t* pair = tile + kVector * (1 + b / 2 * (2 * vectors + 1));
    const int32_t scale = reinterpret_cast<const int16_t*>(pair + 2 * vectors * kVector)[b % 2 * kLanes + n];
    float part = 0, part_of_all = 0;
    for (uint32_t i = 0; i < kBlock; ++i) {
      const float value = x[b * kBlock + i];
      const auto weight = static_cast<float>(scale * plain::quant(format, pair + b % 2 * vectors * kVector, n, i));
      const float term = weight * value, magnitude = absolute(value);
      part += term, part_of_all += absolute(term);
      inputs += magnitude, weights += absolute(weight);
      most = magnitude > most ? magnitude : most;
    }
    sum += part, all += part_of_all;
  }
  if (!(inputs < 0x1p80f)) return finite(inputs) || !finite(y);  // of a row that is not finite no product is
  if (most < 0x1p-80f) return true;
  const float scaled = y * power(-weight_unit), off = scaled - sum;
  const int32_t shift = unit_weight_shift(format);
  const float steps = static_cast<float>(blocks * kBlock) * 0x1p-21f;
  const float flushed = most * weights * 0x1p-21f + (format == Format::f16 ? inputs * power(shift - 14) : 0);
  return absolute(off) <= all * (5 * 0x1p-11f + steps) + flushed + most * power(shift + unit_table_shift(format) - 32);
}

void unit_results(Format format, const uint8_t* results, const int32_t* exponents, const uint8_t* tile, uint32_t rows,
                  float* y, uint32_t stride, uint32_t columns) {
  const HVX_Vector of_weights =
      Q6_Vw_vadd_VwVw(*reinterpret_cast<const HVX_Vector*>(tile),
                      Q6_V_vsplat_R(unit_weight_shift(format) + unit_table_shift(format) - 15 - 25));
  const HVX_Vector one = Q6_V_vsplat_R(0x3c00);  // its digits are 2^10 and its field 15
  for (uint32_t first = 0; first < rows; first += kTogether) {
    HVX_Vector bits[kTogether];
#pragma clang loop unroll(full)
    for (uint32_t r = 0; r < kTogether; ++r) {  // of rows that are not there too: their results are zeros
      const HVX_Vector both = reinterpret_cast<const HVX_Vector*>(results)[(first + r) / 2];
      const int32_t exponent = first + r < rows ? exponents[first + r] : 0;
      const HVX_Vector halves = exponent == kUnitNotFinite ? one : r % 2 == 0 ? both : Q6_Vuw_vlsr_VuwR(both, 16);
      bits[r] = floats_of_halves(halves, 1, Q6_Vw_vadd_VwVw(of_weights, Q6_V_vsplat_R(exponent)));
    }
    float* to = y + uint64_t{first} * stride;
    if (columns == kLanes && first + kTogether <= rows) {
#pragma clang loop unroll(full)
      for (uint32_t r = 0; r < kTogether; ++r) *reinterpret_cast<HVX_UVector*>(to + r * stride) = bits[r];
    } else {
      for (uint32_t r = 0; r < kTogether && first + r < rows; ++r) store_floats(to + r * stride, bits[r], columns);
    }
  }
}

}  // namespace dsp
