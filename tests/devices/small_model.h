// A small random LLaDA with its forward written a second time in plain double arithmetic, straight from the
// formulas: the reference that every device is held to.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
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

  const std::vector<double>& operator[](const std::string& name) const {
    for (size_t i = 0; i < graph.weights.size(); ++i)
      if (graph.weights[i].name == name) return values[i];
    throw std::runtime_error("no weight " + name);
  }
};

inline SmallModel make_small_model(DType type, RopePairing pairing, int kv_heads = 4) {
  SmallModel m;
  m.config = {.architecture = Architecture::llada,
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
  m.graph = *build_model(m.config);
  for (size_t i = 0; i < m.graph.weights.size(); ++i) {
    const WeightInfo& w = m.graph.weights[i];
    const bool vector = w.dims[1] == 1;
    const DType stored = vector ? DType::F32 : type;
    const int64_t n = w.dims[0] * w.dims[1];
    std::vector<float> floats(static_cast<size_t>(n));
    const double spread = vector ? 0.2 : 2.0 / std::sqrt(static_cast<double>(w.dims[0]));
    for (int64_t e = 0; e < n; ++e)
      floats[static_cast<size_t>(e)] = static_cast<float>(
          (vector ? 1.0 : 0.0) + spread * (2 * uniform(1, i, static_cast<uint64_t>(e), 0) - 1));
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

// Logits of every position, all of them computed together, no causal mask.
inline Rows reference_forward(const SmallModel& m, const std::vector<int32_t>& tokens) {
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
    Rows q, k, v;
    for (size_t p = 0; p < n; ++p) {
      const auto h = reference_norm(x[p], w("attn_norm"), c.rms_eps);
      q.push_back(reference_linear(h, w("attn_q")));
      k.push_back(reference_linear(h, w("attn_k")));
      v.push_back(reference_linear(h, w("attn_v")));
      reference_rope(q[p], c.head_dim, static_cast<int64_t>(p), c);
      reference_rope(k[p], c.head_dim, static_cast<int64_t>(p), c);
    }
    for (size_t p = 0; p < n; ++p) {
      std::vector<double> mixed(static_cast<size_t>(c.heads) * d, 0.0);
      for (size_t head = 0; head < static_cast<size_t>(c.heads); ++head) {
        const size_t kv = head / static_cast<size_t>(c.heads / c.kv_heads);
        std::vector<double> score(n, 0.0);
        double sum = 0;
        for (size_t s = 0; s < n; ++s) {
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
      auto gate = reference_linear(h, w("ffn_gate"));
      const auto up = reference_linear(h, w("ffn_up"));
      for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      const auto out = reference_linear(gate, w("ffn_down"));
      for (size_t i = 0; i < out.size(); ++i) x[p][i] += out[i];
    }
  }
  Rows logits;
  for (size_t p = 0; p < n; ++p)
    logits.push_back(
        reference_linear(reference_norm(x[p], m["output_norm.weight"], c.rms_eps), m["output.weight"]));
  return logits;
}

}  // namespace llada
