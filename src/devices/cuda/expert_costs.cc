#include "devices/cuda/expert_costs.h"

#include <algorithm>
#include <chrono>

#include "devices/value_plan.h"

namespace llada::cuda {
namespace {

double seconds_of(const std::function<Status()>& work, Status& status) {
  const auto begin = std::chrono::steady_clock::now();
  if (status) status = work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// After an error too, what was queued ends before the memory that it uses.
struct WaitsFor {
  cudaStream_t stream;
  ~WaitsFor() { static_cast<void>(cudaStreamSynchronize(stream)); }
};

// The shortest of three: what an interruption adds is nobody's cost.
double shortest(const std::function<Status()>& work, Status& status) {
  double best = 1e30;
  for (int i = 0; i < 3; ++i) best = std::min(best, seconds_of(work, status));
  return best;
}

}  // namespace

Result<ExpertCosts> measure_expert_costs(const ExpertsOnGpu& gpu, const Op& op, const Device& behind, ExpertRun& run,
                                         cudaStream_t stream) {
  const Matrix& gate = gpu.weights->matrices[static_cast<size_t>(op.weight[0])];
  ExpertCosts c;
  for (size_t p = 0; p < 3; ++p) c.piece_bytes[p] = static_cast<double>(gpu.piece_bytes[p]);
  c.staging = gpu.experts.staging;
  c.memory_bytes_per_s = 0;
  constexpr int kMost = 32;  // rows
  const int several = std::min<int>({8, op.experts, op.experts_used});

  // A program of this op alone. A share measures, whose runs are not this device's.
  LLADA_TRY(auto host, behind.share(behind.info().threads));
  const auto program_of = [&](int rows) {
    auto program = std::make_shared<Program>();
    program->shape = plain_shape(rows, 0);
    program->values = {{gate.inputs, RowSet::all}, {op.experts, RowSet::all}, {gate.inputs, RowSet::all}};
    Op alone = op;
    alone.rows = RowSet::all;
    alone.in = {0, 1, kNoValue};
    alone.out = {2, kNoValue, kNoValue};
    program->ops = {alone};
    return program;
  };
  Status status;
  StepInputs inputs;
  int next = 0;
  // `rows` rows, each to the next `experts` experts, so that no cache has their weights.
  const auto host_time = [&](int rows, int experts) {
    const auto program = program_of(rows);
    const ValuePlan plan = plan_values(*program);
    const SharedBytes arena = allocate_shared(plan.bytes);
    if (arena == nullptr) return 0.0;
    const auto floats = [&](size_t v) { return reinterpret_cast<float*>(arena.get() + plan.offsets[v]); };
    std::fill_n(floats(0), int64_t{rows} * gate.inputs, 0.01f);
    std::fill_n(floats(1), int64_t{rows} * op.experts, 0.0f);
    for (int e = 0; e < experts; ++e, next = (next + 1) % op.experts)
      for (int r = 0; r < rows; ++r) floats(1)[r * op.experts + next] = 0.1f;
    const std::vector<int32_t> zeros(static_cast<size_t>(rows), 0);
    inputs = {};
    inputs.streams.resize(1);
    append_span(inputs, {}, zeros, zeros, KeyRule::full(), 1);
    host->capabilities().host->use_arena(arena, plan.bytes);
    const Run alone{program, 0, 1, &inputs, nullptr, Unit::host};
    return seconds_of(
        [&]() -> Status {
          LLADA_TRY(const Ticket ticket, host->submit(alone));
          return host->wait(ticket);
        },
        status);
  };
  const auto host_shortest = [&](int rows, int experts) {
    return std::min({host_time(rows, experts), host_time(rows, experts), host_time(rows, experts)});
  };
  const double cold = host_time(1, 1), one = host_shortest(1, 1), many = host_shortest(1, several);
  const double each = several > 1 ? std::max((many - one) / (several - 1), 1e-7) : one;
  c.host_bytes_per_s = c.expert_bytes() / each;
  c.host_first_s = std::max(0.0, cold - each);
  c.host_row_s = std::max(1e-9, (host_shortest(kMost, 1) - one) / (kMost - 1));

  // The link, with the copy into pinned memory that goes before it; then the GPU's products of what has arrived.
  CudaExperts few = gpu.experts;
  few.slots = 0, few.buffer = 0, few.staging = several;
  DeviceBytes own;  // where the model's slots are fewer
  if (ExpertSlots::bytes_needed(few, gpu.piece_bytes) > ExpertSlots::bytes_needed(gpu.experts, gpu.piece_bytes)) {
    LLADA_TRY(own, gpu.weights->memory->allocate(ExpertSlots::bytes_needed(few, gpu.piece_bytes), "measuring experts"));
  }
  LLADA_TRY(auto slots, ExpertSlots::create(own.data() != nullptr ? own.data() : gpu.slot_memory, few, gpu.piece_bytes,
                                            gpu.source));
  double moved = 1e30;
  for (int e = 0; e < several; ++e) {  // each for the first time, as in a run
    const ExpertMove move{.id = {0, e}, .to = MoveTo::staging};
    const auto copy = [&]() -> Status {
      LLADA_TRY_STATUS(slots->assign(move, stream));
      LLADA_TRY_STATUS(slots->copy(move.id));
      return slots->wait_for_copies();
    };
    moved = std::min(moved, seconds_of(copy, status));
  }
  LLADA_TRY_STATUS(status);
  c.piece_s = 0;
  c.link_bytes_per_s = c.expert_bytes() / moved;
  LLADA_TRY(auto memory,
            gpu.weights->memory->allocate(int64_t{kMost} * (2 * gate.inputs + op.experts) * 4, "measuring experts"));
  const WaitsFor queued{stream};
  auto* const x = reinterpret_cast<float*>(memory.data());
  const auto gpu_time = [&](int rows, int experts) {
    std::vector<float> gates(static_cast<size_t>(rows * op.experts), 0.0f),
        input(static_cast<size_t>(rows * gate.inputs), 0.01f);
    float* const device_gates = x + int64_t{kMost} * 2 * gate.inputs;
    ExpertsPlan plan;
    for (int e = 0; e < experts; ++e) {
      for (int r = 0; r < rows; ++r) gates[static_cast<size_t>(r * op.experts + e)] = 0.1f;
      plan.work.push_back({.expert = e, .rows = rows, .on_device = true});
    }
    const ExpertRun::Job job{.weights = gpu.weights,
                             .op = &op,
                             .x = x,
                             .gates = device_gates,
                             .rows = rows,
                             .out = x + int64_t{kMost} * gate.inputs,
                             .stream = stream,
                             .tensor_cores = gpu.tensor_cores,
                             .host_gates = gates.data(),
                             .plan = &plan};
    const auto put = [&](float* to, const std::vector<float>& from) {
      return check(cudaMemcpyAsync(to, from.data(), from.size() * 4, cudaMemcpyHostToDevice, stream),
                   "measuring experts");
    };
    if (status) status = put(x, input);
    if (status) status = put(device_gates, gates);
    return shortest(
        [&]() -> Status {
          LLADA_TRY_STATUS(run.run_plan(*slots, job));
          return check(cudaStreamSynchronize(stream), "measuring experts");
        },
        status);
  };
  const double gpu_one = gpu_time(1, 1), gpu_many = gpu_time(1, several), gpu_rows = gpu_time(kMost, 1);
  LLADA_TRY_STATUS(status);
  // Launches overlap with the work before them but for the first; experts that are there share them.
  const double gpu_each = several > 1 ? std::max(1e-7, (gpu_many - gpu_one) / (several - 1)) : gpu_one;
  c.grouped = true;
  c.device_row_s = std::max(1e-9, (gpu_rows - gpu_one) / (kMost - 1));
  c.device_expert_s = std::max(1e-7, (gpu_one - gpu_each) / 4);
  c.device_bytes_per_s = c.expert_bytes() / gpu_each;
  return c;
}

}  // namespace llada::cuda
