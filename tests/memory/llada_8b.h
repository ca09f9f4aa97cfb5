// The weights of LLaDA-8B in Q4_0 as a forward uses them, and windows for them.
#pragma once
#include <vector>

#include "memory/slabs.h"

namespace llada {

// 32 layers of q, k, v, o (4096 x 4096) and gate, up, down (4096 x 12288) at 18 bytes per 32 values, norms in
// F32, then the head (4096 x 126464).
inline std::vector<WeightUse> llada_8b(bool head) {
  std::vector<WeightUse> uses;
  const auto add = [&](int64_t bytes, int layer, int half) {
    const auto id = static_cast<int32_t>(uses.size());
    uses.push_back({id, bytes, layer, half, id});
  };
  const int64_t square = 4096 * 4096 * 18 / 32, wide = 4096 * 12288 / 32 * 18;
  for (int l = 0; l < 32; ++l) {
    add(4096 * 4, l, 0);
    for (int i = 0; i < 4; ++i) add(square, l, 0);
    add(4096 * 4, l, 1);
    for (int i = 0; i < 3; ++i) add(wide, l, 1);
  }
  if (head) {
    add(4096 * 4, -1, 0);
    add(int64_t{4096} * 126464 / 32 * 18, -1, 0);
  }
  return uses;
}

inline int64_t llada_8b_window(double gib) { return static_cast<int64_t>((gib - 0.3) * 0x1p30); }  // 0.3 GiB of reserve

}  // namespace llada
