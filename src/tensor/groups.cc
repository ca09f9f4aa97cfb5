// Sources: ggml's layouts as its Python library describes them; the grids are its numbers. A 256-element group is
// called a block here, s its bytes, j the place of the 32 values among its eight.
#include "tensor/groups.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tensor/half.h"

namespace llada {
namespace {

#include "tensor/codebooks.inc"

constexpr int8_t kSteps2[3] = {8, 25, 43};
constexpr int8_t kSteps3xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr int8_t kSteps3s[8] = {1, 3, 5, 7, 9, 11, 13, 15};

using Bytes = const uint8_t*;

unsigned word(Bytes p) { return static_cast<unsigned>(p[0] | p[1] << 8); }
unsigned long_word(Bytes p) { return word(p) | word(p + 2) << 16; }
float half(Bytes p) { return f16_to_float(static_cast<uint16_t>(word(p))); }

void same_scale(QuantGroup& g, float scale) { g.scale[0] = g.scale[1] = scale; }
void same_offset(QuantGroup& g, float offset) { g.offset[0] = g.offset[1] = offset; }

// 16 bytes: the low nibbles are values 0..15, the high ones 16..31.
void nibbles(QuantGroup& g, Bytes q, auto value) {
  for (int i = 0; i < 16; ++i) g.q[i] = static_cast<int8_t>(value(q[i] & 15));
  for (int i = 0; i < 16; ++i) g.q[16 + i] = static_cast<int8_t>(value(q[i] >> 4));
}
void fifth_bits(QuantGroup& g, Bytes high, int center) {
  for (int i = 0; i < 32; ++i) g.q[i] = static_cast<int8_t>(g.q[i] + (high[i / 8] >> i % 8 & 1) * 16 - center);
}

// Two-bit values: bytes of half a block, of which sub-group j has bits 2 (j % 4).
int two_bits(Bytes q, int j, int i) { return q[j / 4 * 32 + i] >> (2 * (j % 4)) & 3; }

// 6-bit scales and mins of Q4_K and Q5_K in 12 bytes. The last four borrow their top two bits from the first four.
void scale_and_min(QuantGroup& g, Bytes s, int j) {
  const uint8_t* packed = s + 4;
  const int scale = j < 4 ? packed[j] & 63 : (packed[j + 4] & 15) | packed[j - 4] >> 6 << 4;
  const int min = j < 4 ? packed[j + 4] & 63 : packed[j + 4] >> 4 | packed[j] >> 6 << 4;
  same_scale(g, half(s) * static_cast<float>(scale));
  same_offset(g, -(half(s + 2) * static_cast<float>(min)));
}

void q5_k(QuantGroup& g, Bytes s, int j, bool fifth) {
  scale_and_min(g, s, j);
  const uint8_t* q = s + (fifth ? 48 : 16) + j / 2 * 32;
  for (int i = 0; i < 32; ++i) {
    const int nibble = j % 2 == 0 ? q[i] & 15 : q[i] >> 4;
    g.q[i] = static_cast<int8_t>(nibble | (fifth ? (s[16 + i] >> j & 1) << 4 : 0));
  }
}

void q6_k(QuantGroup& g, Bytes s, int j) {
  const uint8_t *low = s + j / 4 * 64 + j % 2 * 32, *high = s + 128 + j / 4 * 32;
  // Where the shifts are constants, a vector of bytes does it.
  const auto values = [&](auto nibble, auto upper) {
    for (int i = 0; i < 32; ++i) g.q[i] = static_cast<int8_t>((nibble(low[i]) | (upper(high[i]) & 3) << 4) - 32);
  };
  const auto lower_half = [](int q) { return q & 15; };
  const auto upper_half = [](int q) { return q >> 4; };
  switch (j % 4) {
    case 0:
      values(lower_half, [](int q) { return q; });
      break;
    case 1:
      values(lower_half, [](int q) { return q >> 2; });
      break;
    case 2:
      values(upper_half, [](int q) { return q >> 4; });
      break;
    default:
      values(upper_half, [](int q) { return q >> 6; });
  }
  for (int h = 0; h < 2; ++h) g.scale[h] = half(s + 208) * static_cast<float>(static_cast<int8_t>(s[192 + 2 * j + h]));
}

void q2_k(QuantGroup& g, Bytes s, int j) {
  for (int i = 0; i < 32; ++i) g.q[i] = static_cast<int8_t>(two_bits(s + 16, j, i));
  for (int h = 0; h < 2; ++h) {
    g.scale[h] = half(s + 80) * static_cast<float>(s[2 * j + h] & 15);
    g.offset[h] = -(half(s + 82) * static_cast<float>(s[2 * j + h] >> 4));
  }
}

// 16 scales of 6 bits: their low nibbles in 8 bytes, then their upper bits in 4.
void q3_k(QuantGroup& g, Bytes s, int j) {
  const uint8_t* scales = s + 96;
  for (int i = 0; i < 32; ++i) g.q[i] = static_cast<int8_t>(two_bits(s + 32, j, i) - ((s[i] >> j & 1) != 0 ? 0 : 4));
  for (int h = 0; h < 2; ++h) {
    const int n = 2 * j + h, low = n < 8 ? scales[n] & 15 : scales[n - 8] >> 4;
    g.scale[h] = half(s + 108) * static_cast<float>((low | (scales[8 + n % 4] >> (2 * (n / 4)) & 3) << 4) - 32);
  }
}

void iq4_xs(QuantGroup& g, Bytes s, int j) {
  const auto low = static_cast<unsigned>(s[4 + j / 2] >> 4 * (j % 2) & 15), high = word(s + 2) >> 2 * j & 3;
  same_scale(g, half(s) * static_cast<float>(static_cast<int>(low | high << 4) - 32));
  nibbles(g, s + 8 + 16 * j, [](int n) { return kFourBits[n]; });
}

// Seven signs in seven bits; an eighth makes their number even.
unsigned eight_signs(unsigned seven) { return seven | (std::popcount(seven) % 2 != 0 ? 128u : 0u); }

// Values [8 at, 8 at + 8) from a grid's entry of eight and signs; those of four from an entry of four.
void eight(QuantGroup& g, int at, unsigned entry, unsigned signs) {
  for (int i = 0; i < 8; ++i) {
    const int8_t step = kSteps2[entry >> 2 * i & 3];
    g.q[8 * at + i] = static_cast<int8_t>((signs >> i & 1) != 0 ? -step : step);
  }
}
void four(QuantGroup& g, int at, unsigned entry, unsigned signs, const int8_t (&steps)[8]) {
  for (int i = 0; i < 4; ++i) {
    const int8_t step = steps[entry >> 4 * i & 7];
    g.q[4 * at + i] = static_cast<int8_t>((signs >> i & 1) != 0 ? -step : step);
  }
}

// Scales of the IQ2 types and IQ3_XXS are (n + 1/2) times a power of two.
float between(Bytes s, unsigned n, float unit) { return half(s) * (0.5f + static_cast<float>(n)) * unit; }

void iq2_xxs(QuantGroup& g, Bytes s, int j) {
  const uint8_t* q = s + 2 + 8 * j;
  const unsigned rest = long_word(q + 4);
  same_scale(g, between(s, rest >> 28, 0.25f));
  for (int l = 0; l < 4; ++l) eight(g, l, kGrid2xxs[q[l]], eight_signs(rest >> 7 * l & 127));
}

void iq2_xs(QuantGroup& g, Bytes s, int j) {
  for (int l = 0; l < 4; ++l) {
    const unsigned q = word(s + 2 + 8 * j + 2 * l);
    eight(g, l, kGrid2xs[q & 511], eight_signs(q >> 9));
  }
  for (int h = 0; h < 2; ++h) g.scale[h] = between(s, s[66 + j] >> 4 * h & 15u, 0.25f);
}

void iq2_s(QuantGroup& g, Bytes s, int j) {
  for (int l = 0; l < 4; ++l) eight(g, l, kGrid2s[s[2 + 4 * j + l] | (s[66 + j] >> 2 * l & 3) << 8], s[34 + 4 * j + l]);
  for (int h = 0; h < 2; ++h) g.scale[h] = between(s, s[74 + j] >> 4 * h & 15u, 0.25f);
}

void iq3_xxs(QuantGroup& g, Bytes s, int j) {
  const unsigned rest = long_word(s + 66 + 4 * j);
  same_scale(g, between(s, rest >> 28, 0.5f));
  for (int l = 0; l < 8; ++l)
    four(g, l, kGrid3xxs[s[2 + 8 * j + l]], eight_signs(rest >> 7 * (l / 2) & 127) >> 4 * (l % 2), kSteps3xxs);
}

void iq3_s(QuantGroup& g, Bytes s, int j) {
  same_scale(g, half(s) * static_cast<float>(1 + 2 * (s[106 + j / 2] >> 4 * (j % 2) & 15)));
  for (int l = 0; l < 8; ++l) {
    const int entry = s[2 + 8 * j + l] | (s[66 + j] >> l & 1) << 8;
    four(g, l, kGrid3s[entry], static_cast<unsigned>(s[74 + 4 * j + l / 2] >> 4 * (l % 2)), kSteps3s);
  }
}

// An eighth more or less than -1, 0 or 1, in eighths.
void eighths(QuantGroup& g, int at, unsigned entry, bool less) {
  for (int i = 0; i < 8; ++i)
    g.q[8 * at + i] = static_cast<int8_t>(8 * (static_cast<int>(kGrid1s[entry] >> 2 * i & 3) - 1) + (less ? -1 : 1));
}

void iq1_s(QuantGroup& g, Bytes s, int j) {
  const unsigned high = word(s + 34 + 2 * j);
  same_scale(g, half(s) * static_cast<float>(2 * (high >> 12 & 7) + 1) * 0.125f);
  for (int l = 0; l < 4; ++l) eighths(g, l, s[2 + 4 * j + l] | (high >> 3 * l & 7) << 8, (high & 0x8000) != 0);
}

// The scale of the block lies in the top nibbles of the four words of scales.
void iq1_m(QuantGroup& g, Bytes s, int j) {
  unsigned d = 0;
  for (int i = 0; i < 4; ++i) d |= word(s + 48 + 2 * i) >> 12 << 4 * i;
  for (int h = 0; h < 2; ++h) {
    const int n = 2 * j + h;
    const unsigned scale = word(s + 48 + n / 4 * 2) >> 3 * (n % 4) & 7;
    g.scale[h] = f16_to_float(static_cast<uint16_t>(d)) * static_cast<float>(2 * scale + 1) * 0.125f;
    for (int l = 0; l < 2; ++l) {
      const unsigned more = s[32 + n] >> 4 * l & 15u;
      eighths(g, 2 * h + l, s[2 * n + l] | (more & 7) << 8, (more & 8) != 0);
    }
  }
}

// Value e of a block: five ternary digits to a byte, as the fraction of 3^5 of which the byte is the ceiling in 256ths.
int ternary(Bytes s, int e) {
  constexpr int kPowers[5] = {1, 3, 9, 27, 81};
  const int lanes = e < 160 ? 32 : e < 240 ? 16 : 4, first = e < 160 ? 0 : e < 240 ? 160 : 240;
  const int byte = s[first / 5 + (e - first) % lanes] * kPowers[(e - first) / lanes] & 255;
  return (byte * 3 >> 8) - 1;
}

void mxfp4(QuantGroup& g, Bytes s) {
  const uint32_t e = s[0];  // half of 2^(e - 127)
  same_scale(g, std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23));
  nibbles(g, s + 1, [](int n) { return kFloat4[n]; });
}

// Half of a number with four bits of exponent (bias 7) and three of mantissa.
float small_float(unsigned x) {
  if (x == 0 || x == 0x7f) return 0;
  const unsigned exponent = x >> 3 & 15, mantissa = x & 7;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;
  return static_cast<float>(8 + mantissa) * std::bit_cast<float>((exponent + 127 - 11) << 23);
}

void nvfp4(QuantGroup& g, Bytes s, int j) {
  for (int h = 0; h < 2; ++h) {
    g.scale[h] = small_float(s[2 * j + h]);
    const uint8_t* q = s + 4 + 8 * (2 * j + h);
    for (int i = 0; i < 16; ++i) g.q[16 * h + i] = kFloat4[i < 8 ? q[i] & 15 : q[i - 8] >> 4];
  }
}

}  // namespace

QuantGroup read_group(DType type, const std::byte* row, int64_t index) {
  const DTypeTraits& t = traits(type);
  const int64_t per = t.elements / 32;
  const auto* s = reinterpret_cast<const uint8_t*>(row) + index / per * t.bytes;
  const int j = static_cast<int>(index % per);
  QuantGroup g{};
  const auto plain = [](int n) { return n; };
  switch (type) {
    case DType::F32:
    case DType::F16:
    case DType::BF16:
      break;
    case DType::Q8_0:
      same_scale(g, half(s));
      std::memcpy(g.q, s + 2, 32);
      break;
    case DType::Q4_0:
      same_scale(g, half(s));
      nibbles(g, s + 2, [](int n) { return n - 8; });
      break;
    case DType::Q4_1:
      same_scale(g, half(s));
      same_offset(g, half(s + 2));
      nibbles(g, s + 4, plain);
      break;
    case DType::Q5_0:
      same_scale(g, half(s));
      nibbles(g, s + 6, plain);
      fifth_bits(g, s + 2, 16);
      break;
    case DType::Q5_1:
      same_scale(g, half(s));
      same_offset(g, half(s + 2));
      nibbles(g, s + 8, plain);
      fifth_bits(g, s + 4, 0);
      break;
    case DType::Q4_K:
      q5_k(g, s, j, false);
      break;
    case DType::Q5_K:
      q5_k(g, s, j, true);
      break;
    case DType::Q6_K:
      q6_k(g, s, j);
      break;
    case DType::Q2_K:
      q2_k(g, s, j);
      break;
    case DType::Q3_K:
      q3_k(g, s, j);
      break;
    case DType::IQ4_NL:
      same_scale(g, half(s));
      nibbles(g, s + 2, [](int n) { return kFourBits[n]; });
      break;
    case DType::IQ4_XS:
      iq4_xs(g, s, j);
      break;
    case DType::IQ2_XXS:
      iq2_xxs(g, s, j);
      break;
    case DType::IQ2_XS:
      iq2_xs(g, s, j);
      break;
    case DType::IQ2_S:
      iq2_s(g, s, j);
      break;
    case DType::IQ3_XXS:
      iq3_xxs(g, s, j);
      break;
    case DType::IQ3_S:
      iq3_s(g, s, j);
      break;
    case DType::IQ1_S:
      iq1_s(g, s, j);
      break;
    case DType::IQ1_M:
      iq1_m(g, s, j);
      break;
    case DType::TQ1_0:
      same_scale(g, half(s + 52));
      for (int i = 0; i < 32; ++i) g.q[i] = static_cast<int8_t>(ternary(s, 32 * j + i));
      break;
    case DType::TQ2_0:
      same_scale(g, half(s + 64));
      for (int i = 0; i < 32; ++i) g.q[i] = static_cast<int8_t>(two_bits(s, j, i) - 1);
      break;
    case DType::MXFP4:
      mxfp4(g, s);
      break;
    case DType::NVFP4:
      nvfp4(g, s, j);
      break;
    case DType::Q8_M: {
      GroupQ8_M stored;
      std::memcpy(&stored, s, sizeof stored);
      same_scale(g, stored.d);
      same_offset(g, stored.m);
      std::copy_n(stored.q, 32, g.q);
      break;
    }
  }
  return g;
}

}  // namespace llada
