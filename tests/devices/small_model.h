// Small random models of every kind with their forward written a second time in plain double arithmetic,
// straight from the formulas: the reference that every device is held to.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "base/random.h"
#include "models/model_graph.h"
#include "tensor/quantize.h"
#include "tensor/view.h"

namespace llada {

struct SmallModel {
  ModelConfig config;
  ModelGraph graph;
  std::vector<std::vector<std::byte>> storage;
  std::vector<TensorView> views;
  std::vector<std::vector<double>> values;  // the same weights, dequantized

  const std::vector<double>& get(const std::string& name, int expert = -1) const {
    for (size_t i = 0; i < graph.weights.size(); ++i)
      if (graph.weights[i].name == name && graph.weights[i].expert == expert) return values[i];
    throw std::runtime_error("no weight " + name);
  }
  const std::vector<double>& operator[](const std::string& name) const { return get(name); }

  // Of a layer that rotates otherwise than the rest: changes theta, rotary_dims, pairing. Empty: all are alike.
  std::function<void(ModelConfig&, int layer)> rotary;
  ModelConfig rotary_of(int layer) const {
    ModelConfig c = config;
    if (rotary) rotary(c, layer);
    return c;
  }
};

inline ModelConfig small_config(RopePairing pairing = RopePairing::half_split, int kv_heads = 4) {
  return {.architecture = Architecture::llada,
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
  c.architecture = Architecture::llada_moe;
  c.qk_norm = true;
  c.ffn_width = 0;
  c.experts = 6, c.experts_used = 2, c.expert_ffn_width = 32;
  return c;
}

inline ModelConfig small_llada2() {
  ModelConfig c = small_config(RopePairing::half_split, 2);
  c.architecture = Architecture::llada2;
  c.qk_norm = true;
  c.rotary_dims = 8;
  c.experts = 8, c.experts_used = 2, c.expert_ffn_width = 32, c.shared_expert_ffn_width = 64,
  c.dense_layers = 1;
  c.sigmoid_router = c.norm_topk = true;
  c.expert_groups = 4, c.expert_groups_used = 2, c.expert_scale = 2.5f;
  c.attention_block = 8;
  return c;
}

inline SmallModel make_small_model(DType type, const ModelConfig& config) {
  SmallModel m;
  m.config = config;
  m.graph = build_transformer(m.config);
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
    dequantize_row(stored, bytes.data(), floats.data(), n);
    m.values.emplace_back(floats.begin(), floats.end());
  }
  return m;
}

using Rows = std::vector<std::vector<double>>;

inline std::vector<double> reference_norm(const std::vector<double>& x, const std::vector<double>& weight,
                                          double eps) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * weight[i];
  return y;
}

inline std::vector<double> reference_linear(const std::vector<double>& x, const std::vector<double>& weight) {
  std::vector<double> y(weight.size() / x.size(), 0.0);
  for (size_t o = 0; o < y.size(); ++o)
    for (size_t i = 0; i < x.size(); ++i) y[o] += weight[o * x.size() + i] * x[i];
  return y;
}

inline void reference_rope(std::vector<double>& x, int64_t head_dim, int64_t position, const ModelConfig& c) {
  const int64_t half = c.rotary_dims / 2;
  for (size_t h = 0; h < x.size(); h += static_cast<size_t>(head_dim))
    for (int64_t j = 0; j < half; ++j) {
      const double angle =
          static_cast<double>(position) *
          std::pow(c.rope_theta, -2.0 * static_cast<double>(j) / static_cast<double>(c.rotary_dims));
      const bool adjacent = c.rope_pairing == RopePairing::adjacent;
      double& a = x[h + static_cast<size_t>(adjacent ? 2 * j : j)];
      double& b = x[h + static_cast<size_t>(adjacent ? 2 * j + 1 : j + half)];
      const double p = a, q = b;
      a = p * std::cos(angle) - q * std::sin(angle);
      b = q * std::cos(angle) + p * std::sin(angle);
    }
}

inline std::vector<double> reference_swiglu(const std::vector<double>& h,
                                            const std::vector<double>& gate_weight,
                                            const std::vector<double>& up_weight,
                                            const std::vector<double>& down_weight) {
  auto gate = reference_linear(h, gate_weight);
  const auto up = reference_linear(h, up_weight);
  for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
  return reference_linear(gate, down_weight);
}

inline void add_to(std::vector<double>& x, const std::vector<double>& y, double scale = 1) {
  for (size_t i = 0; i < y.size(); ++i) x[i] += scale * y[i];
}

// The gates of one row by sorting, where the engine selects.
inline std::vector<double> reference_gates(const ModelConfig& c, const std::vector<double>& scores,
                                           const std::vector<double>* bias) {
  const size_t n = scores.size();
  std::vector<double> p(n);
  double sum = 0;
  for (size_t e = 0; e < n; ++e)
    sum += p[e] = c.sigmoid_router ? 1 / (1 + std::exp(-scores[e])) : std::exp(scores[e]);
  if (!c.sigmoid_router)
    for (double& v : p) v /= sum;
  std::vector<double> rank = p;
  if (bias != nullptr) add_to(rank, *bias);
  std::vector<std::pair<double, size_t>> order;  // of the experts that may compete
  const size_t groups = c.expert_groups > 1 ? static_cast<size_t>(c.expert_groups) : 1, size = n / groups;
  std::vector<std::pair<double, size_t>> worth;
  for (size_t g = 0; g < groups; ++g) {
    std::vector<double> members(rank.begin() + static_cast<long>(g * size),
                                rank.begin() + static_cast<long>((g + 1) * size));
    std::ranges::sort(members, std::greater<>());
    worth.emplace_back(-(members[0] + (size > 1 ? members[1] : 0)), g);
  }
  std::ranges::sort(worth);
  const size_t kept = groups > 1 ? static_cast<size_t>(c.expert_groups_used) : 1;
  for (size_t k = 0; k < kept; ++k)
    for (size_t e = worth[k].second * size; e < (worth[k].second + 1) * size; ++e)
      order.emplace_back(-rank[e], e);
  std::ranges::sort(order);
  order.resize(static_cast<size_t>(c.experts_used));
  double chosen = 0;
  for (const auto& [key, e] : order) chosen += p[e];
  std::vector<double> gates(n, 0.0);
  for (const auto& [key, e] : order) gates[e] = p[e] * c.expert_scale / (c.norm_topk ? chosen : 1);
  return gates;
}

// Logits of every position from `from` on, all of them computed together; no causal mask but the block-causal one
// where the model has it.
inline Rows reference_forward(const SmallModel& m, const std::vector<int32_t>& tokens, size_t from = 0) {
  const ModelConfig& c = m.config;
  const size_t n = tokens.size(), d = static_cast<size_t>(c.head_dim);
  Rows x;
  for (const int32_t t : tokens) {
    const auto& table = m["token_embd.weight"];
    x.emplace_back(table.begin() + t * c.width, table.begin() + (t + 1) * c.width);
  }
  for (int l = 0; l < c.layers; ++l) {
    const auto w = [&](const char* leaf) -> const std::vector<double>& {
      return m["blk." + std::to_string(l) + "." + leaf + ".weight"];
    };
    const auto bias = [&](std::vector<double>& y, const char* leaf) {
      if (c.qkv_bias) add_to(y, m["blk." + std::to_string(l) + "." + leaf + ".bias"]);
    };
    const auto head_norm = [&](std::vector<double>& y, const char* leaf) {
      for (size_t h = 0; c.qk_norm && h < y.size(); h += d) {
        const auto normed = reference_norm(
            {y.begin() + static_cast<long>(h), y.begin() + static_cast<long>(h + d)}, w(leaf), c.rms_eps);
        std::ranges::copy(normed, y.begin() + static_cast<long>(h));
      }
    };
    Rows q, k, v;
    for (size_t p = 0; p < n; ++p) {
      const auto h = reference_norm(x[p], w("attn_norm"), c.rms_eps);
      q.push_back(reference_linear(h, w("attn_q")));
      k.push_back(reference_linear(h, w("attn_k")));
      v.push_back(reference_linear(h, w("attn_v")));
      bias(q[p], "attn_q"), bias(k[p], "attn_k"), bias(v[p], "attn_v");
      head_norm(q[p], "attn_q_norm"), head_norm(k[p], "attn_k_norm");
      reference_rope(q[p], c.head_dim, static_cast<int64_t>(p), m.rotary_of(l));
      reference_rope(k[p], c.head_dim, static_cast<int64_t>(p), m.rotary_of(l));
    }
    for (size_t p = 0; p < n; ++p) {
      std::vector<double> mixed(static_cast<size_t>(c.heads) * d, 0.0);
      for (size_t head = 0; head < static_cast<size_t>(c.heads); ++head) {
        const size_t kv = head / static_cast<size_t>(c.heads / c.kv_heads);
        const size_t block = static_cast<size_t>(c.attention_block);
        const size_t seen = block > 0 ? std::min(n, (p / block + 1) * block) : n;
        std::vector<double> score(n, 0.0);
        double sum = 0;
        for (size_t s = 0; s < seen; ++s) {
          for (size_t i = 0; i < d; ++i) score[s] += q[p][head * d + i] * k[s][kv * d + i];
          sum += score[s] = std::exp(score[s] / std::sqrt(static_cast<double>(d)));
        }
        for (size_t s = 0; s < n; ++s)
          for (size_t i = 0; i < d; ++i) mixed[head * d + i] += score[s] / sum * v[s][kv * d + i];
      }
      const auto out = reference_linear(mixed, w("attn_output"));
      for (size_t i = 0; i < out.size(); ++i) x[p][i] += out[i];
    }
    for (size_t p = 0; p < n; ++p) {
      const auto h = reference_norm(x[p], w("ffn_norm"), c.rms_eps);
      if (c.experts == 0 || l < c.dense_layers) {
        add_to(x[p], reference_swiglu(h, w("ffn_gate"), w("ffn_up"), w("ffn_down")));
        continue;
      }
      const std::string layer = "blk." + std::to_string(l) + ".";
      const auto gates = reference_gates(c, reference_linear(h, w("ffn_gate_inp")),
                                         c.sigmoid_router ? &m[layer + "exp_probs_b.bias"] : nullptr);
      for (int e = 0; e < c.experts; ++e)
        if (gates[static_cast<size_t>(e)] != 0)
          add_to(x[p],
                 reference_swiglu(h, m.get(layer + "ffn_gate_exps.weight", e),
                                  m.get(layer + "ffn_up_exps.weight", e),
                                  m.get(layer + "ffn_down_exps.weight", e)),
                 gates[static_cast<size_t>(e)]);
      if (c.shared_expert_ffn_width > 0)
        add_to(x[p], reference_swiglu(h, w("ffn_gate_shexp"), w("ffn_up_shexp"), w("ffn_down_shexp")));
    }
  }
  Rows logits;
  for (size_t p = from; p < n; ++p)
    logits.push_back(
        reference_linear(reference_norm(x[p], m["output_norm.weight"], c.rms_eps),
                         m[c.tied_head ? "token_embd.weight" : "output.weight"]));
  return logits;
}

}  // namespace llada
