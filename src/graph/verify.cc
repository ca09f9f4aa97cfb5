// verify(): everything about a program that devices rely on without looking again. A device indexes its arena, its
// weights and the K/V store by these fields. So an operand, weight or table entry that a kind does not have must be
// empty, and a field that it uses must be in range. Row set, layer and activation always are. Other fields that a kind
// does not use may hold anything.
#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/program.h"

namespace llada {
namespace {

// No machine maps more; below that no product of rows, columns and bytes overflows.
constexpr double kMostBytes = 0x1p47;

}  // namespace

// Walks the ops once with the properties of the values so far.
class Verifier {
 public:
  Verifier(const Program& program, std::span<const WeightInfo> weights)
      : program_(program),
        weights_(weights),
        written_(program.values.size(), false),
        chosen_(program.values.size(), 0) {
    for (const WeightInfo& w : weights) layers_ = std::max(layers_, w.layer + 1);
    kv_.resize(static_cast<size_t>(layers_));
  }

  Status run() {
    LLADA_TRY_STATUS(shape());
    LLADA_TRY_STATUS(tables());
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      index_ = i;
      LLADA_TRY_STATUS(operands(op));
      LLADA_TRY_STATUS(attributes(op));
      LLADA_TRY_STATUS(check(op));
      for (const ValueId id : op.out) {
        if (id == kNoValue) continue;
        written_[static_cast<size_t>(id)] = true;
        if (op.kind != OpKind::scale)
          chosen_[static_cast<size_t>(id)] = op.kind == OpKind::route ? op.experts_used : int16_t{0};
      }
    }
    return {};
  }

  // ---- Rules of single kinds

  Status heads(const Op& op) const { return op.heads < 1 ? wrong("{} heads", op.heads) : Status{}; }
  Status rope(const Op& op) const {
    LLADA_TRY_STATUS(heads(op));
    if (const int rotary = program_.rope(op).rotary; rotary > op.head_dim)
      return wrong("{} rotary of {} elements", rotary, op.head_dim);
    return {};
  }
  Status store_kv(const Op& op) {
    LLADA_TRY_STATUS(kv_geometry(op));
    stored_ = op.layer;
    return {};
  }
  Status attention(const Op& op) {
    LLADA_TRY_STATUS(kv_geometry(op));
    // Rows of a trial stand beside the store until their attention, and devices keep those of one layer.
    if (stored_ != op.layer)
      return wrong("the last K/V stored is of layer {}, that of layer {} needed", stored_, op.layer);
    return {};
  }
  Status route(const Op& op) const {
    LLADA_TRY_STATUS(routing(op));
    if (!(std::isfinite(op.parameter) && op.parameter > 0)) return wrong("its scale is {}", op.parameter);
    if (op.capacity == 0) return {};
    if (op.groups > 1 || op.sigmoid == 0) return wrong("a block chooses experts by softmax or in groups");
    if (op.capacity < op.experts_used || op.capacity > op.experts)
      return wrong("a block chooses {} of {} experts, of which a row uses {}", op.capacity, op.experts,
                   op.experts_used);
    if (op.block < 1 || op.rows != RowSet::all)
      return wrong("rows in blocks of {}, all rows of blocks of 1 or more needed", op.block);
    return {};
  }
  Status experts(const Op& op) const {
    if (op.layer < 0) return wrong("layer {} has no experts", op.layer);
    LLADA_TRY_STATUS(routing(op));
    if (op.in[0] == op.in[1]) return wrong("value {} is both rows and gates", op.in[0]);
    LLADA_TRY_STATUS(gates(op));
    return expert_weights(op, columns(op.in[0]));
  }
  Status scale(const Op& op) const {
    if (!std::isfinite(op.parameter)) return wrong("its factor is {}", op.parameter);
    return {};
  }
  Status head(const Op& op) {
    if (std::exchange(head_, true)) return wrong("a second head");
    if (!(std::isfinite(op.parameter) && op.parameter >= 0)) return wrong("its soft cap is {}", op.parameter);
    return {};
  }

 private:
  template <class... Args>
  std::unexpected<Error> wrong(fmt::format_string<Args...> format, Args&&... args) const {
    return invalid("program: op {} ({}): {}", index_, name(program_.ops[index_].kind),
                   fmt::format(format, std::forward<Args>(args)...));
  }

  Status shape() const {
    const StepShape& s = program_.shape;
    if (s.rows < 1 || s.wanted < 0 || s.wanted > s.rows || s.predictions < 0 || s.predictions > s.wanted)
      return invalid("program: impossible shape: {} rows, {} wanted, {} predictions", s.rows, s.wanted, s.predictions);
    if (s.pass > Pass::encode) return invalid("program: pass {} does not exist", static_cast<int>(s.pass));
    if (s.pass == Pass::encode && s.wanted > 0)
      return invalid("program: a pass that encodes predicts nothing: {} wanted rows, 0 needed", s.wanted);
    double bytes = 0;
    for (size_t i = 0; i < program_.values.size(); ++i) {
      const Value& v = program_.values[i];
      if (v.columns < 1 || !exists(v.rows))
        return invalid("program: value {} has {} columns of row set {}", i, v.columns, static_cast<int>(v.rows));
      bytes += 4.0 * s.count(v.rows) * v.columns;
    }
    if (bytes > kMostBytes) return invalid("program: its values need {} bytes", bytes);
    return {};
  }

  template <class... Args>
  static std::unexpected<Error> entry(std::string_view table, size_t i, fmt::format_string<Args...> format,
                                      Args&&... args) {
    return invalid("program: {} {}: {}", table, i, fmt::format(format, std::forward<Args>(args)...));
  }
  // Every entry, whether an op names it or not.
  Status tables() const {
    for (size_t i = 0; i < program_.ropes.size(); ++i) {
      const Rope& r = program_.ropes[i];
      if (r.rotary < 2 || r.rotary % 2 != 0)
        return entry("rope", i, "{} rotary elements, an even number needed", r.rotary);
      if (std::ssize(r.frequencies) != r.rotary / 2)
        return entry("rope", i, "{} frequencies for {} rotary elements", r.frequencies.size(), r.rotary);
      for (const double f : r.frequencies)
        if (!(std::isfinite(f) && f >= 0)) return entry("rope", i, "a frequency is {}", f);
      if (!(std::isfinite(r.magnitude) && r.magnitude > 0)) return entry("rope", i, "its magnitude is {}", r.magnitude);
      if (!(std::isfinite(r.scale.beta) && r.scale.beta >= 0 && r.scale.period >= 1))
        return entry("rope", i, "it scales by {} in every {} positions", r.scale.beta, r.scale.period);
    }
    for (size_t i = 0; i < program_.attentions.size(); ++i) {
      const Attention& a = program_.attentions[i];
      if (a.kv_heads < 1 || a.head_dim < 1)
        return entry("attention", i, "{} kv heads of {} elements", a.kv_heads, a.head_dim);
      if (a.heads < 1 || a.heads % a.kv_heads != 0)
        return entry("attention", i, "{} heads over {} kv heads", a.heads, a.kv_heads);
      if (!(std::isfinite(a.scale) && a.scale > 0)) return entry("attention", i, "its scale is {}", a.scale);
      if (!(std::isfinite(a.cap) && a.cap >= 0)) return entry("attention", i, "its soft cap is {}", a.cap);
      if (a.window.before < -1 || a.window.after < -1)
        return entry("attention", i, "its window is {} before and {} after", a.window.before, a.window.after);
    }
    for (size_t i = 0; i < program_.norms.size(); ++i)
      if (const float e = program_.norms[i].epsilon; !(std::isfinite(e) && e >= 0))
        return entry("norm", i, "its epsilon is {}", e);
    return {};
  }

  static bool exists(RowSet set) { return static_cast<int>(set) < kRowSetCount; }
  bool exists(ValueId id) const { return id >= 0 && static_cast<size_t>(id) < program_.values.size(); }
  int64_t columns(ValueId id) const { return program_.values[static_cast<size_t>(id)].columns; }
  const WeightInfo& info(WeightId id) const { return weights_[static_cast<size_t>(id)]; }

  Status attributes(const Op& op) const {
    const Table table = rule_of(op.kind).table;
    const size_t entries = table == Table::ropes        ? program_.ropes.size()
                           : table == Table::norms      ? program_.norms.size()
                           : table == Table::attentions ? program_.attentions.size()
                                                        : 0;
    if (table == Table::none ? op.attributes != -1 : op.attributes < 0 || static_cast<size_t>(op.attributes) >= entries)
      return wrong("entry {} of its table does not exist", op.attributes);
    if (table == Table::norms && program_.norm(op).weighted != (op.weight[0] != kNoWeight))
      return wrong("its norm is one {} weight", program_.norm(op).weighted ? "with a" : "without");
    if (static_cast<int>(op.activation) >= kActivationCount)
      return wrong("activation {} does not exist", static_cast<int>(op.activation));
    return {};
  }

  // Which operands there are, that they exist, and that none of them is another where the kind does not say so. Fields
  // of `op` are in range afterwards.
  Status operands(const Op& op) const {
    if (static_cast<size_t>(op.kind) >= kOpKindCount)
      return invalid("program: op {} is of the unknown kind {}", index_, static_cast<int>(op.kind));
    if (!exists(op.rows)) return wrong("row set {} does not exist", static_cast<int>(op.rows));
    if (op.layer < -1 || op.layer >= layers_) return wrong("layer {} of {} does not exist", op.layer, layers_);
    const OpRule& rule = rule_of(op.kind);
    size_t weights = 0;
    for (size_t i = 0; i < op.weight.size(); ++i) {
      const WeightId id = op.weight[i];
      if (id == kNoWeight && std::cmp_greater_equal(i, rule.weights.least)) continue;
      if (std::cmp_greater_equal(i, rule.weights.most) || id < 0 || static_cast<size_t>(id) >= weights_.size() ||
          weights != i)
        return wrong("weight {} does not exist", i);
      ++weights;
    }
    const size_t outputs = rule.values.in_place                        ? 1
                           : rule.values.out == Width::none            ? 0
                           : rule.weights.role == WeightRole::products ? weights
                                                                       : 1;
    for (size_t i = 0; i < op.in.size(); ++i) {
      const ValueId in = op.in[i], out = op.out[i];
      const bool has_input = i < rule.values.in.size() && rule.values.in[i] != Width::none;
      if (has_input ? !exists(in) : in != kNoValue) return wrong("input {} does not exist", i);
      if (has_input && !written_[static_cast<size_t>(in)]) return wrong("value {} is read before it is written", in);
      if (i < outputs ? !exists(out) : out != kNoValue) return wrong("output {} does not exist", i);
    }
    if (rule.values.in_place && op.out[0] != op.in[0])
      return wrong("value {} is changed in place, value {} cannot be the result", op.in[0], op.out[0]);
    for (size_t i = 0; i < outputs; ++i) {
      if (std::find(op.in.begin() + (rule.values.in_place ? 1 : 0), op.in.end(), op.out[i]) != op.in.end())
        return wrong("value {} is read and written", op.out[i]);
      const auto* const end = op.out.begin() + static_cast<std::ptrdiff_t>(i);
      if (std::find(op.out.begin(), end, op.out[i]) != end) return wrong("value {} is written twice", op.out[i]);
    }
    return {};
  }

  static int bit(RowSet set) { return 1 << static_cast<int>(set); }
  // rows: a bit of OpRule::Rows.
  Status value(ValueId id, int64_t columns, int rows) const {
    const Value& v = program_.values[static_cast<size_t>(id)];
    if (v.columns != columns) return wrong("value {} has {} columns, {} needed", id, v.columns, columns);
    if (bit(v.rows) != rows) return wrong("value {} has the wrong row set", id);
    return {};
  }
  Status vector(const Op& op, int64_t n) const {
    const WeightInfo& w = info(op.weight[0]);
    if (w.dims[0] != n || w.dims[1] != 1)
      return wrong("weight {} is {} x {}, {} x 1 needed", w.name, w.dims[0], w.dims[1], n);
    if (!is_vector(w)) return wrong("weight {} is a matrix, a vector needed", w.name);
    return {};
  }
  // Devices keep a vector as floats, and nothing else of it.
  Status matrix(const Op& op, size_t slot, int64_t inputs, int64_t outputs) const {
    const WeightInfo& w = info(op.weight[slot]);
    if (w.dims[0] != inputs || (outputs >= 0 && w.dims[1] != outputs))
      return wrong("weight {} is {} x {}, {} x {} needed", w.name, w.dims[0], w.dims[1], inputs, outputs);
    if (w.dims[1] < 1 || w.dims[1] > INT32_MAX)
      return wrong("weight {} has {} outputs, 1 to {} needed", w.name, w.dims[1], INT32_MAX);
    if (is_vector(w)) return wrong("weight {} is a vector, a matrix needed", w.name);
    return {};
  }
  Status routing(const Op& op) const {
    if (op.experts < 1 || op.experts_used < 1 || op.experts_used > op.experts)
      return wrong("{} of {} experts", op.experts_used, op.experts);
    if (op.groups > 1 && (op.experts % op.groups != 0 || op.groups_used < 1 || op.groups_used > op.groups ||
                          op.experts_used > op.experts / op.groups * op.groups_used))
      return wrong("{} of {} experts in {} of {} groups", op.experts_used, op.experts, op.groups_used, op.groups);
    return {};
  }
  // A row goes to as many experts as it has gates that are not 0: buffers have room for those of a router.
  Status gates(const Op& op) const {
    const int16_t chosen = chosen_[static_cast<size_t>(op.in[1])];
    if (chosen == 0) return wrong("value {} is no output of a router", op.in[1]);
    if (chosen > op.experts_used)
      return wrong("the router of value {} chose {} experts, this takes {}", op.in[1], chosen, op.experts_used);
    return {};
  }
  Status expert_weights(const Op& op, int64_t width) const {
    for (const WeightId first : op.weight)
      if (static_cast<size_t>(first) + static_cast<size_t>(op.experts) > weights_.size())
        return wrong("experts' weights do not exist");
    const int64_t inner = info(op.weight[0]).dims[1];
    for (int e = 0; e < op.experts; ++e)
      for (size_t slot = 0; slot < 3; ++slot) {
        const WeightInfo& w = info(op.weight[slot] + e);
        const int64_t in = slot < 2 ? width : inner, out = slot < 2 ? inner : width;
        if (out < 2 || out > INT32_MAX) return wrong("weight {} has {} rows, 2 to {} needed", w.name, out, INT32_MAX);
        if (w.expert != e || w.dims[0] != in || w.dims[1] != out)
          return wrong("weight {} is expert {} of {} x {}, expert {} of {} x {} needed", w.name, w.expert, w.dims[0],
                       w.dims[1], e, in, out);
      }
    return {};
  }

  // A K/V store has one geometry for all sequences of a layer.
  Status kv_geometry(const Op& op) {
    if (op.layer < 0) return wrong("layer {} has no K/V", op.layer);
    const Attention& a = program_.attention(op);
    KvHeads& kv = kv_[static_cast<size_t>(op.layer)];
    const KvHeads geometry = {a.kv_heads, a.head_dim};
    if (kv != KvHeads{} && kv != geometry)
      return wrong("{} kv heads of {} elements, others have {} of {}", a.kv_heads, a.head_dim, kv.heads, kv.head_dim);
    kv = geometry;
    return {};
  }

  // own: of a value whose number is its own.
  int64_t width(const Op& op, Width rule, int64_t own) const {
    switch (rule) {
      case Width::none:
      case Width::own:
        return own;
      case Width::input:
        return columns(op.in[0]);
      case Width::heads:
        return int64_t{op.heads} * op.head_dim;
      case Width::head:
        return op.head_dim;
      case Width::queries:
        return int64_t{program_.attention(op).heads} * program_.attention(op).head_dim;
      case Width::keys:
        return int64_t{program_.attention(op).kv_heads} * program_.attention(op).head_dim;
      case Width::experts:
        return op.experts;
    }
    return own;
  }

  Status check(const Op& op) {
    const OpRule& rule = rule_of(op.kind);
    if ((rule.rows.result & bit(op.rows)) == 0) return wrong("has the wrong row set");
    if (rule.check != nullptr) LLADA_TRY_STATUS(rule.check(*this, op));
    for (size_t i = 0; i < rule.values.in.size(); ++i)
      if (op.in[i] != kNoValue)
        LLADA_TRY_STATUS(value(op.in[i], width(op, rule.values.in[i], 0),
                               i == 0 && rule.rows.input != 0 ? rule.rows.input : bit(op.rows)));
    if (rule.weights.role == WeightRole::rows) LLADA_TRY_STATUS(matrix(op, 0, columns(op.out[0]), -1));
    if (rule.weights.role == WeightRole::vector && op.weight[0] != kNoWeight) {
      const bool one_for_all = op.kind == OpKind::scale && info(op.weight[0]).dims[0] == 1;
      LLADA_TRY_STATUS(vector(op, one_for_all ? 1 : width(op, rule.weights.vector, columns(op.in[0]))));
    }
    for (size_t i = 0; rule.weights.role == WeightRole::products && i < op.weight.size() && op.weight[i] != kNoWeight;
         ++i)
      LLADA_TRY_STATUS(matrix(op, i, columns(op.in[0]), rule.values.out == Width::none ? -1 : columns(op.out[i])));
    if (rule.values.in_place) return {};
    for (const ValueId id : op.out)
      if (id != kNoValue) LLADA_TRY_STATUS(value(id, width(op, rule.values.out, columns(id)), bit(op.rows)));
    return {};
  }

  const Program& program_;
  std::span<const WeightInfo> weights_;
  int layers_ = 0;  // that the weights are of
  std::vector<bool> written_;
  std::vector<int16_t> chosen_;  // by value: experts that a row has gates of; 0: no router's result
  std::vector<KvHeads> kv_;      // by layer; nothing: it has stored none
  int stored_ = -1;              // layer of the last store_kv
  bool head_ = false;
  size_t index_ = 0;
};

Status check_heads(Verifier& v, const Op& op) { return v.heads(op); }
Status check_rope(Verifier& v, const Op& op) { return v.rope(op); }
Status check_store_kv(Verifier& v, const Op& op) { return v.store_kv(op); }
Status check_attention(Verifier& v, const Op& op) { return v.attention(op); }
Status check_route(Verifier& v, const Op& op) { return v.route(op); }
Status check_experts(Verifier& v, const Op& op) { return v.experts(op); }
Status check_scale(Verifier& v, const Op& op) { return v.scale(op); }
Status check_head(Verifier& v, const Op& op) { return v.head(op); }

Status verify(const Program& program, std::span<const WeightInfo> weights) { return Verifier(program, weights).run(); }

}  // namespace llada
