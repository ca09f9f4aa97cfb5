#include "devices/hexagon/hexagon_device.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <map>

#include "base/check.h"
#include "devices/hexagon/batch.h"
#include "devices/hexagon/host_twin.h"
#include "devices/hexagon/known_space.h"
#include "devices/hexagon/library.h"
#include "devices/hexagon/map_lane.h"
#include "devices/hexagon/reserve.h"
#include "devices/hexagon/session.h"
#include "devices/hexagon/slabs.h"
#include "devices/value_plan.h"

namespace llada {
namespace {

using namespace hexagon;

// Multiply-accumulates per second of whole batches below which a DSP counts as hanging. The emulator does about 100
// million on an idle machine, a tenth of that beside ten busy processes; a real DSP thousands of millions.
constexpr double kSlowestEmulated = 5e6, kSlowest = 50e6;
static_assert(kHexagonRows == WIRE_MAX_ROWS);

struct LoadedSlab {
  DeviceSlab slab;
  std::shared_ptr<const PackedSlab> packed;
  bool mapped = false;  // asked for; it is when the ticket is done
  int64_t ticket = 0;
  bool there = false;  // the lane's until it is drained
};

class Hexagon final : public HexagonDevice {
 public:
  // host: its twin (host_twin.h).
  Hexagon(HexagonOptions options, std::shared_ptr<Library> library, std::shared_ptr<Weights> weights,
          std::unique_ptr<Device> host)
      : options_(std::move(options)),
        library_(std::move(library)),
        weights_(std::move(weights)),
        placement_{library_, weights_, options_.head_on_dsp},
        host_(std::move(host)) {
    place_.resize(weights_->infos().size());
    in_slab_.assign(weights_->infos().size(), -1);
    set_window(options_.window_bytes.value_or(believed_space(*library_, options_.cache) - options_.reserve_bytes));
  }

  ~Hexagon() override {
    for (auto& [ticket, done] : beside_) done.wait();
  }

  void set_window(int64_t weight_bytes) override { window_ = weight_bytes; }
  HexagonCounters counters() const override {
    map_lane_.finish();
    HexagonCounters c = counters_;
    c.arena_bytes = arena_ ? arena_->bytes() : 0;
    c.staging_bytes = staging_.bytes();
    c.scratch_bytes = scratch_ ? scratch_->bytes() : 0;
    return c;
  }

  DeviceInfo info() const override {
    const DeviceInfo behind = host_->info();
    std::string what = "not started";
    if (!sessions_.empty()) what = describe_session(*library_, sessions_[0]->info());
    return {"hexagon",
            fmt::format("{}, {} session{} with {:.2f} GiB for weights and {:.0f} MiB beside; host on {}", what,
                        options_.sessions, options_.sessions == 1 ? "" : "s", static_cast<double>(window_) / 0x1p30,
                        static_cast<double>(options_.reserve_bytes) / 0x1p20, behind.description),
            behind.threads, behind.processor};
  }

  static std::string describe_session(const Library& library, const WireInfo& info) {
    return fmt::format("Hexagon v{}, {} threads, {} ({})", info.arch, info.threads,
                       info.emulated != 0 ? "emulated by qemu-hexagon" : "the DSP of this machine", library.path());
  }

  Result<std::unique_ptr<Device>> on_host(int threads) const override { return host_->share(threads); }
  Result<std::unique_ptr<Device>> share(int threads) const override {
    LLADA_TRY(auto host, host_->share(threads));
    auto other = std::make_unique<Hexagon>(options_, library_, weights_, std::move(host));
    other->set_window(window_);
    return other;
  }

  Status start() override {
    if (!sessions_.empty() &&
        std::ranges::all_of(sessions_, &Session::alive, [](const auto& s) -> const Session& { return *s; }))
      return {};
    sessions_.clear();
    const int64_t space =
        options_.space_bytes.value_or(std::min<int64_t>(window_ + options_.reserve_bytes, 0xffff0000));
    for (int i = 0; i < options_.sessions; ++i) {
      auto session = Session::open(library_, space, options_.deadline_s);
      if (!session && i > 0) {
        fewer_ = fmt::format("{}; {} of {} sessions are used", session.error().message, i, options_.sessions);
        options_.sessions = i;
        if (options_.warn) options_.warn(fewer_);
        return {};
      }
      if (!session) return std::unexpected(session.error());
      sessions_.push_back(std::move(*session));
      ++counters_.sessions_opened;
    }
    return {};
  }

  // What was mapped when a mapping was refused is what there is; where a buffer beside the weights was refused, room
  // for it is made. Several windows are not planned for, so nothing can be planned again.
  std::string narrow() override {
    map_lane_.finish();
    if (!fewer_.empty()) return std::exchange(fewer_, {});
    if (sessions_.size() != 1 || slabs_.empty() || !sessions_[0]->alive()) return {};
    const auto refusal = sessions_[0]->take_refusal();
    if (!refusal) return {};
    int64_t weights = 0, largest = 0;
    for (const LoadedSlab& s : slabs_) largest = std::max(largest, s.slab.bytes), weights += s.there ? s.slab.bytes : 0;
    const int64_t next = narrower(window_, weights, slab_refused_ ? 0 : refusal->bytes);
    if (next < 2 * largest) return {};  // two slots are the least that streams
    window_ = next;
    learn_space(*library_, options_.cache, next + options_.reserve_bytes);
    return fmt::format(
        "hexagon: mapping {} bytes beside {} was refused; the window for weights is {:.2f} GiB from now on",
        refusal->bytes, refusal->beside, static_cast<double>(next) / 0x1p30);
  }

  SharedBytes allocate(int64_t bytes) override { return host_->allocate(bytes); }

  Capabilities capabilities() override { return {.window = this, .beside = this}; }

  // ---- Placement and the window

  Unit place(const Op& op) const override { return placement_.place(op); }

  DeviceWindow window() const override {
    return {
        .weight_bytes = window_, .sessions = options_.sessions, .cuts_slabs = false, .page_bytes = hexagon::kPageBytes};
  }
  std::vector<int64_t> weight_sizes() const override { return {weights_->bytes().begin(), weights_->bytes().end()}; }

  Status define_slabs(std::vector<DeviceSlab> slabs) override {
    // What became of mappings whose slabs go is of no interest; of a dead session nothing is mapped.
    static_cast<void>(map_lane_.drain());
    LLADA_TRY_STATUS(start());
    for (size_t i = 0; i < slabs_.size(); ++i)
      if (slabs_[i].mapped) LLADA_TRY_STATUS(unmap(static_cast<int>(i)));
    LLADA_TRY_STATUS(map_lane_.drain());
    // The old ones stay until the new ones are there: most are the same.
    const std::vector<LoadedSlab> before = std::exchange(slabs_, {});
    std::ranges::fill(place_, PlacedWeight{});
    std::ranges::fill(in_slab_, -1);
    for (DeviceSlab& slab : slabs) {
      if (slab.session < 0 || slab.session >= options_.sessions)
        return failed("hexagon: slab {} wants session {}, there are {}", slabs_.size(), slab.session,
                      options_.sessions);
      LLADA_TRY(auto packed, weights_->pack(library_, slab.weights, host_->info().threads));
      for (const PackedSlab::Place& p : packed->places) {
        const auto w = static_cast<size_t>(p.weight);
        if (in_slab_[w] >= 0) return failed("hexagon: {} is in two slabs", weights_->infos()[w].name);
        in_slab_[w] = static_cast<int>(slabs_.size());
        place_[w] = {packed->buffers[p.buffer], p.offset};
      }
      slabs_.push_back({std::move(slab), std::move(packed), false});
    }
    fewer_.clear();
    slab_refused_ = false;
    return {};
  }

  // Both only ask: the lane maps and unmaps in that order while batches run. A run waits for the slabs that it needs,
  // and has their errors; no run is under way here that could still read a slab, for submit() returns when all is done.
  Status map(int index, MapMode mode) override {
    LLADA_CHECK(index >= 0 && static_cast<size_t>(index) < slabs_.size());
    if (mode == MapMode::copy) return invalid("hexagon: slabs are mapped, not copied; needed memory plan or sessions");
    LoadedSlab& s = slabs_[static_cast<size_t>(index)];
    if (s.mapped) return failed("hexagon: slab {} is mapped already", index);
    s.ticket =
        map_lane_.post([this, index, session = session_of(s), packed = s.packed, bytes = s.slab.bytes]() -> Status {
          const TraceSpan span(trace_, "map", fmt::format("slab {}", index));
          for (size_t b = 0; b < packed->buffers.size(); ++b) {
            const auto number = session->map(packed->buffers[b]);
            if (number) continue;
            while (b-- > 0) static_cast<void>(session->unmap(*packed->buffers[b]));
            slab_refused_ = true;
            return failed("{} (slab {})", number.error().message, index);
          }
          ++counters_.maps;
          counters_.mapped_bytes += bytes;
          slabs_[static_cast<size_t>(index)].there = true;
          return {};
        });
    s.mapped = true;
    return {};
  }

  Status unmap(int index) override {
    LLADA_CHECK(index >= 0 && static_cast<size_t>(index) < slabs_.size());
    LoadedSlab& s = slabs_[static_cast<size_t>(index)];
    if (!s.mapped) return failed("hexagon: slab {} is not mapped", index);
    map_lane_.post([this, index, session = session_of(s), packed = s.packed]() -> Status {
      const TraceSpan span(trace_, "map", fmt::format("unmap slab {}", index));
      slabs_[static_cast<size_t>(index)].there = false;
      for (const auto& buffer : packed->buffers) LLADA_TRY_STATUS(session->unmap(*buffer));
      ++counters_.unmaps;
      return {};
    });
    s.mapped = false;
    return {};
  }

  // ---- Work

  Status supports(const Program& program) const override { return host_->supports(program); }  // which runs the rest

  Result<Ticket> submit(const Run& run) override {
    LLADA_CHECK(run.program != nullptr && run.inputs != nullptr && run.first <= run.last &&
                run.last <= run.program->ops.size());
    LLADA_TRY_STATUS(prepare(run));
    if (run.unit == Unit::host) {
      LLADA_TRY_STATUS(run_on_host(run, run.first, run.last));
      return ++tickets_;
    }
    for (size_t i = run.first; i < run.last; ++i) LLADA_TRY_STATUS(check_mapped(run.program->ops[i], i));
    for (size_t i = run.first; i < run.last;) {
      const bool host = placement_.needs_host(run, run.program->ops[i]);
      int session = session_of(run.program->ops[i]);
      size_t end = i + 1, ops = wire_ops(run.program->ops[i], *run.inputs);
      for (; end < run.last && placement_.needs_host(run, run.program->ops[end]) == host; ++end) {
        ops += wire_ops(run.program->ops[end], *run.inputs);
        if (!host && ops > WIRE_MAX_OPS) break;
        const int next = session_of(run.program->ops[end]);
        if (!host && next >= 0 && session >= 0 && next != session) break;
        if (session < 0) session = next;
      }
      if (host) {
        LLADA_TRY_STATUS(run_on_host(run, i, end));
        counters_.host_ops += static_cast<int64_t>(end - i);
      } else {
        LLADA_TRY_STATUS(run_on_dsp(run, i, end, *sessions_[static_cast<size_t>(std::max(session, 0))]));
      }
      i = end;
    }
    return ++tickets_;
  }

  Status wait(Ticket ticket) override {
    LLADA_CHECK(ticket <= tickets_);
    const auto found = beside_.find(ticket);
    if (found == beside_.end()) return {};  // all other work is done when submit() returns
    const Status status = found->second.get();
    beside_.erase(found);
    return status;
  }

  // A pass of its own on the host's processors, while the DSP works on the step: with an arena of its own.
  Result<Ticket> submit_beside(const Run& run) override {
    if (beside_host_ == nullptr) {
      LLADA_TRY(beside_host_, host_->share(host_->info().threads));
    }
    for (auto& [ticket, done] : beside_) done.wait();  // one at a time
    // Without a thread to be had it runs in wait().
    beside_[++tickets_] = std::async(std::launch::async | std::launch::deferred, [this, run]() -> Status {
      const TraceSpan span(trace_, "cpu beside", fmt::format("{} rows", run.program->shape.rows));
      LLADA_TRY(const Ticket inner, beside_host_->submit(run));
      return beside_host_->wait(inner);
    });
    return tickets_;
  }
  bool overlaps() const override { return true; }

  int64_t digest_bytes(const KvShape& kv) const override { return host_->digest_bytes(kv); }

  PhaseTimes take_phase_times() override {
    PhaseTimes times = host_->take_phase_times();
    for (size_t k = 0; k < times.size(); ++k) times[k] += std::exchange(times_[k], 0.0);
    return times;
  }
  int64_t memory_bytes() const override {
    int64_t bytes = host_->memory_bytes() + staging_.bytes() + (scratch_ ? scratch_->bytes() : 0);
    for (const LoadedSlab& s : slabs_)
      for (const auto& buffer : s.packed->buffers) bytes += buffer->bytes();
    return bytes;
  }
  void set_trace(Trace* trace) override {
    map_lane_.finish();  // which writes to the old one
    trace_ = trace;
    host_->set_trace(trace);
  }

 private:
  // The arena of the program, and what is derived from the step at its first run.
  Status prepare(const Run& run) {
    plan_ = plans_.find(run.program);
    if (plan_ == nullptr) plan_ = plans_.keep(run.program, plan_values(*run.program));
    if (arena_ == nullptr || arena_->bytes() < plan_->bytes) {
      arena_ = nullptr;
      arena_ = Buffer::allocate(library_, plan_->bytes);
      if (arena_ == nullptr)
        return failed("hexagon: {} bytes of shared memory for activations could not be allocated", plan_->bytes);
      host_->capabilities().host->use_arena(SharedBytes(arena_->data(), [keep = arena_](std::byte*) {}),
                                            arena_->bytes());
    }
    if (run.first == 0) {
      if (run.program->ops[0].in[0] == kNoValue) forget(arena_->data(), plan_->bytes);  // no values yet
      rows_ = bind_row_sets(*run.inputs, *run.program);
      LLADA_TRY_STATUS(placement_.check_stores(run));
    }
    return {};
  }

  int session_of(const Op& op) const {
    int session = -1;
    for_each_weight(op, [&](WeightId w) {
      if (const int slab = in_slab_[static_cast<size_t>(w)]; slab >= 0)
        session = slabs_[static_cast<size_t>(slab)].slab.session;
    });
    return session;
  }

  const std::shared_ptr<Session>& session_of(const LoadedSlab& s) const {
    return sessions_[static_cast<size_t>(s.slab.session)];
  }

  // Waits for mappings that were asked for.
  Status check_mapped(const Op& op, size_t i) {
    Status status;
    for_each_weight(op, [&](WeightId w) {
      const int slab = in_slab_[static_cast<size_t>(w)];
      const auto& name = weights_->infos()[static_cast<size_t>(w)].name;
      if (!status) return;
      if (slab < 0)
        status = failed("hexagon: op {} ({}) uses {}, which is in no slab", i, llada::name(op.kind), name);
      else if (!slabs_[static_cast<size_t>(slab)].mapped)
        status =
            failed("hexagon: op {} ({}) uses {}, whose slab {} is not mapped", i, llada::name(op.kind), name, slab);
      else if (LoadedSlab& s = slabs_[static_cast<size_t>(slab)]; !(status = map_lane_.wait(s.ticket)))
        s.mapped = false;
    });
    return status;
  }

  Status run_on_host(const Run& run, size_t first, size_t last) {
    Run part = run;
    part.first = first, part.last = last;
    part.unit = Unit::host;
    LLADA_TRY(const Ticket ticket, host_->submit(part));
    return host_->wait(ticket);
  }

  Status run_on_dsp(const Run& run, size_t first, size_t last, Session& session) {
    const TraceSpan span(trace_, "npu", fmt::format("ops {} to {}", first, last - 1));
    if (scratch_ == nullptr) scratch_ = Buffer::allocate(library_, kFirstScratch);
    std::vector<std::shared_ptr<Buffer>> stores;
    for (const Stream& s : run.inputs->streams)
      if (s.kv != nullptr)
        if (auto buffer = library_->find(s.kv->memory())) stores.push_back(std::move(buffer));
    for (;;) {
      if (scratch_ == nullptr) return failed("hexagon: shared memory for scratch could not be allocated");
      BatchSources sources{.run = &run,
                           .plan = plan_.get(),
                           .rows = &rows_,
                           .rope = &rope_,
                           .arena = arena_,
                           .scratch = scratch_,
                           .kv = stores,
                           .infos = weights_->infos(),
                           .layouts = weights_->layouts(),
                           .weight = [&](WeightId w) { return place_[static_cast<size_t>(w)]; },
                           .number = [&](const std::shared_ptr<Buffer>& b) { return session.map(b); },
                           .threads = static_cast<uint32_t>(options_.threads),
                           .sequence = ++sequence_};
      forget_digests(run, first, last);
      LLADA_TRY(const Batch batch, build_batch(sources, first, last, staging_, library_));
      const double slowest = session.info().emulated != 0 ? kSlowestEmulated : kSlowest;
      LLADA_TRY(const WireReply reply, session.run(batch.bytes, sequence_, options_.deadline_s + batch.macs / slowest));
      if (reply.status == WIRE_NO_SCRATCH && reply.detail > scratch_->bytes()) {
        scratch_ = nullptr;
        scratch_ = Buffer::allocate(library_, reply.detail);
        continue;
      }
      ++counters_.batches;
      counters_.packets += static_cast<int64_t>(reply.packets);
      counters_.maps_beside += reply.maps_beside;
      if (reply.status != WIRE_OK) return failed("hexagon: running ops {} to {}: {}", first, last - 1, describe(reply));
      counters_.dsp_ops += static_cast<int64_t>(last - first);
      for (size_t k = 0; k < std::min(times_.size(), std::size(reply.microseconds)); ++k)
        times_[k] += reply.microseconds[k] / 1e3;
      return batch.has_head ? read_head(batch, staging_, rows_, run) : Status{};
    }
  }

  HexagonOptions options_;
  std::shared_ptr<Library> library_;
  std::shared_ptr<Weights> weights_;
  Placement placement_;
  std::unique_ptr<Device> host_, beside_host_;
  int64_t window_ = 0;
  std::string fewer_;          // why there are fewer sessions than the slabs were to be defined for
  bool slab_refused_ = false;  // the lane's until it is drained
  std::vector<std::shared_ptr<Session>> sessions_;
  std::vector<LoadedSlab> slabs_;
  std::vector<PlacedWeight> place_;  // by weight
  std::vector<int> in_slab_;         // by weight; -1: in none
  std::shared_ptr<Buffer> arena_, scratch_;
  Staging staging_;
  RecentPlans<ValuePlan> plans_{kRecentPlans};
  std::shared_ptr<const ValuePlan> plan_;  // of the program that was submitted last
  RowSets rows_;
  RopeTables rope_;
  std::map<Ticket, std::future<Status>> beside_;
  uint64_t sequence_ = 0;
  Ticket tickets_ = 0;
  HexagonCounters counters_;  // maps, unmaps, mapped_bytes: the lane's until it is drained
  PhaseTimes times_{};
  Trace* trace_ = nullptr;
  mutable MapLane map_lane_;  // the last member: its jobs use the others
};

}  // namespace

Result<std::unique_ptr<HexagonDevice>> make_hexagon_device(const HexagonOptions& options,
                                                           std::span<const WeightInfo> infos,
                                                           std::span<const TensorView> weights,
                                                           std::unique_ptr<Device> host, const WeightHooks& hooks) {
  LLADA_CHECK(infos.size() == weights.size() && options.sessions >= 1 && host->capabilities().host != nullptr);
  LLADA_TRY(auto library, Library::open(options.library));
  if (!options.module.empty()) library->opened(options.module);
  auto packed = std::make_shared<Weights>(infos, weights, hooks);
  auto twin = make_host_twin({library, packed, options.head_on_dsp}, std::move(host));
  return std::make_unique<Hexagon>(options, std::move(library), std::move(packed), std::move(twin));
}

Result<std::string> describe_hexagon(const HexagonOptions& options) {
  LLADA_TRY(auto library, Library::open(options.library));
  LLADA_TRY(const auto session,
            Session::open(library, options.space_bytes.value_or(kHexagonSpace), options.deadline_s));
  return Hexagon::describe_session(*library, session->info());
}

}  // namespace llada
