// YaRN (arXiv 2309.00071) as model files publish it: rotary positions for contexts longer than the model was trained
// with at first. Pairs of elements that turn more than beta_fast times within the original context stay as they are.
// Those that turn less than beta_slow times turn `factor` times slower. Between them lies a ramp whose ends are whole
// pairs. The frequencies that follow are made in graph/rope.h.
#pragma once
#include <cstdint>
#include <optional>

namespace llada {

struct Yarn {
  double factor = 1;             // new context over the original one, at least 1
  int64_t original_context = 0;  // positions
  double beta_fast = 32, beta_slow = 1;
  std::optional<double> attention_factor = {};  // on cosines and sines; absent: 0.1 ln(factor) + 1
  bool operator==(const Yarn&) const = default;
};

}  // namespace llada
