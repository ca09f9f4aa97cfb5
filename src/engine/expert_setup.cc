#include "engine/expert_setup.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>

#include "base/check.h"
#include "base/file.h"
#include "base/threads.h"
#include "devices/cpu/cpu_routing.h"
#include "engine/device_spec.h"
#include "formats/model_file.h"
#include "models/model_graph.h"
#include "tensor/quantize.h"

namespace llada {
namespace {

// The routers of all layers with experts, their columns scaled by the norm in front of each, so that a row that
// another layer's norm scaled can be asked about.
struct Routers {
  struct Layer {
    std::vector<float> unscale, rows, bias;  // 1 / norm, 0 where that is 0: width; experts x width; experts or empty
  };
  explicit Routers(int threads) : pool(threads) {}
  std::vector<Layer> layers;
  Op route;          // how gates come from scores
  std::mutex mutex;  // guards the pool, which sessions share
  ThreadPool pool;
};

Result<std::vector<float>> floats(const ModelFile& file, const TensorView& view) {
  LLADA_TRY_STATUS(file.make(view));
  std::vector<float> out(static_cast<size_t>(view.shape.elements()));
  const int64_t columns = view.shape.columns();
  for (int64_t r = 0; r < view.shape.elements() / columns; ++r)
    dequantize_row(view.type, view.row(r), out.data() + r * columns, columns);
  return out;
}

Result<std::shared_ptr<Routers>> load_routers(const ModelFile& file, const ModelGraph& graph, int threads) {
  const ModelConfig& c = file.config();
  auto routers = std::make_shared<Routers>(threads);
  const Program program = graph.forward(plain_shape(1, 1));
  const auto route = std::ranges::find(program.ops, OpKind::route, &Op::kind);
  LLADA_CHECK(route != program.ops.end());
  routers->route = *route;
  for (int64_t l = c.dense_layers; l < c.layers; ++l) {
    const auto name = [&](const char* leaf) { return fmt::format("blk.{}.{}", l, leaf); };
    Routers::Layer layer;
    LLADA_TRY(const TensorView norm, file.get(name("ffn_norm.weight"), {c.width}));
    LLADA_TRY(const std::vector<float> scale, floats(file, norm));
    for (const float n : scale) layer.unscale.push_back(n != 0 ? 1 / n : 0);
    LLADA_TRY(const TensorView rows, file.get(name("ffn_gate_inp.weight"), {c.width, c.experts}));
    LLADA_TRY(layer.rows, floats(file, rows));
    if (c.sigmoid_router) {
      LLADA_TRY(const TensorView bias, file.get(name("exp_probs_b.bias"), {c.experts}));
      LLADA_TRY(layer.bias, floats(file, bias));
    }
    for (size_t i = 0; i < layer.rows.size(); ++i) layer.rows[i] *= scale[i % scale.size()];
    routers->layers.push_back(std::move(layer));
  }
  return routers;
}

// In float and in parts side by side: a guess is worth little where it takes long.
float dot(const float* a, const float* b, size_t n) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> sums{};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (size_t l = 0; l < kLanes; ++l) sums[l] += a[i + l] * b[i + l];
  float sum = 0;
  for (; i < n; ++i) sum += a[i] * b[i];
  for (const float s : sums) sum += s;
  return sum;
}

std::vector<LayerRouting> guess_with(Routers& routers, int32_t layer, int32_t most, std::span<const float> x,
                                     int64_t rows) {
  const Routers::Layer& here = routers.layers[static_cast<size_t>(layer)];
  const auto experts = static_cast<size_t>(routers.route.experts);
  const size_t width = here.unscale.size();
  const auto count = static_cast<int32_t>(routers.layers.size()) - 1 - layer;
  const auto layers = static_cast<size_t>(std::min(most, count)), row_count = static_cast<size_t>(rows);
  std::vector<float> gates(layers * row_count * experts);
  const auto one_row = [&](int64_t r, int) {
    std::vector<float> plain(width), scores(experts);
    for (size_t i = 0; i < width; ++i) plain[i] = x[static_cast<size_t>(r) * width + i] * here.unscale[i];
    for (size_t d = 0; d < layers; ++d) {
      const Routers::Layer& next = routers.layers[static_cast<size_t>(layer) + d + 1];
      for (size_t e = 0; e < experts; ++e) scores[e] = dot(plain.data(), next.rows.data() + e * width, width);
      route_row(routers.route, scores.data(), next.bias.empty() ? nullptr : next.bias.data(),
                gates.data() + (d * row_count + static_cast<size_t>(r)) * experts);
    }
  };
  {
    const std::lock_guard lock(routers.mutex);
    routers.pool.run(rows, one_row);
  }
  std::vector<LayerRouting> out;
  for (size_t d = 0; d < layers; ++d) {
    LayerRouting& guess = out.emplace_back(std::vector<int32_t>(experts, 0), std::vector<float>(experts, 0));
    for (size_t i = 0; i < row_count * experts; ++i) {
      const float gate = gates[d * row_count * experts + i];
      guess.rows[i % experts] += gate != 0;
      if (std::isfinite(gate)) guess.score[i % experts] += gate;
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
  if (r.share == 0 && !r.plan.empty())
    return invalid("moe_plan: found '{}' without a share of experts on the device", r.plan);
  if (r.share == 0) return o;
  if (!(r.share > 0 && r.share <= 1))
    return invalid("experts_on_device: found {:g} %, needed above 0 to 100", 100 * r.share);
  if (!where.plugin && !where.cuda)
    return invalid(
        "experts_on_device: device '{}' has no accelerator for experts, needed such as cuda or sim:a6000-pcie4",
        device);
  if (where.plugin)
    if (const Status can = where.plugin->can_hold_experts(); !can)
      return invalid("experts_on_device: {}", can.error().message);
  o.cached = o.prefetch = o.plan == MoeRule::hybrid || o.plan == MoeRule::on_demand;
  return o;
}

Result<ExpertSplitOptions> set_up_experts(const ExpertRequest& request, const MoeOptions& options, DeviceSpec& where,
                                          const ModelFile& file, const ModelGraph& graph, int threads) {
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
  if (where.plugin) {
    const ExpertCosts whole = where.plugin->expert_costs(pieces, flops);
    // A step of a diffusion model has many rows, which touch nearly all experts.
    const double missing = (1 - request.share) * static_cast<double>(c.experts);
    if (options.plan == MoeRule::hybrid) slices = worthwhile_slices(whole, c.expert_ffn_width, group, missing, 1);
    split.costs = whole.sliced(slices);
  }
  split.moe = options;
  split.moe.cache.slots =
      options.plan == MoeRule::all_cpu
          ? 0
          : std::max(1, static_cast<int32_t>(std::lround(request.share * static_cast<double>(c.experts))));
  split.moe = split.moe.sliced(slices);
  if (options.prefetch) {
    LLADA_TRY(const auto routers, load_routers(file, graph, threads));
    split.guess = [routers](int32_t layer, int32_t most, std::span<const float> x, int64_t rows) {
      return guess_with(*routers, layer, most, x, rows);
    };
  }
  const int64_t slots = int64_t{split.moe.cache.slots} * split.layers;
  if (where.plugin)
    where.plugin->hold_experts(
        *split.costs,
        {.layers = split.layers, .experts = split.experts * slices, .slots = slots, .buffer = split.moe.buffer});
  else
    where.gpu.experts = {.first_layer = split.first_layer,
                         .layers = split.layers,
                         .experts = split.experts,
                         .slots = slots,
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

}  // namespace llada
