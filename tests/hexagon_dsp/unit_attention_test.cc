// Attention by the matrix unit's model on the emulated DSP, against double arithmetic (unit_attention_oracle.h). The
// host has the same bits (DspTest::run). No hardware has run these kernels.
#include "hexagon_dsp/attention_fixture.h"

namespace llada::hexagon {
namespace {

class HexagonUnitAttention : public HexagonAttention {
 protected:
  static constexpr uint32_t kMiB = 1 << 20;

  void SetUp() override {
    HexagonAttention::SetUp();
    if (!IsSkipped()) with_unit(2 * kMiB);
  }
  void with_unit(uint32_t vtcm) {
    start(32 << 20, vtcm);
    units_ = WIRE_UNIT_MATRIX;
  }
  std::vector<float> outputs(const WireOp& op) const {
    return get<float>(op.out[0], int64_t{op.rows} * op.heads * op.head_dim);
  }
  // The op once more without the unit.
  std::vector<float> by_integers(const WireOp& op) {
    units_ = 0;
    EXPECT_EQ(run(op).status, WIRE_OK);
    units_ = WIRE_UNIT_MATRIX;
    return outputs(op);
  }
  // Keys and values by place: key(position, element), of one K/V head.
  template <class Key, class Value>
  WireOp attend_to(uint32_t dim, uint32_t rows, uint32_t keys, const std::vector<float>& q, const Key& key,
                   const Value& value) {
    used_ = 0;
    const WireKv kv = put_store({1, keys, 1, dim, true});
    for (uint32_t p = 0; p < keys; ++p)
      for (uint32_t i = 0; i < dim; ++i) {
        const uint16_t k = float_to_f16(key(p, i)), v = float_to_f16(value(p, i));
        std::memcpy(memory_->data() + kv.keys.offset + (p * dim + i) * 2, &k, 2);
        std::memcpy(memory_->data() + kv.values.offset + (p * dim + i) * 2, &v, 2);
      }
    const WireOp op = attention_op(kv, 1, q, rows, {{0, rows, 0, keys, 0, 0, 0}});
    EXPECT_EQ(run(op).status, WIRE_OK);
    return op;
  }
};

TEST_F(HexagonUnitAttention, LiesWithinTheBoundForEveryHeadSize) {
  WireOp op = attend_to_random({1, 40, 2, 128, true}, 4, 9, 37, 0);  // two heads to a K/V head, a tail of keys
  const auto y = outputs(op);
  EXPECT_NE(y, by_integers(op)) << "the unit was not used";
  attend_to_random({1, 40, 1, 64, true}, 1, 40, 40, 8);      // rows that see their block and those before
  attend_to_random({1, 33, 1, 128, true}, 1, 3, 1, 0);       // a single key
  attend_to_random({1, 71, 2, 32, true}, 14, 9, 71, 0);      // seven heads: a tile has parts of two rows
  attend_to_random({1, 64, 1, 128, true}, 1, 2, 64, 0, 12);  // one key takes nearly all
}

TEST_F(HexagonUnitAttention, ChunksOfALongCanvasAreJoined) {
  attend_to_random({1, 1024, 1, 64, true}, 1, 5, 1024, 0);
  used_ = 0;
  attend_to_random({1, 1100, 1, 32, true}, 2, 3, 1090, 0, 3);
}

// Ranges that begin behind the first key, in one chunk or two, side by side in one tile of rows.
TEST_F(HexagonUnitAttention, RowsOfOneTileSeeTheirOwnWindows) {
  WireOp op = attend_to_random({1, 700, 1, 64, true}, 1, 6, 700, 0);
  op.index = put(std::vector<WireKeys>{{0, 700}, {5, 6}, {500, 530}, {512, 700}, {31, 33}, {0, 512}});
  ASSERT_EQ(run(op).status, WIRE_OK);
  expect_equal(op, {{0, 6, 0, 700, 0, 0, 0}});
}

TEST_F(HexagonUnitAttention, HardCasesLieWithinTheBound) {
  kernels::testing::Random random(4);
  const auto normal = [&](uint32_t, uint32_t) { return static_cast<float>(random.normal()); };
  const auto check = [&](const char* name, const WireOp& op, uint32_t keys) {
    SCOPED_TRACE(name);
    expect_equal(op, {{0, op.rows, 0, keys, 0, 0, 0}});
  };
  const auto q = normal_rows(3, 64, 3);
  check(
      "equal keys",
      attend_to(64, 3, 300, q, [](uint32_t, uint32_t i) { return 0.5f - 0.01f * static_cast<float>(i); }, normal), 300);
  check("zero keys", attend_to(64, 3, 520, q, [](uint32_t, uint32_t) { return 0.0f; }, normal), 520);
  check("one key for all",
        attend_to(
            64, 3, 200, q, [&](uint32_t p, uint32_t i) { return p == 150 ? 30 * q[i] : normal(p, i); }, normal),
        200);
  check("large values",
        attend_to(64, 3, 100, q, normal,
                  [&](uint32_t p, uint32_t i) { return std::clamp(170 * normal(p, i), -511.0f, 511.0f); }),
        100);
  check("small values",
        attend_to(64, 3, 100, q, normal, [&](uint32_t p, uint32_t i) { return 0x1p-12f * normal(p, i); }), 100);
  check("large keys",
        attend_to(
            64, 3, 100, q, [&](uint32_t p, uint32_t i) { return std::clamp(100 * normal(p, i), -511.0f, 511.0f); },
            normal),
        100);
  for (const float factor : {1e-30f, 1e-6f, 30.0f, 300.0f}) {
    auto scaled = q;
    for (float& x : scaled) x *= factor;
    check("queries of any size", attend_to(64, 3, 100, scaled, normal, normal), 100);
  }
}

TEST_F(HexagonUnitAttention, ARowDoesNotKnowItsBatchNorTheUnitsMemory) {
  const Store s = {1, 600, 3, 64, true};
  const WireOp op = attend_to_random(s, 6, 35, 530, 0);
  const auto all = outputs(op);
  for (const uint32_t r : {0u, 17u, 34u}) {
    WireOp one = op;
    one.rows = 1, one.in[0].offset += r * 6 * 64 * 4;
    const std::vector<TestSpan> span = {{0, 1, 0, 530, 0, 0, 0}};
    one.spans = put_spans(span), one.index = put_ranges(span);
    ASSERT_EQ(run(one, 1).status, WIRE_OK);
    const auto alone = get<float>(op.out[0], 6 * 64);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + r * 6 * 64)) << r;
  }
  // Room for one K/V head and 32 queries, then for less: integers.
  with_unit(320 << 10);
  EXPECT_EQ(outputs(attend_to_random(s, 6, 35, 530, 0)), all);
  with_unit(256 << 10);
  units_ = 0;
  const WireOp small = attend_to_random({1, 600, 1, 128, true}, 1, 7, 530, 0);
  const auto integers = outputs(small);
  units_ = WIRE_UNIT_MATRIX;
  ASSERT_EQ(run(small).status, WIRE_OK);
  EXPECT_EQ(outputs(small), integers);
}

// Keys that a row does not see: behind its last, before its first, in the same tile of keys and seen by its neighbours.
TEST_F(HexagonUnitAttention, ARowDoesNotKnowKeysThatItDoesNotSee) {
  WireOp op = attend_to_random({1, 64, 1, 64, true}, 1, 4, 64, 0);
  op.index = put(std::vector<WireKeys>{{3, 40}, {0, 64}, {3, 40}, {41, 64}});
  ASSERT_EQ(run(op).status, WIRE_OK);
  const auto before = outputs(op);
  for (const float other : {200.0f, 600.0f, INFINITY, NAN}) {
    const uint16_t half = float_to_f16(other);
    for (const WireRef ref : {op.kv.keys, op.kv.values})
      for (const uint32_t position : {2u, 40u})
        std::memcpy(memory_->data() + ref.offset + (position * 64 + 7) * 2, &half, 2);
    ASSERT_EQ(run(op).status, WIRE_OK);
    const auto after = outputs(op);
    for (const size_t r : {0u, 2u, 3u})
      EXPECT_TRUE(std::equal(before.begin() + r * 64, before.begin() + (r + 1) * 64, after.begin() + r * 64))
          << other << " row " << r;
    const bool finite = std::all_of(after.begin() + 64, after.begin() + 128, [](float x) { return std::isfinite(x); });
    EXPECT_EQ(finite, std::isfinite(other)) << other;
  }
}

// What FP16 cannot hold is the integer kernels', to the bit; neighbours stay the unit's.
TEST_F(HexagonUnitAttention, QueriesAndKeysOutOfRangeAreTheIntegerKernels) {
  kernels::testing::Random random(6);
  const auto normal = [&](uint32_t, uint32_t) { return static_cast<float>(random.normal()); };
  const auto expect_left = [&](const WireOp& op, const std::vector<bool>& leaves) {
    const auto y = outputs(op), integers = by_integers(op);
    for (size_t r = 0; r < leaves.size(); ++r)
      EXPECT_EQ(std::equal(y.begin() + static_cast<std::ptrdiff_t>(r * 64),
                           y.begin() + static_cast<std::ptrdiff_t>((r + 1) * 64),
                           integers.begin() + static_cast<std::ptrdiff_t>(r * 64)),
                leaves[r])
          << "row " << r;
  };
  auto q = normal_rows(3, 64, 3);
  for (size_t i = 64; i < 128; ++i) q[i] *= 0x1p62f;
  expect_left(attend_to(64, 3, 50, q, normal, normal), {false, true, false});
  for (size_t i = 64; i < 128; ++i) q[i] *= 0x1p-62f * 4096;  // scores of more than 2^12
  expect_left(
      attend_to(64, 3, 50, q, [&](uint32_t p, uint32_t i) { return 4 * normal(p, i); }, normal), {false, true, false});
  const auto usual = normal_rows(3, 64, 3);
  const auto one_large = [&](uint32_t p, uint32_t i) { return p == 33 && i == 5 ? -512.0f : normal(p, i); };
  expect_left(attend_to(64, 3, 50, usual, one_large, normal), {true, true, true});
  expect_left(attend_to(64, 3, 50, usual, normal, one_large), {true, true, true});
}

TEST_F(HexagonUnitAttention, QueriesThatAreNotFiniteMakeTheirHeadSo) {
  const WireOp op = attend_to_random({1, 60, 1, 64, true}, 2, 6, 58, 0);
  for (const float bad : {NAN, -INFINITY}) {
    std::memcpy(memory_->data() + op.in[0].offset + (3 * 2 * 64 + 64 + 1) * 4, &bad, 4);
    ASSERT_EQ(run(op).status, WIRE_OK);
    const auto got = outputs(op);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(std::isfinite(got[i]), i / 64 != 7) << i / 64 << " " << i % 64;
  }
}

// Of each op in 64 batches some products are computed again.
TEST_F(HexagonUnitAttention, SampledProductsFindAUnitThatErrsAndNoOther) {
  const WireOp op = attend_to_random({1, 600, 2, 64, true}, 2, 6, 590, 0);
  for (sequence_ = 0; sequence_ < 64 * 8; sequence_ += 64) EXPECT_EQ(run(op).status, WIRE_OK);
  host_too_ = false;
  for (const uint32_t fault : {HMX_LIES, HMX_SWAPS, HMX_DRIFTS}) {
    dsp_->err(fault, 1);
    for (const uint32_t sequence : {63u, 64u, 6464u}) {
      sequence_ = sequence;
      EXPECT_EQ(run(op).status, sequence % 64 == 0 ? WIRE_NO_UNIT : WIRE_OK) << fault << " " << sequence;
    }
  }
  dsp_->err(HMX_RIGHT, 0);
  dsp_->lack(RING_LACKS_UNIT);
  EXPECT_EQ(run(op).status, WIRE_NO_UNIT);
}

}  // namespace
}  // namespace llada::hexagon
