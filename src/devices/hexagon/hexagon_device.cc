#include "devices/hexagon/hexagon_device.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "base/check.h"
#include "devices/hexagon/batch.h"
#include "devices/hexagon/host_share.h"
#include "devices/hexagon/host_twin.h"
#include "devices/hexagon/known_space.h"
#include "devices/hexagon/kv_rows.h"
#include "devices/hexagon/library.h"
#include "devices/hexagon/mapped_slabs.h"
#include "devices/hexagon/pending.h"
#include "devices/hexagon/reserve.h"
#include "devices/hexagon/unit_use.h"
#include "devices/host_passes.h"
#include "devices/value_plan.h"

namespace llada {
namespace {

using namespace hexagon;

// Multiply-accumulates per second of whole batches below which a DSP counts as hanging. The emulator does about 100
// million on an idle machine, a tenth of that beside ten busy processes; a real DSP thousands of millions.
constexpr double kSlowestEmulated = 5e6, kSlowest = 50e6;
static_assert(kHexagonRows == WIRE_MAX_ROWS);

class Hexagon final : public HexagonDevice {
 public:
  // host: its twin (host_twin.h).
  Hexagon(HexagonOptions options, std::shared_ptr<Library> library, std::shared_ptr<Weights> weights,
          std::unique_ptr<Device> host, std::shared_ptr<UnitGrant> unit = std::make_shared<UnitGrant>())
      : options_(std::move(options)),
        library_(std::move(library)),
        weights_(std::move(weights)),
        placement_{library_, weights_, options_.head_on_dsp},
        host_(std::move(host)),
        unit_(std::move(unit)),
        share_(options_.host_share, host_->info().threads, options_.on_part),
        slabs_(weights_, sessions_) {
    set_window(options_.window_bytes.value_or(believed_space(*library_, options_.cache) - options_.reserve_bytes));
  }

  void set_window(int64_t weight_bytes) override { window_ = weight_bytes; }
  HexagonCounters counters() const override {
    slabs_.finish();
    HexagonCounters c = counters_;
    c.maps = slabs_.maps, c.unmaps = slabs_.unmaps, c.mapped_bytes = slabs_.mapped_bytes;
    c.lines += *fetched_lines_, c.host_parts = share_.computed();
    c.arena_bytes = arena_ ? arena_->bytes() : 0;
    c.staging_bytes = staging_.bytes();
    c.scratch_bytes = scratch_ ? scratch_->bytes() : 0;
    return c;
  }

  DeviceInfo info() const override {
    const DeviceInfo behind = host_->info();
    std::string what = "not started";
    if (!sessions_.empty()) what = describe(*library_, sessions_[0]->info());
    const std::string shared = host_tiles(unit_.units())
                                   ? fmt::format(", which has {:.0f} % of the products' columns", 100 * share_.share())
                                   : "";
    return {"hexagon",
            fmt::format("{}, {} session{} with {:.2f} GiB for weights and {:.0f} MiB beside; host on {}{}", what,
                        options_.sessions, options_.sessions == 1 ? "" : "s", static_cast<double>(window_) / 0x1p30,
                        static_cast<double>(options_.reserve_bytes) / 0x1p20, behind.description, shared),
            behind.threads, behind.processor};
  }

  Result<std::unique_ptr<Device>> on_host(int threads) const override { return host_->share(threads); }
  Result<std::unique_ptr<Device>> share(int threads) const override {
    LLADA_TRY(auto host, host_->share(threads));
    auto other = std::make_unique<Hexagon>(options_, library_, weights_, std::move(host), unit_.grant());
    other->set_window(window_);
    return other;
  }

  Status start() override {
    if (!sessions_.empty() && all_alive()) return {};
    sessions_.clear();
    const int64_t space =
        options_.space_bytes.value_or(std::min<int64_t>(window_ + options_.reserve_bytes, 0xffff0000));
    for (int i = 0; i < options_.sessions; ++i) {
      auto session = Session::open(library_, space, options_.deadline_s);
      if (!session && i > 0) {
        fewer_ = fmt::format("{}; {} of {} sessions are used", session.error().message, i, options_.sessions);
        options_.sessions = i;
        if (options_.warn) options_.warn(fewer_);
        break;
      }
      if (!session) return std::unexpected(session.error());
      sessions_.push_back(std::move(*session));
      ++counters_.sessions_opened;
    }
    return unit_.take(options_, *library_, sessions_);
  }

  // Large mappings may find no room where small ones do, so they are parted first. Then the bytes mapped at a refusal
  // are the window; where a buffer beside the weights was refused, room for it is made.
  std::string narrow() override {
    slabs_.finish();
    if (std::string line = unit_.lost(); !line.empty()) return line;
    if (!fewer_.empty()) return std::exchange(fewer_, {});
    if (slabs_.empty() || !all_alive()) return {};
    std::optional<Session::Refusal> refusal;
    int64_t next = window_;
    for (size_t i = 0; i < sessions_.size(); ++i) {
      const auto refused = sessions_[i]->take_refusal();
      if (!refused) continue;
      const auto there = slabs_.there_when_refused(static_cast<int>(i));
      next = std::min(
          next, narrower(window_, there.value_or(slabs_.bytes_in(static_cast<int>(i))), there ? 0 : refused->bytes));
      refusal = refused;
    }
    if (!refusal) return {};
    const std::string what =
        fmt::format("hexagon: mapping {} bytes beside {} was refused", refusal->bytes, refusal->beside);
    if (slabs_.bundled()) {
      slabs_.separate();
      return what + "; slabs are mapped one by one from now on";
    }
    if (next < 2 * slabs_.largest()) return {};  // two slots are the least that streams
    window_ = next;
    learn_space(*library_, options_.cache, next + options_.reserve_bytes);
    return fmt::format("{}; the window for weights is {:.2f} GiB from now on", what,
                       static_cast<double>(next) / 0x1p30);
  }

  SharedBytes allocate(int64_t bytes) override { return host_->allocate(bytes); }

  Capabilities capabilities() override { return {.window = this, .side_passes = &beside_}; }

  // ---- Placement and the window

  Unit place(const Op& op) const override { return placement_.place(op); }

  DeviceWindow window() const override {
    return {
        .weight_bytes = window_, .sessions = options_.sessions, .cuts_slabs = false, .page_bytes = hexagon::kPageBytes};
  }
  std::vector<int64_t> weight_sizes() const override { return {weights_->bytes().begin(), weights_->bytes().end()}; }

  Status define_slabs(std::vector<DeviceSlab> slabs) override {
    drop_pending();
    slabs_.finish();
    LLADA_TRY_STATUS(start());
    LLADA_TRY_STATUS(slabs_.unmap_all());
    if (flags_ == nullptr) flags_ = Buffer::allocate(library_, sizeof(WireFlags));
    if (flags_ == nullptr) return failed("hexagon: shared memory for flags could not be allocated");
    slabs_.use_flags(flags_);
    LLADA_TRY_STATUS(slabs_.define(std::move(slabs), library_, host_->info().threads));
    fewer_.clear();
    return {};
  }

  // Both only ask: the lane maps and unmaps in that order while batches run, and behind the ops that were submitted
  // before. A run has the errors of the slabs that it needs.
  Status map(int index, MapMode mode) override {
    if (mode == MapMode::copy) return invalid("hexagon: slabs are mapped, not copied; needed memory plan or sessions");
    if (pending_.steps.size() >= kMostSteps) LLADA_TRY_STATUS(flush());
    LLADA_TRY_STATUS(slabs_.expect(index));
    if (pending_.run.program == nullptr) {
      slabs_.post_map(index);
      return {};
    }
    if (slabs_.used_by(pending_.run).contains(index)) pending_.again.insert(index);
    pending_.steps.push_back({pending_.run.last, index, true});
    return {};
  }

  Status unmap(int index) override {
    if (!std::exchange(slabs_.at(index).mapped, false)) return failed("hexagon: slab {} is not mapped", index);
    if (pending_.run.program == nullptr)
      slabs_.post_unmap(index, nullptr, 0);
    else
      pending_.steps.push_back({pending_.run.last, index, false});
    return {};
  }

  // ---- Work

  Status supports(const Program& program) const override {
    if (!stores_alike(program)) return failed("hexagon: layers differ in their K/V heads, needed alike");
    return host_->supports(program);  // which runs the rest
  }

  Result<Ticket> submit(const Run& run) override {
    LLADA_CHECK(run.program != nullptr && run.inputs != nullptr && run.first <= run.last &&
                run.last <= run.program->ops.size());
    const Run& before = pending_.run;
    if (before.program != nullptr && !(run.program == before.program && run.inputs == before.inputs &&
                                       run.outputs == before.outputs && run.first == before.last)) {
      if (run.first == 0)
        drop_pending();  // of a pass that was given up: its inputs may be gone
      else
        LLADA_TRY_STATUS(flush());
    }
    LLADA_TRY_STATUS(prepare(run));
    if (run.unit == Unit::host) {
      LLADA_TRY_STATUS(run_on_host(run, run.first, run.last));
      return ++tickets_;
    }
    for (size_t i = run.first; i < run.last; ++i) LLADA_TRY_STATUS(slabs_.check_asked(run.program->ops[i], i));
    for (size_t i = run.first; i < run.last;) {
      const bool host = placement_.needs_host(run, run.program->ops[i]);
      int session = slabs_.session_of(run.program->ops[i]);
      size_t end = i + 1, ops = wire_ops(run.program->ops[i], *run.inputs);
      for (; end < run.last && placement_.needs_host(run, run.program->ops[end]) == host; ++end) {
        ops += wire_ops(run.program->ops[end], *run.inputs);
        if (!host && ops > WIRE_MAX_OPS) break;
        const int next = slabs_.session_of(run.program->ops[end]);
        if (!host && next >= 0 && session >= 0 && next != session) break;
        if (session < 0) session = next;
      }
      if (host) {
        LLADA_TRY_STATUS(run_on_host(run, i, end));
        counters_.host_ops += static_cast<int64_t>(end - i);
      } else {
        LLADA_TRY_STATUS(add_pending(run, i, end, session, ops));
      }
      i = end;
    }
    return ++tickets_;
  }

  Status wait(Ticket ticket) override { return beside_.has(ticket) ? beside_.take(ticket) : flush(); }

  int64_t digest_bytes(const KvShape& kv) const override { return host_->digest_bytes(kv); }

  PhaseTimes take_phase_times() override {
    PhaseTimes times = host_->take_phase_times();
    for (size_t k = 0; k < times.size(); ++k) times[k] += std::exchange(times_[k], 0.0);
    return times;
  }
  int64_t memory_bytes() const override {
    return host_->memory_bytes() + staging_.bytes() + (scratch_ ? scratch_->bytes() : 0) + slabs_.bytes();
  }
  void set_trace(Trace* trace) override {
    slabs_.finish();  // which writes to the old one
    slabs_.set_trace(trace);
    trace_ = trace;
    host_->set_trace(trace);
    beside_.set_trace(trace);
  }

 private:
  bool all_alive() const {
    return std::ranges::all_of(sessions_, [](const auto& session) { return session->alive(); });
  }

  // The arena of the program, and the data derived from the step at its first run.
  Status prepare(const Run& run) {
    plan_ = plans_.find(run.program);
    if (plan_ == nullptr) plan_ = plans_.keep(run.program, plan_values(*run.program));
    if (arena_ == nullptr || arena_->bytes() < plan_->bytes) {
      arena_ = nullptr;
      arena_ = Buffer::allocate(library_, plan_->bytes);
      if (arena_ == nullptr)
        return failed("hexagon: {} bytes of shared memory for activations could not be allocated", plan_->bytes);
      host_arena_ = Buffer::allocate(nullptr, plan_->bytes);
      if (host_arena_ == nullptr)
        return failed("hexagon: {} bytes for activations could not be allocated", plan_->bytes);
      host_->capabilities().host->use_arena(SharedBytes(host_arena_->data(), [keep = host_arena_](std::byte*) {}),
                                            host_arena_->bytes());
      run_program_ = nullptr;
    }
    if (run.first == 0 || run_program_ != run.program.get()) {
      // The inputs of a program that begins without tokens lie in neither arena.
      where_.assign(run.program->values.size(), run.program->ops[0].in[0] == kNoValue ? 0 : kOnHost | kOnDsp);
      run_program_ = run.program.get();
    }
    if (run.first == 0) {
      rows_ = bind_row_sets(*run.inputs, *run.program);
      LLADA_TRY_STATUS(placement_.check_stores(run));
    }
    return {};
  }

  Status add_pending(const Run& run, size_t first, size_t last, int session, size_t ops) {
    Pending& p = pending_;
    const bool any = p.run.program != nullptr;
    Run part = run;
    part.first = first, part.last = last;
    const bool again = std::ranges::any_of(slabs_.used_by(part), [&](int slab) { return p.again.contains(slab); });
    if (any && (again || p.ops + ops > WIRE_MAX_OPS || (session >= 0 && p.session >= 0 && session != p.session)))
      LLADA_TRY_STATUS(flush());
    if (p.run.program == nullptr) {
      p.run = run, p.run.first = first, p.session = -1, p.ops = 0;
    }
    p.run.last = last, p.ops += ops;
    if (p.session < 0) p.session = session;
    return {};
  }

  // Mappings that were asked for are made all the same.
  void drop_pending() {
    const Pending dropped = std::exchange(pending_, {});
    for (const Pending::Step& step : dropped.steps) post(step, nullptr);
  }
  void post(const Pending::Step& step, std::shared_ptr<const Progress> progress) {
    if (step.map)
      slabs_.post_map(step.slab);
    else
      slabs_.post_unmap(step.slab, std::move(progress), step.after);
  }

  // wanted: values that the host reads next.
  Status flush(std::span<const ValueId> wanted = {}) {
    if (pending_.run.program == nullptr) return {};
    const Pending p = std::exchange(pending_, {});
    return run_on_dsp(p, *sessions_[static_cast<size_t>(std::max(p.session, 0))], wanted);
  }

  Status run_on_host(const Run& run, size_t first, size_t last) {
    Run part = run;
    part.first = first, part.last = last;
    part.unit = Unit::host;
    Places behind = where_;
    if (pending_.run.program != nullptr) static_cast<void>(to_bring(pending_.run, kOnDsp, behind));
    const std::vector<ValueId> wanted = to_bring(part, kOnHost, behind);
    LLADA_TRY_STATUS(flush(wanted));
    if (std::ranges::any_of(wanted, [&](ValueId id) { return (where_[static_cast<size_t>(id)] & kOnHost) == 0; })) {
      Pending nothing{.run = part};  // an earlier batch has computed them
      nothing.run.last = first;
      LLADA_TRY_STATUS(run_on_dsp(nothing, *sessions_[0], wanted));
    }
    static_cast<void>(to_bring(part, kOnHost, where_));
    LLADA_TRY(const Ticket ticket, host_->submit(part));
    return host_->wait(ticket);
  }

  Status run_on_dsp(const Pending& p, Session& session, std::span<const ValueId> wanted) {
    const Run& run = p.run;
    const size_t first = run.first, last = run.last;
    const TraceSpan span(trace_, "npu", fmt::format("ops {} to {}", first, last - 1));
    Places where = where_;
    const std::vector<ValueId> in = to_bring(run, kOnDsp, where);
    std::vector<ValueId> out(wanted.begin(), wanted.end());
    std::erase_if(out, [&](ValueId id) { return where[static_cast<size_t>(id)] != kOnDsp; });
    const auto progress = std::make_shared<Progress>();
    const Progress::End end{progress};
    if (scratch_ == nullptr) scratch_ = Buffer::allocate(library_, kFirstScratch);
    flags_->give([&] { *reinterpret_cast<WireFlags*>(flags_->data()) = {}; });
    progress->flags = flags_, progress->first = first;
    const KeptStores stores = keep_stores(*run.inputs, *library_, fetched_lines_);

    const auto [passing, there] = part_slabs(p, slabs_.used_by(run), [&](int slab) { return slabs_.done(slab); });
    std::map<const Buffer*, uint32_t> numbers;
    const auto number = [&](int slab) {
      for (const auto& buffer : slabs_.at(slab).packed->buffers) numbers[buffer.get()] = session.promised(*buffer);
    };
    for (const int slab : passing)
      if (!p.maps_once(slab)) number(slab);
    int64_t maps = std::ranges::count_if(p.steps, &Pending::Step::map) + std::ssize(passing);
    for (const Pending::Step& step : p.steps) post(step, progress);
    for (const int slab : passing)
      if (p.maps_once(slab)) number(slab);
    const Status status = [&]() -> Status {
      LLADA_TRY_STATUS(slabs_.check_mapped(there));
      for (;;) {
        if (scratch_ == nullptr) return failed("hexagon: shared memory for scratch could not be allocated");
        const uint32_t units = unit_.begin_batch();
        BatchSources sources{.run = &run,
                             .plan = plan_.get(),
                             .rows = &rows_,
                             .rope = &rope_,
                             .arena = arena_,
                             .scratch = scratch_,
                             .kv = stores.buffers,
                             .host_arena = host_arena_,
                             .in = in,
                             .out = out,
                             .written = stores.written,
                             .infos = weights_->infos(),
                             .layouts = weights_->layouts(),
                             .weight = [&](WeightId w) { return slabs_.place(w); },
                             .number = [&](const std::shared_ptr<Buffer>& b) -> Result<uint32_t> {
                               const auto passes = numbers.find(b.get());
                               if (passes == numbers.end()) return session.map(b);
                               return passes->second;
                             },
                             .passes = [&](const Buffer& b) { return numbers.contains(&b); },
                             .flags = flags_,
                             .threads = static_cast<uint32_t>(options_.threads),
                             .units = units,
                             .host_tiles = host_tiles(units),
                             .sequence = ++sequence_};
        wrote_rows(run, first, last, KvViewer::dsp);
        LLADA_TRY(const Batch batch, build_batch(sources, first, last, staging_, library_));
        for (const Staging* staged : {&staging_.in, &staging_.out}) staged->buffer()->give();
        progress->sequence = sequence_;
        if (!progress->built) progress->ops_at = batch.ops_at, progress->built = true;
        const double slowest = session.info().emulated != 0 ? kSlowestEmulated : kSlowest;
        const double waits = options_.deadline_s * static_cast<double>(std::exchange(maps, 0));
        share_.begin(batch, sequence_, staging_, flags_);
        const auto answer = session.run(batch.bytes, sequence_, options_.deadline_s + waits + batch.macs / slowest);
        LLADA_TRY_STATUS(share_.end());
        if (!answer) unit_.give_up("a batch with the matrix unit did not end");
        LLADA_TRY(const WireReply reply, answer);
        staging_.out.buffer()->take();
        counters_.lines += reply.lines;
        if (reply.status == WIRE_NO_SCRATCH && reply.detail > scratch_->bytes()) {
          scratch_ = nullptr;
          scratch_ = Buffer::allocate(library_, reply.detail);
          continue;
        }
        ++counters_.batches;
        counters_.packets += static_cast<int64_t>(reply.packets);
        counters_.maps_beside += reply.maps_beside;
        if (reply.status == WIRE_NO_UNIT)
          unit_.lose(reply.detail == 0 ? "the matrix unit was not given to a thread"
                                       : fmt::format("a sum of the matrix unit in op {} is wrong", reply.op));
        if (reply.status != WIRE_OK)
          return failed("hexagon: running ops {} to {}: {}", first, last - 1, describe(reply));
        counters_.dsp_ops += static_cast<int64_t>(last - first);
        for (size_t k = 0; k < std::min(times_.size(), std::size(reply.microseconds)); ++k)
          times_[k] += reply.microseconds[k] / 1e3;
        take_values(sources, batch, staging_.out);
        for (const ValueId id : out) where[static_cast<size_t>(id)] |= kOnHost;
        where_ = std::move(where);
        return batch.has_head ? read_head(batch, staging_.out, rows_, run) : Status{};
      }
    }();
    progress->ended = true;  // so that the mappings behind it are made, which are waited for
    // A slab that did not come is the reason.
    if (!status) LLADA_TRY_STATUS(slabs_.check_mapped(passing));
    return status;
  }

  // units: of the batch. The host's columns have the vector unit's bits, so a batch with the matrix unit has none.
  std::function<int64_t(WeightId)> host_tiles(uint32_t units) const {
    if (share_.share() == 0 || units != 0) return {};
    return [this](WeightId w) { return share_.tiles_of(weights_->infos()[static_cast<size_t>(w)].dims[1]); };
  }

  HexagonOptions options_;
  std::shared_ptr<Library> library_;
  std::shared_ptr<Weights> weights_;
  Placement placement_;
  std::unique_ptr<Device> host_;
  int64_t window_ = 0;
  UnitUse unit_;
  std::string fewer_;  // why there are fewer sessions than the slabs were to be defined for
  std::vector<std::shared_ptr<Session>> sessions_;
  std::shared_ptr<Buffer> arena_, scratch_, flags_, host_arena_;
  Places where_;                          // of the program that was submitted last
  const Program* run_program_ = nullptr;  // of which where_ is
  std::shared_ptr<std::atomic<int64_t>> fetched_lines_ = std::make_shared<std::atomic<int64_t>>(0);
  Pending pending_;
  Stagings staging_;
  RecentPlans<ValuePlan> plans_{kRecentPlans};
  std::shared_ptr<const ValuePlan> plan_;  // of the program that was submitted last
  RowSets rows_;
  RopeTables rope_;
  HostPasses beside_{*host_};
  uint64_t sequence_ = 0;
  Ticket tickets_ = 0;
  HexagonCounters counters_;  // but for those of slabs_
  PhaseTimes times_{};
  Trace* trace_ = nullptr;
  HostShare share_;
  MappedSlabs slabs_;  // the last member: its thread uses the others
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
  return describe(*library, session->info());
}

}  // namespace llada
