#include "geometry/reference_forward.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "tensor/quantize.h"

namespace llada {
namespace {

using Vector = std::vector<double>;

constexpr size_t kSide = 16;  // rows that are computed side by side

std::vector<double> dequantized(const TensorView& view, int64_t row, int64_t rows) {
  const int64_t inputs = view.shape.columns();
  std::vector<float> floats(static_cast<size_t>(inputs));
  Vector out;
  out.reserve(static_cast<size_t>(rows * inputs));
  for (int64_t r = row; r < row + rows; ++r) {
    dequantize_row(view.type, view.data + r * view.row_stride(), floats.data(), inputs);
    out.insert(out.end(), floats.begin(), floats.end());
  }
  return out;
}

// n rows of x, `inputs` wide, times the rows of w. Every sum runs over the inputs in order; the rows beside
// each other are there for the compiler's vectors.
Vector product(const Vector& x, const Vector& w, size_t inputs) {
  const size_t n = x.size() / inputs, outputs = w.size() / inputs;
  Vector y(n * outputs), side(inputs * kSide);
  for (size_t r0 = 0; r0 < n; r0 += kSide) {
    const size_t here = std::min(kSide, n - r0);
    for (size_t l = 0; l < kSide; ++l)
      for (size_t i = 0; i < inputs; ++i) side[i * kSide + l] = l < here ? x[(r0 + l) * inputs + i] : 0;
    for (size_t o = 0; o < outputs; ++o) {
      double sum[kSide] = {};
      const double* row = w.data() + o * inputs;
      for (size_t i = 0; i < inputs; ++i)
        for (size_t l = 0; l < kSide; ++l) sum[l] += row[i] * side[i * kSide + l];
      for (size_t l = 0; l < here; ++l) y[(r0 + l) * outputs + o] = sum[l];
    }
  }
  return y;
}

void normalise(double* x, size_t n, const Vector& gain, double eps) {
  const double sum = std::inner_product(x, x + n, x, 0.0);
  const double scale = 1 / std::sqrt(sum / static_cast<double>(n) + eps);
  for (size_t i = 0; i < n; ++i) x[i] *= scale * gain[i];
}

Vector normalised(Vector x, const Vector& gain, double eps) {
  for (size_t r = 0; r < x.size(); r += gain.size()) normalise(x.data() + r, gain.size(), gain, eps);
  return x;
}

Vector rows_of(const Vector& x, size_t width, const std::vector<int32_t>& rows) {
  Vector out;
  for (const int32_t r : rows) {
    const auto at = x.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(r) * width);
    out.insert(out.end(), at, at + static_cast<std::ptrdiff_t>(width));
  }
  return out;
}

// Of experts whose rows choose them together: those with the highest rank of any of these rows, by sorting.
std::vector<bool> chosen_together(const ModelConfig& c, const double* scores, size_t rows, const Vector& bias) {
  const auto n = static_cast<size_t>(c.experts);
  std::vector<std::pair<double, size_t>> order;
  for (size_t e = 0; e < n; ++e) {
    double most = -1e9;
    for (size_t r = 0; r < rows; ++r) most = std::max(most, 1 / (1 + std::exp(-scores[r * n + e])) + bias[e]);
    order.emplace_back(-most, e);
  }
  std::ranges::sort(order);
  std::vector<bool> chosen(n);
  for (size_t k = 0; k < static_cast<size_t>(c.expert_capacity); ++k) chosen[order[k].second] = true;
  return chosen;
}

// The gates of one row by sorting, where the engine selects. allowed: the experts that compete; empty: all.
Vector gates_of(const ModelConfig& c, const double* scores, const Vector& bias, const std::vector<bool>& allowed) {
  const auto n = static_cast<size_t>(c.experts);
  Vector p(n);
  double sum = 0;
  for (size_t e = 0; e < n; ++e) sum += p[e] = c.sigmoid_router ? 1 / (1 + std::exp(-scores[e])) : std::exp(scores[e]);
  if (!c.sigmoid_router)
    for (double& v : p) v /= sum;
  Vector rank = p;
  if (!bias.empty()) add_to(rank, bias);
  const size_t groups = c.expert_groups > 1 ? static_cast<size_t>(c.expert_groups) : 1, size = n / groups;
  std::vector<std::pair<double, size_t>> worth, order;  // of groups; of the experts that may compete
  for (size_t g = 0; g < groups; ++g) {
    Vector members(rank.begin() + static_cast<long>(g * size), rank.begin() + static_cast<long>((g + 1) * size));
    std::ranges::sort(members, std::greater<>());
    worth.emplace_back(-(members[0] + (size > 1 ? members[1] : 0)), g);
  }
  std::ranges::sort(worth);
  const size_t kept = groups > 1 ? static_cast<size_t>(c.expert_groups_used) : 1;
  for (size_t k = 0; k < kept; ++k)
    for (size_t e = worth[k].second * size; e < (worth[k].second + 1) * size; ++e)
      if (allowed.empty() || allowed[e]) order.emplace_back(-rank[e], e);
  std::ranges::sort(order);
  order.resize(static_cast<size_t>(c.experts_used));
  double chosen = 0;
  for (const auto& [key, e] : order) chosen += p[e];
  Vector gates(n, 0.0);
  for (const auto& [key, e] : order) gates[e] = p[e] * c.expert_scale / (c.norm_topk ? chosen : 1);
  return gates;
}

class Reference {
 public:
  Reference(const SmallModel& m, const std::vector<int32_t>& tokens) : m_(m), c_(m.config), n_(tokens.size()) {
    const TensorView& table = m.views[m.index("token_embd.weight")];
    for (const int32_t t : tokens) {
      const Vector row = dequantized(table, t, 1);
      x_.insert(x_.end(), row.begin(), row.end());
    }
    if (m.variant.canvas_norm)
      for (size_t r = static_cast<size_t>(m.variant.prompt); r < n_; ++r)
        normalise(x_.data() + r * width(), width(), Vector(width(), 1.0), c_.rms_eps);
    rows_.resize(n_);
    std::iota(rows_.begin(), rows_.end(), 0);
  }

  Rows logits(const std::vector<int32_t>& wanted) {
    for (int64_t l = 0; l < c_.layers; ++l) {
      layer_ = "blk." + std::to_string(l) + ".";
      if (!m_.variant.windows.empty()) window_ = m_.variant.windows[static_cast<size_t>(l) % m_.variant.windows.size()];
      rotary_ = m_.rotary_of(static_cast<int>(l));
      const Vector h = normalised(x_, get("attn_norm.weight"), c_.rms_eps);
      const Vector k = positioned(times(h, "attn_k.weight", width()), "attn_k");
      Vector v = times(h, "attn_v.weight", width());
      if (c_.qkv_bias) add_bias(v, get("attn_v.bias"));
      Vector asking = h;
      if (l + 1 == c_.layers && c_.expert_capacity == 0) {  // nothing reads the other rows again
        rows_ = wanted;
        x_ = rows_of(x_, width(), rows_);
        asking = rows_of(h, width(), rows_);
      }
      const Vector q = positioned(times(asking, "attn_q.weight", width()), "attn_q");
      add_to(x_, times(attention(q, k, v), "attn_output.weight", static_cast<size_t>(c_.heads * c_.head_dim)));
      feed_forward(normalised(x_, gain("ffn_norm.weight"), c_.rms_eps), l);
    }
    if (c_.expert_capacity > 0) x_ = rows_of(x_, width(), wanted);
    const Vector h = normalised(x_, weight("output_norm.weight"), c_.rms_eps);
    const TensorView& head = m_.views[m_.index(c_.tied_head ? "token_embd.weight" : "output.weight")];
    Rows out(wanted.size());
    constexpr int64_t kChunk = 512;  // rows of the head that are doubles at the same time
    for (int64_t t = 0; t < c_.vocab; t += kChunk) {
      const Vector some = product(h, dequantized(head, t, std::min(kChunk, c_.vocab - t)), width());
      const size_t n = some.size() / wanted.size();
      for (size_t r = 0; r < wanted.size(); ++r)
        out[r].insert(out[r].end(), some.begin() + static_cast<long>(r * n),
                      some.begin() + static_cast<long>((r + 1) * n));
    }
    for (Vector& row : out)
      for (double& logit : row) logit = capped(logit, m_.variant.logit_cap);
    return out;
  }

 private:
  size_t width() const { return static_cast<size_t>(c_.width); }
  Vector weight(const std::string& name, int expert = -1) const {
    const TensorView& view = m_.views[m_.index(name, expert)];
    return dequantized(view, 0, view.shape.rows());
  }
  Vector get(const char* leaf, int expert = -1) const { return weight(layer_ + leaf, expert); }

  Vector times(const Vector& x, const std::string& leaf, size_t inputs, int expert = -1) const {
    if (m_.watch) m_.watch(layer_ + leaf, expert, x);
    return product(x, get(leaf.c_str(), expert), inputs);
  }

  static void add_bias(Vector& x, const Vector& bias) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += bias[i % bias.size()];
  }

  Vector gain(const std::string& leaf) const {
    Vector weight = get(leaf.c_str());
    if (m_.variant.plain_norms) std::ranges::fill(weight, 1.0);
    return weight;
  }

  // Radians per position of pair j. YaRN as its paper has it: by how often the pair turns within the original context,
  // but for the ramp, which runs between whole pairs.
  double frequency(size_t j) const {
    const auto d = static_cast<double>(rotary_.rotary_dims), base = static_cast<double>(rotary_.rope_theta);
    double f = std::exp(-2.0 * static_cast<double>(j) / d * std::log(base));
    if (!m_.variant.divisors.empty()) f /= static_cast<double>(m_.variant.divisors[j]);
    if (!c_.yarn) return f;
    const auto context = static_cast<double>(c_.yarn->original_context);
    const auto pair_that_turns = [&](double times) {
      return d / 2 * (std::log(context) - std::log(2 * std::acos(-1.0) * times)) / std::log(base);
    };
    const double first = std::max(0.0, std::floor(pair_that_turns(c_.yarn->beta_fast)));
    const double last = std::min(d - 1, std::ceil(pair_that_turns(c_.yarn->beta_slow)));
    const auto at = static_cast<double>(j);
    const double kept = at <= first ? 1 : at >= last ? 0 : (last - at) / (last - first);
    return kept * f + (1 - kept) * f / c_.yarn->factor;
  }
  double magnitude() const {
    if (!c_.yarn) return 1;
    return c_.yarn->attention_factor.value_or(1 + std::log(c_.yarn->factor) / 10);
  }

  // Bias, norm per head, rotary positions.
  Vector positioned(Vector x, const std::string& leaf) const {
    const auto d = static_cast<size_t>(c_.head_dim), half = static_cast<size_t>(rotary_.rotary_dims / 2);
    if (c_.qkv_bias) add_bias(x, get((leaf + ".bias").c_str()));
    if (c_.qk_norm) x = normalised(std::move(x), gain(leaf + "_norm.weight"), c_.rms_eps);
    const size_t heads = x.size() / rows_.size() / d;
    const bool adjacent = rotary_.rope_pairing == RopePairing::adjacent;
    for (size_t r = 0; r < rows_.size(); ++r)
      for (size_t j = 0; j < half; ++j) {
        const double angle = rows_[r] * frequency(j);
        double size = magnitude();
        if (leaf == "attn_q" && c_.query_scale.beta > 0)
          size *= 1 + c_.query_scale.beta * std::log(1.0 + static_cast<int>(rows_[r] / c_.query_scale.period));
        const double cos = size * std::cos(angle), sin = size * std::sin(angle);
        for (size_t h = 0; h < heads; ++h) {
          double* head = x.data() + (r * heads + h) * d;
          double &a = head[adjacent ? 2 * j : j], &b = head[adjacent ? 2 * j + 1 : j + half];
          const double p = a, q = b;
          a = p * cos - q * sin;
          b = q * cos + p * sin;
        }
      }
    return x;
  }

  static double capped(double x, float cap) { return cap > 0 ? cap * std::tanh(x / cap) : x; }

  // Whether the row of one position reads the key of another, in the present layer.
  bool reads(size_t row, size_t key) const {
    const auto p = static_cast<int64_t>(row), s = static_cast<int64_t>(key);
    if (c_.decided_first && s > p) return false;  // of rows in the order in which they are decided
    if (c_.attention_block > 0 && !c_.causal_text && s / c_.attention_block > p / c_.attention_block) return false;
    if (p < m_.variant.prompt && s > p) return false;
    return (window_.before < 0 || s >= p - window_.before) && (window_.after < 0 || s <= p + window_.after);
  }

  Vector attention(const Vector& q, const Vector& k, const Vector& v) const {
    const auto d = static_cast<size_t>(c_.head_dim), heads = static_cast<size_t>(c_.heads),
               kv_heads = static_cast<size_t>(c_.kv_heads);
    const double scale = m_.variant.scale > 0 ? m_.variant.scale : 1 / std::sqrt(static_cast<double>(d));
    Vector mixed(q.size(), 0.0);
    for (size_t head = 0; head < heads; ++head) {
      const size_t kv = head / (heads / kv_heads);
      const Vector keys = column_block(k, kv_heads * d, kv * d, d),
                   values = transposed(column_block(v, kv_heads * d, kv * d, d), d);
      Vector scores = product(column_block(q, heads * d, head * d, d), keys, d);
      for (size_t r = 0; r < rows_.size(); ++r) {
        double* row = scores.data() + r * n_;
        const auto p = static_cast<size_t>(rows_[r]);
        for (size_t s = 0; s < n_; ++s) row[s] = capped(row[s] * scale, m_.variant.cap);
        double top = -HUGE_VAL, sum = 0;
        for (size_t s = 0; s < n_; ++s)
          if (reads(p, s)) top = std::max(top, row[s]);
        for (size_t s = 0; s < n_; ++s) sum += row[s] = reads(p, s) ? std::exp(row[s] - top) : 0;
        for (size_t s = 0; s < n_; ++s) row[s] /= sum;
      }
      const Vector mix = product(scores, values, n_);
      for (size_t r = 0; r < rows_.size(); ++r)
        std::copy_n(mix.begin() + static_cast<long>(r * d), d,
                    mixed.begin() + static_cast<long>(r * heads * d + head * d));
    }
    return mixed;
  }

  static Vector column_block(const Vector& x, size_t stride, size_t from, size_t columns) {
    Vector out;
    for (size_t r = 0; r < x.size(); r += stride)
      out.insert(out.end(), x.begin() + static_cast<long>(r + from), x.begin() + static_cast<long>(r + from + columns));
    return out;
  }
  static Vector transposed(const Vector& x, size_t columns) {
    const size_t rows = x.size() / columns;
    Vector out(x.size());
    for (size_t r = 0; r < rows; ++r)
      for (size_t i = 0; i < columns; ++i) out[i * rows + r] = x[r * columns + i];
    return out;
  }

  Vector swiglu(const Vector& h, const std::string& suffix, int expert = -1) const {
    Vector gate = times(h, "ffn_gate" + suffix, width(), expert);
    const Vector up = times(h, "ffn_up" + suffix, width(), expert);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = activated(gate[i], expert >= 0) * up[i];
    return times(gate, "ffn_down" + suffix, gate.size() / (h.size() / width()), expert);
  }

  double activated(double x, bool routed) const {
    if (!m_.variant.gelu && !(routed && m_.variant.gelu_in_experts)) return x / (1 + std::exp(-x));
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * std::pow(x, 3))));
  }

  void feed_forward(const Vector& h, int64_t l) {
    if (c_.experts == 0 || l < c_.dense_layers) {
      add_to(x_, swiglu(h, ".weight"));
      return;
    }
    const auto experts = static_cast<size_t>(c_.experts);
    const Vector scores = times(h, "ffn_gate_inp.weight", width());
    const Vector bias = c_.sigmoid_router ? get("exp_probs_b.bias") : Vector();
    std::vector<std::vector<int32_t>> rows(experts);
    Rows gates(experts);
    std::vector<bool> allowed;
    for (size_t r = 0; r < rows_.size(); ++r) {
      if (const auto block = static_cast<size_t>(c_.expert_block); c_.expert_capacity > 0 && r % block == 0)
        allowed = chosen_together(c_, scores.data() + r * experts, std::min(block, rows_.size() - r), bias);
      const Vector of_row = gates_of(c_, scores.data() + r * experts, bias, allowed);
      for (size_t e = 0; e < experts; ++e)
        if (of_row[e] != 0) rows[e].push_back(static_cast<int32_t>(r)), gates[e].push_back(of_row[e]);
    }
    for (size_t e = 0; e < experts; ++e) {
      if (rows[e].empty()) continue;
      const Vector y = swiglu(rows_of(h, width(), rows[e]), "_exps.weight", static_cast<int>(e));
      for (size_t i = 0; i < rows[e].size(); ++i)
        for (size_t j = 0; j < width(); ++j)
          x_[static_cast<size_t>(rows[e][i]) * width() + j] += gates[e][i] * y[i * width() + j];
    }
    if (c_.shared_expert_ffn_width > 0) add_to(x_, swiglu(h, "_shexp.weight"));
  }

  const SmallModel& m_;
  const ModelConfig& c_;
  size_t n_;
  Vector x_;                   // of rows_
  std::vector<int32_t> rows_;  // positions that are still computed
  std::string layer_;
  ModelConfig rotary_;  // of the layer
  KeyWindow window_;    // of the layer
};

}  // namespace

size_t SmallModel::index(const std::string& name, int expert) const {
  for (size_t i = 0; i < graph.weights.size(); ++i)
    if (graph.weights[i].name == name && graph.weights[i].expert == expert) return i;
  throw std::runtime_error("no weight " + name);
}

ModelConfig SmallModel::rotary_of(int layer) const {
  ModelConfig c = config;
  if (rotary) rotary(c, layer);
  return c;
}

void add_to(std::vector<double>& x, const std::vector<double>& y, double scale) {
  for (size_t i = 0; i < y.size(); ++i) x[i] += scale * y[i];
}

std::vector<double> reference_swiglu(const std::vector<double>& h, const std::vector<double>& gate_weight,
                                     const std::vector<double>& up_weight, const std::vector<double>& down_weight) {
  Vector gate = product(h, gate_weight, h.size());
  const Vector up = product(h, up_weight, h.size());
  for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
  return product(gate, down_weight, gate.size());
}

Rows reference_logits(const SmallModel& model, const std::vector<int32_t>& tokens,
                      const std::vector<int32_t>& positions) {
  return Reference(model, tokens).logits(positions);
}

Rows reference_forward(const SmallModel& model, const std::vector<int32_t>& tokens, size_t from) {
  std::vector<int32_t> positions(tokens.size() - from);
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(from));
  return reference_logits(model, tokens, positions);
}

}  // namespace llada
