#include "devices/cuda/cuda_device.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "devices/cuda/device_need.h"
#include "devices/cuda/expert_costs.h"
#include "devices/cuda/expert_run.h"
#include "devices/cuda/expert_slots.h"
#include "devices/cuda/head_run.h"
#include "devices/cuda/kernels.h"
#include "devices/cuda/kv_mirror.h"
#include "devices/cuda/op_times.h"
#include "devices/cuda/product_run.h"
#include "devices/cuda/runtime.h"
#include "devices/cuda/step_data.h"
#include "devices/cuda/weights.h"
#include "devices/host_passes.h"
#include "devices/op_table.h"
#include "devices/value_plan.h"

namespace llada {
namespace {

using namespace cuda;

// The state that sharing devices have in common.
struct Gpu {
  CudaOptions options;
  std::string description;
  std::shared_ptr<Memory> memory;
  std::shared_ptr<const Weights> weights;
  std::array<int64_t, 3> piece_bytes = {0, 0, 0};
  ExpertPieces pieces;  // where experts are moved: their matrices
};

class Cuda final : public CudaDevice {
 public:
  Cuda(std::shared_ptr<const Gpu> gpu, std::unique_ptr<Device> host)
      : gpu_(std::move(gpu)), host_(std::move(host)), products_(*gpu_->weights, gpu_->options.tensor_products) {}

  ~Cuda() override {
    if (stream_) static_cast<void>(cudaStreamSynchronize(stream_.get()));
  }

  Status start() {
    LLADA_TRY(stream_, make_stream());
    return {};
  }
  // For the slots of experts. The device that a model is opened with has it from then on, so that nothing that comes
  // later leaves too little; one that shares takes it with its first step.
  Status take_slot_memory() {
    if (slot_memory_.data() != nullptr) return {};
    LLADA_TRY(slot_memory_, gpu_->memory->allocate(ExpertSlots::bytes_needed(*gpu_->options.experts, gpu_->piece_bytes),
                                                   "the slots of experts"));
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

  Capabilities capabilities() override { return {.experts = this, .side_passes = &beside_}; }

  Status supports(const Program& program) const override {
    LLADA_TRY_STATUS(kHandlers.covers(program, "cuda"));
    if (!stores_alike(program)) return failed("cuda: layers differ in their K/V heads, needed alike");
    for (const Attention& a : program.attentions)
      if (a.head_dim > kMostHeadDim)
        return failed("cuda: attention has heads of {} dimensions, needed at most {}", a.head_dim, kMostHeadDim);
    for (const Op& op : program.ops) {
      if (op.kind == OpKind::route && op.experts > kMostExperts)
        return failed("cuda: a router has {} experts, needed at most {}", op.experts, kMostExperts);
      if (op.capacity > 0) return failed("cuda: rows of a block choose experts together, which no kernel does");
    }
    return {};
  }

  // ---- Runs

  Result<Ticket> submit(const Run& run) override {
    LLADA_CHECK(run.program != nullptr && run.inputs != nullptr && run.first <= run.last &&
                run.last <= run.program->ops.size());
    const Status queued = queue(run);
    if (queued) return ++tickets_;
    // Queued work still ends, but nobody waits for its results.
    static_cast<void>(cudaStreamSynchronize(stream_.get()));
    head_.forget();
    op_times_.clear();
    forget_copies();
    return std::unexpected(queued.error());
  }

  Status wait(Ticket ticket) override { return beside_.has(ticket) ? beside_.take(ticket) : finish(); }

  std::span<const float> peek(const Program& program, ValueId id) const override {
    if (program_ == nullptr || program_.get() != &program) return {};
    const Value& v = program.values[static_cast<size_t>(id)];
    const int64_t n = int64_t{program.shape.count(v.rows)} * v.columns;
    if (!mirror_value(id, n)) return {};
    return {mirror(id), static_cast<size_t>(n)};
  }

  ExpertLink expert_link() override { return slots_ && costs_ ? slots_->link(*costs_) : ExpertLink{}; }

  void drop_experts() override {
    static_cast<void>(finish());
    if (slots_) moved_bytes_ += slots_->traffic().moved_bytes;
    slots_.reset();
  }

  Result<ExpertCosts> measure_experts(const Op& op) override {
    if (!gpu_->options.experts) return failed("cuda: all experts are in device memory, nothing is to be measured");
    LLADA_TRY_STATUS(finish());
    LLADA_TRY_STATUS(take_slot_memory());
    slots_.reset();
    LLADA_TRY(costs_, measure_expert_costs({.weights = gpu_->weights.get(),
                                            .experts = *gpu_->options.experts,
                                            .piece_bytes = gpu_->piece_bytes,
                                            .slot_memory = slot_memory_.data(),
                                            .source = source(),
                                            .tensor_cores = gpu_->options.tensor_products},
                                           op, *host_, experts_, stream_.get()));
    return *costs_;
  }
  int64_t moved_expert_bytes() const override { return moved_bytes_ + (slots_ ? slots_->traffic().moved_bytes : 0); }
  int64_t device_memory_bytes() const override { return gpu_->memory->used(); }

  PhaseTimes take_phase_times() override { return std::exchange(times_, PhaseTimes{}); }
  int64_t memory_bytes() const override { return gpu_->memory->used() + host_->memory_bytes(); }
  void set_trace(Trace* trace) override { trace_ = trace, beside_.set_trace(trace); }

 private:
  float* value(ValueId id) const {
    return reinterpret_cast<float*>(arena_.data() + plan_->offsets[static_cast<size_t>(id)]);
  }
  // In the host's copy of the arena.
  float* mirror(ValueId id) const {
    return reinterpret_cast<float*>(host_arena_.data() + plan_->offsets[static_cast<size_t>(id)]);
  }
  int64_t columns(ValueId id) const { return program_->values[static_cast<size_t>(id)].columns; }
  const Matrix& matrix(WeightId id) const { return gpu_->weights->matrices[static_cast<size_t>(id)]; }
  // Null: the op has none.
  const float* vector(const Op& op) const {
    return op.weight[0] == kNoWeight ? nullptr : gpu_->weights->vectors[static_cast<size_t>(op.weight[0])];
  }

  Status queue(const Run& run) {
    if (run.first == 0) {
      stores_.clear();  // of a step that nobody waits for any more, stores included
      LLADA_TRY_STATUS(finish());
    }
    LLADA_TRY_STATUS(prepare(run));
    run_ = &run;
    if (slots_) LLADA_TRY_STATUS(slots_->pump());
    for (size_t i = run.first; i < run.last; ++i) {
      const Op& op = run.program->ops[i];
      LLADA_TRY_STATUS(op_times_.begin(op.kind, op.layer, stream_.get(), trace_));
      LLADA_TRY_STATUS((this->*kHandlers[op.kind])(op, program_->shape.count(op.rows)));
      mirrored_.clear();
    }
    LLADA_TRY_STATUS(op_times_.end(stream_.get(), trace_));
    return check(cudaGetLastError(), "starting kernels");
  }

  Status prepare(const Run& run) {
    auto plan = plans_.find(run.program);
    if (plan == nullptr) {
      LLADA_TRY_STATUS(supports(*run.program));
      plan = plans_.keep(run.program, plan_values(*run.program));
    }
    plan_ = std::move(plan);
    if (run.first == 0 || program_ != run.program) mirrored_.clear();
    program_ = run.program;
    LLADA_TRY_STATUS(reserve(*gpu_->memory, arena_, plan_->bytes, "activations", stream_.get()));
    if (run.first > 0) return {};
    for (const Stream& stream : run.inputs->streams)
      if (stream.kv != nullptr) stores_.push_back(stream.kv);
    LLADA_TRY(auto stores, kv_.of(*gpu_->memory, run.inputs->streams));
    return step_.bind(*gpu_->memory, *run.inputs, *run.program, std::move(stores), stream_.get());
  }

  Status embed(const Op& op, int64_t rows) {
    cuda::embed(stream_.get(), matrix(op.weight[0]), step_.at<int32_t>(step_.tokens), rows, value(op.out[0]));
    return {};
  }

  Status select_rows(const Op& op, int64_t rows) {
    cuda::select_rows(stream_.get(), value(op.in[0]), step_.at<int32_t>(step_.wanted), rows, columns(op.in[0]),
                      value(op.out[0]));
    return {};
  }

  Status norm(const Op& op, int64_t rows) {
    const bool heads = op.kind == OpKind::head_norm;
    rms_norm(stream_.get(), value(op.in[0]), vector(op), program_->norm(op).epsilon, heads ? rows * op.heads : rows,
             heads ? op.head_dim : columns(op.in[0]), value(op.out[0]));
    return {};
  }

  Status matmul(const Op& op, int64_t rows) {
    LLADA_TRY_STATUS(products_.begin(op, value(op.in[0]), rows, columns(op.in[0]), stream_.get()));
    for (size_t i = 0; i < op.weight.size() && op.weight[i] != kNoWeight; ++i) {
      const Matrix& w = matrix(op.weight[i]);
      products_.multiply(w, 0, w.outputs, value(op.out[i]), w.outputs);
    }
    return {};
  }

  Status rope(const Op& op, int64_t rows) {
    const StepData::Rotary& angles = step_.rotary(op);
    cuda::rope(stream_.get(),
               {.x = value(op.in[0]),
                .cos = step_.at<float>(angles.cos),
                .sin = step_.at<float>(angles.sin),
                .computed_row = op.rows == RowSet::all ? nullptr : step_.at<int32_t>(step_.wanted),
                .heads = op.heads,
                .head_dim = op.head_dim,
                .rotary = program_->rope(op).rotary,
                .adjacent = program_->rope(op).adjacent},
               rows);
    return {};
  }

  Status glu(const Op& op, int64_t rows) {
    (op.activation == Activation::silu ? swiglu : geglu)(stream_.get(), value(op.in[0]), value(op.in[1]),
                                                         rows * columns(op.in[0]), value(op.out[0]));
    return {};
  }

  Status add(const Op& op, int64_t rows) {
    cuda::add(stream_.get(), value(op.in[1]), rows * columns(op.in[0]), value(op.in[0]));
    return {};
  }

  Status add_bias(const Op& op, int64_t rows) {
    cuda::add_bias(stream_.get(), vector(op), rows, columns(op.in[0]), value(op.in[0]));
    return {};
  }

  Status route(const Op& op, int64_t rows) {
    cuda::route(stream_.get(),
                {.scores = value(op.in[0]), .bias = vector(op), .gates = value(op.out[0]), .rule = routing_rule(op)},
                rows);
    return {};
  }

  Status guide(const Op& op, int64_t rows) {
    cuda::guide(stream_.get(), value(op.in[0]), step_.at<GuidedRow>(step_.guided), rows, columns(op.in[0]),
                value(op.out[0]));
    return {};
  }

  Status head(const Op& op, int64_t rows) {
    LLADA_TRY_STATUS(products_.begin(op, value(op.in[0]), rows, columns(op.in[0]), stream_.get()));
    return head_.run({.matrix = &matrix(op.weight[0]),
                      .memory = gpu_->memory.get(),
                      .step = &step_,
                      .inputs = run_->inputs,
                      .outputs = run_->outputs,
                      .rows = rows,
                      .cap = op.parameter,
                      .stream = stream_.get()},
                     products_);
  }

  KvStore& store_of(const RowSpan& span) const { return *run_->inputs->streams[static_cast<size_t>(span.stream)].kv; }

  Status store_kv(const Op& op, int64_t rows) {
    const Attention& a = program_->attention(op);
    if (std::ranges::any_of(run_->inputs->spans, &RowSpan::trial))
      LLADA_TRY_STATUS(reserve(*gpu_->memory, trial_, 2 * rows * a.kv_heads * a.head_dim * 4, "trials", stream_.get()));
    cuda::store_kv(stream_.get(),
                   {.k = value(op.in[0]),
                    .v = value(op.in[1]),
                    .positions = step_.at<int32_t>(step_.kept_at),
                    .rows_of = step_.at<StoredRow>(step_.stored_rows),
                    .stores = step_.at<KvPlace>(step_.stores),
                    .trial = trial_.data(),
                    .layer = op.layer,
                    .kv_heads = a.kv_heads,
                    .head_dim = a.head_dim},
                   rows);
    for (const RowSpan& span : run_->inputs->spans)
      for (int32_t r = span.begin; !span.trial && r < span.begin + span.count; ++r) {
        const int32_t position = run_->inputs->kept_at()[static_cast<size_t>(r)];
        store_of(span).wrote(KvViewer::memory, op.layer, span.sequence, position);
        store_of(span).renewed(KvViewer::gpu, op.layer, span.sequence, position);
      }
    return {};
  }

  Status attention(const Op& op, int64_t) {
    const auto set = static_cast<size_t>(op.rows);
    const Attention& a = program_->attention(op);
    for (size_t s = 0; s < step_.sets.spans[set].size(); ++s) {
      const RowSpan& span = step_.sets.spans[set][s];
      LLADA_TRY_STATUS(KvMirrors::refresh(step_.places[static_cast<size_t>(span.stream)], store_of(span), op.layer,
                                          span.sequence, step_.sets.of(a).reach[set][s], stream_.get()));
    }
    cuda::attention(stream_.get(),
                    {.q = value(op.in[0]),
                     .tiles = step_.at<AttentionTile>(step_.tiles[set]),
                     .ranges = step_.at<KeyRange>(step_.ranges(a)[set]),
                     .overrides = step_.at<int32_t>(step_.overrides),
                     .trial = trial_.data(),
                     .stores = step_.at<KvPlace>(step_.stores),
                     .layer = op.layer,
                     .heads = a.heads,
                     .kv_heads = a.kv_heads,
                     .head_dim = a.head_dim,
                     .scale = a.scale,
                     .cap = a.cap,
                     .out = value(op.out[0])},
                    step_.tiles[set].count, step_.halves, step_.floats);
    return {};
  }

  // Waits for the stream and takes its results.
  Status finish() {
    if (const Status done = check(cudaStreamSynchronize(stream_.get()), "waiting for the GPU"); !done) {
      forget_copies();
      return done;
    }
    stores_.clear();
    LLADA_TRY_STATUS(op_times_.take(times_, trace_));
    return head_.take();
  }

  // The stores of the step say that the GPU has the rows of queued copies, which after an error nobody knows.
  void forget_copies() {
    for (KvStore* const store : std::exchange(stores_, {})) store->look(KvViewer::gpu, nullptr);
  }

  // ---- Experts

  // The value in the host's arena; false where that failed.
  bool mirror_value(ValueId id, int64_t n) const {
    if (mirrored_.contains(id)) return true;
    if (host_arena_.bytes < plan_->bytes) {
      mirrored_.clear();
      if (!host_arena_.reserve(plan_->bytes, "values")) return false;
    }
    if (!check(
            cudaMemcpyAsync(mirror(id), value(id), static_cast<size_t>(n) * 4, cudaMemcpyDeviceToHost, stream_.get()),
            "") ||
        !check(cudaStreamSynchronize(stream_.get()), ""))
      return false;
    mirrored_.insert(id);
    return true;
  }

  Status experts(const Op& op, int64_t rows) {
    ExpertRun::Job job{.weights = gpu_->weights.get(),
                       .op = &op,
                       .x = value(op.in[0]),
                       .gates = value(op.in[1]),
                       .rows = rows,
                       .out = value(op.out[0]),
                       .stream = stream_.get(),
                       .tensor_cores = gpu_->options.tensor_products};
    if (!gpu_->options.experts) {
      if (run_->experts != nullptr) return failed("cuda: a plan for experts, but all of them are in device memory");
      return experts_.run_all(job);
    }
    if (rows == 0) return {};
    if (!mirror_value(op.in[0], rows * columns(op.in[0])) || !mirror_value(op.in[1], rows * op.experts))
      return failed("cuda: the router's decision cannot be read");
    if (run_->experts == nullptr) {  // without a plan they are the host's
      LLADA_TRY_STATUS(host_experts(op, nullptr));
      return check(
          cudaMemcpyAsync(value(op.out[0]), mirror(op.out[0]), static_cast<size_t>(rows * columns(op.out[0])) * 4,
                          cudaMemcpyHostToDevice, stream_.get()),
          "copying the host's experts");
    }
    if (!slots_) {
      LLADA_TRY_STATUS(take_slot_memory());
      LLADA_TRY(slots_, ExpertSlots::create(slot_memory_.data(), *gpu_->options.experts, gpu_->piece_bytes, source()));
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
    host_->capabilities().host->use_arena(host_arena_.memory, host_arena_.bytes);
    const auto at = static_cast<size_t>(&op - program_->ops.data());
    Run run{program_, at, at + 1, run_->inputs, run_->outputs, Unit::host, plan};
    LLADA_TRY(const Ticket ticket, host_->submit(run));
    return host_->wait(ticket);
  }

  using Handler = Status (Cuda::*)(const Op&, int64_t rows);
  static constexpr OpTable<Handler> kHandlers{
      {OpKind::embed, &Cuda::embed},       {OpKind::select_rows, &Cuda::select_rows},
      {OpKind::rms_norm, &Cuda::norm},     {OpKind::head_norm, &Cuda::norm},
      {OpKind::matmul, &Cuda::matmul},     {OpKind::rope, &Cuda::rope},
      {OpKind::store_kv, &Cuda::store_kv}, {OpKind::attention, &Cuda::attention},
      {OpKind::glu, &Cuda::glu},           {OpKind::add, &Cuda::add},
      {OpKind::add_bias, &Cuda::add_bias}, {OpKind::route, &Cuda::route},
      {OpKind::experts, &Cuda::experts},   {OpKind::guide, &Cuda::guide},
      {OpKind::head, &Cuda::head}};

  ExpertSlots::Source source() const {
    return [gpu = gpu_](ExpertId id, int piece) {
      const auto weight = static_cast<size_t>(gpu->pieces.at(id)[static_cast<size_t>(piece)]);
      const TensorView& view = gpu->weights->views[weight];
      return std::span(view.data, static_cast<size_t>(view.bytes()));
    };
  }

  std::shared_ptr<const Gpu> gpu_;
  std::unique_ptr<Device> host_;
  RecentPlans<ValuePlan> plans_{kRecentPlans};
  std::shared_ptr<const ValuePlan> plan_;   // of the program that was queued last
  std::shared_ptr<const Program> program_;  // whose values are in the arena
  const Run* run_ = nullptr;
  StepData step_;
  KvMirrors kv_;
  std::vector<KvStore*> stores_;  // of the step that is under way
  ExpertRun experts_;
  DeviceBytes slot_memory_;
  std::unique_ptr<ExpertSlots> slots_;
  std::optional<ExpertCosts> costs_;
  int64_t moved_bytes_ = 0;
  ProductRun products_;
  HeadRun head_;
  DeviceBytes arena_, trial_;
  // The host's copy of the arena, filled value by value by peek().
  mutable PinnedBytes host_arena_;
  mutable std::set<ValueId> mirrored_;
  OpTimes op_times_;
  PhaseTimes times_{};
  Trace* trace_ = nullptr;
  HostPasses beside_{*host_};
  Ticket tickets_ = 0;
  Queue stream_;  // last: it ends before the memory that its work uses
};

}  // namespace

Result<std::unique_ptr<CudaDevice>> make_cuda_device(const CudaOptions& options, std::span<const WeightInfo> infos,
                                                     std::span<const TensorView> weights, std::unique_ptr<Device> host,
                                                     const WeightHooks& hooks) {
  LLADA_CHECK(infos.size() == weights.size() && host->capabilities().host != nullptr);
  const auto found = find_gpu();
  if (!found) return invalid("cuda: {}", found.error().message);
  if (options.tensor_products && found->compute_capability < 8)
    return failed("cuda: products=tensor needs a GPU of compute capability 8.0, found {}", found->description);
  auto gpu = std::make_shared<Gpu>();
  gpu->options = options;
  gpu->description = found->description;
  gpu->memory = std::make_shared<Memory>(options.budget_bytes);
  if (options.experts) gpu->pieces = find_pieces(infos, weights, options.experts->first_layer, gpu->piece_bytes);
  LLADA_TRY(const int64_t stored, weight_bytes(infos, weights, options.experts.has_value()));
  const int64_t slots = options.experts ? ExpertSlots::bytes_needed(*options.experts, gpu->piece_bytes) : 0;
  LLADA_TRY_STATUS(check_need(*gpu->memory, options, infos, stored, slots));
  LLADA_TRY(gpu->weights, load_weights(gpu->memory, infos, weights, options.experts.has_value(), hooks));
  auto device = std::make_unique<Cuda>(std::move(gpu), std::move(host));
  LLADA_TRY_STATUS(device->start());
  if (options.experts) LLADA_TRY_STATUS(device->take_slot_memory());
  return device;
}

Result<std::string> describe_cuda() {
  LLADA_TRY(auto found, find_gpu());
  return found.description;
}

}  // namespace llada
