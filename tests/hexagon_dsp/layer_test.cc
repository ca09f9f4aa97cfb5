// One transformer layer as one batch on the emulated DSP. Every op is held to an oracle over the very inputs that it
// had there, so errors do not hide in one another: matrices bit for bit (some outputs of each), the rest within the
// bounds of their kernels. The geometry of LLaDA-8B takes seconds and 300 MB: it runs where LLADA_HEXAGON_LAYER is set.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "hexagon_dsp/attention_oracle.h"
#include "hexagon_dsp/dsp_test.h"
#include "kernels/kernel_test_data.h"

namespace llada::hexagon {
namespace {

struct Geometry {
  uint32_t width, heads, ffn, keys;
  uint64_t most_packets;  // a regression limit, which may only go down
  bool large = false;
  static constexpr uint32_t kDim = 128, kRows = 32;
};

class HexagonLayer : public DspTest {
 protected:
  WireWeight random_matrix(uint32_t inputs, uint32_t outputs, uint64_t seed) {
    // One tile's worth of random groups, repeated: numbers matter, their variety does not.
    const int64_t distinct = std::min<int64_t>(outputs, 96);
    const auto stored =
        kernels::testing::make_weights(DType::Q4_0, distinct, inputs, kernels::testing::Fill::random, seed);
    const WireLayout layout = WIRE_TILE_Q4_0;
    const WireRef ref = reserve(layout_bytes(layout, outputs, inputs));
    pack(layout, kernels::testing::view(DType::Q4_0, stored, distinct, inputs), 0, distinct,
         memory_->data() + ref.offset);
    const int64_t part = layout_bytes(layout, distinct, inputs), all = layout_bytes(layout, outputs, inputs);
    for (int64_t at = part; at < all; at += part)
      std::memcpy(memory_->data() + ref.offset + at, memory_->data() + ref.offset,
                  static_cast<size_t>(std::min(part, all - at)));
    return {ref, layout, inputs, outputs};
  }
  WireRef value(uint32_t columns) { return reserve(int64_t{Geometry::kRows} * columns * 4); }
  std::vector<float> rows_of(WireRef ref, uint32_t columns) {
    return get<float>(ref, int64_t{Geometry::kRows} * columns);
  }

  void expect_matmul(const WireOp& op) {
    const auto x = rows_of(op.in[0], op.columns);
    std::vector<QuantizedRow> a;
    for (uint32_t r = 0; r < Geometry::kRows; ++r)
      a.push_back(quantize_row_like_dsp(WIRE_TILE_Q4_0, x.data() + r * op.columns, op.columns));
    for (int i = 0; i < 3 && op.weight[i].layout != WIRE_NO_LAYOUT; ++i) {
      const WireWeight& w = op.weight[i];
      const auto y = rows_of(op.out[i], w.outputs);
      for (uint32_t n = 0; n < w.outputs; n += w.outputs / 7 + 1) {
        const PackedOutput packed = unpack_output(w.layout, memory_->data() + w.data.offset, n, w.inputs);
        for (uint32_t r = 0; r < Geometry::kRows; ++r)
          ASSERT_EQ(y[r * w.outputs + n], product_like_dsp(w.layout, packed, a[r]))
              << "matrix " << i << " row " << r << " output " << n;
      }
    }
  }
  // want(row, column): the exact value and its bound.
  template <class Want>
  void expect_rows(WireRef ref, uint32_t columns, const Want& want) {
    const auto got = rows_of(ref, columns);
    for (uint32_t r = 0; r < Geometry::kRows; ++r)
      for (uint32_t c = 0; c < columns; ++c) {
        const std::pair<double, double> w = want(r, c);
        ASSERT_NEAR(got[r * columns + c], w.first, w.second) << r << " " << c;
      }
  }
  // Packets by kind of op: every op once more as a batch of its own (all of them read what they do not write).
  void print_packets(const std::vector<WireOp>& ops, const WireReply& reply, const Geometry& g) {
    std::map<int, uint64_t> packets;
    for (const WireOp& op : ops) packets[op.kind] += run(op).packets;
    const auto all = static_cast<double>(reply.packets);
    fmt::print("a layer of width {}, {} rows, {} keys: {} packets (emulated)\n", g.width, Geometry::kRows, g.keys,
               reply.packets);
    for (const auto& [kind, of] : packets) {
      fmt::print("  kind {}: {} packets, {:.2f} %\n", kind, of, 100 * static_cast<double>(of) / all);
      if (g.large && kind != WIRE_MATMUL && kind != WIRE_ATTENTION) {
        EXPECT_LE(static_cast<double>(of), 0.05 * all) << kind;
      }
    }
    EXPECT_LE(reply.packets, g.most_packets);
  }
  void run_layer(const Geometry& g);
};

void HexagonLayer::run_layer(const Geometry& g) {
  constexpr uint32_t kRows = Geometry::kRows, kDim = Geometry::kDim;
  const uint32_t w = g.width, inner = g.heads * kDim;
  const auto x = kernels::testing::normal_rows(kRows, w, 1);
  const auto norm1 = kernels::testing::normal_rows(1, w, 2), norm2 = kernels::testing::normal_rows(1, w, 3);
  std::vector<int32_t> positions;
  std::vector<float> table;
  for (uint32_t r = 0; r < kRows; ++r) {
    positions.push_back(static_cast<int32_t>(g.keys - kRows + r));
    for (const bool sine : {false, true})
      for (uint32_t j = 0; j < kDim / 2; ++j) {
        const double angle = positions.back() * std::pow(500000.0, -2.0 * j / kDim);
        table.push_back(static_cast<float>(sine ? std::sin(angle) : std::cos(angle)));
      }
  }
  WireKv kv{};
  kv.head_stride = g.keys * kDim * 2, kv.sequence_stride = kv.head_stride * g.heads;
  kv.sequences = 1, kv.positions = g.keys, kv.heads = g.heads, kv.head_dim = kDim, kv.half = 1, kv.trial = kNowhere;
  std::vector<uint16_t> earlier(kv.sequence_stride / 2);
  kernels::testing::Random random(5);
  for (uint16_t& h : earlier) h = float_to_f16(random.normal());
  kv.keys = put(earlier), kv.values = put(earlier);
  const std::vector<TestSpan> spans = {{0, kRows, 0, g.keys, 0, 0, 0}};

  const WireRef copies_ref = put_copies(kRows);

  std::vector<WireOp> ops;
  const auto add_op = [&](WireKind kind, uint32_t columns) -> WireOp& {
    return ops.emplace_back(make_op(kind, kRows, columns));
  };
  const auto matmul = [&](WireRef in, uint32_t inputs, std::vector<uint32_t> outputs) -> WireOp& {
    WireOp& op = add_op(WIRE_MATMUL, inputs);
    op.in[0] = in;
    for (size_t i = 0; i < outputs.size(); ++i)
      op.weight[i] = random_matrix(inputs, outputs[i], 10 * ops.size() + i), op.out[i] = value(outputs[i]);
    return op;
  };
  const WireRef x_ref = put(x), positions_ref = put(positions), table_ref = put(table), spans_ref = put_spans(spans),
                ranges_ref = put_ranges(spans);
  WireOp* op = &add_op(WIRE_RMS_NORM, w);
  op->in[0] = x_ref, op->out[0] = value(w), op->weight[0] = put_vector(norm1), op->parameter = 1e-5f;
  const WireRef h = op->out[0];
  op = &matmul(h, w, {inner, inner, inner});
  const WireOp qkv = *op;
  // Copies before the rotation, which works in place.
  const WireRef q = value(inner), k = value(inner);
  for (const auto& [from, to] : {std::pair(qkv.out[0], q), {qkv.out[1], k}}) {
    op = &add_op(WIRE_GUIDE, inner);
    op->in[0] = from, op->out[0] = to, op->source_rows = kRows, op->index = copies_ref;
  }
  for (const WireRef at : {q, k}) {
    op = &add_op(WIRE_ROPE, inner);
    op->in[0] = at, op->heads = static_cast<uint16_t>(g.heads), op->head_dim = op->rotary = kDim, op->table = table_ref;
  }
  op = &add_op(WIRE_STORE_KV, inner);
  op->in[0] = k, op->in[1] = qkv.out[2], op->kv = kv, op->index = positions_ref, op->spans = spans_ref,
  op->span_count = 1;
  op = &add_op(WIRE_ATTENTION, 0);
  op->in[0] = q, op->out[0] = value(inner), op->kv = kv, op->spans = spans_ref, op->span_count = 1;
  op->index = ranges_ref;
  op->heads = static_cast<uint16_t>(g.heads), op->head_dim = kDim,
  op->parameter = 1 / std::sqrt(static_cast<float>(kDim));
  const WireRef mix = op->out[0];
  op = &matmul(mix, inner, {w});
  const WireOp o = *op;
  const WireRef x2 = value(w);
  op = &add_op(WIRE_GUIDE, w);
  op->in[0] = x_ref, op->out[0] = x2, op->source_rows = kRows, op->index = copies_ref;
  op = &add_op(WIRE_ADD, w);
  op->in[0] = x2, op->in[1] = o.out[0];
  op = &add_op(WIRE_RMS_NORM, w);
  op->in[0] = x2, op->out[0] = value(w), op->weight[0] = put_vector(norm2), op->parameter = 1e-5f;
  const WireRef h2 = op->out[0];
  op = &matmul(h2, w, {g.ffn, g.ffn});
  const WireOp gate_up = *op;
  op = &add_op(WIRE_SWIGLU, g.ffn);
  op->in[0] = gate_up.out[0], op->in[1] = gate_up.out[1], op->out[0] = value(g.ffn);
  const WireRef inner_ref = op->out[0];
  op = &matmul(inner_ref, g.ffn, {w});
  const WireOp down = *op;

  const WireReply reply = run(ops);
  ASSERT_EQ(reply.status, WIRE_OK) << "op " << reply.op << " detail " << reply.detail;
  print_packets(ops, reply, g);
  fmt::print("copied and checked with {} packets (emulated), {:.2g} of the ops'\n", reply.check_packets,
             static_cast<double>(reply.check_packets) / static_cast<double>(reply.packets));
  EXPECT_GT(reply.check_packets, 0u);
  EXPECT_LT(reply.check_packets, 0.02 * static_cast<double>(reply.packets));

  const auto normed = [&](WireRef from, const std::vector<float>& weight) {
    const auto in = rows_of(from, w);
    std::vector<double> scale;
    for (uint32_t r = 0; r < kRows; ++r) {
      double sum = 0;
      for (uint32_t c = 0; c < w; ++c) sum += double{in[r * w + c]} * in[r * w + c];
      scale.push_back(1 / std::sqrt(sum / w + double{1e-5f}));
    }
    return [=](uint32_t r, uint32_t c) {
      const double exact = in[r * w + c] * scale[r] * weight[c];
      return std::pair(exact, rms_norm_bound(w, exact, weight[c]));
    };
  };
  expect_rows(h, w, normed(x_ref, norm1));
  expect_matmul(qkv);
  const auto before = rows_of(qkv.out[0], inner);
  expect_rows(q, inner, [&](uint32_t r, uint32_t c) {
    const uint32_t i = c % kDim, j = i % (kDim / 2);
    const double cosine = table[r * kDim + j], sine = table[r * kDim + kDim / 2 + j];
    const double self = before[r * inner + c], other = before[r * inner + (i < kDim / 2 ? c + kDim / 2 : c - kDim / 2)];
    return std::pair(self * cosine + (i < kDim / 2 ? -other : other) * sine, rope_bound(self * cosine, other * sine));
  });
  const auto queries = rows_of(q, inner);
  const auto* keys = reinterpret_cast<const uint16_t*>(memory_->data() + kv.keys.offset);
  const auto* values = reinterpret_cast<const uint16_t*>(memory_->data() + kv.values.offset);
  const auto new_keys = rows_of(k, inner);
  ASSERT_EQ(keys[(g.keys + static_cast<uint32_t>(positions[7])) * kDim + 3],
            float_to_f16(new_keys[7 * inner + kDim + 3]));
  const auto mixes = rows_of(mix, inner);
  Measured measured("attention in integers, of a layer");
  for (uint32_t head = 0; head < g.heads; head += 3) {
    std::vector<double> head_keys, head_values;
    for (uint32_t p = 0; p < g.keys * kDim; ++p) {
      head_keys.push_back(f16_to_float(keys[head * g.keys * kDim + p]));
      head_values.push_back(f16_to_float(values[head * g.keys * kDim + p]));
    }
    for (uint32_t r = 0; r < kRows; r += 5) {
      const AttentionRow want = attend_vectors_oracle(
          {queries.data() + r * inner + head * kDim, head_keys.data(), head_values.data(), g.keys, kDim});
      for (uint32_t i = 0; i < kDim; ++i)
        EXPECT_WITHIN(measured, mixes[r * inner + head * kDim + i], want.out[i], want.bound[i]) << r << " " << head;
    }
  }
  expect_matmul(o);
  const auto attended = rows_of(o.out[0], w);
  expect_rows(x2, w, [&](uint32_t r, uint32_t c) {
    const double sum = double{x[r * w + c]} + attended[r * w + c];
    return std::pair(sum, kU * std::fabs(sum));
  });
  expect_rows(h2, w, normed(x2, norm2));
  expect_matmul(gate_up);
  const auto gate = rows_of(gate_up.out[0], g.ffn), up = rows_of(gate_up.out[1], g.ffn);
  expect_rows(inner_ref, g.ffn, [&](uint32_t r, uint32_t c) {
    const double v = gate[r * g.ffn + c], u = up[r * g.ffn + c], exact = v / (1 + std::exp(-v)) * u;
    return std::pair(exact, swiglu_bound(v, u, exact));
  });
  expect_matmul(down);
}

TEST_F(HexagonLayer, OfASmallModel) {
  run_layer({.width = 512, .heads = 2, .ffn = 768, .keys = 64, .most_packets = 870'000});
}

TEST_F(HexagonLayer, OfLlada8b) {
  if (std::getenv("LLADA_HEXAGON_LAYER") == nullptr)
    GTEST_SKIP() << "set LLADA_HEXAGON_LAYER to run the layer of an 8B model";
  start(400 << 20);
  run_layer({.width = 4096, .heads = 32, .ffn = 12288, .keys = 160, .most_packets = 46'430'000, .large = true});
}

}  // namespace
}  // namespace llada::hexagon
