// Upper bounds on the bytes that a session's address space must hold beside the weights, from a program's shape. A
// window for weights leaves this room and no more. A test holds the device's buffers to them.
#pragma once
#include <cstdint>
#include <span>

#include "graph/program.h"

namespace llada {

struct HexagonReserve {
  int64_t process = 0;  // code, stacks, messages, and room between buffers
  int64_t arena = 0;    // activations
  int64_t kv = 0;       // keys and values in F16
  int64_t staging = 0;  // step data, predictions; logits of kLogitRows rows where they are kept
  int64_t scratch = 0;  // of the kernels
  int64_t divided = 0;  // rows that cross where products are divided between DSP and host
  int64_t total() const { return process + arena + kv + staging + scratch + divided; }
};

inline constexpr int64_t kLogitRows = 32;
inline constexpr int64_t kFirstScratch = int64_t{4} << 20;  // a device's first scratch

// For steps with up to the program's rows over keys and values of one sequence of `positions`.
// divides: whether products are divided.
HexagonReserve hexagon_reserve(const Program& program, std::span<const WeightInfo> infos, int64_t positions,
                               bool divides = false);

}  // namespace llada
