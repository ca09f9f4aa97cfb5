#include "sched/executor.h"

namespace llada {
namespace {

// Distinct shapes of one run: full forwards, block forwards, and one per number of wanted rows within a
// block.
constexpr size_t kRecent = 48;

}  // namespace

Result<std::shared_ptr<const Program>> Executor::program(StepShape shape) {
  for (auto it = recent_.begin(); it != recent_.end(); ++it) {
    if ((*it)->shape != shape) continue;
    recent_.splice(recent_.begin(), recent_, it);
    return recent_.front();
  }
  LLADA_TRY(auto built, build_(shape));
  recent_.push_front(std::move(built));
  if (recent_.size() > kRecent) recent_.pop_back();
  return recent_.front();
}

Status Executor::run(const StepInputs& inputs, KvStore& kv, StepOutputs& outputs) {
  const StepShape shape{static_cast<int32_t>(inputs.tokens.size()),
                        static_cast<int32_t>(inputs.wanted.size()), inputs.guidance > 0};
  LLADA_TRY(auto built, program(shape));
  outputs.predictions.clear();
  outputs.logits.clear();
  const Run whole{built, 0, built->ops.size(), &inputs, &kv, &outputs};
  LLADA_TRY(const Ticket ticket, device_.submit(whole));
  LLADA_TRY_STATUS(device_.wait(ticket));
  for (const RowSpan& span : inputs.spans) {
    if (span.trial) continue;
    for (int32_t r = span.begin; r < span.begin + span.count; ++r)
      kv.set_version(span.sequence, inputs.positions[static_cast<size_t>(r)], inputs.sampling.forward_number);
  }
  return {};
}

}  // namespace llada
