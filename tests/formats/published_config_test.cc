// config.json read as the published classes read it: what they take for a missing key, and which keys their
// code does not look at.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>

#include "formats/convert.h"
#include "formats/gguf_model.h"
#include "formats/hf_config.h"
#include "formats/model_file.h"
#include "formats/model_fixture.h"
#include "formats/temp_folder.h"
#include "must.h"

namespace llada {
namespace {

using namespace testing_models;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Result<ModelConfig> read(const std::string& json) { return read_hf_config(json, "", "config.json"); }

std::string without(std::string json, const std::string& key) {
  const size_t begin = json.find('"' + key + "\":");
  if (begin == std::string::npos) throw std::runtime_error("no " + key);
  size_t end = json.find_first_of(",}", begin);
  if (json[end] == ',') return json.erase(begin, end + 1 - begin);
  return json.erase(begin - 1, end + 1 - begin);
}

std::string with(std::string json, const std::string& member) { return json.insert(1, member + ","); }

std::string instead(const std::string& json, const std::string& key, const std::string& value) {
  return with(without(json, key), '"' + key + "\":" + value);
}

ModelConfig accepted(const std::string& json) {
  const auto config = read(json);
  EXPECT_TRUE(config) << config.error().message;
  return config.value_or(ModelConfig{});
}

std::string refused(const std::string& json) {
  const auto config = read(json);
  return config ? "accepted" : config.error().message;
}

// 64 wide, 4 heads of 16, 8 experts.
std::string llada2_json() {
  std::string json = hf_config_json(tiny_config(&kLlada2Family), Style::standard);
  return instead(instead(json, "num_experts", "32"), "num_experts_per_tok", "4");
}

TEST(PublishedConfig, Llada2sDefaults) {
  std::string json = llada2_json();
  for (const char* key : {"partial_rotary_factor", "n_group", "topk_group", "routed_scaling_factor", "rms_norm_eps",
                          "max_position_embeddings", "rope_theta", "first_k_dense_replace", "num_shared_experts",
                          "tie_word_embeddings", "norm_topk_prob", "use_qk_norm"})
    json = without(json, key);
  const ModelConfig c = accepted(json);
  EXPECT_EQ(std::tuple(c.rotary_dims, c.expert_groups, c.expert_groups_used, c.expert_scale, c.rms_eps, c.context),
            std::tuple(8, 8, 4, 2.5f, 1e-5f, 16384));
  EXPECT_EQ(std::tuple(c.rope_theta, c.dense_layers, c.shared_expert_ffn_width), std::tuple(10000.0f, 0, 0));
  EXPECT_TRUE(c.qk_norm && c.norm_topk && !c.tied_head);
  EXPECT_THAT(c.notes, IsEmpty());
  const ModelConfig fewer = accepted(without(without(json, "num_experts"), "num_experts_per_tok"));
  EXPECT_EQ(fewer.experts, 16);
  EXPECT_EQ(fewer.experts_used, 2);
}

TEST(PublishedConfig, Llada2sRotationFollowsTheFactorAlone) {
  const std::string json = without(llada2_json(), "partial_rotary_factor");
  EXPECT_EQ(accepted(with(json, R"("partial_rotary_factor":0.3)")).rotary_dims, 4) << "4.8 is cut off";
  EXPECT_EQ(accepted(with(json, R"("partial_rotary_factor":1.0)")).rotary_dims, 16);
  EXPECT_EQ(
      accepted(with(json, R"("rope_parameters":{"rope_type":"default","partial_rotary_factor":0.25})")).rotary_dims, 4);
  EXPECT_THAT(
      refused(with(json, R"("rope_parameters":{"full_attention":{"rope_theta":1000000}})")),
      HasSubstr(
          "rope_parameters.full_attention: found {\"rope_theta\":1000000}, needed the same rotation in all layers"));
  EXPECT_THAT(accepted(with(json, R"("rotary_dim":8)")).notes, IsEmpty());
  const ModelConfig c = accepted(with(json, R"("rotary_dim":16)"));
  EXPECT_EQ(c.rotary_dims, 8);
  EXPECT_THAT(c.notes, ElementsAre(HasSubstr("rotary_dim is 16")));
}

TEST(PublishedConfig, Llada2sGatesAreRenormalisedWithMoreThanOneExpert) {
  for (const int used : {1, 2, 4}) {
    for (const char* said : {"true", "false"}) {
      const std::string json =
          instead(instead(llada2_json(), "norm_topk_prob", said), "num_experts_per_tok", std::to_string(used));
      const ModelConfig c = accepted(json);
      EXPECT_EQ(c.norm_topk, used > 1) << used << " " << said;
      EXPECT_EQ(c.notes.size(), (used > 1) != (std::string(said) == "true") ? 1u : 0u);
    }
  }
}

TEST(PublishedConfig, LladaMoesGatesAreNever) {
  const std::string json = hf_config_json(tiny_config(&kLladaMoeFamily), Style::standard);
  EXPECT_FALSE(accepted(json).norm_topk);
  EXPECT_THAT(accepted(json).notes, IsEmpty());
  const std::string said = instead(json, "norm_topk_prob", "true");
  EXPECT_FALSE(accepted(said).norm_topk);
  EXPECT_THAT(accepted(said).notes, ElementsAre(HasSubstr("norm_topk_prob is true")));
  // What this project's own mixtures say.
  for (const std::string& own :
       {with(said, R"("llada_renormalise_gates":true)"), with(json, R"("llada_renormalise_gates":true)"),
        instead(said, "model_type", "\"llada_moe\"")}) {
    EXPECT_TRUE(accepted(own).norm_topk);
    EXPECT_THAT(accepted(own).notes, IsEmpty());
  }
  EXPECT_FALSE(accepted(instead(json, "model_type", "\"llada_moe\"")).norm_topk);
}

TEST(PublishedConfig, InGgufTheGatesAreTheSame) {
  const TempFolder folder;
  const auto open = [&](const Family* family, int64_t used, bool said, bool own) {
    ModelConfig config = tiny_config(family);
    config.experts_used = used;
    const bool moe = family == &kLladaMoeFamily;
    const std::string arch = moe ? "llada-moe" : "llada2";
    GgufWriter out = gguf_writer(config, {.arch = arch, .type = DType::F32});
    out.add_bool(arch + ".expert_weights_norm", said);
    if (own) out.add_bool(kKeyRenormalise, true);
    std::string bytes = out.header();
    for (const FakeTensor& tensor : fake_tensors(config, false)) {
      bytes.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * 4);
      bytes.resize((bytes.size() + 31) / 32 * 32);
    }
    const auto model = ModelFile::open(folder.write("m.gguf", bytes));
    EXPECT_TRUE(model) << model.error().message;
    return model ? model->config() : ModelConfig{};
  };
  for (const bool said : {false, true}) {
    const ModelConfig moe = open(&kLladaMoeFamily, 2, said, false);
    EXPECT_FALSE(moe.norm_topk);
    EXPECT_EQ(moe.notes.size(), said ? 1u : 0u);
    EXPECT_TRUE(open(&kLladaMoeFamily, 2, said, true).norm_topk);
    for (const int64_t used : {1, 2}) {
      const ModelConfig two = open(&kLlada2Family, used, said, false);
      EXPECT_EQ(two.norm_topk, used > 1);
      EXPECT_EQ(two.notes.size(), said != (used > 1) ? 1u : 0u);
    }
  }
}

TEST(PublishedConfig, LladasDefaults) {
  const std::string json = hf_config_json(tiny_config(&kLladaFamily), Style::olmo);
  EXPECT_FALSE(accepted(json).tied_head);
  EXPECT_TRUE(accepted(without(json, "weight_tying")).tied_head);
  EXPECT_FALSE(accepted(with(json, R"("tie_word_embeddings":true)")).tied_head) << "its code reads weight_tying";
  // Without these its class builds another kind of block.
  for (const char* key : {"rope", "block_type", "layer_norm_type", "activation_type"})
    EXPECT_THAT(refused(without(json, key)), HasSubstr(std::string(key) + ": is missing"));
  EXPECT_EQ(accepted(without(json, "n_kv_heads")).kv_heads, 4);
  EXPECT_EQ(accepted(without(json, "rms_norm_eps")).rms_eps, 1e-5f);
}

TEST(PublishedConfig, LladaMoesDefaults) {
  const std::string json = hf_config_json(tiny_config(&kLladaMoeFamily), Style::standard);
  EXPECT_THAT(refused(without(json, "rope_theta")), HasSubstr("rope_theta: is missing"));
  EXPECT_FALSE(accepted(without(json, "qk_layernorm")).qk_norm);
  EXPECT_EQ(accepted(without(json, "num_key_value_heads")).kv_heads, 4);
  EXPECT_EQ(accepted(without(json, "rms_norm_eps")).rms_eps, 1e-5f);
  EXPECT_EQ(accepted(without(json, "max_position_embeddings")).context, 4096);
}

TEST(PublishedConfig, DreamsDefaults) {
  std::string json = hf_config_json(tiny_config(&kDreamFamily), Style::standard);
  EXPECT_EQ(accepted(without(json, "rms_norm_eps")).rms_eps, 1e-6f);
  EXPECT_EQ(accepted(instead(json, "num_key_value_heads", "null")).kv_heads, 4);
  EXPECT_THAT(refused(without(json, "num_key_value_heads")), HasSubstr("key/value heads is 32, 1 to 4 needed"));
  EXPECT_EQ(accepted(without(json, "mask_token_id")).mask_id, -1) << "its class's mask lies outside of 40 tokens";
  EXPECT_EQ(accepted(without(instead(json, "vocab_size", "152064"), "mask_token_id")).mask_id, 151666);
}

TEST(PublishedConfig, ModelTypeWhereNoClassIsNamed) {
  for (const auto& [family, types] : std::initializer_list<std::pair<const Family*, std::vector<std::string>>>{
           {&kLladaFamily, {"llada"}},
           {&kLladaMoeFamily, {"llada", "llada_moe"}},
           {&kDreamFamily, {"Dream"}},
           {&kLlada2Family, {"llada2_moe", "llada2_moe_veomni"}}}) {
    const std::string json = hf_config_json(tiny_config(family), Style::standard);
    for (const std::string& type : types) {
      const std::string typed = instead(json, "model_type", '"' + type + '"');
      for (const char* list : {"null", "[]"})
        EXPECT_EQ(accepted(instead(typed, "architectures", list)).family, family) << type;
      EXPECT_EQ(accepted(without(typed, "architectures")).family, family) << type;
    }
  }
  const std::string json = hf_config_json(tiny_config(&kLladaFamily), Style::olmo);
  EXPECT_THAT(refused(without(without(json, "architectures"), "model_type")), HasSubstr("architectures: is missing"));
  EXPECT_THAT(refused(instead(without(json, "architectures"), "model_type", "\"gpt\"")),
              HasSubstr("model_type: found \"gpt\", needed llada, llada_moe, llada2_moe, Dream, sdar, sdar_moe, "));
  EXPECT_THAT(refused(instead(without(json, "architectures"), "model_type", "\"gpt2\"")),
              HasSubstr("model_type: found \"gpt2\", which is an ordinary, autoregressive model's"));
  EXPECT_THAT(refused(instead(json, "architectures", "\"LLaDAModelLM\"")),
              HasSubstr("architectures: found \"LLaDAModelLM\""));
  EXPECT_THAT(refused(instead(json, "architectures", "[7]")), HasSubstr("architectures: found [7]"));
}

TEST(PublishedConfig, RoundedWeightsAreNamed) {
  const std::string json = hf_config_json(tiny_config(&kDreamFamily), Style::standard);
  for (const auto& [member, words] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"("quantization_config":{"load_in_8bit":true,"quant_method":"bitsandbytes"})",
            "quantization_config has quant_method \"bitsandbytes\": rounded weights of that form are not read; needed"},
           {R"("quantization_config":{"quant_method":"hqq"})", "quant_method \"hqq\""},
           {R"("quantization_config":{"w":1})", "quantization_config has no quant_method, needed gptq, awq"},
           {R"("quantization_config":{"quant_method":"gptq","bits":4,"checkpoint_format":"marlin"})",
            "checkpoint_format: found \"marlin\", needed gptq, gptq_v2"},
           {R"("quantization_config":true)", "quantization_config: found true, needed an object"}})
    EXPECT_THAT(refused(with(json, member)), HasSubstr(words));
  EXPECT_NE(accepted(with(json, R"("quantization_config":{"quant_method":"fp8"})")).rounded, nullptr);
  EXPECT_THAT(accepted(with(json, R"("quantization_config":null)")).notes, IsEmpty());
  EXPECT_THAT(accepted(with(json, R"("quantization_config":{})")).notes, IsEmpty());
}

TEST(PublishedConfig, SlidingLayersAreNotRead) {
  const std::string json = hf_config_json(tiny_config(&kDreamFamily), Style::standard);
  EXPECT_THAT(accepted(with(json, R"("layer_types":["full_attention","full_attention"])")).notes, IsEmpty());
  for (const char* member : {R"("layer_types":["full_attention","sliding_attention"])",
                             R"("use_sliding_window":false,"layer_types":["sliding_attention","full_attention"])"})
    EXPECT_THAT(accepted(with(json, member)).notes, ElementsAre(HasSubstr("layer_types has sliding_attention")));
  EXPECT_THAT(refused(with(json, R"("use_sliding_window":true,"layer_types":["sliding_attention"])")),
              HasSubstr("use_sliding_window: found true"));
  EXPECT_THAT(accepted(with(json, R"("layer_types":7)")).notes, IsEmpty());
}

// Of the classes that read the key; LLaDA's own does not, and what it would not do is refused.
TEST(PublishedConfig, Yarn) {
  const auto scaled = [](const std::string& json, const std::string& fields) {
    std::string without_null = json;
    const std::string null = R"("rope_scaling":null)";
    if (const size_t at = without_null.find(null); at != std::string::npos)
      without_null.replace(at, null.size(), R"("unused":0)");
    return with(without_null, R"("rope_scaling":{)" + fields + "}");
  };
  for (const Family* a : {&kDreamFamily, &kLladaMoeFamily, &kLlada2Family}) {
    const std::string json = hf_config_json(tiny_config(a), Style::standard);
    const int64_t context = tiny_config(a).context;
    ModelConfig c = accepted(scaled(json, R"("type":"yarn","factor":4.0,"original_max_position_embeddings":32768)"));
    EXPECT_EQ(c.yarn, (Yarn{.factor = 4, .original_context = 32768}));
    c = accepted(scaled(json, R"("rope_type":"yarn","factor":2,"beta_fast":16,"beta_slow":2,"attention_factor":1.25)"));
    EXPECT_EQ(
        c.yarn,
        (Yarn{.factor = 2, .original_context = context, .beta_fast = 16, .beta_slow = 2, .attention_factor = 1.25}));
    c = accepted(scaled(json, R"("rope_type":"yarn","factor":16,"mscale":1,"mscale_all_dim":1)"));
    EXPECT_EQ(c.yarn->attention_factor, 1) << "as Nemotron has it";
    c = accepted(scaled(json, R"("rope_type":"yarn","factor":16,"mscale":2,"mscale_all_dim":1)"));
    EXPECT_NEAR(*c.yarn->attention_factor, (0.2 * std::log(16) + 1) / (0.1 * std::log(16) + 1), 1e-12);
    EXPECT_FALSE(accepted(scaled(json, R"("rope_type":"default")")).yarn);
    const std::string yarn = R"("rope_type":"yarn","original_max_position_embeddings":8,"factor":)";
    const int64_t quotient = context / 8;
    EXPECT_THAT(accepted(scaled(json, yarn + std::to_string(quotient))).notes, IsEmpty());
    EXPECT_THAT(accepted(scaled(json, yarn + std::to_string(quotient + 1))).notes,
                ElementsAre(HasSubstr("transformers 4 takes their quotient")));
    for (const auto& [fields, complaint] : std::initializer_list<std::pair<const char*, const char*>>{
             {R"("type":"yarn")", "rope_scaling.factor: is missing"},
             {R"("type":"yarn","factor":0.5)", "YaRN's factor is 0.5, 1 to 4096 needed"},
             {R"("type":"yarn","factor":1e20)", "YaRN's factor is"},
             {R"("type":"yarn","factor":-4)", "factor: found -4"},
             {R"("type":"yarn","factor":"4")", "factor: found \"4\", needed a number from 0 to 1e+30"},
             {R"("type":"yarn","factor":4,"original_max_position_embeddings":0)",
              "original context length of YaRN is 0"},
             {R"("type":"yarn","factor":4,"original_max_position_embeddings":1.5)", "needed a whole number"},
             {R"("type":"yarn","factor":4,"beta_fast":0.5)", "beta_fast is 0.5 and beta_slow 1"},
             {R"("type":"yarn","factor":4,"beta_slow":0)", "beta_slow 0"},
             {R"("type":"yarn","factor":4,"attention_factor":0)", "attention factor is 0"},
             {R"("type":"yarn","factor":4,"truncate":false)", "truncate: found false, needed true"},
             {R"("type":"linear","factor":4)", "rope_scaling.type: found \"linear\""},
             {R"("rope_type":"yarn","type":"dynamic","factor":4)", "rope_scaling.type: found \"dynamic\""}})
      EXPECT_THAT(refused(scaled(json, fields)), HasSubstr(complaint)) << fields;
    EXPECT_THAT(refused(with(json, R"("use_sliding_window":true)")), HasSubstr("use_sliding_window: found true"));
  }
  EXPECT_THAT(refused(with(hf_config_json(tiny_config(&kLladaFamily), Style::olmo),
                           R"("rope_scaling":{"type":"yarn","factor":4})")),
              HasSubstr("rope_scaling.type: found \"yarn\", needed no scaling"));
}

// What a class of its own has where config.json is silent, and what it writes for nothing.
TEST(PublishedConfig, TheClassesOfQwensKind) {
  ModelConfig small = tiny_config(&kDreamFamily);
  small.family = find_family("sdar");
  const std::string sdar = hf_config_json(small, Style::standard);
  const std::string silent = sdar.contains("\"head_dim\"") ? without(sdar, "head_dim") : sdar;
  EXPECT_EQ(accepted(silent).head_dim, 128);
  EXPECT_EQ(accepted(with(silent, R"("head_dim":null)")).head_dim, 16);
  const std::string json = hf_config_json(tiny_config(&kDreamFamily), Style::standard);
  const std::string plain = json.contains("\"rope_scaling\"") ? without(json, "rope_scaling") : json;
  EXPECT_FALSE(accepted(with(plain, R"("rope_scaling":false)")).yarn) << "as RND1's class writes it";
  EXPECT_THAT(refused(with(plain, R"("rope_scaling":true)")), HasSubstr("rope_scaling: found true"));
}

// In llama.cpp's keys, and through convert and back.
TEST(PublishedConfig, YarnInGguf) {
  const TempFolder folder;
  const ModelConfig config = tiny_config(&kLladaFamily);
  const auto open = [&](const std::function<void(GgufWriter&)>& add) {
    GgufWriter out = gguf_writer(config, {.type = DType::F32});
    out.add_string("llada.rope.scaling.type", "yarn");
    add(out);
    std::string bytes = out.header();
    for (const FakeTensor& tensor : fake_tensors(config, false)) {
      bytes.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * 4);
      bytes.resize((bytes.size() + 31) / 32 * 32);
    }
    return ModelFile::open(folder.write("m.gguf", bytes));
  };
  const auto refusal = [&](const std::function<void(GgufWriter&)>& add) { return outcome(open(add)); };
  const auto plain = must(open([](GgufWriter& out) { out.add_f32("llada.rope.scaling.factor", 8); }));
  EXPECT_EQ(plain->config().yarn, (Yarn{.factor = 8, .original_context = config.context}));
  const auto full = must(open([](GgufWriter& out) {
    out.add_f32("llada.rope.scaling.factor", 8);
    out.add_u32("llada.rope.scaling.original_context_length", 16);
    out.add_f32("llada.rope.scaling.yarn_beta_fast", 4);
    out.add_f32("llada.rope.scaling.yarn_beta_slow", 0.5f);
    out.add_f32("llada.rope.scaling.attn_factor", 2);
  }));
  const Yarn& y = *full->config().yarn;
  EXPECT_EQ(std::tuple(y.original_context, y.beta_fast, y.beta_slow), std::tuple(16, 4, 0.5));
  EXPECT_NEAR(*y.attention_factor, 2 * (1 + 0.1 * std::log(8)), 1e-6);
  ASSERT_TRUE(convert_to_gguf(*full, nullptr, folder / "again.gguf", {.type = DType::F32, .progress = {}}));
  const auto again = must(ModelFile::open(folder / "again.gguf"));
  EXPECT_EQ(again->config().yarn->beta_fast, 4);
  EXPECT_EQ(again->config().yarn->original_context, 16);
  EXPECT_NEAR(*again->config().yarn->attention_factor, *y.attention_factor, 1e-6);

  EXPECT_THAT(refusal([](GgufWriter&) {}), HasSubstr("llada.rope.scaling.factor"));
  for (const float bad : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN(), 1e30f})
    EXPECT_THAT(refusal([&](GgufWriter& out) { out.add_f32("llada.rope.scaling.factor", bad); }),
                HasSubstr("YaRN's factor is"));
  for (const float bad : {0.0f, -1.0f, std::numeric_limits<float>::infinity()})
    EXPECT_THAT(refusal([&](GgufWriter& out) {
                  out.add_f32("llada.rope.scaling.factor", 4);
                  out.add_f32("llada.rope.scaling.attn_factor", bad);
                }),
                HasSubstr("YaRN's attention factor is"));
}

}  // namespace
}  // namespace llada
