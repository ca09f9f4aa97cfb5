#include "devices/cuda/device_need.h"

#include <algorithm>

#include "devices/cuda/head_run.h"
#include "devices/cuda/kernels.h"
#include "devices/value_plan.h"

namespace llada::cuda {

int64_t step_bytes(const Program& program, std::span<const WeightInfo> infos) {
  const int64_t rows = program.shape.rows;
  constexpr int64_t kRowBytes = 512;  // of the step's lists: tokens, positions, ranges, spans, a prediction
  int64_t products = 0, experts = 0, head = 0, trials = 0;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::store_kv) {
      const Attention& a = program.attention(op);
      trials = std::max(trials, 2 * rows * a.kv_heads * a.head_dim * 4);
    }
    if (!rule_of(op.kind).multiplies()) continue;
    const auto [inputs, outputs] = infos[static_cast<size_t>(op.weight[0])].dims;
    products = std::max(products, split_bytes(rows, inputs));
    if (op.kind == OpKind::head) head = HeadRun::bytes(rows, outputs);
    if (op.kind == OpKind::experts) {
      const int64_t gathered = rows * op.experts_used;
      experts = std::max(experts, gathered * (8 * outputs + 4 * inputs + 16) + rows * (inputs + op.experts) * 4 +
                                      split_bytes(rows, inputs) + split_bytes(gathered, outputs));
    }
  }
  return plan_values(program).bytes + products + experts + head + trials + rows * kRowBytes;
}

Status check_need(const Memory& memory, const CudaOptions& options, std::span<const WeightInfo> infos, int64_t weights,
                  int64_t slots) {
  const int64_t step = options.step ? step_bytes(*options.step, infos) : 0;
  const int64_t needed = weights + slots + step + options.kv_bytes;
  LLADA_TRY(const int64_t left, memory.left());
  if (needed <= left) return {};
  const auto mib = [](int64_t bytes) { return static_cast<double>(bytes) / 0x1p20; };
  return no_memory(
      "cuda: needs {:.1f} MiB of device memory (weights {:.1f}, slots of experts {:.1f}, keys and values {:.1f}, a "
      "step {:.1f}), {} {:.1f} MiB left; a smaller type of the model needs less",
      mib(needed), mib(weights), mib(slots), mib(options.kv_bytes), mib(step),
      memory.budget() >= 0 ? "the budget has" : "the GPU has", mib(left));
}

}  // namespace llada::cuda
