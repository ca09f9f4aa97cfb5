#include "devices/cuda/expert_run.h"

#include <algorithm>
#include <cstring>
#include <future>

namespace llada::cuda {
namespace {

// Copies that everything waits for: those of residents. Experts that only pass through need the products before them.
bool comes_first(const ExpertsPlan& plan, const ExpertMove& move) {
  return plan.moves_first && !move.background && move.to == MoveTo::slot;
}

}  // namespace

Status ExpertRun::prepare(const Job& job) {
  const Op& op = *job.op;
  const Matrix& gate = job.weights->matrices[static_cast<size_t>(op.weight[0])];
  const int64_t gathered = job.rows * op.experts_used, e = op.experts;
  int64_t bytes = 0;
  const auto take = [&](int64_t n) { return std::exchange(bytes, bytes + align(n)); };
  const int64_t begins = take((e + 1) * 4), rows = take(gathered * 4), places = take(gathered * 4),
                chosen = take(gathered * 4), scratch = take(job.rows * e * 4),
                narrow0 = take(gathered * gate.outputs * 4), narrow1 = take(gathered * gate.outputs * 4),
                wide = take(gathered * gate.inputs * 4), others = take(job.rows * gate.inputs * 4),
                plan = take(e * (1 + 4 + 3 * 8) + 16),
                split_x = take(job.tensor_cores ? split_bytes(job.rows, gate.inputs) : 0),
                split_hidden = take(job.tensor_cores ? split_bytes(gathered, gate.outputs) : 0);
  LLADA_TRY_STATUS(reserve(*job.weights->memory, memory_, bytes, "experts' rows", job.stream));
  const auto ints = [&](int64_t offset) { return reinterpret_cast<int32_t*>(memory_.data() + offset); };
  const auto floats = [&](int64_t offset) { return reinterpret_cast<float*>(memory_.data() + offset); };
  rows_ = {ints(begins), ints(rows), ints(places), ints(chosen), ints(scratch)};
  gate_ = floats(narrow0), up_ = floats(narrow1), y_ = floats(wide), others_ = floats(others);
  plan_ = memory_.data() + plan;
  const auto type = [&](size_t slot) { return job.weights->matrices[static_cast<size_t>(op.weight[slot])].type; };
  split_x_ = split_at(memory_.data() + split_x, job.rows, gate.inputs, std::array{type(0), type(1)});
  split_hidden_ = split_at(memory_.data() + split_hidden, gathered, gate.outputs, std::array{type(2)});
  group_rows(job.stream, job.gates, job.rows, op.experts, op.experts_used, rows_);
  if (on_tensor_cores(job, 0) || on_tensor_cores(job, 1))
    split_rows(job.stream, job.x, 0, job.rows, gate.inputs, split_x_);
  return {};
}

bool ExpertRun::on_tensor_cores(const Job& job, size_t slot) const {
  return job.tensor_cores && has_tensor_kernels(job.weights->matrices[static_cast<size_t>(job.op->weight[slot])].type);
}

void ExpertRun::multiply(const Job& job, int slot, const int32_t* order, int64_t experts, int64_t most_rows,
                         const uint8_t* const* table, const uint8_t* only_weights, int32_t only) const {
  const Op& op = *job.op;
  const Matrix& w = job.weights->matrices[static_cast<size_t>(op.weight[static_cast<size_t>(slot)])];
  const ExpertProduct a{.type = w.type,
                        .inputs = w.inputs,
                        .outputs = w.outputs,
                        .experts = static_cast<int32_t>(experts),
                        .weights = table,
                        .order = order,
                        .only_weights = only_weights,
                        .only = only,
                        .begins = rows_.begins,
                        .gathered = slot < 2 ? rows_.gathered : nullptr,
                        .x = slot < 2 ? job.x : gate_,
                        .y = slot == 0   ? gate_
                             : slot == 1 ? up_
                                         : y_};
  if (on_tensor_cores(job, static_cast<size_t>(slot)))
    return tensor_expert_product(job.stream, a, slot < 2 ? split_x_ : split_hidden_, most_rows);
  const int64_t each =
      only_weights != nullptr ? most_rows : job.rows * op.experts_used / std::max<int64_t>(1, op.experts);
  expert_product(job.stream, a, each, most_rows);
}

void ExpertRun::activate(const Job& job, int64_t begin, int64_t count) const {
  const int64_t inner = job.weights->matrices[static_cast<size_t>(job.op->weight[0])].outputs;
  (job.op->activation == Activation::silu ? swiglu : geglu)(job.stream, gate_ + begin * inner, up_ + begin * inner,
                                                            count * inner, gate_ + begin * inner);
  if (on_tensor_cores(job, 2)) split_rows(job.stream, gate_, begin, count, inner, split_hidden_);
}

void ExpertRun::add_up(const Job& job, const uint8_t* here, const float* others) const {
  const Op& op = *job.op;
  const Matrix& gate = job.weights->matrices[static_cast<size_t>(op.weight[0])];
  expert_sum(job.stream,
             {.y = y_,
              .gates = job.gates,
              .places = rows_.places,
              .chosen = rows_.chosen,
              .here = here,
              .others = others,
              .out = job.out,
              .width = gate.inputs,
              .used = op.experts_used,
              .experts = op.experts},
             job.rows);
}

Status ExpertRun::run_all(const Job& job) {
  LLADA_TRY_STATUS(prepare(job));
  const auto table = [&](size_t slot) { return job.weights->table(job.op->weight[slot]); };
  multiply(job, 0, nullptr, job.op->experts, job.rows, table(0));
  multiply(job, 1, nullptr, job.op->experts, job.rows, table(1));
  activate(job, 0, job.rows * job.op->experts_used);
  multiply(job, 2, nullptr, job.op->experts, job.rows, table(2));
  add_up(job, nullptr, nullptr);
  return {};
}

ExpertRun::Share::Share(const Job& job) {
  const auto experts = static_cast<size_t>(job.op->experts);
  rows.resize(experts), begins.resize(experts), here.resize(experts);
  for (size_t i = 0; i < static_cast<size_t>(job.rows) * experts; ++i) rows[i % experts] += job.host_gates[i] != 0;
  for (size_t e = 1; e < experts; ++e) begins[e] = begins[e - 1] + rows[e - 1];
}

Status ExpertRun::Share::take(const ExpertsPlan& plan, ExpertSlots& slots) {
  std::vector<int32_t> left = rows;
  for (const ExpertWork& work : plan.work) {
    const auto e = static_cast<size_t>(work.expert);
    if (work.expert < 0 || e >= left.size() || std::exchange(left[e], 0) != work.rows)
      return failed("cuda: a plan gives expert {} of layer {} {} rows, the router others", work.expert, plan.layer,
                    work.rows);
    if (!work.on_device) {
      host.push_back(work.expert);
      continue;
    }
    here[e] = 1;
    const ExpertId id{plan.layer, work.expert};
    if (std::ranges::any_of(plan.moves, [&](const ExpertMove& m) { return !m.background && m.id == id; })) continue;
    if (slots.address(id, 0) == nullptr)
      return failed("cuda: expert {} of layer {} is on the GPU's list, but not there", id.expert, id.layer);
    (slots.arrived(id) ? arrived : late).push_back(work.expert);
  }
  if (std::ranges::any_of(left, [](int32_t n) { return n != 0; }))
    return failed("cuda: a plan of layer {} leaves out experts that have rows", plan.layer);
  return {};
}

// One transfer: where each matrix is, the order of the launch, and which experts are here.
Status ExpertRun::send_plan(const ExpertSlots& slots, const Job& job, const Share& share) {
  const size_t e = share.rows.size();
  std::vector<const uint8_t*> tables(3 * e, nullptr);
  for (const int32_t expert : share.arrived)
    for (int p = 0; p < 3; ++p)
      tables[static_cast<size_t>(p) * e + static_cast<size_t>(expert)] = slots.address({job.plan->layer, expert}, p);
  const size_t bytes = e * (3 * 8 + 4 + 1);
  // The plan of the layer before may still be under way from here.
  if (plan_copied_) LLADA_TRY_STATUS(check(cudaEventSynchronize(plan_copied_.get()), "copying a plan of experts"));
  LLADA_TRY_STATUS(pinned_.reserve(static_cast<int64_t>(bytes), "a plan of experts"));
  std::memcpy(pinned_.data(), tables.data(), 3 * e * 8);
  if (!share.arrived.empty()) std::memcpy(pinned_.data() + 3 * e * 8, share.arrived.data(), share.arrived.size() * 4);
  std::memcpy(pinned_.data() + 3 * e * 8 + e * 4, share.here.data(), e);
  LLADA_TRY_STATUS(check(cudaMemcpyAsync(plan_, pinned_.data(), bytes, cudaMemcpyHostToDevice, job.stream),
                         "copying a plan of experts"));
  if (!plan_copied_) {
    LLADA_TRY(plan_copied_, make_event(false));
  }
  return check(cudaEventRecord(plan_copied_.get(), job.stream), "copying a plan of experts");
}

void ExpertRun::multiply_arrived(const Job& job, const Share& share) const {
  if (share.arrived.empty()) return;
  const size_t e = share.rows.size();
  const auto* table = reinterpret_cast<const uint8_t* const*>(plan_);
  const auto* order = reinterpret_cast<const int32_t*>(plan_ + 3 * e * 8);
  int64_t most = 0;
  for (const int32_t expert : share.arrived) most = std::max<int64_t>(most, share.rows[static_cast<size_t>(expert)]);
  const auto n = static_cast<int64_t>(share.arrived.size());
  multiply(job, 0, order, n, most, table);
  multiply(job, 1, order, n, most, table + e);
  // Rows of other experts among them are no numbers yet; those products come later and overwrite them.
  activate(job, 0, job.rows * job.op->experts_used);
  multiply(job, 2, order, n, most, table + 2 * e);
}

Status ExpertRun::multiply_moved(ExpertSlots& slots, const Job& job, const Share& share, int32_t expert) const {
  const ExpertId id{job.plan->layer, expert};
  const int64_t rows = share.rows[static_cast<size_t>(expert)];
  for (int p = 0; p < 3; ++p) {
    LLADA_TRY_STATUS(slots.wait(id, p, job.stream));
    if (p == 2) activate(job, share.begins[static_cast<size_t>(expert)], rows);
    multiply(job, p, nullptr, 1, rows, nullptr, slots.address(id, p), expert);
  }
  return {};
}

Status ExpertRun::run_share(ExpertSlots& slots, const Job& job, const Share& share) {
  const ExpertsPlan& plan = *job.plan;
  LLADA_TRY_STATUS(send_plan(slots, job, share));
  multiply_arrived(job, share);
  for (const int32_t expert : share.late) LLADA_TRY_STATUS(slots.copy({plan.layer, expert}));
  for (const int32_t expert : share.late) LLADA_TRY_STATUS(multiply_moved(slots, job, share, expert));
  for (const ExpertMove& move : plan.moves) {
    if (move.background) continue;
    if (!comes_first(plan, move)) {
      LLADA_TRY_STATUS(slots.assign(move, job.stream));
      LLADA_TRY_STATUS(slots.copy(move.id));
    }
    const bool wanted = move.id.layer == plan.layer && share.here[static_cast<size_t>(move.id.expert)] != 0;
    if (wanted) LLADA_TRY_STATUS(multiply_moved(slots, job, share, move.id.expert));
    LLADA_TRY_STATUS(slots.used(move, job.stream));
  }
  for (const ExpertId id : plan.released) LLADA_TRY_STATUS(slots.release(id, job.stream));
  for (const ExpertMove& move : plan.kept) LLADA_TRY_STATUS(slots.keep(move, job.stream));
  for (const ExpertMove& move : plan.moves)
    if (move.background) LLADA_TRY_STATUS(slots.add_background(move, job.stream));
  return slots.pump();
}

Status ExpertRun::run_plan(ExpertSlots& slots, const Job& job) {
  const Op& op = *job.op;
  const ExpertsPlan& plan = *job.plan;
  Share share(job);
  for (const ExpertId id : plan.cancelled) LLADA_TRY_STATUS(slots.cancel(id));
  LLADA_TRY_STATUS(share.take(plan, slots));
  LLADA_TRY_STATUS(prepare(job));
  if (plan.moves_first) {
    for (const ExpertMove& move : plan.moves)
      if (comes_first(plan, move)) {
        LLADA_TRY_STATUS(slots.assign(move, job.stream));
        LLADA_TRY_STATUS(slots.copy(move.id));
      }
    LLADA_TRY_STATUS(slots.wait_for_copies());
  }

  std::future<Status> host;
  // Without a thread to be had it runs when it is waited for.
  if (!share.host.empty())
    host = std::async(std::launch::async | std::launch::deferred, [&] { return job.host(share.host); });
  const Status done = run_share(slots, job, share);
  if (host.valid()) LLADA_TRY_STATUS(host.get());
  LLADA_TRY_STATUS(done);
  const float* others = nullptr;
  if (!share.host.empty()) {
    const int64_t width = job.weights->matrices[static_cast<size_t>(op.weight[0])].inputs;
    LLADA_TRY_STATUS(check(cudaMemcpyAsync(others_, job.host_out, static_cast<size_t>(job.rows * width) * 4,
                                           cudaMemcpyHostToDevice, job.stream),
                           "copying the host's experts"));
    others = others_;
  }
  add_up(job, plan_ + static_cast<int64_t>(op.experts) * (3 * 8 + 4), others);
  return check(cudaGetLastError(), "starting kernels of experts");
}

}  // namespace llada::cuda
