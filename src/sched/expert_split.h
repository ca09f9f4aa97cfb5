// Between a layer's router and its experts: reads from the device what the router decided, asks moe_run for the
// plan, and hands it to the run of the experts op. Also where routing is listened to (recordings). One per run
// of steps; it says nothing about what is computed, only where and when.
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
  std::optional<ExpertCosts> costs;  // none: nothing is planned, the routing is only listened to
  MoeOptions moe;                    // of slices where the costs are
  // What the router of layer + ahead (both of those with experts) would say of the rows that layer's router
  // was given (rows x width); absent: nothing is guessed.
  std::function<LayerRouting(int32_t layer, int32_t ahead, std::span<const float> x, int64_t rows)> guess;
  std::function<Status(const RoutedLayer&)> listen;
};

class ExpertSplit {
 public:
  explicit ExpertSplit(ExpertSplitOptions options);

  void begin_step(const StepInputs& inputs);
  // The op is a layer's experts, and everything before it has been waited for. Null: as the device likes.
  Result<const ExpertsPlan*> plan(Device& device, const Program& program, const Op& op, const StepInputs& inputs);

  const MoeStats& stats() const { return runtime_->stats(); }
  bool plans() const { return runtime_.has_value(); }

 private:
  ExpertSplitOptions options_;
  std::optional<MoeRuntime> runtime_;
  std::vector<int32_t> positions_;  // of the step before
  ExpertsPlan plan_;
};

}  // namespace llada
