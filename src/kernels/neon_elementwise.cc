// Row-wise kernels for any 64-bit Arm processor. Tails run through the same vector code on padded lanes, so
// an element does not depend on where in a vector it falls.
#include <cmath>
#include <limits>

#include "kernels/neon_common.h"
#include "kernels/neon_vector.h"

namespace llada::kernels::neon {

void rms_norm(const float* x, const float* weight, float eps, int64_t n, float* y) {
  float32x4_t part[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int j = 0; j < 4; ++j) {
      const float32x4_t v = vld1q_f32(x + i + 4 * j);
      part[j] = vfmaq_f32(part[j], v, v);
    }
  for (; i < n; i += 4) {
    const float32x4_t v = load_some(x + i, n - i);
    part[0] = vfmaq_f32(part[0], v, v);
  }
  const float sum = vaddvq_f32(vaddq_f32(vaddq_f32(part[0], part[1]), vaddq_f32(part[2], part[3])));
  // Squares beyond the range of floats: the row is lost, and zeros would hide it.
  const float mean = sum / static_cast<float>(n);
  const float scale = std::isinf(mean) ? std::numeric_limits<float>::quiet_NaN() : 1.0f / std::sqrt(mean + eps);
  for (i = 0; i < n; i += 4)
    store_some(y + i, n - i, vmulq_f32(vmulq_n_f32(load_some(x + i, n - i), scale), load_some(weight + i, n - i)));
}

void add(const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; i += 4)
    store_some(y + i, n - i, vaddq_f32(load_some(y + i, n - i), load_some(x + i, n - i)));
}

void swiglu(const float* gate, const float* up, int64_t n, float* y) {
  for (int64_t i = 0; i < n; i += 4) {
    const float32x4_t g = load_some(gate + i, n - i);
    const float32x4_t silu = vdivq_f32(g, vaddq_f32(vdupq_n_f32(1), exp4(vnegq_f32(g))));
    store_some(y + i, n - i, vmulq_f32(silu, load_some(up + i, n - i)));
  }
}

// gelu(x) = x / 2 (1 + tanh(u)) = x / (1 + e^-2u).
void geglu(const float* gate, const float* up, int64_t n, float* y) {
  for (int64_t i = 0; i < n; i += 4) {
    const float32x4_t g = load_some(gate + i, n - i);
    const float32x4_t cubic = vfmaq_f32(vdupq_n_f32(1), vmulq_f32(g, g), vdupq_n_f32(0.044715f));
    const float32x4_t e = exp4(vmulq_f32(vmulq_n_f32(g, -1.5957691f), cubic));
    store_some(y + i, n - i, vmulq_f32(vdivq_f32(g, vaddq_f32(vdupq_n_f32(1), e)), load_some(up + i, n - i)));
  }
}

// tanh(u) = (1 - e^-2|u|) / (1 + e^-2|u|) with the sign of u. 0 x: NaN where x is not finite.
void soft_cap(float* x, int64_t n, float cap) {
  const float32x4_t one = vdupq_n_f32(1);
  for (int64_t i = 0; i < n; i += 4) {
    const float32x4_t v = load_some(x + i, n - i), u = vdivq_f32(v, vdupq_n_f32(cap));
    const float32x4_t e = exp4(vmulq_n_f32(vabsq_f32(u), -2));
    const float32x4_t t = vmulq_n_f32(vdivq_f32(vsubq_f32(one, e), vaddq_f32(one, e)), cap);
    const float32x4_t sign = vbslq_f32(vcgtq_f32(u, vdupq_n_f32(0)), t, vnegq_f32(t));
    store_some(x + i, n - i, vfmaq_f32(sign, v, vdupq_n_f32(0)));
  }
}

// Products and sums are rounded separately, as in the oracle: the results are equal to its bit for bit.
void rope(float* heads, const RopeArgs& a) {
  const int64_t half = a.rotary / 2;
  for (int64_t h = 0; h < a.heads; ++h) {
    float* x = heads + h * a.head_dim;
    int64_t j = 0;
    for (; j + 4 <= half; j += 4) {
      const float32x4_t cos = vld1q_f32(a.cos + j), sin = vld1q_f32(a.sin + j);
      const float32x4x2_t v =
          a.adjacent ? vld2q_f32(x + 2 * j) : float32x4x2_t{{vld1q_f32(x + j), vld1q_f32(x + half + j)}};
      const float32x4x2_t turned = {{vsubq_f32(vmulq_f32(v.val[0], cos), vmulq_f32(v.val[1], sin)),
                                     vaddq_f32(vmulq_f32(v.val[1], cos), vmulq_f32(v.val[0], sin))}};
      if (a.adjacent) {
        vst2q_f32(x + 2 * j, turned);
      } else {
        vst1q_f32(x + j, turned.val[0]);
        vst1q_f32(x + half + j, turned.val[1]);
      }
    }
    for (; j < half; ++j) {
      float& first = a.adjacent ? x[2 * j] : x[j];
      float& second = a.adjacent ? x[2 * j + 1] : x[j + half];
      const float p = first, q = second;
      first = p * a.cos[j] - q * a.sin[j];
      second = q * a.cos[j] + p * a.sin[j];
    }
  }
}

void store_half(const float* x, int64_t n, uint16_t* y) {
  for (int64_t i = 0; i < n; i += 4) {
    const uint16x4_t bits = vreinterpret_u16_f16(vcvt_f16_f32(load_some(x + i, n - i)));
    if (n - i >= 4) {
      vst1_u16(y + i, bits);
    } else {
      uint16_t lanes[4];
      vst1_u16(lanes, bits);
      for (int64_t j = i; j < n; ++j) y[j] = lanes[j - i];
    }
  }
}

// Nothing is masked: a NaN stays one, infinity less itself is one, and so is -infinity times its exponential.
SoftmaxStats softmax_stats(const float* logits, int64_t n) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  float32x4_t best = vdupq_n_f32(kNone);
  for (int64_t i = 0; i < n; i += 4) best = vmaxnmq_f32(best, load_some(logits + i, n - i, kNone));
  const float max = vmaxnmvq_f32(best);
  const float beyond = (max > 0 ? max : 0) - 3e38f;  // behind the last value: its exponential is zero
  float64x2_t sum[2] = {vdupq_n_f64(0), vdupq_n_f64(0)}, weighted[2] = {vdupq_n_f64(0), vdupq_n_f64(0)};
  for (int64_t i = 0; i < n; i += 4) {
    const float32x4_t d = vsubq_f32(load_some(logits + i, n - i, beyond), vdupq_n_f32(max)), e = exp4(d);
    const float64x2_t e0 = vcvt_f64_f32(vget_low_f32(e)), e1 = vcvt_high_f64_f32(e);
    sum[0] = vaddq_f64(sum[0], e0);
    sum[1] = vaddq_f64(sum[1], e1);
    weighted[0] = vfmaq_f64(weighted[0], e0, vcvt_f64_f32(vget_low_f32(d)));
    weighted[1] = vfmaq_f64(weighted[1], e1, vcvt_high_f64_f32(d));
  }
  const double all = vaddvq_f64(vaddq_f64(weighted[0], weighted[1]));
  return {max, vaddvq_f64(vaddq_f64(sum[0], sum[1])) + 0 * all, all};
}

// Sixteen values are looked at one by one only when one of them beats the second best so far, which on a real
// row happens a few dozen times in a hundred thousand values.
Top2 top2(const float* logits, int64_t n) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  Top2 t{-1, -1, kNone, kNone};
  const auto look = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      if (logits[i] > t.best_value) {
        t = {static_cast<int32_t>(i), t.best, logits[i], t.best_value};
      } else if (logits[i] > t.second_value) {
        t.second = static_cast<int32_t>(i);
        t.second_value = logits[i];
      }
    }
  };
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const float32x4_t low = vmaxnmq_f32(vld1q_f32(logits + i), vld1q_f32(logits + i + 4));
    const float32x4_t high = vmaxnmq_f32(vld1q_f32(logits + i + 8), vld1q_f32(logits + i + 12));
    if (vmaxnmvq_f32(vmaxnmq_f32(low, high)) > t.second_value) look(i, i + 16);
  }
  look(i, n);
  return t;
}

}  // namespace llada::kernels::neon
