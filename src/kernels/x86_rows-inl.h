// Row-wise kernels over a vector type. A file includes this once, after it has defined Vec and its words for one
// instruction set; LLADA_VECTOR_NAMESPACE names its namespace. Everything is in an anonymous namespace and nothing
// inline from other headers is called, so no code for newer processors can replace a shared function when the program
// is linked.
//
// exp: 2^n e^r with n = round(x / ln 2), |r| <= ln(2) / 2 and Taylor's polynomial of degree 7 (its error is 5e-9 at
// most). The result is within 1.1 ulp of e^x, 0 below -87.33, where e^x is no normal number any more, and infinity
// above 88.73. e^0 is exactly 1 and e^NaN is NaN: min and max keep their second operand's. Nothing on the way
// underflows: on Intel's processors each operation that does takes some hundred cycles, and most words of a softmax are
// that improbable.
#pragma once

namespace llada::kernels::LLADA_VECTOR_NAMESPACE {
namespace {

inline constexpr float kInfinity = __builtin_inff();

inline Vec exp(Vec of) {
  const Vec least = fill(-87.33f), x = min(fill(89.0f), max(least, of));
  const Vec n = round(mul(x, fill(1.44269504f)));
  Vec r = fma_negative(n, fill(0.693145752f), x);  // 15 bits of ln 2: the product is exact
  r = fma_negative(n, fill(1.42860682e-6f), r);
  Vec p = fill(1.0f / 5040);
  p = fma(p, r, fill(1.0f / 720));
  p = fma(p, r, fill(1.0f / 120));
  p = fma(p, r, fill(1.0f / 24));
  p = fma(p, r, fill(1.0f / 6));
  p = fma(p, r, fill(0.5f));
  p = fma(mul(p, r), r, r);
  return choose(greater(least, of), zero(), scale_by_power(add(p, fill(1.0f)), n));
}

inline float sum_of(Vec x) {
  float lanes[kLanes];
  store(lanes, x);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}

inline void rms_norm(const float* x, const float* weight, float eps, int64_t n, float* y) {
  Vec sums[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int j = 0; j < 4; ++j) {
      const Vec v = load(x + i + j * kLanes);
      sums[j] = fma(v, v, sums[j]);
    }
  for (; i < n; i += kLanes) {
    const Vec v = n - i >= kLanes ? load(x + i) : load_first(x + i, n - i, 0);
    sums[0] = fma(v, v, sums[0]);
  }
  const float mean = sum_of(add(add(sums[0], sums[1]), add(sums[2], sums[3]))) / static_cast<float>(n);
  // Squares beyond the range of floats: the row is lost, and zeros would hide it.
  const Vec scale = fill(mean < kInfinity ? 1.0f / __builtin_sqrtf(mean + eps) : __builtin_nanf(""));
  for (i = 0; i + kLanes <= n; i += kLanes) store(y + i, mul(mul(load(x + i), scale), load(weight + i)));
  if (i < n) store_first(y + i, n - i, mul(mul(load_first(x + i, n - i, 0), scale), load_first(weight + i, n - i, 0)));
}

inline void add_rows(const float* x, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, add(load(y + i), load(x + i)));
  if (i < n) store_first(y + i, n - i, add(load_first(y + i, n - i, 0), load_first(x + i, n - i, 0)));
}

inline Vec gated(Vec gate, Vec up) { return mul(div(gate, add(fill(1.0f), exp(sub(zero(), gate)))), up); }

inline void swiglu(const float* gate, const float* up, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, gated(load(gate + i), load(up + i)));
  if (i < n) store_first(y + i, n - i, gated(load_first(gate + i, n - i, 0), load_first(up + i, n - i, 0)));
}

// gelu(x) = x / 2 (1 + tanh(u)) = x / (1 + e^-2u).
inline Vec gated_by_gelu(Vec gate, Vec up) {
  const Vec minus_2u = mul(mul(gate, fill(-1.5957691f)), fma(mul(gate, gate), fill(0.044715f), fill(1.0f)));
  return mul(div(gate, add(fill(1.0f), exp(minus_2u))), up);
}

inline void geglu(const float* gate, const float* up, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, gated_by_gelu(load(gate + i), load(up + i)));
  if (i < n) store_first(y + i, n - i, gated_by_gelu(load_first(gate + i, n - i, 0), load_first(up + i, n - i, 0)));
}

// tanh(u) = (1 - e^-2|u|) / (1 + e^-2|u|) with the sign of u; within 2 ulp of 1. 0 x: NaN where x is not finite.
inline Vec capped(Vec x, Vec cap) {
  const Vec one = fill(1.0f), u = div(x, cap), size = max(u, sub(zero(), u)), e = exp(mul(size, fill(-2.0f)));
  const Vec t = mul(cap, div(sub(one, e), add(one, e)));
  return fma(x, zero(), choose(greater(u, zero()), t, sub(zero(), t)));
}

inline void soft_cap(float* x, int64_t n, float cap) {
  const Vec c = fill(cap);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(x + i, capped(load(x + i), c));
  if (i < n) store_first(x + i, n - i, capped(load_first(x + i, n - i, 0), c));
}

inline void rotate_halves(float* x, const float* cos, const float* sin, int64_t half) {
  for (int64_t j = 0; j < half; j += kLanes) {
    const int64_t n = half - j < kLanes ? half - j : kLanes;
    const Vec c = load_first(cos + j, n, 0), s = load_first(sin + j, n, 0);
    const Vec p = load_first(x + j, n, 0), q = load_first(x + half + j, n, 0);
    store_first(x + j, n, fma_negative(q, s, mul(p, c)));
    store_first(x + half + j, n, fma(p, s, mul(q, c)));
  }
}

inline void rotate_pairs(float* x, const float* cos, const float* sin, int64_t half) {
  for (int64_t j = 0; j < half; j += kLanes / 2) {
    if (half - j >= kLanes / 2) {
      const Vec v = load(x + 2 * j);
      store(x + 2 * j, fma_alternate(v, load_twice(cos + j), mul(swap_pairs(v), load_twice(sin + j))));
      continue;
    }
    float pairs[kLanes] = {}, c[kLanes / 2] = {}, s[kLanes / 2] = {};
    for (int64_t i = 0; i < half - j; ++i) {
      pairs[2 * i] = x[2 * (j + i)];
      pairs[2 * i + 1] = x[2 * (j + i) + 1];
      c[i] = cos[j + i];
      s[i] = sin[j + i];
    }
    const Vec v = load(pairs);
    store_first(x + 2 * j, 2 * (half - j), fma_alternate(v, load_twice(c), mul(swap_pairs(v), load_twice(s))));
  }
}

inline void rope(float* heads, const RopeArgs& a) {
  for (int64_t h = 0; h < a.heads; ++h)
    (a.adjacent ? rotate_pairs : rotate_halves)(heads + h * a.head_dim, a.cos, a.sin, a.rotary / 2);
}

inline void store_half(const float* x, int64_t n, uint16_t* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_f16(y + i, load(x + i));
  if (i < n) {
    uint16_t last[kLanes];
    store_f16(last, load_first(x + i, n - i, 0));
    for (int64_t j = 0; j < n - i; ++j) y[i + j] = last[j];
  }
}

// Terms are floats (2 ulp), sums are doubles: where one value dominates, its term is exactly 1 and the others keep
// their full float precision beside it. Nothing is masked: a NaN stays one, infinity less itself is one, and so is
// -infinity times its exponential.
inline SoftmaxStats softmax_stats(const float* logits, int64_t n) {
  Vec top = fill(-kInfinity);
  for (int64_t i = 0; i < n; i += kLanes)
    top = max(n - i >= kLanes ? load(logits + i) : load_first(logits + i, n - i, -kInfinity), top);
  float lanes[kLanes], largest = -kInfinity;
  store(lanes, top);
  for (const float lane : lanes) largest = lane > largest ? lane : largest;
  DoubleSum sum, weighted;
  const Vec shift = fill(largest);
  const float beyond = (largest > 0 ? largest : 0) - 3e38f;  // behind the last value: its exponential is zero
  for (int64_t i = 0; i < n; i += kLanes) {
    const Vec d = sub(n - i >= kLanes ? load(logits + i) : load_first(logits + i, n - i, beyond), shift);
    const Vec e = exp(d);
    sum.add(e);
    weighted.add(mul(d, e));
  }
  const double all = weighted.total();
  return {largest, sum.total() + 0 * all, all};
}

// Each lane keeps its two largest, the earlier one where equal; then the lanes are merged by (value, index).
inline Top2 top2(const float* logits, int64_t n) {
  Vec best = fill(-kInfinity), second = best;
  Ints best_at = fill_int(-1), second_at = best_at, at = lane_numbers();
  for (int64_t i = 0; i < n; i += kLanes) {
    const Vec x = n - i >= kLanes ? load(logits + i) : load_first(logits + i, n - i, -kInfinity);
    const Mask over_best = greater(x, best), over_second = greater(x, second);
    second = choose(over_best, best, choose(over_second, x, second));
    second_at = choose(over_best, best_at, choose(over_second, at, second_at));
    best = choose(over_best, x, best);
    best_at = choose(over_best, at, best_at);
    at = add(at, fill_int(kLanes));
  }
  float values[2 * kLanes];
  int indices[2 * kLanes];
  store(values, best);
  store(values + kLanes, second);
  store(indices, best_at);
  store(indices + kLanes, second_at);
  Top2 t{-1, -1, -kInfinity, -kInfinity};
  for (int i = 0; i < 2 * kLanes; ++i) {
    if (indices[i] < 0) continue;
    const auto before = [&](int32_t index, float value) {
      return values[i] > value || (values[i] == value && indices[i] < index);
    };
    if (t.best < 0 || before(t.best, t.best_value)) {
      t = {indices[i], t.best, values[i], t.best_value};
    } else if (t.second < 0 || before(t.second, t.second_value)) {
      t.second = indices[i];
      t.second_value = values[i];
    }
  }
  return t;
}

}  // namespace
}  // namespace llada::kernels::LLADA_VECTOR_NAMESPACE
