#include "graph/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace llada {
namespace {

constexpr int64_t kMostRotary = 32766;

bool positive(double x) { return std::isfinite(x) && x > 0; }

Status check(const RopeRule& r) {
  if (r.rotary < 2 || r.rotary % 2 != 0 || r.rotary > kMostRotary)
    return invalid("rope: {} rotary dimensions, an even number from 2 to {} needed", r.rotary, kMostRotary);
  if (!positive(r.theta)) return invalid("rope: theta is {}, a finite positive number needed", r.theta);
  if (!r.divisors.empty() && std::ssize(r.divisors) != r.rotary / 2)
    return invalid("rope: {} frequency factors, {} needed", r.divisors.size(), r.rotary / 2);
  for (const float d : r.divisors)
    if (!positive(static_cast<double>(d)))
      return invalid("rope: a frequency factor is {}, finite positive numbers needed", d);
  if (!(std::isfinite(r.scale.beta) && r.scale.beta >= 0 && r.scale.period >= 1))
    return invalid("rope: queries are scaled by {} in every {} positions, 0 or more in 1 or more needed", r.scale.beta,
                   r.scale.period);
  if (!r.yarn) return {};
  const Yarn& y = *r.yarn;
  if (!std::isfinite(y.factor) || y.factor < 1) return invalid("rope: YaRN's factor is {}, 1 or more needed", y.factor);
  if (y.original_context < 1)
    return invalid("rope: YaRN's original context is {}, 1 or more needed", y.original_context);
  if (!positive(y.beta_fast) || !positive(y.beta_slow) || y.beta_fast < y.beta_slow)
    return invalid("rope: YaRN's beta_fast is {} and beta_slow {}, beta_fast >= beta_slow > 0 needed", y.beta_fast,
                   y.beta_slow);
  if (y.attention_factor && !positive(*y.attention_factor))
    return invalid("rope: YaRN's attention factor is {}, a finite positive number needed", *y.attention_factor);
  if (r.theta <= 1) return invalid("rope: theta is {}, more than 1 needed for YaRN", r.theta);
  return {};
}

// The pair, as a real number, that turns `turns` times within the original context.
double pair_of(double turns, const RopeRule& r) {
  const auto context = static_cast<double>(r.yarn->original_context);
  return static_cast<double>(r.rotary) * std::log(context / (turns * 2 * std::numbers::pi)) / (2 * std::log(r.theta));
}

}  // namespace

Result<Rope> make_rope(const RopeRule& r) {
  LLADA_TRY_STATUS(check(r));
  Rope rope{.rotary = static_cast<int16_t>(r.rotary), .adjacent = r.adjacent, .frequencies = {}, .scale = r.scale};
  const int64_t pairs = r.rotary / 2;
  for (int64_t j = 0; j < pairs; ++j) {
    double f = std::pow(r.theta, -2.0 * static_cast<double>(j) / static_cast<double>(r.rotary));
    if (!r.divisors.empty()) f /= static_cast<double>(r.divisors[static_cast<size_t>(j)]);
    rope.frequencies.push_back(f);
  }
  if (!r.yarn) return rope;
  const Yarn& y = *r.yarn;
  const double low = std::max(std::floor(pair_of(y.beta_fast, r)), 0.0);
  double high = std::min(std::ceil(pair_of(y.beta_slow, r)), static_cast<double>(r.rotary - 1));
  if (high == low) high += 0.001;  // a step instead of a ramp
  for (int64_t j = 0; j < pairs; ++j) {
    const double slowed = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
    double& f = rope.frequencies[static_cast<size_t>(j)];
    f = f * (1 - slowed) + f / y.factor * slowed;
  }
  rope.magnitude = y.attention_factor.value_or(y.factor > 1 ? 0.1 * std::log(y.factor) + 1 : 1.0);
  return rope;
}

}  // namespace llada
