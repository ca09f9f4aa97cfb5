// Small random models of every kind. Their forward in double arithmetic, which every device is held to, is
// geometry/reference_forward.h; models of other shapes are geometry/peaked_model.h's.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "base/random.h"
#include "geometry/reference_forward.h"
#include "graph/program.h"
#include "models/model_graph.h"
#include "must.h"
#include "sched/executor.h"
#include "tensor/quantize.h"
#include "tensor/view.h"

namespace llada {

inline ModelConfig small_config(RopePairing pairing = RopePairing::half_split, int kv_heads = 4) {
  return {.family = &kLladaFamily,
          .name = "small",
          .layers = 3,
          .width = 64,
          .heads = 4,
          .kv_heads = kv_heads,
          .head_dim = 16,
          .ffn_width = 96,
          .vocab = 1500,
          .context = 64,
          .rotary_dims = 16,
          .rope_pairing = pairing};
}

// Biases on q, k and v; grouped K/V heads.
inline ModelConfig small_dream() {
  ModelConfig c = small_config(RopePairing::half_split, 2);
  c.qkv_bias = true;
  return c;
}

inline ModelConfig small_llada_moe() {
  ModelConfig c = small_config();
  c.family = &kLladaMoeFamily;
  c.qk_norm = true;
  c.ffn_width = 0;
  c.experts = 6, c.experts_used = 2, c.expert_ffn_width = 32;
  return c;
}

inline ModelConfig small_llada2() {
  ModelConfig c = small_config(RopePairing::half_split, 2);
  c.family = &kLlada2Family;
  c.qk_norm = true;
  c.rotary_dims = 8;
  c.experts = 8, c.experts_used = 2, c.expert_ffn_width = 32, c.shared_expert_ffn_width = 64, c.dense_layers = 1;
  c.sigmoid_router = c.norm_topk = true;
  c.expert_groups = 4, c.expert_groups_used = 2, c.expert_scale = 2.5f;
  c.attention_block = 8;
  return c;
}

inline SmallModel make_small_model(DType type, const ModelConfig& config) {
  SmallModel m;
  m.config = config;
  m.graph = *build_model(m.config);
  for (size_t i = 0; i < m.graph.weights.size(); ++i) {
    const WeightInfo& w = m.graph.weights[i];
    const bool vector = w.dims[1] == 1;
    const bool router = w.name.ends_with("ffn_gate_inp.weight");
    const DType stored = vector || router ? DType::F32 : type;
    const int64_t n = w.dims[0] * w.dims[1];
    std::vector<float> floats(static_cast<size_t>(n));
    const double spread = vector ? 0.2 : 2.0 / std::sqrt(static_cast<double>(w.dims[0]));
    for (int64_t e = 0; e < n; ++e)
      floats[static_cast<size_t>(e)] =
          static_cast<float>((w.name.ends_with("norm.weight") ? 1.0 : 0.0) +
                             spread * (2 * uniform(1, i, static_cast<uint64_t>(e), 0) - 1));
    auto& bytes = m.storage.emplace_back(static_cast<size_t>(row_bytes(stored, w.dims[0]) * w.dims[1]));
    quantize_row(stored, floats.data(), bytes.data(), n);
    TensorView view{bytes.data(), stored, {}};
    view.shape.dims = {w.dims[0], w.dims[1], 1, 1};
    view.shape.rank = vector ? 1 : 2;
    m.views.push_back(view);
  }
  return m;
}

inline std::vector<int32_t> random_tokens(int64_t count, int64_t vocab) {
  std::vector<int32_t> tokens;
  for (int64_t p = 0; p < count; ++p)
    tokens.push_back(static_cast<int32_t>(uniform(5, static_cast<uint64_t>(p), 0, 0) * static_cast<double>(vocab)));
  return tokens;
}

// Keys and values of a model; in the device's memory where one is given.
inline KvStore store_of(const ModelGraph& graph, int64_t positions, DType type = DType::F32, Device* device = nullptr,
                        int sequences = 1) {
  const auto allocate = [&](int64_t bytes) { return device->allocate(bytes); };
  return *must(KvStore::create({.layers = graph.layers,
                                .sequences = sequences,
                                .kv_heads = graph.kv_heads,
                                .head_dim = graph.head_dim,
                                .positions = positions,
                                .type = type,
                                .by_layer = graph.kv_by_layer},
                               device != nullptr ? Allocator(allocate) : Allocator()));
}

// The forwards of a model, each verified: what an executor asks for. The graph outlives it.
inline Executor::Build forwards_of(const ModelGraph& graph) {
  return [&graph](StepShape shape) -> Result<std::shared_ptr<const Program>> {
    LLADA_TRY(Program built, graph.program(shape));
    auto program = std::make_shared<Program>(std::move(built));
    LLADA_TRY_STATUS(verify(*program, graph.weights));
    return program;
  };
}

}  // namespace llada
