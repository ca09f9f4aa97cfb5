// Stored weights as floats, four neighbours at a time: how every float product and the embedding read a matrix. k is a
// multiple of four, so the four lie in one quantization group. Layouts: tensor/dtype.h; scalar definition:
// tensor/quantize.cc.
#pragma once
#include <cuda_block.h>

#include "tensor/dtype.h"

namespace llada::cuda {

struct alignas(16) Four {
  float v[4];
};

LLADA_DEVICE uint32_t two_halves(const uint8_t* p) {  // four bytes at an even address
  const auto* h = reinterpret_cast<const uint16_t*>(p);
  return h[0] | static_cast<uint32_t>(h[1]) << 16;
}
LLADA_DEVICE float half_at(const uint8_t* p) { return half_to_float(*reinterpret_cast<const uint16_t*>(p)); }

struct FormatF32 {
  LLADA_DEVICE static int64_t row_bytes(int64_t inputs) { return inputs * 4; }
  LLADA_DEVICE static Four load(const uint8_t* row, int k) {
    return *reinterpret_cast<const Four*>(row + int64_t{k} * 4);
  }
};

struct alignas(8) FourHalves {
  uint16_t h[4];
};
struct FormatF16 {
  LLADA_DEVICE static int64_t row_bytes(int64_t inputs) { return inputs * 2; }
  LLADA_DEVICE static Four load(const uint8_t* row, int k) {
    const FourHalves x = *reinterpret_cast<const FourHalves*>(row + int64_t{k} * 2);
    return {{half_to_float(x.h[0]), half_to_float(x.h[1]), half_to_float(x.h[2]), half_to_float(x.h[3])}};
  }
};
struct FormatBF16 {
  LLADA_DEVICE static int64_t row_bytes(int64_t inputs) { return inputs * 2; }
  LLADA_DEVICE static Four load(const uint8_t* row, int k) {
    const FourHalves x = *reinterpret_cast<const FourHalves*>(row + int64_t{k} * 2);
    Four f;
    for (int i = 0; i < 4; ++i) f.v[i] = bits_to_float(static_cast<uint32_t>(x.h[i]) << 16);
    return f;
  }
};

struct FormatQ8_0 {
  LLADA_DEVICE static int64_t row_bytes(int64_t inputs) { return inputs / 32 * 34; }
  LLADA_DEVICE static Four load(const uint8_t* row, int k) {
    const uint8_t* group = row + int64_t{k / 32} * 34;
    const float d = half_at(group);
    const uint32_t q = two_halves(group + 2 + k % 32);
    Four f;
    for (int i = 0; i < 4; ++i) f.v[i] = d * static_cast<float>(static_cast<int8_t>(q >> 8 * i));
    return f;
  }
};

struct FormatQ4_0 {
  LLADA_DEVICE static int64_t row_bytes(int64_t inputs) { return inputs / 32 * 18; }
  LLADA_DEVICE static Four load(const uint8_t* row, int k) {
    const uint8_t* group = row + int64_t{k / 32} * 18;
    const float d = half_at(group);
    const int at = k % 32;  // low nibbles are the first sixteen
    const uint32_t q = two_halves(group + 2 + at % 16) >> (at < 16 ? 0 : 4);
    Four f;
    for (int i = 0; i < 4; ++i) f.v[i] = d * static_cast<float>(static_cast<int>(q >> 8 * i & 15) - 8);
    return f;
  }
};

struct FormatQ4_K {
  LLADA_DEVICE static int64_t row_bytes(int64_t inputs) { return inputs / 256 * 144; }
  LLADA_DEVICE static Four load(const uint8_t* row, int k) {
    const uint8_t* group = row + int64_t{k / 256} * 144;
    const uint8_t* packed = group + 4;  // eight scales and eight minima of six bits
    const int sub = k % 256 / 32;
    const int low = sub < 4 ? packed[sub] & 63 : (packed[sub + 4] & 15) | packed[sub - 4] >> 6 << 4;
    const int min = sub < 4 ? packed[sub + 4] & 63 : packed[sub + 4] >> 4 | packed[sub] >> 6 << 4;
    const float d = half_at(group) * static_cast<float>(low), m = half_at(group + 2) * static_cast<float>(min);
    const uint32_t q = two_halves(group + 16 + sub / 2 * 32 + k % 32) >> (sub % 2 == 0 ? 0 : 4);
    Four f;
    for (int i = 0; i < 4; ++i) f.v[i] = d * static_cast<float>(q >> 8 * i & 15) - m;
    return f;
  }
};

struct FormatQ6_K {
  LLADA_DEVICE static int64_t row_bytes(int64_t inputs) { return inputs / 256 * 210; }
  LLADA_DEVICE static Four load(const uint8_t* row, int k) {
    const uint8_t* group = row + int64_t{k / 256} * 210;
    const int half = k % 256 / 128, quarter = k % 128 / 32, at = k % 32;
    const uint32_t low = two_halves(group + half * 64 + quarter % 2 * 32 + at) >> (quarter < 2 ? 0 : 4);
    const uint32_t high = two_halves(group + 128 + half * 32 + at) >> 2 * quarter;
    const auto scale = static_cast<int8_t>(group[192 + half * 8 + quarter * 2 + at / 16]);
    const float d = half_at(group + 208) * static_cast<float>(scale);
    Four f;
    for (int i = 0; i < 4; ++i) {
      const int q = static_cast<int>((low >> 8 * i & 15) | (high >> 8 * i & 3) << 4);
      f.v[i] = d * static_cast<float>(q - 32);
    }
    return f;
  }
};

// Calls visit with the format of `type`; false where there is none.
template <class Visit>
bool with_format(DType type, Visit visit) {
  switch (type) {
    case DType::F32:
      return visit(FormatF32{}), true;
    case DType::F16:
      return visit(FormatF16{}), true;
    case DType::BF16:
      return visit(FormatBF16{}), true;
    case DType::Q8_0:
      return visit(FormatQ8_0{}), true;
    case DType::Q4_0:
      return visit(FormatQ4_0{}), true;
    case DType::Q4_K:
      return visit(FormatQ4_K{}), true;
    case DType::Q6_K:
      return visit(FormatQ6_K{}), true;
    default:
      return false;
  }
}

}  // namespace llada::cuda
