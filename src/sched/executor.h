// From a step shape to results: builds (or finds) the program and submits it in runs. A run ends where another unit
// computes, or where other slabs have to be mapped. Where a mapping is refused it plans again for a smaller window.
// When the device fails and there is a fallback, the fallback takes over for good. It runs the failed step or side pass
// again from its beginning. A step's K/V is written before it is read, so rows that the failed device wrote do not
// matter.
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
  std::optional<ExpertSplitOptions> experts = {};     // experts split between units, or routing reported
  Device* fallback = nullptr;                         // over the same weights; used from the first failure on
  std::function<void(const std::string&)> warn = {};  // one line, once, when the fallback takes over; may be empty
};

// Programs that an executor keeps. The distinct shapes of one run: full forwards, block forwards, and one per number of
// wanted rows within a block.
inline constexpr size_t kRecentShapes = 48;

// Checks that a step is consistent, so that devices may index by its contents. Spans cover the rows, positions and
// ranges lie in their stores, predictions name wanted rows of one stream. needed: the geometry that the program needs
// of a store; stores are not checked where it needs none. Time: rows and streams.
Status check_step(const StepInputs& inputs, const KvGeometry& needed);

// A forward of the sparse path, on the host beside the steps that follow: one or many streams.
struct SidePass {
  StepInputs inputs;
  std::vector<std::shared_ptr<KvStore>> stores = {};  // of the inputs, where nobody else keeps them
  StepOutputs outputs = {};                           // once it has landed
  std::vector<Status> streams = {};                   // likewise: a status per stream

 private:
  friend class Executor;
  Device* device = nullptr;           // that computes it
  Ticket ticket = 0;                  // of the device; 0: it has been waited for
  bool computed = false;              // the numbers are there, whatever the device's time says
  Status ended = {};                  // the device's status of it
  std::optional<Status> joined = {};  // the status that join() returns
};

class Executor {
 public:
  using Build = std::function<Result<std::shared_ptr<const Program>>(StepShape)>;

  Executor(Device& device, Build build) : Executor(device, std::move(build), ExecutorOptions{}) {}
  Executor(Device& device, Build build, ExecutorOptions options)
      : device_(&device), can_(device.capabilities()), build_(std::move(build)), options_(std::move(options)) {}

  // One forward over the K/V stores of the streams. inputs.wanted may be empty: then only K/V is refreshed. After an
  // error the next call may be made. streams: gets a status per stream; damaged numbers are then told there alone.
  // null: the first damaged stream is the call's error.
  Status run(const StepInputs& inputs, StepOutputs& outputs, std::vector<Status>* streams = nullptr);

  // Begins a pass. Where the device really computes it beside the steps (overlaps_side_passes()) its stores must be
  // others than theirs, and the executor keeps it until it has ended. Elsewhere its numbers are there on return: on a
  // device with one unit it simply runs first, and a simulated one lets it take emulated time.
  Status begin_side_pass(std::shared_ptr<SidePass> pass);
  // True if join() returns immediately.
  bool is_ready(const SidePass& pass) const;
  // Waits for its results. The same status in every call; that of damaged numbers is told by stream alone.
  Status join(SidePass& pass);

  // Memory for a K/V store that the device can use like those of steps.
  SharedBytes allocate(int64_t bytes) { return device_->allocate(bytes); }

  bool overlaps_side_passes() const { return can_.side_passes != nullptr && can_.side_passes->overlaps(); }
  // Waits for all passes; ignores their errors.
  void drain();

  // Maps the slabs that stay mapped, so that the first step does not pay for it. run() does it too.
  Status prepare();

  // Null before the first step and on devices that need no mapping.
  const ResidencyPlan* plan() const { return memory_ ? &memory_->plan() : nullptr; }
  bool fell_back() const { return fell_back_; }
  // Null where no experts are split between units.
  const MoeStats* expert_stats() const { return split_ && split_->plans() ? &split_->stats() : nullptr; }

 private:
  struct Prepared {
    std::shared_ptr<const Program> program;
    std::vector<MemoryRuntime::Segment> segments;
    KvGeometry kv;
  };
  // A step or a side pass, and where the statuses of its streams go.
  struct Forward {
    const StepInputs* inputs;
    StepOutputs* outputs;
    std::vector<Status>* streams;
  };
  void begin_experts();
  Result<std::shared_ptr<const Program>> build(StepShape shape) const;  // that the device supports
  Result<std::shared_ptr<const Prepared>> program(StepShape shape);
  // The program of a forward, whose inputs are checked and whose outputs are empty then.
  Result<std::shared_ptr<const Prepared>> prepared_for(const Forward& forward);
  // After the forward: checks that every requested prediction is there, sets its position, and reports NaNs per stream.
  Status finish(const Forward& forward) const;
  Status submit_side_pass(SidePass& pass);
  static void wait_for(SidePass& pass);
  void drop_ended();
  // Retries `attempt` with a smaller window as long as the device refuses mappings.
  Status while_narrower(Status ended, const std::function<Status()>& attempt);
  // Switches to the fallback after a failure; returns `error` where there is none.
  Status fall_back(const Error& error);
  bool dry() const { return can_.clock != nullptr && can_.clock->dry(); }

  Device* device_;
  Capabilities can_;  // of device_
  Build build_;
  ExecutorOptions options_;
  std::optional<MemoryRuntime> memory_;
  std::optional<ExpertSplit> split_;
  int64_t expert_run_ = 0;                            // of the device, that split_ keeps the books of
  std::vector<std::shared_ptr<SidePass>> under_way_;  // that really run beside
  bool prepared_ = false, fell_back_ = false;
  Recent<StepShape, Prepared> recent_{kRecentShapes};
};

}  // namespace llada
