// Sources: the group layouts in dtype.h and groups.cc, and ggml's reference (not SIMD) quantizers. Their arithmetic is
// followed operation by operation in float, because one different rounding changes a stored byte. In particular values
// are multiplied by the inverse of the scale before that scale is rounded to F16. With weights the scale is searched
// (fit.h), as it always is for the K types and IQ4 (quantize_blocks.h). Not done: writing the types that look values up
// in a grid, or ternary ones.
#include "tensor/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/fit.h"
#include "tensor/groups.h"
#include "tensor/half.h"
#include "tensor/quantize_blocks.h"

namespace llada {
namespace {

// The result of x86's conversion instruction, and so the reference's bytes on it: NaN and out of range become 0 in 8
// bits.
int to_int(float value) { return value > -2147483648.0f && value < 2147483648.0f ? static_cast<int>(value) : 0; }

float inverse(float d) { return d != 0.0f ? 1.0f / d : 0.0f; }

GroupQ8_0 quantize_q8_0(const float* x) {
  const float d = std::fabs(signed_extreme(x, 32)) / 127.0f, id = inverse(d);
  GroupQ8_0 g{float_to_f16(d), {}};
  for (int i = 0; i < 32; ++i) g.q[i] = static_cast<int8_t>(to_int(std::round(x[i] * id)));
  return g;
}

// Rounds x * id + offset down and cuts at `top`: the reference's rule for the 4 and 5 bit types.
int cut(float x, float id, float offset, int top) {
  return std::min(top, static_cast<int>(static_cast<int8_t>(to_int(x * id + offset)))) & 0xff;
}

// Levels of five bits, the fifth ones apart.
template <class Group>
void pack_five_bits(const uint8_t* q, Group& g) {
  for (int i = 0; i < 16; ++i) g.q[i] = static_cast<uint8_t>((q[i] & 15) | (q[i + 16] & 15) << 4);
  for (int i = 0; i < 32; ++i) g.high[i / 8] |= static_cast<uint8_t>((q[i] >> 4 & 1) << i % 8);
}

template <class Group>
void pack_four_bits(const uint8_t* q, Group& g) {
  for (int i = 0; i < 16; ++i) g.q[i] = static_cast<uint8_t>(q[i] | q[i + 16] << 4);
}

GroupQ4_0 quantize_q4_0(const float* x) {
  const float d = signed_extreme(x, 32) / -8.0f, id = inverse(d);
  GroupQ4_0 g{float_to_f16(d), {}};
  for (int i = 0; i < 16; ++i)
    g.q[i] = static_cast<uint8_t>(cut(x[i], id, 8.5f, 15) | cut(x[i + 16], id, 8.5f, 15) << 4);
  return g;
}

GroupQ5_0 quantize_q5_0(const float* x) {
  const float d = signed_extreme(x, 32) / -16.0f, id = inverse(d);
  GroupQ5_0 g{float_to_f16(d), {}, {}};
  uint8_t q[32];
  for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(cut(x[i], id, 16.5f, 31));
  pack_five_bits(q, g);
  return g;
}

GroupQ4_1 quantize_q4_1(const float* x) {
  const float *low = std::min_element(x, x + 32), *high = std::max_element(x, x + 32);
  const float d = (*high - *low) / 15.0f, id = inverse(d);
  GroupQ4_1 g{float_to_f16(d), float_to_f16(*low), {}};
  for (int i = 0; i < 16; ++i)
    g.q[i] = static_cast<uint8_t>(cut(x[i] - *low, id, 0.5f, 15) | cut(x[i + 16] - *low, id, 0.5f, 15) << 4);
  return g;
}

GroupQ5_1 quantize_q5_1(const float* x) {
  const float *smallest = std::min_element(x, x + 32), *biggest = std::max_element(x, x + 32);
  const float d = (*biggest - *smallest) / 31.0f, id = inverse(d);
  GroupQ5_1 g{float_to_f16(d), float_to_f16(*smallest), {}, {}};
  uint8_t q[32];
  for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(cut(x[i] - *smallest, id, 0.5f, 255));
  pack_five_bits(q, g);
  return g;
}

// Groups of 32 whose scale is searched. mean_square: of the row's values.
void quantize_weighted(DType type, const float* x, const float* weights, float mean_square, std::byte* out) {
  float w[32];
  for (int i = 0; i < 32; ++i) w[i] = weights[i] * std::sqrt(mean_square + x[i] * x[i]);
  uint8_t q[32];
  const bool five = type == DType::Q5_0 || type == DType::Q5_1;
  if (type == DType::Q4_0 || type == DType::Q5_0) {
    int8_t levels[32];
    const uint16_t d = float_to_f16(fit_symmetric(x, w, 32, five ? 16 : 8, levels));
    std::memcpy(q, levels, sizeof q);
    GroupQ5_0 g{d, {}, {}};
    GroupQ4_0 h{d, {}};
    five ? pack_five_bits(q, g) : pack_four_bits(q, h);
    std::memcpy(out, five ? static_cast<const void*>(&g) : &h, five ? sizeof g : sizeof h);
    return;
  }
  const auto fit = fit_scale_and_min(x, w, 32, five ? 31 : 15, {-0.9f, 0.05f, 36, false}, q);
  const uint16_t d = float_to_f16(fit.scale), m = float_to_f16(-fit.min);
  GroupQ5_1 g{d, m, {}, {}};
  GroupQ4_1 h{d, m, {}};
  five ? pack_five_bits(q, g) : pack_four_bits(q, h);
  std::memcpy(out, five ? static_cast<const void*>(&g) : &h, five ? sizeof g : sizeof h);
}

template <class Group>
void quantize_groups(const float* src, std::byte* dst, int64_t n, Group (*quantize)(const float*)) {
  for (int64_t i = 0; i < n / 32; ++i) {
    const Group group = quantize(src + i * 32);
    std::memcpy(dst + i * static_cast<int64_t>(sizeof group), &group, sizeof group);
  }
}

template <class Convert>
void from_half(const std::byte* src, float* dst, int64_t n, Convert convert) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, src + 2 * i, 2);
    dst[i] = convert(bits);
  }
}

template <class Convert>
void to_half(const float* src, std::byte* dst, int64_t n, Convert convert) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t bits = convert(src[i]);
    std::memcpy(dst + 2 * i, &bits, 2);
  }
}

}  // namespace

void dequantize_row(DType type, const std::byte* src, float* dst, int64_t n) {
  LLADA_CHECK(n % traits(type).elements == 0);
  switch (type) {
    case DType::F32:
      std::memcpy(dst, src, static_cast<size_t>(n) * 4);
      break;
    case DType::F16:
      from_half(src, dst, n, f16_to_float);
      break;
    case DType::BF16:
      from_half(src, dst, n, bf16_to_float);
      break;
    default:
      for (int64_t at = 0; at < n; at += 32) {
        const QuantGroup g = read_group(type, src, at / 32);
        for (int h = 0; h < 2; ++h) {
          const int8_t* q = g.q + 16 * h;
          float* y = dst + at + 16 * h;
          for (int i = 0; i < 16; ++i) y[i] = g.scale[h] * static_cast<float>(q[i]);
          if (has_offset(type))  // or else a negative zero stays one
            for (int i = 0; i < 16; ++i) y[i] += g.offset[h];
        }
      }
  }
}

bool can_quantize(DType type) { return type <= DType::Q5_1 || can_quantize_block(type); }

bool uses_weights(DType type) { return type >= DType::Q4_0 && can_quantize(type); }

void quantize_row(DType type, const float* src, std::byte* dst, int64_t n, const float* weights) {
  LLADA_CHECK(n % traits(type).elements == 0 && can_quantize(type));
  if (can_quantize_block(type)) {
    const int64_t elements = traits(type).elements;
    for (int64_t at = 0; at < n; at += elements)
      quantize_block(type, src + at, weights != nullptr ? weights + at : nullptr, dst + row_bytes(type, at));
    return;
  }
  if (weights != nullptr && uses_weights(type)) {
    float squares = 0;
    for (int64_t i = 0; i < n; ++i) squares += src[i] * src[i];
    for (int64_t at = 0; at < n; at += 32)
      quantize_weighted(type, src + at, weights + at, squares / static_cast<float>(n), dst + row_bytes(type, at));
    return;
  }
  switch (type) {
    case DType::F32:
      std::memcpy(dst, src, static_cast<size_t>(n) * 4);
      break;
    case DType::F16:
      to_half(src, dst, n, float_to_f16);
      break;
    case DType::BF16:
      to_half(src, dst, n, float_to_bf16);
      break;
    case DType::Q8_0:
      quantize_groups(src, dst, n, quantize_q8_0);
      break;
    case DType::Q4_0:
      quantize_groups(src, dst, n, quantize_q4_0);
      break;
    case DType::Q4_1:
      quantize_groups(src, dst, n, quantize_q4_1);
      break;
    case DType::Q5_0:
      quantize_groups(src, dst, n, quantize_q5_0);
      break;
    case DType::Q5_1:
      quantize_groups(src, dst, n, quantize_q5_1);
      break;
    default:
      break;
  }
}

}  // namespace llada
