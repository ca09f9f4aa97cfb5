#include "graph/program.h"

#include <algorithm>

namespace llada {
namespace {

constexpr std::array<std::string_view, kOpKindCount> kNames = {
    "embed", "select_rows", "rms_norm", "head_norm", "matmul",  "rope",  "store_kv", "attention",
    "glu",   "add",         "add_bias", "route",     "experts", "guide", "head"};

}  // namespace

void note_uses(const Program& program, std::span<WeightInfo> weights) {
  for (WeightInfo& w : weights) w.picked_from = w.multiplied = false;
  for (const Op& op : program.ops) {
    const bool picks = op.kind == OpKind::embed;
    const bool multiplies = op.kind == OpKind::matmul || op.kind == OpKind::experts || op.kind == OpKind::head;
    for_each_weight(op, [&](WeightId id) {
      WeightInfo& w = weights[static_cast<size_t>(id)];
      w.picked_from |= picks;
      w.multiplied |= multiplies;
    });
  }
}

std::string_view name(OpKind kind) {
  const auto i = static_cast<size_t>(kind);
  return i < kNames.size() ? kNames[i] : "unknown";
}

std::string_view name(Activation activation) { return activation == Activation::silu ? "silu" : "gelu_tanh"; }

std::string_view name(Pass pass) { return pass == Pass::denoise ? "denoise" : "encode"; }

KvGeometry kv_geometry(const Program& program) {
  KvGeometry g;
  for (const Op& op : program.ops) {
    if (op.kind != OpKind::store_kv && op.kind != OpKind::attention) continue;
    const Attention& a = program.attention(op);
    g = {std::max<int>(g.layers, op.layer + 1), a.kv_heads, a.head_dim};
  }
  return g;
}

}  // namespace llada
