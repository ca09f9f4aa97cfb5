// Scaling of queries by position (Llama 4, Ministral 3): those at position p are multiplied by 1 + beta ln(1 + floor(p
// / period)), which is 1 within the first period.
#pragma once
#include <cmath>
#include <cstdint>

namespace llada {

struct QueryScale {
  double beta = 0;     // 0: none
  int64_t period = 1;  // positions, at least 1
  bool operator==(const QueryScale&) const = default;

  double at(int64_t position) const {
    return beta == 0 ? 1 : 1 + beta * std::log1p(static_cast<double>(position / period));
  }
};

}  // namespace llada
