// The model's side of decoding steps: turns the plans of one or many requests into the inputs of one forward, runs it,
// hands back to each request what is its own. A request's result does not depend on who else is in its forwards.
//
// A sparse plan is computed before the step's own rows; in what it sees and changes it is as if it had run beside them.
// In time it is charged where the device has one unit; where it has two it runs beside the step on the host
// (Executor::run_beside). A device that really does both at a time gets a second K/V store for it: a copy that the
// sparse rows read and write, brought up to date after every step.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/trace.h"
#include "decode/types.h"
#include "engine/model.h"
#include "memory/kv_store.h"
#include "sched/executor.h"

namespace llada {

class PrefixCache;

// What keys and values are stored as: F16 halves what attention reads; where the weights are exact floats the
// store stays exact too, so that the float path reproduces a reference implementation.
DType kv_type(const Model& model);

// Builds and verifies the programs of a graph, which must outlive it.
Executor::Build build_with(const ModelGraph& graph);

// The K/V of a canvas of so many positions; guided: with a second sequence for the unconditional rows.
KvShape kv_shape(const Model& model, int64_t positions, bool guided);

// What a request keeps from one forward to the next.
struct RequestState {
  // A canvas of `positions`; guided reserves a second K/V sequence for the unconditional rows.
  static Result<RequestState> create(const Model& model, Device& device, int64_t positions, bool guided,
                                     decode::HeadRule rule);
  // Keys and values of more positions from here on; between two forwards.
  Status grow(Device& device, int64_t positions);

  KvStore kv;
  SamplingRule sampling = {};
  bool keep_logits = false;
  // Of the last forward, where they are kept, x vocabulary: predictions, then trials; sparse trials.
  std::vector<float> logits = {}, sparse_logits = {};
  std::optional<KvStore> beside_kv = {};  // equal to kv before every step; of a device that runs sparse plans beside
};

// One request's part of a forward; the pointers live until the forward is done.
struct RequestStep {
  const decode::StepPlan* plan;
  RequestState* state;
  int64_t forward_number;  // of the request, from 0; a sparse plan that is not empty takes the number after it
};

class ModelRunner {
 public:
  ModelRunner(const Model& model, Device& device, Trace* trace, ExecutorOptions executor);
  ~ModelRunner() { executor_.join_beside(); }  // what runs beside writes into this object
  ModelRunner(const ModelRunner&) = delete;
  ModelRunner& operator=(const ModelRunner&) = delete;

  // One forward of all steps, whose states are different ones; results in their order. Damaged numbers are an error of
  // the requests that have them alone. Where the forward itself fails, every request's part is run again alone, so that
  // an error is the error of that request.
  std::vector<Result<decode::StepResult>> run(std::span<const RequestStep> steps);

  bool fell_back() const { return executor_.fell_back(); }  // the device failed, its fallback took over
  // Of a device that has failed nothing is kept, and nothing used: what computes now may round otherwise. Null then.
  PrefixCache* usable(PrefixCache* prefixes) const { return fell_back() ? nullptr : prefixes; }
  const MoeStats* expert_stats() const { return executor_.expert_stats(); }
  double device_seconds() const { return device_seconds_; }

 private:
  struct Active;
  struct Part;
  Status check_keys(const RequestStep& step) const;
  Status bind(const Part& part, StepInputs& inputs) const;
  Status bind_all(std::span<Active* const> steps, bool sparse, StepInputs& inputs);
  Status run_together(std::span<Active* const> steps);
  Status run_sparse(std::span<Active* const> steps);
  Status begin_beside(std::span<Active* const> steps);

  const Model& model_;
  Executor executor_;
  Trace* trace_;
  StepInputs inputs_, beside_inputs_;
  StepOutputs outputs_, beside_outputs_;
  std::vector<Status> streams_, beside_streams_;  // of the executor's last passes
  double device_seconds_ = 0;
};

// One request alone.
class SingleRunner final : public decode::StepRunner {
 public:
  static Result<std::unique_ptr<SingleRunner>> create(const Model& model, Device& device, int64_t positions,
                                                      bool guided, decode::HeadRule rule, Trace* trace,
                                                      ExecutorOptions executor = {});

  Result<decode::StepResult> run(const decode::StepPlan& plan, int64_t forward_number) override;
  RequestState& state() { return state_; }

 private:
  SingleRunner(const Model& model, Device& device, RequestState state, Trace* trace, ExecutorOptions executor)
      : state_(std::move(state)), runner_(model, device, trace, std::move(executor)) {}
  RequestState state_;
  ModelRunner runner_;
};

}  // namespace llada
