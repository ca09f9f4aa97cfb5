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

// After an error too, queued work ends before the memory that it uses.
struct WaitsFor {
  cudaStream_t stream;
  ~WaitsFor() { static_cast<void>(cudaStreamSynchronize(stream)); }
};

// The shortest of three: the time that an interruption adds is nobody's cost.
double shortest(const std::function<Status()>& work, Status& status) {
  double best = 1e30;
  for (int i = 0; i < 3; ++i) best = std::min(best, seconds_of(work, status));
  return best;
}

constexpr int kRows = 32;  // of a measurement with many

// One part of the costs after the other; after an error nothing is measured any more.
class Measurement {
 public:
  Measurement(const ExpertsOnGpu& gpu, const Op& op, ExpertRun& run, cudaStream_t stream)
      : gpu_(gpu),
        op_(op),
        run_(run),
        stream_(stream),
        gate_(gpu.weights->matrices[static_cast<size_t>(op.weight[0])]),
        several_(std::min<int>({8, op.experts, op.experts_used})) {
    for (size_t p = 0; p < 3; ++p) costs_.piece_bytes[p] = static_cast<double>(gpu.piece_bytes[p]);
    costs_.staging = gpu.experts.staging;
    costs_.memory_bytes_per_s = 0;
  }

  Result<ExpertCosts> run(Device& host) {
    measure_host(host);
    LLADA_TRY_STATUS(status_);
    LLADA_TRY_STATUS(measure_link());
    LLADA_TRY_STATUS(measure_gpu());
    return costs_;
  }

 private:
  // The cost of each of several beside the first.
  double of_each(double one, double many) const {
    return several_ > 1 ? std::max((many - one) / (several_ - 1), 1e-7) : one;
  }

  // A program of the op alone, its rows each to the next `experts` experts, so that no cache has their weights.
  double host_time(Device& host, int rows, int experts) {
    const auto program = std::make_shared<Program>();
    program->shape = plain_shape(rows, 0);
    program->values = {{gate_.inputs, RowSet::all}, {op_.experts, RowSet::all}, {gate_.inputs, RowSet::all}};
    Op& alone = program->ops.emplace_back(op_);
    alone.rows = RowSet::all;
    alone.in = {0, 1, kNoValue};
    alone.out = {2, kNoValue, kNoValue};
    const ValuePlan plan = plan_values(*program);
    const SharedBytes arena = allocate_shared(plan.bytes);
    if (arena == nullptr) return 0.0;
    const auto floats = [&](size_t v) { return reinterpret_cast<float*>(arena.get() + plan.offsets[v]); };
    std::fill_n(floats(0), int64_t{rows} * gate_.inputs, 0.01f);
    std::fill_n(floats(1), int64_t{rows} * op_.experts, 0.0f);
    for (int e = 0; e < experts; ++e, next_ = (next_ + 1) % op_.experts)
      for (int r = 0; r < rows; ++r) floats(1)[r * op_.experts + next_] = 0.1f;
    const std::vector<int32_t> zeros(static_cast<size_t>(rows), 0);
    StepInputs inputs;
    inputs.streams.resize(1);
    append_span(inputs, {}, zeros, zeros, KeyRule::full(), 1);
    host.capabilities().host->use_arena(arena, plan.bytes);
    const Run run{program, 0, 1, &inputs, nullptr, Unit::host};
    return seconds_of(
        [&]() -> Status {
          LLADA_TRY(const Ticket ticket, host.submit(run));
          return host.wait(ticket);
        },
        status_);
  }

  void measure_host(Device& host) {
    const auto least = [&](int rows, int experts) {
      return std::min({host_time(host, rows, experts), host_time(host, rows, experts), host_time(host, rows, experts)});
    };
    const double cold = host_time(host, 1, 1), one = least(1, 1), each = of_each(one, least(1, several_));
    costs_.host_bytes_per_s = costs_.expert_bytes() / each;
    costs_.host_first_s = std::max(0.0, cold - each);
    costs_.host_row_s = std::max(1e-9, (least(kRows, 1) - one) / (kRows - 1));
  }

  // With the copy into pinned memory that goes before it.
  Status measure_link() {
    CudaExperts few = gpu_.experts;
    few.slots = 0, few.buffer = 0, few.staging = several_;
    uint8_t* memory = gpu_.slot_memory;
    if (ExpertSlots::bytes_needed(few, gpu_.piece_bytes) > ExpertSlots::bytes_needed(gpu_.experts, gpu_.piece_bytes)) {
      LLADA_TRY(slot_memory_,
                gpu_.weights->memory->allocate(ExpertSlots::bytes_needed(few, gpu_.piece_bytes), "measuring experts"));
      memory = slot_memory_.data();
    }
    LLADA_TRY(slots_, ExpertSlots::create(memory, few, gpu_.piece_bytes, gpu_.source));
    double moved = 1e30;
    for (int e = 0; e < several_; ++e) {  // each for the first time, as in a run
      const ExpertMove move{.id = {0, e}, .to = MoveTo::staging};
      const auto copy = [&]() -> Status {
        LLADA_TRY_STATUS(slots_->assign(move, stream_));
        LLADA_TRY_STATUS(slots_->copy(move.id));
        return slots_->wait_for_copies();
      };
      moved = std::min(moved, seconds_of(copy, status_));
    }
    costs_.piece_s = 0;
    costs_.link_bytes_per_s = costs_.expert_bytes() / moved;
    return status_;
  }

  // The time of experts that have arrived.
  double gpu_time(float* x, int rows, int experts) {
    std::vector<float> gates(static_cast<size_t>(rows * op_.experts), 0.0f),
        input(static_cast<size_t>(rows * gate_.inputs), 0.01f);
    float* const device_gates = x + int64_t{kRows} * 2 * gate_.inputs;
    ExpertsPlan plan;
    for (int e = 0; e < experts; ++e) {
      for (int r = 0; r < rows; ++r) gates[static_cast<size_t>(r * op_.experts + e)] = 0.1f;
      plan.work.push_back({.expert = e, .rows = rows, .on_device = true});
    }
    const ExpertRun::Job job{.weights = gpu_.weights,
                             .op = &op_,
                             .x = x,
                             .gates = device_gates,
                             .rows = rows,
                             .out = x + int64_t{kRows} * gate_.inputs,
                             .stream = stream_,
                             .tensor_cores = gpu_.tensor_cores,
                             .host_gates = gates.data(),
                             .plan = &plan};
    const auto put = [&](float* to, const std::vector<float>& from) {
      return check(cudaMemcpyAsync(to, from.data(), from.size() * 4, cudaMemcpyHostToDevice, stream_),
                   "measuring experts");
    };
    if (status_) status_ = put(x, input);
    if (status_) status_ = put(device_gates, gates);
    return shortest(
        [&]() -> Status {
          LLADA_TRY_STATUS(run_.run_plan(*slots_, job));
          return check(cudaStreamSynchronize(stream_), "measuring experts");
        },
        status_);
  }

  Status measure_gpu() {
    LLADA_TRY(auto memory, gpu_.weights->memory->allocate(int64_t{kRows} * (2 * gate_.inputs + op_.experts) * 4,
                                                          "measuring experts"));
    const WaitsFor queued{stream_};
    auto* const x = reinterpret_cast<float*>(memory.data());
    const double one = gpu_time(x, 1, 1), many = gpu_time(x, 1, several_), rows = gpu_time(x, kRows, 1);
    // Launches overlap with the work before them but for the first; experts that are there share them.
    const double each = of_each(one, many);
    costs_.grouped = true;
    costs_.device_row_s = std::max(1e-9, (rows - one) / (kRows - 1));
    costs_.device_expert_s = std::max(1e-7, (one - each) / 4);
    costs_.device_bytes_per_s = costs_.expert_bytes() / each;
    return status_;
  }

  const ExpertsOnGpu& gpu_;
  const Op& op_;
  ExpertRun& run_;
  const cudaStream_t stream_;
  const Matrix& gate_;
  const int several_;  // experts of a measurement with many
  ExpertCosts costs_;
  Status status_;
  int next_ = 0;             // expert for the host
  DeviceBytes slot_memory_;  // where the model's slots are fewer
  std::unique_ptr<ExpertSlots> slots_;
};

}  // namespace

Result<ExpertCosts> measure_expert_costs(const ExpertsOnGpu& gpu, const Op& op, const Device& behind, ExpertRun& run,
                                         cudaStream_t stream) {
  // A share measures, whose runs are not this device's.
  LLADA_TRY(const auto host, behind.share(behind.info().threads));
  return Measurement(gpu, op, run, stream).run(*host);
}

}  // namespace llada::cuda
