// K/V and attention on the emulated DSP against double arithmetic (attention_oracle.h): F16 and F32 stores, grouped
// heads, block-causal rows, guided streams, trials.
#include "hexagon_dsp/attention_fixture.h"

namespace llada::hexagon {
namespace {

TEST_F(HexagonAttention, StoresAndAttendsInTwoStreamsWithGroupedHeads) {
  for (const bool half : {true, false}) {
    used_ = 0;
    const Store s = {2, 70, 2, 24, half};
    const WireKv kv = put_store(s);
    std::vector<int32_t> positions;
    for (int32_t i = 0; i < 140; ++i) positions.push_back(i % 70);
    const std::vector<TestSpan> all = {{0, 70, 0, 70, 0, 0, 0}, {70, 70, 1, 70, 0, 0, 0}};
    const auto k = normal_rows(140, 48, 1), v = normal_rows(140, 48, 2);
    const std::vector<TestSpan> some = {{0, 19, 0, 70, 0, 0, 0}, {19, 3, 1, 33, 0, 0, 0}};
    const WireOp ops[2] = {store_op(kv, k, v, positions, all), attention_op(kv, 4, normal_rows(22, 96, 3), 22, some)};
    const WireReply reply = run(ops);
    ASSERT_EQ(reply.status, WIRE_OK) << reply.op << " " << reply.detail;
    // What was stored, bit for bit.
    const std::byte* keys = memory_->data() + kv.keys.offset + kv.sequence_stride + kv.head_stride;
    for (uint32_t i = 0; i < 24; ++i) {
      const float value = k[(70 + 5) * 48 + 24 + i];
      if (half)
        ASSERT_EQ(reinterpret_cast<const uint16_t*>(keys)[5 * 24 + i], float_to_f16(value));
      else
        ASSERT_EQ(reinterpret_cast<const float*>(keys)[5 * 24 + i], value);
    }
    expect_equal(ops[1], some);
  }
}

TEST_F(HexagonAttention, HalfConversionRoundsLikeTheDefinition) {
  const Store s = {1, 1, 1, 64, true};
  const WireKv kv = put_store(s);
  std::vector<float> k = {0.0f,           -0.0f,         1.0f,         65504.0f, 65519.9f, 65520.0f,   1e30f,
                          -1e30f,         0x1p-14f,      0x1.ffcp-15f, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, 0x1p-26f,
                          1.00048828125f, 1.0009765625f, 2049.0f,      2051.0f,  INFINITY, -INFINITY};
  kernels::testing::Random random(3);
  while (k.size() < 64) k.push_back(std::ldexp(random.normal(), static_cast<int>(random.below(44)) - 28));
  WireOp op = store_op(kv, k, k, {0}, {{0, 1, 0, 1, 0, 0, 0}});
  ASSERT_EQ(run(op).status, WIRE_OK);
  const auto got = get<uint16_t>(kv.values, 64);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(got[i], float_to_f16(k[i])) << k[i];
}

TEST_F(HexagonAttention, BlockCausalRowsSeeTheirBlockAndThoseBefore) {
  const Store s = {1, 40, 1, 16, true};
  const WireKv kv = put_store(s);
  std::vector<int32_t> positions;
  for (int32_t i = 0; i < 40; ++i) positions.push_back(i);
  const std::vector<TestSpan> all = {{0, 40, 0, 40, 0, 0, 0}};
  WireOp ops[2] = {store_op(kv, normal_rows(40, 16, 1), normal_rows(40, 16, 2), positions, all),
                   attention_op(kv, 1, normal_rows(40, 16, 3), 40, all)};
  ops[1].index = put_blocks(40, 40, 8);
  ASSERT_EQ(run(ops).status, WIRE_OK);
  expect_equal(ops[1], all);
}

TEST_F(HexagonAttention, HeadsOfWholeVectorsRunInIntegers) {
  attend_to_random({1, 40, 2, 128, true}, 4, 9, 37, 0);  // grouped heads, a tail of keys, a group of rows cut short
  attend_to_random({1, 40, 1, 64, true}, 1, 40, 40, 8);  // rows that see their block and those before
  attend_to_random({1, 33, 1, 128, true}, 1, 3, 1, 0);   // a single key
  attend_to_random({1, 71, 2, 32, true}, 4, 9, 71, 0);   // rows of half a vector, an odd number of them
  attend_to_random({1, 40, 1, 32, true}, 1, 40, 40, 8);
  attend_to_random({1, 64, 1, 128, true}, 1, 2, 64, 0, 12);  // one key takes nearly all
}
TEST_F(HexagonAttention, ChunksOfKeysAreJoined) { attend_to_random({1, 1100, 1, 64, true}, 1, 5, 1090, 0); }

TEST_F(HexagonAttention, ARowDoesNotKnowItsBatchNorKeysThatItDoesNotSee) {
  const WireOp op = attend_to_random({1, 70, 1, 64, true}, 1, 35, 61, 0);
  const auto all = get<float>(op.out[0], 35 * 64);
  // Other keys behind the last that is seen, and one row alone.
  const uint16_t large = float_to_f16(5000);
  for (const WireRef ref : {op.kv.keys, op.kv.values})
    std::memcpy(memory_->data() + ref.offset + 62 * 64 * 2, &large, 2);
  WireOp one = op;
  one.rows = 1, one.in[0].offset += 17 * 64 * 4;
  const std::vector<TestSpan> span = {{0, 1, 0, 61, 0, 0, 0}};
  one.spans = put_spans(span), one.index = put_ranges(span);
  ASSERT_EQ(run(one, 1).status, WIRE_OK);
  const auto alone = get<float>(op.out[0], 64);
  for (size_t i = 0; i < 64; ++i) ASSERT_EQ(alone[i], all[17 * 64 + i]) << i;
}

// One element of one key or value, among many: every row that sees it has an element that is not finite in every head
// over it, one that does not see it has none.
TEST_F(HexagonAttention, KeysAndValuesThatAreNotFiniteMakeRowsThatAreNot) {
  for (const uint32_t dim : {16u, 32u, 64u, 128u})
    for (const bool half : {true, false})
      for (const float bad : {NAN, INFINITY, -INFINITY})
        for (const bool key : {true, false}) {
          SCOPED_TRACE(std::to_string(dim) + (half ? " F16 " : " F32 ") + std::to_string(bad) +
                       (key ? " key" : " value"));
          used_ = 0;
          const Store s = {1, 40, 2, dim, half};
          const WireKv kv = put_store(s);
          std::vector<int32_t> positions;
          for (int32_t i = 0; i < 40; ++i) positions.push_back(i);
          auto k = normal_rows(40, 2 * dim, 1), v = normal_rows(40, 2 * dim, 2);
          (key ? k : v)[33 * 2 * dim + dim + 5] = bad;  // position 33, the second K/V head
          const std::vector<TestSpan> all = {{0, 40, 0, 40, 0, 0, 0}},
                                      some = {{0, 3, 0, 40, 0, 0, 0}, {3, 2, 0, 33, 0, 0, 0}};
          const WireOp ops[2] = {store_op(kv, k, v, positions, all),
                                 attention_op(kv, 4, normal_rows(5, 4 * dim, 3), 5, some)};
          ASSERT_EQ(run(ops).status, WIRE_OK);
          const auto got = get<float>(ops[1].out[0], 5 * 4 * dim);
          for (uint32_t r = 0; r < 5; ++r)
            for (uint32_t h = 0; h < 4; ++h) {
              const float* row = got.data() + (r * 4 + h) * dim;
              ASSERT_EQ(std::all_of(row, row + dim, [](float x) { return std::isfinite(x); }), r >= 3 || h < 2)
                  << r << " " << h;
            }
        }
}

// A query that is not finite: its head of its row, no other.
TEST_F(HexagonAttention, QueriesThatAreNotFiniteMakeTheirHeadSo) {
  for (const uint32_t dim : {16u, 64u}) {
    const WireOp op = attend_to_random({1, 600, 1, dim, true}, 2, 6, 580, 0);
    for (const float bad : {NAN, -INFINITY}) {
      std::memcpy(memory_->data() + op.in[0].offset + (3 * 2 * dim + dim + 1) * 4, &bad, 4);
      ASSERT_EQ(run(op).status, WIRE_OK);
      const auto got = get<float>(op.out[0], 6 * 2 * dim);
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(std::isfinite(got[i]), i / dim != 7) << i / dim << " " << i % dim;
    }
    used_ = 0;
  }
}

// Large scores: the online softmax must rescale, and weights that vanish must vanish.
TEST_F(HexagonAttention, GrowingScoresAreRescaled) {
  const Store s = {1, 100, 1, 32, false};
  const WireKv kv = put_store(s);
  auto k = normal_rows(100, 32, 1);
  for (size_t i = 0; i < k.size(); ++i) k[i] = std::fabs(k[i]) * static_cast<float>(i / 32) * 0.3f;
  std::vector<int32_t> positions;
  for (int32_t i = 0; i < 100; ++i) positions.push_back(i);
  const std::vector<TestSpan> all = {{0, 100, 0, 100, 0, 0, 0}}, some = {{0, 2, 0, 100, 0, 0, 0}};
  const std::vector<float> q(64, 1.0f);
  const WireOp ops[2] = {store_op(kv, k, normal_rows(100, 32, 2), positions, all), attention_op(kv, 1, q, 2, some)};
  ASSERT_EQ(run(ops).status, WIRE_OK);
  expect_equal(ops[1], some);
}

// A trial's rows replace what the store has at their positions for themselves only, and leave it as it was: in floats,
// in integers and by the matrix unit.
TEST_F(HexagonAttention, TrialsSeeTheirOwnRowsAndLeaveNothing) {
  start(32 << 20, 2 << 20);
  struct Kernel {
    uint32_t dim, units;
  };
  for (const auto& [dim, units] : {Kernel{16, 0}, Kernel{64, 0}, Kernel{64, WIRE_UNIT_MATRIX}}) {
    SCOPED_TRACE(testing::Message() << "heads of " << dim << ", units " << units);
    used_ = 0, units_ = units;
    const uint32_t width = 2 * dim;
    const WireKv kv = put_store({1, 30, 2, dim, true}, 33);
    std::vector<int32_t> positions;
    for (int32_t i = 0; i < 30; ++i) positions.push_back(i);
    for (const int32_t p : {4, 9, 9}) positions.push_back(p);
    const std::vector<TestSpan> spans = {{0, 30, 0, 30, 0, 0, 30}, {30, 2, 0, 30, 1, 30, 2}, {32, 1, 0, 30, 1, 32, 1}};
    const auto k = normal_rows(33, width, 1), v = normal_rows(33, width, 2), q = normal_rows(33, width, 3);
    WireOp ops[2] = {store_op(kv, k, v, positions, spans), attention_op(kv, 2, q, 33, spans)};
    ops[1].trial_index = ops[0].index;
    const WireReply reply = run(ops);
    ASSERT_EQ(reply.status, WIRE_OK) << reply.op << " " << reply.detail;
    expect_equal(ops[1], {spans[0]});  // also: the store holds the rows that are no trial's
    // The same keys and values by hand.
    const auto place = [&](uint32_t row, uint32_t position) {
      for (uint32_t h = 0; h < 2; ++h)
        for (uint32_t i = 0; i < dim; ++i) {
          const uint32_t from = row * width + h * dim + i, to = h * kv.head_stride + (position * dim + i) * 2;
          const uint16_t key = float_to_f16(k[from]), value = float_to_f16(v[from]);
          std::memcpy(memory_->data() + kv.keys.offset + to, &key, 2);
          std::memcpy(memory_->data() + kv.values.offset + to, &value, 2);
        }
    };
    place(30, 4), place(31, 9);
    expect_equal(ops[1], {spans[1]});
    place(4, 4), place(32, 9);
    expect_equal(ops[1], {spans[2]});
  }
}

}  // namespace
}  // namespace llada::hexagon
