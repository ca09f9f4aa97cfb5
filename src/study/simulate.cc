#include "study/simulate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "devices/hexagon/reserve.h"
#include "engine/model_runner.h"
#include "models/model_graph.h"
#include "sched/executor.h"
#include "study/ladder.h"
#include "study/paging.h"
#include "study/presets.h"
#include "study/sim/sim_device.h"

namespace llada {
namespace {

constexpr double kGiB = 0x1p30;

// The options, resolved once.
struct Setup {
  Profile profile;
  PresetSpec spec;
  ModelGraph graph;
  std::vector<WeightSize> sizes;
  MemoryOptions memory;
  SimOptions device;
  int64_t reserve_bytes = 0, prompt = 0;
  Ladder ladder;

  Setup(Profile p, PresetSpec s, ModelGraph g) : profile(std::move(p)), spec(std::move(s)), graph(std::move(g)) {}
};

// The window for weights, from the options or the profile, without the other memory that must be mapped.
Status apply_window(Setup& s, const SimulateOptions& o) {
  if (!o.window_gib && !s.profile.window_gib) return {};
  const double gross = o.window_gib ? *o.window_gib : s.profile.window_gib->value;
  const double reserve = std::max(s.profile.reserve_gib.value, static_cast<double>(s.reserve_bytes) / kGiB);
  if (!(gross > reserve && gross <= 1024))
    return invalid(
        "window: found {} GiB, needed more than the {:.2f} GiB of the reserve, activations and K/V, at most "
        "1024",
        gross, reserve);
  s.device.window_bytes = static_cast<int64_t>((gross - reserve) * kGiB);
  return {};
}

Result<Setup> set_up(const SimulateOptions& o) {
  LLADA_TRY(auto profile, load_profile(o.profile));
  LLADA_TRY(auto spec, parse_preset(o.preset));
  LLADA_TRY(auto graph, build_model(spec.preset.config));
  constexpr int64_t kMost = 1 << 14;  // tokens; a pass is priced op by op
  if (o.prompt < 0 || o.prompt > kMost) return invalid("prompt: found {} tokens, needed 0 to {}", o.prompt, kMost);
  if (o.gen < 1 || o.gen > kMost) return invalid("gen: found {} tokens, needed 1 to {}", o.gen, kMost);
  Setup s(std::move(profile), std::move(spec), std::move(graph));
  s.ladder = ladder_of(s.spec.preset.config, o.gen);
  s.prompt = o.prompt;
  constexpr double kMostPasses = 1 << 16;
  const double least = static_cast<double>(s.ladder.gen) / kMostPasses;
  if (o.tokens_per_pass && !(*o.tokens_per_pass >= least && *o.tokens_per_pass <= static_cast<double>(s.ladder.block)))
    return invalid("tokens per pass: found {}, needed {} to the block's {}: {} passes at most", *o.tokens_per_pass,
                   least, s.ladder.block, kMostPasses);
  for (const WeightInfo& w : s.graph.weights) {
    const bool matrix = w.dims[1] > 1;
    PresetTensor tensor{w.name, {}, w.layer};
    tensor.shape.dims = {w.dims[0], w.dims[1], 1, 1};
    tensor.shape.rank = matrix ? 2 : 1;
    const DType type = stored_type(tensor, s.spec.type);
    s.sizes.push_back({row_bytes(type, w.dims[0]) * w.dims[1], type, matrix});
  }
  if (!o.memory.empty()) {
    LLADA_TRY(s.memory, memory_from_name(o.memory));
  }
  s.device.map_variant = o.map_variant;
  // A full pass may need more beside the weights than the profile sets aside.
  const auto keys = static_cast<int32_t>(o.prompt + s.ladder.gen);
  const auto rows = static_cast<int32_t>(s.ladder.canvas > 0 ? std::max(s.ladder.canvas, o.prompt) : keys);
  const Program full = s.graph.forward(plain_shape(rows, rows));
  s.reserve_bytes = hexagon_reserve(full, s.graph.weights, keys).total();
  LLADA_TRY_STATUS(apply_window(s, o));
  return s;
}

// Of each weight's columns the CPU's, for passes of a block and full ones.
std::vector<double> shares_of(const Setup& s) {
  const auto device = make_sim_device(s.profile, s.device, s.graph.weights, s.sizes, nullptr);
  if (!device) return {};  // the line itself says why
  std::vector<Program> programs;
  for (const int64_t n : {s.ladder.block, s.prompt + s.ladder.gen}) {
    const auto rows = static_cast<int32_t>(n);
    programs.push_back(s.graph.forward(plain_shape(rows, rows)));
  }
  return host_shares(s.profile, programs, s.graph.weights, s.sizes,
                     [&](const Op& op) { return (*device)->place(op) == Unit::accelerator; });
}

// A dry device with the executor in front of it.
class Bench {
 public:
  enum class Units : uint8_t { both, host, divided };
  static Result<std::unique_ptr<Bench>> create(const Setup& setup, Units units, const MemoryOptions& memory,
                                               bool record_spans = false) {
    std::unique_ptr<Bench> bench(new Bench);
    SimOptions options = setup.device;
    options.host_only = units == Units::host;
    if (units == Units::divided) options.host_shares = shares_of(setup);
    options.record_spans = record_spans;
    LLADA_TRY(bench->device_, make_sim_device(setup.profile, options, setup.graph.weights, setup.sizes, nullptr));
    bench->executor_ = std::make_unique<Executor>(*bench->device_, build_with(setup.graph),
                                                  ExecutorOptions{.memory = memory, .fallback = nullptr, .warn = {}});
    LLADA_TRY_STATUS(bench->executor_->prepare());
    bench->device_->reset_emulated();
    return bench;
  }

  Status pass(const SimulatedPass& p) {
    StepOutputs outputs;
    if (p.sparse > 0 && !sparse_) {
      sparse_ = std::make_shared<SidePass>();
      sparse_->inputs = step(p.sparse, p.sparse_wanted, p.keys);
      LLADA_TRY_STATUS(executor_->begin_side_pass(sparse_));
      steps_ = 0;
    }
    if (p.rows > 0) {
      StepInputs inputs = step(p.rows, p.wanted, p.keys);
      if (p.encode) inputs.pass = Pass::encode;
      LLADA_TRY_STATUS(executor_->run(inputs, outputs));
    }
    if (sparse_ && (p.rows == 0 || executor_->is_ready(*sparse_))) {  // without rows the step waits for it
      LLADA_TRY_STATUS(executor_->join(*sparse_));
      sparse_.reset();
      ++landed_, lateness_ += steps_;
    }
    ++steps_;
    return {};
  }

  int64_t landed() const { return landed_; }
  double lateness() const { return landed_ > 0 ? static_cast<double>(lateness_) / static_cast<double>(landed_) : 0; }

  SimDevice& device() { return *device_; }
  const ResidencyPlan* plan() const { return executor_->plan(); }

 private:
  Bench() = default;
  // Without a store: nothing is computed.
  static StepInputs step(int32_t rows, int32_t wanted, int32_t keys) {
    StepInputs inputs;
    inputs.streams.resize(1);
    std::vector<int32_t> positions(static_cast<size_t>(rows));
    std::iota(positions.begin(), positions.end(), 0);
    append_span(inputs, {}, std::vector<int32_t>(positions.size(), 0), positions, KeyRule::full(), keys);
    for (int32_t r = 0; r < wanted; ++r) {
      inputs.wanted.push_back(r);
      inputs.predictions.push_back({.conditional = r});
    }
    return inputs;
  }
  std::unique_ptr<SimDevice> device_;
  std::unique_ptr<Executor> executor_;
  std::shared_ptr<SidePass> sparse_;  // under way; no other begins
  int64_t steps_ = 0;                 // since it began
  int64_t landed_ = 0, lateness_ = 0;
};

Result<SimulatedLine> run_line(const Setup& setup, const LineSpec& spec, const std::vector<SimulatedPass>& passes,
                               int64_t tokens) {
  MemoryOptions memory = setup.memory;
  if (!spec.planned) {
    LLADA_TRY(memory, memory_from_name(spec.memory));
  }
  const auto units = spec.host_only ? Bench::Units::host : spec.divided ? Bench::Units::divided : Bench::Units::both;
  LLADA_TRY(const auto bench, Bench::create(setup, units, memory));
  for (const SimulatedPass& p : passes) LLADA_TRY_STATUS(bench->pass(p));
  const EmulatedStats s = bench->device().emulated();
  SimulatedLine line;
  line.name = spec.name;
  line.seconds = s.seconds;
  line.passes = static_cast<int64_t>(passes.size());
  line.tokens = tokens;
  line.joules = s.joules;
  for (const SimulatedPass& p : passes) line.rows_per_pass += p.rows;
  line.rows_per_pass /= static_cast<double>(passes.size());
  line.bytes_mapped_per_pass = static_cast<double>(s.mapped_bytes) / static_cast<double>(passes.size());
  line.maps_per_pass = static_cast<double>(s.maps) / static_cast<double>(passes.size());
  if (const ResidencyPlan* plan = bench->plan()) line.lower_bound_bytes = static_cast<double>(plan->lower_bound());
  line.map_seconds = s.map_s + s.dma_s;
  line.exposed_map_seconds = s.exposed_map_s;
  line.npu_seconds = s.npu_s;
  line.cpu_seconds = s.cpu_s;
  line.sparse_passes = bench->landed(), line.lateness = bench->lateness();
  return line;
}

// Tokens per pass of the last line.
double last_tokens(const Setup& setup, const SimulateOptions& o) {
  return o.tokens_per_pass.value_or(setup.ladder.lines.back().tokens_per_pass);
}

Result<SimulatedLine> run_line(const Setup& setup, const SimulateOptions& o, const LineSpec& spec) {
  const bool last = &spec == &setup.ladder.lines.back();
  if (last && !o.replay.empty()) {
    LLADA_TRY(SimulatedLine line, run_line(setup, spec, o.replay, o.replay_tokens));
    line.name = "recording";
    return line;
  }
  const bool all = last || setup.ladder.canvas > 0;
  double tokens = all ? last_tokens(setup, o) : spec.tokens_per_pass;
  if (spec.of_last > 0) tokens = std::max(1.0, spec.of_last * last_tokens(setup, o));
  return run_line(setup, spec, setup.ladder.passes(spec, o.prompt, tokens, setup.profile.logits_all_rows),
                  setup.ladder.gen);
}

// One pass in steady state, `wanted` of its rows with logits.
Result<double> step_seconds(const Setup& setup, Bench::Units units, int32_t rows, int32_t wanted) {
  LLADA_TRY(const auto bench, Bench::create(setup, units, setup.memory));
  const SimulatedPass pass{rows, wanted, rows};
  for (int warm = 0; warm < 2; ++warm) LLADA_TRY_STATUS(bench->pass(pass));
  const double before = bench->device().emulated().seconds;
  LLADA_TRY_STATUS(bench->pass(pass));
  return bench->device().emulated().seconds - before;
}

// As Simulation has it; weight_bytes: that the NPU reads in an undivided pass.
Result<Simulation::Divided> divide(const Setup& setup, double weight_bytes) {
  Simulation::Divided out{.weight_bytes = weight_bytes};
  LLADA_TRY(out.step128_s, step_seconds(setup, Bench::Units::divided, 128, 128));
  double all = 0, hosts = 0;
  const std::vector<double> shares = shares_of(setup);
  for (const Op& op : setup.graph.forward(plain_shape(1, 1)).ops)
    for (const WeightId id : op.weight) {
      if (op.kind != OpKind::matmul || id == kNoWeight) continue;
      const auto w = static_cast<size_t>(id);
      const auto bytes = static_cast<double>(setup.sizes[w].bytes);
      all += bytes, hosts += shares[w] * bytes;
    }
  out.host_share = hosts / std::max(all, 1.0);
  out.weight_bytes -= hosts;
  return out;
}

}  // namespace

Result<Simulation> simulate_ladder(const SimulateOptions& o) {
  LLADA_TRY(Setup setup, set_up(o));
  Simulation out;
  out.profile = setup.profile.name;
  out.description = setup.profile.description;
  out.preset = o.preset;
  out.gen = setup.ladder.gen, out.somr = setup.ladder.somr();
  std::vector<std::pair<const LineSpec*, SimulatedLine*>> lines;
  for (const bool beside : {false, true})
    for (const LineSpec& spec : beside ? setup.ladder.beside : setup.ladder.lines) {
      if (spec.divided && !setup.profile.divide) continue;
      LLADA_TRY(auto line, run_line(setup, o, spec));
      (beside ? out.beside : out.ladder).push_back(std::move(line));
    }
  for (size_t i = 0; i < out.ladder.size(); ++i) lines.emplace_back(&setup.ladder.lines[i], &out.ladder[i]);
  for (size_t i = 0; i < out.beside.size(); ++i) lines.emplace_back(&setup.ladder.beside[i], &out.beside[i]);
  LLADA_TRY(out.step128_cpu_s, step_seconds(setup, Bench::Units::host, 128, 128));
  LLADA_TRY(out.step128_npu_s, step_seconds(setup, Bench::Units::both, 128, 128));
  {
    LLADA_TRY(const auto bench, Bench::create(setup, Bench::Units::both, setup.memory));
    out.window_bytes = static_cast<double>(bench->device().window().weight_bytes);
    const Program program = setup.graph.forward(plain_shape(1, 1));
    for (const WeightUse& use : weight_uses(program, bench->device()))
      out.weight_bytes += static_cast<double>(use.bytes);
  }
  if (setup.profile.divide && !out.beside.empty()) {
    LLADA_TRY(out.divided, divide(setup, out.weight_bytes));
  }
  out.reserve_bytes = static_cast<double>(setup.reserve_bytes);
  out.rival = setup.profile.rival;
  if (!out.rival.empty())
    out.rival_seconds = static_cast<double>(setup.ladder.gen) / setup.profile.rival_tokens_per_s.value;
  const Profile profile = setup.profile;
  const std::string price = "map.variants." + profile.map(o.map_variant).name + ".us_per_mb";
  const Number& per_mb = profile.map(o.map_variant).us_per_mb;
  if (out.window_bytes >= 0 && per_mb.low) {
    for (const auto& [value, saving] :
         {std::pair{*per_mb.low, &out.somr_saving_low}, {*per_mb.high, &out.somr_saving_high}}) {
      setup.profile = with_number(profile, price, value);
      LLADA_TRY(const auto without, run_line(setup, o, setup.ladder.lines[out.somr - 1]));
      LLADA_TRY(const auto with, run_line(setup, o, setup.ladder.lines[out.somr]));
      *saving = 1 - with.seconds / without.seconds;
    }
  }
  // The last line with one number at another value.
  const auto last_line = [&](const std::string& path, double value) -> Result<double> {
    SimulateOptions at = o;
    if (path == kTokensPerPass) at.tokens_per_pass = value;
    setup.profile = path == kTokensPerPass ? profile : with_number(profile, path, value);
    LLADA_TRY_STATUS(apply_window(setup, o));
    LLADA_TRY(const auto line, run_line(setup, at, setup.ladder.lines.back()));
    return line.seconds;
  };
  for (const NamedNumber& named : numbers(profile)) {
    // The CPU's rate decides the lines that the last one is compared with.
    const bool cpu = named.path == "cpu.matmul_gflops" && named.number->low;
    if (!cpu && std::ranges::count(profile.uncertain, named.path) == 0) continue;
    out.sensitivity.push_back({named.path, named.unit, named.number->source, named.number->trust, named.number->value,
                               *named.number->low, *named.number->high, 0, 0});
  }
  if (setup.ladder.range != nullptr && !o.tokens_per_pass && o.replay.empty())
    out.sensitivity.push_back({std::string(kTokensPerPass), "tokens", setup.ladder.range->source, 'H',
                               std::round(100 * last_tokens(setup, o)) / 100, setup.ladder.range->low,
                               setup.ladder.range->high, 0, 0});
  for (SensitivityRow& row : out.sensitivity) {
    LLADA_TRY(row.seconds_low, last_line(row.path, row.low));
    LLADA_TRY(row.seconds_high, last_line(row.path, row.high));
  }
  for (const bool slowest : {false, true}) {
    setup.profile = profile;
    SimulateOptions at = o;
    for (const SensitivityRow& row : out.sensitivity) {
      const bool cpu = row.path.starts_with("cpu.");  // its rate hardly moves the last line, and others by itself
      const bool low = cpu ? slowest : (row.seconds_low > row.seconds_high) == slowest;
      const double value = low ? row.low : row.high;
      if (row.path == kTokensPerPass)
        at.tokens_per_pass = value;
      else
        setup.profile = with_number(setup.profile, row.path, value);
    }
    LLADA_TRY_STATUS(apply_window(setup, o));
    for (const auto& [spec, line] : lines) {
      LLADA_TRY(const SimulatedLine at_end, run_line(setup, at, *spec));
      (slowest ? line->seconds_high : line->seconds_low) = at_end.seconds;
      (slowest ? line->joules_high : line->joules_low) = at_end.joules;
    }
  }
  return out;
}

Result<std::vector<SpeedUp>> simulate_speed_ups(const SimulateOptions& o, std::span<const int64_t> prompts,
                                                std::span<const int64_t> gens) {
  std::vector<SpeedUp> out;
  for (const int64_t prompt : prompts)
    for (const int64_t gen : gens) {
      SimulateOptions at = o;
      at.prompt = prompt, at.gen = gen;
      LLADA_TRY(const Setup setup, set_up(at));
      const auto base = std::ranges::find_if(setup.ladder.lines, [](const LineSpec& l) { return l.prefix_kv; });
      LLADA_TRY(const auto cpu, run_line(setup, at, *base));
      LLADA_TRY(const auto last, run_line(setup, at, setup.ladder.lines.back()));
      out.push_back({prompt, gen, cpu.seconds / last.seconds});
    }
  return out;
}

std::vector<std::string> profile_names() {
  std::vector<std::string> names;
  for (const Profile& profile : builtin_profiles()) names.push_back(profile.name);
  return names;
}

Result<SimulatedLine> simulate_last_line(const SimulateOptions& o) {
  LLADA_TRY(const Setup setup, set_up(o));
  return run_line(setup, o, setup.ladder.lines.back());
}

Result<std::vector<double>> simulate_latency(const SimulateOptions& o, std::span<const int32_t> rows,
                                             std::optional<int32_t> most_logits) {
  if (most_logits && *most_logits < 1) return invalid("latency-logits: found {}, needed 1 or more", *most_logits);
  LLADA_TRY(const Setup setup, set_up(o));
  std::vector<double> seconds;
  for (const int32_t r : rows) {
    constexpr int32_t kMost = 1 << 16;
    if (r < 1 || r > kMost) return invalid("latency: found {} rows, needed 1 to {}", r, kMost);
    LLADA_TRY(const double s, step_seconds(setup, Bench::Units::both, r, std::min(r, most_logits.value_or(r))));
    seconds.push_back(s);
  }
  return seconds;
}

Result<std::vector<SweepRow>> sweep_window(const SimulateOptions& o, double from, double to, double step) {
  constexpr double kMostRows = 200;
  if (!(from > 0 && to >= from && step > 0 && (to - from) / step <= kMostRows))
    return invalid("sweep: found window={}:{}:{}, needed FROM:TO:STEP in GiB with at most {} steps", from, to, step,
                   kMostRows);
  std::vector<SweepRow> rows;
  const auto count = static_cast<int>(std::floor((to - from) / step + 1e-9)) + 1;
  for (int i = 0; i < count; ++i) {
    SweepRow row;
    row.window_gib = from + i * step;
    SimulateOptions at = o;
    at.window_gib = row.window_gib;
    const auto setup = set_up(at);
    if (!setup) return std::unexpected(setup.error());
    auto line = run_line(*setup, at, setup->ladder.lines[setup->ladder.somr()]);
    if (!line && !line.error().of_input()) return std::unexpected(line.error());
    if (!line) {
      row.error = line.error().message;
      rows.push_back(std::move(row));
      continue;
    }
    row.line = *line;
    row.lower_bound_bytes = row.line.lower_bound_bytes;
    const double price = setup->profile.map(at.map_variant).us_per_mb.value * 1e-6;  // s per MB
    row.least_exposed_s = std::max(
        0.0, static_cast<double>(row.line.passes) * row.lower_bound_bytes * 1e-6 * price - row.line.npu_seconds);
    constexpr int kPasses = 31;
    for (const NamedMemory& memory : kMemories) {
      if (memory.policy == MemoryPolicy::copy) continue;  // moves the slabs that the plan maps
      LineSpec spec = setup->ladder.lines[setup->ladder.somr()];
      spec.planned = false;
      spec.memory = memory.name;
      const std::vector<SimulatedPass> passes(kPasses, SimulatedPass{1, 1, 1});
      const auto bytes = run_line(*setup, spec, passes, 0);
      if (bytes) row.policy_bytes.emplace_back(memory.name, bytes->bytes_mapped_per_pass);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<std::vector<SimulatedSpan>> simulate_spans(const SimulateOptions& o) {
  LLADA_TRY(const Setup setup, set_up(o));
  LLADA_TRY(const auto bench, Bench::create(setup, Bench::Units::both, setup.memory, true));
  const auto block = static_cast<int32_t>(setup.ladder.block);
  const bool all = setup.profile.logits_all_rows || setup.ladder.canvas > 0;
  const SimulatedPass pass{block, all ? block : std::max(1, block / 2),
                           static_cast<int32_t>(o.prompt + setup.ladder.gen)};
  for (int warm = 0; warm < 2; ++warm) LLADA_TRY_STATUS(bench->pass(pass));
  double origin = 0;
  bench->device().take_spans();
  for (int i = 0; i < 3; ++i) LLADA_TRY_STATUS(bench->pass(pass));
  std::vector<SimulatedSpan> spans;
  for (const LaneSpan& span : bench->device().take_spans()) {
    if (spans.empty()) origin = span.start_s;
    spans.push_back({name(span.lane), span.label, span.start_s - origin, span.end_s - origin});
  }
  return spans;
}

}  // namespace llada
