#include "study/sim/sim_device.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "devices/value_plan.h"

namespace llada {
namespace {

// The state that sharing devices have in common.
struct Chip {
  Profile profile;
  SimOptions options;
  std::vector<WeightInfo> infos;
  std::vector<WeightSize> sizes;
};

struct MappedSlab {
  DeviceSlab slab;
  bool mapped = false;
  TaskId map = kNoTask;   // the mapping that made it addressable
  TaskId used = kNoTask;  // the last task that needs it
};

constexpr double kMb = 1e6;
constexpr double kSliceS = 1e-3;  // of a processor, before it may do something else

class Sim final : public SimDevice {
 public:
  Sim(std::shared_ptr<const Chip> chip, std::unique_ptr<Device> numerics)
      : chip_(std::move(chip)), numerics_(std::move(numerics)), lanes_(chip_->profile.ddr_gb_per_s.value * 1e9) {
    lanes_.record(chip_->options.record_spans);
    of_weight_.resize(chip_->infos.size());
    const Profile& p = chip_->profile;
    if (chip_->options.window_bytes) {
      window_ = *chip_->options.window_bytes;
    } else if (p.window_gib) {
      window_ = static_cast<int64_t>((p.window_gib->value - p.reserve_gib.value) * 0x1p30);
    }
    drop_experts();
  }

  DeviceInfo info() const override {
    const DeviceInfo behind = numerics_ ? numerics_->info() : DeviceInfo{};
    return {"sim:" + chip_->profile.name,
            fmt::format("{} (modelled)", chip_->profile.description) +
                (numerics_ ? "; numerics on " + behind.description : std::string()),
            behind.threads, behind.processor};
  }

  Result<std::unique_ptr<Device>> share(int threads) const override {
    std::unique_ptr<Device> numerics;
    if (numerics_) {
      LLADA_TRY(numerics, numerics_->share(threads));
    }
    return std::make_unique<Sim>(chip_, std::move(numerics));
  }

  Unit place(const Op& op) const override {
    // Shared-out experts have no slab; a run without a plan (beside a step) is the host's.
    const bool shared_out = chip_->options.experts && op.kind == OpKind::experts;
    if (chip_->options.host_only || op.kind == OpKind::embed || shared_out) return Unit::host;
    if (op.kind == OpKind::head && !chip_->options.head_on_npu.value_or(chip_->profile.head_on_npu)) return Unit::host;
    return refusal(op, chip_->profile.npu).empty() ? Unit::accelerator : Unit::host;
  }

  Status supports(const Program& program) const override {
    for (size_t i = 0; i < program.ops.size(); ++i)
      LLADA_TRY_STATUS(runs(program.ops[i], i, place(program.ops[i]) == Unit::accelerator));
    return numerics_ ? numerics_->supports(program) : Status{};
  }

  Capabilities capabilities() override { return {.window = this, .experts = this, .clock = this, .side_passes = this}; }

  bool dry() const override { return numerics_ == nullptr; }

  DeviceWindow window() const override { return {window_, static_cast<int>(chip_->profile.sessions.value)}; }

  std::vector<int64_t> weight_sizes() const override {
    std::vector<int64_t> bytes;
    for (const WeightSize& size : chip_->sizes) bytes.push_back(size.bytes);
    const auto& shares = chip_->options.host_shares;
    for (size_t w = 0; w < shares.size(); ++w)
      bytes[w] -= static_cast<int64_t>(shares[w] * static_cast<double>(bytes[w]));
    return bytes;
  }

  Status define_slabs(std::vector<DeviceSlab> slabs) override {
    for (auto& list : of_weight_) list.clear();
    slabs_.clear();
    for (DeviceSlab& slab : slabs) {
      for (const WeightId w : slab.weights) {
        LLADA_CHECK(w >= 0 && static_cast<size_t>(w) < of_weight_.size());
        of_weight_[static_cast<size_t>(w)].push_back(static_cast<int>(slabs_.size()));
      }
      slabs_.push_back({.slab = std::move(slab)});
    }
    used_.assign(static_cast<size_t>(chip_->profile.sessions.value), 0);
    return {};
  }

  Status map(int index, MapMode mode) override {
    LLADA_CHECK(index >= 0 && static_cast<size_t>(index) < slabs_.size());
    MappedSlab& s = slabs_[static_cast<size_t>(index)];
    if (s.mapped) return failed("sim: slab {} is mapped already", index);
    if (s.slab.session < 0 || static_cast<size_t>(s.slab.session) >= used_.size())
      return failed("sim: slab {} wants session {}, the profile has {}", index, s.slab.session, used_.size());
    int64_t& used = used_[static_cast<size_t>(s.slab.session)];
    if (window_ >= 0 && used + s.slab.bytes > window_)
      return failed("sim: mapping slab {} of {} bytes needs a window of {} bytes, it has {}", index, s.slab.bytes,
                    used + s.slab.bytes, window_);
    used += s.slab.bytes;
    s.mapped = true;
    const MapVariant& price = chip_->profile.map(chip_->options.map_variant);
    const auto bytes = static_cast<double>(s.slab.bytes);
    LaneTask task;
    // The pages of the slab that made room have to be free, and so has its slot.
    task.after = unmapped_after_;
    if (mode == MapMode::copy) {
      task.lane = Lane::dma;
      task.bytes = 2 * bytes;  // read and written
      task.bytes_per_s = 2 * chip_->profile.copy_gb_per_s.value * 1e9;
    } else {
      task.lane = Lane::map;
      task.fixed_s = price.us_per_call.value * 1e-6 + price.us_per_mb.value * 1e-6 * bytes / kMb;
    }
    if (chip_->options.record_spans) task.label = fmt::format("slab {}", index);
    s.map = lanes_.add(std::move(task));
    stats_.mapped_bytes += s.slab.bytes;
    stats_.maps += 1;
    return {};
  }

  Status unmap(int index) override {
    LLADA_CHECK(index >= 0 && static_cast<size_t>(index) < slabs_.size());
    MappedSlab& s = slabs_[static_cast<size_t>(index)];
    if (!s.mapped) return failed("sim: slab {} is not mapped", index);
    s.mapped = false;
    used_[static_cast<size_t>(s.slab.session)] -= s.slab.bytes;
    // The price per byte of mapping includes undoing it: no source tells the two apart.
    unmapped_after_ = std::max(unmapped_after_, s.used);
    return {};
  }

  Result<Ticket> submit(const Run& run) override { return submit(run, false); }
  Result<Ticket> submit_side_pass(const Run& run) override { return submit(run, true); }
  bool ready(Ticket ticket) override { return ticket == kNoTask || lanes_.finished(ticket); }
  bool overlaps() const override { return false; }

  Result<Ticket> submit(const Run& run, bool beside) {
    LLADA_CHECK(run.program != nullptr && run.first <= run.last && run.last <= run.program->ops.size());
    if (run.experts != nullptr) return submit_experts(run);
    const bool npu = run.unit == Unit::accelerator;
    for (size_t i = run.first; i < run.last; ++i) LLADA_TRY_STATUS(check(run.program->ops[i], i, npu));
    if (numerics_) {
      LLADA_TRY(const Ticket inner, numerics_->submit(run));
      LLADA_TRY_STATUS(numerics_->wait(inner));
    }
    const RowKeys keys = row_keys(run);
    TaskId& last = beside ? last_beside_ : last_;
    if (run.first == 0) last = kNoTask;  // a new step: the host has waited for the one before
    int in_batch = 0;
    for (size_t i = run.first; i < run.last; ++i) add(run, run.program->ops[i], keys, npu, beside, in_batch, last);
    return last;
  }

  Status wait(Ticket ticket) override {
    if (ticket != kNoTask) lanes_.finish(ticket);
    return {};
  }

  std::span<const float> peek(const Program& program, ValueId id) const override {
    ExpertHost* const host = numerics_ ? numerics_->capabilities().experts : nullptr;
    return host != nullptr ? host->peek(program, id) : std::span<const float>();
  }

  ExpertLink expert_link() override { return experts_ ? experts_->link() : ExpertLink{}; }

  void drop_experts() override {
    if (experts_) moved_expert_bytes_ += experts_->moved_bytes();
    if (const auto& shared = chip_->options.experts)
      experts_.emplace(lanes_, shared->costs, shared->window, chip_->options.record_spans);
  }

  EmulatedStats emulated() override {
    const Profile& p = chip_->profile;
    EmulatedStats s = stats_;
    s.profile = p.name;
    s.seconds = lanes_.now() - begin_.seconds;
    s.npu_s = lanes_.busy_s(Lane::npu) - begin_.npu_s;
    s.cpu_s = lanes_.busy_s(Lane::cpu) - begin_.cpu_s;
    s.map_s = lanes_.busy_s(Lane::map) - begin_.map_s;
    s.dma_s = lanes_.busy_s(Lane::dma) - begin_.dma_s;
    s.exposed_map_s = lanes_.exposed_s() - begin_.exposed_map_s;
    s.moved_expert_bytes = moved_experts() - begin_.moved_expert_bytes;
    s.joules = s.seconds * p.idle_watts.value + s.npu_s * p.npu.watts.value + s.cpu_s * p.cpu.watts.value +
               s.map_s * p.map_watts.value + s.dma_s * p.dma_watts.value;
    return s;
  }

  // A mapping under way is finished first: it belongs to the time before.
  void reset_emulated() override {
    lanes_.finish_all();
    lanes_.take_spans();
    begin_ = {};
    begin_.seconds = lanes_.now();
    begin_.npu_s = lanes_.busy_s(Lane::npu);
    begin_.cpu_s = lanes_.busy_s(Lane::cpu);
    begin_.map_s = lanes_.busy_s(Lane::map);
    begin_.dma_s = lanes_.busy_s(Lane::dma);
    begin_.exposed_map_s = lanes_.exposed_s();
    begin_.moved_expert_bytes = moved_experts();
    stats_ = {};
  }

  std::vector<LaneSpan> take_spans() override { return lanes_.take_spans(); }

  int64_t digest_bytes(const KvShape& kv) const override { return numerics_ ? numerics_->digest_bytes(kv) : 0; }
  PhaseTimes take_phase_times() override { return numerics_ ? numerics_->take_phase_times() : PhaseTimes{}; }
  int64_t memory_bytes() const override { return numerics_ ? numerics_->memory_bytes() : 0; }
  void set_trace(Trace* trace) override {
    if (numerics_) numerics_->set_trace(trace);
  }

 private:
  int64_t moved_experts() const { return moved_expert_bytes_ + (experts_ ? experts_->moved_bytes() : 0); }

  Result<Ticket> submit_experts(const Run& run) {
    const Op& op = run.program->ops[run.first];
    if (!experts_ || run.last != run.first + 1 || op.kind != OpKind::experts)
      return failed("sim: a plan for experts goes with one experts op on a device that shares them out");
    if (numerics_) {
      LLADA_TRY(const Ticket inner, numerics_->submit(run));
      LLADA_TRY_STATUS(numerics_->wait(inner));
    }
    LLADA_TRY(last_, experts_->run(*run.experts, last_));
    return last_;
  }

  // Why `unit` cannot run the op; empty where it can.
  std::string refusal(const Op& op, const UnitProfile& unit) const {
    if (std::ranges::find(unit.ops, op.kind) == unit.ops.end()) return fmt::format("no {} op", llada::name(op.kind));
    if (!rule_of(op.kind).multiplies()) return "";
    std::string reason;
    for_each_weight(op, [&](WeightId w) {
      const WeightSize& size = chip_->sizes[static_cast<size_t>(w)];
      if (size.matrix && std::ranges::find(unit.types, size.type) == unit.types.end())
        reason = fmt::format("no {} of type {}", llada::name(op.kind), traits(size.type).name);
    });
    return reason;
  }

  Status runs(const Op& op, size_t i, bool npu) const {
    const std::string reason = refusal(op, npu ? chip_->profile.npu : chip_->profile.cpu);
    if (!reason.empty())
      return failed("sim: op {} ({}): the {} of {} has {}", i, llada::name(op.kind), npu ? "npu" : "cpu",
                    chip_->profile.name, reason);
    return {};
  }

  Status check(const Op& op, size_t i, bool npu) const {
    LLADA_TRY_STATUS(runs(op, i, npu));
    if (!npu || window_ < 0) return {};
    Status status;
    for_each_weight(op, [&](WeightId w) {
      const auto& slabs = of_weight_[static_cast<size_t>(w)];
      if (slabs.empty() && status)
        status = failed("sim: op {} ({}) uses {}, which is in no slab", i, llada::name(op.kind),
                        chip_->infos[static_cast<size_t>(w)].name);
      for (const int slab : slabs)
        if (!slabs_[static_cast<size_t>(slab)].mapped && status)
          status = failed("sim: op {} ({}) uses {}, whose slab {} is not mapped", i, llada::name(op.kind),
                          chip_->infos[static_cast<size_t>(w)].name, slab);
    });
    return status;
  }

  // By attention of the program and row set. A unit takes the rows of a span together: each as long as
  // the longest.
  using RowKeys = std::vector<std::array<double, kRowSetCount>>;
  static RowKeys row_keys(const Run& run) {
    RowKeys keys(run.program->attentions.size());
    if (run.inputs == nullptr) return keys;
    const RowSets sets = bind_row_sets(*run.inputs, *run.program);
    for (size_t a = 0; a < keys.size(); ++a)
      for (size_t set = 0; set < kRowSetCount; ++set)
        for (size_t s = 0; s < sets.spans[set].size(); ++s)
          keys[a][set] +=
              static_cast<double>(sets.spans[set][s].count) * sets.of(run.program->attentions[a]).reach[set][s].count();
    return keys;
  }

  void add(const Run& run, const Op& op, const RowKeys& keys, bool npu, bool beside, int& in_batch, TaskId& last) {
    const UnitProfile& unit = npu ? chip_->profile.npu : chip_->profile.cpu;
    const double read = rule_of(op.kind).kv == KvUse::reads
                            ? keys[static_cast<size_t>(op.attributes)][static_cast<size_t>(op.rows)]
                            : 0;
    OpCost cost = price_op(unit, *run.program, op, chip_->infos, chip_->sizes, read);
    // Divided products: the NPU shows its rows, both compute, the NPU goes on with the host's columns.
    std::optional<DividedOp> divided;
    TaskId part = kNoTask;
    if (const double share = npu && op.kind == OpKind::matmul ? host_share(op.weight[0]) : 0; share > 0) {
      divided = divide_op(chip_->profile, *run.program, op, chip_->infos, chip_->sizes, share);
      cost = divided->accelerator;
      last = lanes_.add({.lane = Lane::npu, .fixed_s = divided->show_s, .after = last, .label = label(op, "show ")});
      part = add_part(op, *divided, last);
    }
    LaneTask task;
    task.lane = npu ? Lane::npu : Lane::cpu;
    task.fixed_s = cost.kernels * unit.op_us.value * 1e-6;
    for (int k = 0; k < cost.kernels; ++k)
      if (in_batch++ % static_cast<int>(unit.batch_kernels.value) == 0) task.fixed_s += unit.batch_us.value * 1e-6;
    (unit.overlap ? task.compute_s : task.fixed_s) += cost.compute_s;
    if (npu && chip_->profile.experts && chip_->profile.experts->own_memory) {
      const double streams = cost.stream_bytes / (unit.stream_gb_per_s.value * 1e9);
      if (unit.overlap)
        task.compute_s = std::max(task.compute_s, streams);
      else
        task.fixed_s += streams;
    } else {
      task.bytes = cost.stream_bytes;
      task.bytes_per_s = unit.stream_gb_per_s.value * 1e9;
    }
    task.after = last;
    task.background = beside;
    std::vector<int> needed;
    if (npu && window_ >= 0) {
      for_each_weight(op, [&](WeightId w) {
        for (const int slab : of_weight_[static_cast<size_t>(w)])
          if (std::ranges::count(needed, slab) == 0) needed.push_back(slab);
      });
      for (const int slab : needed) {
        const MappedSlab& s = slabs_[static_cast<size_t>(slab)];
        // Mappings of one lane end in order, so the latest of each lane is enough; a step has one kind.
        task.maps[0] = std::max(task.maps[0], s.map);
        if (s.slab.session != session_) {
          if (session_ >= 0) task.fixed_s += chip_->profile.session_hop_us.value * 1e-6;
          session_ = s.slab.session;
        }
      }
    }
    task.label = label(op, beside ? "sparse " : "");
    if (beside) {
      // The system takes processors from it for foreground work, between two slices of its time.
      const double slices = std::max(1.0, std::ceil((task.fixed_s + task.compute_s) / kSliceS));
      task.fixed_s /= slices, task.compute_s /= slices, task.bytes /= slices;
      for (double i = 1; i < slices; ++i) task.after = lanes_.add(task);
    }
    last = lanes_.add(std::move(task));
    if (divided)
      last = lanes_.add({.lane = Lane::npu,
                         .fixed_s = divided->meet_s + divided->join_s,
                         .after = last,
                         .joins = part,
                         .label = label(op, "join ")});
    for (const int slab : needed) slabs_[static_cast<size_t>(slab)].used = last;
  }

  double host_share(WeightId w) const {
    const auto& shares = chip_->options.host_shares;
    return shares.empty() ? 0 : shares[static_cast<size_t>(w)];
  }

  // The host's columns of a product.
  TaskId add_part(const Op& op, const DividedOp& divided, TaskId shown) {
    const UnitProfile& cpu = chip_->profile.cpu;
    LaneTask task;
    task.lane = Lane::cpu;
    task.fixed_s = divided.meet_s + divided.host.kernels * cpu.op_us.value * 1e-6;
    (cpu.overlap ? task.compute_s : task.fixed_s) += divided.host.compute_s;
    task.bytes = divided.host.stream_bytes, task.bytes_per_s = cpu.stream_gb_per_s.value * 1e9;
    task.after = shown;
    task.label = label(op, "part ");
    return lanes_.add(std::move(task));
  }

  std::string label(const Op& op, std::string_view before) const {
    if (!chip_->options.record_spans) return {};
    return op.layer >= 0 ? fmt::format("{}{} {}", before, llada::name(op.kind), op.layer)
                         : fmt::format("{}{}", before, llada::name(op.kind));
  }

  std::shared_ptr<const Chip> chip_;
  std::unique_ptr<Device> numerics_;
  Lanes lanes_;
  int64_t window_ = -1;
  std::vector<std::vector<int>> of_weight_;  // the slabs that hold a weight
  std::vector<MappedSlab> slabs_;
  std::vector<int64_t> used_;  // bytes mapped per session
  TaskId last_ = kNoTask, last_beside_ = kNoTask, unmapped_after_ = kNoTask;
  int session_ = -1;
  std::optional<ExpertLanes> experts_;
  int64_t moved_expert_bytes_ = 0;
  EmulatedStats stats_, begin_;
};

}  // namespace

Result<std::unique_ptr<SimDevice>> make_sim_device(const Profile& profile, const SimOptions& options,
                                                   std::span<const WeightInfo> infos, std::span<const WeightSize> sizes,
                                                   std::unique_ptr<Device> numerics) {
  LLADA_CHECK(infos.size() == sizes.size());
  LLADA_CHECK(options.host_shares.empty() || options.host_shares.size() == infos.size());
  if (!options.map_variant.empty() && profile.map(options.map_variant).name != options.map_variant)
    return invalid("profile {}: found no map variant '{}'", profile.name, options.map_variant);
  if (options.window_bytes && *options.window_bytes < -1)
    return invalid("window: found {} bytes, needed 0 or more, or -1 for unlimited", *options.window_bytes);
  auto chip =
      std::make_shared<const Chip>(Chip{profile, options, {infos.begin(), infos.end()}, {sizes.begin(), sizes.end()}});
  return std::make_unique<Sim>(std::move(chip), std::move(numerics));
}

}  // namespace llada
