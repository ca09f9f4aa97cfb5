// Every family through every type that convert writes: weights are made, converted, inspected and run, and the ids are
// the source's where the type holds its weights.
#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "engine/convert.h"
#include "engine/session.h"
#include "formats/family.h"
#include "formats/temp_folder.h"
#include "geometry/tiny_gemma.h"
#include "must.h"

namespace llada {
namespace {

// With all that is the family's own: norms, biases, experts, blocks.
Preset small_model(const Family& family) {
  if (&family == &kDiffusionGemmaFamily) return tiny_gemma();
  Preset p;
  ModelConfig& c = p.config;
  c = config_of(family);
  c.name = std::string(family.name);
  c.layers = 2, c.width = 128, c.heads = 4, c.kv_heads = 2, c.head_dim = c.rotary_dims = 32, c.ffn_width = 192;
  c.vocab = 320, c.context = 512, c.mask_id = 300, c.eos_id = c.pad_id = 301;
  if (family.permuted_in_gguf) c.rope_pairing = RopePairing::adjacent;
  c.qkv_bias = family.qkv_bias || family.bias_unless_said;
  c.qk_norm = family.head_norms != HeadNorms::none;
  if (family.mixture()) {
    c.experts = 8, c.experts_used = 2, c.expert_ffn_width = 64;
    c.norm_topk = family.gates != Gates::raw;
    c.ffn_width = 0;
  }
  if (family.router == Router::sigmoid) {
    c.sigmoid_router = true, c.expert_groups = 4, c.expert_groups_used = 2, c.expert_scale = 2.5f;
    c.dense_layers = 1, c.ffn_width = 192, c.shared_expert_ffn_width = 64, c.rotary_dims = 16;
  }
  if (c.attention_block < 0) c.attention_block = c.causal_text ? 32 : 0;
  p.control_tokens = {{300, "<|mask|>"}, {301, "<|endoftext|>"}};
  p.pre_tokenizer = "qwen2";
  return p;
}

std::vector<int32_t> ids_of(const std::string& path, const ModelConfig& c) {
  const auto model = must(Model::load(path, {.threads = 1}));
  const auto session = must(Session::create(*model, {}));
  decode::DecodeOptions o;
  o.gen_length = 16, o.seed = 3, o.early_stop = decode::EarlyStop::none;
  if (c.gemma) o.denoising_steps = 3;
  if (c.attention_block > 0) o.block_length = c.attention_block;
  const auto answer = must((*session)->generate(std::vector<int32_t>{11, 37, 5, 90, 41, 8, 120}, o, {}));
  return answer->tokens;
}

class Conversions : public testing::TestWithParam<const Family*> {};
INSTANTIATE_TEST_SUITE_P(Families, Conversions, testing::ValuesIn(families().begin(), families().end()),
                         [](const auto& family) {
                           std::string name(family.param->name);
                           std::ranges::replace(name, '-', '_');
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

TEST_P(Conversions, AnswerAsTheirSource) {
  const Preset preset = small_model(*GetParam());
  const TempFolder folder;
  const std::string source = folder / "source.gguf", out = folder / "out.gguf";
  const auto convert = [&](DType type) {
    const std::string name(traits(type).name);
    const auto report = convert_model({.path = source, .out_path = out, .type = name, .imatrix = {}}, {});
    ASSERT_TRUE(report) << name << ": " << report.error().message;
    const auto found = inspect_model(out);
    ASSERT_TRUE(found) << name << ": " << found.error().message;
    EXPECT_EQ(found->missing, "") << name;
    EXPECT_EQ(found->config.family, GetParam()) << name;
    EXPECT_TRUE(std::ranges::any_of(found->types, [&](const TypeTotal& t) { return t.type == name; })) << name;
  };
  for (const DType type :
       {DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1}) {
    SCOPED_TRACE(traits(type).name);
    const auto made = must(synthesize_file(source, {.preset = preset, .type = type}, {.threads = 1}));
    const std::vector<int32_t> expected = ids_of(source, preset.config);
    EXPECT_EQ(expected.size(), 16u);
    ASSERT_NO_FATAL_FAILURE(convert(type));
    EXPECT_EQ(ids_of(out, preset.config), expected);
    if (!traits(type).quantized) {  // what every value fits into
      ASSERT_NO_FATAL_FAILURE(convert(DType::F32));
      EXPECT_EQ(ids_of(out, preset.config), expected);
    }
    if (type != DType::F32) continue;
    for (const DType rounded : {DType::Q8_0, DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1}) {
      ASSERT_NO_FATAL_FAILURE(convert(rounded));
      EXPECT_EQ(ids_of(out, preset.config).size(), 16u);
    }
  }
}

// A number in front of the other keys; what is added keeps the tensors where they are aligned.
std::string with_number(std::string file, const std::string& key, float value) {
  constexpr size_t kCount = 16, kKeys = 24;  // magic, version, tensors; number of keys; keys
  std::string added;
  const auto put = [&](auto number) { added.append(reinterpret_cast<const char*>(&number), sizeof number); };
  const auto name = [&](const std::string& text) { put(uint64_t{text.size()}), added += text; };
  name(key), put(uint32_t{6}), put(value);
  name("test.pad"), put(uint32_t{8}), name(std::string(32 - (added.size() + 8) % 32, 'x'));
  uint64_t count = 0;
  std::memcpy(&count, &file.at(kCount), sizeof count);
  count += 2;
  std::memcpy(&file.at(kCount), &count, sizeof count);
  return file.insert(kKeys, added);
}

// What would be another computation of the same tensors is refused wherever it is not followed.
TEST_P(Conversions, NumbersThatAreNotFollowedAreRefused) {
  const Preset preset = small_model(*GetParam());
  const TempFolder folder;
  const auto made = must(synthesize_file(folder / "made.gguf", {.preset = preset, .type = DType::F16}, {.threads = 1}));
  const std::string file = *read_file(folder / "made.gguf");
  for (const std::string leaf :
       {"attention.clamp_kqv", "attention.max_alibi_bias", "attention.scale", "attn_logit_softcapping",
        "final_logit_softcapping", "logit_scale", "residual_scale", "embedding_scale", "expert_weights_scale",
        "rope.scaling.factor", "rope.scale_linear"}) {
    const std::string key = fmt::format("{}.{}", GetParam()->name, leaf);
    const bool followed = (GetParam() == &kDiffusionGemmaFamily && leaf == "final_logit_softcapping") ||
                          (GetParam() == &kLlada2Family && leaf == "expert_weights_scale");
    const auto summary = inspect_model(folder.write("with.gguf", with_number(file, key, 2.5f)));
    ASSERT_FALSE(summary) << key;
    EXPECT_TRUE(summary.error().message.contains(followed ? "twice" : fmt::format("{} is 2.5", key)))
        << summary.error().message;
  }
  const auto unknown = must(
      inspect_model(folder.write("with.gguf", with_number(file, fmt::format("{}.novel", GetParam()->name), 2.5f))));
  EXPECT_EQ(std::ranges::count(unknown->config.notes, fmt::format("ignored metadata: {}.novel", GetParam()->name)), 1);
}

}  // namespace
}  // namespace llada
