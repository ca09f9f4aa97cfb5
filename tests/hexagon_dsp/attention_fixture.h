// What the tests of attention share: stores of keys and values, ops over them, and results held to double arithmetic.
#pragma once
#include <algorithm>
#include <cmath>

#include "hexagon_dsp/attention_oracle.h"
#include "hexagon_dsp/dsp_test.h"
#include "hexagon_dsp/unit_attention_oracle.h"
#include "kernels/kernel_test_data.h"

namespace llada::hexagon {

using kernels::testing::normal_rows;

struct Store {
  uint32_t sequences, positions, heads, head_dim;
  bool half;

  uint32_t element() const { return half ? 2 : 4; }
  uint32_t head_stride() const { return (positions * head_dim * element() + 63) / 64 * 64; }
  uint32_t bytes() const { return sequences * heads * head_stride(); }
};

class HexagonAttention : public DspTest {
 protected:
  WireKv put_store(const Store& s, uint32_t trial_rows = 0) {
    WireKv kv{};
    kv.keys = reserve(s.bytes()), kv.values = reserve(s.bytes());
    std::memset(memory_->data() + kv.keys.offset, 0, s.bytes());
    std::memset(memory_->data() + kv.values.offset, 0, s.bytes());
    kv.head_stride = s.head_stride(), kv.sequence_stride = s.heads * s.head_stride();
    kv.sequences = s.sequences, kv.positions = s.positions, kv.heads = s.heads, kv.head_dim = s.head_dim;
    kv.half = s.half;
    kv.trial = trial_rows > 0 ? reserve(int64_t{trial_rows} * s.heads * 2 * s.head_dim * s.element()) : kNowhere;
    return kv;
  }
  WireOp store_op(const WireKv& kv, const std::vector<float>& k, const std::vector<float>& v,
                  const std::vector<int32_t>& positions, const std::vector<TestSpan>& spans) {
    WireOp op = make_op(WIRE_STORE_KV, static_cast<uint32_t>(positions.size()), kv.heads * kv.head_dim);
    op.in[0] = put(k), op.in[1] = put(v), op.index = put(positions), op.spans = put_spans(spans);
    op.span_count = static_cast<uint32_t>(spans.size()), op.kv = kv;
    return op;
  }
  WireOp attention_op(const WireKv& kv, uint32_t heads, const std::vector<float>& q, uint32_t rows,
                      const std::vector<TestSpan>& spans) {
    WireOp op = make_op(WIRE_ATTENTION, rows);
    op.in[0] = put(q), op.out[0] = reserve(int64_t{rows} * heads * kv.head_dim * 4);
    op.heads = static_cast<uint16_t>(heads), op.head_dim = static_cast<uint16_t>(kv.head_dim);
    op.parameter = 1 / std::sqrt(static_cast<float>(kv.head_dim));
    op.spans = put_spans(spans), op.span_count = static_cast<uint32_t>(spans.size()), op.kv = kv;
    op.index = put_ranges(spans);
    return op;
  }
  // A row's keys are those of op.index.
  void expect_equal(const WireOp& op, const std::vector<TestSpan>& spans) {
    const auto ranges = get<WireKeys>(op.index, op.rows);
    const auto got = get<float>(op.out[0], int64_t{op.rows} * op.heads * op.head_dim);
    const WireKv& kv = op.kv;
    const int64_t d = op.head_dim;
    const bool vectors = kv.half != 0 && (d == 32 || d == 64 || d == 128);
    const bool unit = vectors && units_ != 0;
    Measured measured(unit      ? "attention by the matrix unit"
                      : vectors ? "attention in integers"
                                : "attention in floats");
    for (const TestSpan& span : spans)
      for (uint32_t h = 0; h < op.heads; ++h) {
        const uint32_t from = span.sequence * kv.sequence_stride + h / (op.heads / kv.heads) * kv.head_stride;
        const auto load = [&](WireRef ref) {
          std::vector<double> values;
          const std::byte* at = memory_->data() + ref.offset + from;
          for (int64_t i = 0; i < kv.positions * d; ++i)
            values.push_back(kv.half != 0 ? double{f16_to_float(reinterpret_cast<const uint16_t*>(at)[i])}
                                          : double{reinterpret_cast<const float*>(at)[i]});
          return values;
        };
        const auto keys = load(kv.keys), values = load(kv.values);
        const auto* q = reinterpret_cast<const float*>(memory_->data() + op.in[0].offset);
        for (uint32_t r = span.begin; r < span.begin + span.count; ++r) {
          const int64_t first = ranges[r].first, count = ranges[r].last - first;
          const AttentionInputs in{q + (r * op.heads + h) * d, keys.data() + first * d, values.data() + first * d,
                                   count, d};
          const AttentionRow want = unit      ? attend_unit_oracle(in, first)
                                    : vectors ? attend_vectors_oracle(in)
                                              : attend_plainly_oracle(in);
          for (int64_t i = 0; i < d; ++i)
            EXPECT_WITHIN(measured, got[static_cast<size_t>((r * op.heads + h) * d + i)],
                          want.out[static_cast<size_t>(i)], want.bound[static_cast<size_t>(i)])
                << "row " << r << " head " << h << " element " << i;
        }
      }
  }
  // Rows at positions from 0 that see their block of positions and those before.
  WireRef put_blocks(uint32_t rows, uint32_t keys, uint32_t block) {
    std::vector<WireKeys> ranges;
    for (uint32_t r = 0; r < rows; ++r) ranges.push_back({0, std::min(keys, (r / block + 1) * block)});
    return put(ranges);
  }
  // A store full of random keys and values, and `rows` rows that attend to its first `keys`.
  WireOp attend_to_random(const Store& s, uint32_t heads, uint32_t rows, uint32_t keys, uint32_t block,
                          double spread = 1) {
    const WireKv kv = put_store(s);
    kernels::testing::Random random(1);
    for (const WireRef ref : {kv.keys, kv.values})
      for (uint32_t i = 0; i < s.bytes() / 2; ++i) {
        const uint16_t h = float_to_f16(static_cast<float>(random.normal() * spread * (1 + i / 4000)));
        std::memcpy(memory_->data() + ref.offset + i * 2, &h, 2);
      }
    const std::vector<TestSpan> some = {{0, rows, 0, keys, 0, 0, 0}};
    WireOp ops[1] = {attention_op(kv, heads, normal_rows(rows, heads * s.head_dim, 3), rows, some)};
    if (block > 0) ops[0].index = put_blocks(rows, keys, block);
    const WireReply reply = run(ops);
    EXPECT_EQ(reply.status, WIRE_OK) << reply.op << " " << reply.detail;
    expect_equal(ops[0], some);
    return ops[0];
  }
};

}  // namespace llada::hexagon
