// How probable a token is in one place, and which others would have been there: read off a row of logits.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace llada {

struct TokenScore {
  struct Alternative {
    int32_t token;
    double log_probability;
  };
  int32_t token = -1;
  double log_probability = 0;         // nats; of a Monte Carlo score the token's share of the estimate
  std::vector<Alternative> top = {};  // best first, ties by id
};

// log softmax of one row of logits, in double.
class LogSoftmax {
 public:
  explicit LogSoftmax(std::span<const float> logits);
  double operator[](int32_t token) const { return logits_[static_cast<size_t>(token)] - top_ - log_sum_; }

 private:
  std::span<const float> logits_;
  double top_, log_sum_;
};
double log_probability(std::span<const float> logits, int32_t token);

// The token with the `top` best ones of its row, of which `without` (ascending) are none.
TokenScore score_of(std::span<const float> logits, int32_t token, int64_t top, std::span<const int32_t> without = {});

// One row of logits of many.
inline std::span<const float> logits_row(std::span<const float> logits, size_t row, int64_t vocab) {
  return logits.subspan(row * static_cast<size_t>(vocab), static_cast<size_t>(vocab));
}

}  // namespace llada
