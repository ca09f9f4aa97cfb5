// The transformer that all these models share, and the parts that each adds to it. Row i predicts position i; with
// Dream it predicts position i + 1, which the caller takes care of. x is rows x width; q, k and v are rows x (heads *
// head_dim). All activations are F32.
//
//   LLaDA      (arXiv 2502.09992)  Llama's layers without a causal mask
//   Dream      (arXiv 2508.15487)  Qwen2's layers: grouped K/V heads, biases on q, k and v
//   LLaDA-MoE  (arXiv 2509.24389)  q and k normalised per head before RoPE; experts instead of the feed-forward
//   LLaDA2     (arXiv 2512.15745)  block-causal attention; sigmoid router with a selection bias and groups; a shared
//                                  expert; leading dense layers; RoPE on part of a head. 2.2: the rows of a block
//                                  choose the experts that compete (LLaDA2MoeGate.block_routing)
//   Nemotron   (Ministral 3)       YaRN, queries scaled by their position
#include <cmath>

#include "graph/builder.h"
#include "models/weight_list.h"

namespace llada {
namespace {

struct LayerWeights {
  WeightId attn_norm = kNoWeight, q = kNoWeight, k = kNoWeight, v = kNoWeight, attn_output = kNoWeight;
  WeightId q_bias = kNoWeight, k_bias = kNoWeight, v_bias = kNoWeight;
  WeightId q_norm = kNoWeight, k_norm = kNoWeight;
  WeightId ffn_norm = kNoWeight;
  FeedForward dense;  // in a layer of experts: the shared expert
  WeightId router = kNoWeight, router_bias = kNoWeight;
  FeedForward experts;  // of expert 0
};

struct Weights {
  WeightId embedding = kNoWeight, output_norm = kNoWeight, output = kNoWeight;
  std::vector<LayerWeights> layers;
};

LayerWeights weights_of_layer(const WeightList& list, int64_t layer) {
  const auto of = [&](std::string_view leaf) { return list.in_layer(layer, leaf); };
  LayerWeights l;
  l.attn_norm = of("attn_norm.weight");
  l.q = of("attn_q.weight"), l.k = of("attn_k.weight"), l.v = of("attn_v.weight");
  l.q_bias = of("attn_q.bias"), l.k_bias = of("attn_k.bias"), l.v_bias = of("attn_v.bias");
  l.q_norm = of("attn_q_norm.weight"), l.k_norm = of("attn_k_norm.weight");
  l.attn_output = of("attn_output.weight");
  l.ffn_norm = of("ffn_norm.weight");
  l.router = of("ffn_gate_inp.weight"), l.router_bias = of("exp_probs_b.bias");
  l.experts = list.network(layer, "_exps");
  l.dense = list.network(layer, l.router == kNoWeight ? "" : "_shexp");
  return l;
}

Weights weights_of(const ModelConfig& c, const WeightList& list) {
  Weights w;
  w.embedding = list.of("token_embd.weight");
  for (int64_t i = 0; i < c.layers; ++i) w.layers.push_back(weights_of_layer(list, i));
  w.output_norm = list.of("output_norm.weight");
  w.output = c.tied_head ? w.embedding : list.of("output.weight");
  return w;
}

struct Ropes {
  Rope q, k;
};

class Forward {
 public:
  Forward(const ModelConfig& config, const Weights& weights, const Ropes& ropes, std::span<const WeightInfo> list,
          StepShape shape)
      : c_(config), w_(weights), ropes_(ropes), shape_(shape), b_(shape, list) {}

  Program build() {
    ValueId x = b_.embed(w_.embedding);
    for (int l = 0; l + 1 < c_.layers; ++l) {
      const LayerWeights& w = layer(l);
      auto [q, k, v] = b_.linear<3>(b_.rms_norm(x, w.attn_norm, c_.rms_eps), {w.q, w.k, w.v});
      cache(l, k, v);
      position(q, attention_.heads, w.q_bias, w.q_norm, ropes_.q);
      attend(l, x, q);
      feed_forward(l, x);
    }
    // After the last K/V nothing but the wanted rows is read again: queries and the feed-forward shrink to
    // them, unless all rows of a block choose experts together.
    const bool together = c_.expert_capacity > 0;
    const int last = static_cast<int>(c_.layers) - 1;
    const LayerWeights& w = layer(last);
    const ValueId h = b_.rms_norm(x, w.attn_norm, c_.rms_eps);
    const auto [k, v] = b_.linear<2>(h, {w.k, w.v});
    if (shape_.wanted == 0) {  // a step that only refreshes K/V
      cache(last, k, v);
      return b_.take();
    }
    if (!together) x = b_.select_rows(x);
    const ValueId q = b_.linear(together ? h : b_.select_rows(h), w.q);
    cache(last, k, v);
    position(q, attention_.heads, w.q_bias, w.q_norm, ropes_.q);
    attend(last, x, q);
    feed_forward(last, x);
    if (together) x = b_.select_rows(x);
    b_.head(b_.guide(b_.rms_norm(x, w_.output_norm, c_.rms_eps)), w_.output);
    return b_.take();
  }

 private:
  const LayerWeights& layer(int l) const { return w_.layers[static_cast<size_t>(l)]; }

  // Bias, norm per head, rotary positions; in place.
  void position(ValueId x, int heads, WeightId bias, WeightId norm, const Rope& rope) {
    if (bias != kNoWeight) b_.add_bias(x, bias);
    if (norm != kNoWeight) b_.head_norm(x, norm, heads, attention_.head_dim, c_.rms_eps);
    b_.rope(x, heads, attention_.head_dim, rope);
  }

  void cache(int l, ValueId k, ValueId v) {
    const LayerWeights& w = layer(l);
    position(k, attention_.kv_heads, w.k_bias, w.k_norm, ropes_.k);
    if (w.v_bias != kNoWeight) b_.add_bias(v, w.v_bias);
    b_.store_kv(l, k, v, attention_);
  }

  void attend(int l, ValueId x, ValueId q) {
    b_.add(x, b_.linear(b_.attention(l, q, attention_), layer(l).attn_output));
  }

  ValueId gated_network(ValueId h, const FeedForward& w) {
    const auto [gate, up] = b_.linear<2>(h, {w.gate, w.up});
    return b_.linear(b_.glu(gate, up), w.down);
  }

  void feed_forward(int l, ValueId x) {
    const LayerWeights& w = layer(l);
    const ValueId h = b_.rms_norm(x, w.ffn_norm, c_.rms_eps);
    if (w.router != kNoWeight) {
      const ValueId gates = b_.route(b_.linear(h, w.router), w.router_bias, routing_);
      b_.add(x, b_.experts(h, gates, {w.experts.gate, w.experts.up, w.experts.down}, routing_));
    }
    if (w.dense.gate != kNoWeight) b_.add(x, gated_network(h, w.dense));
  }

  const ModelConfig& c_;
  const Weights& w_;
  const Ropes& ropes_;
  const StepShape shape_;
  Builder b_;
  const Attention attention_ = {.heads = static_cast<int16_t>(c_.heads),
                                .kv_heads = static_cast<int16_t>(c_.kv_heads),
                                .head_dim = static_cast<int16_t>(c_.head_dim),
                                .scale = 1.0f / std::sqrt(static_cast<float>(c_.head_dim))};
  const Routing routing_ = {.experts = static_cast<int>(c_.experts),
                            .used = static_cast<int>(c_.experts_used),
                            .sigmoid = c_.sigmoid_router,
                            .renormalise = c_.norm_topk,
                            .groups = static_cast<int>(c_.expert_groups),
                            .groups_used = static_cast<int>(c_.expert_groups_used),
                            .scale = c_.expert_scale,
                            .capacity = static_cast<int>(c_.expert_capacity),
                            .block = static_cast<int>(c_.expert_block)};
};

}  // namespace

Result<ModelGraph> build_transformer(const ModelConfig& config) {
  RopeRule rule{.rotary = config.rotary_dims,
                .adjacent = config.rope_pairing == RopePairing::adjacent,
                .theta = static_cast<double>(config.rope_theta),
                .yarn = config.yarn};
  Ropes ropes;
  LLADA_TRY(ropes.k, make_rope(rule));
  rule.scale = config.query_scale;
  LLADA_TRY(ropes.q, make_rope(rule));
  ModelGraph model;
  const Weights weights = weights_of(config, WeightList(config, model.weights));
  // One wanted row: every weight is used.
  note_uses(Forward(config, weights, ropes, model.weights, plain_shape(1, 1)).build(), model.weights);
  if (config.decided_first && config.attention_block > 0)
    model.keys = KeyRule::causal();
  else if (!config.causal_text)
    model.keys.block = static_cast<int32_t>(config.attention_block);
  model.forward = [config, weights, ropes, list = model.weights](StepShape shape) {
    return Forward(config, weights, ropes, list, shape).build();
  };
  return model;
}

}  // namespace llada
