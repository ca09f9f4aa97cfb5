// The oracle: every kernel in plain C++, one clear loop each. Slow on purpose, never optimised beyond
// clarity. Integer path: weights of any quantized type are expanded by tensor/quantize.h's definition into
// groups with w = scale * q + offset, multiplied with int8 activations (groups of 32, one float scale).
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

#include "kernels/tables.h"
#include "tensor/half.h"
#include "tensor/quantize.h"

namespace llada::kernels {
namespace {

constexpr int64_t kGroup = 32;  // activation group
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void rms_norm(const float* x, const float* weight, float eps, int64_t n, float* y) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  // Squares beyond the range of floats: the row is lost, and zeros would hide it.
  const auto mean = static_cast<float>(sum / static_cast<double>(n));
  const float scale = std::isinf(mean) ? kNan : 1.0f / std::sqrt(mean + eps);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * scale * weight[i];
}

void add(const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

void swiglu(const float* gate, const float* up, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}

void geglu(const float* gate, const float* up, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) {
    const double x = gate[i], inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    y[i] = static_cast<float>(x / 2 * (1 + std::tanh(inner)) * up[i]);
  }
}

void soft_cap(float* x, int64_t n, float cap) {
  for (int64_t i = 0; i < n; ++i)
    x[i] = std::isfinite(x[i]) ? static_cast<float>(cap * std::tanh(static_cast<double>(x[i]) / cap)) : kNan;
}

void rope(float* heads, const RopeArgs& a) {
  const int64_t half = a.rotary / 2;
  for (int64_t h = 0; h < a.heads; ++h) {
    float* x = heads + h * a.head_dim;
    for (int64_t j = 0; j < half; ++j) {
      float& first = a.adjacent ? x[2 * j] : x[j];
      float& second = a.adjacent ? x[2 * j + 1] : x[j + half];
      const float p = first, q = second;
      first = p * a.cos[j] - q * a.sin[j];
      second = q * a.cos[j] + p * a.sin[j];
    }
  }
}

void store_half(const float* x, int64_t n, uint16_t* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = float_to_f16(x[i]);
}

float load(const void* data, DType type, int64_t index) {
  return type == DType::F16 ? f16_to_float(static_cast<const uint16_t*>(data)[index])
                            : static_cast<const float*>(data)[index];
}

void attention(const AttentionArgs& a) {
  for (int64_t r = a.r0; r < a.r1; ++r) {
    const float* q = a.q + r * a.q_stride;
    float* out = a.out + r * a.out_stride;
    const KeyRange seen = a.range(r);
    float* score = a.scratch;
    float max = -std::numeric_limits<float>::infinity();
    for (int64_t p = seen.first; p < seen.last; ++p) {
      double dot = 0;
      for (int64_t i = 0; i < a.head_dim; ++i)
        dot += static_cast<double>(q[i]) * load(a.k, a.kv_type, p * a.head_dim + i);
      score[p] = static_cast<float>(dot) * a.scale;
      // A score of -infinity would have no weight and so hide a damaged key.
      if (!std::isfinite(score[p])) score[p] = kNan;
      if (a.cap > 0) soft_cap(score + p, 1, a.cap);
      max = std::max(max, score[p]);
    }
    double sum = 0;
    std::vector<double> mix(static_cast<size_t>(a.head_dim), 0.0);
    for (int64_t p = seen.first; p < seen.last; ++p) {
      const double weight = std::exp(static_cast<double>(score[p]) - max);
      sum += weight;
      for (int64_t i = 0; i < a.head_dim; ++i)
        mix[static_cast<size_t>(i)] += weight * load(a.v, a.kv_type, p * a.head_dim + i);
    }
    for (int64_t i = 0; i < a.head_dim; ++i) out[i] = static_cast<float>(mix[static_cast<size_t>(i)] / sum);
  }
}

int64_t digest_bytes(DType, int64_t, int64_t) { return 0; }
void digest(const DigestArgs&) {}

bool integer_path(DType type) { return traits(type).quantized; }
int64_t column_tile(DType) { return 1; }
int64_t packed_bytes(DType, int64_t, int64_t) { return 0; }
void pack(const TensorView&, int64_t, int64_t, std::byte*) {}

// Layout: rows x k int8, then rows x (k/32) float scales.
int64_t scale_offset(int64_t rows, int64_t k) { return (rows * k + 63) / 64 * 64; }
int64_t activation_bytes(int64_t rows, int64_t k) { return scale_offset(rows, k) + rows * (k / kGroup) * 4; }

void quantize_rows(const float* x, int64_t rows, int64_t k, int64_t r0, int64_t r1, TypeSet, std::byte* activations) {
  auto* q = reinterpret_cast<int8_t*>(activations);
  auto* scales = reinterpret_cast<float*>(activations + scale_offset(rows, k));
  for (int64_t r = r0; r < r1; ++r) {
    for (int64_t g = 0; g < k / kGroup; ++g) {
      const float* v = x + r * k + g * kGroup;
      float max = 0;
      bool finite = true;
      for (int64_t i = 0; i < kGroup; ++i) max = std::max(max, std::fabs(v[i])), finite &= std::isfinite(v[i]);
      int8_t* to = q + r * k + g * kGroup;
      if (!finite) {
        scales[r * (k / kGroup) + g] = kNan;
        std::memset(to, 0, kGroup);
        continue;
      }
      const bool zero = max <= 0x1p-120f;  // so small that 127 / max would not be finite
      const float scale = zero ? 0.0f : max / 127.0f;
      const float inverse = zero ? 0.0f : 127.0f / max;
      scales[r * (k / kGroup) + g] = scale;
      for (int64_t i = 0; i < kGroup; ++i) to[i] = static_cast<int8_t>(std::nearbyint(v[i] * inverse));
    }
  }
}

void pick_rows(const PickArgs& a) {
  const int64_t groups = a.k / kGroup, from = scale_offset(a.rows, a.k), to = scale_offset(a.count, a.k);
  for (int64_t i = 0; i < a.count; ++i) {
    std::memcpy(a.out + i * a.k, a.activations + a.picked[i] * a.k, static_cast<size_t>(a.k));
    std::memcpy(a.out + to + i * groups * 4, a.activations + from + a.picked[i] * groups * 4,
                static_cast<size_t>(groups) * 4);
  }
}

void matmul(const MatmulArgs& a) {
  std::vector<float> w(static_cast<size_t>(a.k));
  const auto* q = reinterpret_cast<const int8_t*>(a.activations);
  // Float types have no activations.
  const auto* scales =
      integer_path(a.type) ? reinterpret_cast<const float*>(a.activations + scale_offset(a.rows, a.k)) : nullptr;
  for (int64_t c = a.n0; c < a.n1; ++c) {
    dequantize_row(a.type, a.weights + c * row_bytes(a.type, a.k), w.data(), a.k);
    for (int64_t r = 0; r < a.rows; ++r) {
      double sum = 0;
      if (integer_path(a.type)) {
        for (int64_t g = 0; g < a.k / kGroup; ++g) {
          double dot = 0;
          for (int64_t i = g * kGroup; i < (g + 1) * kGroup; ++i)
            dot += static_cast<double>(w[static_cast<size_t>(i)]) * q[r * a.k + i];
          sum += dot * scales[r * (a.k / kGroup) + g];
        }
      } else {
        for (int64_t i = 0; i < a.k; ++i) sum += static_cast<double>(w[static_cast<size_t>(i)]) * a.x[r * a.k + i];
      }
      a.y[r * a.y_stride + c] = static_cast<float>(sum);
    }
  }
}

SoftmaxStats softmax_stats(const float* logits, int64_t n) {
  SoftmaxStats s{-std::numeric_limits<float>::infinity(), 0, 0};
  for (int64_t i = 0; i < n; ++i) s.max = std::max(s.max, logits[i]);
  for (int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(logits[i]) - s.max;
    s.sum += std::exp(d);
    s.weighted += d * std::exp(d);  // NaN of an infinite d
  }
  s.sum += 0 * s.weighted;
  return s;
}

Top2 top2(const float* logits, int64_t n) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  Top2 t{-1, -1, kNone, kNone};
  for (int64_t i = 0; i < n; ++i) {
    if (logits[i] > t.best_value) {
      t = {static_cast<int32_t>(i), t.best, logits[i], t.best_value};
    } else if (logits[i] > t.second_value) {
      t.second = static_cast<int32_t>(i);
      t.second_value = logits[i];
    }
  }
  return t;
}

constexpr KernelTable kTable = {
    "scalar",
#define LLADA_KERNEL(result, name, arguments) name,
#include "kernels/kernels.inc"
#undef LLADA_KERNEL
};

}  // namespace

const KernelTable* scalar_table() { return &kTable; }

}  // namespace llada::kernels
