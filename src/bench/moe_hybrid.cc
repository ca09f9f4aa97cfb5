#include "bench/moe_hybrid.h"

#include <algorithm>
#include <cmath>

#include "sched/moe_run.h"
#include "study/moe_routing.h"
#include "study/sim/cost.h"
#include "study/sim/expert_lanes.h"

namespace llada::bench {
namespace {

// Gates with the rows per expert that the routing states. Experts are dealt to rows in turn: no expert has more rows
// than there are, so none comes to a row twice, and every row has as many.
std::vector<float> gates_of(const LayerRouting& routing, int32_t rows) {
  std::vector<float> gates(routing.rows.size() * static_cast<size_t>(rows), 0.0f);
  size_t dealt = 0;
  for (size_t e = 0; e < routing.rows.size(); ++e)
    for (int32_t n = 0; n < routing.rows[e]; ++n)
      gates[dealt++ % static_cast<size_t>(rows) * routing.rows.size() + e] = 1;
  return gates;
}

Result<MoeHybridLine> play(MoeTest& test, const RoutingTrace& trace, const ExpertCosts& costs,
                           const MoeOptions& options) {
  Lanes lanes(1e18);  // nobody shares memory
  ExpertLanes experts(lanes, costs,
                      {.layers = trace.layers,
                       .experts = trace.experts,
                       .slots = int64_t{options.cache.slots} * trace.layers,
                       .buffer = options.buffer},
                      false);
  MoeRuntime runtime(trace.layers, trace.experts, costs, options);
  for (const ExpertId id : runtime.place(trace.history)) LLADA_TRY_STATUS(experts.place(id));
  MoeHybridLine line;
  line.layers.resize(static_cast<size_t>(trace.layers));
  const auto steps = static_cast<double>(trace.steps.size());
  for (const RoutingStep& step : trace.steps) {
    runtime.begin_step(step.block_start);
    for (int32_t l = 0; l < trace.layers; ++l) {
      const auto at = static_cast<size_t>(l);
      const LayerRouting& routing = step.layers[at];
      const ExpertsPlan plan = runtime.layer(l, routing, step.ahead[at], {.link = experts.link()});
      LLADA_TRY(const double host_s, test.run_plan(gates_of(routing, step.rows), step.rows, plan));
      const double begin = lanes.now();
      LLADA_TRY(const TaskId done, experts.run(plan, kNoTask, host_s));
      lanes.finish(done);
      const double real = lanes.now() - begin;
      MoeHybridLayer& layer = line.layers[at];
      layer.predicted_ms += plan.predicted_s * 1e3 / steps;
      layer.real_ms += real * 1e3 / steps;
      layer.host_ms += host_s * 1e3 / steps;
      line.predicted_off += std::abs(plan.predicted_s - real) / real / (steps * trace.layers);
    }
  }
  const MoeStats& stats = runtime.stats();
  line.hit_rate = static_cast<double>(stats.hits) / static_cast<double>(std::max<int64_t>(1, stats.used));
  line.host_share = static_cast<double>(stats.on_host) / static_cast<double>(std::max<int64_t>(1, stats.used));
  line.moved_bytes = static_cast<double>(experts.moved_bytes()) / steps;
  line.host = lanes.busy_s(Lane::cpu) / lanes.now();
  line.device = lanes.busy_s(Lane::npu) / lanes.now();
  line.link = lanes.transfer_s() / lanes.now();
  return line;
}

}  // namespace

double MoeHybridLine::step_ms() const {
  double sum = 0;
  for (const MoeHybridLayer& layer : layers) sum += layer.real_ms;
  return sum;
}

Result<MoeHybridResult> measure_hybrid(MoeTest& test, const ModelConfig& config, const MoeHybridOptions& o) {
  LLADA_TRY(const Profile profile, load_profile(o.profile));
  if (!profile.experts)
    return invalid("profile {}: has no numbers for experts, needed such as rtx4060-pcie4", profile.name);
  MoeGeometry geometry = geometry_of(config, config.name);
  geometry.layers = std::min(geometry.layers, o.layers);
  MoeHybridResult out{.profile = profile.name, .share = o.share, .slots = 0, .rows = o.rows, .costs = {}, .lines = {}};
  const double piece = static_cast<double>(test.expert_bytes()) / 3;
  out.costs = expert_costs(profile, "", {piece, piece, piece}, geometry.expert_flops_per_row());
  out.costs.memory_bytes_per_s = 0;
  LLADA_TRY_STATUS(test.measure_host(out.costs, o.repeats));
  out.slots = std::max(1, static_cast<int32_t>(std::lround(o.share * geometry.experts)));
  const RoutingTrace trace = diffusion_trace(geometry, o.blocks, o.rows, std::min(o.steps, o.rows), false, 1);
  for (const MoeRule rule : {MoeRule::static_split, MoeRule::all_cpu, MoeRule::on_demand, MoeRule::hybrid}) {
    MoeOptions options;
    options.plan = rule;
    options.cached = rule == MoeRule::on_demand || rule == MoeRule::hybrid;
    options.prefetch = options.blocks = rule == MoeRule::hybrid;
    if (rule == MoeRule::on_demand) options.cache.rule = CacheRule::lru;
    options.cache.slots = out.slots;
    LLADA_TRY(auto line, play(test, trace, out.costs, options));
    line.name = name(rule);
    out.lines.push_back(std::move(line));
  }
  return out;
}

}  // namespace llada::bench
