// The types of matrices against those that llama.cpp's quantizer chose (tests/data/type_mixes.txt, written by
// tools/upstream/quantizer.py): SmolLM2-135M, and made models of 32 layers, dense and with eight experts.
#include "formats/type_mix.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

namespace llada {
namespace {

struct Geometry {
  ModelConfig config;
  int64_t ffn = 0;

  Shape shape_of(std::string_view name) const {
    const int64_t columns = name.starts_with("ffn_down") ? ffn : config.width;
    return {{columns, 256, name.find("_exps") != std::string_view::npos ? config.experts : 1, 1}, 2};
  }
};

Geometry geometry(const std::string& name) {
  Geometry g;
  g.config.layers = name == "smollm2" ? 30 : 32;
  g.config.width = name == "smollm2" ? 576 : 256;
  g.config.heads = name == "smollm2" ? 9 : 8;
  g.config.kv_heads = name == "smollm2" ? 3 : name == "made" ? 2 : 8;
  g.config.tied_head = name == "smollm2";
  g.config.experts = name == "experts" ? 8 : 0;
  g.ffn = name == "smollm2" ? 1536 : 256;
  return g;
}

TEST(TypeMix, MatchesThePeersChoice) {
  std::ifstream file(LLADA_SOURCE_DIR "/tests/data/type_mixes.txt");
  std::map<std::string, int> matrices;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string model, mix, weighted, name, type;
    words >> model >> mix >> weighted >> name;
    const Geometry g = geometry(model);
    const TypeMix* rule = find_type_mix(mix);
    ASSERT_NE(rule, nullptr) << mix;
    TypeChooser chooser(*rule, g.config, g.config.layers, weighted == "weighted");
    int64_t layer = 0;
    for (int64_t count = 0; words >> type >> count;)
      for (int64_t i = 0; i < count; ++i, ++layer) {
        if (name == "ffn_gate_inp.weight") continue;  // never quantized; the converter leaves it out
        const bool in_layer = name != "token_embd.weight" && name != "output.weight";
        const DType chosen =
            chooser.choose(in_layer ? "blk." + std::to_string(layer) + "." + name : name, g.shape_of(name));
        EXPECT_EQ(traits(chosen).name, type) << line.substr(0, 60) << " layer " << layer;
        ++matrices[model];
      }
  }
  EXPECT_EQ(matrices["smollm2"], 22 * 211);
  EXPECT_EQ(matrices["made"], 22 * 226);
  EXPECT_EQ(matrices["experts"], 22 * 226);
}

TEST(TypeMix, RowsThatDoNotFitGetSmallerBlocks) {
  ModelConfig config;
  config.layers = 8;
  const std::pair<const char*, const char*> cases[] = {{"q2_k", "q4_0"},   {"q3_k_s", "q4_0"}, {"q4_k_m", "q5_0"},
                                                       {"q5_k_m", "q5_1"}, {"q6_k", "q8_0"},   {"iq4_xs", "iq4_nl"}};
  for (const auto& [mix, type] : cases) {
    TypeChooser chooser(*find_type_mix(mix), config, 8, true);
    EXPECT_EQ(traits(chooser.choose("blk.3.ffn_up.weight", {{96, 8, 1, 1}, 2})).name, type);
    EXPECT_EQ(traits(chooser.choose("blk.3.ffn_up.weight", {{80, 8, 1, 1}, 2})).name, "f16");
    EXPECT_EQ(traits(chooser.choose("blk.3.ffn_up.weight", {{512, 8, 1, 1}, 2})).name,
              traits(find_type_mix(mix)->type).name);
    EXPECT_EQ(chooser.fallbacks(), 2);
    EXPECT_EQ(traits(chooser.choose("output.weight", {{96, 8, 1, 1}, 2})).name, "q8_0");
    EXPECT_EQ(chooser.fallbacks(), 2) << "the head's own rule is no way out";
  }
}

TEST(TypeMix, NamesAreFoundInAnyCase) {
  EXPECT_EQ(find_type_mix("Q4_K_M"), find_type_mix("q4_k_m"));
  EXPECT_EQ(find_type_mix("Q3_K"), find_type_mix("q3_k_m")) << "llama.cpp's short names";
  EXPECT_EQ(find_type_mix("q4_k"), find_type_mix("q4_k_m"));
  EXPECT_EQ(find_type_mix("q5_k"), find_type_mix("q5_k_m"));
  EXPECT_EQ(find_type_mix("q4_k_x"), nullptr);
  EXPECT_EQ(find_type_mix(""), nullptr);
  EXPECT_TRUE(type_mix_names(", ", " or ").ends_with("q3_k_s or q2_k"));
}

}  // namespace
}  // namespace llada
