// DiffusionGemma: Gemma 4's layers, a dense network and a mixture of experts side by side in each. What is finished
// (the prompt, then whole canvases) is encoded causally; the canvas is denoised behind it, every row of it reading the
// whole canvas. Both ways share all weights but one scalar for each layer. In a step of denoising, what the step before
// thought of a row is mixed into its embedding.
//
//   layer: y = x + norm(attention(norm(x))); x' = s (y + norm(norm(dense(norm(y))) + norm(experts(norm(y)))))
//
// Values have a norm without weight; in global layers they are the keys before norm and rotation. Scores are not
// scaled.
#include <algorithm>
#include <cmath>

#include "graph/builder.h"
#include "models/model_graph.h"

namespace llada {
namespace gemma {
namespace {

struct Dense {
  WeightId gate = kNoWeight, up = kNoWeight, down = kNoWeight;
};

struct Layer {
  WeightId q = kNoWeight, k = kNoWeight, v = kNoWeight, attn_output = kNoWeight;  // v: of sliding layers
  WeightId q_norm = kNoWeight, k_norm = kNoWeight;
  WeightId attn_norm = kNoWeight, post_attn_norm = kNoWeight, ffn_norm = kNoWeight, post_dense_norm = kNoWeight;
  WeightId experts_norm = kNoWeight, post_experts_norm = kNoWeight, post_ffn_norm = kNoWeight;
  Dense dense, experts;  // of expert 0
  WeightId router = kNoWeight, router_scale = kNoWeight, expert_scales = kNoWeight;
  WeightId denoise_scale = kNoWeight, encode_scale = kNoWeight;
};

struct Weights {
  WeightId embedding = kNoWeight, output_norm = kNoWeight, soft_norm = kNoWeight;
  Dense soft;
  std::vector<Layer> layers;
};

class WeightList {
 public:
  WeightList(const ModelConfig& config, std::vector<WeightInfo>& list) : c_(config), g_(*config.gemma), list_(list) {}

  Weights all() {
    Weights w;
    w.embedding = add("token_embd.weight", c_.width, c_.vocab);
    w.soft_norm = add("self_cond_pre_norm.weight", c_.width);
    w.soft = {add("self_cond_gate.weight", c_.width, c_.ffn_width), add("self_cond_up.weight", c_.width, c_.ffn_width),
              add("self_cond_down.weight", c_.ffn_width, c_.width)};
    for (layer_ = 0; layer_ < c_.layers; ++layer_) w.layers.push_back(layer());
    layer_ = -1;
    w.output_norm = add("output_norm.weight", c_.width);
    return w;
  }

 private:
  WeightId add(std::string name, int64_t inputs, int64_t outputs = 1, int64_t expert = -1) {
    list_.push_back({std::move(name), {inputs, outputs}, static_cast<int16_t>(layer_), static_cast<int16_t>(expert)});
    return static_cast<WeightId>(list_.size() - 1);
  }
  WeightId in_layer(std::string_view leaf, int64_t inputs, int64_t outputs = 1, int64_t expert = -1) {
    return add(fmt::format("blk.{}.{}", layer_, leaf), inputs, outputs, expert);
  }
  WeightId norm(std::string_view leaf) { return in_layer(fmt::format("{}.weight", leaf), c_.width); }
  WeightId stack(std::string_view leaf, int64_t inputs, int64_t outputs) {
    const auto first = static_cast<WeightId>(list_.size());
    for (int64_t e = 0; e < c_.experts; ++e) in_layer(leaf, inputs, outputs, e);
    return first;
  }

  Layer layer() {
    const bool global = g_.global[static_cast<size_t>(layer_)];
    const int64_t dim = global ? g_.head_dim : c_.head_dim, kv = (global ? g_.kv_heads : c_.kv_heads) * dim;
    Layer l;
    l.attn_norm = norm("attn_norm");
    l.q = in_layer("attn_q.weight", c_.width, c_.heads * dim);
    l.k = in_layer("attn_k.weight", c_.width, kv);
    if (!global) l.v = in_layer("attn_v.weight", c_.width, kv);
    l.q_norm = in_layer("attn_q_norm.weight", dim);
    l.k_norm = in_layer("attn_k_norm.weight", dim);
    l.attn_output = in_layer("attn_output.weight", c_.heads * dim, c_.width);
    l.post_attn_norm = norm("post_attention_norm");
    l.ffn_norm = norm("ffn_norm");
    l.dense = {in_layer("ffn_gate.weight", c_.width, c_.ffn_width), in_layer("ffn_up.weight", c_.width, c_.ffn_width),
               in_layer("ffn_down.weight", c_.ffn_width, c_.width)};
    l.post_dense_norm = norm("post_ffw_norm_1");
    l.router_scale = in_layer("ffn_gate_inp.scale", c_.width);
    l.router = in_layer("ffn_gate_inp.weight", c_.width, c_.experts);
    l.expert_scales = in_layer("ffn_down_exps.scale", c_.experts);
    l.experts_norm = norm("pre_ffw_norm_2");
    l.experts = {stack("ffn_gate_exps.weight", c_.width, c_.expert_ffn_width),
                 stack("ffn_up_exps.weight", c_.width, c_.expert_ffn_width),
                 stack("ffn_down_exps.weight", c_.expert_ffn_width, c_.width)};
    l.post_experts_norm = norm("post_ffw_norm_2");
    l.post_ffn_norm = norm("post_ffw_norm");
    l.denoise_scale = in_layer("layer_output_scale.weight", 1);
    l.encode_scale = in_layer("enc_layer_output_scale.weight", 1);
    return l;
  }

  const ModelConfig& c_;
  const DiffusionGemma& g_;
  std::vector<WeightInfo>& list_;
  int64_t layer_ = -1;
};

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

  // What the step before thought of the row, through a network of its own.
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

  ValueId gated_network(ValueId h, const Dense& w) {
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
  const Weights weights = WeightList(config, model.weights).all();
  // One wanted row: every matrix is used.
  note_uses(Forward(config, weights, ropes, model.weights, plain_shape(1, 1)).build(), model.weights);
  model.encodes = true;
  model.layers = static_cast<int>(config.layers);
  model.kv_heads = static_cast<int>(config.kv_heads);
  model.head_dim = static_cast<int>(config.head_dim);
  for (const bool global : g.global)
    model.kv_by_layer.push_back({static_cast<int32_t>(global ? g.kv_heads : config.kv_heads),
                                 static_cast<int32_t>(global ? g.head_dim : config.head_dim)});
  if (std::ranges::all_of(model.kv_by_layer, [&](const KvHeads& one) { return one == model.kv_by_layer.front(); }))
    model.kv_by_layer.clear();
  model.width = config.width;
  model.vocab = config.vocab;
  model.context = config.context;
  model.forward = [config, weights, ropes, list = model.weights](StepShape shape) {
    return Forward(config, weights, ropes, list, shape).build();
  };
  return model;
}

}  // namespace llada
