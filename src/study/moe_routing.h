// Routing for simulations: the experts that each layer's router chooses, step by step. It is either synthetic with
// stated statistics or recorded from a model that ran (`llada run --record-routing`, docs/lab/recording.md).
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sched/moe_cache.h"
#include "study/moe_geometry.h"

namespace llada {

inline constexpr int kAhead = 3;  // layers that a guess reaches

struct RoutingStep {
  bool block_start = false;
  int32_t rows = 0;
  std::vector<LayerRouting> layers;
  // Per layer, guesses for the next layers made there; short or empty where there are none.
  std::vector<std::vector<LayerRouting>> ahead;
};

struct RoutingTrace {
  int32_t layers = 0, experts = 0, used = 0;
  std::vector<RoutingStep> steps;
  std::vector<LayerRouting> history;  // per layer, summed over other texts: the knowledge of a static mapping
};

// Statistics of a trace, printed beside every result.
struct TraceStatistics {
  double rows = 0;                            // per step
  double touched = 0;                         // share of the experts that a step wants
  double static_quarter = 0;                  // share of the trace's rows of the history's most popular quarter
  double similarity_1 = 0, similarity_5 = 0;  // cosine of a layer's loads one and five steps apart
  std::array<double, kAhead> guessed = {};    // share of the wanted experts that a guess named
};
TraceStatistics statistics(const RoutingTrace& trace);

// Autoregressive: `count` tokens, one row each (decode).
RoutingTrace decode_trace(const MoeGeometry& geometry, int32_t count, uint64_t seed);
// `count` prompts of `rows` rows, one step each (prefill).
RoutingTrace prefill_trace(const MoeGeometry& geometry, int32_t count, int32_t rows, uint64_t seed);
// `count` blocks of `block` rows, `steps` denoising steps each; rows are decided evenly over the steps, and a
// row's part of the score is drawn anew when it is decided.
RoutingTrace diffusion_trace(const MoeGeometry& geometry, int32_t count, int32_t block, int32_t steps, uint64_t seed);

// Recorded routing: JSON lines; errors name the line. A line of a few bytes takes memory for all experts, so their
// number summed over all lines has a bound (half a gigabyte).
inline constexpr int64_t kMostRoutingCells = int64_t{1} << 26;
Result<RoutingTrace> parse_routing(std::string_view text, const std::string& origin,
                                   int64_t most_cells = kMostRoutingCells);
Result<RoutingTrace> read_routing(const std::string& path);

}  // namespace llada
