// A recording of routing. What is accepted has to be whole: every step with all its layers, rows that add up,
// finite scores, statistics that can be printed; and the same in slices. Seeds: make_seeds.cc.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "study/moe_routing.h"

using namespace llada;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto trace = parse_routing({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!trace) return 0;
  const auto experts = static_cast<size_t>(trace->experts);
  require(!trace->steps.empty() && trace->history.size() == static_cast<size_t>(trace->layers));
  for (const RoutingStep& step : trace->steps) {
    require(step.layers.size() == static_cast<size_t>(trace->layers) && step.rows > 0);
    for (const LayerRouting& layer : step.layers) {
      require(layer.rows.size() == experts && layer.score.size() == experts);
      for (const int32_t rows : layer.rows) require(rows >= 0 && rows <= 1 << 16);
      const auto chosen = std::accumulate(layer.rows.begin(), layer.rows.end(), int64_t{0});
      require(chosen <= int64_t{trace->used} << 16);
      for (const float score : layer.score) require(std::isfinite(score));
    }
  }
  const TraceStatistics s = statistics(*trace);
  for (const double value : {s.rows, s.touched, s.static_quarter, s.similarity_1, s.similarity_5})
    require(std::isfinite(value) && value >= 0);
  require(s.touched <= 1 && s.static_quarter <= 1);
  if (experts <= 64) require(sliced(trace->steps.front().layers.front(), 2).rows.size() == 2 * experts);
  return 0;
}
