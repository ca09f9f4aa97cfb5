#include "engine/expert_setup.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/file.h"
#include "devices/cpu/cpu_routing.h"
#include "engine/moe_routing.h"
#include "tensor/quantize.h"

namespace llada {
namespace {

constexpr size_t kMostRecorded = size_t{256} << 20;  // bytes, what read_routing() takes

// The routers of all layers with experts, their columns scaled by the norm in front of each, so that a row that
// another layer's norm scaled can be asked about.
struct Routers {
  struct Layer {
    std::vector<float> norm, rows, bias;  // width; experts x width; experts or empty
  };
  std::vector<Layer> layers;
  Op route;  // how gates come from scores
};

Result<std::vector<float>> floats(const TensorView& view) {
  std::vector<float> out(static_cast<size_t>(view.shape.elements()));
  const int64_t columns = view.shape.columns();
  for (int64_t r = 0; r < view.shape.elements() / columns; ++r)
    dequantize_row(view.type, view.row(r), out.data() + r * columns, columns);
  return out;
}

Result<std::shared_ptr<const Routers>> load_routers(const ModelFile& file, const ModelGraph& graph) {
  const ModelConfig& c = file.config();
  auto routers = std::make_shared<Routers>();
  const Program program = graph.forward({.rows = 1, .wanted = 1, .guided = false});
  const auto route = std::ranges::find(program.ops, OpKind::route, &Op::kind);
  LLADA_CHECK(route != program.ops.end());
  routers->route = *route;
  for (int64_t l = c.dense_layers; l < c.layers; ++l) {
    const auto name = [&](const char* leaf) { return fmt::format("blk.{}.{}", l, leaf); };
    Routers::Layer layer;
    LLADA_TRY(const TensorView norm, file.get(name("ffn_norm.weight"), {c.width}));
    LLADA_TRY(layer.norm, floats(norm));
    LLADA_TRY(const TensorView rows, file.get(name("ffn_gate_inp.weight"), {c.width, c.experts}));
    LLADA_TRY(layer.rows, floats(rows));
    if (c.sigmoid_router) {
      LLADA_TRY(const TensorView bias, file.get(name("exp_probs_b.bias"), {c.experts}));
      LLADA_TRY(layer.bias, floats(bias));
    }
    for (size_t i = 0; i < layer.rows.size(); ++i) layer.rows[i] *= layer.norm[i % layer.norm.size()];
    routers->layers.push_back(std::move(layer));
  }
  return routers;
}

LayerRouting guess_with(const Routers& routers, int32_t layer, int32_t ahead, std::span<const float> x, int64_t rows) {
  const Routers::Layer& here = routers.layers[static_cast<size_t>(layer)];
  const Routers::Layer& next = routers.layers[static_cast<size_t>(layer + ahead)];
  const auto experts = static_cast<size_t>(routers.route.experts);
  const size_t width = here.norm.size();
  LayerRouting out{std::vector<int32_t>(experts, 0), std::vector<float>(experts, 0)};
  std::vector<float> plain(width), scores(experts), gates(experts);
  for (int64_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < width; ++i) {
      const float norm = here.norm[i];
      plain[i] = norm != 0 ? x[static_cast<size_t>(r) * width + i] / norm : 0;
    }
    for (size_t e = 0; e < experts; ++e) {
      double sum = 0;
      for (size_t i = 0; i < width; ++i) sum += plain[i] * next.rows[e * width + i];
      scores[e] = static_cast<float>(sum);
    }
    route_row(routers.route, scores.data(), next.bias.empty() ? nullptr : next.bias.data(), gates.data());
    for (size_t e = 0; e < experts; ++e) {
      out.rows[e] += gates[e] != 0;
      if (std::isfinite(gates[e])) out.score[e] += gates[e];
    }
  }
  return out;
}

}  // namespace

Result<MoeOptions> check_experts(const ExpertRequest& r, const DeviceSpec& where, const std::string& device) {
  MoeOptions o;
  if (!r.plan.empty()) {
    LLADA_TRY(o.plan, moe_rule_from_name(r.plan));
  }
  const bool moves = o.plan == MoeRule::hybrid || o.plan == MoeRule::on_demand;
  const bool blocks = r.cache.empty() || r.cache == "block";
  if (!blocks) {
    const auto rule = cache_rule_from_name(r.cache);
    if (!rule) return invalid("moe cache: found '{}', needed one of block, mrs, lru, lfu, classlru", r.cache);
    o.cache.rule = *rule;
  }
  if (!r.prefetch.empty() && r.prefetch != "on" && r.prefetch != "off")
    return invalid("moe prefetch: found '{}', needed on or off", r.prefetch);
  if (!r.slots.empty() && r.slots != "layer" && r.slots != "shared")
    return invalid("moe slots: found '{}', needed layer or shared", r.slots);
  if (r.share == 0) {
    for (const auto& [option, value] : {std::pair{"--moe-plan", &r.plan}, {"--moe-cache", &r.cache},
                                        {"--moe-prefetch", &r.prefetch}, {"--moe-slots", &r.slots}})
      if (!value->empty()) return invalid("{}: only with --experts-on-device", option);
    if (r.slices != 0) return invalid("--moe-slices: only with --experts-on-device");
    if (r.refresh != 0) return invalid("--moe-refresh: only with --experts-on-device");
    return o;
  }
  if (!(r.share > 0 && r.share <= 1)) return invalid("--experts-on-device: found {:g} %, needed above 0 to 100", 100 * r.share);
  if (!where.profile && !where.cuda)
    return invalid("--experts-on-device: device '{}' has no accelerator for experts, needed such as cuda or sim:a6000-pcie4",
                   device);
  if (where.profile && !where.profile->experts)
    return invalid("--experts-on-device: profile {} has no numbers for experts, needed such as a6000-pcie4",
                   where.profile->name);
  if (!moves && !r.cache.empty()) return invalid("--moe-cache: --moe-plan {} never changes what is resident", r.plan);
  if (!moves && r.prefetch == "on") return invalid("--moe-prefetch: --moe-plan {} never moves an expert", r.plan);
  if (o.plan != MoeRule::hybrid && r.slices > 1) return invalid("--moe-slices: only with --moe-plan hybrid");
  if (where.cuda && r.slices > 1) return invalid("--moe-slices: the cuda device moves whole experts, needed 1");
  if (!moves && r.refresh > 0) return invalid("--moe-refresh: --moe-plan {} never changes what is resident", r.plan);
  if (r.slots == "shared" && (!moves || blocks))
    return invalid("--moe-slots: shared slots need a rule for single experts, --moe-cache mrs, lru, lfu or classlru");
  o.cache.shared = r.slots == "shared";
  o.refresh = r.refresh;
  o.cached = moves;
  o.prefetch = moves && r.prefetch != "off";
  o.blocks = moves && blocks;
  return o;
}

Result<ExpertSplitOptions> set_up_experts(const ExpertRequest& request, const MoeOptions& options, DeviceSpec& where,
                                          const ModelFile& file, const ModelGraph& graph) {
  LLADA_TRY(ExpertSplitOptions split, listen_to_experts(file));
  const ModelConfig& c = file.config();
  std::array<double, 3> pieces{};
  int64_t group = 1;
  const std::array<const char*, 3> leaves = {"ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight"};
  for (size_t p = 0; p < 3; ++p) {
    const int64_t in = p < 2 ? c.width : c.expert_ffn_width, out = p < 2 ? c.expert_ffn_width : c.width;
    LLADA_TRY(const TensorView view,
              file.get_expert(fmt::format("blk.{}.{}", c.dense_layers, leaves[p]), in, out, 0, c.experts));
    pieces[p] = static_cast<double>(view.bytes());
    if (p == 2) group = slice_group(traits(view.type).quantized);
  }
  const double flops = 6.0 * static_cast<double>(c.width) * static_cast<double>(c.expert_ffn_width);
  int32_t slices = 1;  // the cuda device moves whole experts
  if (where.profile) {
    const ExpertCosts whole = expert_costs(*where.profile, where.sim.map_variant, pieces, flops);
    const int64_t groups = std::max<int64_t>(1, c.expert_ffn_width / group);
    if (request.slices > 0 && groups % request.slices != 0)
      return invalid("--moe-slices: found {}, needed a divisor of {}, the groups of {} hidden values of an expert",
                     request.slices, groups, group);
    if (request.slices > 0)
      slices = request.slices;
    else if (options.plan == MoeRule::hybrid)
      slices = worthwhile_slices(whole, c.expert_ffn_width, group);
    split.costs = whole.sliced(slices);
  }
  split.moe = options;
  split.moe.cache.slots =
      options.plan == MoeRule::all_cpu
          ? 0
          : std::max(1, static_cast<int32_t>(std::lround(request.share * static_cast<double>(c.experts))));
  split.moe = split.moe.sliced(slices);
  if (options.prefetch) {
    LLADA_TRY(const auto routers, load_routers(file, graph));
    split.guess = [routers](int32_t layer, int32_t ahead, std::span<const float> x, int64_t rows) {
      return guess_with(*routers, layer, ahead, x, rows);
    };
  }
  const int64_t slots = int64_t{split.moe.cache.slots} * split.layers;
  if (where.profile)
    where.sim.experts = {.costs = *split.costs,
                         .window = {.layers = split.layers,
                                    .experts = split.experts * slices,
                                    .slots = slots,
                                    .buffer = split.moe.buffer}};
  else
    where.gpu.experts = {.first_layer = split.first_layer, .layers = split.layers, .experts = split.experts, .slots = slots,
                         .buffer = split.moe.buffer};
  return split;
}

Result<ExpertSplitOptions> listen_to_experts(const ModelFile& file) {
  const ModelConfig& c = file.config();
  if (c.experts == 0) return invalid("{}: a dense model, it has no experts", file.path());
  ExpertSplitOptions split;
  split.first_layer = static_cast<int32_t>(c.dense_layers);
  split.layers = static_cast<int32_t>(c.layers - c.dense_layers);
  split.experts = static_cast<int32_t>(c.experts);
  return split;
}

Result<std::unique_ptr<RoutingRecorder>> RoutingRecorder::create(const std::string& path, const ModelFile& file) {
  LLADA_TRY(const ExpertSplitOptions split, listen_to_experts(file));
  LLADA_TRY_STATUS(AtomicFile::create(path));  // a file that could not be written later is refused first
  std::unique_ptr<RoutingRecorder> recorder(new RoutingRecorder);
  recorder->path_ = path;
  recorder->text_ = routing_header(file.path(), split.layers, split.experts, static_cast<int32_t>(file.config().experts_used));
  return recorder;
}

Status RoutingRecorder::hear(const RoutedLayer& routed) {
  if (routed.layer == 0) ++step_;
  RecordedRouting r{.step = step_, .layer = routed.layer, .positions = {}, .experts = {}, .gates = {}};
  r.positions.assign(routed.positions.begin(), routed.positions.end());
  const auto experts = static_cast<size_t>(routed.experts);
  for (size_t row = 0; row * experts < routed.gates.size(); ++row) {
    r.experts.emplace_back();
    r.gates.emplace_back();
    for (size_t e = 0; e < experts; ++e) {
      const float gate = routed.gates[row * experts + e];
      if (gate == 0) continue;
      r.experts.back().push_back(static_cast<int32_t>(e));
      r.gates.back().push_back(gate);
    }
  }
  text_ += routing_line(r);
  if (text_.size() > kMostRecorded) return failed("{}: the recorded routing is over {} bytes", path_, kMostRecorded);
  return {};
}

Status RoutingRecorder::commit() {
  LLADA_TRY(auto file, AtomicFile::create(path_));
  LLADA_TRY_STATUS(file.write(text_.data(), text_.size()));
  return file.commit();
}

}  // namespace llada
