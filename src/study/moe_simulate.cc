#include "study/moe_simulate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "study/sim/cost.h"
#include "study/sim/expert_lanes.h"
#include "study/sim/moe_bound.h"

namespace llada {
namespace {

const int64_t kGroup = slice_group(true);
constexpr uint64_t kSeed = 1;                           // of the synthetic routers
constexpr double kGuesses = 1.1e-6;                     // seconds to weigh them, per expert that the layer wants
constexpr int32_t kRefreshes[] = {1, 2, 4, 8, 16, 31};  // of TIDE's sweep

struct Setting {
  Profile profile;
  MoeGeometry geometry;
  ExpertCosts costs;
};

double wanted_experts(const LayerRouting& routing) {
  return static_cast<double>(std::ranges::count_if(routing.rows, [](int32_t rows) { return rows > 0; }));
}

// Planning a layer takes this of the host, and nothing of the layer begins before it. Seconds per expert that the layer
// wants, measured on a Zen 5 core: where plans are compared (per slice) or follow from the residents.
LaneTask planning(const LayerRouting& routing, const MoeOptions& options, double guess_s) {
  constexpr double kCompared = 0.6e-6, kFollows = 0.12e-6;
  LaneTask task;
  task.lane = Lane::cpu;
  task.fixed_s = wanted_experts(routing) * (options.plan == MoeRule::hybrid ? kCompared : kFollows) + guess_s;
  task.label = "planning";
  return task;
}

// The accelerator's work that is not experts, as one task.
struct Dense {
  double weights = 0;  // elements
  double attention_flops = 0;
  int kernels = 0;
};

double attention_weights(const MoeGeometry& g) { return static_cast<double>(g.width) * 2 * (g.q_width + g.kv_width); }

// Before and behind the layers: a gated network and the head.
double step_weights(const MoeGeometry& g) {
  return static_cast<double>(g.width) * static_cast<double>(g.vocab + 3 * g.step_width);
}

// All weights but the experts'.
double dense_weights(const MoeGeometry& g) {
  const double layers = g.layers, all_layers = g.layers + g.dense_layers;
  const int64_t networks = 3 * (g.layers * g.shared_width + g.dense_layers * g.dense_width);
  return all_layers * attention_weights(g) + layers * static_cast<double>(g.width * g.experts) +
         static_cast<double>(g.width * networks) + step_weights(g);
}

LaneTask device_task(const Setting& s, const Dense& dense, int32_t rows) {
  const UnitProfile& u = s.profile.npu;
  LaneTask task;
  task.lane = Lane::npu;
  task.fixed_s = dense.kernels * u.op_us.value * 1e-6;
  const double padded = std::ceil(rows / u.row_tile.value) * u.row_tile.value;
  const double compute = 2 * dense.weights * padded / (u.matmul_gflops.value * 1e9) +
                         dense.attention_flops / (u.attention_gflops.value * 1e9);
  const double bytes = dense.weights * MoeGeometry::kBytesPerWeight;
  if (s.profile.experts->own_memory) {
    task.compute_s = std::max(compute, bytes / (u.stream_gb_per_s.value * 1e9));
  } else {
    task.compute_s = compute;
    task.bytes = bytes;
    task.bytes_per_s = u.stream_gb_per_s.value * 1e9;
  }
  return task;
}

LaneTask shared_expert(const Setting& s, int32_t rows) {
  return device_task(s, {3.0 * static_cast<double>(s.geometry.width * s.geometry.shared_width), 0, 4}, rows);
}

double alone_s(const LaneTask& task) {
  return task.fixed_s + std::max(task.compute_s, task.bytes > 0 ? task.bytes / task.bytes_per_s : 0);
}

struct Executed {
  MoeLine line;
  double between_s = 0;  // per step, outside the layers of experts
  std::vector<SimulatedSpan> spans;
};

// `trace` and `options` are of slices where the costs are; slots: of one layer.
Result<Executed> execute(const Setting& s, const RoutingTrace& trace, const MoeOptions& options, bool record = false) {
  const MoeGeometry& g = s.geometry;
  Lanes lanes(s.profile.ddr_gb_per_s.value * 1e9);
  ExpertLanes experts(lanes, s.costs,
                      {.layers = trace.layers,
                       .experts = trace.experts,
                       .slots = int64_t{options.cache.slots} * trace.layers,
                       .buffer = options.buffer},
                      record);
  MoeRuntime runtime(trace.layers, trace.experts, s.costs, options);
  for (const ExpertId id : runtime.place(trace.history)) LLADA_TRY_STATUS(experts.place(id));

  constexpr double kKeys = 512;  // positions attended to; experts are the subject here
  const auto w = [](int64_t a, int64_t b) { return static_cast<double>(a) * static_cast<double>(b); };
  const double attention = attention_weights(g);
  double off = 0, worst = 0, plan_s = 0, in_layers = 0, bound = 0;
  int64_t layers = 0;
  Executed out;
  for (size_t t = 0; t < trace.steps.size(); ++t) {
    const RoutingStep& step = trace.steps[t];
    if (record && t + 3 >= trace.steps.size()) lanes.record(true);
    const double flops = 4.0 * step.rows * kKeys * g.q_width;
    const auto labelled = [&](LaneTask task, std::string label) {
      task.label = std::move(label);
      return task;
    };
    runtime.begin_step();
    for (int32_t l = 0; l < g.dense_layers; ++l)
      lanes.finish(lanes.add(
          labelled(device_task(s, {attention + 3 * w(g.width, g.dense_width), flops, 14}, step.rows), "dense layer")));
    const LaneTask before = device_task(s, {attention + w(g.width, g.experts), flops, 12}, step.rows);
    const LaneTask shared = shared_expert(s, step.rows);
    for (int32_t l = 0; l < trace.layers; ++l) {
      lanes.finish(lanes.add(labelled(before, "attention and router")));
      const auto at = static_cast<size_t>(l);
      const LayerRouting& routing = step.layers[at];
      std::span<const LayerRouting> ahead;
      if (at < step.ahead.size() && runtime.wants_guesses()) ahead = step.ahead[at];
      const double guess_s = ahead.empty() ? 0 : kGuesses * wanted_experts(routing) / s.costs.slices;
      lanes.finish(lanes.add(planning(routing, options, guess_s)));
      runtime.add_seconds(guess_s, 0);
      LayerClock clock{.link = experts.link(), .device_busy_s = 0, .between_s = alone_s(before)};
      TaskId after = kNoTask;
      if (g.shared_width > 0) {
        clock.device_busy_s = alone_s(shared);
        lanes.add(labelled(shared, "shared expert"));
      }
      const double begin = lanes.now();
      const auto wall = std::chrono::steady_clock::now();
      const ExpertsPlan plan = runtime.layer(l, routing, ahead, clock);
      plan_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count();
      LLADA_TRY(const TaskId done, experts.run(plan, after));
      lanes.finish(done);
      const double makespan = lanes.now() - begin;
      in_layers += makespan;
      bound += std::max(plan_lower_bound(s.costs, runtime.loads(), runtime.start()), clock.device_busy_s);
      // The layer's time includes the accelerator's work before its experts.
      const double predicted = std::max(plan.predicted_s, clock.device_busy_s);
      if (makespan > 0) {
        const double error = std::abs(predicted - makespan) / makespan;
        off += error;
        worst = std::max(worst, error);
      }
      ++layers;
    }
    lanes.finish(
        lanes.add(labelled(device_task(s, {step_weights(g), 0, g.step_width > 0 ? 6 : 2}, step.rows), "head")));
  }
  const MoeStats& stats = runtime.stats();
  const auto steps = static_cast<double>(trace.steps.size());
  MoeLine& line = out.line;
  line.seconds = lanes.now() / steps;
  out.between_s = (lanes.now() - in_layers) / steps;
  line.bound_s = out.between_s + bound / steps;
  line.hit_rate = stats.used > 0 ? static_cast<double>(stats.hits) / static_cast<double>(stats.used) : 0;
  line.moved_bytes = static_cast<double>(experts.moved_bytes()) / steps;
  line.host_share = stats.used > 0 ? static_cast<double>(stats.on_host) / static_cast<double>(stats.used) : 0;
  line.host = lanes.busy_s(Lane::cpu) / lanes.now();
  line.device = lanes.busy_s(Lane::npu) / lanes.now();
  line.link = lanes.transfer_s() / lanes.now();
  line.predicted_off = off / static_cast<double>(std::max<int64_t>(1, layers));
  line.predicted_worst = worst;
  line.guessed_right =
      stats.guessed > 0 ? static_cast<double>(stats.guessed_right) / static_cast<double>(stats.guessed) : 0;
  line.plan_us = plan_s * 1e6 / static_cast<double>(std::max<int64_t>(1, layers));
  if (record) {
    const auto spans = lanes.take_spans();
    const double begin = spans.empty() ? 0 : spans.front().start_s;
    for (const LaneSpan& span : spans)
      out.spans.push_back({span.lane == Lane::npu ? "accelerator" : name(span.lane), span.label, span.start_s - begin,
                           span.end_s - begin});
  }
  return out;
}

MoeOptions base(MoeRule rule) {
  MoeOptions o;
  o.plan = rule;
  o.cached = o.prefetch = false;
  return o;
}

MoeOptions hybrid() {
  MoeOptions o = base(MoeRule::hybrid);
  o.cached = o.prefetch = true;
  return o;
}

// A step's seconds that nobody can beat with `slots` a layer and the buffer for guesses: see MoePhase::bound_s.
double best_possible_s(const Setting& s, const RoutingTrace& trace, int32_t slots, double between_s) {
  double sum = 0;
  for (const RoutingStep& step : trace.steps) {
    const double busy = s.geometry.shared_width > 0 ? alone_s(shared_expert(s, step.rows)) : 0;
    for (const LayerRouting& routing : step.layers) {
      std::vector<ExpertLoad> loads;
      for (size_t e = 0; e < routing.rows.size(); ++e)
        if (routing.rows[e] > 0) loads.push_back({static_cast<int32_t>(e), routing.rows[e], false});
      // The lightest are the cheapest to compute elsewhere.
      std::ranges::stable_sort(loads, std::greater<>(), &ExpertLoad::rows);
      const size_t there = static_cast<size_t>(slots + MoeOptions{}.buffer);
      for (size_t i = 0; i < std::min(there, loads.size()); ++i) loads[i].resident = true;
      sum += std::max(busy, plan_lower_bound(s.costs, loads, {.host_s = 0, .device_s = busy, .link_s = 0}, true));
    }
  }
  return between_s + sum / static_cast<double>(trace.steps.size());
}

// See MoePhase::known_bound_s.
double known_s(const Setting& s, const RoutingTrace& trace, int32_t slots, double between_s) {
  const auto experts = static_cast<size_t>(trace.experts);
  const auto steps = static_cast<double>(trace.steps.size());
  KnownRun run{.uses = std::vector<std::vector<ExpertUse>>(static_cast<size_t>(trace.layers) * experts),
               .layers = {},
               .steps = static_cast<int32_t>(trace.steps.size()),
               .places = int64_t{slots} * trace.layers + MoeOptions{}.buffer,
               .between_s = between_s * steps};
  for (int32_t t = 0; t < run.steps; ++t) {
    const RoutingStep& step = trace.steps[static_cast<size_t>(t)];
    const double other_s = s.geometry.shared_width > 0 ? alone_s(shared_expert(s, step.rows)) : 0;
    for (size_t l = 0; l < step.layers.size(); ++l) {
      KnownRun::Layer& layer = run.layers.emplace_back(KnownRun::Layer{.other_s = other_s});
      const std::vector<int32_t>& rows = step.layers[l].rows;
      for (size_t e = 0; e < experts; ++e)
        if (rows[e] > 0) add_use(s.costs, {t, rows[e]}, run.uses[l * experts + e], layer);
    }
  }
  return known_run_lower_bound(s.costs, run) / steps;
}

RoutingTrace sliced(const RoutingTrace& trace, int32_t count) {
  RoutingTrace out = trace;
  out.experts *= count, out.used *= count;
  for (LayerRouting& routing : out.history) routing = sliced(routing, count);
  for (RoutingStep& step : out.steps) {
    for (LayerRouting& routing : step.layers) routing = sliced(routing, count);
    for (auto& layer : step.ahead)
      for (LayerRouting& routing : layer) routing = sliced(routing, count);
  }
  return out;
}

// Hit rate of a rule where every miss may come in at once, to be compared with published rates. No times.
double cache_hits(const RoutingTrace& trace, CacheOptions options, int32_t slots) {
  options.slots = slots;
  ExpertCache cache(trace.layers, trace.experts, options);
  int64_t used = 0, hits = 0;
  for (int32_t l = 0; l < trace.layers; ++l)
    for (int32_t e = 0; e < slots; ++e) cache.insert({l, e}, {});
  for (size_t t = 0; t < trace.steps.size(); ++t) {
    cache.begin_pass();
    for (int32_t l = 0; l < trace.layers; ++l) {
      const LayerRouting& r = trace.steps[t].layers[static_cast<size_t>(l)];
      cache.observe(l, r);
      for (int32_t e = 0; e < trace.experts; ++e) {
        if (r.rows[static_cast<size_t>(e)] == 0) continue;
        ++used;
        if (cache.resident({l, e}))
          ++hits;
        else if (const auto place = cache.place_for({l, e}))
          cache.insert({l, e}, *place);
      }
    }
  }
  return used > 0 ? static_cast<double>(hits) / static_cast<double>(used) : 0;
}

int32_t slots_of(double share, int32_t experts) {
  return std::max(1, static_cast<int32_t>(std::lround(share * experts)));
}

int32_t slices_of(const Setting& s, const TraceStatistics& t, const RoutingTrace& trace, double share) {
  const double wanted = t.touched * trace.experts;
  return worthwhile_slices(s.costs, s.geometry.expert_width, kGroup, wanted * (1 - share),
                           wanted > 0 ? t.rows * trace.used / wanted : 1);
}

// Every line of a setting. `slices`: of an expert, in the hybrid line; 0: as many as are worthwhile.
Result<MoePhase> run_phase(const Setting& s, std::string phase, const RoutingTrace& trace, double share,
                           int32_t slices) {
  const MoeGeometry& g = s.geometry;
  MoePhase out;
  out.phase = std::move(phase), out.share = share;
  out.statistics = statistics(trace);
  out.slots = slots_of(share, trace.experts);
  if (slices == 0) slices = slices_of(s, out.statistics, trace, share);
  out.slices = slices;
  out.resident_bytes = s.costs.expert_bytes() * out.slots * trace.layers;
  double between_s = 0;
  const auto run = [&](std::string name, MoeOptions options) -> Result<MoeLine> {
    options.cache.slots = out.slots;
    LLADA_TRY(auto executed, execute(s, trace, options));
    if (out.lines.empty()) between_s = executed.between_s;
    executed.line.name = std::move(name);
    executed.line.refresh = options.refresh;
    return std::move(executed.line);
  };
  const auto add = [&](std::string name, const MoeOptions& options) -> Status {
    LLADA_TRY(auto line, run(std::move(name), options));
    out.lines.push_back(std::move(line));
    return {};
  };
  const MoeOptions fixed = base(MoeRule::static_split);
  LLADA_TRY_STATUS(add("static", fixed));
  out.bound_s = best_possible_s(s, trace, out.slots, between_s);
  if (!g.diffusion) out.known_bound_s = std::max(out.bound_s, known_s(s, trace, out.slots, between_s));
  MoeOptions layers = fixed;
  layers.cache.shared = true;
  LLADA_TRY_STATUS(add("layer split", layers));
  LLADA_TRY_STATUS(add("all-cpu", base(MoeRule::all_cpu)));
  MoeOptions demand = base(MoeRule::on_demand);
  demand.cached = true;
  demand.cache.rule = CacheRule::lru;
  LLADA_TRY_STATUS(add("on-demand, LRU", demand));
  demand.prefetch = true;
  LLADA_TRY_STATUS(add("+ guesses", demand));
  LLADA_TRY_STATUS(add("+ scheduling", base(MoeRule::hybrid)));
  MoeOptions only = fixed;
  only.cached = true;
  LLADA_TRY_STATUS(add("+ cache", only));
  only = fixed;
  only.prefetch = true;
  LLADA_TRY_STATUS(add("+ prefetch", only));
  if (g.diffusion) {
    MoeLine best;
    for (const int32_t refresh : kRefreshes) {
      MoeOptions tide = fixed;
      tide.refresh = refresh;
      LLADA_TRY(auto line, run("TIDE", tide));
      if (best.name.empty() || line.seconds < best.seconds) best = std::move(line);
    }
    out.lines.push_back(std::move(best));
  }
  if (slices == 1) {
    LLADA_TRY_STATUS(add("hybrid", hybrid()));
  } else {
    LLADA_TRY_STATUS(add("hybrid, whole", hybrid()));
    MoeOptions options = hybrid();
    options.cache.slots = out.slots;
    LLADA_TRY(auto executed,
              execute({s.profile, g, s.costs.sliced(slices)}, sliced(trace, slices), options.sliced(slices)));
    executed.line.name = "hybrid";
    out.lines.push_back(std::move(executed.line));
  }
  for (const CacheRule rule : kCacheRules) {
    MoeLine line;
    line.name = fmt::format("cache {}", name(rule));
    line.hit_rate = cache_hits(trace, {.rule = rule}, out.slots);
    out.lines.push_back(std::move(line));
  }
  return out;
}

Result<Setting> set_up(MoeSimulateOptions& o) {
  LLADA_TRY(auto profile, load_profile(o.profile));
  if (!profile.experts)
    return invalid(
        "profile {}: has no numbers for experts, needed one that has (a6000-pcie4, rtx4060-pcie4, "
        "v79-8elite, or a file with an \"experts\" object)",
        profile.name);
  if (o.grouped) profile.experts->grouped = *o.grouped;
  LLADA_TRY(auto geometry, find_geometry(o.geometry));
  if (o.block == 0) o.block = geometry.block;
  if (!o.map_variant.empty() && profile.map(o.map_variant).name != o.map_variant)
    return invalid("profile {}: found no map variant '{}'", profile.name, o.map_variant);
  const auto in = [](const char* what, int64_t value, int64_t least, int64_t most) -> Status {
    if (value < least || value > most) return invalid("{}: found {}, needed {} to {}", what, value, least, most);
    return {};
  };
  LLADA_TRY_STATUS(in("tokens", o.tokens, 1, 4096));
  LLADA_TRY_STATUS(in("prompts", o.prompts, 1, 64));
  LLADA_TRY_STATUS(in("prompt", o.prompt, 1, 2048));
  LLADA_TRY_STATUS(in("blocks", o.blocks, 1, 64));
  LLADA_TRY_STATUS(in("block", o.block, 1, 512));
  LLADA_TRY_STATUS(in("steps", o.steps, 1, o.block));
  for (const double share : o.shares)
    if (!(share > 0 && share <= 1)) return invalid("experts on the device: found {}, needed above 0 to 1", share);
  if (o.slices < 0 || (o.slices > 0 && geometry.expert_width % (o.slices * kGroup) != 0))
    return invalid("slices: found {}, needed a divisor of {}, the groups of {} hidden values of an expert of {}",
                   o.slices, geometry.expert_width / kGroup, kGroup, geometry.name);
  const ExpertCosts costs =
      expert_costs(profile, o.map_variant, geometry.piece_bytes(), geometry.expert_flops_per_row());
  return Setting{std::move(profile), std::move(geometry), costs};
}

// Traces of the geometry's phases, or the recorded one.
Result<std::vector<std::pair<std::string, RoutingTrace>>> traces(const MoeSimulateOptions& o, const MoeGeometry& g) {
  std::vector<std::pair<std::string, RoutingTrace>> list;
  if (!o.routing.empty()) {
    LLADA_TRY(auto trace, read_routing(o.routing));
    list.emplace_back("recorded", std::move(trace));
  } else if (g.diffusion) {
    list.emplace_back("denoise", diffusion_trace(g, o.blocks, o.block, o.steps, kSeed));
  } else {
    list.emplace_back("prefill", prefill_trace(g, o.prompts, o.prompt, kSeed));
    list.emplace_back("decode", decode_trace(g, o.tokens, kSeed));
  }
  return list;
}

}  // namespace

const MoeLine* MoePhase::find(std::string_view name) const {
  const auto found = std::ranges::find(lines, name, &MoeLine::name);
  return found == lines.end() ? nullptr : &*found;
}

const MoeLine& MoePhase::best_simple() const {
  const MoeLine* best = &lines.front();
  for (const char* name : {"layer split", "all-cpu", "on-demand, LRU", "+ guesses"})
    if (const MoeLine* one = find(name); one != nullptr && one->seconds < best->seconds) best = one;
  return *best;
}

double MoePhase::speed_up(std::string_view line, std::string_view over) const {
  const MoeLine *a = find(line), *b = find(over);
  return a != nullptr && b != nullptr && a->seconds > 0 ? b->seconds / a->seconds : 0;
}

Result<MoeSimulation> simulate_moe(MoeSimulateOptions o) {
  LLADA_TRY(const Setting s, set_up(o));
  LLADA_TRY(const auto list, traces(o, s.geometry));
  MoeSimulation out;
  out.profile = s.profile.name;
  out.geometry = s.geometry.name;
  out.routing_source = o.routing.empty() ? std::string(s.geometry.routing.source) : o.routing;
  out.expert_bytes = s.costs.expert_bytes();
  out.grouped = s.costs.grouped;
  out.dense_bytes = dense_weights(s.geometry) * MoeGeometry::kBytesPerWeight;
  if (!s.profile.experts->own_memory && s.profile.window_gib) {
    out.window_bytes = (s.profile.window_gib->value - s.profile.reserve_gib.value) * 0x1p30;
    out.sessions = s.profile.sessions.value;
  }
  out.host_s = s.costs.host_s(1), out.device_s = s.costs.device_s(1), out.move_s = s.costs.move_s();
  for (const auto& [phase, trace] : list)
    for (const double share : o.shares) {
      LLADA_TRY(auto result, run_phase(s, phase, trace, share, o.slices));
      out.phases.push_back(std::move(result));
    }
  return out;
}

Result<std::vector<SimulatedSpan>> simulate_moe_spans(MoeSimulateOptions o) {
  LLADA_TRY(const Setting s, set_up(o));
  LLADA_TRY(const auto list, traces(o, s.geometry));
  if (o.shares.empty()) return invalid("experts on the device: no share was given");
  const auto& [phase, trace] = list.back();
  MoeOptions options = hybrid();
  options.cache.slots = slots_of(o.shares.front(), trace.experts);
  const int32_t slices = o.slices > 0 ? o.slices : slices_of(s, statistics(trace), trace, o.shares.front());
  LLADA_TRY(auto executed, execute({s.profile, s.geometry, s.costs.sliced(slices)}, sliced(trace, slices),
                                   options.sliced(slices), true));
  return std::move(executed.spans);
}

}  // namespace llada
