// The reduced head on the emulated DSP: its own logits reduced a second time in double.
#include <algorithm>
#include <cmath>

#include "hexagon_dsp/dsp_test.h"
#include "hexagon_dsp/tolerance.h"
#include "kernels/kernel_test_data.h"

namespace llada::hexagon {
namespace {

using kernels::testing::Fill;
using kernels::testing::normal_rows;

struct Rules {
  std::vector<int32_t> out_of_softmax, never_sampled;
};

class HexagonHead : public DspTest {
 protected:
  static constexpr int64_t kVocabulary = 1500, kInputs = 64, kRows = 5;

  WireOp head_op(DType type, const std::vector<float>& x, const Rules& rules = {}) {
    const auto stored = kernels::testing::make_weights(type, kVocabulary, kInputs, Fill::random, 4);
    const int64_t rows = std::ssize(x) / kInputs;
    WireOp op = make_op(WIRE_HEAD, static_cast<uint32_t>(rows), kInputs);
    op.in[0] = put(x), op.weight[0] = put_weight(kernels::testing::view(type, stored, kVocabulary, kInputs));
    op.predictions = reserve(rows * int64_t{sizeof(WirePrediction)}), op.logits = reserve(rows * kVocabulary * 4);
    op.out_of_softmax_count = static_cast<uint32_t>(rules.out_of_softmax.size());
    op.never_sampled_count = static_cast<uint32_t>(rules.never_sampled.size());
    if (op.out_of_softmax_count > 0) op.out_of_softmax = put(rules.out_of_softmax);
    if (op.never_sampled_count > 0) op.never_sampled = put(rules.never_sampled);
    return op;
  }
  void expect_reduced(const WireOp& op, const Rules& rules = {}) {
    const auto predictions = get<WirePrediction>(op.predictions, op.rows);
    const auto logits = get<float>(op.logits, op.rows * kVocabulary);
    const auto in = [](const std::vector<int32_t>& list, int64_t t) { return std::ranges::count(list, t) > 0; };
    for (int64_t r = 0; r < op.rows; ++r) {
      const float* l = logits.data() + r * kVocabulary;
      int64_t top = -1, best = -1, second = -1;
      for (int64_t t = 0; t < kVocabulary; ++t) {
        if (!in(rules.out_of_softmax, t) && (top < 0 || l[t] > l[top])) top = t;
        if (in(rules.never_sampled, t)) continue;
        if (best < 0 || l[t] > l[best])
          second = best, best = t;
        else if (second < 0 || l[t] > l[second])
          second = t;
      }
      // A term in its chunk: both logits are cut to 2^-28 of a power of two that the chunk's largest reaches, which
      // moves d and so the term by 2^-27 of that logit; 2^-t (tolerance.h); the term cut to 2^-30, and its product with
      // d rounded to 2^-23, of a power of two that the chunk's largest term reaches half of. A chunk's sum is rounded;
      // per merge an exponential, whose argument is a share of d, a sum with the largest one's own 1, a fused step -
      // and for the weighted sum two of these.
      constexpr double kChunks = (kVocabulary + 511) / 512;
      double rest = 0, weighted = 0, rest_off = 0, weighted_off = 0;
      for (int64_t begin = 0; begin < kVocabulary; begin += 512) {
        const int64_t end = std::min<int64_t>(begin + 512, kVocabulary);
        double size = 0, most = -INFINITY;
        for (int64_t t = begin; t < end; ++t) {
          if (t == top || in(rules.out_of_softmax, t)) continue;
          size = std::max(size, std::fabs(double{l[t]})), most = std::max(most, double{l[t]});
        }
        const double largest = std::exp(most - l[top]), cut = std::max(size, std::fabs(double{l[top]})) * 0x1p-27 / kU;
        for (int64_t t = begin; t < end; ++t) {
          if (t == top || in(rules.out_of_softmax, t)) continue;
          const double d = double{l[t]} - l[top], e = std::exp(d);
          const double term = cut + fixed_power(-d) + 1 + std::fabs(d);
          rest += e, weighted += d * e;
          rest_off += gamma(term + kChunks * (kExponential + 2)) * e + largest * 0x1p-29 + kExponentialFloor;
          weighted_off += gamma(term + 1 + kChunks * (kExponential + 4)) * -d * e + e * (cut + 0.5) * kU +
                          largest * (0x1p-23 - d * 0x1p-29) - d * kExponentialFloor;
        }
      }
      const WirePrediction& p = predictions[static_cast<size_t>(r)];
      EXPECT_EQ(p.best, best) << r;
      EXPECT_EQ(p.second, second) << r;
      EXPECT_EQ(p.best_logit, l[best]) << r;
      EXPECT_EQ(p.second_logit, l[second]) << r;
      EXPECT_EQ(p.max, l[top]) << r;
      EXPECT_WITHIN(measured_rest_, p.rest, rest, rest_off) << r;
      EXPECT_WITHIN(measured_weighted_, p.weighted, weighted, weighted_off) << r;
    }
  }
  Measured measured_rest_{"head, rest of the softmax"}, measured_weighted_{"head, weighted rest"};
};

TEST_F(HexagonHead, BestTokensAndSoftmaxSumsOverSeveralChunks) {
  for (const DType type : {DType::Q4_0, DType::Q8_0, DType::F32}) {
    used_ = 0;
    auto x = normal_rows(kRows, kInputs, 7);
    for (int64_t i = 0; i < kInputs; ++i) x[static_cast<size_t>(i)] *= 60;  // a confident row: the rest is tiny
    const WireOp op = head_op(type, x);
    const WireReply reply = run(op);
    ASSERT_EQ(reply.status, WIRE_OK) << reply.detail;
    expect_reduced(op);
    const auto p = get<WirePrediction>(op.predictions, 1)[0];
    EXPECT_LT(p.rest, 1.0f);
  }
}

TEST_F(HexagonHead, ExcludedTokensTakeNoPart) {
  const auto x = normal_rows(kRows, kInputs, 7);
  const WireOp plain = head_op(DType::Q8_0, x);
  ASSERT_EQ(run(plain).status, WIRE_OK);
  const auto predictions = get<WirePrediction>(plain.predictions, kRows);
  // The best of some rows may not be sampled, of others is out of the softmax, of one is both and named twice.
  const Rules rules = {{predictions[0].best, predictions[1].best, predictions[0].best, 3},
                       {predictions[1].best, predictions[2].best, predictions[3].second, 1499}};
  used_ = 0;
  const WireOp op = head_op(DType::Q8_0, x, rules);
  ASSERT_EQ(run(op).status, WIRE_OK);
  expect_reduced(op, rules);
  EXPECT_EQ(get<WirePrediction>(op.predictions, 1)[0].best, predictions[0].best);
}

TEST_F(HexagonHead, TiesGoToTheLowerTokenAndAPredictionDoesNotKnowTheWorkers) {
  auto x = normal_rows(kRows, kInputs, 7);
  std::fill_n(x.data(), kInputs, 0.0f);  // every logit is 0
  const WireOp op = head_op(DType::Q4_0, x);
  ASSERT_EQ(run(op, 1).status, WIRE_OK);
  const auto one = get<WirePrediction>(op.predictions, kRows);
  EXPECT_EQ(one[0].best, 0);
  EXPECT_EQ(one[0].second, 1);
  EXPECT_EQ(one[0].rest, 1499.0f);
  ASSERT_EQ(run(op, 3).status, WIRE_OK);
  const auto three = get<WirePrediction>(op.predictions, kRows);
  EXPECT_EQ(std::memcmp(one.data(), three.data(), one.size() * sizeof one[0]), 0);
}

TEST_F(HexagonHead, NumbersThatAreNotFiniteAreThoseOfTheirRow) {
  used_ = 0;
  ASSERT_EQ(run(head_op(DType::Q4_0, normal_rows(kRows, kInputs, 7))).status, WIRE_OK);
  for (const auto& [bad, type] : {std::pair(-INFINITY, DType::Q4_0), {NAN, DType::Q4_0}, {NAN, DType::F32}}) {
    used_ = 0;
    auto x = normal_rows(kRows, kInputs, 7);
    x[3 * kInputs + 11] = bad;
    const WireOp op = head_op(type, x);
    ASSERT_EQ(run(op).status, WIRE_OK);
    const auto rows = get<WirePrediction>(op.predictions, kRows);
    for (size_t r = 0; r < kRows; ++r) {
      EXPECT_EQ(std::isfinite(rows[r].max) && std::isfinite(rows[r].best_logit), r != 3)
          << bad << " " << traits(type).name << " row " << r;
      EXPECT_EQ(rows[r].reserved, 0u);
    }
  }
}

// The head's product by the matrix unit; what is made of its logits stays.
class HexagonUnitHead : public HexagonHead {
 protected:
  void with_unit(uint32_t vtcm) {
    start(32 << 20, vtcm);
    units_ = WIRE_UNIT_MATRIX;
  }
  void SetUp() override {
    HexagonHead::SetUp();
    if (!IsSkipped()) with_unit(1 << 20);
  }
};

TEST_F(HexagonUnitHead, LogitsAreThoseOfTheUnitsProductAndSumsTheirs) {
  for (const DType type : {DType::Q4_0, DType::Q8_0, DType::F16}) {
    used_ = 0;
    const auto x = normal_rows(kRows, kInputs, 7);
    const Rules rules = {{3, 700}, {1499, 12, 513}};
    const WireOp op = head_op(type, x, rules);
    ASSERT_EQ(run(op).status, WIRE_OK);
    expect_reduced(op, rules);
    const auto logits = get<float>(op.logits, kRows * kVocabulary);
    WireOp product = make_op(WIRE_MATMUL, kRows, kInputs);
    product.in[0] = op.in[0], product.weight[0] = op.weight[0], product.out[0] = op.logits;
    ASSERT_EQ(run(product).status, WIRE_OK);
    EXPECT_EQ(logits, get<float>(op.logits, kRows * kVocabulary)) << traits(type).name;
    units_ = 0;
    ASSERT_EQ(run(op).status, WIRE_OK);
    units_ = WIRE_UNIT_MATRIX;
    EXPECT_NE(logits, get<float>(op.logits, kRows * kVocabulary)) << "the unit was not used";
  }
}

// 256 KiB have room for one tile of 32 rows.
TEST_F(HexagonUnitHead, ARowDoesNotKnowItsBatchNorTheUnitsMemory) {
  constexpr int64_t kMany = 35;
  const auto x = normal_rows(kMany, kInputs, 7);
  const auto predict = [&](int64_t first, int64_t rows) {
    used_ = 0;
    const WireOp op =
        head_op(DType::Q4_0, std::vector<float>(x.begin() + first * kInputs, x.begin() + (first + rows) * kInputs));
    EXPECT_EQ(run(op).status, WIRE_OK);
    expect_reduced(op);
    return get<WirePrediction>(op.predictions, rows);
  };
  const auto same = [](const WirePrediction& a, const WirePrediction& b) { return std::memcmp(&a, &b, sizeof a) == 0; };
  const auto all = predict(0, kMany);
  with_unit(256 << 10);
  const auto again = predict(0, kMany);
  for (size_t r = 0; r < kMany; ++r) EXPECT_TRUE(same(again[r], all[r])) << "row " << r;
  for (const int64_t r : {0, 33}) EXPECT_TRUE(same(predict(r, 1)[0], all[static_cast<size_t>(r)])) << "row " << r;
}

TEST_F(HexagonUnitHead, ARowThatIsNotFiniteIsItsOwn) {
  auto x = normal_rows(kRows, kInputs, 7);
  x[3 * kInputs + 11] = NAN;
  const WireOp op = head_op(DType::Q4_0, x);
  ASSERT_EQ(run(op).status, WIRE_OK);
  const auto rows = get<WirePrediction>(op.predictions, kRows);
  for (size_t r = 0; r < kRows; ++r)
    EXPECT_EQ(std::isfinite(rows[r].max) && std::isfinite(rows[r].best_logit), r != 3) << r;
}

TEST_F(HexagonUnitHead, SampledLogitsFindAUnitThatErrs) {
  const WireOp op = head_op(DType::Q8_0, normal_rows(kRows, kInputs, 7));
  host_too_ = false;
  dsp_->err(HMX_LIES, 1);
  for (const uint32_t sequence : {63u, 64u}) {
    sequence_ = sequence;
    EXPECT_EQ(run(op).status, sequence == 64 ? WIRE_NO_UNIT : WIRE_OK);
  }
  dsp_->err(HMX_RIGHT, 0);
  EXPECT_EQ(run(op).status, WIRE_OK);
}

}  // namespace
}  // namespace llada::hexagon
