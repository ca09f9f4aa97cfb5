#include "devices/cpu/cpu_device.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "base/system.h"
#include "devices/cpu/cpu_attention.h"
#include "devices/cpu/cpu_embedding.h"
#include "devices/cpu/cpu_experts.h"
#include "devices/cpu/cpu_head.h"
#include "devices/cpu/cpu_products.h"
#include "devices/cpu/cpu_routing.h"
#include "devices/cpu/cpu_weights.h"
#include "devices/cpu/row_tasks.h"
#include "devices/cpu/scratch.h"
#include "devices/op_table.h"
#include "devices/value_plan.h"
#include "tensor/quantize.h"

namespace llada {
namespace {

DeviceInfo cpu_info(const kernels::KernelTable& table, int threads, bool exact_attention) {
  std::string processor = processor_name();
  return {.name = "cpu",
          .description = fmt::format("{}, {}, {} threads{}", processor, table.isa, threads,
                                     exact_attention ? ", exact attention" : ""),
          .threads = threads,
          .processor = std::move(processor)};
}

class CpuDevice final : public Device, ExpertHost, HostUnit {
 public:
  CpuDevice(std::shared_ptr<CpuWeights> weights, std::unique_ptr<ThreadPool> pool, bool exact_attention)
      : weights_(std::move(weights)),
        kernels_(*weights_->kernels),
        pool_(std::move(pool)),
        exact_attention_(exact_attention) {}

  DeviceInfo info() const override { return cpu_info(kernels_, pool_->size(), exact_attention_); }

  Result<std::unique_ptr<Device>> share(int threads) const override {
    return std::make_unique<CpuDevice>(weights_, std::make_unique<ThreadPool>(threads), exact_attention_);
  }

  Status supports(const Program& program) const override { return kHandlers.covers(program, "cpu"); }

  Result<Ticket> submit(const Run& run) override {
    LLADA_CHECK(run.program != nullptr && run.inputs != nullptr && run.first <= run.last &&
                run.last <= run.program->ops.size());
    if (run.first == 0) pool_->follow_processors();
    LLADA_TRY_STATUS(prepare(run.program));
    LLADA_TRY_STATUS(load_for(run));
    if (run.first == 0 && run.program->ops[0].in[0] == kNoValue) forget(arena_.data(), plan_->bytes);  // no values yet
    run_ = &run;
    run_program_ = run.program.get();
    if (run.first == 0) bind_rows();
    shared_ = {};
    for (size_t i = run.first; i < run.last; ++i) {
      const Op& op = run.program->ops[i];
      next_ = i + 1 < run.last ? &run.program->ops[i + 1] : nullptr;
      if (op.kind == OpKind::experts) find_shared({run.program->ops.data() + i, run.last - i});
      ready_ = std::exchange(quantized_, kNoValue);
      const auto begin = std::chrono::steady_clock::now();
      const double trace_begin = trace_ != nullptr ? trace_->now_us() : 0;
      LLADA_TRY_STATUS((this->*kHandlers[op.kind])(op, run.program->shape.count(op.rows)));
      const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
      times_[static_cast<size_t>(op.kind)] += ms;
      if (trace_ != nullptr)
        trace_->add({"cpu", op.layer >= 0 ? fmt::format("{} {}", name(op.kind), op.layer) : std::string(name(op.kind)),
                     trace_begin, ms * 1e3,
                     op.kind == OpKind::experts ? fmt::format(R"({{"experts_touched":{}}})", experts_.touched()) : ""});
    }
    return ++tickets_;
  }

  Status wait(Ticket ticket) override {  // submit() returns when the work is done
    LLADA_CHECK(ticket <= tickets_);
    return {};
  }

  Capabilities capabilities() override { return {.experts = this, .host = this}; }

  Status load(std::span<const WeightId> ids) override { return weights_->load(*pool_, ids); }

  void use_arena(SharedBytes memory, int64_t bytes) override { arena_.adopt(std::move(memory), bytes); }

  std::span<const float> peek(const Program& program, ValueId id) const override {
    if (run_program_ != &program) return {};
    const Value& v = program.values[static_cast<size_t>(id)];
    return {value(id), static_cast<size_t>(int64_t{program.shape.count(v.rows)} * v.columns)};
  }

  std::span<const float> peek_hidden(const Program& program, int expert) const override {
    return run_program_ == &program ? experts_.hidden(expert) : std::span<const float>{};
  }

  int64_t digest_bytes(const KvShape& kv) const override {
    if (exact_attention_ || kv.positions < kernels::kDigestKeys || !kv.by_layer.empty()) return 0;
    return int64_t{kv.layers} * kv.sequences * kv.kv_heads * kernels_.digest_bytes(kv.type, kv.positions, kv.head_dim);
  }

  PhaseTimes take_phase_times() override { return std::exchange(times_, PhaseTimes{}); }
  int64_t memory_bytes() const override {
    return weights_->packed_bytes() + arena_.bytes() + activations_.bytes() + attention_.memory_bytes() +
           head_.memory_bytes() + experts_.memory_bytes();
  }
  void set_trace(Trace* trace) override { trace_ = trace; }

 private:
  Status prepare(const std::shared_ptr<const Program>& program) {
    auto plan = plans_.find(program);
    if (plan == nullptr) {
      LLADA_TRY_STATUS(supports(*program));
      LLADA_TRY_STATUS(check_uses(*weights_, *program));
      for (const Op& op : program->ops)
        if (rule_of(op.kind).table == Table::norms && op.weight[0] == kNoWeight)
          ones_.resize(
              std::max(ones_.size(), static_cast<size_t>(program->values[static_cast<size_t>(op.in[0])].columns)),
              1.0f);
      plan = plans_.keep(program, plan_values(*program));
    }
    plan_ = std::move(plan);
    return arena_.grow(plan_->bytes);
  }

  // Rows of a table are picked as they are stored.
  Status load_for(const Run& run) {
    if (weights_->complete()) return {};
    std::vector<WeightId> ids;
    for (size_t i = run.first; i < run.last; ++i)
      if (const Op& op = run.program->ops[i]; rule_of(op.kind).weights.role != WeightRole::rows)
        for_each_weight(op, [&](WeightId id) { ids.push_back(id); });
    return weights_->load(*pool_, ids);
  }

  void bind_rows() { rows_ = bind_row_sets(*run_->inputs, *run_->program); }

  float* value(ValueId id) const {
    return reinterpret_cast<float*>(arena_.data() + plan_->offsets[static_cast<size_t>(id)]);
  }
  int64_t columns(ValueId id) const { return run_->program->values[static_cast<size_t>(id)].columns; }
  const CpuWeight& weight(WeightId id) const { return weights_->list[static_cast<size_t>(id)]; }

  void for_rows(int64_t rows, const std::function<void(int64_t row)>& body) { llada::for_rows(*pool_, rows, body); }

  // Rows that one task quantizes: those of a tile share cache lines, so that a thread should have all of them.
  int64_t quantize_step(int64_t rows) const {
    constexpr int64_t kTile = 8;
    return rows >= 2 * kTile ? kTile : std::max<int64_t>(1, (rows + pool_->size() - 1) / pool_->size());
  }

  // for_rows() of an op whose result, n columns wide, is quantized by the same task where the next op is a product that
  // wants it so. The rows are still near, and a loop is saved.
  Status for_rows_of_input(const Op& op, int64_t rows, int64_t n, const std::function<void(int64_t row)>& body) {
    const bool wanted = next_ != nullptr && next_->kind == OpKind::matmul && next_->rows == op.rows &&
                        next_->in[0] == op.out[0] && multiplies_integers(*next_);
    if (!wanted) {
      for_rows(rows, body);
      return {};
    }
    LLADA_TRY_STATUS(activations_.reserve(kernels_.activation_bytes(rows, n)));
    const int64_t step = quantize_step(rows);
    const kernels::TypeSet readers = types_of(*next_);
    pool_->run((rows + step - 1) / step, [&](int64_t chunk, int) {
      const int64_t end = std::min(rows, (chunk + 1) * step);
      for (int64_t r = chunk * step; r < end; ++r) body(r);
      kernels_.quantize_rows(value(op.out[0]), rows, n, chunk * step, end, readers, activations_.data());
    });
    quantized_ = op.out[0];
    return {};
  }

  kernels::TypeSet types_of(const Op& op) const {
    kernels::TypeSet types = 0;
    for (const WeightId id : op.weight)
      if (id != kNoWeight) types |= kernels::type_bit(weight(id).stored.type);
    return types;
  }
  bool multiplies_integers(const Op& op) const {
    return std::ranges::any_of(
        op.weight, [&](WeightId id) { return id != kNoWeight && kernels_.integer_path(weight(id).stored.type); });
  }

  Status select_rows(const Op& op, int64_t rows) {
    const int64_t n = columns(op.in[0]);
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(value(op.out[0]) + r * n, value(op.in[0]) + run_->inputs->wanted[static_cast<size_t>(r)] * n,
                  static_cast<size_t>(n) * 4);
    return {};
  }

  Status rms_norm(const Op& op, int64_t rows) {
    const int64_t n = columns(op.in[0]);
    return for_rows_of_input(op, rows, n, [&](int64_t r) {
      kernels_.rms_norm(value(op.in[0]) + r * n, norm_weight(op), run_->program->norm(op).epsilon, n,
                        value(op.out[0]) + r * n);
    });
  }

  Status head_norm(const Op& op, int64_t rows) {
    for_rows(rows * op.heads, [&](int64_t i) {
      float* x = value(op.in[0]) + i * op.head_dim;
      kernels_.rms_norm(x, norm_weight(op), run_->program->norm(op).epsilon, op.head_dim, x);
    });
    return {};
  }

  Status store_kv(const Op& op, int64_t rows) { return attention_.store(attention_job(op), rows); }
  Status attention(const Op& op, int64_t) { return attention_.attend(attention_job(op)); }

  Status glu(const Op& op, int64_t rows) {
    if (&op == shared_.glu) return {};
    const int64_t n = columns(op.in[0]);
    const auto unit = op.activation == Activation::silu ? kernels_.swiglu : kernels_.geglu;
    return for_rows_of_input(op, rows, n, [&](int64_t r) {
      unit(value(op.in[0]) + r * n, value(op.in[1]) + r * n, n, value(op.out[0]) + r * n);
    });
  }

  Status add(const Op& op, int64_t rows) {
    const int64_t n = columns(op.in[0]);
    for_rows(rows, [&](int64_t r) { kernels_.add(value(op.in[1]) + r * n, n, value(op.in[0]) + r * n); });
    return {};
  }

  Status add_bias(const Op& op, int64_t rows) {
    const int64_t n = columns(op.in[0]);
    for_rows(rows, [&](int64_t r) { kernels_.add(vector(op), n, value(op.in[0]) + r * n); });
    return {};
  }

  // A column that is 0 is not multiplied: a factor that is not finite would choose an expert.
  Status scale(const Op& op, int64_t rows) {
    const int64_t n = columns(op.in[0]);
    const float* factors = vector(op);
    const bool each = factors != nullptr && weight(op.weight[0]).inputs == n;
    const float all = factors != nullptr && !each ? op.parameter * factors[0] : op.parameter;
    for_rows(rows, [&](int64_t r) {
      float* x = value(op.in[0]) + r * n;
      for (int64_t i = 0; i < n; ++i)
        if (x[i] != 0) x[i] *= each ? all * factors[i] : all;
    });
    return {};
  }

  Status soft_embed(const Op& op, int64_t) {
    embed_soft_tokens(*pool_, weight(op.weight[0]).stored, *run_->inputs, value(op.out[0]));
    return {};
  }

  Status route(const Op& op, int64_t rows) {
    const float* scores = value(op.in[0]);
    const float* bias = vector(op);
    if (op.capacity == 0) {
      for_rows(rows,
               [&](int64_t r) { route_row(op, scores + r * op.experts, bias, value(op.out[0]) + r * op.experts); });
      return {};
    }
    const std::vector<BlockRows> blocks = blocks_of(*run_->inputs, op.block);
    for_rows(std::ssize(blocks), [&](int64_t b) {
      const BlockRows& block = blocks[static_cast<size_t>(b)];
      std::vector<uint8_t> allowed(static_cast<size_t>(op.experts));
      choose_together(op, scores + block.begin * op.experts, block.count, bias, allowed.data());
      for (int64_t r = block.begin; r < block.begin + block.count; ++r)
        route_row(op, scores + r * op.experts, bias, value(op.out[0]) + r * op.experts, allowed.data());
    });
    return {};
  }

  Status experts(const Op& op, int64_t rows) {
    return experts_.run({.kernels = &kernels_,
                         .pool = pool_.get(),
                         .weights = weights_->list,
                         .op = &op,
                         .x = value(op.in[0]),
                         .gates = value(op.in[1]),
                         .rows = rows,
                         .out = value(op.out[0]),
                         .shared = shared_.down != nullptr ? &shared_.weights : nullptr,
                         .plan = run_->experts});
  }

  Status head(const Op& op, int64_t rows) {
    const CpuWeight& w = weight(op.weight[0]);
    const int64_t n = columns(op.in[0]);
    if (kernels_.integer_path(w.stored.type)) LLADA_TRY_STATUS(quantize(value(op.in[0]), rows, n, types_of(op)));
    return head_.run({.kernels = &kernels_,
                      .pool = pool_.get(),
                      .weight = &w,
                      .x = value(op.in[0]),
                      .activations = activations_.data(),
                      .rows = rows,
                      .cap = op.parameter,
                      .inputs = run_->inputs,
                      .sets = &rows_},
                     *run_->outputs);
  }

  // Null: the op has none.
  const float* vector(const Op& op) const {
    return op.weight[0] == kNoWeight ? nullptr : weight(op.weight[0]).vector.data();
  }
  // The weight of a norm without weight: ones, which change no bit.
  const float* norm_weight(const Op& op) const { return op.weight[0] == kNoWeight ? ones_.data() : vector(op); }

  Status embed(const Op& op, int64_t rows) {
    const CpuWeight& table = weight(op.weight[0]);
    for_rows(rows, [&](int64_t r) {
      const int64_t token = run_->inputs->tokens[static_cast<size_t>(r)];
      dequantize_row(table.stored.type, table.stored.row(token), value(op.out[0]) + r * table.inputs, table.inputs);
    });
    return {};
  }

  // Fills activations_; the quantized rows serve every weight of the op.
  Status quantize(const float* x, int64_t rows, int64_t k, kernels::TypeSet readers) {
    LLADA_TRY_STATUS(activations_.reserve(kernels_.activation_bytes(rows, k)));
    const int64_t step = quantize_step(rows);
    pool_->run((rows + step - 1) / step, [&](int64_t chunk, int) {
      kernels_.quantize_rows(x, rows, k, chunk * step, std::min(rows, (chunk + 1) * step), readers,
                             activations_.data());
    });
    return {};
  }

  // The shared expert behind an op of experts (ops[0]), where it reads the same rows: it is computed with them, and its
  // own ops only take the result.
  struct SharedExpert {
    const Op *gate_up = nullptr, *glu = nullptr, *down = nullptr;
    std::array<WeightId, 3> weights{};
  };
  void find_shared(std::span<const Op> ops) {
    shared_ = {};
    if (run_->experts != nullptr || ops.size() < 5) return;
    const Op &experts = ops[0], &sum = ops[1], &gate_up = ops[2], &glu = ops[3], &down = ops[4];
    const auto products = [&](const Op& op, size_t n) {
      return op.kind == OpKind::matmul && op.rows == experts.rows && op.weight[n - 1] != kNoWeight &&
             (n == op.weight.size() || op.weight[n] == kNoWeight);
    };
    if (sum.kind != OpKind::add || sum.in[0] == experts.in[0] || !products(gate_up, 2) ||
        gate_up.in[0] != experts.in[0] || glu.kind != OpKind::glu || glu.activation != experts.activation ||
        glu.in[0] != gate_up.out[0] || glu.in[1] != gate_up.out[1] || !products(down, 1) || down.in[0] != glu.out[0])
      return;
    // Their own values are never written then.
    const auto at = ops.data() - run_->program->ops.data();
    const auto ends_at = [&](ValueId id, int op) { return plan_->lives[static_cast<size_t>(id)].last == at + op; };
    if (!ends_at(gate_up.out[0], 3) || !ends_at(gate_up.out[1], 3) || !ends_at(glu.out[0], 4)) return;
    const std::array<WeightId, 3> weights{gate_up.weight[0], gate_up.weight[1], down.weight[0]};
    if (CpuExperts::fits_beside(weights_->list, experts, weights)) shared_ = {&gate_up, &glu, &down, weights};
  }

  Status matmul(const Op& op, int64_t rows) {
    if (&op == shared_.gate_up) return {};
    if (&op == shared_.down) {
      std::memcpy(value(op.out[0]), experts_.beside(), static_cast<size_t>(rows * columns(op.out[0])) * 4);
      return {};
    }
    const int64_t k = columns(op.in[0]);
    const float* x = value(op.in[0]);
    if (ready_ != op.in[0] && multiplies_integers(op)) LLADA_TRY_STATUS(quantize(x, rows, k, types_of(op)));
    std::vector<CpuProduct> products;
    for (size_t slot = 0; slot < op.weight.size() && op.weight[slot] != kNoWeight; ++slot)
      products.push_back({&weight(op.weight[slot]), x, activations_.data(), rows, value(op.out[slot])});
    multiply(kernels_, *pool_, products);
    return {};
  }

  Status rope(const Op& op, int64_t rows) {
    const auto& positions = rows_.positions[static_cast<size_t>(op.rows)];
    const Rope& rope = run_->program->rope(op);
    const RopeTable& table = ropes_.of(rope, int64_t{std::ranges::max(rows_.positions[0])} + 1);
    const int64_t n = columns(op.in[0]);
    for_rows(rows, [&](int64_t r) {
      kernels_.rope(value(op.in[0]) + r * n, {.cos = table.cos(positions[static_cast<size_t>(r)]),
                                              .sin = table.sin(positions[static_cast<size_t>(r)]),
                                              .heads = op.heads,
                                              .head_dim = op.head_dim,
                                              .rotary = rope.rotary,
                                              .adjacent = rope.adjacent});
    });
    return {};
  }

  CpuAttention::Job attention_job(const Op& op) const {
    return {.kernels = &kernels_,
            .pool = pool_.get(),
            .op = &op,
            .attention = &run_->program->attention(op),
            .inputs = run_->inputs,
            .sets = &rows_,
            .exact = exact_attention_,
            .in = {value(op.in[0]), op.in[1] != kNoValue ? value(op.in[1]) : nullptr},
            .out = op.out[0] != kNoValue ? value(op.out[0]) : nullptr};
  }

  Status guide(const Op& op, int64_t rows) {
    const int64_t n = columns(op.in[0]);
    for (int64_t r = 0; r < rows; ++r) {
      const PredictedRow& p = run_->inputs->predictions[static_cast<size_t>(r)];
      const float* c = value(op.in[0]) + p.conditional * n;
      float* out = value(op.out[0]) + r * n;
      if (p.unconditional < 0) {
        std::memcpy(out, c, static_cast<size_t>(n) * 4);
        continue;
      }
      // The head is linear, so guiding its input equals guiding the logits, at half the head's cost.
      const float* u = value(op.in[0]) + p.unconditional * n;
      const auto scale = static_cast<float>(p.scale + 1.0);
      for (int64_t i = 0; i < n; ++i) out[i] = u[i] + scale * (c[i] - u[i]);
    }
    return {};
  }

  using Handler = Status (CpuDevice::*)(const Op&, int64_t rows);
  static constexpr OpTable<Handler> kHandlers{
      {OpKind::embed, &CpuDevice::embed},       {OpKind::select_rows, &CpuDevice::select_rows},
      {OpKind::rms_norm, &CpuDevice::rms_norm}, {OpKind::head_norm, &CpuDevice::head_norm},
      {OpKind::matmul, &CpuDevice::matmul},     {OpKind::rope, &CpuDevice::rope},
      {OpKind::store_kv, &CpuDevice::store_kv}, {OpKind::attention, &CpuDevice::attention},
      {OpKind::glu, &CpuDevice::glu},           {OpKind::add, &CpuDevice::add},
      {OpKind::add_bias, &CpuDevice::add_bias}, {OpKind::route, &CpuDevice::route},
      {OpKind::experts, &CpuDevice::experts},   {OpKind::scale, &CpuDevice::scale},
      {OpKind::guide, &CpuDevice::guide},       {OpKind::soft_embed, &CpuDevice::soft_embed},
      {OpKind::head, &CpuDevice::head}};

  std::shared_ptr<CpuWeights> weights_;
  const kernels::KernelTable& kernels_;
  std::unique_ptr<ThreadPool> pool_;
  bool exact_attention_;
  RecentPlans<ValuePlan> plans_{kRecentPlans};
  std::shared_ptr<const ValuePlan> plan_;  // of the program that was submitted last
  Scratch arena_, activations_;
  CpuAttention attention_;
  CpuHead head_;
  CpuExperts experts_;
  const Run* run_ = nullptr;
  RowSets rows_;
  RopeTables ropes_;
  std::vector<float> ones_;                          // as many as the widest norm without weight has columns
  SharedExpert shared_;                              // of the last op of experts
  const Op* next_ = nullptr;                         // the op that the run executes after the present one
  ValueId quantized_ = kNoValue, ready_ = kNoValue;  // in activations_: by the present op, and before it
  const Program* run_program_ = nullptr;             // whose values are in the arena
  PhaseTimes times_{};
  Trace* trace_ = nullptr;
  Ticket tickets_ = 0;
};

}  // namespace

Result<std::unique_ptr<Device>> make_cpu_device(const CpuOptions& options, std::span<const WeightInfo> infos,
                                                std::span<const TensorView> weights, const WeightHooks& hooks) {
  LLADA_CHECK(infos.size() == weights.size());
  LLADA_TRY(const auto* table, kernels::select(options.isa));
  LLADA_CHECK(options.packed == nullptr || options.packed->isa() == kernels::packed_layout(*table));
  auto pool = std::make_unique<ThreadPool>(options.threads);
  auto loaded = std::make_shared<CpuWeights>(*table, infos, weights, hooks, options.packed);
  if (!options.when_needed) LLADA_TRY_STATUS(loaded->load(*pool, loaded->every_id()));
  return std::make_unique<CpuDevice>(std::move(loaded), std::move(pool), options.exact_attention);
}

Result<DeviceInfo> describe_cpu(const CpuOptions& options) {
  LLADA_TRY(const auto* table, kernels::select(options.isa));
  const int threads = options.threads > 0 ? options.threads : usable_cores();
  return cpu_info(*table, threads, options.exact_attention);
}

}  // namespace llada
