#include "graph/program.h"

#include <algorithm>
#include <cmath>

namespace llada {
void note_uses(const Program& program, std::span<WeightInfo> weights) {
  for (WeightInfo& w : weights) w.picked_from = w.multiplied = false;
  for (const Op& op : program.ops) {
    const OpRule& rule = rule_of(op.kind);
    for_each_weight(op, [&](WeightId id) {
      WeightInfo& w = weights[static_cast<size_t>(id)];
      w.picked_from |= rule.weights.role == WeightRole::rows;
      w.multiplied |= rule.multiplies();
    });
  }
}

std::string_view name(Activation activation) { return activation == Activation::silu ? "silu" : "gelu_tanh"; }

std::string_view name(Pass pass) { return pass == Pass::denoise ? "denoise" : "encode"; }

KvGeometry kv_geometry(const Program& program) {
  KvGeometry g;
  std::vector<KvHeads> layers;
  for (const Op& op : program.ops) {
    if (rule_of(op.kind).kv == KvUse::none) continue;
    const Attention& a = program.attention(op);
    const auto layer = static_cast<size_t>(op.layer);
    layers.resize(std::max(layers.size(), layer + 1));
    layers[layer] = {a.kv_heads, a.head_dim};
  }
  const auto stores = std::ranges::find_if(layers, [](const KvHeads& one) { return one != KvHeads{}; });
  if (stores == layers.end()) return g;
  g = {static_cast<int>(layers.size()), stores->heads, stores->head_dim};
  if (std::ranges::any_of(layers, [&](const KvHeads& one) { return one != KvHeads{} && one != *stores; }))
    g.by_layer = std::move(layers);
  return g;
}

bool stores_alike(const Program& program) {
  return std::ranges::all_of(program.attentions, [&](const Attention& a) {
    const Attention& first = program.attentions.front();
    return a.kv_heads == first.kv_heads && a.head_dim == first.head_dim;
  });
}

OpWork work_of(const Program& program, const Op& op, std::span<const WeightInfo> weights, double row_keys,
               double row_tile) {
  const OpRule& rule = rule_of(op.kind);
  OpWork work;
  double rows = program.shape.count(op.rows);
  if (rule.multiplies()) {
    work.weight_reads = 1;
    if (rule.weights.role == WeightRole::experts) {
      const double share = static_cast<double>(op.experts_used) / op.experts;
      work.weight_reads = op.experts * (1 - std::pow(1 - share, rows));
      rows *= share;
    }
    const double padded = std::ceil(rows / row_tile) * row_tile;
    for (const WeightId id : op.weight) {
      if (id == kNoWeight) continue;
      const auto [inputs, outputs] = weights[static_cast<size_t>(id)].dims;
      work.multiply_adds += work.weight_reads * padded * static_cast<double>(inputs) * static_cast<double>(outputs);
    }
  } else if (rule.kv == KvUse::reads) {
    work.multiply_adds = 2 * row_keys * program.attention(op).heads * program.attention(op).head_dim;
  } else {
    for (const auto& list : {op.in, op.out})
      for (const ValueId id : list) {
        if (id == kNoValue) continue;
        const Value& v = program.values[static_cast<size_t>(id)];
        work.values += static_cast<double>(program.shape.count(v.rows)) * v.columns;
      }
  }
  return work;
}

}  // namespace llada
