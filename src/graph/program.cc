#include "graph/program.h"

namespace llada {
namespace {

constexpr std::array<std::string_view, kOpKindCount> kNames = {
    "embed",  "select_rows", "rms_norm", "head_norm", "matmul",  "rope",  "store_kv", "attention",
    "swiglu", "add",         "add_bias", "route",     "experts", "guide", "head"};

// Walks the ops once with the set of values written so far.
class Verifier {
 public:
  Verifier(const Program& program, std::span<const WeightInfo> weights)
      : program_(program), weights_(weights), written_(program.values.size(), false) {}

  Status run() {
    if (program_.shape.rows < 1 || program_.shape.wanted < 0 || program_.shape.wanted > program_.shape.rows ||
        (program_.shape.guided && program_.shape.wanted % 2 != 0))
      return invalid("program: impossible shape: {} rows, {} wanted", program_.shape.rows,
                     program_.shape.wanted);
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      index_ = i;
      LLADA_TRY_STATUS(check(program_.ops[i]));
      for (const ValueId id : program_.ops[i].out)
        if (id != kNoValue) written_[static_cast<size_t>(id)] = true;
    }
    return {};
  }

 private:
  template <class... Args>
  std::unexpected<Error> wrong(fmt::format_string<Args...> format, Args&&... args) const {
    return invalid("program: op {} ({}): {}", index_, name(program_.ops[index_].kind),
                   fmt::format(format, std::forward<Args>(args)...));
  }

  Status input(const Op& op, int slot, int64_t columns, RowSet rows) const {
    const ValueId id = op.in[static_cast<size_t>(slot)];
    if (id < 0 || static_cast<size_t>(id) >= program_.values.size())
      return wrong("input {} does not exist", slot);
    if (!written_[static_cast<size_t>(id)]) return wrong("value {} is read before it is written", id);
    return shape(id, columns, rows);
  }
  Status output(const Op& op, int slot, int64_t columns, RowSet rows) const {
    const ValueId id = op.out[static_cast<size_t>(slot)];
    if (id < 0 || static_cast<size_t>(id) >= program_.values.size())
      return wrong("output {} does not exist", slot);
    return shape(id, columns, rows);
  }
  Status shape(ValueId id, int64_t columns, RowSet rows) const {
    const Value& v = program_.values[static_cast<size_t>(id)];
    if (v.columns != columns) return wrong("value {} has {} columns, {} needed", id, v.columns, columns);
    if (v.rows != rows) return wrong("value {} has the wrong row set", id);
    return {};
  }
  int64_t columns(ValueId id) const {
    return id >= 0 && static_cast<size_t>(id) < program_.values.size()
               ? program_.values[static_cast<size_t>(id)].columns
               : -1;
  }
  Status weight(const Op& op, int slot, int64_t inputs, int64_t outputs) const {
    const WeightId id = op.weight[static_cast<size_t>(slot)];
    if (id < 0 || static_cast<size_t>(id) >= weights_.size()) return wrong("weight {} does not exist", slot);
    const WeightInfo& w = weights_[static_cast<size_t>(id)];
    if (w.dims[0] != inputs || (outputs >= 0 && w.dims[1] != outputs))
      return wrong("weight {} is {} x {}, {} x {} needed", w.name, w.dims[0], w.dims[1], inputs, outputs);
    return {};
  }

  Status routing(const Op& op) const {
    if (op.experts < 1 || op.experts_used < 1 || op.experts_used > op.experts)
      return wrong("{} of {} experts", op.experts_used, op.experts);
    if (op.groups > 1 && (op.experts % op.groups != 0 || op.groups_used < 1 || op.groups_used > op.groups ||
                          op.experts_used > op.experts / op.groups * op.groups_used))
      return wrong("{} of {} experts in {} of {} groups", op.experts_used, op.experts, op.groups_used,
                   op.groups);
    return {};
  }
  Status expert_weights(const Op& op, int64_t width) const {
    for (const WeightId first : op.weight)
      if (first < 0 || static_cast<size_t>(first) + static_cast<size_t>(op.experts) > weights_.size())
        return wrong("experts' weights do not exist");
    const int64_t inner = weights_[static_cast<size_t>(op.weight[0])].dims[1];
    for (int e = 0; e < op.experts; ++e)
      for (size_t slot = 0; slot < 3; ++slot) {
        const WeightInfo& w = weights_[static_cast<size_t>(op.weight[slot] + e)];
        const int64_t in = slot < 2 ? width : inner, out = slot < 2 ? inner : width;
        if (w.expert != e || w.dims[0] != in || w.dims[1] != out)
          return wrong("weight {} is expert {} of {} x {}, expert {} of {} x {} needed", w.name, w.expert,
                       w.dims[0], w.dims[1], e, in, out);
      }
    return {};
  }

  Status check(const Op& op) const {
    const int64_t c = columns(op.in[0]);
    switch (op.kind) {
      case OpKind::embed:
        LLADA_TRY_STATUS(weight(op, 0, columns(op.out[0]), -1));
        return output(op, 0, columns(op.out[0]), RowSet::all);
      case OpKind::select_rows:
        LLADA_TRY_STATUS(input(op, 0, c, RowSet::all));
        return output(op, 0, c, RowSet::wanted);
      case OpKind::rms_norm:
        LLADA_TRY_STATUS(input(op, 0, c, op.rows));
        LLADA_TRY_STATUS(weight(op, 0, c, 1));
        return output(op, 0, c, op.rows);
      case OpKind::head_norm:
        LLADA_TRY_STATUS(input(op, 0, int64_t{op.heads} * op.head_dim, op.rows));
        return weight(op, 0, op.head_dim, 1);
      case OpKind::matmul:
        LLADA_TRY_STATUS(input(op, 0, c, op.rows));
        for (int i = 0; i < 3; ++i) {
          if (op.weight[static_cast<size_t>(i)] == kNoWeight && i > 0) break;
          const int64_t out = columns(op.out[static_cast<size_t>(i)]);
          LLADA_TRY_STATUS(weight(op, i, c, out));
          LLADA_TRY_STATUS(output(op, i, out, op.rows));
        }
        return {};
      case OpKind::rope:
        if (op.rotary < 2 || op.rotary % 2 != 0 || op.rotary > op.head_dim)
          return wrong("{} rotary of {} elements", op.rotary, op.head_dim);
        return input(op, 0, int64_t{op.heads} * op.head_dim, op.rows);
      case OpKind::store_kv:
        LLADA_TRY_STATUS(input(op, 0, int64_t{op.kv_heads} * op.head_dim, RowSet::all));
        return input(op, 1, int64_t{op.kv_heads} * op.head_dim, RowSet::all);
      case OpKind::attention:
        if (op.kv_heads < 1 || op.heads % op.kv_heads != 0)
          return wrong("{} heads over {} kv heads", op.heads, op.kv_heads);
        LLADA_TRY_STATUS(input(op, 0, int64_t{op.heads} * op.head_dim, op.rows));
        return output(op, 0, int64_t{op.heads} * op.head_dim, op.rows);
      case OpKind::swiglu:
        LLADA_TRY_STATUS(input(op, 0, c, op.rows));
        LLADA_TRY_STATUS(input(op, 1, c, op.rows));
        return output(op, 0, c, op.rows);
      case OpKind::add:
        LLADA_TRY_STATUS(input(op, 0, c, op.rows));
        return input(op, 1, c, op.rows);
      case OpKind::add_bias:
        LLADA_TRY_STATUS(input(op, 0, c, op.rows));
        return weight(op, 0, c, 1);
      case OpKind::route:
        LLADA_TRY_STATUS(routing(op));
        LLADA_TRY_STATUS(input(op, 0, op.experts, op.rows));
        if (op.weight[0] != kNoWeight) LLADA_TRY_STATUS(weight(op, 0, op.experts, 1));
        return output(op, 0, op.experts, op.rows);
      case OpKind::experts:
        LLADA_TRY_STATUS(routing(op));
        LLADA_TRY_STATUS(input(op, 0, c, op.rows));
        LLADA_TRY_STATUS(input(op, 1, op.experts, op.rows));
        LLADA_TRY_STATUS(expert_weights(op, c));
        return output(op, 0, c, op.rows);
      case OpKind::guide:
        LLADA_TRY_STATUS(input(op, 0, c, RowSet::wanted));
        return output(op, 0, c, RowSet::guided);
      case OpKind::head:
        LLADA_TRY_STATUS(input(op, 0, c, RowSet::guided));
        return weight(op, 0, c, -1);
    }
    return wrong("unknown kind");
  }

  const Program& program_;
  std::span<const WeightInfo> weights_;
  std::vector<bool> written_;
  size_t index_ = 0;
};

}  // namespace

void note_uses(const Program& program, std::span<WeightInfo> weights) {
  for (WeightInfo& w : weights) w.picked_from = w.multiplied = false;
  for (const Op& op : program.ops) {
    const bool picks = op.kind == OpKind::embed;
    const bool multiplies =
        op.kind == OpKind::matmul || op.kind == OpKind::experts || op.kind == OpKind::head;
    for_each_weight(op, [&](WeightId id) {
      WeightInfo& w = weights[static_cast<size_t>(id)];
      w.picked_from |= picks;
      w.multiplied |= multiplies;
    });
  }
}

std::string_view name(OpKind kind) { return kNames[static_cast<size_t>(kind)]; }

Status verify(const Program& program, std::span<const WeightInfo> weights) {
  return Verifier(program, weights).run();
}

}  // namespace llada
