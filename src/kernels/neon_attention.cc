// Attention for any 64-bit Arm processor. Up to four rows that see the same keys run together; lane r of a
// vector in `scratch` belongs to row r, so the softmax needs no work across lanes and a row never meets
// another row's numbers. Keys and values are read in their stored type. The mix of values goes through the
// keys in blocks that stay in the L1 cache, with `out` as the accumulator. Scores are kept whole (a row of
// keys fits): no online rescaling is needed.
#include <limits>

#include "kernels/neon_common.h"
#include "kernels/neon_vector.h"

namespace llada::kernels::neon {
namespace {

constexpr int kRows = 4;
constexpr int kKeys = 4;             // keys scored together
constexpr int kVectors = 4;          // vectors of head elements mixed together
constexpr int64_t kValueBlock = 64;  // keys whose values are mixed before the next head elements: 16 KiB of F16

// scratch[key * kRows + row] = scale * q[row] . k[key]; returns the largest score of each row, NaN where one is NaN or
// -infinity (whose weight would be zero and hide a damaged key).
template <int R, class T>
float32x4_t scores(const AttentionArgs& a, int64_t r, int64_t keys) {
  const T* all = static_cast<const T*>(a.k);
  const int64_t whole = a.head_dim / 4 * 4;
  const float* q[R];
  for (int i = 0; i < R; ++i) q[i] = a.q + (r + i) * a.q_stride;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float32x4_t best = vdupq_n_f32(-kInfinity), least = vdupq_n_f32(kInfinity);
  for (int64_t p = 0; p < keys; p += kKeys) {
    const T* k[kKeys];
    for (int j = 0; j < kKeys; ++j) k[j] = all + (p + j < keys ? p + j : keys - 1) * a.head_dim;
    float32x4_t dot[R][kKeys];
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < kKeys; ++j) dot[i][j] = vdupq_n_f32(0);
    const auto four = [&](int64_t at) __attribute__((always_inline)) {
      float32x4_t key[kKeys];
      for (int j = 0; j < kKeys; ++j) key[j] = load4(k[j] + at);
      for (int i = 0; i < R; ++i) {
        const float32x4_t row = vld1q_f32(q[i] + at);
        for (int j = 0; j < kKeys; ++j) dot[i][j] = vfmaq_f32(dot[i][j], row, key[j]);
      }
    };
    int64_t d = 0;
    for (; d + 8 <= whole; d += 8) {
      four(d);
      four(d + 4);
    }
    if (d < whole) four(d);
    for (int j = 0; j < kKeys && p + j < keys; ++j) {
      const auto of = [&](int i) { return dot[i < R ? i : 0][j]; };
      float32x4_t sum = vpaddq_f32(vpaddq_f32(of(0), of(1)), vpaddq_f32(of(2), of(3)));
      for (int64_t t = whole; t < a.head_dim; ++t) {
        float tail[kRows] = {};
        for (int i = 0; i < R; ++i) tail[i] = q[i][t];
        sum = vfmaq_n_f32(sum, vld1q_f32(tail), static_cast<float>(k[j][t]));
      }
      sum = vmulq_n_f32(sum, a.scale);
      vst1q_f32(a.scratch + (p + j) * kRows, sum);
      best = vmaxq_f32(best, sum);
      least = vminq_f32(least, sum);
    }
  }
  return vbslq_f32(vcgtq_f32(least, vdupq_n_f32(-kInfinity)), best,
                   vdupq_n_f32(std::numeric_limits<float>::quiet_NaN()));
}

// Soft-caps the scores; returns the largest, or NaN, as scores() does.
float32x4_t capped(float* scratch, int64_t keys, float cap) {
  soft_cap(scratch, keys * kRows, cap);
  float32x4_t best = vdupq_n_f32(-std::numeric_limits<float>::infinity());
  for (int64_t p = 0; p < keys; ++p) best = vmaxq_f32(best, vld1q_f32(scratch + p * kRows));
  return best;
}

// Replaces scores by e^(score - best); returns one over their sum.
float32x4_t weights(float* scratch, int64_t keys, float32x4_t best) {
  float64x2_t low = vdupq_n_f64(0), high = vdupq_n_f64(0);
  for (int64_t p = 0; p < keys; ++p) {
    const float32x4_t e = exp4(vsubq_f32(vld1q_f32(scratch + p * kRows), best));
    vst1q_f32(scratch + p * kRows, e);
    low = vaddq_f64(low, vcvt_f64_f32(vget_low_f32(e)));
    high = vaddq_f64(high, vcvt_high_f64_f32(e));
  }
  const float64x2_t one = vdupq_n_f64(1);
  return vcvt_high_f32_f64(vcvt_f32_f64(vdivq_f64(one, low)), vdivq_f64(one, high));
}

// out[r][d .. d + 4V) (+)= weights . values over keys [p0, p1).
template <int R, int V, class T>
LLADA_INLINE void mix(const AttentionArgs& a, int64_t r, int64_t d, int64_t p0, int64_t p1) {
  const T* v = static_cast<const T*>(a.v) + d;
  float* out[R];
  float32x4_t sum[R][V];
  for (int i = 0; i < R; ++i) {
    out[i] = a.out + (r + i) * a.out_stride + d;
    for (int j = 0; j < V; ++j) sum[i][j] = p0 == 0 ? vdupq_n_f32(0) : vld1q_f32(out[i] + 4 * j);
  }
  for (int64_t p = p0; p < p1; ++p) {
    const float32x4_t weight = vld1q_f32(a.scratch + p * kRows);
    float32x4_t value[V];
    for (int j = 0; j < V; ++j) value[j] = load4(v + p * a.head_dim + 4 * j);
    unroll<R>([&](auto i) __attribute__((always_inline)) {
      for (int j = 0; j < V; ++j) sum[i][j] = vfmaq_laneq_f32(sum[i][j], value[j], weight, i);
    });
  }
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < V; ++j) vst1q_f32(out[i] + 4 * j, sum[i][j]);
}

template <int R, class T>
void rows_together(const AttentionArgs& a, int64_t r, int64_t keys) {
  float inverse[kRows];
  float32x4_t best = scores<R, T>(a, r, keys);
  if (a.cap > 0) best = capped(a.scratch, keys, a.cap);
  vst1q_f32(inverse, weights(a.scratch, keys, best));
  if (keys <= 0)
    for (int i = 0; i < R; ++i)
      for (int64_t d = 0; d < a.head_dim; ++d) a.out[(r + i) * a.out_stride + d] = 0;
  for (int64_t p = 0; p < keys; p += kValueBlock) {
    const int64_t end = p + kValueBlock < keys ? p + kValueBlock : keys;
    int64_t d = 0;
    for (; d + 4 * kVectors <= a.head_dim; d += 4 * kVectors) mix<R, kVectors, T>(a, r, d, p, end);
    for (; d + 4 <= a.head_dim; d += 4) mix<R, 1, T>(a, r, d, p, end);
    for (; d < a.head_dim; ++d)
      for (int i = 0; i < R; ++i) {
        float& out = a.out[(r + i) * a.out_stride + d];
        float sum = p == 0 ? 0 : out;
        for (int64_t key = p; key < end; ++key)
          sum = __builtin_fmaf(static_cast<float>(static_cast<const T*>(a.v)[key * a.head_dim + d]),
                               a.scratch[key * kRows + i], sum);
        out = sum;
      }
  }
  for (int i = 0; i < R; ++i) {
    float* out = a.out + (r + i) * a.out_stride;
    for (int64_t d = 0; d < a.head_dim; d += 4)
      store_some(out + d, a.head_dim - d, vmulq_n_f32(load_some(out + d, a.head_dim - d), inverse[i]));
  }
}

template <class T>
void all_rows(const AttentionArgs& args) {
  for (int64_t r = args.r0, count; r < args.r1; r += count) {
    const KeyRange range = args.range(r);
    const auto same = [&](int64_t row) {
      const KeyRange other = args.range(row);
      return other.first == range.first && other.last == range.last;
    };
    for (count = 1; count < kRows && r + count < args.r1 && same(r + count);) ++count;
    const int64_t keys = range.last - range.first;
    // Nothing below depends on where the first key stands.
    AttentionArgs a = args;
    a.k = static_cast<const T*>(args.k) + range.first * args.head_dim;
    a.v = static_cast<const T*>(args.v) + range.first * args.head_dim;
    switch (count) {
      case 1:
        rows_together<1, T>(a, r, keys);
        break;
      case 2:
        rows_together<2, T>(a, r, keys);
        break;
      case 3:
        rows_together<3, T>(a, r, keys);
        break;
      default:
        rows_together<4, T>(a, r, keys);
    }
  }
}

}  // namespace

void attention(const AttentionArgs& a) {
  if (a.kv_type == DType::F16) {
    all_rows<__fp16>(a);
  } else {
    all_rows<float>(a);
  }
}

}  // namespace llada::kernels::neon
