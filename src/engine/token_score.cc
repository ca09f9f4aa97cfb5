#include "engine/token_score.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <ranges>

namespace llada {

LogSoftmax::LogSoftmax(std::span<const float> logits) : logits_(logits), top_(*std::ranges::max_element(logits)) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top_);
  log_sum_ = std::log(sum);
}

double log_probability(std::span<const float> logits, int32_t token) { return LogSoftmax(logits)[token]; }

TokenScore score_of(std::span<const float> logits, int32_t token, int64_t top, std::span<const int32_t> without) {
  TokenScore score{token, log_probability(logits, token)};
  if (top == 0) return score;
  std::vector<int32_t> ids;
  std::ranges::set_difference(std::views::iota(0, static_cast<int32_t>(logits.size())), without,
                              std::back_inserter(ids));
  const auto count = std::min(static_cast<size_t>(top), ids.size());
  const auto better = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::ranges::partial_sort(ids, ids.begin() + static_cast<std::ptrdiff_t>(count), better);
  // The others' from their distance to the token, whose sum over the vocabulary is done.
  const float own = logits[static_cast<size_t>(token)];
  for (const int32_t id : std::span(ids).first(count))
    score.top.push_back({id, score.log_probability + (static_cast<double>(logits[static_cast<size_t>(id)]) - own)});
  return score;
}

}  // namespace llada
