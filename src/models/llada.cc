// LLaDA (arXiv 2502.09992): a Llama-shaped transformer without a causal mask. Row i predicts position i.
// x: rows x width. q, k, v: rows x heads*head_dim. All activations F32.
#include "graph/builder.h"
#include "models/model_graph.h"

namespace llada {
namespace {

struct LayerWeights {
  WeightId attn_norm, q, k, v, attn_output, ffn_norm, gate, up, down;
};

struct Weights {
  WeightId embedding, output_norm, output;
  std::vector<LayerWeights> layers;
};

Weights list_weights(const ModelConfig& c, std::vector<WeightInfo>& list) {
  const auto add = [&](std::string name, int64_t inputs, int64_t outputs, int layer = -1) {
    list.push_back({std::move(name), {inputs, outputs}, static_cast<int16_t>(layer)});
    return static_cast<WeightId>(list.size() - 1);
  };
  const int64_t q_width = c.heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
  Weights w;
  w.embedding = add("token_embd.weight", c.width, c.vocab);
  for (int l = 0; l < c.layers; ++l) {
    const auto name = [l](std::string_view leaf) { return fmt::format("blk.{}.{}.weight", l, leaf); };
    LayerWeights layer;
    layer.attn_norm = add(name("attn_norm"), c.width, 1, l);
    layer.q = add(name("attn_q"), c.width, q_width, l);
    layer.k = add(name("attn_k"), c.width, kv_width, l);
    layer.v = add(name("attn_v"), c.width, kv_width, l);
    layer.attn_output = add(name("attn_output"), q_width, c.width, l);
    layer.ffn_norm = add(name("ffn_norm"), c.width, 1, l);
    layer.gate = add(name("ffn_gate"), c.width, c.ffn_width, l);
    layer.up = add(name("ffn_up"), c.width, c.ffn_width, l);
    layer.down = add(name("ffn_down"), c.ffn_width, c.width, l);
    w.layers.push_back(layer);
  }
  w.output_norm = add("output_norm.weight", c.width, 1);
  w.output = c.tied_head ? w.embedding : add("output.weight", c.width, c.vocab);
  return w;
}

Program forward(const ModelConfig& c, const Weights& w, std::span<const WeightInfo> list, StepShape shape) {
  const HeadGeometry g{.heads = static_cast<int>(c.heads),
                       .kv_heads = static_cast<int>(c.kv_heads),
                       .head_dim = static_cast<int>(c.head_dim),
                       .rotary = static_cast<int>(c.rotary_dims),
                       .rope_adjacent = c.rope_pairing == RopePairing::adjacent,
                       .rope_theta = c.rope_theta};
  Builder b(shape, list);
  ValueId x = b.embed(w.embedding);
  for (int l = 0; l < c.layers; ++l) {
    const LayerWeights& layer = w.layers[static_cast<size_t>(l)];
    ValueId h = b.rms_norm(x, layer.attn_norm, c.rms_eps);
    ValueId q = kNoValue, k, v;
    if (l + 1 < c.layers) {
      const auto qkv = b.linear<3>(h, {layer.q, layer.k, layer.v});
      q = qkv[0], k = qkv[1], v = qkv[2];
    } else {
      // After the last K/V nothing but the wanted rows is read again, so queries and the feed-forward shrink
      // to them.
      const auto kv = b.linear<2>(h, {layer.k, layer.v});
      k = kv[0], v = kv[1];
      if (shape.wanted > 0) {
        x = b.select_rows(x);
        q = b.linear(b.select_rows(h), layer.q);
      }
    }
    b.rope(k, g.kv_heads, g);
    b.store_kv(l, k, v, g);
    if (l + 1 == c.layers && shape.wanted == 0) break;  // a step that only refreshes K/V
    b.rope(q, g.heads, g);
    b.add(x, b.linear(b.attention(l, q, g), layer.attn_output));
    h = b.rms_norm(x, layer.ffn_norm, c.rms_eps);
    const auto [gate, up] = b.linear<2>(h, {layer.gate, layer.up});
    b.add(x, b.linear(b.swiglu(gate, up), layer.down));
  }
  if (shape.wanted > 0) b.head(b.guide(b.rms_norm(x, w.output_norm, c.rms_eps)), w.output);
  return b.take();
}

}  // namespace

Result<ModelGraph> build_llada(const ModelConfig& config) {
  ModelGraph model;
  const Weights weights = list_weights(config, model.weights);
  model.layers = static_cast<int>(config.layers);
  model.kv_heads = static_cast<int>(config.kv_heads);
  model.head_dim = static_cast<int>(config.head_dim);
  model.width = config.width;
  model.vocab = config.vocab;
  model.forward = [config, weights, list = model.weights](StepShape shape) {
    return forward(config, weights, list, shape);
  };
  return model;
}

}  // namespace llada
