// How keys and values of one layer are cut.
#pragma once
#include <cstdint>

namespace llada {

struct KvHeads {
  int32_t heads = 0, head_dim = 0;
  bool operator==(const KvHeads&) const = default;
};

}  // namespace llada
