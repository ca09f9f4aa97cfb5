// Geometries of published mixtures, as far as speed depends on them: sizes, layers, experts chosen per row, and their
// routing statistics as far as these are published. Autoregressive ones are here
// because HybriMoE was measured on them; they can be simulated, not run.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/model_config.h"

namespace llada {

// How a synthetic router behaves. A row's score of an expert is
//   popularity x its own + context x the text's + token x the row's,
// each standard normal: the first never changes, the second walks from step to step, the third is the row's.
struct RoutingStatistics {
  double popularity = 0.2;      // of an expert, the same in all texts
  double context = 1;           // of the text at hand
  double context_memory = 0.9;  // correlation of the text's part from step to step (decode) or block to block
  double token = 1;             // of the row
  double token_memory = 0;      // correlation of a row's part from one denoising step to the next
  double undecided = 1;         // the rest of that while a row is undecided
  double guess_noise = 0.5;     // of the next layer's router for the present hidden state, per layer of distance
  std::string_view source;
};

struct MoeGeometry {
  std::string name;
  bool diffusion = false;
  int32_t layers = 0;        // with experts
  int32_t dense_layers = 0;  // without
  int64_t width = 0, expert_width = 0, dense_width = 0;
  int64_t shared_width = 0;  // of a network that every row takes beside its experts
  // Attention: width of all query heads, and half of that of keys and values; where layers differ, their means.
  double q_width = 0, kv_width = 0;
  int64_t vocab = 0;
  int64_t step_width = 0;  // of a network in front of the layers (self-conditioning)
  int32_t experts = 0, used = 0;
  int32_t block = 32;  // rows of a step of diffusion
  RoutingStatistics routing;

  static constexpr double kBytesPerWeight = 18.0 / 32;  // Q4_0
  std::array<double, 3> piece_bytes() const;
  double expert_bytes() const;
  double expert_flops_per_row() const { return 6.0 * static_cast<double>(width * expert_width); }
};

// The geometry of a model of this program, with a router as steady as TIDE measured of LLaDA2.
MoeGeometry geometry_of(const ModelConfig& config, std::string_view name);
Result<MoeGeometry> find_geometry(std::string_view name);
std::vector<std::string> geometry_names();

}  // namespace llada
