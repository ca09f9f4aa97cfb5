#include "tensor/fit.h"

#include <algorithm>
#include <cmath>

namespace llada {
namespace {

constexpr int kMostGroup = 32;

// Of integers q for x: the sums of weight * x * q and weight * q * q. Their quotient is the best scale for these q, and
// xq^2 / qq is by how much it lowers the error.
struct Sums {
  float xq = 0, qq = 0;

  void add(float weight, float x, int q) {
    const auto level = static_cast<float>(q);
    xq += weight * x * level;
    qq += weight * level * level;
  }
  float scale() const { return qq > 0.0f ? xq / qq : 0.0f; }
  bool better_than(const Sums& other) const { return xq * xq * other.qq > other.xq * other.xq * qq; }
};

// Moves one q at a time to its best place for the scale that the others have, while that helps.
template <class Q>
Sums improved(Sums sums, const float* x, const auto& weight, int n, int lowest, int highest, Q* q) {
  for (int round = 0; round < 5; ++round) {
    bool moved = false;
    for (int i = 0; i < n; ++i) {
      const auto level = static_cast<float>(q[i]);
      const float w = weight(i);
      Sums others{sums.xq - w * x[i] * level, sums.qq - w * level * level};
      if (!(others.xq > 0) || (lowest == 0 && !(others.qq > 0))) continue;
      const int best = std::clamp(nearest(x[i] * others.qq / others.xq), lowest, highest);
      if (best == q[i]) continue;
      others.add(w, x[i], best);
      if (!(others.qq > 0) || !others.better_than(sums)) continue;
      q[i] = static_cast<Q>(best);
      sums = others;
      moved = true;
    }
    if (!moved) break;
  }
  return sums;
}

}  // namespace

float signed_extreme(const float* x, int n) {
  float largest = 0, extreme = 0;
  for (int i = 0; i < n; ++i)
    if (largest < std::fabs(x[i])) {
      largest = std::fabs(x[i]);
      extreme = x[i];
    }
  return extreme;
}

float fit_symmetric(const float* x, const float* weights, int n, int half, int8_t* q) {
  const float extreme = signed_extreme(x, n);
  std::fill_n(q, n, int8_t{0});
  if (std::fabs(extreme) < kNoScale) return 0;
  const auto weight = [&](int i) { return weights != nullptr ? weights[i] : x[i] * x[i]; };
  const auto level = [&](float inverse, int i) { return std::clamp(nearest(inverse * x[i]), -half, half - 1); };
  const auto take = [&](float inverse) {
    for (int i = 0; i < n; ++i) q[i] = static_cast<int8_t>(level(inverse, i) + half);
  };
  const auto sums_of = [&](float inverse) {
    Sums sums;
    for (int i = 0; i < n; ++i) sums.add(weight(i), x[i], level(inverse, i));
    return sums;
  };
  float inverse = static_cast<float>(-half) / extreme;
  Sums sums = sums_of(inverse);
  take(inverse);
  float scale = sums.qq != 0 ? sums.xq / sums.qq : 0.0f, best = scale * sums.xq;
  for (int step = -9; step <= 9; ++step) {
    if (step == 0) continue;
    inverse = -(static_cast<float>(half) + 0.1f * static_cast<float>(step)) / extreme;
    sums = sums_of(inverse);
    if (!(sums.qq > 0 && sums.xq * sums.xq > best * sums.qq)) continue;
    take(inverse);
    scale = sums.xq / sums.qq;
    best = scale * sums.xq;
  }
  return scale;
}

float fit_symmetric_by_turns(const float* x, int n, int half, int8_t* q) {
  const float extreme = signed_extreme(x, n);
  std::fill_n(q, n, int8_t{0});
  if (std::fabs(extreme) < kNoScale) return 0;
  const float inverse = static_cast<float>(-half) / extreme;
  const auto weight = [&](int i) { return x[i] * x[i]; };
  Sums sums;
  for (int i = 0; i < n; ++i) {
    q[i] = static_cast<int8_t>(std::clamp(nearest(inverse * x[i]), -half, half - 1));
    sums.add(weight(i), x[i], q[i]);
  }
  sums = improved(sums, x, weight, n, -half, half - 1, q);
  for (int i = 0; i < n; ++i) q[i] = static_cast<int8_t>(q[i] + half);
  return sums.scale();
}

float fit_positive(const float* x, const float* weights, int n, int top, uint8_t* q) {
  const float largest = std::max(0.0f, *std::max_element(x, x + n));
  std::fill_n(q, n, uint8_t{0});
  if (largest < kNoScale) return 0;
  const auto level = [&](float inverse, int i) { return std::min(nearest(inverse * x[i]), top); };
  const auto error = [&](float inverse) {
    const float scale = 1 / inverse;
    float sum = 0;
    for (int i = 0; i < n; ++i) {
      const float off = x[i] - scale * static_cast<float>(level(inverse, i));
      sum += weights[i] * off * off;
    }
    return sum;
  };
  float inverse = static_cast<float>(top) / largest, least = error(inverse);
  for (int step = -4; step <= 4; ++step) {
    if (step == 0) continue;
    const float other = (0.1f * static_cast<float>(step) + static_cast<float>(top)) / largest;
    const float got = error(other);
    if (!(got < least)) continue;
    least = got;
    inverse = other;
  }
  Sums sums;
  for (int i = 0; i < n; ++i) {
    const int l = level(inverse, i);
    q[i] = static_cast<uint8_t>(l);
    sums.add(weights[i], x[i], l);
  }
  return improved(sums, x, [&](int i) { return weights[i]; }, n, 0, top, q).scale();
}

ScaleAndMin fit_scale_and_min(const float* x, const float* weights, int n, int top, const ScaleSearch& search,
                              uint8_t* q) {
  float low = x[0], high = x[0], sum_w = weights[0], sum_x = weights[0] * x[0];
  for (int i = 1; i < n; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
    sum_w += weights[i];
    sum_x += weights[i] * x[i];
  }
  if (low > 0) low = 0;
  std::fill_n(q, n, uint8_t{0});
  if (!(high > low)) return {0, -low};
  uint8_t tried[kMostGroup];
  const auto round_all = [&](float inverse) {
    for (int i = 0; i < n; ++i) tried[i] = static_cast<uint8_t>(std::clamp(nearest(inverse * (x[i] - low)), 0, top));
  };
  const auto error = [&](float scale, float min) {
    float sum = 0;
    for (int i = 0; i < n; ++i) {
      const float off = scale * static_cast<float>(tried[i]) + min - x[i];
      sum += weights[i] * (search.absolute ? std::fabs(off) : off * off);
    }
    return sum;
  };
  const float first = static_cast<float>(top) / (high - low);
  round_all(first);
  std::copy_n(tried, n, q);
  float scale = 1 / first, least = error(scale, low);
  for (int step = 0; step <= search.count; ++step) {  // from the best minimum so far on
    round_all((search.from + search.step * static_cast<float>(step) + static_cast<float>(top)) / (high - low));
    float sum_q = 0, sum_qq = 0, sum_xq = 0;
    for (int i = 0; i < n; ++i) {
      const auto level = static_cast<float>(tried[i]);
      sum_q += weights[i] * level;
      sum_qq += weights[i] * level * level;
      sum_xq += weights[i] * level * x[i];
    }
    const float determinant = sum_w * sum_qq - sum_q * sum_q;
    if (!(determinant > 0)) continue;
    float new_scale = (sum_w * sum_xq - sum_x * sum_q) / determinant;
    float new_min = (sum_qq * sum_x - sum_q * sum_xq) / determinant;
    if (new_min > 0) {
      new_min = 0;
      new_scale = sum_xq / sum_qq;
    }
    const float got = error(new_scale, new_min);
    if (!(got < least)) continue;
    std::copy_n(tried, n, q);
    least = got;
    scale = new_scale;
    low = new_min;
  }
  return {scale, -low};
}

}  // namespace llada
