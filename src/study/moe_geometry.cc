#include "study/moe_geometry.h"

#include <utility>

#include "base/check.h"
#include "study/presets.h"

namespace llada {
namespace {

// Fields that the models' own presets have.
MoeGeometry of_preset(std::string_view name, RoutingStatistics routing) {
  const auto preset = find_preset(name);
  LLADA_CHECK(preset.has_value());
  MoeGeometry g = geometry_of(preset->config, name);
  g.routing = routing;
  return g;
}

constexpr std::string_view kPublishedHits =
    "chosen so that LRU with a quarter of the experts hits about as often as HybriMoE measured of this model";
constexpr std::string_view kStable =
    "chosen after TIDE's measurement of LLaDA2, a cosine above 0.95 of steps five apart; the figures below say how "
    "near";
constexpr std::string_view kRandomTokens =
    "chosen as for LLaDA2, but that half of an undecided row's part is new in every step, since the row then holds "
    "another random token; nobody has measured it";

std::vector<MoeGeometry> geometries() {
  return {
      {.name = "mixtral",
       .layers = 32,
       .width = 4096,
       .expert_width = 14336,
       .q_width = 4096,
       .kv_width = 1024,
       .vocab = 32000,
       .experts = 8,
       .used = 2,
       .routing = {.popularity = 0.2, .context = 0.4, .context_memory = 0.9, .token = 1, .source = kPublishedHits}},
      {.name = "qwen2-57b",
       .layers = 28,
       .width = 3584,
       .expert_width = 2560,
       .shared_width = 20480,
       .q_width = 3584,
       .kv_width = 512,
       .vocab = 151936,
       .experts = 64,
       .used = 8,
       .routing = {.popularity = 0.3, .context = 0.62, .context_memory = 0.95, .token = 1, .source = kPublishedHits}},
      {.name = "deepseek-v2-lite",
       .layers = 26,
       .dense_layers = 1,
       .width = 2048,
       .expert_width = 1408,
       .dense_width = 10944,
       .shared_width = 2816,
       .q_width = 3072,
       .kv_width = 576,
       .vocab = 102400,
       .experts = 64,
       .used = 6,
       .routing = {.popularity = 0.3, .context = 0.65, .context_memory = 0.95, .token = 1, .source = kPublishedHits}},
      of_preset("llada-moe-7b", {.popularity = 0.2,
                                 .context = 0.5,
                                 .context_memory = 0.5,
                                 .token = 1,
                                 .token_memory = 0.99,
                                 .source = kStable}),
      of_preset("llada2-mini", {.popularity = 0.2,
                                .context = 0.7,
                                .context_memory = 0.5,
                                .token = 1,
                                .token_memory = 0.99,
                                .source = kStable}),
      of_preset("diffusion-gemma-26b", {.popularity = 0.2,
                                        .context = 0.7,
                                        .context_memory = 0.5,
                                        .token = 1,
                                        .token_memory = 0.99,
                                        .undecided = 0.5,
                                        .source = kRandomTokens})};
}

}  // namespace

MoeGeometry geometry_of(const ModelConfig& c, std::string_view name) {
  MoeGeometry g;
  g.name = std::string(name);
  g.diffusion = true;
  g.layers = static_cast<int32_t>(c.layers - c.dense_layers);
  g.dense_layers = static_cast<int32_t>(c.dense_layers);
  g.width = c.width;
  g.expert_width = c.expert_ffn_width;
  g.dense_width = c.ffn_width;
  g.shared_width = c.shared_expert_ffn_width;
  if (c.gemma) g.shared_width = g.step_width = std::exchange(g.dense_width, 0);
  for (int64_t l = 0; l < c.layers; ++l) {
    const bool global = c.gemma && c.gemma->global[static_cast<size_t>(l)];  // its values are its keys
    const int64_t dim = global ? c.gemma->head_dim : c.head_dim;
    g.q_width += static_cast<double>(c.heads * dim);
    g.kv_width += static_cast<double>(dim) *
                  (global ? 0.5 * static_cast<double>(c.gemma->kv_heads) : static_cast<double>(c.kv_heads));
  }
  g.q_width /= static_cast<double>(c.layers), g.kv_width /= static_cast<double>(c.layers);
  if (c.canvas.length > 0) g.block = static_cast<int32_t>(c.canvas.length);
  g.vocab = c.vocab;
  g.experts = static_cast<int32_t>(c.experts);
  g.used = static_cast<int32_t>(c.experts_used);
  g.routing = {
      .popularity = 0.2, .context = 0.7, .context_memory = 0.5, .token = 1, .token_memory = 0.99, .source = kStable};
  return g;
}

std::array<double, 3> MoeGeometry::piece_bytes() const {
  const double bytes = static_cast<double>(width * expert_width) * kBytesPerWeight;
  return {bytes, bytes, bytes};
}

double MoeGeometry::expert_bytes() const { return 3 * piece_bytes()[0]; }

Result<MoeGeometry> find_geometry(std::string_view name) {
  for (MoeGeometry& g : geometries())
    if (g.name == name) return std::move(g);
  return invalid("moe: found '{}', needed one of {}", name, fmt::join(geometry_names(), ", "));
}

std::vector<std::string> geometry_names() {
  std::vector<std::string> names;
  for (const MoeGeometry& g : geometries()) names.push_back(g.name);
  return names;
}

}  // namespace llada
