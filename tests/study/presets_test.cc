// The presets against what the models' authors publish: parameter counts and tensor lists.
#include "study/presets.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace llada {
namespace {

Preset preset(std::string_view name) { return find_preset(name).value(); }

// Model cards: 8,015,581,184 (LLaDA-8B, and LLaDA-1.5 which only trains it further), 7,615,616,512 (Dream,
// the geometry of Qwen2.5-7B), 7.36 billion (LLaDA-MoE), 16.26 billion (LLaDA2.0-mini), 25.2 billion
// (DiffusionGemma without its vision tower).
TEST(Presets, ParametersAreThePublishedOnes) {
  EXPECT_EQ(parameters_of(preset("llada-8b")), 8'015'581'184);
  EXPECT_EQ(parameters_of(preset("llada-1.5")), 8'015'581'184);
  EXPECT_EQ(parameters_of(preset("dream-7b")), 7'615'616'512);
  EXPECT_EQ(parameters_of(preset("llada-moe-7b")), 7'356'880'896);
  EXPECT_EQ(parameters_of(preset("llada2-mini")), 16'255'643'392);
  EXPECT_NEAR(static_cast<double>(parameters_of(preset("diffusion-gemma-26b"))) / 1e9, 25.2, 0.06);
  EXPECT_EQ(parameters_of(preset("illada-8b")), 7'615'025'152);
  EXPECT_EQ(parameters_of(preset("qwen3-0.6b")), 596'049'920);
  EXPECT_EQ(parameters_of(preset("sdar-8b")), 8'190'735'360);
  EXPECT_EQ(parameters_of(preset("nemotron-8b")), 8'489'553'920);  // Ministral-3-8B's
}

TEST(Presets, TensorCountsAreThePublishedOnes) {
  EXPECT_EQ(tensors_of(preset("llada-8b")).size(), 3 + 9 * 32u);
  EXPECT_EQ(tensors_of(preset("dream-7b")).size(), 3 + 12 * 28u);
  EXPECT_EQ(tensors_of(preset("llada-moe-7b")).size(), 3 + 12 * 16u);
  EXPECT_EQ(tensors_of(preset("llada2-mini")).size(), 3 + 8 * 20 + 3 + 8 * 19u);
  // As uploaded, but for the experts' gate and up, which are one tensor there.
  EXPECT_EQ(tensors_of(preset("diffusion-gemma-26b")).size(), 692 + 30u);
}

TEST(Presets, TensorsAreNamedOnceAndKnowTheirLayer) {
  for (const char* name : {"llada-8b", "dream-7b", "llada-moe-7b", "llada2-mini", "illada-8b", "sdar-1.7b",
                           "diffusion-gemma-26b", "nemotron-8b", "tiny"}) {
    const Preset p = preset(name);
    std::set<std::string> names;
    int deepest = -1;
    for (const PresetTensor& tensor : tensors_of(p)) {
      EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
      EXPECT_EQ(tensor.name.starts_with(fmt::format("blk.{}.", tensor.layer)), tensor.layer >= 0) << tensor.name;
      deepest = std::max(deepest, tensor.layer);
    }
    EXPECT_EQ(deepest + 1, p.config.layers) << name;
  }
}

// 4.5 GB on disk, 4.2 GB of it read by every forward: figures that benchmarks are judged by.
TEST(Presets, TheQ4FileOfLlada8bHasItsKnownSize) {
  int64_t bytes = 0, embedding = 0;
  for (const PresetTensor& t : tensors_of(preset("llada-8b"))) {
    const int64_t size = TensorView{nullptr, stored_type(t, DType::Q4_0), t.shape}.bytes();
    bytes += size;
    if (t.name == "token_embd.weight") embedding = size;
  }
  EXPECT_NEAR(static_cast<double>(bytes) / 1e9, 4.51, 0.005);
  EXPECT_NEAR(static_cast<double>(bytes - embedding) / 1e9, 4.218, 0.005);
}

TEST(Presets, SpecialIdsAreControlTokensInsideTheVocabulary) {
  for (const char* name : {"llada-8b", "llada-1.5", "dream-7b", "llada-moe-7b", "llada2-mini", "illada-8b", "sdar-1.7b",
                           "nemotron-8b", "tiny"}) {
    const Preset p = preset(name);
    std::set<int32_t> control;
    for (const PresetToken& token : p.control_tokens) {
      EXPECT_LT(token.id, p.config.vocab) << name;
      EXPECT_TRUE(control.insert(token.id).second) << name << " " << token.id;
    }
    for (const int32_t id : {p.config.mask_id, p.config.eos_id, p.config.pad_id})
      EXPECT_TRUE(control.contains(id)) << name << " " << id;
  }
}

TEST(Presets, SpecsNameAModelAndAType) {
  const auto spec = parse_preset("dream-7b:q8_0");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->preset.name, "dream-7b");
  EXPECT_EQ(spec->type, DType::Q8_0);
  EXPECT_EQ(parse_preset("llada-8b")->type, DType::Q4_0);
  EXPECT_EQ(parse_preset("llada-9b").error().message,
            "preset: found 'llada-9b', needed one of llada-8b, llada-1.5, dream-7b, llada-moe-7b, "
            "llada2-mini, illada-8b, qwen3-0.6b, sdar-1.7b, sdar-8b, diffusion-gemma-26b, nemotron-8b, tiny");
  EXPECT_NE(parse_preset("llada-8b:q3").error().message.find("'q3'"), std::string::npos);
}

TEST(Presets, LayersCanBeFewer) {
  const Preset p = with_layers(preset("llada-8b"), 2).value();
  EXPECT_EQ(parameters_of(p), 2 * 126464 * int64_t{4096} + 2 * 218'112'000 + 4096);
  EXPECT_FALSE(with_layers(preset("llada-8b"), 0));
}

// A router decides which experts run; llama.cpp never quantizes it, nor vectors.
TEST(Presets, RoutersAndVectorsStayFloat) {
  for (const PresetTensor& t : tensors_of(preset("llada2-mini"))) {
    const DType type = stored_type(t, DType::Q4_K);
    if (t.shape.rank == 1 || t.name.ends_with("gate_inp.weight"))
      EXPECT_EQ(type, DType::F32) << t.name;
    else
      EXPECT_EQ(type, DType::Q4_K) << t.name;
  }
  EXPECT_EQ(stored_type({"blk.0.odd.weight", {{96, 8, 1, 1}, 2}, 0}, DType::Q4_K), DType::Q5_0);
  EXPECT_EQ(stored_type({"blk.0.odd.weight", {{96, 8, 1, 1}, 2}, 0}, DType::IQ3_S), DType::IQ4_NL);
  EXPECT_EQ(stored_type({"blk.0.odd.weight", {{40, 8, 1, 1}, 2}, 0}, DType::Q4_K), DType::F16);
}

// The published Q4_K_M file has 194, 33, 28 and 14; there the experts' gates and ways up are one tensor per layer.
TEST(Presets, DiffusionGemmaIsMixedAsItsUploads) {
  std::map<DType, int> counts;
  int stacks = 0;
  for (const PresetTensor& t : tensors_of(preset("diffusion-gemma-26b"))) {
    ++counts[stored_type(t, DType::Q4_K)];
    stacks += t.name.ends_with("ffn_up_exps.weight");
  }
  EXPECT_EQ(counts[DType::Q4_K] - stacks, 194);
  EXPECT_EQ(counts[DType::Q5_0], 33);
  EXPECT_EQ(counts[DType::Q8_0], 28);
  EXPECT_EQ(counts[DType::Q6_K], 14);
}

}  // namespace
}  // namespace llada
