// A program: the list of tensor operations of one forward pass for one shape. Models append to it (builder.h), verify()
// checks it once, and every device runs it. The cpu calls kernels, a simulator prices it, and an NPU gets the same
// structs through shared memory. Ops are plain data without pointers. Attributes that several of them share (how they
// rotate, attend or normalise) stand once in tables of the program, and ops carry their index. Data that changes from
// step to step stands in StepInputs (step.h).
//
// Words:
//   value    an activation matrix (rows x columns of F32)
//   weight   an index into the model's weight list
//   row set  which rows of the step a value has
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/kv_heads.h"
#include "graph/ops.h"
#include "graph/rope.h"
#include "graph/step.h"

namespace llada {

using ValueId = int16_t;
using WeightId = int32_t;
inline constexpr ValueId kNoValue = -1;
inline constexpr WeightId kNoWeight = -1;

// The function of a gated linear unit; a field of the op, since it has no numbers of its own that a table would hold.
enum class Activation : uint8_t {
  silu,       // x / (1 + e^-x)
  gelu_tanh,  // x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
};
inline constexpr int kActivationCount = 2;
std::string_view name(Activation activation);

struct Value {
  int32_t columns = 0;
  RowSet rows = RowSet::all;
};

struct Op {
  OpKind kind{};
  RowSet rows = RowSet::all;  // row set of the result
  int16_t layer = -1;
  std::array<ValueId, 3> in = {kNoValue, kNoValue, kNoValue};
  std::array<ValueId, 3> out = {kNoValue, kNoValue, kNoValue};
  std::array<WeightId, 3> weight = {kNoWeight, kNoWeight, kNoWeight};
  int16_t attributes = -1;                   // into a table of the program, its kind says which (OpRule::table)
  int16_t heads = 0, head_dim = 0;           // rope, head_norm: the vectors of a row that are treated one by one
  Activation activation = Activation::silu;  // glu, experts
  // route: how gates come from scores. groups > 1 (a divisor of the experts): only the best groups_used
  // groups compete, a group being worth the sum of its two best.
  uint8_t sigmoid = 0;      // score = sigmoid(s) each for itself; otherwise softmax over all experts
  uint8_t renormalise = 0;  // the chosen gates sum to 1 before scaling
  uint8_t groups = 0, groups_used = 0;
  int16_t experts = 0, experts_used = 0;  // route, experts
  // route: > 0: the rows of a span at positions of one block of `block`, counted from 0, choose so many experts
  // together. These have the highest score and bias of any row. Each row then chooses its own among these. All rows of
  // the step.
  int16_t capacity = 0;
  int32_t block = 0;
  // route: scale of the gates; scale: the factor; head: soft cap c of the logits, c tanh(l / c), or 0: none
  float parameter = 0;
};
// Calls visit(id) for every weight that the op may read; of experts that is each expert's three.
template <class Visit>
void for_each_weight(const Op& op, Visit visit) {
  const int stack = op.kind == OpKind::experts ? op.experts : 1;
  for (const WeightId first : op.weight)
    for (int e = 0; first != kNoWeight && e < stack; ++e) visit(first + e);
}
static_assert(sizeof(Op) <= 64, "an op fits a cache line; the batch that an NPU reads stays small");

// Which matrix of an expert, in the order of the op's weights.
enum class ExpertPart : int8_t { none = -1, gate, up, down };

struct WeightInfo {
  std::string name;               // canonical: "blk.0.attn_q.weight"
  std::array<int64_t, 2> dims{};  // {inputs, outputs}; {n, 1} for vectors
  int16_t layer = -1;             // -1: before the first or after the last layer
  int16_t expert = -1;            // which matrix of a stack of experts that share the name; -1: not an expert
  ExpertPart part = ExpertPart::none;
  // How programs use it, as note_uses() found; until then both. A head that is tied to the embedding is both, a vector
  // (norm, bias) neither.
  bool picked_from = true;  // single rows are read by their number
  bool multiplied = true;   // products read the whole matrix
};

// A norm or a bias, and no matrix that happens to have one output (the router of a single expert).
inline bool is_vector(const WeightInfo& w) { return w.dims[1] == 1 && (w.picked_from || !w.multiplied); }

std::string_view name(Pass pass);

struct StepShape {
  int32_t rows = 0;    // all rows
  int32_t wanted = 0;  // rows that predictions need
  int32_t predictions = 0;
  Pass pass = Pass::denoise;

  int32_t count(RowSet set) const {
    switch (set) {
      case RowSet::all:
        return rows;
      case RowSet::wanted:
        return wanted;
      case RowSet::predicted:
        return predictions;
    }
    return 0;
  }
  bool operator==(const StepShape&) const = default;
};
// The shape of a step without guidance.
inline StepShape plain_shape(int32_t rows, int32_t wanted) { return {rows, wanted, wanted}; }

// One way of attending; layers of one model may differ in everything but the heads of K/V.
struct Attention {
  int16_t heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 0;        // of the scores
  float cap = 0;          // soft cap c: a scaled score s becomes c tanh(s / c); 0: none
  KeyWindow window = {};  // limits a row's range of keys further
  bool operator==(const Attention&) const = default;
};

// `weighted` repeats whether the op has a weight, so that verify() finds one that is missing by mistake.
struct Norm {
  float epsilon = 0;
  bool weighted = true;
  bool operator==(const Norm&) const = default;
};

struct Program {
  StepShape shape;
  std::vector<Value> values;
  std::vector<Op> ops;
  std::vector<Rope> ropes = {};
  std::vector<Attention> attentions = {};
  std::vector<Norm> norms = {};

  // The attributes of an op that has them.
  const Rope& rope(const Op& op) const { return ropes[static_cast<size_t>(op.attributes)]; }
  const Attention& attention(const Op& op) const { return attentions[static_cast<size_t>(op.attributes)]; }
  const Norm& norm(const Op& op) const { return norms[static_cast<size_t>(op.attributes)]; }
};

// Writes down which of the weights the program picks rows from and which it multiplies by, so that a device knows in
// which form to keep each. The program must use every weight as any other program over the list does.
void note_uses(const Program& program, std::span<WeightInfo> weights);

// Every op's operands exist, are written before they are read, have the shapes that the weights demand, and none is
// another that the op writes. A layer's attention follows that layer's store_kv with no other's between. A program that
// passes touches no memory but its own on any device. This holds for a K/V store of kv_geometry() and inputs of its
// shape: rows within the tables, positions within the store, rows within the step.
Status verify(const Program& program, std::span<const WeightInfo> weights);

// The geometry that the program needs of a store: layers at least, heads and elements exactly; layers 0: it needs none.
// Where layers differ, kv_heads and head_dim are the first one's.
struct KvGeometry {
  int layers = 0, kv_heads = 0, head_dim = 0;
  std::vector<KvHeads> by_layer = {};  // where layers differ; of one that stores none: nothing
  bool operator==(const KvGeometry&) const = default;

  KvHeads of(int layer) const {
    return by_layer.empty() ? KvHeads{kv_heads, head_dim} : by_layer[static_cast<size_t>(layer)];
  }
};
KvGeometry kv_geometry(const Program& program);
// Whether all layers store keys and values of the same heads, of a program that need not be verified.
bool stores_alike(const Program& program);

}  // namespace llada
