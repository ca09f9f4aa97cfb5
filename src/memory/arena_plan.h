// Static placement of temporaries in one arena: greedy by size. Each buffer gets the lowest offset at which it overlaps
// no buffer that lives at the same time. The largest comes first, because large ones are hardest to fit (Pisarchyk and
// Lee, 2020).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace llada {

struct Lifetime {
  int64_t bytes = 0;
  int32_t first = 0, last = 0;  // op indices, inclusive
};

struct ArenaPlan {
  std::vector<int64_t> offsets;  // multiples of 64 bytes
  int64_t bytes = 0;
};

ArenaPlan plan_arena(std::span<const Lifetime> buffers);

}  // namespace llada
