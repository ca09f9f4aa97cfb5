// What every family has in common: a folder and a GGUF file of it open with the same configuration.
#include "formats/family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "formats/convert.h"
#include "formats/model_fixture.h"
#include "formats/temp_folder.h"

namespace llada {
namespace {

using namespace testing_models;
using ::testing::HasSubstr;

void write_family(const TempFolder& folder, const ModelConfig& config, std::string json = {}) {
  const Style style = config.family->olmo_keys ? Style::olmo : Style::standard;
  folder.write("config.json", json.empty() ? hf_config_json(config, style) : json);
  folder.write("model.safetensors", safetensors_bytes(hf_tensors(config), hf_names(config, style)));
}

void expect_same(const ModelConfig& c, const ModelConfig& expected) {
  EXPECT_EQ(std::tuple(c.family, c.kv_heads, c.qk_norm, c.qkv_bias),
            std::tuple(expected.family, expected.kv_heads, expected.qk_norm, expected.qkv_bias));
  EXPECT_EQ(std::tuple(c.shift_logits, c.attention_block, c.decided_first, c.experts),
            std::tuple(expected.shift_logits, expected.attention_block, expected.decided_first, expected.experts));
  EXPECT_EQ(std::tuple(c.norm_topk, c.mask_id), std::tuple(expected.norm_topk, expected.mask_id));
}

TEST(Family, NamesAreOfOneFamilyEach) {
  std::vector<std::string_view> seen;
  for (const Family* family : families()) {
    ASSERT_FALSE(family->classes.empty() || family->model_types.empty()) << family->name;
    for (const auto name : family->classes) seen.push_back(name);
    EXPECT_EQ(find_family(family->name), family);
  }
  std::ranges::sort(seen);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
}

TEST(Family, FoldersAndFilesSayTheSame) {
  for (const Family* family : families()) {
    if (family == &kDiffusionGemmaFamily) continue;  // whose files are of a form of their own (diffusion_gemma_test.cc)
    SCOPED_TRACE(family->name);
    const ModelConfig config = tiny_config(family);
    const TempFolder folder;
    write_family(folder, config);
    const auto read = ModelFile::open(folder.path());
    ASSERT_EQ(outcome(read), "accepted");
    expect_same(read->config(), config);
    const auto file = ModelFile::open(folder.write("m.gguf", gguf_bytes(config, {.arch = std::string(family->name)})));
    ASSERT_EQ(outcome(file), "accepted");
    expect_same(file->config(), config);
  }
}

TEST(Family, OptionsSayWhatAFileDoesNot) {
  const ModelConfig config = tiny_config(find_family("qwen3"));
  EXPECT_EQ(config.attention_block, -1);
  const TempFolder folder;
  const std::string path = folder.write("m.gguf", gguf_bytes(config, {.arch = "qwen3"}));
  auto file = ModelFile::open(path, {.mask_id = 7, .attention_block = 4, .shift_logits = true});
  ASSERT_EQ(outcome(file), "accepted");
  EXPECT_EQ(file->config().mask_id, 7);
  EXPECT_EQ(file->config().attention_block, 4);
  EXPECT_TRUE(file->config().shift_logits);
  EXPECT_THAT(outcome(ModelFile::open(path, {.mask_id = 40})),
              HasSubstr("mask token id is 40, below the vocabulary size 40 needed"));
  // What is read first cannot tell the next position's token.
  const std::string windows =
      folder.write("wedlm.gguf", gguf_bytes(tiny_config(find_family("wedlm")), {.arch = "wedlm"}));
  EXPECT_EQ(outcome(ModelFile::open(windows)), "accepted");
  EXPECT_THAT(outcome(ModelFile::open(windows, {.shift_logits = true})),
              HasSubstr("rows predict the next position, needed their own: wedlm reads"));
  // A file that is written from it says so itself.
  const std::string copy = folder.path() + "/copy.gguf";
  ASSERT_TRUE(convert_to_gguf(*file, nullptr, copy, {.type = DType::F32, .progress = {}}));
  const auto again = ModelFile::open(copy);
  ASSERT_EQ(outcome(again), "accepted");
  EXPECT_EQ(again->config().attention_block, 4);
  EXPECT_EQ(again->config().mask_id, 7);
  EXPECT_TRUE(again->config().shift_logits);
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Family, TheNameOfARepositorySaysBlocks) {
  const ModelConfig config = tiny_config(find_family("a2d-qwen3"));
  EXPECT_EQ(config.attention_block, 0);
  for (const auto& [name, block] : {std::pair{"Qwen3-0.6B-diffusion-mdlm-v0.1", 0}, {"Qwen3-diffusion-bd3lm", 32}}) {
    const TempFolder folder;
    const std::string path = folder.path() + "/" + name;
    std::filesystem::create_directory(path);
    folder.write(std::string(name) + "/config.json", hf_config_json(config, Style::standard));
    const auto read = read_folder_config(path);
    ASSERT_EQ(outcome(read), "accepted");
    EXPECT_EQ(read->attention_block, block);
    EXPECT_EQ(read->notes.size(), block == 0 ? 0u : 1u);
  }
}

TEST(Family, MasksThatNoFileNames) {
  const auto mask = [](std::string_view family, int64_t vocab) {
    const ModelConfig config = tiny_config(find_family(family));
    std::string json = hf_config_json(config, config.family->olmo_keys ? Style::olmo : Style::standard);
    json = replaced(json, "\"mask_token_id\":36", "\"unused\":0");
    json = replaced(json, "\"vocab_size\":40", fmt::format("\"vocab_size\":{}", vocab));
    if (config.family->olmo_keys)
      json = replaced(json, "\"embedding_size\":40", fmt::format("\"embedding_size\":{}", vocab));
    const TempFolder folder;
    folder.write("config.json", json);
    const auto read = read_folder_config(folder.path());
    return read ? read->mask_id : -2;
  };
  EXPECT_EQ(mask("llada", 155136), 5);  // iLLaDA
  EXPECT_EQ(mask("llada", 126464), -1);
  EXPECT_EQ(mask("sdar", 151936), 151669);
  EXPECT_EQ(mask("sdar_moe", 151936), 151669);
  EXPECT_EQ(mask("fast-dllm-v2", 151936), 151665);
  EXPECT_EQ(mask("stable-diffcoder", 155136), 5);
  EXPECT_EQ(mask("wedlm", 152064), 151665);
  EXPECT_EQ(mask("qwen3", 151936), -1);
}

TEST(Family, ModelsThatAreKnownAndNotComputedAreNamed) {
  const ModelConfig config = tiny_config(find_family("sdar"));
  const std::string json = hf_config_json(config, Style::standard);
  const auto refused = [](const std::string& text) {
    const TempFolder folder;
    folder.write("config.json", text);
    return outcome(read_folder_config(folder.path()));
  };
  const std::string foreign = replaced(json, "SDARForCausalLM", "CloverMoeForCausalLM");
  EXPECT_THAT(refused(replaced(foreign, "\"model_type\":\"llada\"", "\"model_type\":\"clover_moe\"")),
              HasSubstr("model_type: found \"clover_moe\", which is not supported: it needs Gated DeltaNet layers"));
  EXPECT_THAT(refused(foreign), HasSubstr("architectures: found \"CloverMoeForCausalLM\", needed LLaDAModelLM, "));
  const TempFolder folder;
  EXPECT_THAT(outcome(ModelFile::open(folder.write("m.gguf", gguf_bytes(config, {.arch = "clover_moe"})))),
              HasSubstr("general.architecture is \"clover_moe\", which is not supported"));
}

// As published and as others keep it; the text's numbers stand beside the tower's.
TEST(Family, OfAModelThatReadsImagesTheTextIsRead) {
  const ModelConfig config = tiny_config(find_family("nemotron-labs-diffusion"));
  std::string json = replaced(hf_config_json(config, Style::standard), "DiffusionModel", "DiffusionVLMModel");
  json = replaced(json, "{", "{\"vision_config\":{\"hidden_size\":7},");
  for (const std::string text : {"language_model.model.", "language_model.encoder.", "encoder."}) {
    SCOPED_TRACE(text);
    std::vector<FakeTensor> tensors = hf_tensors(config);
    auto names = hf_names(config, Style::standard);
    for (auto& [ours, name] : names)
      name = name.starts_with("model.") ? text + name.substr(6)
                                        : (text.starts_with("language_model.") ? "language_model." : "") +
                                              std::string("diffusion_head.weight");
    FakeTensor tower = tensors.front();
    tower.name = "tower", names["tower"] = "vision_tower.patch_conv.weight";
    tensors.push_back(tower);
    const TempFolder folder;
    folder.write("config.json", json);
    folder.write("model.safetensors", safetensors_bytes(tensors, names));
    const auto read = ModelFile::open(folder.path());
    ASSERT_EQ(outcome(read), "accepted");
    expect_same(read->config(), config);
    EXPECT_THAT(read->config().notes, testing::Contains(HasSubstr("the vision tower (1 tensors) is not read")));
  }
}

TEST(Family, QueriesAreScaledByTheirPosition) {
  const ModelConfig config = tiny_config(find_family("mistral3"));
  const std::string json = hf_config_json(config, Style::standard);
  const auto read = [&](const std::string& scaling) {
    const TempFolder folder;
    folder.write("config.json", replaced(json, "\"rope_scaling\":null", "\"rope_parameters\":{" + scaling + "}"));
    return read_folder_config(folder.path());
  };
  const std::string yarn = R"("rope_type":"yarn","factor":4,"original_max_position_embeddings":32)";
  EXPECT_EQ(read(yarn)->query_scale, QueryScale());
  EXPECT_EQ(read(R"("rope_type":"default","original_max_position_embeddings":0)")->query_scale, QueryScale())
      << "a period of nothing";
  const auto scaled = read(yarn + R"(,"llama_4_scaling_beta":0.5)");
  EXPECT_EQ(std::tuple(scaled->query_scale, scaled->context, scaled->notes.size()),
            std::tuple((QueryScale{0.5, 32}), 128, 0u));
  EXPECT_EQ(scaled->query_scale.at(31), 1);
  EXPECT_DOUBLE_EQ(scaled->query_scale.at(32), 1 + 0.5 * std::log(2.0));
  EXPECT_DOUBLE_EQ(scaled->query_scale.at(127), 1 + 0.5 * std::log(4.0));
  EXPECT_THAT(outcome(read(yarn + R"(,"llama_4_scaling_beta":-1)")), HasSubstr("llama_4_scaling_beta: found -1, "));
  EXPECT_THAT(outcome(read(yarn + R"(,"llama_4_scaling_beta":1e6)")), HasSubstr("scale of queries by position"));
  const TempFolder folder;
  folder.write("config.json", replaced(json, "\"rope_scaling\":null", "\"sliding_window\":16"));
  EXPECT_THAT(outcome(read_folder_config(folder.path())), HasSubstr("sliding_window: found 16, needed null"));
}

}  // namespace
}  // namespace llada
