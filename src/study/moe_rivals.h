// What HybriMoE's released code and hindsight would do with experts, to be compared with sched's rules.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sched/moe_cache.h"

namespace llada {

// As HybriMoE's released code guesses: the experts of the highest scores of MRS, as many as the present layer has, and
// here with the same rows.
class ScoreGuesses {
 public:
  ScoreGuesses(int32_t layers, int32_t experts, CacheOptions options);
  void observe(int32_t layer, const LayerRouting& routing) { scores_.observe(layer, routing); }
  LayerRouting guess(int32_t layer, const LayerRouting& present) const;

 private:
  ExpertCache scores_;
};

// Hits of one layer over its steps with Belady's rule: the resident goes that is wanted again last, or the newcomer
// does not come in. The first `slots` experts are there at the start.
int64_t belady_hits(std::span<const LayerRouting* const> steps, int32_t slots);

}  // namespace llada
