// Programs with two rotary geometries: every other layer turns other elements of a head by other angles, in the other
// pairing. One table for all, or one that is lost and made anew at every op, is what a device might do.
#include <gtest/gtest.h>

#include "devices/cpu/cpu_device.h"
#include "devices/cuda/cuda_device.h"
#include "devices/value_plan.h"
#include "kernels/kernels.h"
#include "one_stream.h"
#include "sched/executor.h"
#include "small_model.h"
#include "study/sim/sim_device.h"

namespace llada {
namespace {

void second_geometry(ModelConfig& c, int layer) {
  if (layer % 2 == 0) return;
  c.rope_theta = 300;
  c.rotary_dims = 8;
  c.rope_pairing = RopePairing::adjacent;
}

// A third: the same pairs and as many, other angles only.
void other_angles(ModelConfig& c, int layer) {
  if (layer == 2) c.rope_theta = 70;
}

// The model's program with the layers' rope ops changed as the reference is told.
Program forward(const SmallModel& m, StepShape shape) {
  Program p = m.graph.forward(shape);
  int16_t layer = 0;
  p.ropes.clear();
  for (int l = 0; l < 3; ++l) {
    const ModelConfig c = m.rotary_of(l);
    p.ropes.push_back(*make_rope({.rotary = c.rotary_dims,
                                  .adjacent = c.rope_pairing == RopePairing::adjacent,
                                  .theta = static_cast<double>(c.rope_theta)}));
  }
  for (Op& op : p.ops) {
    if (op.kind == OpKind::attention) ++layer;  // the last rope of a layer is before its attention
    if (op.kind == OpKind::rope) op.attributes = layer;
  }
  return p;
}

struct Opened {
  std::string name;
  std::unique_ptr<Device> device;
};
std::vector<Opened> devices(const SmallModel& m) {
  std::vector<Opened> list;
  const auto cpu = [&](std::string_view isa) {
    return std::move(*make_cpu_device({.threads = 2, .isa = isa}, m.graph.weights, m.views, {}));
  };
  for (const auto* table : kernels::available()) list.push_back({std::string(table->isa), cpu(table->isa)});
  std::vector<WeightSize> sizes;
  for (const TensorView& v : m.views) sizes.push_back({v.bytes(), v.type, v.shape.rank > 1});
  list.push_back({"sim", std::move(*make_sim_device(*load_profile("sm8750-paper"), {.window_bytes = 60 << 10},
                                                    m.graph.weights, sizes, cpu("")))});
  if (describe_cuda()) list.push_back({"cuda", std::move(*make_cuda_device({}, m.graph.weights, m.views, cpu("")))});
  return list;
}

TEST(Rotary, LayersMayRotateInDifferentWays) {
  const std::vector<int32_t> tokens = random_tokens(19, 200);
  for (const auto change : {second_geometry, other_angles}) {
    ModelConfig config = small_config(RopePairing::half_split, 2);
    config.vocab = 200;
    SmallModel m = make_small_model(DType::F32, config);
    m.rotary = change;
    const Rows expected = reference_forward(m, tokens);
    for (const auto& [name, device] : devices(m)) {
      Executor executor(*device, [&](StepShape shape) -> Result<std::shared_ptr<const Program>> {
        auto program = std::make_shared<Program>(forward(m, shape));
        LLADA_TRY_STATUS(verify(*program, m.graph.weights));
        return program;
      });
      KvStore kv = store_of(m.graph, 64, DType::F32, device.get());
      OneResult out;
      const auto status = run_one(executor, step_of(tokens, ascending(0, 19), ascending(0, 19)), kv, out);
      ASSERT_TRUE(status) << name << ": " << status.error().message;
      double worst = 0;
      for (size_t p = 0; p < 19; ++p)
        for (size_t t = 0; t < 200; ++t) worst = std::max(worst, std::fabs(out.logits[p * 200 + t] - expected[p][t]));
      EXPECT_LT(worst, 1e-4) << name;
      // The last rows alone, whose table starts at another position.
      OneResult part;
      ASSERT_TRUE(run_one(executor, step_of(tokens, {15, 16, 17, 18}, {1, 3}), kv, part)) << name;
      EXPECT_EQ(std::vector<float>(part.logits.begin() + 200, part.logits.end()),
                std::vector<float>(out.logits.begin() + 18 * 200, out.logits.end()))
          << name;
    }
  }
}

TEST(Rotary, TablesOfSeveralGeometriesAreKept) {
  const auto rope = [](double theta, int64_t rotary) { return *make_rope({.rotary = rotary, .theta = theta}); };
  RopeTables tables;
  const float* first = tables.of(rope(1e4, 16), 64).cos(0);
  const float* second = tables.of(rope(500, 8), 64).cos(0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(tables.of(rope(1e4, 16), 64).cos(0), first) << "nothing is computed again";
    EXPECT_EQ(tables.of(rope(500, 8), 32).cos(0), second);
  }
  const RopeTable& table = tables.of(rope(500, 8), 100);
  for (const int64_t p : {0, 63, 64, 99})
    for (int j = 0; j < 4; ++j)
      EXPECT_EQ(table.sin(p)[j], static_cast<float>(std::sin(static_cast<double>(p) * std::pow(500.0, -2.0 * j / 8))));
  Rope scaled = rope(500, 8);
  scaled.scale = {0.5, 32};
  for (const int64_t p : {0, 31, 32, 99})
    EXPECT_FLOAT_EQ(tables.of(scaled, 100).sin(p)[1],
                    table.sin(p)[1] * static_cast<float>(1 + 0.5 * std::log(1.0 + static_cast<double>(p / 32))));
  for (int theta = 1; theta < 40; ++theta) {
    const RopeTable& other = tables.of(rope(1000 * theta, 4), 3);
    EXPECT_EQ(other.cos(2)[1], static_cast<float>(std::cos(2 * std::pow(1000.0 * theta, -0.5))));
  }
}

}  // namespace
}  // namespace llada
