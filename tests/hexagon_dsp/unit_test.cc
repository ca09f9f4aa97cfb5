// Products of the matrix unit's model on the emulated DSP: sums of integers are exact, all others lie within a derived
// bound of exact arithmetic, and much nearer to it than those of the integer kernels. DspTest::run holds the module on
// the host, which has the definitions in plain C++, to the same bits. No hardware has run these kernels.
#include <fmt/format.h>

#include <cmath>

#include "devices/hexagon/dsp/hmx.h"
#include "hexagon_dsp/dsp_test.h"
#include "hexagon_dsp/nasty_rows.h"
#include "hexagon_dsp/tolerance.h"
#include "hexagon_dsp/unit_bound.h"
#include "kernels/kernel_test_data.h"
#include "tensor/half.h"

namespace llada::hexagon {
namespace {

using kernels::testing::Fill;
using kernels::testing::Random;

// A weight of values far apart, and rows for it.
struct WideProduct {
  WideProduct(DType type, int64_t outputs, int64_t inputs, int64_t rows)
      : stored(kernels::testing::make_weights(type, outputs, inputs, Fill::wide, 5)),
        view(kernels::testing::view(type, stored, outputs, inputs)),
        x(nasty_rows(rows, inputs, 9)) {}
  const kernels::testing::Bytes stored;
  const TensorView view;
  const std::vector<float> x;
};

class HexagonUnit : public DspTest {
 protected:
  static constexpr uint32_t kMiB = 1 << 20;

  void SetUp() override {
    DspTest::SetUp();
    if (!IsSkipped()) with_unit(8 * kMiB);
  }
  void with_unit(uint32_t vtcm) {
    start(32 << 20, vtcm);
    units_ = WIRE_UNIT_MATRIX;
  }
  // Rows times a weight, or its first rows.
  std::vector<float> product(const TensorView& weight, const std::vector<float>& x, int64_t rows) {
    const int64_t inputs = weight.shape.columns(), outputs = weight.shape.rows();
    used_ = 0;
    WireOp op = make_op(WIRE_MATMUL, static_cast<uint32_t>(rows), static_cast<uint32_t>(inputs));
    op.in[0] = put(std::span(x).first(static_cast<size_t>(rows * inputs)));
    op.weight[0] = weight_ = put_weight(weight);
    op.out[0] = reserve(rows * outputs * 4);
    EXPECT_EQ(run(op).status, wanted_);
    return get<float>(op.out[0], rows * outputs);
  }
  std::vector<float> by_integers(const TensorView& weight, const std::vector<float>& x, int64_t rows) {
    units_ = 0;
    auto y = product(weight, x, rows);
    units_ = WIRE_UNIT_MATRIX;
    return y;
  }

  WireWeight weight_{};
  uint32_t wanted_ = WIRE_OK;  // status
};

TEST_F(HexagonUnit, IsOfferedWhereItsMemoryIsAndNowhereElse) {
  EXPECT_EQ(dsp_->query().units, uint32_t{WIRE_UNIT_MATRIX});
  start(1 << 20);
  EXPECT_EQ(dsp_->query().units, 0u);
}

// As where a product is divided: the same sums, and the columns behind them are somebody else's.
TEST_F(HexagonUnit, APitchMovesRowsApartAndLeavesWhatIsBetween) {
  constexpr int64_t kRows = 33, kOutputs = 70, kInputs = 96, kPitch = 101;
  const WideProduct w(DType::Q8_0, kOutputs, kInputs, kRows);
  const auto plain = product(w.view, w.x, kRows);
  WireOp op = make_op(WIRE_MATMUL, kRows, kInputs);
  op.in[0] = put(w.x), op.weight[0] = put_weight(w.view), op.pitch[0] = kPitch;
  std::vector<float> expected(kRows * kPitch, 7.0f);
  op.out[0] = put(expected);
  ASSERT_EQ(run(op).status, WIRE_OK);
  for (int64_t r = 0; r < kRows; ++r)
    std::copy_n(plain.begin() + r * kOutputs, kOutputs, expected.begin() + r * kPitch);
  EXPECT_EQ(get<float>(op.out[0], kRows * kPitch), expected);
}

// Every element of rows and weights differs from its neighbours, so that a wrong place gives a wrong sum.
TEST_F(HexagonUnit, SumsOfIntegersAreExactAndRoundedOnce) {
  for (const auto& [inputs, rows] : {std::pair<int64_t, int64_t>{32, 9}, {96, 33}, {4096, 9}}) {
    SCOPED_TRACE(fmt::format("{} inputs, {} rows", inputs, rows));
    constexpr int64_t kOutputs = 40;
    Random random(static_cast<uint64_t>(inputs));
    const auto integer = [&](int64_t most) {
      return static_cast<float>(static_cast<int64_t>(random.below(2 * most + 1)) - most);
    };
    std::vector<float> weights, x;
    for (int64_t i = 0; i < kOutputs * inputs; ++i) weights.push_back(i % 32 == 0 ? 127 : integer(127));
    for (int64_t i = 0; i < rows * inputs; ++i) x.push_back(integer(127));
    kernels::testing::Bytes stored(kOutputs * row_bytes(DType::Q8_0, inputs));
    quantize_row(DType::Q8_0, weights.data(), stored.data(), kOutputs * inputs);
    const auto y = product(kernels::testing::view(DType::Q8_0, stored, kOutputs, inputs), x, rows);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t n = 0; n < kOutputs; ++n) {
        int64_t sum = 0;
        for (int64_t i = 0; i < inputs; ++i)
          sum += static_cast<int64_t>(x[static_cast<size_t>(r * inputs + i)]) *
                 static_cast<int64_t>(weights[static_cast<size_t>(n * inputs + i)]);
        int exponent = 0;
        std::frexp(static_cast<double>(sum), &exponent);
        const double want =
            std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(sum), 11 - exponent)), exponent - 11);
        ASSERT_EQ(y[static_cast<size_t>(r * kOutputs + n)], want) << "row " << r << " output " << n << " of " << sum;
      }
  }
}

class HexagonUnitProducts : public HexagonUnit, public testing::WithParamInterface<ProductCase> {};

TEST_P(HexagonUnitProducts, LieWithinTheBoundOfTheExactProduct) {
  const auto [type, n, k, rows, fill] = GetParam();
  const auto stored = kernels::testing::make_weights(type, n, k, fill, 5);
  const auto view = kernels::testing::view(type, stored, n, k);
  const auto x = nasty_rows(rows, k, 9);
  const auto integers = by_integers(view, x, rows), y = product(view, x, rows);
  EXPECT_NE(y, integers) << "the unit was not used";
  const std::byte* packed = memory_->data() + weight_.data.offset;
  std::vector<float> exact(static_cast<size_t>(k));
  Measured measured(fmt::format("matrix unit, {}", traits(type).name));
  for (int64_t c = 0; c < n; ++c) {
    const PackedOutput w = unpack_output(weight_.layout, packed, c, k);
    dequantize_row(type, view.row(c), exact.data(), k);
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = x.data() + r * k;
      double want = 0;
      for (int64_t i = 0; i < k; ++i) want += static_cast<double>(exact[static_cast<size_t>(i)]) * row[i];
      EXPECT_WITHIN(measured, y[static_cast<size_t>(r * n + c)], want, unit_bound(weight_.layout, w, row, k))
          << "row " << r << " output " << c;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, HexagonUnitProducts,
                         testing::Values(ProductCase{DType::Q4_0, 33, 96, 9}, ProductCase{DType::Q4_0, 64, 256, 32},
                                         ProductCase{DType::Q4_0, 300, 64, 33},
                                         ProductCase{DType::Q4_0, 31, 64, 10, Fill::low},
                                         ProductCase{DType::Q4_0, 32, 4096, 9, Fill::high},
                                         ProductCase{DType::Q4_0, 32, 12288, 9, Fill::alternate},
                                         ProductCase{DType::Q4_0, 32, 64, 256}, ProductCase{DType::Q8_0, 33, 96, 9},
                                         ProductCase{DType::Q8_0, 64, 256, 40}, ProductCase{DType::Q8_0, 32, 32, 100},
                                         ProductCase{DType::Q8_0, 32, 12288, 9, Fill::alternate},
                                         ProductCase{DType::F16, 33, 96, 9}, ProductCase{DType::F16, 64, 1056, 12},
                                         ProductCase{DType::BF16, 32, 64, 33}),
                         testing::PrintToStringParamName());

// Also beside channels that are much larger than the rest, as trained models have them.
TEST_F(HexagonUnit, ErrorsAreAtMostAFifthOfTheIntegerKernels) {
  constexpr int64_t kInputs = 4096, kOutputs = 32, kRows = 9;
  for (const DType type : {DType::Q4_0, DType::Q8_0})
    for (const float factor : {1.0f, 32.0f, 100.0f}) {
      const auto stored = kernels::testing::make_weights(type, kOutputs, kInputs, Fill::random, 3);
      const auto view = kernels::testing::view(type, stored, kOutputs, kInputs);
      auto x = kernels::testing::normal_rows(kRows, kInputs, 11);
      for (int64_t r = 0; r < kRows; ++r)
        for (const int64_t channel : {77, 1900, 4001}) x[static_cast<size_t>(r * kInputs + channel)] *= factor;
      const auto integers = by_integers(view, x, kRows), y = product(view, x, kRows);
      std::vector<float> w(kInputs);
      double size = 0, off = 0, off_integers = 0;
      for (int64_t n = 0; n < kOutputs; ++n) {
        dequantize_row(type, view.row(n), w.data(), kInputs);
        for (int64_t r = 0; r < kRows; ++r) {
          double want = 0;
          for (int64_t i = 0; i < kInputs; ++i)
            want += static_cast<double>(w[static_cast<size_t>(i)]) * x[static_cast<size_t>(r * kInputs + i)];
          const auto at = static_cast<size_t>(r * kOutputs + n);
          size += want * want, off += std::pow(y[at] - want, 2), off_integers += std::pow(integers[at] - want, 2);
        }
      }
      const double error = std::sqrt(off / size), error_integers = std::sqrt(off_integers / size);
      fmt::print("error (emulated), {}, 3 of 4,096 channels x {:.0f}: matrix unit {:.2e}, integers {:.2e}\n",
                 traits(type).name, factor, error, error_integers);
      EXPECT_LT(error, error_integers / 5) << traits(type).name << " x " << factor;
    }
}

TEST_F(HexagonUnit, ARowDoesNotKnowItsBatch) {
  constexpr int64_t kInputs = 160, kOutputs = 70, kRows = 75;
  const WideProduct wide(DType::Q4_0, kOutputs, kInputs, kRows);
  const TensorView& view = wide.view;
  const std::vector<float>& x = wide.x;
  const auto all = product(view, x, kRows);
  EXPECT_NE(all, by_integers(view, x, kRows)) << "the unit was not used";
  for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 1}, {3, 4}, {20, 8}, {20, 9}, {66, 9}, {74, 1}}) {
    const std::vector<float> part(x.begin() + first * kInputs, x.begin() + (first + rows) * kInputs);
    const auto y = product(view, part, rows);
    EXPECT_TRUE(std::equal(y.begin(), y.end(), all.begin() + first * kOutputs)) << first << " " << rows;
  }
}

TEST_F(HexagonUnit, MemoryDecidesHowManyRowsAreThereAtATimeAndNoBit) {
  constexpr int64_t kInputs = 96, kOutputs = 330, kRows = 70;
  const WideProduct wide(DType::Q4_0, kOutputs, kInputs, kRows);
  const auto all = product(wide.view, wide.x, kRows), integers = by_integers(wide.view, wide.x, kRows);
  // A tile of rows, a stripe of weights, and the results of four tiles: the least.
  constexpr uint32_t kLeast = 2 * dsp::kUnitStripeBytes + 4 * 2048 + 3 * 256;
  static_assert(kLeast < 256 << 10, "what a module asks for at least");
  for (const uint32_t vtcm : {256u << 10, 320u << 10, 512u << 10}) {
    with_unit(vtcm);
    EXPECT_EQ(product(wide.view, wide.x, kRows), all) << vtcm;
  }
  // The same rule for one row and many: 1,056 inputs are two stripes, which do not fit into the least memory.
  with_unit(256 << 10);
  for (const int64_t rows : {1, 9}) {
    const WideProduct longer(DType::Q4_0, 32, 1056, rows);
    EXPECT_EQ(product(longer.view, longer.x, rows), by_integers(longer.view, longer.x, rows)) << rows;
  }
}

TEST_F(HexagonUnit, ManyInputsAndStoredFloatsAreTheIntegerKernels) {
  for (const auto& [type, inputs] : {std::pair<DType, int64_t>{DType::Q4_0, 12288 + 32}, {DType::F32, 64}}) {
    const WideProduct wide(type, 32, inputs, 9);
    EXPECT_EQ(product(wide.view, wide.x, 9), by_integers(wide.view, wide.x, 9)) << traits(type).name << inputs;
  }
}

// The session goes on without it: the host asks again for integers.
TEST_F(HexagonUnit, AUnitThatNoThreadIsGivenEndsTheBatch) {
  constexpr int64_t kInputs = 96, kOutputs = 330, kRows = 40;
  const WideProduct wide(DType::Q4_0, kOutputs, kInputs, kRows);
  const auto given = product(wide.view, wide.x, kRows), integers = by_integers(wide.view, wide.x, kRows);
  host_too_ = false;  // its model is given
  dsp_->lack(RING_LACKS_UNIT);
  wanted_ = WIRE_NO_UNIT;
  product(wide.view, wide.x, kRows);
  wanted_ = WIRE_OK;
  EXPECT_EQ(by_integers(wide.view, wide.x, kRows), integers);
  dsp_->lack(0);
  EXPECT_EQ(product(wide.view, wide.x, kRows), given);
}

TEST_F(HexagonUnit, IsAskedForByVotesOneAfterTheOther) {
  const auto with = [&](uint32_t vtcm, int32_t status, uint32_t lacks) {
    dsp_ = std::make_unique<DspProcess>(0, vtcm);
    dsp_->refuse_unit(status), dsp_->lack(lacks);
    return dsp_->vote(WIRE_MAP_UP | WIRE_MAP_MATRIX);
  };
  struct Case {
    uint32_t vtcm;
    int32_t status;
    uint32_t lacks, refused;
    bool offered;
  };
  for (const Case& c : {Case{8 * kMiB, 0, 0, 0, true},
                        {8 * kMiB, 20, 0, WIRE_VOTE_MATRIX, false},
                        {0, 0, 0, WIRE_VOTE_MEMORY, false},
                        {128 << 10, 0, 0, WIRE_VOTE_MEMORY, false},
                        {8 * kMiB, 0, RING_LACKS_VOTES, WIRE_VOTE_ABSENT, false}}) {
    const WireReply reply = with(c.vtcm, c.status, c.lacks);
    EXPECT_EQ(reply.op, c.refused) << c.vtcm << " " << c.status;
    EXPECT_EQ(reply.detail, static_cast<uint32_t>(c.status));
    EXPECT_EQ(dsp_->query().units, c.offered ? uint32_t{WIRE_UNIT_MATRIX} : 0u) << c.vtcm << " " << c.status;
    EXPECT_EQ(reply.lines, c.offered ? c.vtcm : 0u);
  }
}

// A row of a batch that no vote has preceded, or whose vote was given back, meets no instruction of the unit.
TEST_F(HexagonUnit, IsRefusedToABatchWithoutAVote) {
  const WideProduct wide(DType::Q4_0, 32, 64, 9);
  product(wide.view, wide.x, 9);
  EXPECT_EQ(dsp_->vote(WIRE_MAP_MATRIX).op, 0u);
  EXPECT_EQ(dsp_->query().units, 0u);
  wanted_ = WIRE_UNSUPPORTED, host_too_ = false;
  product(wide.view, wide.x, 9);
}

// Of each op in 64 batches one is computed again, whichever of its results are wrong.
TEST_F(HexagonUnit, SampledSumsFindAUnitThatErrs) {
  constexpr int64_t kRows = 40, kInputs = 256;
  const auto stored = kernels::testing::make_weights(DType::Q8_0, 96, kInputs, Fill::random, 5);
  const auto view = kernels::testing::view(DType::Q8_0, stored, 96, kInputs);
  const auto x = kernels::testing::normal_rows(kRows, kInputs, 9);
  host_too_ = false;
  for (const uint32_t fault : {HMX_LIES, HMX_SWAPS}) {
    dsp_->err(fault, 1);
    for (const uint32_t sequence : {63u, 64u, 6464u}) {
      sequence_ = sequence, wanted_ = sequence % 64 == 0 ? WIRE_NO_UNIT : WIRE_OK;
      product(view, x, kRows);
    }
  }
}

TEST_F(HexagonUnit, SampledSumsNeverBlameAUnitThatIsRight) {
  for (const DType type : {DType::Q4_0, DType::Q8_0, DType::F16, DType::BF16})
    for (const int64_t inputs : {32, 1056}) {
      const WideProduct wide(type, 64, inputs, 24);
      for (sequence_ = 0; sequence_ < 64 * 6; sequence_ += 64) product(wide.view, wide.x, 24);
    }
}

TEST_F(HexagonUnit, ARowThatIsNotFiniteHasNoFiniteProductAndNoNeighbours) {
  constexpr int64_t kRows = 12, kInputs = 96, kOutputs = 40;
  std::vector<float> weights(kOutputs * kInputs);
  Random random(4);
  for (size_t i = 7 * kInputs; i < weights.size(); ++i) weights[i] = random.normal();  // the first 7 outputs: zeros
  for (const DType type : {DType::Q4_0, DType::Q8_0, DType::F16})
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      kernels::testing::Bytes stored(kOutputs * row_bytes(type, kInputs));
      quantize_row(type, weights.data(), stored.data(), kOutputs * kInputs);
      auto x = kernels::testing::normal_rows(kRows, kInputs, 1);
      x[5 * kInputs + 70] = bad;
      const auto y = product(kernels::testing::view(type, stored, kOutputs, kInputs), x, kRows);
      for (size_t i = 0; i < y.size(); ++i)
        ASSERT_EQ(std::isfinite(y[i]), i / kOutputs != 5) << i / kOutputs << " " << i % kOutputs;
    }
}

// Three products of one op in different formats; threads of any number. Weights of arbitrary bytes: whatever they mean,
// both modules mean the same.
TEST_F(HexagonUnit, WeightsOfAnyBytesAndThreadsOfAnyNumberGiveTheSameBits) {
  constexpr uint32_t kRows = 37, kInputs = 160, kOutputs = 96;
  const auto x = nasty_rows(kRows, kInputs, 3);
  Random random(8);
  std::vector<float> first;
  for (const uint32_t threads : {1u, 2u, 4u}) {
    used_ = 0, random = Random(8);
    WireOp op = make_op(WIRE_MATMUL, kRows, kInputs);
    op.in[0] = put(x);
    for (const WireLayout layout : {WIRE_TILE_Q4_0, WIRE_TILE_Q8_0, WIRE_TILE_F16}) {
      const auto i = static_cast<size_t>(layout - WIRE_TILE_Q4_0);
      std::vector<uint8_t> bytes(static_cast<size_t>(layout_bytes(layout, kOutputs, kInputs)));
      for (uint8_t& b : bytes) b = static_cast<uint8_t>(random.below(256));
      for (size_t at = 0, tile = bytes.size() / 3; at < bytes.size(); at += tile)
        for (size_t n = 0; n < 32; ++n) bytes[at + 4 * n + 1] = bytes[at + 4 * n + 2] = bytes[at + 4 * n + 3] = 0;
      op.weight[i] = {put(bytes), layout, kInputs, kOutputs};
    }
    for (WireRef& out : op.out) out = reserve(kRows * kOutputs * 4);
    ASSERT_EQ(run(op, threads).status, WIRE_OK);
    std::vector<float> all;
    for (const WireRef out : op.out) {
      const auto y = get<float>(out, kRows * kOutputs);
      all.insert(all.end(), y.begin(), y.end());
    }
    if (first.empty()) first = all;
    EXPECT_EQ(std::memcmp(all.data(), first.data(), all.size() * 4), 0) << threads;
  }
}

// What the model takes to be fatal on hardware ends the process.
TEST(HexagonUnitModel, FaultsOnOperandsThatHardwareCannotHave) {
  constexpr uint32_t kRegion = 256 << 10;
  struct alignas(kRegion) Memory {
    uint8_t bytes[2 * kRegion];
  };
  const auto memory = std::make_unique<Memory>();
  uint8_t* const at = memory->bytes;
  std::fill_n(at, sizeof memory->bytes, uint8_t{0});
  hmx_model_memory(at, sizeof memory->bytes, HMX_RIGHT, 0);
  dsp::unit_table(at);
  dsp::unit_clear();
  dsp::unit_multiply(at, at + kRegion, 32);
  dsp::unit_convert();
  dsp::unit_store(at + 2048);
  EXPECT_DEATH(dsp::unit_multiply(at + kRegion - 2048, at, 2), "") << "across 256 KiB";
  EXPECT_DEATH(dsp::unit_multiply(at, at + kRegion - 2048, 2), "") << "weights across 256 KiB";
  EXPECT_DEATH(dsp::unit_multiply(at, at, 33), "") << "too many tiles";
  EXPECT_DEATH(dsp::unit_multiply(at + 128, at, 1), "") << "rows that are not aligned";
  EXPECT_DEATH(dsp::unit_multiply(at + 2 * kRegion, at, 1), "") << "beyond its memory";
  EXPECT_DEATH(dsp::unit_table(at + 128), "") << "a table that is not aligned";
  EXPECT_DEATH(dsp::unit_store(at + 128), "") << "results that are not aligned";
  hmx_model_memory(nullptr, 0, HMX_RIGHT, 0);
  EXPECT_DEATH(dsp::unit_multiply(at, at, 1), "") << "by a thread that has no unit";
}

}  // namespace
}  // namespace llada::hexagon
