#include "geometry/variants.h"

namespace llada {
namespace {

bool is_norm(const Op& op) { return op.kind == OpKind::rms_norm || op.kind == OpKind::head_norm; }

void remove_weight(Program& p, Op& op) {
  Norm plain = p.norm(op);
  plain.weighted = false;
  p.norms.push_back(plain);
  op.weight[0] = kNoWeight;
  op.attributes = static_cast<int16_t>(p.norms.size() - 1);
}

// Behind the embedding; its result keeps the place that the others read from.
void normalise_embedding(Program& p, float epsilon) {
  Op& embed = p.ops.front();
  Op norm{.kind = OpKind::rms_norm, .rows = embed.rows};
  p.values.push_back(p.values[static_cast<size_t>(embed.out[0])]);
  norm.out[0] = embed.out[0];
  norm.in[0] = embed.out[0] = static_cast<ValueId>(p.values.size() - 1);
  p.norms.push_back({.epsilon = epsilon, .weighted = false});
  norm.attributes = static_cast<int16_t>(p.norms.size() - 1);
  p.ops.insert(p.ops.begin() + 1, norm);
}

Program changed(Program p, const Variant& v, const ModelConfig& c, const std::vector<WeightInfo>& weights) {
  const Attention first = p.attentions.front();
  p.attentions.clear();
  for (const KeyWindow& window : v.windows.empty() ? std::vector<KeyWindow>(1) : v.windows) {
    Attention a = first;
    a.window = window;
    a.cap = v.cap;
    if (v.scale > 0) a.scale = v.scale;
    p.attentions.push_back(a);
  }
  if (!v.divisors.empty())
    p.ropes = {*make_rope({.rotary = c.rotary_dims,
                           .adjacent = c.rope_pairing == RopePairing::adjacent,
                           .theta = static_cast<double>(c.rope_theta),
                           .divisors = v.divisors,
                           .yarn = c.yarn})};
  for (Op& op : p.ops) {
    if (op.kind == OpKind::store_kv || op.kind == OpKind::attention)
      op.attributes = static_cast<int16_t>(static_cast<size_t>(op.layer) % p.attentions.size());
    if ((v.gelu && op.kind == OpKind::glu) || ((v.gelu || v.gelu_in_experts) && op.kind == OpKind::experts))
      op.activation = Activation::gelu_tanh;
    if (op.kind == OpKind::head) op.parameter = v.logit_cap;
    if (!v.plain_norms || !is_norm(op)) continue;
    if (op.kind == OpKind::head_norm || weights[static_cast<size_t>(op.weight[0])].name.ends_with("ffn_norm.weight"))
      remove_weight(p, op);
  }
  if (v.canvas_norm && p.shape.pass == Pass::denoise) normalise_embedding(p, c.rms_eps);
  return p;
}

}  // namespace

SmallModel in_variant(SmallModel m, const Variant& variant) {
  m.variant = variant;
  m.graph.encodes = variant.prompt > 0;
  m.graph.forward = [plain = m.graph.forward, variant, config = m.config, weights = m.graph.weights](StepShape shape) {
    return changed(plain(shape), variant, config, weights);
  };
  return m;
}

}  // namespace llada
