#include "devices/cuda/cuda_device.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/check.h"
#include "devices/cuda/expert_run.h"
#include "devices/cuda/expert_slots.h"
#include "devices/cuda/kernels.h"
#include "devices/cuda/kv_mirror.h"
#include "devices/cuda/runtime.h"
#include "devices/cuda/step_data.h"
#include "devices/cuda/weights.h"
#include "devices/value_plan.h"

namespace llada {
namespace {

using namespace cuda;

constexpr size_t kPlans = 64;                // programs whose arena plan is remembered
constexpr int64_t kHeadColumns = 32 * 512;   // of logits in device memory at a time

// What sharing devices have in common.
struct Gpu {
  CudaOptions options;
  std::string description;
  std::shared_ptr<Memory> memory;
  std::shared_ptr<const Weights> weights;
  std::array<int64_t, 3> piece_bytes = {0, 0, 0};
  std::map<ExpertId, std::array<WeightId, 3>> pieces;  // where experts are moved: their matrices
};

class Cuda final : public CudaDevice {
 public:
  Cuda(std::shared_ptr<const Gpu> gpu, std::unique_ptr<Device> host) : gpu_(std::move(gpu)), host_(std::move(host)) {}

  ~Cuda() override {
    if (stream_) static_cast<void>(cudaStreamSynchronize(stream_.get()));
  }

  Status start() {
    LLADA_TRY(stream_, make_stream());
    return {};
  }

  DeviceInfo info() const override {
    const DeviceInfo behind = host_->info();
    const int64_t budget = gpu_->memory->budget();
    const std::string limit =
        budget < 0 ? "" : fmt::format(", {:.2f} GiB of it used at most", static_cast<double>(budget) / 0x1p30);
    return {"cuda", fmt::format("{}{}; host on {}", gpu_->description, limit, behind.description), behind.threads,
            fmt::format("{}, {}", gpu_->description, behind.processor)};
  }

  Result<std::unique_ptr<Device>> share(int threads) const override {
    LLADA_TRY(auto host, host_->share(threads));
    auto other = std::make_unique<Cuda>(gpu_, std::move(host));
    LLADA_TRY_STATUS(other->start());
    other->costs_ = costs_;
    return other;
  }

  SharedBytes allocate(int64_t bytes) override { return allocate_pinned(bytes); }

  // ---- Runs

  Result<Ticket> submit(const Run& run) override {
    LLADA_CHECK(run.program != nullptr && run.inputs != nullptr && run.first <= run.last &&
                run.last <= run.program->ops.size());
    Status queued = queue(run);
    if (queued && run.beside) queued = finish();  // whoever asked for it reads its numbers before they wait
    if (queued) return ++tickets_;
    // What is queued still ends, but nobody waits for its results.
    static_cast<void>(cudaStreamSynchronize(stream_.get()));
    pending_.reset();
    timed_.clear();
    return std::unexpected(queued.error());
  }

  Status wait(Ticket ticket) override {
    LLADA_CHECK(ticket <= tickets_);
    return finish();
  }

  std::span<const float> peek(const Program& program, ValueId id) const override {
    if (program_ == nullptr || program_.get() != &program) return {};
    const Value& v = program.values[static_cast<size_t>(id)];
    const int64_t n = int64_t{program.shape.count(v.rows)} * v.columns;
    if (!mirror_value(id, n)) return {};
    return {mirror(id), static_cast<size_t>(n)};
  }

  ExpertLink expert_link() override {
    return slots_ && costs_ ? slots_->link(*costs_) : ExpertLink{};
  }

  void drop_experts() override {
    static_cast<void>(finish());
    if (slots_) moved_bytes_ += slots_->moved_bytes();
    slots_.reset();
  }

  Result<ExpertCosts> measure_experts(const Op& op) override;
  int64_t moved_expert_bytes() const override { return moved_bytes_ + (slots_ ? slots_->moved_bytes() : 0); }
  int64_t device_memory_bytes() const override { return gpu_->memory->used(); }

  PhaseTimes take_phase_times() override { return std::exchange(times_, PhaseTimes{}); }
  int64_t memory_bytes() const override { return gpu_->memory->used() + host_->memory_bytes(); }
  void set_trace(Trace* trace) override { trace_ = trace; }

 private:
  struct Planned {
    std::shared_ptr<const Program> program;  // keeps the address from being reused
    ArenaPlan plan;
    std::vector<StepData::Rotary> rotaries;
  };
  struct Pending {  // a head whose results are on their way
    const StepInputs* inputs;
    StepOutputs* outputs;
    int64_t rows;
    std::vector<int32_t> positions;
  };

  float* value(ValueId id) const {
    return reinterpret_cast<float*>(arena_.data() + plan_->offsets[static_cast<size_t>(id)]);
  }
  // In the host's copy of the arena.
  float* mirror(ValueId id) const {
    return reinterpret_cast<float*>(host_arena_.get() + plan_->offsets[static_cast<size_t>(id)]);
  }
  int64_t columns(ValueId id) const { return program_->values[static_cast<size_t>(id)].columns; }
  const Matrix& matrix(WeightId id) const { return gpu_->weights->matrices[static_cast<size_t>(id)]; }
  const float* vector(WeightId id) const { return gpu_->weights->vectors[static_cast<size_t>(id)]; }

  Status queue(const Run& run) {
    if (run.first == 0) LLADA_TRY_STATUS(finish());
    LLADA_TRY_STATUS(prepare(run));
    run_ = &run;
    if (slots_) LLADA_TRY_STATUS(slots_->pump());
    for (size_t i = run.first; i < run.last; ++i) {
      const Op& op = run.program->ops[i];
      LLADA_TRY_STATUS(mark());
      LLADA_TRY_STATUS(execute(op));
      timed_.emplace_back(op.kind, op.layer);
      mirrored_.clear();
    }
    LLADA_TRY_STATUS(mark());
    timed_.emplace_back(OpKind::embed, int16_t{-2});  // no op: the time until the next run is the host's
    return check(cudaGetLastError(), "starting kernels");
  }

  Status prepare(const Run& run) {
    auto found = plans_.find(run.program.get());
    if (found == plans_.end()) {
      for (const Op& op : run.program->ops) LLADA_TRY_STATUS(refuse(op));
      if (plans_.size() >= kPlans) plans_.clear();
      found = plans_
                  .emplace(run.program.get(),
                           Planned{run.program, plan_values(*run.program), StepData::rotaries_of(*run.program)})
                  .first;
    }
    plan_ = &found->second.plan;
    if (run.first == 0 || program_ != run.program) mirrored_.clear();
    program_ = run.program;
    LLADA_TRY_STATUS(reserve(*gpu_->memory, arena_, plan_->bytes, "activations"));
    if (run.first > 0) return {};
    return step_.bind(*gpu_->memory, *run.inputs, run.program->shape, found->second.rotaries, stream_.get());
  }

  static Status refuse(const Op& op) {
    if ((op.kind == OpKind::attention || op.kind == OpKind::store_kv) && op.head_dim > kMostHeadDim)
      return failed("cuda: attention has heads of {} dimensions, needed at most {}", op.head_dim, kMostHeadDim);
    if (op.kind == OpKind::route && op.experts > kMostExperts)
      return failed("cuda: a router has {} experts, needed at most {}", op.experts, kMostExperts);
    return {};
  }

  Status execute(const Op& op) {
    const int64_t rows = program_->shape.count(op.rows);
    cudaStream_t s = stream_.get();
    switch (op.kind) {
      case OpKind::embed:
        embed(s, matrix(op.weight[0]), step_.at<int32_t>(step_.tokens), rows, value(op.out[0]));
        return {};
      case OpKind::select_rows:
        select_rows(s, value(op.in[0]), step_.at<int32_t>(step_.wanted), rows, columns(op.in[0]), value(op.out[0]));
        return {};
      case OpKind::rms_norm:
        rms_norm(s, value(op.in[0]), vector(op.weight[0]), op.parameter, rows, columns(op.in[0]), value(op.out[0]));
        return {};
      case OpKind::head_norm:
        rms_norm(s, value(op.in[0]), vector(op.weight[0]), op.parameter, rows * op.heads, op.head_dim, value(op.in[0]));
        return {};
      case OpKind::matmul:
        for (size_t i = 0; i < op.weight.size() && op.weight[i] != kNoWeight; ++i) {
          const Matrix& w = matrix(op.weight[i]);
          product(s, w, value(op.in[0]), rows, 0, w.outputs, value(op.out[i]), w.outputs);
        }
        return {};
      case OpKind::rope: {
        const StepData::Rotary& angles = step_.rotary(op);
        rope(s,
             {.x = value(op.in[0]),
              .cos = step_.at<float>(angles.cos),
              .sin = step_.at<float>(angles.sin),
              .computed_row = op.rows == RowSet::all ? nullptr : step_.at<int32_t>(step_.wanted),
              .heads = op.heads,
              .head_dim = op.head_dim,
              .rotary = op.rotary,
              .adjacent = op.rope_adjacent != 0},
             rows);
        return {};
      }
      case OpKind::store_kv:
        return store(op, rows);
      case OpKind::attention:
        return attend(op);
      case OpKind::swiglu:
        swiglu(s, value(op.in[0]), value(op.in[1]), rows * columns(op.in[0]), value(op.out[0]));
        return {};
      case OpKind::add:
        add(s, value(op.in[1]), rows * columns(op.in[0]), value(op.in[0]));
        return {};
      case OpKind::add_bias:
        add_bias(s, vector(op.weight[0]), rows, columns(op.in[0]), value(op.in[0]));
        return {};
      case OpKind::route:
        route(s,
              {.scores = value(op.in[0]),
               .bias = op.weight[0] == kNoWeight ? nullptr : vector(op.weight[0]),
               .gates = value(op.out[0]),
               .experts = op.experts,
               .used = op.experts_used,
               .groups = op.groups,
               .groups_used = op.groups_used,
               .scale = op.parameter,
               .sigmoid = op.sigmoid != 0,
               .renormalise = op.renormalise != 0},
              rows);
        return {};
      case OpKind::experts:
        return compute_experts(op, rows);
      case OpKind::guide: {
        const int64_t n = rows * columns(op.in[0]);
        const float* c = value(op.in[0]);
        if (program_->shape.guided) {
          guide(s, c, c + n, static_cast<float>(run_->inputs->guidance + 1.0), n, value(op.out[0]));
          return {};
        }
        return check(cudaMemcpyAsync(value(op.out[0]), c, static_cast<size_t>(n) * 4, cudaMemcpyDeviceToDevice, s), "guidance");
      }
      case OpKind::head:
        return head(op, rows);
    }
    return failed("cuda: op kind {} is unknown", static_cast<int>(op.kind));
  }

  Status store(const Op& op, int64_t rows) {
    KvStore& kv = *run_->kv;
    LLADA_TRY(const auto* mirror, kv_.of(*gpu_->memory, kv));
    const int64_t element = kv.shape().type == DType::F16 ? 2 : 4;
    const bool trials = std::ranges::any_of(run_->inputs->spans, &RowSpan::trial);
    if (trials)
      LLADA_TRY_STATUS(reserve(*gpu_->memory, trial_, 2 * rows * op.kv_heads * op.head_dim * element, "trials"));
    store_kv(stream_.get(),
             {.k = value(op.in[0]),
              .v = value(op.in[1]),
              .positions = step_.at<int32_t>(step_.positions[0]),
              .sequences = step_.at<int32_t>(step_.sequences),
              .device = KvMirrors::layer(*mirror, kv, op.layer),
              .host = KvMirrors::host_layer(kv, op.layer),
              .trial = trial_.data()},
             rows);
    for (const RowSpan& span : run_->inputs->spans)
      for (int32_t r = span.begin; !span.trial && r < span.begin + span.count; ++r)
        kv.set_digested(op.layer, span.sequence, run_->inputs->positions[static_cast<size_t>(r)]);
    return {};
  }

  Status attend(const Op& op) {
    KvStore& kv = *run_->kv;
    LLADA_TRY(const auto* mirror, kv_.of(*gpu_->memory, kv));
    const auto set = static_cast<size_t>(op.rows);
    for (const RowSpan& span : step_.sets.spans[set])
      if (span.count > 0) LLADA_TRY_STATUS(KvMirrors::refresh(*mirror, kv, op.layer, span, stream_.get()));
    attention(stream_.get(),
              {.q = value(op.in[0]),
               .tiles = step_.at<AttentionTile>(step_.tiles[set]),
               .positions = step_.at<int32_t>(step_.positions[set]),
               .overrides = step_.at<int32_t>(step_.overrides),
               .trial = trial_.data(),
               .kv = KvMirrors::layer(*mirror, kv, op.layer),
               .heads = op.heads,
               .block = op.block,
               .scale = op.parameter,
               .out = value(op.out[0])},
              step_.tiles[set].count);
    return {};
  }

  Status head(const Op& op, int64_t rows) {
    const Matrix& w = matrix(op.weight[0]);
    const int64_t vocab = w.outputs, chunk = std::min<int64_t>(kHeadColumns, (vocab + kHeadChunk - 1) / kHeadChunk * kHeadChunk);
    const int64_t chunks = (vocab + kHeadChunk - 1) / kHeadChunk;
    LLADA_TRY_STATUS(reserve(*gpu_->memory, logits_, rows * chunk * 4, "logits"));
    LLADA_TRY_STATUS(reserve(*gpu_->memory, partials_, rows * chunks * static_cast<int64_t>(sizeof(HeadPartial)), "the head"));
    const auto result_bytes = rows * static_cast<int64_t>(sizeof(HeadResult));
    LLADA_TRY_STATUS(reserve(*gpu_->memory, results_, result_bytes, "predictions"));
    if (result_bytes > host_results_bytes_) {
      host_results_ = allocate_pinned(result_bytes);
      host_results_bytes_ = host_results_ != nullptr ? result_bytes : 0;
      if (host_results_ == nullptr) return failed("cuda: pinned memory for predictions could not be allocated");
    }
    auto* const logits = reinterpret_cast<float*>(logits_.data());
    HeadArguments a{.logits = logits,
                    .stride = chunk,
                    .begin = 0,
                    .end = 0,
                    .never_sampled = step_.at<int32_t>(step_.never_sampled),
                    .out_of_softmax = step_.at<int32_t>(step_.out_of_softmax),
                    .never_sampled_count = static_cast<int32_t>(step_.never_sampled.count),
                    .out_of_softmax_count = static_cast<int32_t>(step_.out_of_softmax.count),
                    .keys = step_.at<uint64_t>(step_.keys),
                    .temperature = run_->inputs->sampling.temperature,
                    .partials = reinterpret_cast<HeadPartial*>(partials_.data()),
                    .chunks = static_cast<int32_t>(chunks)};
    std::vector<float>& kept = run_->outputs->logits;
    if (run_->inputs->keep_logits) kept.resize(static_cast<size_t>(rows * vocab));
    for (int64_t begin = 0; begin < vocab; begin += chunk) {
      a.begin = static_cast<int32_t>(begin);
      a.end = static_cast<int32_t>(std::min(vocab, begin + chunk));
      product(stream_.get(), w, value(op.in[0]), rows, a.begin, a.end, logits, chunk);
      head_reduce(stream_.get(), a, rows);
      if (run_->inputs->keep_logits && rows > 0)
        LLADA_TRY_STATUS(check(cudaMemcpy2DAsync(kept.data() + begin, static_cast<size_t>(vocab) * 4, logits,
                                                 static_cast<size_t>(chunk) * 4, static_cast<size_t>(a.end - a.begin) * 4,
                                                 static_cast<size_t>(rows), cudaMemcpyDeviceToHost, stream_.get()),
                               "copying logits"));
    }
    head_merge(stream_.get(), a, rows, reinterpret_cast<HeadResult*>(results_.data()));
    LLADA_TRY_STATUS(check(cudaMemcpyAsync(host_results_.get(), results_.data(), static_cast<size_t>(result_bytes),
                                           cudaMemcpyDeviceToHost, stream_.get()),
                           "copying predictions"));
    pending_ = Pending{run_->inputs, run_->outputs, rows, step_.sets.positions[2]};
    return {};
  }

  // Waits for the stream and takes what it brought.
  Status finish() {
    LLADA_TRY_STATUS(check(cudaStreamSynchronize(stream_.get()), "waiting for the GPU"));
    LLADA_TRY_STATUS(add_times());
    if (!pending_) return {};
    const Pending done = *std::exchange(pending_, std::nullopt);
    const auto* results = reinterpret_cast<const HeadResult*>(host_results_.get());
    done.outputs->predictions.resize(static_cast<size_t>(done.rows));
    for (int64_t r = 0; r < done.rows; ++r) {
      const HeadResult& from = results[r];
      done.outputs->predictions[static_cast<size_t>(r)] = {.token = from.token,
                                                           .runner_up = from.runner_up,
                                                           .logit = from.logit,
                                                           .probability = from.probability,
                                                           .entropy = from.entropy,
                                                           .margin = from.margin};
      if (from.token < 0 || !std::isfinite(from.probability))
        return failed("cuda: the logits of position {} are not finite; the weights or the activations are damaged",
                      done.positions[static_cast<size_t>(r)]);
    }
    return {};
  }

  // ---- Times: an event in front of every op, read when the stream has been waited for.

  Status mark() {
    if (timed_.empty()) trace_begin_us_ = trace_ != nullptr ? trace_->now_us() : 0;
    if (events_.size() <= timed_.size()) {
      LLADA_TRY(auto event, make_event(true));
      events_.push_back(std::move(event));
    }
    return check(cudaEventRecord(events_[timed_.size()].get(), stream_.get()), "an event");
  }

  Status add_times() {
    const auto timed = std::exchange(timed_, {});
    double at_us = trace_begin_us_;
    for (size_t i = 0; i + 1 < timed.size(); ++i) {
      float ms = 0;
      LLADA_TRY_STATUS(check(cudaEventElapsedTime(&ms, events_[i].get(), events_[i + 1].get()), "reading a time"));
      const auto [kind, layer] = timed[i];
      if (layer != -2) {
        times_[static_cast<size_t>(kind)] += ms;
        if (trace_ != nullptr)
          trace_->add({"cuda", layer >= 0 ? fmt::format("{} {}", name(kind), layer) : std::string(name(kind)), at_us,
                       double{ms} * 1e3, ""});
      }
      at_us += double{ms} * 1e3;
    }
    return {};
  }

  // ---- Experts

  // The value in the host's arena; false where that failed.
  bool mirror_value(ValueId id, int64_t n) const {
    if (mirrored_.contains(id)) return true;
    if (host_arena_bytes_ < plan_->bytes) {
      host_arena_ = allocate_pinned(plan_->bytes);
      host_arena_bytes_ = host_arena_ != nullptr ? plan_->bytes : 0;
      mirrored_.clear();
      if (host_arena_ == nullptr) return false;
    }
    if (!check(cudaMemcpyAsync(mirror(id), value(id), static_cast<size_t>(n) * 4, cudaMemcpyDeviceToHost, stream_.get()), "") ||
        !check(cudaStreamSynchronize(stream_.get()), ""))
      return false;
    mirrored_.insert(id);
    return true;
  }

  Status compute_experts(const Op& op, int64_t rows) {
    ExpertRun::Job job{.weights = gpu_->weights.get(), .op = &op, .x = value(op.in[0]), .gates = value(op.in[1]), .rows = rows,
                       .out = value(op.out[0]), .stream = stream_.get()};
    if (!gpu_->options.experts) {
      if (run_->experts != nullptr) return failed("cuda: a plan for experts, but all of them are in device memory");
      return experts_.run_all(job);
    }
    if (rows == 0) return {};
    if (!mirror_value(op.in[0], rows * columns(op.in[0])) || !mirror_value(op.in[1], rows * op.experts))
      return failed("cuda: what the router decided cannot be read");
    if (run_->experts == nullptr) {  // without a plan they are the host's
      LLADA_TRY_STATUS(host_experts(op, nullptr));
      return check(cudaMemcpyAsync(value(op.out[0]), mirror(op.out[0]), static_cast<size_t>(rows * columns(op.out[0])) * 4,
                                   cudaMemcpyHostToDevice, stream_.get()),
                   "copying the host's experts");
    }
    if (!slots_) {
      LLADA_TRY(slots_, ExpertSlots::create(*gpu_->memory, *gpu_->options.experts, gpu_->piece_bytes, source()));
    }
    // The host's copy of the gates loses the GPU's experts.
    const std::vector<float> gates(mirror(op.in[1]), mirror(op.in[1]) + rows * op.experts);
    job.plan = run_->experts;
    job.host_gates = gates.data();
    job.host_out = mirror(op.out[0]);
    job.host = [&](std::span<const int32_t> list) {
      std::vector<int32_t> own(list.begin(), list.end());  // in the plan's order
      std::ranges::sort(own);
      float* masked = mirror(op.in[1]);
      for (int64_t i = 0; i < rows * op.experts; ++i)
        if (!std::ranges::binary_search(own, static_cast<int32_t>(i % op.experts))) masked[i] = 0;
      return host_experts(op, nullptr);
    };
    return experts_.run_plan(*slots_, job);
  }

  // The op on the host, over the host's copy of the arena.
  Status host_experts(const Op& op, const ExpertsPlan* plan) {
    host_->use_arena(host_arena_, host_arena_bytes_);
    const auto at = static_cast<size_t>(&op - program_->ops.data());
    Run run{program_, at, at + 1, run_->inputs, run_->kv, run_->outputs, Unit::host, plan};
    LLADA_TRY(const Ticket ticket, host_->submit(run));
    return host_->wait(ticket);
  }

  ExpertSlots::Source source() const {
    return [gpu = gpu_](ExpertId id, int piece) {
      return gpu->weights->views[static_cast<size_t>(gpu->pieces.at(id)[static_cast<size_t>(piece)])].data;
    };
  }

  std::shared_ptr<const Gpu> gpu_;
  std::unique_ptr<Device> host_;
  std::map<const Program*, Planned> plans_;
  const ArenaPlan* plan_ = nullptr;
  std::shared_ptr<const Program> program_;  // whose values are in the arena
  const Run* run_ = nullptr;
  StepData step_;
  KvMirrors kv_;
  ExpertRun experts_;
  std::unique_ptr<ExpertSlots> slots_;
  std::optional<ExpertCosts> costs_;
  int64_t moved_bytes_ = 0;
  DeviceBytes arena_, trial_, logits_, partials_, results_;
  // The host's copy of the arena, filled value by value; peek() is what fills it.
  mutable SharedBytes host_arena_;
  mutable int64_t host_arena_bytes_ = 0;
  mutable std::set<ValueId> mirrored_;
  SharedBytes host_results_;
  int64_t host_results_bytes_ = 0;
  std::optional<Pending> pending_;
  std::vector<Event> events_;
  std::vector<std::pair<OpKind, int16_t>> timed_;  // an event each, in order; layer -2: no op
  PhaseTimes times_{};
  Trace* trace_ = nullptr;
  double trace_begin_us_ = 0;
  Ticket tickets_ = 0;
  Stream stream_;  // last: it ends before the memory that its work uses
};

double seconds_of(const std::function<Status()>& work, Status& status) {
  const auto begin = std::chrono::steady_clock::now();
  if (status) status = work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The shortest of three: what an interruption adds is nobody's cost.
double shortest(const std::function<Status()>& work, Status& status) {
  double best = 1e30;
  for (int i = 0; i < 3; ++i) best = std::min(best, seconds_of(work, status));
  return best;
}

Result<ExpertCosts> Cuda::measure_experts(const Op& op) {
  if (!gpu_->options.experts) return failed("cuda: all experts are in device memory, nothing is to be measured");
  LLADA_TRY_STATUS(finish());
  const Matrix& gate = matrix(op.weight[0]);
  ExpertCosts c;
  for (size_t p = 0; p < 3; ++p) c.piece_bytes[p] = static_cast<double>(gpu_->piece_bytes[p]);
  c.staging = gpu_->options.experts->staging;
  c.memory_bytes_per_s = 0;
  constexpr int kMost = 32;  // rows
  const int several = std::min<int>(8, op.experts);

  // A program of this op alone, every row to the first `n` experts. A share measures, whose runs are not this device's.
  LLADA_TRY(auto host, host_->share(host_->info().threads));
  const auto program_of = [&](int rows) {
    auto program = std::make_shared<Program>();
    program->shape = {.rows = rows, .wanted = 0, .guided = false};
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
  // `rows` rows, each to the first `experts` experts.
  const auto host_time = [&](int rows, int experts, bool cold) {
    const auto program = program_of(rows);
    const ArenaPlan plan = plan_values(*program);
    const SharedBytes arena = allocate_shared(plan.bytes);
    if (arena == nullptr) return 0.0;
    const auto floats = [&](size_t v) { return reinterpret_cast<float*>(arena.get() + plan.offsets[v]); };
    std::fill_n(floats(0), int64_t{rows} * gate.inputs, 0.01f);
    std::fill_n(floats(1), int64_t{rows} * op.experts, 0.0f);
    for (int r = 0; r < rows; ++r) std::fill_n(floats(1) + r * op.experts, experts, 0.1f);
    inputs.tokens.assign(static_cast<size_t>(rows), 0);
    inputs.positions.assign(static_cast<size_t>(rows), 0);
    inputs.spans = {{0, rows, 0, 0}};
    host->use_arena(arena, plan.bytes);
    const Run run{program, 0, 1, &inputs, nullptr, nullptr, Unit::host};
    const auto work = [&]() -> Status {
      LLADA_TRY(const Ticket ticket, host->submit(run));
      return host->wait(ticket);
    };
    return cold ? seconds_of(work, status) : shortest(work, status);
  };
  const double cold = host_time(1, 1, true), one = host_time(1, 1, false);
  const int used = std::min<int>(several, op.experts_used);
  const double many = host_time(1, used, false);
  const double each = used > 1 ? std::max((many - one) / (used - 1), 1e-7) : one;
  c.host_bytes_per_s = c.expert_bytes() / each;
  c.host_first_s = std::max(0.0, cold - each);
  c.host_row_s = std::max(1e-9, (host_time(kMost, 1, false) - one) / (kMost - 1));

  // The link, with the copy into pinned memory that goes before it; then the GPU's products of what has arrived.
  CudaExperts few = *gpu_->options.experts;
  few.slots = 1, few.buffer = 0, few.staging = 1;
  LLADA_TRY(auto slots, ExpertSlots::create(*gpu_->memory, few, gpu_->piece_bytes, source()));
  const ExpertMove move{.id = {0, 0}, .to = MoveTo::staging};
  const auto copy = [&]() -> Status {
    LLADA_TRY_STATUS(slots->assign(move, stream_.get()));
    LLADA_TRY_STATUS(slots->copy(move.id));
    LLADA_TRY_STATUS(slots->wait_for_copies());
    return slots->used(move, stream_.get());
  };
  const double moved = shortest(copy, status);
  LLADA_TRY_STATUS(status);
  c.piece_s = 0;
  c.link_bytes_per_s = c.expert_bytes() / moved;
  LLADA_TRY_STATUS(slots->assign(move, stream_.get()));
  LLADA_TRY_STATUS(slots->copy(move.id));
  LLADA_TRY_STATUS(slots->wait_for_copies());
  LLADA_TRY(auto memory, gpu_->memory->allocate(int64_t{kMost} * (2 * gate.inputs + op.experts) * 4, "measuring experts"));
  auto* const x = reinterpret_cast<float*>(memory.data());
  const auto gpu_time = [&](int rows) {
    std::vector<float> gates(static_cast<size_t>(rows * op.experts), 0.0f), input(static_cast<size_t>(rows * gate.inputs), 0.01f);
    for (int r = 0; r < rows; ++r) gates[static_cast<size_t>(r * op.experts)] = 0.1f;
    float* const device_gates = x + int64_t{kMost} * 2 * gate.inputs;
    ExpertsPlan plan;
    plan.work = {{.expert = 0, .rows = rows, .on_device = true}};
    const ExpertRun::Job job{.weights = gpu_->weights.get(), .op = &op, .x = x, .gates = device_gates, .rows = rows,
                             .out = x + int64_t{kMost} * gate.inputs, .stream = stream_.get(), .host_gates = gates.data(),
                             .plan = &plan};
    const auto put = [&](float* to, const std::vector<float>& from) {
      return check(cudaMemcpyAsync(to, from.data(), from.size() * 4, cudaMemcpyHostToDevice, stream_.get()), "measuring experts");
    };
    if (status) status = put(x, input);
    if (status) status = put(device_gates, gates);
    return shortest(
        [&]() -> Status {
          LLADA_TRY_STATUS(experts_.run_plan(*slots, job));
          return check(cudaStreamSynchronize(stream_.get()), "measuring experts");
        },
        status);
  };
  const double gpu_one = gpu_time(1), gpu_many = gpu_time(kMost);
  LLADA_TRY_STATUS(status);
  // A layer's launches overlap with its work but for the first; what one expert costs beside its rows is taken as a
  // start, since the two cannot be told apart from outside.
  c.device_row_s = std::max(1e-9, (gpu_many - gpu_one) / (kMost - 1));
  c.device_expert_s = std::max(1e-7, gpu_one / 4);
  c.device_bytes_per_s = c.expert_bytes() / c.device_expert_s;
  costs_ = c;
  return c;
}

Result<std::string> gpu_description() {
  int count = 0;
  LLADA_TRY_STATUS([&]() -> Status {
    const cudaError_t code = cudaGetDeviceCount(&count);
    if (code == cudaSuccess && count > 0) return {};
    static_cast<void>(cudaGetLastError());
    return failed("cuda: not usable: {}", code == cudaSuccess ? "no GPU was found" : cudaGetErrorString(code));
  }());
  cudaDeviceProp properties{};
  LLADA_TRY_STATUS(check(cudaGetDeviceProperties(&properties, 0), "asking for the GPU's properties"));
  return fmt::format("{}, compute capability {}.{}, {:.1f} GiB", properties.name, properties.major, properties.minor,
                     static_cast<double>(properties.totalGlobalMem) / 0x1p30);
}

}  // namespace

Result<std::unique_ptr<CudaDevice>> make_cuda_device(const CudaOptions& options, std::span<const WeightInfo> infos,
                                                     std::span<const TensorView> weights, std::unique_ptr<Device> host,
                                                     const WeightHooks& hooks) {
  LLADA_CHECK(infos.size() == weights.size());
  LLADA_TRY(auto description, gpu_description());
  auto gpu = std::make_shared<Gpu>();
  gpu->options = options;
  gpu->description = std::move(description);
  gpu->memory = std::make_shared<Memory>(options.budget_bytes);
  LLADA_TRY(gpu->weights, load_weights(gpu->memory, infos, weights, options.experts.has_value(), hooks));
  if (options.experts) {
    for (size_t i = 0; i < infos.size(); ++i) {
      if (infos[i].expert < 0) continue;
      const auto is = [&](const char* part) { return infos[i].name.find(part) != std::string::npos; };
      const size_t piece = is("gate") ? 0 : is("up") ? 1 : 2;
      gpu->pieces[{infos[i].layer - options.experts->first_layer, infos[i].expert}][piece] = static_cast<WeightId>(i);
      gpu->piece_bytes[piece] = std::max(gpu->piece_bytes[piece], weights[i].bytes());
    }
    // What the first step would find out.
    LLADA_TRY(const auto probe, gpu->memory->allocate(ExpertSlots::bytes_needed(*options.experts, gpu->piece_bytes),
                                                      "the slots of experts"));
  }
  auto device = std::make_unique<Cuda>(std::move(gpu), std::move(host));
  LLADA_TRY_STATUS(device->start());
  return device;
}

Result<std::string> describe_cuda() { return gpu_description(); }

}  // namespace llada
