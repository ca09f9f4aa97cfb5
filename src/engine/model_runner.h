// The model's side of a decoding step: turns a plan into step inputs, runs the program, hands back
// predictions. A sparse plan is computed before the step's own rows; in what it sees and changes it is as if it
// had run beside them. In time it is charged where the device has one unit; where it has two it runs beside the
// step on the host (Executor::run_beside). A device that really does both at a time gets a second K/V store for it: a
// copy that the sparse rows read and write, brought up to date after every step.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "base/trace.h"
#include "decode/types.h"
#include "engine/model.h"
#include "memory/kv_store.h"
#include "sched/executor.h"

namespace llada {

// What keys and values are stored as: F16 halves what attention reads; where the weights are exact floats the
// store stays exact too, so that the float path reproduces a reference implementation.
DType kv_type(const Model& model);

// Builds and verifies the programs of a graph, which must outlive it.
Executor::Build build_with(const ModelGraph& graph);

class ModelRunner final : public decode::StepRunner {
 public:
  // A run over a canvas of `positions`; guided reserves a second K/V sequence for the unconditional stream.
  static Result<std::unique_ptr<ModelRunner>> create(const Model& model, Device& device, int64_t positions,
                                                     bool guided, decode::HeadRule rule, Trace* trace,
                                                     ExecutorOptions executor = {});

  ~ModelRunner() override { executor_.join_beside(); }  // what runs beside writes into this object

  Result<decode::StepResult> run(const decode::StepPlan& plan, int64_t forward_number) override;

  void keep_logits(bool keep) { inputs_.keep_logits = keep; }
  const std::vector<float>& logits() const { return outputs_.logits; }
  bool fell_back() const { return executor_.fell_back(); }  // the device failed, its fallback took over
  const MoeStats* expert_stats() const { return executor_.expert_stats(); }
  double device_seconds() const { return device_seconds_; }
  int64_t kv_bytes() const { return kv_.bytes(); }

 private:
  ModelRunner(const Model& model, Device& device, KvStore kv, Trace* trace, ExecutorOptions executor);

  // What one forward computes of a plan.
  struct Part {
    std::span<const int32_t> rows, inputs, unconditional, logits;
    std::span<const decode::Trial> trials;
  };
  Status check_keys(const decode::StepPlan& plan) const;
  Status bind(const Part& part, const decode::StepPlan& plan, int64_t forward_number, StepInputs& inputs) const;
  Status forward(const Part& part, const decode::StepPlan& plan, int64_t forward_number,
                 std::vector<decode::Prediction>& predictions, std::vector<decode::Prediction>& trials, bool beside);
  Status begin_beside(const Part& part, const decode::StepPlan& plan, int64_t forward_number);
  static void collect(const Part& part, const StepOutputs& outputs, std::vector<decode::Prediction>& predictions,
                      std::vector<decode::Prediction>& trials);
  std::vector<float> probe_values(std::span<const int32_t> probes);
  double drift(std::span<const float> before, std::span<const float> after) const;

  KvStore kv_;
  std::optional<KvStore> beside_kv_;  // equal to kv_ before every step that has a sparse plan
  StepInputs beside_inputs_;
  StepOutputs beside_outputs_;
  Executor executor_;
  StepInputs inputs_;
  StepOutputs outputs_;
  Trace* trace_;
  double device_seconds_ = 0;
};

}  // namespace llada
