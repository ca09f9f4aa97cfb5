// Appends ops to a program so that a model's forward reads like the paper. Shapes follow from the weights. Attributes
// that ops have in common are entered into the program's tables once, by the first op that names them. Mistakes surface
// in verify().
#pragma once
#include <initializer_list>

#include "graph/program.h"

namespace llada {

// How a mixture of experts chooses; the fields of Op (program.h).
struct Routing {
  int experts = 0, used = 0;
  bool sigmoid = false, renormalise = false;
  int groups = 0, groups_used = 0;
  float scale = 1;
  int capacity = 0, block = 0;  // > 0: of a block of rows
};

class Builder {
 public:
  Builder(StepShape shape, std::span<const WeightInfo> weights) : weights_(weights) { program_.shape = shape; }

  ValueId embed(WeightId table);
  ValueId select_rows(ValueId x);
  // Without a weight: kNoWeight.
  ValueId rms_norm(ValueId x, WeightId weight, float epsilon);
  void head_norm(ValueId x, WeightId weight, int heads, int head_dim, float epsilon);
  ValueId linear(ValueId x, WeightId weight) { return linear<1>(x, {weight})[0]; }
  template <size_t N>
  std::array<ValueId, N> linear(ValueId x, const std::array<WeightId, N>& weights);
  void rope(ValueId x, int heads, int head_dim, const Rope& rope);
  void store_kv(int layer, ValueId k, ValueId v, const Attention& attention);
  ValueId attention(int layer, ValueId q, const Attention& attention);
  ValueId glu(ValueId gate, ValueId up, Activation activation = Activation::silu);
  void add(ValueId x, ValueId y);
  void add_bias(ValueId x, WeightId bias);
  void scale(ValueId x, double factor, WeightId weight = kNoWeight);
  ValueId soft_embed(WeightId table);
  ValueId route(ValueId scores, WeightId selection_bias, const Routing& routing);
  ValueId experts(ValueId x, ValueId gates, const std::array<WeightId, 3>& gate_up_down, const Routing& routing,
                  Activation activation = Activation::silu);
  ValueId guide(ValueId x);
  void head(ValueId x, WeightId weight, float cap = 0);

  Program take() { return std::move(program_); }

 private:
  ValueId value(int64_t columns, RowSet rows);
  RowSet rows(ValueId id) const { return program_.values[static_cast<size_t>(id)].rows; }
  int32_t columns(ValueId id) const { return program_.values[static_cast<size_t>(id)].columns; }
  const WeightInfo& weight(WeightId id) const { return weights_[static_cast<size_t>(id)]; }
  Op& append(OpKind kind, RowSet rows, std::initializer_list<ValueId> in, ValueId out = kNoValue);
  Op& append_norm(OpKind kind, ValueId x, ValueId out, WeightId weight, float epsilon);

  Program program_;
  std::span<const WeightInfo> weights_;
};

template <size_t N>
std::array<ValueId, N> Builder::linear(ValueId x, const std::array<WeightId, N>& weights) {
  static_assert(N >= 1 && N <= 3);
  std::array<ValueId, N> out;
  Op& op = append(OpKind::matmul, rows(x), {x});
  op.layer = weight(weights[0]).layer;
  for (size_t i = 0; i < N; ++i) {
    op.out[i] = out[i] = value(weight(weights[i]).dims[1], rows(x));
    op.weight[i] = weights[i];
  }
  return out;
}

}  // namespace llada
