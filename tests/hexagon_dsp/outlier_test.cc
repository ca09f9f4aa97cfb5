// How far the emulated DSP's products and attention lie from double arithmetic when some inputs are much larger than
// the rest, as the activations of trained transformers are: beside int8 with a scale per 32 inputs (what the formats
// were made for), per 256 and per row, all of them summed exactly. Root mean square of the error over that of the
// result.
#include <fmt/format.h>

#include <cmath>

#include "hexagon_dsp/dsp_test.h"
#include "kernels/kernel_test_data.h"

namespace llada::hexagon {
namespace {

using kernels::testing::normal_rows;

struct Pattern {
  int channels;  // larger than the rest, the same in every row; 0: none
  float factor;
  bool own = false;  // other channels in every row
};
std::string name(const Pattern& p) {
  if (p.channels == 0) return "normal";
  return fmt::format("{} of 4,096 x {:.0f}{}", p.channels, p.factor, p.own ? ", other ones in each row" : "");
}

class HexagonOutliers : public DspTest {
 protected:
  static constexpr int64_t kRows = 9, kInputs = 4096, kOutputs = 64;

  static std::vector<float> activations(const Pattern& p) {
    auto x = normal_rows(kRows, kInputs, 11);
    for (int64_t r = 0; r < kRows; ++r) {
      kernels::testing::Random random(p.own ? 100 + static_cast<uint64_t>(r) : 5);
      for (int i = 0; i < p.channels; ++i)
        x[static_cast<size_t>(r * kInputs + static_cast<int64_t>(random.below(kInputs)))] *= p.factor;
    }
    return x;
  }
  // x as int8 with one scale per `group` inputs, as floats again.
  static std::vector<double> rounded(const std::vector<float>& x, int64_t group) {
    std::vector<double> y;
    for (size_t first = 0; first < x.size(); first += static_cast<size_t>(group)) {
      float most = 0;
      for (size_t i = first; i < first + static_cast<size_t>(group); ++i) most = std::max(most, std::fabs(x[i]));
      const double scale = most / 127.0;
      for (size_t i = first; i < first + static_cast<size_t>(group); ++i)
        y.push_back(scale > 0 ? std::nearbyint(x[i] / scale) * scale : 0);
    }
    return y;
  }
};

TEST_F(HexagonOutliers, ProductsAreAsGoodAsGroupsOf32) {
  std::vector<Pattern> patterns = {{0, 1}};
  for (const int channels : {3, 16})
    for (const float factor : {8.0f, 32.0f, 100.0f}) patterns.push_back({channels, factor});
  patterns.push_back({3, 100, true});
  for (const Pattern& pattern : patterns) {
    const auto x = activations(pattern);
    const std::vector<double> inputs[4] = {{x.begin(), x.end()}, rounded(x, 32), rounded(x, 256), rounded(x, kInputs)};
    std::string line = fmt::format("error (emulated), {}:", name(pattern));
    for (const DType type : {DType::Q4_0, DType::Q8_0, DType::F16, DType::BF16}) {
      used_ = 0;
      const auto stored = kernels::testing::make_weights(type, kOutputs, kInputs, kernels::testing::Fill::random, 3);
      const auto view = kernels::testing::view(type, stored, kOutputs, kInputs);
      WireOp op = make_op(WIRE_MATMUL, kRows, kInputs);
      op.in[0] = put(x), op.out[0] = reserve(kRows * kOutputs * 4), op.weight[0] = put_weight(view);
      ASSERT_EQ(run(op).status, WIRE_OK);
      const auto y = get<float>(op.out[0], kRows * kOutputs);
      std::vector<float> w(kInputs);
      double size = 0, off[4] = {};  // the DSP; groups of 32, of 256, of a row
      for (int64_t n = 0; n < kOutputs; ++n) {
        dequantize_row(type, view.row(n), w.data(), kInputs);
        for (int64_t r = 0; r < kRows; ++r) {
          double sums[4] = {};
          for (size_t k = 0; k < 4; ++k)
            for (int64_t i = 0; i < kInputs; ++i)
              sums[k] += w[static_cast<size_t>(i)] * inputs[k][static_cast<size_t>(r * kInputs + i)];
          size += sums[0] * sums[0];
          off[0] += std::pow(y[static_cast<size_t>(r * kOutputs + n)] - sums[0], 2);
          for (size_t k = 1; k < 4; ++k) off[k] += std::pow(sums[k] - sums[0], 2);
        }
      }
      double error[4];
      for (size_t k = 0; k < 4; ++k) error[k] = std::sqrt(off[k] / size);
      line += fmt::format(" {} {:.2e}", traits(type).name, error[0]);
      if (type == DType::Q4_0)
        line += fmt::format(" (32: {:.2e}, 256: {:.2e}, row: {:.2e})", error[1], error[2], error[3]);
      const bool floats = type == DType::F16 || type == DType::BF16;
      if (floats)
        EXPECT_LT(error[0], 3e-4) << name(pattern);  // 15 bits per 32 inputs
      else
        EXPECT_LT(error[0], 1.03 * error[1]) << name(pattern);
      EXPECT_GT(error[3], error[1]) << "the comparison has lost its meaning";
    }
    fmt::print("{}\n", line);
  }
}

// Large channels of keys and values: a tile of 32 keys has one exponent, so they take digits from all others.
TEST_F(HexagonOutliers, AttentionKeepsItsDigitsBesideLargeChannels) {
  constexpr uint32_t kDim = 128, kKeys = 96, kQueries = 6;
  for (const float factor : {1.0f, 8.0f, 32.0f, 100.0f})
    for (const bool in_keys : {true, false}) {
      used_ = 0;
      const auto q = normal_rows(kQueries, kDim, 1);
      std::vector<std::vector<uint16_t>> store(2);
      for (size_t which = 0; which < 2; ++which) {
        auto values = normal_rows(kKeys, kDim, 2 + which);
        for (uint32_t i = 0; i < kKeys; ++i)
          for (const uint32_t channel : {7u, 55u, 120u})
            if (in_keys == (which == 0)) values[i * kDim + channel] *= factor;
        for (const float v : values) store[which].push_back(float_to_f16(v));
      }
      WireOp op = make_op(WIRE_ATTENTION, kQueries);
      op.in[0] = put(q), op.out[0] = reserve(kQueries * kDim * 4);
      op.parameter = 1 / std::sqrt(static_cast<float>(kDim));
      op.heads = 1, op.head_dim = kDim, op.spans = put_spans({{0, kQueries, 0, kKeys, 0, 0, 0}}),
      op.index = put_ranges({{0, kQueries, 0, kKeys, 0, 0, 0}}), op.span_count = 1;
      op.kv = {put(store[0]), put(store[1]), kKeys * kDim * 2, kKeys * kDim * 2, 1, kKeys, 1, kDim, 1, kNowhere};
      ASSERT_EQ(run(op).status, WIRE_OK);
      const auto y = get<float>(op.out[0], kQueries * kDim);
      double off = 0, size = 0;  // of the channels that are not large
      for (uint32_t r = 0; r < kQueries; ++r) {
        std::vector<double> weights;
        double top = -INFINITY, sum = 0;
        for (uint32_t k = 0; k < kKeys; ++k) {
          double score = 0;
          for (uint32_t i = 0; i < kDim; ++i) score += double{q[r * kDim + i]} * f16_to_float(store[0][k * kDim + i]);
          weights.push_back(score / std::sqrt(double{kDim}));
          top = std::max(top, weights.back());
        }
        for (double& w : weights) sum += w = std::exp(w - top);
        for (uint32_t i = 0; i < kDim; ++i) {
          double want = 0;
          for (uint32_t k = 0; k < kKeys; ++k) want += weights[k] / sum * f16_to_float(store[1][k * kDim + i]);
          if (i == 7 || i == 55 || i == 120) continue;
          off += std::pow(y[r * kDim + i] - want, 2), size += want * want;
        }
      }
      const double error = std::sqrt(off / size);
      fmt::print("error (emulated), attention, 3 of 128 channels of the {} x {:.0f}: {:.2e}\n",
                 in_keys ? "keys" : "values", factor, error);
      EXPECT_LT(error, in_keys ? 2e-3 : 2e-4 + 4e-5 * factor) << factor;
    }
}

}  // namespace
}  // namespace llada::hexagon
