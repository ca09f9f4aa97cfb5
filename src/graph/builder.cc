#include "graph/builder.h"

#include <algorithm>

#include "base/check.h"

namespace llada {

ValueId Builder::value(int64_t columns, RowSet rows) {
  LLADA_CHECK(program_.values.size() < 32767);
  program_.values.push_back({static_cast<int32_t>(columns), rows});
  return static_cast<ValueId>(program_.values.size() - 1);
}

namespace {

// Where `entry` stands in `table`, which it joins if need be.
template <class T>
int16_t entered(std::vector<T>& table, const T& entry) {
  const auto at = std::ranges::find(table, entry) - table.begin();
  if (at == std::ssize(table)) table.push_back(entry);
  LLADA_CHECK(at < 32767);
  return static_cast<int16_t>(at);
}

}  // namespace

Op& Builder::append(OpKind kind, RowSet rows, std::initializer_list<ValueId> in, ValueId out) {
  Op& op = program_.ops.emplace_back(Op{.kind = kind, .rows = rows});
  std::ranges::copy(in, op.in.begin());
  op.out[0] = out;
  return op;
}

ValueId Builder::embed(WeightId table) {
  const ValueId out = value(weight(table).dims[0], RowSet::all);
  append(OpKind::embed, RowSet::all, {}, out).weight[0] = table;
  return out;
}

ValueId Builder::select_rows(ValueId x) {
  const ValueId out = value(columns(x), RowSet::wanted);
  append(OpKind::select_rows, RowSet::wanted, {x}, out);
  return out;
}

Op& Builder::append_norm(OpKind kind, ValueId x, ValueId out, WeightId w, float epsilon) {
  Op& op = append(kind, rows(x), {x}, out);
  op.weight[0] = w;
  if (w != kNoWeight) op.layer = weight(w).layer;
  op.attributes = entered(program_.norms, {.epsilon = epsilon, .weighted = w != kNoWeight});
  return op;
}

ValueId Builder::rms_norm(ValueId x, WeightId w, float epsilon) {
  const ValueId out = value(columns(x), rows(x));
  append_norm(OpKind::rms_norm, x, out, w, epsilon);
  return out;
}

void Builder::head_norm(ValueId x, WeightId w, int heads, int head_dim, float epsilon) {
  Op& op = append_norm(OpKind::head_norm, x, x, w, epsilon);
  op.heads = static_cast<int16_t>(heads);
  op.head_dim = static_cast<int16_t>(head_dim);
}

void Builder::rope(ValueId x, int heads, int head_dim, const Rope& rope) {
  Op& op = append(OpKind::rope, rows(x), {x}, x);
  op.heads = static_cast<int16_t>(heads);
  op.head_dim = static_cast<int16_t>(head_dim);
  op.attributes = entered(program_.ropes, rope);
}

void Builder::store_kv(int layer, ValueId k, ValueId v, const Attention& attention) {
  Op& op = append(OpKind::store_kv, rows(k), {k, v});
  op.layer = static_cast<int16_t>(layer);
  op.attributes = entered(program_.attentions, attention);
}

ValueId Builder::attention(int layer, ValueId q, const Attention& attention) {
  const ValueId out = value(columns(q), rows(q));
  Op& op = append(OpKind::attention, rows(q), {q}, out);
  op.layer = static_cast<int16_t>(layer);
  op.attributes = entered(program_.attentions, attention);
  return out;
}

ValueId Builder::glu(ValueId gate, ValueId up, Activation activation) {
  const ValueId out = value(columns(gate), rows(gate));
  append(OpKind::glu, rows(gate), {gate, up}, out).activation = activation;
  return out;
}

void Builder::add(ValueId x, ValueId y) { append(OpKind::add, rows(x), {x, y}, x); }

void Builder::add_bias(ValueId x, WeightId bias) {
  Op& op = append(OpKind::add_bias, rows(x), {x}, x);
  op.weight[0] = bias;
  op.layer = weight(bias).layer;
}

void Builder::scale(ValueId x, double factor, WeightId w) {
  Op& op = append(OpKind::scale, rows(x), {x}, x);
  op.parameter = static_cast<float>(factor);
  op.weight[0] = w;
  if (w != kNoWeight) op.layer = weight(w).layer;
}

ValueId Builder::soft_embed(WeightId table) {
  const ValueId out = value(weight(table).dims[0], RowSet::all);
  append(OpKind::soft_embed, RowSet::all, {}, out).weight[0] = table;
  return out;
}

ValueId Builder::route(ValueId scores, WeightId selection_bias, const Routing& r) {
  const ValueId out = value(r.experts, rows(scores));
  Op& op = append(OpKind::route, rows(scores), {scores}, out);
  op.weight[0] = selection_bias;
  op.experts = static_cast<int16_t>(r.experts);
  op.experts_used = static_cast<int16_t>(r.used);
  op.sigmoid = r.sigmoid;
  op.renormalise = r.renormalise;
  op.groups = static_cast<uint8_t>(r.groups);
  op.groups_used = static_cast<uint8_t>(r.groups_used);
  op.parameter = r.scale;
  op.capacity = static_cast<int16_t>(r.capacity);
  op.block = static_cast<int32_t>(r.block);
  return out;
}

ValueId Builder::experts(ValueId x, ValueId gates, const std::array<WeightId, 3>& gate_up_down, const Routing& r,
                         Activation activation) {
  const ValueId out = value(columns(x), rows(x));
  Op& op = append(OpKind::experts, rows(x), {x, gates}, out);
  op.activation = activation;
  op.weight = gate_up_down;
  op.layer = weight(gate_up_down[0]).layer;
  op.experts = static_cast<int16_t>(r.experts);
  op.experts_used = static_cast<int16_t>(r.used);
  return out;
}

ValueId Builder::guide(ValueId x) {
  const ValueId out = value(columns(x), RowSet::predicted);
  append(OpKind::guide, RowSet::predicted, {x}, out);
  return out;
}

void Builder::head(ValueId x, WeightId w, float cap) {
  Op& op = append(OpKind::head, RowSet::predicted, {x});
  op.parameter = cap;
  op.weight[0] = w;
}

}  // namespace llada
