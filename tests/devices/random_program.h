// Programs made of random bytes, most of them nearly right: ops whose operands fit, then some fields set to anything.
// What verify() accepts of them runs on a device, whole and op by op over memory of different contents, and must give
// the same. Used by random_program_test.cc and by a fuzz target.
#pragma once
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "devices/device.h"
#include "devices/value_plan.h"
#include "graph/program.h"
#include "tensor/quantize.h"

namespace llada::random_programs {

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  int next() { return left_ == 0 ? 0 : (--left_, *data_++); }
  int below(int n) { return next() % n; }

 private:
  const uint8_t* data_;
  size_t left_;
};

// The weights of all programs: one of each shape that an op may ask for, two layers, four experts, three types.
struct World {
  std::vector<WeightInfo> infos;
  std::vector<std::vector<std::byte>> storage;
  std::vector<TensorView> views;
  static constexpr int kTokens = 37, kExperts = 4;

  WeightId add(std::string name, int64_t inputs, int64_t outputs, DType type, int layer = 0, int expert = -1) {
    infos.push_back({std::move(name), {inputs, outputs}, static_cast<int16_t>(layer), static_cast<int16_t>(expert)});
    std::vector<float> floats(static_cast<size_t>(inputs * outputs));
    for (size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(uniform(9, infos.size(), i, 0) - 0.5);
    auto& bytes = storage.emplace_back(static_cast<size_t>(row_bytes(type, inputs) * outputs));
    quantize_row(type, floats.data(), bytes.data(), inputs * outputs);
    TensorView view{bytes.data(), type, {{inputs, outputs, 1, 1}, outputs == 1 ? 1 : 2}};
    views.push_back(view);
    return static_cast<WeightId>(infos.size() - 1);
  }

  World() {
    add("table", 32, kTokens, DType::Q8_0, -1);
    for (const int n : {1, 4, 16, 32, 64}) add("vector", n, 1, DType::F32);
    for (const int n : {4, 16, 64}) add("vector of layer 1", n, 1, DType::F16, 1);
    for (const int outputs : {4, 16, 32, 64}) add("from 32", 32, outputs, DType::F32);
    for (const int outputs : {16, 32, 64}) add("from 64", 64, outputs, DType::Q4_0, 1);
    add("from 16", 16, 32, DType::F16);
    for (const char* part : {"gate", "up", "down"})
      for (int e = 0; e < kExperts; ++e) add(part, 32, 32, DType::Q8_0, 0, e);
    add("not a matrix of one output", 64, 1, DType::Q8_0, -1);
  }
};
inline const World& world() {
  static const World it;
  return it;
}

struct Made {
  Program program;
  StepInputs inputs;
  KvShape kv;
};

class Maker {
 public:
  explicit Maker(Bytes& bytes) : b_(bytes) {}

  Made make() {
    Program& p = case_.program;
    p.shape.rows = 1 + b_.below(6);
    p.shape.wanted = b_.below(p.shape.rows + 1);
    p.shape.predictions = b_.below(4) == 0 ? b_.below(p.shape.wanted + 1) : p.shape.wanted;
    for (const int columns : {4, 16, 32, 64})
      for (const RowSet rows : {RowSet::all, RowSet::wanted, RowSet::predicted})
        for (int copy = 0; copy < 3; ++copy) p.values.push_back({columns, rows});
    written_.assign(p.values.size(), false);
    gates_.assign(p.values.size(), false);
    tables();
    emit(OpKind::embed);
    for (int n = b_.below(24); n > 0 && !b_.empty(); --n) {
      switch (b_.below(6)) {
        case 0:
          layer();
          break;
        case 1:
          mixture();
          break;
        default:
          emit(static_cast<OpKind>(b_.below(kOpKindCount)));
      }
    }
    if (b_.below(3) == 0) tail();
    for (int n = b_.below(8) - 4; n > 0; --n) damage();
    bind();
    return std::move(case_);
  }

 private:
  Program& program() { return case_.program; }
  // Of every table some entries that are right; damage() spoils them. Attentions: three each of 1, 2 and 4 heads.
  void tables() {
    Program& p = program();
    for (int i = 0; i < 4; ++i) {
      RopeRule rule{.rotary = i % 2 == 0 ? 16 : 4, .adjacent = b_.below(2) != 0, .theta = i < 2 ? 1e4 : 500.0};
      if (b_.below(3) == 0) rule.divisors.assign(static_cast<size_t>(rule.rotary / 2), static_cast<float>(1 + i));
      if (b_.below(3) == 0) rule.yarn = Yarn{.factor = 4, .original_context = 1 + b_.next()};
      p.ropes.push_back(*make_rope(rule));
    }
    for (const int heads : {1, 2, 4})
      for (int i = 0; i < 3; ++i)
        p.attentions.push_back({.heads = static_cast<int16_t>(heads),
                                .kv_heads = 1,
                                .head_dim = 16,
                                .scale = 0.25f,
                                .cap = b_.below(3) == 0 ? 0.5f * static_cast<float>(1 + b_.below(8)) : 0,
                                .window = {b_.below(6) - 1, b_.below(6) - 1}});
    p.norms = {{0.25f, true}, {1e-5f, true}, {1e-5f, false}};
  }
  // Weights of vectors for a norm, or none.
  void norm(Op& op, int columns) {
    op.attributes = static_cast<int16_t>(b_.below(3));
    if (op.attributes < 2 || b_.below(16) == 15) op.weight[0] = weight(columns, 1);
  }
  Activation activation() { return static_cast<Activation>(b_.below(kActivationCount)); }
  // A value of that shape, written where it is to be read, none of `others`.
  ValueId value(int columns, RowSet rows, bool read, std::initializer_list<ValueId> others = {}) {
    std::vector<ValueId> fit;
    for (size_t i = 0; i < program().values.size(); ++i) {
      const Value& v = program().values[i];
      const auto id = static_cast<ValueId>(i);
      if (v.columns == columns && v.rows == rows && (!read || written_[i]) && std::ranges::count(others, id) == 0)
        fit.push_back(id);
    }
    return fit.empty() ? static_cast<ValueId>(b_.below(36))
                       : fit[static_cast<size_t>(b_.below(static_cast<int>(fit.size())))];
  }
  WeightId weight(int inputs, int outputs) {
    std::vector<WeightId> fit;
    for (size_t i = 0; i < world().infos.size(); ++i) {
      const WeightInfo& w = world().infos[i];
      if (w.dims[0] == inputs && w.dims[1] == outputs) fit.push_back(static_cast<WeightId>(i));
    }
    return fit.empty() ? 0 : fit[static_cast<size_t>(b_.below(static_cast<int>(fit.size())))];
  }
  void put(const Op& op) {
    put_written(op);
    program().ops.push_back(op);
  }
  void put_written(const Op& op) {
    for (const ValueId out : op.out) {
      if (out < 0 || static_cast<size_t>(out) >= written_.size()) continue;
      written_[static_cast<size_t>(out)] = true;
      gates_[static_cast<size_t>(out)] = op.kind == OpKind::route;
    }
  }

  // An op on some value that is there and that the kind takes; none where there is no such value, or, rarely, on any
  // shape.
  void emit(OpKind kind) {
    std::vector<Value> fit;
    for (size_t i = 0; i < written_.size(); ++i)
      if (written_[i] && takes(kind, program().values[i])) fit.push_back(program().values[i]);
    if (kind == OpKind::embed || kind == OpKind::soft_embed || b_.below(64) == 63)
      return emit(kind, 16 << b_.below(3), static_cast<RowSet>(b_.below(3)));
    if (fit.empty()) return;
    const Value& v = fit[static_cast<size_t>(b_.below(static_cast<int>(fit.size())))];
    emit(kind, v.columns, v.rows);
  }
  static bool takes(OpKind kind, const Value& v) {
    switch (kind) {
      case OpKind::select_rows:
        return v.rows == RowSet::all;
      case OpKind::guide:
        return v.rows == RowSet::wanted;
      case OpKind::head:
        return v.rows == RowSet::predicted && v.columns == 32;
      case OpKind::store_kv:
        return v.rows == RowSet::all && v.columns == 16;
      case OpKind::rope:
      case OpKind::attention:
        return v.rows != RowSet::predicted && v.columns >= 16;
      case OpKind::route:
        return v.columns == 4;
      case OpKind::experts:
        return v.columns == 32;
      case OpKind::matmul:
      case OpKind::head_norm:
        return v.columns >= 16;
      default:
        return true;
    }
  }
  void emit(OpKind kind, int c, RowSet rows) {
    Op op{.kind = kind, .rows = rows, .layer = static_cast<int16_t>(b_.below(2))};
    if (kind == OpKind::attention) op.layer = stored_;
    if (kind == OpKind::store_kv) stored_ = op.layer;
    op.parameter = kind == OpKind::route || (kind == OpKind::head && b_.below(3) == 0) ? 0.25f : 0;
    switch (kind) {
      case OpKind::embed:
        op.rows = RowSet::all, op.weight[0] = 0, op.out[0] = value(32, RowSet::all, false);
        break;
      case OpKind::select_rows:
        op.rows = RowSet::wanted, op.in[0] = value(c, RowSet::all, true), op.out[0] = value(c, RowSet::wanted, false);
        break;
      case OpKind::rms_norm:
        op.in[0] = value(c, rows, true), op.out[0] = value(c, rows, false, {op.in[0]}), norm(op, c);
        break;
      case OpKind::head_norm:
      case OpKind::rope:
        op.head_dim = 16, op.attributes = static_cast<int16_t>(b_.below(4));
        op.in[0] = op.out[0] = value(c, rows, true), op.heads = static_cast<int16_t>(std::max(1, c / 16));
        if (kind == OpKind::head_norm) norm(op, 16);
        break;
      case OpKind::matmul: {
        op.in[0] = value(c, rows, true);
        const int n = 1 + b_.below(3);
        for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
          const int out = c == 16 ? 32 : b_.below(2) != 0 ? 32 : 16 << b_.below(3);
          op.weight[i] = weight(c, out);
          op.out[i] = value(out, rows, false, {op.in[0], op.out[0], op.out[1]});
        }
        break;
      }
      case OpKind::store_kv:
        op.rows = RowSet::all, op.attributes = static_cast<int16_t>(b_.below(9));
        op.in[0] = value(16, RowSet::all, true), op.in[1] = value(16, RowSet::all, true);
        break;
      case OpKind::attention:
        op.attributes = static_cast<int16_t>(3 * (c >= 64 ? 2 : c / 32) + b_.below(3));
        op.in[0] = value(c, rows, true), op.out[0] = value(c, rows, false, {op.in[0]});
        break;
      case OpKind::glu:
        op.activation = activation();
        op.in[0] = value(c, rows, true), op.in[1] = value(c, rows, true);
        op.out[0] = value(c, rows, false, {op.in[0], op.in[1]});
        break;
      case OpKind::add:
        op.in[0] = op.out[0] = value(c, rows, true), op.in[1] = value(c, rows, true, {op.in[0]});
        break;
      case OpKind::add_bias:
        op.in[0] = op.out[0] = value(c, rows, true), op.weight[0] = weight(c, 1);
        break;
      case OpKind::route:
        op.in[0] = value(4, rows, true), op.out[0] = value(4, rows, false, {op.in[0]});
        op.experts = 4, op.experts_used = static_cast<int16_t>(1 + b_.below(3));
        op.sigmoid = b_.below(2) != 0, op.renormalise = b_.below(2) != 0;
        if (b_.below(2) != 0) op.groups = 2, op.groups_used = 2;
        if (b_.below(2) != 0) op.weight[0] = weight(4, 1);
        break;
      case OpKind::experts: {
        const WeightId first = weight(32, 32);  // sometimes the experts' first
        const auto gate =
            static_cast<WeightId>(std::ranges::find(world().infos, "gate", &WeightInfo::name) - world().infos.begin());
        op.weight = {b_.below(4) != 0 ? gate : first, gate + 4, gate + 8};
        op.experts = 4, op.experts_used = 3, op.layer = 0, op.activation = activation();
        op.in[0] = value(32, rows, true), op.in[1] = value(4, rows, true);
        for (size_t i = 0; i < gates_.size() && b_.below(16) != 15; ++i)
          if (gates_[i] && program().values[i].rows == rows) op.in[1] = static_cast<ValueId>(i);
        op.out[0] = value(32, rows, false, {op.in[0]});
        break;
      }
      case OpKind::scale:
        op.in[0] = op.out[0] = value(c, rows, true), op.parameter = 0.25f * static_cast<float>(b_.below(8));
        if (b_.below(2) != 0) op.weight[0] = weight(b_.below(4) == 0 ? 1 : c, 1);
        break;
      case OpKind::soft_embed:
        op.rows = RowSet::all, op.weight[0] = 0, op.out[0] = value(32, RowSet::all, false);
        break;
      case OpKind::guide:
        op.rows = RowSet::predicted, op.in[0] = value(c, RowSet::wanted, true),
        op.out[0] = value(c, RowSet::predicted, false);
        break;
      case OpKind::head:
        op.rows = RowSet::predicted, op.weight[0] = 0, op.in[0] = value(32, RowSet::predicted, true);
        break;
    }
    put(op);
  }

  void layer() {
    emit(OpKind::matmul, 32, RowSet::all);
    emit(OpKind::rope, 16, RowSet::all);
    emit(OpKind::store_kv);
    emit(OpKind::attention);
  }
  // Experts, the sum, and the network that devices may compute with them.
  void mixture() {
    Op product{.kind = OpKind::matmul, .rows = RowSet::all, .layer = 0};
    product.in[0] = value(32, RowSet::all, true);
    const ValueId x = product.in[0];
    product.weight[0] = weight(32, 4), product.out[0] = value(4, RowSet::all, false);
    put(product);
    emit(OpKind::route, 4, RowSet::all);
    emit(OpKind::experts, 32, RowSet::all);
    if (b_.below(4) != 0) {
      Op& experts = program().ops.back();
      experts.in[0] = x, experts.out[0] = value(32, RowSet::all, false, {x});
      put_written(experts);
    }
    Op sum{.kind = OpKind::add, .rows = RowSet::all, .layer = 0};
    sum.in[1] = program().ops.back().out[0];
    sum.in[0] = sum.out[0] = value(32, RowSet::all, true, {sum.in[1], x});
    put(sum);
    const auto gate =
        static_cast<WeightId>(std::ranges::find(world().infos, "gate", &WeightInfo::name) - world().infos.begin());
    product.weight = {gate, gate + 4, kNoWeight};
    product.out[0] = value(32, RowSet::all, false, {x}),
    product.out[1] = value(32, RowSet::all, false, {x, product.out[0]});
    put(product);
    Op gated{.kind = OpKind::glu, .rows = RowSet::all, .layer = 0, .activation = activation()};
    gated.in[0] = product.out[0], gated.in[1] = product.out[1];
    gated.out[0] = value(32, RowSet::all, false, {product.out[0], product.out[1]});
    put(gated);
    product.weight = {gate + 8, kNoWeight, kNoWeight};
    product.in[0] = gated.out[0], product.out[0] = value(32, RowSet::all, false, {gated.out[0]}),
    product.out[1] = kNoValue;
    put(product);
  }
  void tail() {
    emit(OpKind::select_rows, 32, RowSet::all);
    emit(OpKind::guide, 32, RowSet::wanted);
    emit(OpKind::head);
  }

  void damage() {
    if (program().ops.empty()) return;
    Op& op = program().ops[static_cast<size_t>(b_.below(static_cast<int>(program().ops.size())))];
    const auto slot = static_cast<size_t>(b_.below(3));
    const int small = b_.below(48) - 4;
    const auto any = static_cast<int16_t>(b_.below(8) == 0 ? b_.next() << 8 | b_.next() : small);
    switch (b_.below(21)) {
      case 0:
        op.in[slot] = any;
        break;
      case 1:
        op.out[slot] = any;
        break;
      case 2:
        op.weight[slot] = any;
        break;
      case 3:
        op.layer = any;
        break;
      case 4:
        op.heads = any;
        break;
      case 5:
        damage_attention(any);
        break;
      case 6:
        op.head_dim = any;
        break;
      case 7:
        damage_rope(any);
        break;
      case 8:
        op.attributes = any;
        break;
      case 9:
        op.rows = static_cast<RowSet>(any & 3);
        break;
      case 10:
        op.kind = static_cast<OpKind>(static_cast<uint32_t>(any) % (kOpKindCount + 1));  // one that is none, too
        break;
      case 11:
        op.experts = any;
        break;
      case 12:
        op.experts_used = any;
        break;
      case 13:
        op.groups = static_cast<uint8_t>(any);
        break;
      case 14:
        op.groups_used = static_cast<uint8_t>(any);
        break;
      case 15:
        op.parameter = any_float(any);
        break;
      case 16:
        op.out[slot] = op.in[static_cast<size_t>(b_.below(3))];
        break;
      case 17:
        std::swap(op, program().ops.back());
        break;
      case 18:
        program().values[static_cast<size_t>(b_.below(36))] = {any, static_cast<RowSet>(b_.below(4))};
        break;
      case 19:
        op.activation = static_cast<Activation>(any);
        break;
      case 20:
        program().norms[static_cast<size_t>(b_.below(3))] = {any_float(any), b_.below(2) != 0};
        break;
    }
  }
  float any_float(int16_t any) {
    const auto bits = static_cast<uint32_t>(b_.next()) << 23 | static_cast<uint32_t>(any);
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
  }
  void damage_attention(int16_t any) {
    Attention& a = program().attentions[static_cast<size_t>(b_.below(9))];
    switch (b_.below(7)) {
      case 0:
        a.heads = any;
        break;
      case 1:
        a.kv_heads = any;
        break;
      case 2:
        a.head_dim = any;
        break;
      case 3:
        a.scale = any_float(any);
        break;
      case 4:
        a.cap = any_float(any);
        break;
      case 5:
        a.window.before = any * 65537;
        break;
      case 6:
        a.window.after = any * 65537;
        break;
    }
  }
  void damage_rope(int16_t any) {
    Rope& r = program().ropes[static_cast<size_t>(b_.below(4))];
    switch (b_.below(5)) {
      case 0:
        r.rotary = any;
        break;
      case 1:
        r.adjacent = !r.adjacent;
        break;
      case 2:
        r.frequencies.resize(static_cast<size_t>(any & 15));
        break;
      case 3:
        if (!r.frequencies.empty()) r.frequencies.back() = static_cast<double>(any_float(any));
        break;
      case 4:
        r.magnitude = static_cast<double>(any_float(any));
        break;
    }
  }

  // Inputs as an engine gives them: positions that ascend within a span, spans that cover the rows, keys that the store
  // has.
  void bind() {
    const StepShape& shape = program().shape;
    StepInputs& in = case_.inputs;
    case_.kv = {.layers = 2,
                .sequences = 2,
                .kv_heads = 1,
                .head_dim = 16,
                .positions = 8,
                .type = b_.below(2) != 0 ? DType::F16 : DType::F32};
    const int first = b_.below(2) != 0 ? shape.rows : b_.below(shape.rows) + 1;
    const KeyRule rule{.block = 3 * b_.below(2), .before = b_.below(4) - 1, .after = b_.below(4) - 1};
    std::vector<int32_t> tokens, positions;
    for (int r = 0; r < shape.rows; ++r) {
      tokens.push_back(b_.below(World::kTokens));
      positions.push_back(r < first ? r : r - first);
    }
    const auto add = [&](const RowSpan& whose, size_t begin, size_t count, int keys) {
      append_span(in, whose, std::span(tokens).subspan(begin, count), std::span(positions).subspan(begin, count), rule,
                  keys);
    };
    const auto before = static_cast<size_t>(first), behind = static_cast<size_t>(shape.rows - first);
    add({}, 0, before, std::max(first, 1 + b_.below(8)));
    // The others are a trial, another sequence, or another request: spans of one sequence do not write the same places.
    const int whose = b_.below(4);
    if (behind > 0)
      add({.stream = whose == 0, .sequence = whose == 1, .trial = whose > 1 || b_.below(4) == 0}, before, behind, 8);
    in.streams.resize(whose == 0 ? 2 : 1);
    for (Stream& s : in.streams) {
      s.keep_logits = true;
      s.sampling.temperature = b_.below(4) == 0 ? 0.7 : 0;
      if (b_.below(4) == 0) s.sampling.never_sampled = {1, 5}, s.sampling.out_of_softmax = {36};
    }
    for (int r = shape.rows - shape.wanted; r < shape.rows; ++r) in.wanted.push_back(r);
    for (int p = 0; p < shape.predictions; ++p) {
      const bool alone = shape.predictions == shape.wanted || in.streams.size() > 1;
      in.predictions.push_back({p, alone ? -1 : b_.below(shape.wanted), 0.5});
    }
  }

  Bytes& b_;
  Made case_;
  std::vector<bool> written_, gates_;  // by value; gates_: a router's result
  int16_t stored_ = 0;                 // layer of the last store_kv
};

struct Ran {
  Status status;
  std::vector<float> logits;
};

// Runs of `ops` ops each, activations in memory that is filled with `fill`.
inline Ran run(Device& device, const Made& c, size_t ops, uint8_t fill) {
  Ran ran;
  const KvGeometry needed = kv_geometry(c.program);
  KvShape shape = c.kv;
  if (needed.layers > 0)
    shape.layers = needed.layers, shape.kv_heads = needed.kv_heads, shape.head_dim = needed.head_dim,
    shape.by_layer = needed.by_layer;
  StepInputs step = c.inputs;
  std::vector<KvStore> stores;
  stores.reserve(step.streams.size());
  std::vector<SoftTokens> soft(step.streams.size());
  for (const RowSpan& span : step.spans)
    for (int32_t r = 0; r < span.count; ++r) {
      SoftTokens& of = soft[static_cast<size_t>(span.stream)];
      of.tokens.insert(of.tokens.end(), {0, 2}), of.probabilities.insert(of.probabilities.end(), {0.5f, 0.25f});
      of.begin.push_back(std::ssize(of.tokens));
    }
  for (Stream& stream : step.streams) {
    stream.soft = &soft[stores.size()];
    auto kv = KvStore::create(shape);
    if (!kv) return {std::unexpected(kv.error()), {}};
    // Keys that the step does not write are those of before.
    std::memset(kv->memory(), 0, static_cast<size_t>(2 * kv->half_bytes()));
    stores.push_back(std::move(*kv));
    stream.kv = &stores.back();
  }
  const auto program = std::make_shared<const Program>(c.program);
  const int64_t bytes = std::max<int64_t>(plan_values(*program).bytes, 1);
  const SharedBytes arena = allocate_shared(bytes);
  std::memset(arena.get(), fill, static_cast<size_t>(bytes));
  if (HostUnit* host = device.capabilities().host) host->use_arena(arena, bytes);
  StepOutputs out;
  const size_t end = program->ops.size();
  for (size_t first = 0; first < end; first += ops) {
    const auto ticket = device.submit(
        {.program = program, .first = first, .last = std::min(end, first + ops), .inputs = &step, .outputs = &out});
    ran.status = ticket ? device.wait(*ticket) : std::unexpected(ticket.error());
    if (!ran.status) return ran;
  }
  for (const auto& logits : out.logits) ran.logits.insert(ran.logits.end(), logits.begin(), logits.end());
  return ran;
}

struct Verdict {
  bool accepted = false;
  std::string complaint;  // empty: as it must be
};

inline Verdict judge(Device& device, Made c) {
  if (!verify(c.program, world().infos)) return {};
  for (const Op& op : c.program.ops) {
    if (op.kind != OpKind::embed) continue;
    const auto rows = static_cast<int32_t>(world().infos[static_cast<size_t>(op.weight[0])].dims[1]);
    for (int32_t& token : c.inputs.tokens) token %= rows;  // inputs name rows that the table has
  }
  const Ran whole = run(device, c, c.program.ops.size(), 0xff), apart = run(device, c, 1, 0x3f);
  if (whole.status.has_value() != apart.status.has_value())
    return {true, "one way ends with: " + (whole.status ? apart : whole).status.error().message};
  const auto differ = [](float a, float b) { return std::memcmp(&a, &b, 4) != 0; };
  if (whole.status &&
      (whole.logits.size() != apart.logits.size() ||
       !std::ranges::equal(whole.logits, apart.logits, [&](float a, float b) { return !differ(a, b); })))
    return {true, "whole and op by op give different logits"};
  return {true, ""};
}

}  // namespace llada::random_programs
