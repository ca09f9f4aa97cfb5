// Every device over models of other shapes (geometry/peaked_model.h): tied heads, heads of 64 and 128,
// grouped K/V, a feed-forward that is no multiple of 256, 100,000 logits. Against the forward in double
// arithmetic over the same stored weights.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "devices_under_test.h"
#include "geometry/peaked_model.h"
#include "must.h"
#include "one_stream.h"
#include "sched/executor.h"
#include "small_model.h"

namespace llada {
namespace {

bool quick() { return std::getenv("LLADA_TEST_QUICK") != nullptr; }

class GeometryConformance : public OnDevice {
 protected:
  // Logits of the wanted positions of one forward over all tokens.
  static std::vector<float> logits(const SmallModel& m, const std::vector<int32_t>& tokens,
                                   const std::vector<int32_t>& wanted, DType kv_type) {
    auto device = must(GetParam().open(m));
    Executor executor(**device, forwards_of(m.graph));
    const auto n = static_cast<int32_t>(tokens.size());
    KvStore kv = store_of(m.graph, n, kv_type, device->get());
    OneResult out;
    must(run_one(executor, step_of(tokens, ascending(0, n), wanted, m.graph.keys), kv, out));
    return out.logits;
  }
};

// Logits have a deviation of 2.5. The DSP rounds floats to 16 bits; quantized weights multiply activations of
// 8 bits, and in a mixture that can turn a router's choice.
TEST_P(GeometryConformance, LogitsOfEveryShape) {
  for (const PeakedSpec& g : peaked_specs()) {
    if (g.name == "far") continue;  // llada with another constant
    for (const DType type : {DType::F32, DType::F16, DType::Q8_0, DType::Q4_0}) {
      const bool quantized = traits(type).quantized, large = g.name == "large";
      if (large && type != DType::Q4_0) continue;
      if (type == DType::F16 && g.name != "llada") continue;
      if (type == DType::F32 && (quick() || GetParam().name == "hexagon")) continue;
      if (quick() && (g.name != "llada" || type != DType::Q4_0)) continue;
      const SmallModel m = make_peaked_model(g, type);
      std::vector<int32_t> tokens = random_prompt(g, g.offset + 3);
      tokens.insert(tokens.end(), 2, m.config.mask_id);
      const auto n = static_cast<int32_t>(tokens.size());
      const std::vector<int32_t> wanted = {5, n - 3, n - 2, n - 1};
      const Rows expected = reference_logits(m, tokens, wanted);
      const std::vector<float> got = logits(m, tokens, wanted, quantized ? DType::F16 : DType::F32);
      const auto vocab = static_cast<size_t>(m.config.vocab);
      ASSERT_EQ(got.size(), wanted.size() * vocab);
      double worst = 0, squares = 0;
      for (size_t r = 0; r < wanted.size(); ++r)
        for (size_t t = 0; t < vocab; ++t) {
          const double off = std::fabs(got[r * vocab + t] - expected[r][t]);
          worst = std::isfinite(off) ? std::max(worst, off) : HUGE_VAL;
          squares += off * off;
        }
      for (size_t r = 1; r < wanted.size(); ++r) {  // the first has nothing to look back to
        const std::span row(got.data() + r * vocab, vocab);
        EXPECT_EQ(std::ranges::max_element(row) - row.begin(),
                  std::ranges::max_element(expected[r]) - expected[r].begin())
            << g.name << " " << traits(type).name << ": the best token of row " << r;
      }
      const double root = std::sqrt(squares / static_cast<double>(got.size()));
      const bool fixed = GetParam().name == "hexagon";  // 16 bits
      EXPECT_LT(worst, quantized ? 1.2 : fixed ? 0.05 : 5e-4) << g.name << " " << traits(type).name;
      EXPECT_LT(root, quantized ? 0.15 : fixed ? 0.01 : 1e-4) << g.name << " " << traits(type).name;
    }
  }
}

// The router of a single expert is no vector.
TEST_P(GeometryConformance, AMatrixMayHaveOneOutput) {
  ModelConfig config = small_llada_moe();
  config.experts = config.experts_used = 1;
  const SmallModel m = make_small_model(DType::F32, config);
  const std::vector<int32_t> tokens = {3, 1400, 77, 9, 500}, wanted = {1, 4};
  const Rows expected = reference_logits(m, tokens, wanted);
  const std::vector<float> got = logits(m, tokens, wanted, DType::F32);
  ASSERT_EQ(got.size(), 2 * expected[0].size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i / expected[0].size()][i % expected[0].size()], 2e-4);
}

// Stored bytes in a kernel that reads packed ones would be numbers without a meaning.
TEST(CpuWeights, AProductWithWhatIsKeptForPickingRowsIsAnError) {
  const auto& best = *kernels::available().front();
  if (best.packed_bytes(DType::Q8_0, 1500, 64) == 0) GTEST_SKIP() << best.isa << " multiplies by stored bytes";
  ModelConfig config = small_config();
  config.tied_head = true;
  SmallModel m = make_small_model(DType::Q8_0, config);
  m.graph.weights[m.index("token_embd.weight")].multiplied = false;
  auto device = *make_cpu_device({.threads = 1, .isa = best.isa}, m.graph.weights, m.views, {});
  const auto program = std::make_shared<const Program>(m.graph.forward(plain_shape(1, 1)));
  KvStore kv = store_of(m.graph, 4);
  const StepInputs step = step_of({3}, {0}, {0}).over(kv);
  StepOutputs out;
  EXPECT_THAT(why_not(device->submit(
                  {.program = program, .first = 0, .last = program->ops.size(), .inputs = &step, .outputs = &out})),
              testing::HasSubstr("loaded to pick rows from"));
}

// labels: -threads, device native for hexagon cuda_emulated cuda_tensor_emulated, native for cpu_scalar sim_sm8 sim_v81
INSTANTIATE_TEST_SUITE_P(Devices, GeometryConformance, testing::ValuesIn(all_devices()),
                         [](const testing::TestParamInfo<DeviceUnderTest>& device) { return device.param.name; });

}  // namespace
}  // namespace llada
