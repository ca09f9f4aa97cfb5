// y = x W^T for F32, F16 and BF16 weights as stored, for any 64-bit Arm processor. Four columns by up to four
// rows at a time; lanes run along k. Every element is the same chain of fused multiply-adds whatever the
// tile.
#include "kernels/neon_common.h"
#include "kernels/neon_vector.h"
#include "tensor/half.h"

namespace llada::kernels::neon {
namespace {

// Stored values lie at any address, so they are read as bytes.
const uint8_t* bytes(const std::byte* p) { return reinterpret_cast<const uint8_t*>(p); }
template <class T>
T one(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

struct F32Weights {
  static constexpr int64_t kBytes = 4;
  static float32x4_t load(const std::byte* p) { return vreinterpretq_f32_u8(vld1q_u8(bytes(p))); }
  static float value(const std::byte* p) { return one<float>(p); }
};
struct F16Weights {
  static constexpr int64_t kBytes = 2;
  static float32x4_t load(const std::byte* p) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(bytes(p)))); }
  static float value(const std::byte* p) { return static_cast<float>(one<__fp16>(p)); }
};
struct BF16Weights {
  static constexpr int64_t kBytes = 2;
  static float32x4_t load(const std::byte* p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(bytes(p))), 16));
  }
  static float value(const std::byte* p) { return bf16_to_float(one<uint16_t>(p)); }
};

template <class W, int R>
void tile(const MatmulArgs& a, int64_t c, int64_t columns, int64_t r) {
  const std::byte* w[kTile];
  for (int64_t j = 0; j < kTile; ++j)  // columns that do not exist repeat the last one and are not stored
    w[j] = a.weights + (c + (j < columns ? j : columns - 1)) * a.k * W::kBytes;
  const float* x[R];
  for (int i = 0; i < R; ++i) x[i] = a.x + (r + i) * a.k;
  float32x4_t sum[R][kTile];
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < kTile; ++j) sum[i][j] = vdupq_n_f32(0);
  const auto four = [&](int64_t at) __attribute__((always_inline)) {
    float32x4_t weight[kTile];
    for (int j = 0; j < kTile; ++j) weight[j] = W::load(w[j] + at * W::kBytes);
    for (int i = 0; i < R; ++i) {
      const float32x4_t row = vld1q_f32(x[i] + at);
      for (int j = 0; j < kTile; ++j) sum[i][j] = vfmaq_f32(sum[i][j], row, weight[j]);
    }
  };
  int64_t k = 0;
  for (; k + 8 <= a.k; k += 8) {
    four(k);
    four(k + 4);
  }
  for (; k + 4 <= a.k; k += 4) four(k);
  for (int i = 0; i < R; ++i) {
    float32x4_t y = vpaddq_f32(vpaddq_f32(sum[i][0], sum[i][1]), vpaddq_f32(sum[i][2], sum[i][3]));
    for (int64_t t = k; t < a.k; ++t) {
      float weight[kTile];
      for (int64_t j = 0; j < kTile; ++j) weight[j] = W::value(w[j] + t * W::kBytes);
      y = vfmaq_n_f32(y, vld1q_f32(weight), x[i][t]);
    }
    store_some(a.y + (r + i) * a.y_stride + c, columns, y);
  }
}

template <class W>
void columns_outer(const MatmulArgs& a) {
  for (int64_t c = a.n0; c < a.n1; c += kTile) {
    const int64_t columns = a.n1 - c < kTile ? a.n1 - c : kTile;
    int64_t r = 0;
    for (; r + 4 <= a.rows; r += 4) tile<W, 4>(a, c, columns, r);
    switch (a.rows - r) {
      case 3:
        tile<W, 3>(a, c, columns, r);
        break;
      case 2:
        tile<W, 2>(a, c, columns, r);
        break;
      case 1:
        tile<W, 1>(a, c, columns, r);
        break;
      default:
        break;
    }
  }
}

}  // namespace

void matmul_float(const MatmulArgs& a) {
  switch (a.type) {
    case DType::F16:
      return columns_outer<F16Weights>(a);
    case DType::BF16:
      return columns_outer<BF16Weights>(a);
    default:
      return columns_outer<F32Weights>(a);
  }
}

}  // namespace llada::kernels::neon
