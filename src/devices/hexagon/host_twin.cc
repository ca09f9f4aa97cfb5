#include "devices/hexagon/host_twin.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/check.h"
#include "devices/hexagon/batch.h"
#include "devices/hexagon/host/module.h"
#include "devices/hexagon/host/tiles.h"
#include "devices/hexagon/host_scratch.h"
#include "devices/hexagon/session.h"
#include "devices/value_plan.h"

namespace llada::hexagon {
namespace {

// Ops of a batch: so few that the buffers of their weights all get a number, be they one each.
constexpr size_t kMostOps = WIRE_BUFFERS / 4;

class HostTwin final : public Device, HostUnit {
 public:
  HostTwin(Placement placement, std::unique_ptr<Device> cpu) : placement_(std::move(placement)), cpu_(std::move(cpu)) {}

  DeviceInfo info() const override {
    DeviceInfo info = cpu_->info();
    info.description += fmt::format(" ({} in the DSP's arithmetic)", tile_kernels().front().isa);
    return info;
  }
  Result<std::unique_ptr<Device>> share(int threads) const override {
    LLADA_TRY(auto cpu, cpu_->share(threads));
    return make_host_twin(placement_, std::move(cpu));
  }
  Status supports(const Program& program) const override { return cpu_->supports(program); }
  SharedBytes allocate(int64_t bytes) override {
    auto buffer = Buffer::allocate(placement_.library, bytes);
    if (buffer == nullptr) return allocate_shared(bytes);  // K/V beyond a buffer's size: attention is the cpu's then
    std::byte* data = buffer->data();
    return SharedBytes(data, [keep = std::move(buffer)](std::byte*) mutable { keep.reset(); });
  }
  Capabilities capabilities() override { return {.host = this}; }

  void use_arena(SharedBytes memory, int64_t bytes) override {
    arena_ = Buffer::over(memory, bytes);
    cpu().use_arena(std::move(memory), bytes);
  }
  Status load(std::span<const WeightId> ids) override { return cpu().load(ids); }

  Result<Ticket> submit(const Run& run) override {
    LLADA_CHECK(run.program != nullptr && run.inputs != nullptr && run.first <= run.last &&
                run.last <= run.program->ops.size());
    LLADA_TRY_STATUS(prepare(run));
    const auto on_cpu = [&](const Op& op) {
      return placement_.needs_host(run, op) || placement_.place(op) == Unit::host;
    };
    bring_rows(run);
    for (size_t i = run.first, end = 0; i < run.last; i = end) {
      const bool cpu = on_cpu(run.program->ops[i]);
      size_t ops = wire_ops(run.program->ops[i], *run.inputs);
      for (end = i + 1; end < run.last && on_cpu(run.program->ops[end]) == cpu; ++end) {
        ops += wire_ops(run.program->ops[end], *run.inputs);
        if (!cpu && (ops > WIRE_MAX_OPS || end - i == kMostOps)) break;
      }
      LLADA_TRY_STATUS(cpu ? run_on_cpu(run, i, end) : run_batch(run, i, end));
    }
    return ++tickets_;
  }
  Status wait(Ticket ticket) override {  // submit() returns when the work is done
    LLADA_CHECK(ticket <= tickets_);
    return {};
  }

  int64_t digest_bytes(const KvShape& kv) const override { return cpu_->digest_bytes(kv); }
  PhaseTimes take_phase_times() override {
    PhaseTimes times = cpu_->take_phase_times();
    for (size_t k = 0; k < times.size(); ++k) times[k] += std::exchange(times_[k], 0.0);
    return times;
  }
  int64_t memory_bytes() const override {
    int64_t bytes = cpu_->memory_bytes() + staging_.bytes() + (scratch_ ? scratch_->bytes() : 0);
    for (const auto& [w, slab] : own_)
      for (const auto& buffer : slab->buffers) bytes += buffer->bytes();
    return bytes;
  }
  void set_trace(Trace* trace) override {
    trace_ = trace;
    cpu_->set_trace(trace);
  }

 private:
  HostUnit& cpu() const { return *cpu_->capabilities().host; }

  // No memory of the library's: it may be lost with the DSP.
  Status prepare(const Run& run) {
    plan_ = plans_.find(run.program);
    if (plan_ == nullptr) plan_ = plans_.keep(run.program, plan_values(*run.program));
    if (arena_ == nullptr || arena_->bytes() < plan_->bytes) {
      arena_ = nullptr;
      arena_ = Buffer::allocate(nullptr, plan_->bytes);
      if (arena_ == nullptr) return failed("hexagon: {} bytes for activations could not be allocated", plan_->bytes);
      cpu().use_arena(SharedBytes(arena_->data(), [keep = arena_](std::byte*) {}), arena_->bytes());
    }
    if (run.first != 0) return {};
    rows_ = bind_row_sets(*run.inputs, *run.program);
    return placement_.check_stores(run);
  }

  // Brings K/V that ops of the run read or write and a DSP may have.
  static void bring_rows(const Run& run) {
    const auto ops = std::span(run.program->ops).subspan(run.first, run.last - run.first);
    if (std::ranges::all_of(ops, [](const Op& op) { return rule_of(op.kind).kv == KvUse::none; })) return;
    for (const Stream& s : run.inputs->streams)
      if (s.kv != nullptr) s.kv->flush();
  }

  Status run_on_cpu(const Run& run, size_t first, size_t last) {
    Run part = run;
    part.first = first, part.last = last;
    LLADA_TRY(const Ticket ticket, cpu_->submit(part));
    return cpu_->wait(ticket);
  }

  // By the DSP's module, which reads the slabs where they are, mapped or not.
  Status run_batch(const Run& run, size_t first, size_t last) {
    const TraceSpan span(trace_, "cpu", fmt::format("ops {} to {}", first, last - 1));
    std::map<WeightId, std::shared_ptr<const PackedSlab>> slabs;  // which stay as long as they are read
    Status found;
    for (size_t i = first; i < last; ++i)
      for_each_weight(run.program->ops[i], [&](WeightId w) {
        if (found && !slabs.contains(w)) found = find_slab(w, slabs[w]);
      });
    LLADA_TRY_STATUS(found);
    std::vector<std::shared_ptr<Buffer>> stores;
    for (const Stream& s : run.inputs->streams)
      if (s.kv != nullptr)
        if (auto buffer = placement_.library->find(s.kv->memory())) stores.push_back(std::move(buffer));
    wrote_rows(run, first, last, KvViewer::memory);
    if (module_ == nullptr) module_ = std::make_unique<HostModule>(cpu_->info().threads);
    std::optional<Batch> batch;
    LLADA_TRY(const WireReply reply, run_with_scratch(scratch_, [&]() -> Result<WireReply> {
                module_->begin_batch();
                const BatchSources sources{.run = &run,
                                           .plan = plan_.get(),
                                           .rows = &rows_,
                                           .rope = &rope_,
                                           .arena = arena_,
                                           .scratch = scratch_,
                                           .kv = stores,
                                           .infos = placement_.weights->infos(),
                                           .layouts = placement_.weights->layouts(),
                                           .weight =
                                               [&](WeightId w) {
                                                 const PackedSlab& slab = *slabs.at(w);
                                                 const PackedSlab::Place& place = slab.place_of(w);
                                                 return PlacedWeight{slab.buffers[place.buffer], place.offset};
                                               },
                                           .number = [&](const std::shared_ptr<Buffer>& b) -> Result<uint32_t> {
                                             return module_->number(b->data(), b->bytes());
                                           },
                                           .sequence = 0};
                LLADA_TRY(batch, build_batch(sources, first, last, staging_, nullptr));
                return module_->run(batch->bytes);
              }));
    if (reply.status != WIRE_OK) return failed("hexagon: running ops {} to {}: {}", first, last - 1, describe(reply));
    for (size_t k = 0; k < std::min(times_.size(), std::size(reply.microseconds)); ++k)
      times_[k] += reply.microseconds[k] / 1e3;
    return batch->has_head ? read_head(*batch, staging_.out, rows_, run) : Status{};
  }

  // Whoever has the weight packed, for the DSP or not; here alone where nobody has.
  Status find_slab(WeightId w, std::shared_ptr<const PackedSlab>& slab) {
    slab = placement_.weights->packed(w);
    if (slab == nullptr) {
      LLADA_TRY(slab, placement_.weights->pack(placement_.library, {w}, cpu_->info().threads));
      own_[w] = slab;
    } else if (const auto mine = own_.find(w); mine != own_.end() && mine->second != slab) {
      own_.erase(mine);
    }
    return {};
  }

  Placement placement_;
  std::unique_ptr<Device> cpu_;
  std::unique_ptr<HostModule> module_;
  std::map<WeightId, std::shared_ptr<const PackedSlab>> own_;
  std::shared_ptr<Buffer> arena_, scratch_;
  Stagings staging_;
  RecentPlans<ValuePlan> plans_{kRecentPlans};
  std::shared_ptr<const ValuePlan> plan_;  // of the program that was submitted last
  RowSets rows_;
  RopeTables rope_;
  PhaseTimes times_{};
  Trace* trace_ = nullptr;
  Ticket tickets_ = 0;
};

}  // namespace

std::unique_ptr<Device> make_host_twin(Placement placement, std::unique_ptr<Device> cpu) {
  return std::make_unique<HostTwin>(std::move(placement), std::move(cpu));
}

}  // namespace llada::hexagon
