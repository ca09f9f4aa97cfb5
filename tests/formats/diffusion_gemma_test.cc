// DiffusionGemma's files: a folder as its class saves it, a GGUF as llama.cpp's pull requests write it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "formats/convert.h"
#include "formats/gguf.h"
#include "formats/gguf_model.h"
#include "formats/hf_config.h"
#include "formats/model_file.h"
#include "formats/same_shape.h"
#include "must.h"
#include "temp_folder.h"
#include "tensor/quantize.h"

namespace llada {
namespace {

const std::string kMade = LLADA_SOURCE_DIR "/tests/data/diffusion_gemma/";

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void expect_equal(const ModelConfig& a, const ModelConfig& b) {
  expect_same_shape(a, b);
  EXPECT_EQ(std::tuple(a.experts, a.experts_used, a.expert_ffn_width, a.rope_theta, a.rms_eps, a.gemma->global),
            std::tuple(b.experts, b.experts_used, b.expert_ffn_width, b.rope_theta, b.rms_eps, b.gemma->global));
  EXPECT_EQ(std::tuple(a.gemma->window, a.gemma->kv_heads, a.gemma->head_dim, a.gemma->rope_theta),
            std::tuple(b.gemma->window, b.gemma->kv_heads, b.gemma->head_dim, b.gemma->rope_theta));
  EXPECT_EQ(std::tuple(a.gemma->rotary_dims, a.gemma->logit_cap, a.canvas.length),
            std::tuple(b.gemma->rotary_dims, b.gemma->logit_cap, b.canvas.length));
}

TEST(DiffusionGemmaFiles, FolderAndGgufSayTheSame) {
  const auto folder = must(ModelFile::open(kMade + "folder")), gguf = must(ModelFile::open(kMade + "model.gguf"));
  const ModelConfig& c = folder->config();
  EXPECT_EQ(std::tuple(c.family, c.gemma->global, c.gemma->head_dim, c.gemma->kv_heads),
            std::tuple(&kDiffusionGemmaFamily, (std::vector<bool>{false, false, false, false, false, true}), 16, 1));
  EXPECT_EQ(std::tuple(c.gemma->rotary_dims, c.gemma->window, c.canvas.length, c.bos_id, c.eos_id),
            std::tuple(4, 5, 8, 2, 1));
  expect_equal(c, gguf->config());
  for (const auto& entry : folder->tensors()) {
    const TensorView* other = gguf->find(entry.name);
    ASSERT_NE(other, nullptr) << entry.name;
    EXPECT_EQ(entry.view.shape, other->shape) << entry.name;
  }
  EXPECT_EQ(folder->tensors().size() + 1, gguf->tensors().size()) << "the factors of RoPE";
}

TEST(DiffusionGemmaFiles, TheVisionTowerIsPassedOverAndSaidOnce) {
  const auto folder = must(ModelFile::open(kMade + "folder"));
  EXPECT_EQ(folder->config().notes,
            std::vector<std::string>{"the vision tower (16 tensors) is not read: prompts are text alone"});
}

// The published configuration: numbers of global layers for all of them at once, ends as a list.
TEST(DiffusionGemmaFiles, GlobalLayersAtOnce) {
  std::string text = text_of(kMade + "folder/config.json");
  const size_t from = text.find("\"per_layer_config\""), to = text.find("\"rms_norm_eps\"");
  text.replace(from, to - from, R"("global_head_dim": 16, "num_global_key_value_heads": 1, )");
  const auto config = read_hf_config(text, R"({"eos_token_id": [1, 106, 50], "t_max": 0.9})", "config.json");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().message, "config.json: eos token id is 106, below the vocabulary size 96 needed");
  const auto good = must(read_hf_config(text, R"({"eos_token_id": [1, 50], "t_max": 0.9})", "config.json"));
  EXPECT_EQ(std::tuple(good->gemma->head_dim, good->gemma->kv_heads, good->canvas.t_max, good->eos_id, good->end_ids),
            std::tuple(16, 1, 0.9, 1, std::vector<int32_t>{50}));
}

// Also what a folder says in numbers and GGUF in a tensor: which part of a head turns.
TEST(DiffusionGemmaFiles, AFolderIsConverted) {
  const TempFolder folder;
  const auto source = must(ModelFile::open(kMade + "folder"));
  const std::string out = folder / "model.gguf";
  const auto status = must(convert_to_gguf(*source, nullptr, out, {.type = DType::BF16, .progress = {}}));
  const auto written = must(ModelFile::open(out));
  expect_equal(source->config(), written->config());
  EXPECT_EQ(written->config().canvas.t_max, source->config().canvas.t_max);
  for (const auto& entry : source->tensors()) {
    const TensorView* other = written->find(entry.name);
    ASSERT_NE(other, nullptr) << entry.name;
    ASSERT_EQ(entry.view.shape, other->shape) << entry.name;
    std::vector<float> a(static_cast<size_t>(entry.view.shape.columns())), b = a;
    for (int64_t r = 0; r < other->shape.rows(); ++r) {
      dequantize_row(entry.view.type, entry.view.row(r), a.data(), std::ssize(a));
      dequantize_row(other->type, other->row(r), b.data(), std::ssize(b));
      ASSERT_EQ(a, b) << entry.name;
    }
  }
}

struct Change {
  std::string from, to, error;
};

TEST(DiffusionGemmaFiles, AConfigurationThatContradictsItself) {
  const std::string text = text_of(kMade + "folder/config.json");
  const Change changes[] = {
      {"\"num_hidden_layers\": 6", "\"num_hidden_layers\": 7",
       "c: text_config.layer_types: found a list of 6, needed a list of 7"},
      {"\"num_key_value_heads\": 1", "\"num_key_value_heads\": 3",
       "c: 4 heads over 3 key/value heads of global layers, a multiple needed"},
      {"\"5\": {", "\"4\": {",
       "c: text_config.per_layer_config.4 has 1 key/value heads of 16, 2 of 8 needed as in other layers of its kind"},
      {"\"proportional\"", "\"yarn\"",
       "c: text_config.rope_parameters.full_attention.rope_type: found \"yarn\", needed \"proportional\""},
      {"gelu_pytorch_tanh", "silu", "c: text_config.hidden_activation: found \"silu\", needed \"gelu_pytorch_tanh\""},
      {"\"canvas_length\": 8", "\"canvas_length\": 0", "c: canvas length is 0, 1 to 65536 needed"},
      {"\"sliding_window\": 5", "\"sliding_window\": \"5\"",
       "c: text_config.sliding_window: found \"5\", needed a whole number"},
      {"\"num_experts\": 4", "\"num_experts\": null", "c: text_config.num_experts: is missing; needed a whole number"},
      {"\"text_config\"", "\"text\"", "c: text_config: is missing; needed an object"},
  };
  for (const auto& [from, to, error] : changes) {
    std::string changed = text;
    ASSERT_NE(changed.find(from), std::string::npos) << from;
    changed.replace(changed.find(from), from.size(), to);
    const auto config = read_hf_config(changed, "", "c");
    ASSERT_FALSE(config) << to;
    EXPECT_EQ(config.error().message, error);
  }
}

// A changed number of a GGUF's metadata against its tensors; the file keeps its length.
TEST(DiffusionGemmaFiles, AGgufThatContradictsItsTensors) {
  const std::string bytes = text_of(kMade + "model.gguf");
  const auto opened = [&](const std::string& key, uint32_t value) {
    std::string changed = bytes;
    const size_t at = changed.find(key);
    EXPECT_NE(at, std::string::npos) << key;
    std::copy_n(reinterpret_cast<const char*>(&value), 4,
                changed.begin() + static_cast<std::ptrdiff_t>(at + key.size() + 4));
    const std::span data(reinterpret_cast<const std::byte*>(changed.data()), changed.size());
    const auto file = GgufFile::parse(data, "g");
    EXPECT_TRUE(file);
    const auto model = read_gguf_model(*file, changed.size(), "g");
    return model ? "" : model.error().message;
  };
  const std::string arch = "diffusion-gemma.";
  EXPECT_EQ(opened(arch + "block_count", 7),
            "g: diffusion-gemma.attention.sliding_window_pattern is 6 x boolean, one for each of 7 layers needed");
  EXPECT_EQ(opened(arch + "attention.key_length", 32), "g: diffusion-gemma.attention.value_length is 16, 32 needed");
  EXPECT_EQ(opened(arch + "expert_count", 8), "g: tensor blk.0.ffn_gate_up_exps.weight is 32x64x4, 32x64x8 needed");
  EXPECT_EQ(opened(arch + "feed_forward_length", 32), "g: tensor self_cond_gate.weight is 32x64, 32x32 needed");
  EXPECT_EQ(opened("diffusion.canvas_length", 0), "g: canvas length is 0, 1 to 65536 needed");
  EXPECT_EQ(opened(arch + "attention.sliding_window", 0), "g: sliding window is 0, 1 to 16777216 needed");
}

}  // namespace
}  // namespace llada
