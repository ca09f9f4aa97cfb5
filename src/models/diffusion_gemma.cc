// DiffusionGemma: Gemma 4's layers, a dense network and a mixture of experts side by side in each. Finished text (the
// prompt, then whole canvases) is encoded causally; the canvas is denoised behind it, every row of it reading the whole
// canvas. Both ways share all weights but one scalar for each layer. In a step of denoising, the previous step's
// probabilities for a row are mixed into its embedding.
//
//   layer: y = x + norm(attention(norm(x))); x' = s (y + norm(norm(dense(norm(y))) + norm(experts(norm(y)))))
//
// Values have a norm without weight; in global layers they are the keys before norm and rotation. Scores are not
// scaled.
#include <algorithm>
#include <cmath>

#include "graph/builder.h"
#include "models/weight_list.h"

namespace llada {
namespace gemma {
namespace {

struct Layer {
  WeightId q = kNoWeight, k = kNoWeight, v = kNoWeight, attn_output = kNoWeight;  // v: of sliding layers
  WeightId q_norm = kNoWeight, k_norm = kNoWeight;
  WeightId attn_norm = kNoWeight, post_attn_norm = kNoWeight, ffn_norm = kNoWeight, post_dense_norm = kNoWeight;
  WeightId experts_norm = kNoWeight, post_experts_norm = kNoWeight, post_ffn_norm = kNoWeight;
  FeedForward dense, experts;  // of expert 0
  WeightId router = kNoWeight, router_scale = kNoWeight, expert_scales = kNoWeight;
  WeightId denoise_scale = kNoWeight, encode_scale = kNoWeight;
};

struct Weights {
  WeightId embedding = kNoWeight, output_norm = kNoWeight, soft_norm = kNoWeight;
  FeedForward soft;
  std::vector<Layer> layers;
};

Layer weights_of_layer(const WeightList& list, int64_t layer) {
  const auto of = [&](std::string_view leaf) { return list.in_layer(layer, leaf); };
  Layer l;
  l.attn_norm = of("attn_norm.weight");
  l.q = of("attn_q.weight"), l.k = of("attn_k.weight"), l.v = of("attn_v.weight");
  l.q_norm = of("attn_q_norm.weight"), l.k_norm = of("attn_k_norm.weight");
  l.attn_output = of("attn_output.weight");
  l.post_attn_norm = of("post_attention_norm.weight");
  l.ffn_norm = of("ffn_norm.weight");
  l.dense = list.network(layer, "");
  l.post_dense_norm = of("post_ffw_norm_1.weight");
  l.router_scale = of("ffn_gate_inp.scale"), l.router = of("ffn_gate_inp.weight");
  l.expert_scales = of("ffn_down_exps.scale");
  l.experts_norm = of("pre_ffw_norm_2.weight");
  l.experts = list.network(layer, "_exps");
  l.post_experts_norm = of("post_ffw_norm_2.weight");
  l.post_ffn_norm = of("post_ffw_norm.weight");
  l.denoise_scale = of("layer_output_scale.weight"), l.encode_scale = of("enc_layer_output_scale.weight");
  return l;
}

Weights weights_of(const ModelConfig& c, const WeightList& list) {
  Weights w;
  w.embedding = list.of("token_embd.weight");
  w.soft_norm = list.of("self_cond_pre_norm.weight");
  w.soft = {list.of("self_cond_gate.weight"), list.of("self_cond_up.weight"), list.of("self_cond_down.weight")};
  for (int64_t i = 0; i < c.layers; ++i) w.layers.push_back(weights_of_layer(list, i));
  w.output_norm = list.of("output_norm.weight");
  return w;
}

struct Ropes {
  Rope sliding, global;
};

class Forward {
 public:
  Forward(const ModelConfig& config, const Weights& weights, const Ropes& ropes, std::span<const WeightInfo> list,
          StepShape shape)
      : c_(config), g_(*config.gemma), w_(weights), ropes_(ropes), shape_(shape), b_(shape, list) {}

  Program build() {
    const bool denoise = shape_.pass == Pass::denoise;
    ValueId x = b_.embed(w_.embedding);
    b_.scale(x, embedding_scale());
    if (denoise) x = conditioned(x);
    for (int l = 0; l + 1 < c_.layers; ++l) {
      const auto [q, k, v] = projected(l, b_.rms_norm(x, layer(l).attn_norm, c_.rms_eps));
      cache(l, k, v);
      attend(l, x, q);
      feed_forward(l, x);
    }
    // After the last K/V nothing but the wanted rows is read again.
    const int last = static_cast<int>(c_.layers) - 1;
    const ValueId h = b_.rms_norm(x, layer(last).attn_norm, c_.rms_eps);
    const auto [k, v] = b_.linear<2>(h, {layer(last).k, value_weight(last)});
    cache(last, k, v);
    if (shape_.wanted == 0) return b_.take();
    x = b_.select_rows(x);
    attend(last, x, b_.linear(b_.select_rows(h), layer(last).q));
    feed_forward(last, x);
    b_.head(b_.guide(b_.rms_norm(x, w_.output_norm, c_.rms_eps)), w_.embedding, g_.logit_cap);
    return b_.take();
  }

 private:
  const Layer& layer(int l) const { return w_.layers[static_cast<size_t>(l)]; }
  bool global(int l) const { return g_.global[static_cast<size_t>(l)]; }
  WeightId value_weight(int l) const { return global(l) ? layer(l).k : layer(l).v; }
  double embedding_scale() const { return std::sqrt(static_cast<double>(c_.width)); }

  // The previous step's probabilities for the row, through a network of its own.
  ValueId conditioned(ValueId x) {
    const ValueId soft = b_.soft_embed(w_.embedding);
    b_.scale(soft, embedding_scale());
    b_.add(x, gated_network(b_.rms_norm(soft, w_.soft_norm, c_.rms_eps), w_.soft));
    return b_.rms_norm(x, kNoWeight, c_.rms_eps);
  }

  // Both passes read a window of `window` keys in sliding layers: the encoder's ends with the row itself, the canvas's
  // is counted from its first row, which counts as there, and reaches to its end.
  Attention attention(int l) const {
    const bool denoise = shape_.pass == Pass::denoise;
    Attention a{.heads = static_cast<int16_t>(c_.heads),
                .kv_heads = static_cast<int16_t>(global(l) ? g_.kv_heads : c_.kv_heads),
                .head_dim = static_cast<int16_t>(global(l) ? g_.head_dim : c_.head_dim),
                .scale = 1};
    if (!global(l)) a.window = {.before = static_cast<int32_t>(g_.window - 1), .of_span = denoise};
    return a;
  }

  std::array<ValueId, 3> projected(int l, ValueId h) {
    return b_.linear<3>(h, {layer(l).q, layer(l).k, value_weight(l)});
  }

  void position(int l, ValueId x, int heads, WeightId norm) {
    const int dim = attention(l).head_dim;
    b_.head_norm(x, norm, heads, dim, c_.rms_eps);
    b_.rope(x, heads, dim, global(l) ? ropes_.global : ropes_.sliding);
  }

  void cache(int l, ValueId k, ValueId v) {
    const Attention a = attention(l);
    position(l, k, a.kv_heads, layer(l).k_norm);
    b_.head_norm(v, kNoWeight, a.kv_heads, a.head_dim, c_.rms_eps);
    b_.store_kv(l, k, v, a);
  }

  void attend(int l, ValueId x, ValueId q) {
    position(l, q, static_cast<int>(c_.heads), layer(l).q_norm);
    const ValueId out = b_.linear(b_.attention(l, q, attention(l)), layer(l).attn_output);
    b_.add(x, b_.rms_norm(out, layer(l).post_attn_norm, c_.rms_eps));
  }

  ValueId gated_network(ValueId h, const FeedForward& w) {
    const auto [gate, up] = b_.linear<2>(h, {w.gate, w.up});
    return b_.linear(b_.glu(gate, up, Activation::gelu_tanh), w.down);
  }

  // The router reads the residual stream itself, the experts a norm of it.
  ValueId mixture(const Layer& w, ValueId x) {
    const ValueId scores = b_.linear(b_.rms_norm(x, w.router_scale, c_.rms_eps), w.router);
    b_.scale(scores, 1 / std::sqrt(static_cast<double>(c_.width)));
    const ValueId gates = b_.route(scores, kNoWeight, routing_);
    b_.scale(gates, 1, w.expert_scales);
    return b_.experts(b_.rms_norm(x, w.experts_norm, c_.rms_eps), gates, {w.experts.gate, w.experts.up, w.experts.down},
                      routing_, Activation::gelu_tanh);
  }

  void feed_forward(int l, ValueId x) {
    const Layer& w = layer(l);
    const ValueId dense =
        b_.rms_norm(gated_network(b_.rms_norm(x, w.ffn_norm, c_.rms_eps), w.dense), w.post_dense_norm, c_.rms_eps);
    b_.add(dense, b_.rms_norm(mixture(w, x), w.post_experts_norm, c_.rms_eps));
    b_.add(x, b_.rms_norm(dense, w.post_ffn_norm, c_.rms_eps));
    b_.scale(x, 1, shape_.pass == Pass::denoise ? w.denoise_scale : w.encode_scale);
  }

  const ModelConfig& c_;
  const DiffusionGemma& g_;
  const Weights& w_;
  const Ropes& ropes_;
  const StepShape shape_;
  Builder b_;
  const Routing routing_ = {
      .experts = static_cast<int>(c_.experts), .used = static_cast<int>(c_.experts_used), .renormalise = true};
};

// Frequencies of all pairs of a head; those behind the first rotary_dims elements rest.
Result<Rope> partial_rope(int64_t head_dim, int64_t rotary_dims, float theta) {
  LLADA_TRY(Rope rope, make_rope({.rotary = head_dim, .theta = static_cast<double>(theta)}));
  std::fill(rope.frequencies.begin() + rotary_dims / 2, rope.frequencies.end(), 0.0);
  return rope;
}

}  // namespace
}  // namespace gemma

Result<ModelGraph> build_diffusion_gemma(const ModelConfig& config) {
  using namespace gemma;
  const DiffusionGemma& g = *config.gemma;
  Ropes ropes;
  LLADA_TRY(ropes.sliding, partial_rope(config.head_dim, config.head_dim, config.rope_theta));
  LLADA_TRY(ropes.global, partial_rope(g.head_dim, g.rotary_dims, g.rope_theta));
  ModelGraph model;
  const Weights weights = weights_of(config, WeightList(config, model.weights));
  // One wanted row: every matrix is used.
  note_uses(Forward(config, weights, ropes, model.weights, plain_shape(1, 1)).build(), model.weights);
  model.encodes = true;
  const KvHeads sliding{static_cast<int32_t>(config.kv_heads), static_cast<int32_t>(config.head_dim)};
  const KvHeads global{static_cast<int32_t>(g.kv_heads), static_cast<int32_t>(g.head_dim)};
  for (const bool is_global : g.global) model.kv_by_layer.push_back(is_global ? global : sliding);
  if (std::ranges::all_of(model.kv_by_layer, [&](const KvHeads& one) { return one == sliding; }))
    model.kv_by_layer.clear();
  model.forward = [config, weights, ropes, list = model.weights](StepShape shape) {
    return Forward(config, weights, ropes, list, shape).build();
  };
  return model;
}

}  // namespace llada
