#include "study/simulate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/model_runner.h"
#include "models/model_graph.h"
#include "sched/executor.h"
#include "study/paging.h"
#include "study/presets.h"
#include "study/sim/sim_device.h"

namespace llada {
namespace {

constexpr double kGiB = 0x1p30;

// Tokens per pass that the published times imply (see simulate.h).
constexpr double kMbsdTokensPerPass = 128 / 103.5, kRevisionTokensPerPass = 128 / 15.2;

// Tokens that revision checks in a pass of the CPU's path, as the presets have it.
constexpr int32_t kRevisedRows = 8;

// With speculation a pass has as many logits as its block has rows: drafts stand in the place of decided tokens. With
// revision the CPU checks tokens beside it, and computes the K/V of those that were decided since.
enum class Fills { nothing, drafts, drafts_and_checks };

struct LineSpec {
  const char* name;
  bool host_only, prefix_kv;
  std::string_view memory;  // by name; of the lines with a planned memory the options' choice
  bool planned;
  double tokens_per_pass;
  Fills fills = Fills::nothing;
};
constexpr LineSpec kLines[] = {
    {"CPU", true, false, "plan", false, 1},
    {"+ prefix K/V", true, true, "plan", false, 1},
    {"+ NPU", false, true, "drop-all", false, 1},
    {"+ SOMR", false, true, "plan", true, 1},
    {"+ MBSD", false, true, "plan", true, kMbsdTokensPerPass, Fills::drafts},
    {"+ revision", false, true, "plan", true, kRevisionTokensPerPass, Fills::drafts_and_checks},
};
// Keys and values of the text before a canvas are always kept.
constexpr double kCanvasSteps = 48;
constexpr LineSpec kCanvasLines[] = {
    {"CPU", true, true, "plan", false, 0},
    {"+ NPU", false, true, "drop-all", false, 0},
    {"+ SOMR", false, true, "plan", true, 0},
};

// The options, resolved once.
struct Setup {
  Profile profile;
  PresetSpec spec;
  ModelGraph graph;
  std::vector<WeightSize> sizes;
  MemoryOptions memory;
  SimOptions device;
  int64_t arena_bytes = 0;
  int64_t canvas = 0, gen = 0, block = 0;  // canvas: of random tokens; 0: none
  std::span<const LineSpec> lines = kLines;

  size_t last() const { return lines.size() - 1; }
  size_t somr() const {
    return static_cast<size_t>(std::ranges::find(lines, true, &LineSpec::planned) - lines.begin());
  }
  Setup(Profile p, PresetSpec s, ModelGraph g) : profile(std::move(p)), spec(std::move(s)), graph(std::move(g)) {}
};

// The window for weights, from the options or the profile, without the other memory that must be mapped.
Status apply_window(Setup& s, const SimulateOptions& o) {
  if (!o.window_gib && !s.profile.window_gib) return {};
  const double gross = o.window_gib ? *o.window_gib : s.profile.window_gib->value;
  const double reserve = std::max(s.profile.reserve_gib.value, static_cast<double>(s.arena_bytes) / kGiB);
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
  s.canvas = s.spec.preset.config.canvas.length, s.gen = o.gen;
  s.block = std::min<int64_t>(32, o.gen);
  if (s.canvas > 0) {
    s.block = s.canvas, s.gen = (o.gen + s.canvas - 1) / s.canvas * s.canvas;
    s.lines = kCanvasLines;
  }
  constexpr double kMostPasses = 1 << 16;
  const double least = static_cast<double>(s.gen) / kMostPasses;
  if (o.tokens_per_pass && !(*o.tokens_per_pass >= least && *o.tokens_per_pass <= static_cast<double>(s.block)))
    return invalid("tokens per pass: found {}, needed {} to the block's {}: {} passes at most", *o.tokens_per_pass,
                   least, s.block, kMostPasses);
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
  // Activations and K/V of a full pass may need more than the profile sets aside.
  const auto keys = static_cast<int32_t>(o.prompt + s.gen);
  const auto rows = static_cast<int32_t>(s.canvas > 0 ? std::max(s.canvas, o.prompt) : keys);
  const Program full = s.graph.forward(plain_shape(rows, rows));
  s.arena_bytes = arena_bytes(full, static_cast<int64_t>(s.profile.npu.activation_bytes.value), keys);
  LLADA_TRY_STATUS(apply_window(s, o));
  return s;
}

// The prompt, then each canvas as often as it takes; one that another follows is encoded.
std::vector<SimulatedPass> canvas_schedule(const Setup& s, int64_t prompt, double tokens_per_pass) {
  const auto rows = static_cast<int32_t>(s.canvas);
  auto keys = static_cast<int32_t>(prompt);
  std::vector<SimulatedPass> list;
  if (prompt > 0) list.push_back({.rows = keys, .keys = keys, .encode = true});
  const int64_t steps = std::max<int64_t>(1, std::llround(static_cast<double>(rows) / tokens_per_pass));
  for (int64_t begin = 0; begin < s.gen; begin += rows) {
    if (begin > 0) list.push_back({.rows = rows, .keys = keys, .encode = true});
    keys += rows;
    list.insert(list.end(), static_cast<size_t>(steps), {.rows = rows, .wanted = rows, .keys = keys});
  }
  return list;
}

// Blocks left to right, each with its share of the passes; without prefix K/V every pass is a full one.
std::vector<SimulatedPass> schedule(const Setup& s, int64_t prompt, const LineSpec& line, double tokens_per_pass) {
  const bool logits_all = s.profile.logits_all_rows;
  const auto canvas = static_cast<int32_t>(prompt + s.gen);
  const int64_t blocks = (s.gen + s.block - 1) / s.block;
  const int64_t passes =
      std::max(blocks, static_cast<int64_t>(std::llround(static_cast<double>(s.gen) / tokens_per_pass)));
  std::vector<SimulatedPass> list;
  for (int64_t b = 0; b < blocks; ++b) {
    const auto length = static_cast<int32_t>(std::min(s.block, s.gen - b * s.block));
    const int64_t share = (b + 1) * passes / blocks - b * passes / blocks;
    for (int64_t i = 0; i < share; ++i) {
      const int32_t rows = line.prefix_kv && i > 0 ? length : canvas;
      const auto undecided = static_cast<int32_t>(length - i * length / share);
      const int32_t wanted = line.fills == Fills::nothing ? std::max(1, undecided) : length;
      list.push_back({rows, logits_all ? rows : wanted, canvas});
      // The first pass of a run finds nothing to check.
      if (line.fills == Fills::drafts_and_checks && list.size() > 1)
        list.back().sparse = kRevisedRows + static_cast<int32_t>(std::lround(tokens_per_pass)),
        list.back().sparse_wanted = kRevisedRows;
    }
  }
  return list;
}

// A dry device with the executor in front of it.
class Bench {
 public:
  static Result<std::unique_ptr<Bench>> create(const Setup& setup, bool host_only, const MemoryOptions& memory,
                                               bool record_spans = false) {
    std::unique_ptr<Bench> bench(new Bench);
    SimOptions options = setup.device;
    options.host_only = host_only;
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
  LLADA_TRY(const auto bench, Bench::create(setup, spec.host_only, memory));
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

Result<SimulatedLine> run_line(const Setup& setup, const SimulateOptions& o, size_t index) {
  const LineSpec& spec = setup.lines[index];
  if (index == setup.last() && !o.replay.empty()) {
    LLADA_TRY(SimulatedLine line, run_line(setup, spec, o.replay, o.replay_tokens));
    line.name = "recording";
    return line;
  }
  // The ladder's policies are those of models with full attention; a block-causal model refuses most of them.
  if (setup.spec.preset.config.attention_block > 0)
    return invalid("preset: found {}, whose attention is block-causal; needed a model with full attention",
                   setup.spec.preset.name);
  if (setup.canvas > 0) {
    const double tokens = o.tokens_per_pass.value_or(static_cast<double>(setup.canvas) / kCanvasSteps);
    return run_line(setup, spec, canvas_schedule(setup, o.prompt, tokens), setup.gen);
  }
  const double tokens = index == setup.last() && o.tokens_per_pass ? *o.tokens_per_pass : spec.tokens_per_pass;
  return run_line(setup, spec, schedule(setup, o.prompt, spec, tokens), setup.gen);
}

// One pass in steady state, `wanted` of its rows with logits.
Result<double> step_seconds(const Setup& setup, bool host_only, int32_t rows, int32_t wanted) {
  LLADA_TRY(const auto bench, Bench::create(setup, host_only, setup.memory));
  const SimulatedPass pass{rows, wanted, rows};
  for (int warm = 0; warm < 2; ++warm) LLADA_TRY_STATUS(bench->pass(pass));
  const double before = bench->device().emulated().seconds;
  LLADA_TRY_STATUS(bench->pass(pass));
  return bench->device().emulated().seconds - before;
}

}  // namespace

Result<Simulation> simulate_ladder(const SimulateOptions& o) {
  LLADA_TRY(Setup setup, set_up(o));
  Simulation out;
  out.profile = setup.profile.name;
  out.description = setup.profile.description;
  out.preset = o.preset;
  out.gen = setup.gen, out.somr = setup.somr();
  for (size_t i = 0; i < setup.lines.size(); ++i) {
    LLADA_TRY(auto line, run_line(setup, o, i));
    out.ladder.push_back(std::move(line));
  }
  LLADA_TRY(out.step128_cpu_s, step_seconds(setup, true, 128, 128));
  LLADA_TRY(out.step128_npu_s, step_seconds(setup, false, 128, 128));
  {
    LLADA_TRY(const auto bench, Bench::create(setup, false, setup.memory));
    out.window_bytes = static_cast<double>(bench->device().window().weight_bytes);
    const Program program = setup.graph.forward(plain_shape(1, 1));
    for (const WeightUse& use : weight_uses(program, bench->device()))
      out.weight_bytes += static_cast<double>(use.bytes);
  }
  out.arena_bytes = static_cast<double>(setup.arena_bytes);
  out.rival = setup.profile.rival;
  if (!out.rival.empty()) out.rival_seconds = static_cast<double>(setup.gen) / setup.profile.rival_tokens_per_s.value;
  const Profile profile = setup.profile;
  const std::string price = "map.variants." + profile.map(o.map_variant).name + ".us_per_mb";
  const Number& per_mb = profile.map(o.map_variant).us_per_mb;
  if (out.window_bytes >= 0 && per_mb.low) {
    for (const auto& [value, saving] :
         {std::pair{*per_mb.low, &out.somr_saving_low}, {*per_mb.high, &out.somr_saving_high}}) {
      setup.profile = with_number(profile, price, value);
      LLADA_TRY(const auto without, run_line(setup, o, out.somr - 1));
      LLADA_TRY(const auto with, run_line(setup, o, out.somr));
      *saving = 1 - with.seconds / without.seconds;
    }
  }
  for (const NamedNumber& named : numbers(profile)) {
    if (std::ranges::count(profile.uncertain, named.path) == 0) continue;
    SensitivityRow row;
    row.path = named.path;
    row.unit = named.unit;
    row.source = named.number->source;
    row.trust = named.number->trust;
    row.value = named.number->value, row.low = *named.number->low, row.high = *named.number->high;
    for (const auto& [value, seconds] :
         {std::pair{row.low, &row.seconds_low}, std::pair{row.high, &row.seconds_high}}) {
      setup.profile = with_number(profile, named.path, value);
      LLADA_TRY_STATUS(apply_window(setup, o));
      LLADA_TRY(const auto line, run_line(setup, o, setup.last()));
      *seconds = line.seconds;
    }
    out.sensitivity.push_back(std::move(row));
  }
  for (const bool slowest : {false, true}) {
    setup.profile = profile;
    for (const SensitivityRow& row : out.sensitivity)
      setup.profile =
          with_number(setup.profile, row.path, (row.seconds_low > row.seconds_high) == slowest ? row.low : row.high);
    LLADA_TRY_STATUS(apply_window(setup, o));
    const auto beside_the_cpu = [](const std::string& path) {
      return path.starts_with("npu.") || path.starts_with("map.") || path.starts_with("window.");
    };
    const bool cpu_moves = !std::ranges::all_of(profile.uncertain, beside_the_cpu);
    for (size_t i = 0; i < setup.lines.size(); ++i) {
      SimulatedLine& line = out.ladder[i];
      SimulatedLine at_end = line;
      if (!setup.lines[i].host_only || cpu_moves) {
        LLADA_TRY(at_end, run_line(setup, o, i));
      }
      (slowest ? line.seconds_high : line.seconds_low) = at_end.seconds;
      (slowest ? line.joules_high : line.joules_low) = at_end.joules;
    }
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
  return run_line(setup, o, setup.last());
}

Result<std::vector<double>> simulate_latency(const SimulateOptions& o, std::span<const int32_t> rows,
                                             std::optional<int32_t> most_logits) {
  if (most_logits && *most_logits < 1) return invalid("latency-logits: found {}, needed 1 or more", *most_logits);
  LLADA_TRY(const Setup setup, set_up(o));
  std::vector<double> seconds;
  for (const int32_t r : rows) {
    constexpr int32_t kMost = 1 << 16;
    if (r < 1 || r > kMost) return invalid("latency: found {} rows, needed 1 to {}", r, kMost);
    LLADA_TRY(const double s, step_seconds(setup, false, r, std::min(r, most_logits.value_or(r))));
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
    auto line = run_line(*setup, at, setup->somr());
    if (!line && line.error().kind != ErrorKind::invalid_input) return std::unexpected(line.error());
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
      LineSpec spec = setup->lines[setup->somr()];
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
  LLADA_TRY(const auto bench, Bench::create(setup, false, setup.memory, true));
  const auto block = static_cast<int32_t>(setup.block);
  const bool all = setup.profile.logits_all_rows || setup.canvas > 0;
  const SimulatedPass pass{block, all ? block : std::max(1, block / 2), static_cast<int32_t>(o.prompt + setup.gen)};
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
