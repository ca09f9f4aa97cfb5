// Between a layer's router and its experts: reads the router's decision from the device, asks moe_run for the plan, and
// hands it to the run of the experts op. Also for runs that only record routing. One per run of steps; it decides where
// and when experts are computed, never their results.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "devices/device.h"
#include "graph/program.h"
#include "sched/moe_run.h"

namespace llada {

// One layer's routing as it was: `gates` is rows x experts, 0 where an expert was not chosen.
struct RoutedLayer {
  int32_t layer = 0;  // of those with experts, from 0
  std::span<const int32_t> positions;
  std::span<const float> gates;
  int32_t experts = 0;
};

struct ExpertSplitOptions {
  int32_t first_layer = 0;  // the program's layer that is the first with experts
  int32_t layers = 0, experts = 0;
  std::optional<ExpertCosts> costs;  // none: the routing is only reported to `listen`
  MoeOptions moe;                    // of slices where the costs are
  // Guesses the routing of the layers after `layer` (of those with experts), nearest first, at most `most` of them.
  // Their routers get the rows that this layer's router was given (rows x width). Absent: nothing is guessed.
  std::function<std::vector<LayerRouting>(int32_t layer, int32_t most, std::span<const float> x, int64_t rows)> guess;
  std::function<Status(const RoutedLayer&)> listen;
};

class ExpertSplit {
 public:
  explicit ExpertSplit(ExpertSplitOptions options);

  void begin_step();
  // The plan of a layer's experts op; everything before the op has been waited for. Null: the device decides.
  Result<const ExpertsPlan*> plan(Device& device, const Program& program, const Op& op, const StepInputs& inputs);

  const MoeStats& stats() const { return runtime_->stats(); }
  const LayerClock& clock() const { return clock_; }  // that the last layer was planned by
  bool plans() const { return runtime_.has_value(); }

 private:
  ExpertSplitOptions options_;
  std::optional<MoeRuntime> runtime_;
  ExpertsPlan plan_;
  double planned_at_s_ = 0;  // the last layer; 0: none of this step
  LayerClock clock_;
};

}  // namespace llada
