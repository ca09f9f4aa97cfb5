#include "lab/hexagon_checkup.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "bench/machine.h"
#include "devices/hexagon/divided.h"
#include "devices/hexagon/hexagon_device.h"
#include "devices/hexagon/known_space.h"
#include "devices/hexagon/unit_record.h"
#include "lab/hexagon/experiments.h"
#include "lab/hexagon/unit_trial.h"

namespace llada::lab {
namespace {

using bench::now_s;

class Examination {
  using Kind = Finding::Kind;
  using Library = hexagon::Library;
  using Session = hexagon::Session;
  using Product = hexagon::Product;

 public:
  explicit Examination(const CheckupOptions& options) : options_(options) {}

  Checkup run() {
    if (open()) {
      seen();
      latency();
      const bool multiplies = speed();
      if (multiplies) split();
      maps();
      coherency();
      space();
      sessions();
      if (multiplies) {
        matrix_unit();  // the last step that asks the DSP, which may not come back
        write_profile();
      }
    }
    return std::move(checkup_);
  }

 private:
  void tell(Kind kind, std::string what, std::string text) {
    constexpr std::string_view kWho = "hexagon: ";  // of errors, which everything here is about
    for (size_t at = 0; (at = text.find(kWho, at)) != std::string::npos;) text.erase(at, kWho.size());
    checkup_.findings.push_back({kind, std::move(what), std::move(text)});
    if (options_.found) options_.found(checkup_.findings.back());
  }
  template <class T>
  bool worked(const std::string& what, const Result<T>& result) {
    if (!result) tell(Kind::bad, what, result.error().message);
    return result.has_value();
  }

  bool open() {
    auto library = Library::open(options_.library);
    if (!worked("library", library)) return false;
    library_ = *library;
    const auto arch = library_->architecture();
    tell(arch ? Kind::good : Kind::less, "library",
         fmt::format("{}{}, {}", library_->path(), library_->stand_in() ? " (the emulator's)" : "",
                     arch ? fmt::format("DSP v{}", *arch)
                          : "which does not tell the DSP's version: the oldest module is tried"));
    const double begin = now_s();
    auto session = Session::open(library_, options_.space_bytes, options_.deadline_s);
    if (!worked("session", session)) return false;
    session_ = *session;
    open_ms_ = (now_s() - begin) * 1e3;
    if (session_->info().emulated != 0)
      options_.outputs = std::min<int64_t>(options_.outputs, 256), options_.repeats = 1;
    return true;
  }

  // Notes the findings on the way.
  void seen() {
    const WireInfo& info = session_->info();
    const auto arch = library_->architecture();
    const bool older = arch && info.arch < *arch;
    tell(older ? Kind::less : Kind::good, "module",
         fmt::format("{}{}", session_->module(),
                     older ? fmt::format(" on a v{} DSP: put libllada_hexagon_skel_v{}.so into {} if there is one",
                                         *arch, *arch, Library::search_path())
                           : ""));
    const int status = session_->place().unsigned_status;
    tell(status == AEE_SUCCESS ? Kind::good : Kind::less, "unsigned",
         status == AEE_SUCCESS
             ? "allowed"
             : fmt::format("refused: {}, and the module was loaded nevertheless", hexagon::aee_name(status)));
    tell(Kind::good, "session",
         fmt::format("opened in {:.0f} ms, {} threads with a vector unit{}", open_ms_, info.threads,
                     info.emulated != 0 ? ", emulated: no time below means anything" : ""));
    const Session::Votes& votes = session_->votes();
    std::vector<std::string> refused;
    for (const auto& [bit, name] : {std::pair{WIRE_VOTE_CLASS, "class"}, std::pair{WIRE_VOTE_CLOCK, "clock"},
                                    std::pair{WIRE_VOTE_HVX, "vector units"}})
      if ((votes.refused & static_cast<uint32_t>(bit)) != 0) refused.emplace_back(name);
    tell(votes.refused == 0 ? Kind::good : Kind::less, "votes",
         votes.refused == 0 ? "clock and vector units are given"
         : refused.empty()  ? "the DSP's system takes none: its clock is the system's choice; compare the cycles below"
                            : fmt::format("{} refused: {}: the clock is the system's choice; compare the cycles below",
                                          fmt::join(refused, ", "), hexagon::aee_name(votes.status)));
    tell(info.map_call == 2   ? Kind::good
         : info.map_call == 1 ? Kind::less
                              : Kind::bad,
         "map call",
         info.map_call == 2 ? "HAP_mmap2"
         : info.map_call == 1
             ? "HAP_mmap, since there is no HAP_mmap2: a buffer has less than 2 GiB, as slabs have anyway"
             : "the DSP's system has no HAP_mmap: nothing can be mapped; it is too old");
  }

  void latency() {
    const auto with = hexagon::measure_call_us(*session_, options_.calls);
    if (!worked("latency", with)) return;
    call_us_ = *with;
    const auto off = session_->set_latency(false);
    const auto without = hexagon::measure_call_us(*session_, options_.calls);
    const auto on = session_->set_latency(true);
    if (!worked("latency", off) || !worked("latency", without) || !worked("latency", on)) return;
    if (!*on)
      tell(Kind::less, "latency", fmt::format("{:.0f} us a call; the library is too old to be asked for less", *with));
    else if (**on != AEE_SUCCESS)
      tell(Kind::less, "latency",
           fmt::format("{:.0f} us a call; less was refused: {}; keep the screen on", *with, hexagon::aee_name(**on)));
    else
      tell(Kind::good, "latency", fmt::format("{:.0f} us a call, {:.0f} without asking for less", *with, *without));
  }

  // The fastest of some runs, by the DSP's clock.
  Result<Product::Run> best(Product& product, uint32_t threads, int64_t rows) const {
    Product::Run best;
    for (int i = 0; i < options_.repeats; ++i) {
      LLADA_TRY(const Product::Run run, product.run(threads, rows));
      if (i == 0 || run.dsp_us < best.dsp_us) best = run;
    }
    return best;
  }

  // A wrong sum makes everything that the DSP computes worthless.
  bool speed() {
    auto made = Product::make(library_, session_, options_.outputs);
    if (!worked("product", made)) return false;
    product_.emplace(std::move(*made));
    const auto line = [&](uint32_t threads, const Product::Run& run) {
      const double packets = run.packets > 0 ? static_cast<double>(run.packets)
                                             : hexagon::kProductPackets * static_cast<double>(options_.outputs) / 4096;
      return fmt::format("{} thread{} {:.2f} ms{}", threads, threads == 1 ? "" : "s", run.dsp_us / 1e3,
                         run.cycles > 0 ? fmt::format(" ({:.2f} cycles per packet)",
                                                      static_cast<double>(run.cycles) * threads / packets)
                                        : "");
    };
    const uint32_t all = session_->info().threads;
    const auto given_back = session_->vote(false);
    const auto before = best(*product_, all, Product::kRows);
    const auto voted = session_->vote(true);
    if (!worked("votes", given_back) || !worked("product", before) || !worked("votes", voted)) return false;
    std::vector<std::string> lines;
    for (uint32_t threads = 1; threads <= all; ++threads) {
      const auto run = best(*product_, threads, Product::kRows);
      if (!worked("product", run)) return false;
      lines.push_back(line(threads, *run));
      fastest_us_ = threads == 1 ? run->dsp_us : std::min(fastest_us_, run->dsp_us);
    }
    const Product::Check check = product_->check();
    if (!check.right()) {
      tell(Kind::bad, "product",
           fmt::format("sums are off by up to {:g}: do not use this DSP, and send the hash {:016x}", check.worst_error,
                       check.hash));
      return false;
    }
    tell(Kind::good, "product",
         fmt::format("{} x {} x {} of Q4_0 is right, {:.0f} GMAC/s; {}; without votes {}", Product::kRows,
                     Product::kInputs, options_.outputs, product_->macs() / fastest_us_ / 1e3, fmt::join(lines, ", "),
                     line(all, *before)));
    const auto row = best(*product_, 0, 1);
    if (!worked("one row", row)) return false;
    row_us_ = row->dsp_us;
    tell(Kind::good, "one row",
         fmt::format("{:.2f} ms, {:.1f} GB/s of weights", row_us_ / 1e3,
                     static_cast<double>(product_->weight_bytes()) / row_us_ / 1e3));
    macs_ = product_->macs(), weight_bytes_ = static_cast<double>(product_->weight_bytes());
    return true;
  }

  // The host's products in the DSP's arithmetic, and the share of all columns with which both end together.
  void split() {
    const Product::Work work = product_->work();
    const int threads = usable_cores();
    const auto us = hexagon::time_on_host(*work.buffer, work.op, work.scratch, work.scratch_bytes, threads,
                                          std::max(options_.repeats, 1));
    if (!worked("split", us)) return;
    host_share_ = fastest_us_ / (fastest_us_ + *us);
    // What crosses costs time, too, which nobody has measured.
    const auto assumed = load_profile("v79-hvx");
    LLADA_CHECK(assumed.has_value() && assumed->divide);
    const double columns = Product::kInputs + host_share_ * static_cast<double>(options_.outputs);
    const double crossing_us = 2 * assumed->divide->meet_us.value +
                               Product::kRows * columns * 4 / (assumed->divide->exchange_gb_per_s.value * 1e3);
    const bool emulated = session_->info().emulated != 0, saves = host_share_ * fastest_us_ > crossing_us;
    tell(Kind::good, "split",
         fmt::format("the host multiplies {:.0f} GMAC/s on {} threads: {:.0f} % of a product's columns take it as long "
                     "as the DSP the others{}",
                     product_->macs() / *us / 1e3, threads, 100 * host_share_,
                     emulated ? ", and it has none beside an emulated DSP"
                     : saves  ? "; with this profile it has them, where the matrix unit is not used"
                              : "; rows that cross would cost more than that saves, so it has none"));
    if (emulated || !saves) host_share_ = 0;
  }

  void maps() {
    const auto idle = hexagon::measure_maps(library_, *session_, options_.large_map, nullptr);
    if (!worked("mapping", idle)) return;
    price_ = *idle;
    const auto busy = hexagon::measure_maps(library_, *session_, options_.large_map, product_ ? &*product_ : nullptr);
    if (!worked("mapping", busy)) return;
    busy_ = *busy;
    tell(Kind::good, "mapping",
         fmt::format("{:.0f} us a call and {:.1f} us a MB; {:.0f} and {:.1f} while the DSP computes",
                     price_.us_per_call, price_.us_per_mb, busy_.us_per_call, busy_.us_per_mb));
  }

  void coherency() {
    const auto found = hexagon::measure_coherency(library_, *session_);
    if (!worked("caches", found)) return;
    if (!found->asked)
      tell(Kind::bad, "caches",
           "one side does not see what the other wrote, in spite of maintenance: do not use this DSP");
    else
      tell(Kind::good, "caches",
           fmt::format("right with maintenance; without it the DSP {} the host's writes, the host {} the DSP's",
                       found->host_to_dsp ? "sees" : "does not see", found->dsp_to_host ? "sees" : "does not see"));
  }

  void space() {
    product_.reset();  // whose buffer is part of it
    const auto found = hexagon::measure_space(library_, *session_, options_.space_step);
    if (!worked("window", found)) return;
    if (found->bytes == 0) {
      tell(Kind::bad, "window", fmt::format("nothing can be mapped: {}", found->refusal));
      return;
    }
    space_ = found->bytes;
    hexagon::learn_space(*library_, options_.cache, space_);
    const bool less = space_ < kHexagonSpace - (int64_t{256} << 20);
    tell(less ? Kind::less : Kind::good, "window",
         fmt::format("{:.2f} GiB of address space, {}{}", static_cast<double>(space_) / 0x1p30,
                     found->of_memory ? "as far as memory went: end other programs and measure again"
                                      : fmt::format("then {}", found->refusal.empty() ? "no end" : found->refusal),
                     less && !found->of_memory ? "; --device hexagon:sessions=2 gives two" : ""));
  }

  void sessions() {
    const auto second = Session::open(library_, options_.space_bytes, options_.deadline_s);
    sessions_ = second ? 2 : 1;
    tell(second ? Kind::good : Kind::less, "sessions",
         second ? "two at a time" : fmt::format("one: a second was refused: {}", second.error().message));
  }

  // The mark that its test began is on disk before the unit's first instruction, and stays where the test never ended.
  void matrix_unit() {
    using State = hexagon::UnitRecord::State;
    constexpr std::string_view kWhat = "matrix unit";
    const auto said = [&](Kind kind, const std::string& text) {
      unit_said_ = text;
      tell(kind, std::string(kWhat), text);
    };
    const hexagon::UnitRecords records(options_.cache, *library_, *session_);
    if (records.read().state == State::began) return said(Kind::less, "not asked: " + records.refusal());
    const auto votes = session_->vote_unit(true);
    if (!votes) return said(Kind::bad, votes.error().message);
    if (session_->unit_bytes() == 0)
      return said(Kind::less, fmt::format("none: {} was refused; products are the vector unit's",
                                          hexagon::describe_refusal(*votes)));
    if (const Status marked = records.write({State::began, {}}); !marked)
      return said(Kind::less,
                  fmt::format("not asked, since no mark can be kept that its test began: {}", marked.error().message));
    hexagon::UnitTrialSize size{.timed = options_.repeats, .deadline_s = options_.deadline_s};
    if (session_->info().emulated != 0)
      size.inputs = size.outputs = 96, size.rows = 33, size.attention_rows = 3, size.keys = 40;
    const auto trial = hexagon::try_unit(library_, session_, size);
    if (!trial && !session_->alive())
      return said(Kind::bad, fmt::format("{}; {}", trial.error().message, records.refusal()));
    constexpr std::string_view kWho = "hexagon: ";
    std::string why = !trial ? trial.error().message : trial->why;
    if (why.starts_with(kWho)) why.erase(0, kWho.size());
    const Status kept = records.write(why.empty() ? hexagon::UnitRecord{State::passed, {}}
                                                  : hexagon::UnitRecord{State::failed, "its test: " + why});
    if (!kept) return said(Kind::bad, kept.error().message);
    if (!why.empty()) return said(Kind::bad, fmt::format("{}: products stay the vector unit's", why));
    std::vector<std::string> times;
    for (const auto& t : trial->times)
      times.push_back(fmt::format("{} row{} {:.2f} for {:.2f} ms", t.rows, t.rows == 1 ? "" : "s", t.matrix_us / 1e3,
                                  t.vector_us / 1e3));
    unit_macs_per_us_ =
        static_cast<double>(size.rows * size.inputs * size.outputs) / std::max(trial->times.back().matrix_us, 1e-3);
    said(Kind::good,
         fmt::format("right, with {} KiB of memory{}; for the vector unit's times: {}; hash {:016x}; --device hexagon "
                     "uses it from now on",
                     session_->unit_bytes() >> 10,
                     (votes->refused & WIRE_VOTE_MATRIX_CLOCK) != 0 ? " and a clock of the system's choice" : "",
                     fmt::join(times, ", "), trial->hash));
  }

  void write_profile() {
    if (space_ == 0) return;
    const WireInfo& info = session_->info();
    const uint32_t arch = library_->architecture().value_or(info.arch);
    auto base = load_profile(arch >= 79 ? "v79-hvx" : "v75-hvx");
    LLADA_CHECK(base.has_value());
    Profile p = std::move(*base);
    const std::string based_on = p.name;
    const std::string by =
        fmt::format("llada doctor, {}{}", session_->module(), info.emulated != 0 ? ", EMULATED" : "");
    const auto measured = [&](double value) {
      return Number{std::max(value, 1e-3), std::nullopt, std::nullopt, 'M', by};
    };
    p.name = fmt::format("measured-v{}", arch);
    p.description = fmt::format("{}DSP v{} of this machine, our own kernels; other numbers are from {}",
                                info.emulated != 0 ? "EMULATED, no figure is a time: " : "", arch, based_on);
    const double assumed = p.npu.matmul_gflops.value;
    p.npu.matmul_gflops = measured(2 * macs_ / fastest_us_ / 1e3);
    // Every kernel is instruction packets, so all go as fast or slow as the measured one.
    const double faster = p.npu.matmul_gflops.value / assumed;
    for (Number* rate : {&p.npu.attention_gflops, &p.npu.elementwise_gb_per_s})
      *rate = {rate->value * faster, std::nullopt, std::nullopt, 'I',
               fmt::format("{}'s, {:.3g} times as fast, as the measured product is", based_on, faster)};
    if (unit_macs_per_us_ > 0) p.npu.matmul_gflops = measured(2 * unit_macs_per_us_ / 1e3), p.npu.row_tile.value = 32;
    p.npu.stream_gb_per_s = measured(weight_bytes_ / row_us_ / 1e3);
    p.npu.batch_us = measured(call_us_);
    p.window_gib = measured(static_cast<double>(space_) / 0x1p30);
    p.reserve_gib.value = std::min(p.reserve_gib.value, static_cast<double>(space_) / 0x1p30 / 2);
    p.sessions = measured(sessions_);
    p.map_variants = {{"measured", measured(price_.us_per_call), measured(price_.us_per_mb)},
                      {"busy", measured(busy_.us_per_call), measured(busy_.us_per_mb)}};
    p.map_default = "busy";  // SOMR maps while the DSP computes
    p.head_on_npu = true;
    p.rival.clear();
    p.dsp = {static_cast<int>(info.arch), static_cast<int>(info.threads), session_->module(), unit_said_,
             std::round(1e3 * host_share_) / 1e3};
    // Numbers that were not measured and matter most, a factor of two either way where nobody has said more.
    p.uncertain.clear();
    for (const auto& [path, number] :
         {std::pair{"npu.attention_gflops", &p.npu.attention_gflops}, std::pair{"npu.op_us", &p.npu.op_us},
          std::pair{"cpu.matmul_gflops", &p.cpu.matmul_gflops}}) {
      if (!number->low) number->low = number->value / 2, number->high = number->value * 2;
      p.uncertain.emplace_back(path);
    }
    checkup_.profile = std::move(p);
  }

  CheckupOptions options_;
  Checkup checkup_;
  std::shared_ptr<Library> library_;
  std::shared_ptr<Session> session_;
  std::optional<Product> product_;
  double macs_ = 0, weight_bytes_ = 0, open_ms_ = 0, call_us_ = 0, fastest_us_ = 0, row_us_ = 0;
  hexagon::MapPrice price_, busy_;
  int64_t space_ = 0;
  int sessions_ = 1;
  std::string unit_said_;
  double unit_macs_per_us_ = 0;  // 0: it is not used
  double host_share_ = 0;        // of products
};

}  // namespace

Checkup check_hexagon(const CheckupOptions& options) { return Examination(options).run(); }

}  // namespace llada::lab
