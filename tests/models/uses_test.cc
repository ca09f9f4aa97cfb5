// What programs do with each weight, which is what a device decides its stored form by, and what they keep of a position.
#include <gtest/gtest.h>

#include <algorithm>

#include "models/model_graph.h"
#include "study/presets.h"

namespace llada {
namespace {

TEST(WeightUses, AreThoseOfTheProgram) {
  for (const char* name : {"llada-8b", "dream-7b", "llada-moe-7b", "llada2-mini"})
    for (const bool tied : {false, true}) {
      ModelConfig config = find_preset(name)->config;
      config.tied_head = tied;
      const auto graph = build_model(config);
      ASSERT_TRUE(graph);
      int picked = 0, vectors = 0;
      for (const WeightInfo& w : graph->weights) {
        const bool embedding = w.name == "token_embd.weight";
        EXPECT_EQ(w.picked_from, embedding) << name << " " << w.name;
        EXPECT_EQ(w.multiplied, w.dims[1] > 1 && (!embedding || tied)) << name << " " << w.name;
        picked += w.picked_from;
        vectors += !w.picked_from && !w.multiplied;
      }
      EXPECT_EQ(picked, 1);
      EXPECT_GE(vectors, 2 * config.layers + 1);
    }
}

// The op's weights are gate, up and down of an expert; each says of itself which it is, and no other weight does.
TEST(ExpertParts, AreThoseOfTheOp) {
  for (const char* name : {"llada-8b", "llada-moe-7b", "llada2-mini", "diffusion-gemma-26b"}) {
    const ModelConfig config = find_preset(name)->config;
    const auto graph = build_model(config);
    ASSERT_TRUE(graph) << name;
    const Program program = *graph->program(plain_shape(1, 1));
    std::vector<ExpertPart> expected(graph->weights.size(), ExpertPart::none);
    for (const Op& op : program.ops) {
      if (op.kind != OpKind::experts) continue;
      for (size_t slot = 0; slot < 3; ++slot)
        for (int e = 0; e < op.experts; ++e)
          expected[static_cast<size_t>(op.weight[slot] + e)] = static_cast<ExpertPart>(slot);
    }
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(graph->weights[i].part, expected[i]) << name << " " << graph->weights[i].name;
    EXPECT_EQ(config.experts > 0, std::ranges::count(expected, ExpertPart::down) > 0) << name;
  }
}

// By the program and not by name or shape: any matrix may be picked from, and a product may have one output.
TEST(WeightUses, KnowNoNames) {
  std::vector<WeightInfo> weights = {{"a", {8, 4}}, {"b", {8, 1}}, {"c", {8, 1}}};
  Program program{.shape = {1, 1}, .values = {{8}, {8}, {1}}, .ops = {}};
  program.ops = {{.kind = OpKind::embed}, {.kind = OpKind::rms_norm}, {.kind = OpKind::matmul}};
  program.ops[0].weight[0] = 0, program.ops[1].weight[0] = 2, program.ops[2].weight[0] = 1;
  for (const WeightInfo& w : weights)
    EXPECT_TRUE(w.picked_from && w.multiplied) << "unless somebody says so, all is kept";
  note_uses(program, weights);
  EXPECT_TRUE(weights[0].picked_from && !weights[0].multiplied);
  EXPECT_TRUE(!weights[1].picked_from && weights[1].multiplied);
  EXPECT_TRUE(!weights[2].picked_from && !weights[2].multiplied);
}

// Whatever layers a file has: all global, all with a window, or both.
TEST(KvOfAModel, IsWhatItsProgramStores) {
  for (const char* name : {"llada-8b", "llada2-mini", "sdar-8b", "nemotron-8b", "diffusion-gemma-26b"})
    for (const int64_t layers : {1, 2, 6}) {
      ModelConfig config = with_layers(*find_preset(name), layers)->config;
      for (const int global : {-1, 0, 1}) {
        if (global >= 0 && !config.gemma) continue;
        if (global >= 0) config.gemma->global.assign(config.gemma->global.size(), global == 1);
        const auto graph = build_model(config);
        ASSERT_TRUE(graph) << name << ": " << graph.error().message;
        const auto program = graph->program(plain_shape(1, 1));
        ASSERT_TRUE(program) << name;
        const KvGeometry needed = kv_geometry(*program);
        ASSERT_EQ(needed.layers, graph->layers) << name;
        for (int layer = 0; layer < needed.layers; ++layer) {
          const KvHeads kept = graph->kv_by_layer.empty() ? KvHeads{graph->kv_heads, graph->head_dim}
                                                          : graph->kv_by_layer[static_cast<size_t>(layer)];
          EXPECT_EQ(needed.of(layer), kept) << name << " of " << layers << " layers, layer " << layer;
        }
      }
    }
}

}  // namespace
}  // namespace llada
