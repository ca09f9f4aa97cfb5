// From a step shape to results: builds (or finds) the program, cuts it into runs by the unit that computes them and by
// the slabs that have to be mapped, and submits them in order. When the device fails and there is a fallback, the
// fallback takes over for good, and what failed is run again on it from its beginning: the step, the one beside it, or
// both. A step's K/V is written before it is read, so what the failed device left behind does not show.
//
// Results that are not finite numbers are no failure of the device: a damaged weight or activation gives them on any.
// They are errors (ErrorKind::data) of the streams that have them; the other streams' results stand. Nor is it the
// device's failure where this machine has no memory for the step (ErrorKind::memory).
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/recent.h"
#include "devices/device.h"
#include "graph/program.h"
#include "sched/expert_split.h"
#include "sched/memory_runtime.h"

namespace llada {

struct ExecutorOptions {
  MemoryOptions memory = {};                          // for a device with a window
  std::optional<ExpertSplitOptions> experts = {};     // experts shared out between units, or routing listened to
  Device* fallback = nullptr;                         // over the same weights; used from the first failure on
  std::function<void(const std::string&)> warn = {};  // one line, once, when the fallback takes over; may be empty
};

// Programs that an executor keeps. The distinct shapes of one run: full forwards, block forwards, and one per number of
// wanted rows within a block.
inline constexpr size_t kRecentShapes = 48;

class Executor {
 public:
  using Build = std::function<Result<std::shared_ptr<const Program>>(StepShape)>;

  Executor(Device& device, Build build) : Executor(device, std::move(build), ExecutorOptions{}) {}
  Executor(Device& device, Build build, ExecutorOptions options)
      : device_(&device), can_(device.capabilities()), build_(std::move(build)), options_(std::move(options)) {}

  // One forward over the K/V stores of the streams. inputs.wanted may be empty: then only K/V is refreshed. The call
  // also waits for the forward that run_beside() began, and fails where that one failed. After an error nothing is
  // under way, and the next call may be made. streams: gets a status per stream; damaged numbers are then told there
  // alone. null: the first damaged stream is the call's error.
  Status run(const StepInputs& inputs, StepOutputs& outputs, std::vector<Status>* streams = nullptr);

  // The sparse path: a forward on the host that runs beside the following run(). Where the device really does both at a
  // time (runs_beside()) its numbers are there when that run() returns, the stores must be others than the run's, and
  // inputs, outputs and streams must live until then. Elsewhere they are there on return: on a device with one unit it
  // simply runs first, and a simulated one lets it take until the end of the run after the following one.
  Status run_beside(const StepInputs& inputs, StepOutputs& outputs, std::vector<Status>* streams = nullptr);

  bool runs_beside() const { return can_.beside != nullptr && can_.beside->overlaps(); }
  // For whoever will not call run() after run_beside(): waits for what runs beside, whatever comes of it.
  void join_beside() { static_cast<void>(finish_beside()); }

  // Maps what stays mapped, so that the first step does not pay for it. run() does it too.
  Status prepare();

  // Null before the first step and on devices that need no mapping.
  const ResidencyPlan* plan() const { return memory_ ? &memory_->plan() : nullptr; }
  bool fell_back() const { return fell_back_; }
  // Null where no experts are shared out.
  const MoeStats* expert_stats() const { return split_ && split_->plans() ? &split_->stats() : nullptr; }

 private:
  struct Prepared {
    std::shared_ptr<const Program> program;
    std::vector<MemoryRuntime::Stretch> stretches;
    KvGeometry kv;
  };
  // A step, or what runs beside one, with whoever hears of its streams.
  struct Forward {
    const StepInputs* inputs;
    StepOutputs* outputs;
    std::vector<Status>* streams;
  };
  void begin_experts();
  Result<std::shared_ptr<const Program>> build(StepShape shape) const;  // that the device supports
  Result<std::shared_ptr<const Prepared>> program(StepShape shape);
  Status run_once(const Forward& forward);
  Status run_stretches(const Forward& forward);
  Status finish_beside();
  // There is one prediction for each that was asked for; each is given its position, and what is no number is told.
  Status finish_results(const Forward& forward) const;
  Status submit_beside(const Forward& forward);
  Status start_beside(const Forward& forward);
  // After a failure: the fallback takes over. Where there is none to take over, that error.
  Status fall_back(const Error& error);
  bool dry() const { return can_.clock != nullptr && can_.clock->dry(); }

  Device* device_;
  Capabilities can_;  // of device_
  Build build_;
  ExecutorOptions options_;
  std::optional<MemoryRuntime> memory_;
  std::optional<ExpertSplit> split_;
  int64_t expert_run_ = 0;                 // of the device, that split_ keeps the books of
  Ticket last_ = 0;                        // of the step's last run
  std::optional<Forward> under_way_;       // what really runs beside
  Ticket beside_ = 0, beside_before_ = 0;  // sparse passes of this step and of the one before
  bool prepared_ = false, fell_back_ = false;
  Recent<StepShape, Prepared> recent_{kRecentShapes};
};

}  // namespace llada
