// The model's side of a decoding step: turns a plan into step inputs, runs the program, hands back predictions.
#pragma once
#include <span>
#include <vector>

#include "base/trace.h"
#include "decode/types.h"
#include "engine/model.h"
#include "memory/kv_store.h"
#include "sched/executor.h"

namespace llada {

class ModelRunner final : public decode::StepRunner {
 public:
  // `prompt_mask[p]` is true where position p belongs to the prompt (what guidance hides). guided reserves a second K/V sequence.
  static Result<std::unique_ptr<ModelRunner>> create(const Model& model, Device& device, std::vector<bool> prompt, bool guided,
                                                     decode::HeadRule rule, Trace* trace);

  Result<std::vector<decode::Prediction>> run(const decode::StepPlan& plan, int64_t forward_number) override;

  void keep_logits(bool keep) { inputs_.keep_logits = keep; }
  const std::vector<float>& logits() const { return outputs_.logits; }
  double device_seconds() const { return device_seconds_; }
  int64_t kv_bytes() const { return kv_.bytes(); }

 private:
  ModelRunner(const Model& model, Device& device, std::vector<bool> prompt, KvStore kv, Trace* trace);
  Status bind(const decode::StepPlan& plan, int64_t forward_number);

  int32_t mask_id_;
  std::vector<bool> prompt_;
  KvStore kv_;
  Executor executor_;
  StepInputs inputs_;
  StepOutputs outputs_;
  Trace* trace_;
  double device_seconds_ = 0;
};

}  // namespace llada
