// The list of ops: the meaning of each kind, and a row with its name, its operands and their shapes, its cost and its
// use of keys and values. The verifier, prices, times and devices read the rows; none of them names a kind for a
// property that its row has. A new kind is one more in the enum, its row, and a handler in the devices that run it
// (devices/op_table.h). A rule that no row can express, such as the range of a number, is a function in verify.cc.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"

namespace llada {

struct Op;
struct Program;
struct WeightInfo;
class Verifier;  // verify.cc

enum class OpKind : uint8_t {
  embed,        // out[0] = rows of weight[0] named by the step's tokens
  select_rows,  // out[0] (wanted rows) = those rows of in[0], which has all
  rms_norm,     // out[0] = in[0] normalised per row, times weight[0] where the norm has one
  head_norm,    // in[0] in place: rms_norm of each head's vector (weight[0]: head_dim values)
  matmul,       // out[i] = in[0] x weight[i]^T for the 1 to 3 weights given: one read of the activations serves
                // all
  rope,         // in[0] in place: rotary positions
  store_kv,     // K/V store of `layer`, at each row's position: K = in[0], V = in[1]
  attention,    // out[0] = attention of in[0] over the K/V store of `layer`, each row over its own range of keys
  glu,          // gated linear unit: out[0] = activation(in[0]) * in[1]
  add,          // in[0] += in[1]
  add_bias,     // in[0] += weight[0] in every row
  route,        // out[0] = gates (rows x experts) from in[0] = router scores: 0 where an expert is not chosen;
                // weight[0]: optional bias that takes part in the choice only
  experts,      // out[0] = sum over experts e of gate[e] * down_e(activation(gate_e(x)) * up_e(x)), x = in[0], gates
                // = in[1]; weight[i]: gate, up, down of expert 0, the other experts' follow it in the list
  scale,        // in[0] *= the op's parameter, times weight[0] where there is one: an element for each column, or one
                // for all. 0 stays 0, so that gates of experts that were not chosen do
  soft_embed,   // out[0] = rows of weight[0] weighted by the probabilities of the stream's soft tokens (step.h)
  guide,        // out[0] (predicted rows) = the mixtures of in[0] (wanted rows) that the step's PredictedRows name
  head,         // predictions (and logits on request) from in[0] x weight[0]^T, soft-capped where it says so
};

enum class RowSet : uint8_t {
  all,        // every computed row
  wanted,     // rows that predictions need: two for a guided one
  predicted,  // one row per prediction
};
inline constexpr int kRowSetCount = 3;

// How many columns a value has, or elements a vector.
enum class Width : uint8_t {
  none,     // there is no such value
  own,      // its own number
  input,    // as in[0]
  heads,    // the op's heads x head_dim
  head,     // the op's head_dim
  queries,  // of the op's attention: heads x head_dim
  keys,     // of the op's attention: kv_heads x head_dim
  experts,  // one per expert
};

enum class WeightRole : uint8_t {
  none,
  vector,    // of `vector` elements
  rows,      // a matrix as wide as out[0], of which single rows are read
  products,  // matrices from in[0] to out[i] each
  experts,   // stacks of matrices: gate and up from in[0], down back to its width
};

enum class Table : uint8_t { none, ropes, attentions, norms };  // of the program: where `attributes` points

enum class KvUse : uint8_t { none, writes, reads };

inline constexpr uint8_t kAll = 0b001, kWanted = 0b010, kPredicted = 0b100, kAnyRows = 0b111;

struct OpRule {
  struct Rows {
    uint8_t result = kAnyRows;  // the row sets that it may have, a bit each
    uint8_t input = 0;          // the row set of in[0] where it is not the result's
  };
  struct Values {
    std::array<Width, 2> in{};  // of in[0] and in[1]
    Width out = Width::none;    // of out[0]; of products of out[i]
    bool in_place = false;      // out[0] is in[0]
  };
  struct Weights {
    WeightRole role = WeightRole::none;
    int8_t least = 0, most = 0;
    Width vector = Width::none;
  };

  OpKind kind{};
  std::string_view name;
  Rows rows = {};
  Values values = {};
  Weights weights = {};
  Table table = Table::none;
  KvUse kv = KvUse::none;
  Status (*check)(Verifier&, const Op&) = nullptr;  // further conditions

  constexpr bool multiplies() const {
    return weights.role == WeightRole::products || weights.role == WeightRole::experts;
  }
};

// Rules of their own (verify.cc).
Status check_heads(Verifier&, const Op&);
Status check_rope(Verifier&, const Op&);
Status check_store_kv(Verifier&, const Op&);
Status check_attention(Verifier&, const Op&);
Status check_route(Verifier&, const Op&);
Status check_experts(Verifier&, const Op&);
Status check_scale(Verifier&, const Op&);
Status check_head(Verifier&, const Op&);

inline constexpr Width kSame = Width::input;
inline constexpr OpRule kOps[] = {
    {OpKind::embed, "embed", {.result = kAll}, {.out = Width::own}, {WeightRole::rows, 1, 1}},
    {OpKind::select_rows, "select_rows", {.result = kWanted, .input = kAll}, {.in = {kSame}, .out = kSame}},
    {OpKind::rms_norm, "rms_norm", {}, {.in = {kSame}, .out = kSame}, {WeightRole::vector, 0, 1, kSame}, Table::norms},
    {OpKind::head_norm,
     "head_norm",
     {},
     {.in = {Width::heads}, .in_place = true},
     {WeightRole::vector, 0, 1, Width::head},
     Table::norms,
     {},
     check_heads},
    {OpKind::matmul, "matmul", {}, {.in = {kSame}, .out = Width::own}, {WeightRole::products, 1, 3}},
    // A predicted row stands for two in guidance: it has no position of its own.
    {OpKind::rope,
     "rope",
     {.result = kAll | kWanted},
     {.in = {Width::heads}, .in_place = true},
     {},
     Table::ropes,
     {},
     check_rope},
    {OpKind::store_kv,
     "store_kv",
     {.result = kAll},
     {.in = {Width::keys, Width::keys}},
     {},
     Table::attentions,
     KvUse::writes,
     check_store_kv},
    {OpKind::attention,
     "attention",
     {.result = kAll | kWanted},
     {.in = {Width::queries}, .out = Width::queries},
     {},
     Table::attentions,
     KvUse::reads,
     check_attention},
    {OpKind::glu, "glu", {}, {.in = {kSame, kSame}, .out = kSame}},
    {OpKind::add, "add", {}, {.in = {kSame, kSame}, .in_place = true}},
    {OpKind::add_bias, "add_bias", {}, {.in = {kSame}, .in_place = true}, {WeightRole::vector, 1, 1, kSame}},
    {OpKind::route,
     "route",
     {},
     {.in = {Width::experts}, .out = Width::experts},
     {WeightRole::vector, 0, 1, Width::experts},
     {},
     {},
     check_route},
    {OpKind::experts,
     "experts",
     {},
     {.in = {kSame, Width::experts}, .out = kSame},
     {WeightRole::experts, 3, 3},
     {},
     {},
     check_experts},
    {OpKind::scale,
     "scale",
     {},
     {.in = {kSame}, .in_place = true},
     {WeightRole::vector, 0, 1, Width::own},
     {},
     {},
     check_scale},
    {OpKind::soft_embed, "soft_embed", {.result = kAll}, {.out = Width::own}, {WeightRole::rows, 1, 1}},
    {OpKind::guide, "guide", {.result = kPredicted, .input = kWanted}, {.in = {kSame}, .out = kSame}},
    {OpKind::head, "head", {.result = kPredicted}, {.in = {kSame}}, {WeightRole::products, 1, 1}, {}, {}, check_head},
};
inline constexpr int kOpKindCount = std::size(kOps);

// The row of a kind that exists.
constexpr const OpRule& rule_of(OpKind kind) { return kOps[static_cast<size_t>(kind)]; }
constexpr std::string_view name(OpKind kind) {
  return static_cast<size_t>(kind) < std::size(kOps) ? rule_of(kind).name : "unknown";
}

// The work of an op, from its shape alone. Products: every matrix once, a multiply-add for each of its elements and
// row. Experts: every row goes to experts_used of them; of all experts those are read that some row chose, taken to be
// chosen evenly. Attention: two multiply-adds per row, key and element of a query. Everything else: the values that it
// reads and writes.
struct OpWork {
  double multiply_adds = 0;
  double values = 0;        // floats read and written; of products, experts and attention not counted
  double weight_reads = 0;  // how often each of `weight` is read whole; of experts: of the stack so many matrices
};
// row_keys: of attention, the keys that its rows read, all rows together. The rows of a product, or of one expert, are
// padded to a multiple of row_tile.
OpWork work_of(const Program& program, const Op& op, std::span<const WeightInfo> weights, double row_keys,
               double row_tile = 1);

}  // namespace llada
