// Opening models: both GGUF dialects, Hugging Face folders in both name families, single and sharded; what is
// refused.
#include "formats/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include "formats/model_fixture.h"
#include "formats/temp_folder.h"
#include "must.h"
#include "tensor/quantize.h"

namespace llada {
namespace {

using namespace testing_models;
using testing::HasSubstr;

void expect_tensors(const ModelFile& model, const std::vector<FakeTensor>& expected) {
  EXPECT_EQ(model.tensors().size(), expected.size());
  for (const FakeTensor& tensor : expected) {
    const TensorView* view = model.find(tensor.name);
    ASSERT_NE(view, nullptr) << tensor.name;
    EXPECT_EQ(view->shape, tensor.shape) << tensor.name;
    EXPECT_EQ(values(*view), tensor.values) << tensor.name;
  }
}

std::string model_outcome(const std::string& path) { return outcome(ModelFile::open(path)); }

TEST(ModelFile, LlamaCppsLlada) {
  const TempFolder folder;
  const ModelConfig config = tiny_config(&kLladaFamily);
  const auto model = must(ModelFile::open(folder.write("m.gguf", gguf_bytes(config))));
  EXPECT_EQ(model->format(), "gguf");
  const ModelConfig& c = model->config();
  EXPECT_EQ(std::tuple(c.rope_pairing, c.shift_logits, c.layers, c.head_dim, c.rotary_dims, c.ffn_width, c.vocab),
            std::tuple(RopePairing::adjacent, false, 2, 16, 16, 96, 40));
  EXPECT_EQ(std::tuple(c.mask_id, c.eos_id), std::tuple(36, 37));
  EXPECT_EQ(c.eot_id, 38);  // no key: found by its text among the control tokens
  EXPECT_EQ(c.bos_id, -1);
  EXPECT_FALSE(c.tied_head);
  ASSERT_TRUE(model->tokenizer());
  EXPECT_EQ(std::tuple(model->tokenizer()->tokens, model->tokenizer()->kinds, model->tokenizer()->merges),
            std::tuple(tiny_tokenizer().tokens, tiny_tokenizer().kinds, tiny_tokenizer().merges));
  EXPECT_EQ(model->folder(), "");
  expect_tensors(*model, fake_tensors(config, false));
  EXPECT_TRUE(model->get("blk.1.ffn_down.weight", {96, 64}));
  const auto wrong = model->get("blk.1.ffn_down.weight", {64, 96});
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("m.gguf: tensor blk.1.ffn_down.weight is 96x64, 64x96 needed"));
  EXPECT_THAT(model->get("blk.9.x", {1}).error().message, HasSubstr("tensor blk.9.x is missing"));
}

TEST(ModelFile, TheDiffuseDialectIsNotPermuted) {
  const TempFolder folder;
  for (const auto& [type, family] : {std::pair{"llada", &kLladaFamily}, std::pair{"dream", &kDreamFamily}}) {
    const ModelConfig config = tiny_config(family);
    const auto model = must(ModelFile::open(folder.write(
        "m.gguf",
        gguf_bytes(config, {.arch = "diffuse", .model_type = type, .tokenizer = false, .alignment_key = false}))));
    EXPECT_EQ(std::tuple(model->format(), model->config().family, model->config().rope_pairing),
              std::tuple("gguf (diffuse)", family, RopePairing::half_split));
    EXPECT_EQ(model->config().shift_logits, family == &kDreamFamily);
    EXPECT_EQ(model->config().mask_id, 36);
    EXPECT_FALSE(model->tokenizer());
    expect_tensors(*model, fake_tensors(config, false));
  }
}

// The metadata and the tokenizer tell each other of ids that only one of them gives; 0 is given.
TEST(ModelFile, TokenZeroIsAnIdLikeAnother) {
  const TempFolder folder;
  ModelConfig config = tiny_config(&kLladaFamily);
  config.mask_id = 0;  // diffuse.mask_token_id; the tokenizer's is 36
  const GgufOptions options = {.arch = "diffuse", .model_type = "llada", .alignment_key = false};
  const auto first = must(ModelFile::open(folder.write("a.gguf", gguf_bytes(config, options))));
  EXPECT_EQ(first->config().mask_id, 0);
  EXPECT_EQ(first->tokenizer()->mask, 36);
  // The other way round, with ids that the fixture leaves out.
  config.mask_id = 36;
  GgufWriter out = gguf_writer(config, options);
  out.add_u32("tokenizer.ggml.bos_token_id", 0);
  out.add_u32("diffuse.bos_token_id", 5);
  const std::string head = out.header(), plain = gguf_writer(config, options).header();
  const auto second =
      must(ModelFile::open(folder.write("b.gguf", head + gguf_bytes(config, options).substr(plain.size()))));
  EXPECT_EQ(second->config().bos_id, 5);
  EXPECT_EQ(second->tokenizer()->bos, 0);
}

// The context of the rotation is the period of a scale of queries only where there is one.
TEST(ModelFile, APeriodOfNothingIsNotRead) {
  const TempFolder folder;
  const ModelConfig config = tiny_config(&kLladaFamily);
  const GgufOptions options = {.alignment_key = false};
  GgufWriter out = gguf_writer(config, options);
  const std::string plain = out.header();
  out.add_u32("llada.rope.scaling.original_context_length", 0);
  const auto model =
      ModelFile::open(folder.write("m.gguf", out.header() + gguf_bytes(config, options).substr(plain.size())));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->config().query_scale, QueryScale());
}

TEST(ModelFile, DreamAndMoeInGguf) {
  const TempFolder folder;
  const auto dream =
      must(ModelFile::open(folder.write("d.gguf", gguf_bytes(tiny_config(&kDreamFamily), {.arch = "dream"}))));
  EXPECT_TRUE(dream->config().shift_logits);  // diffusion.shift_logits is absent
  EXPECT_TRUE(dream->config().qkv_bias);
  EXPECT_EQ(dream->config().rope_pairing, RopePairing::half_split);
  const ModelConfig config = tiny_config(&kLladaMoeFamily);
  const auto moe = must(ModelFile::open(folder.write("e.gguf", gguf_bytes(config, {.arch = "llada-moe"}))));
  EXPECT_EQ(moe->config().experts_used, 2);
  EXPECT_TRUE(moe->config().qk_norm);
  EXPECT_FALSE(moe->config().norm_topk);
  EXPECT_EQ(moe->config().ffn_width, 0);
  expect_tensors(*moe, fake_tensors(config, false));
}

void write_folder(const TempFolder& folder, const ModelConfig& config, Style style) {
  folder.write("config.json", hf_config_json(config, style));
  folder.write("model.safetensors", safetensors_bytes(fake_tensors(config, true), hf_names(config, style)));
}

TEST(ModelFile, HuggingFaceInBothNameFamilies) {
  const ModelConfig config = tiny_config(&kLladaFamily);
  for (const Style style : {Style::olmo, Style::standard}) {
    const TempFolder folder;
    write_folder(folder, config, style);
    const auto model = must(ModelFile::open(folder.path()));
    EXPECT_EQ(std::tuple(model->format(), model->folder(), model->config().family, model->config().rope_pairing),
              std::tuple("safetensors", folder.path(), &kLladaFamily, RopePairing::half_split));
    EXPECT_EQ(std::tuple(model->config().ffn_width, model->config().mask_id, model->config().context),
              std::tuple(96, 36, 128));
    expect_tensors(*model, fake_tensors(config, true));
    EXPECT_EQ(model->find("blk.1.ffn_down.weight")->shape.dims[0], 96);  // ff_out of a block, not the head
    EXPECT_EQ(model_outcome(folder / "model.safetensors"), "accepted");  // the file instead of its folder
  }
}

TEST(ModelFile, ArchitecturesDecidesNotModelType) {
  const TempFolder folder;
  const ModelConfig config = tiny_config(&kLladaMoeFamily);  // its config says model_type llada
  write_folder(folder, config, Style::standard);
  const auto model = must(ModelFile::open(folder.path()));
  EXPECT_EQ(model->config().family, &kLladaMoeFamily);
  EXPECT_EQ(model->config().expert_ffn_width, 32);
  expect_tensors(*model, fake_tensors(config, true));
  EXPECT_NE(model->find("blk.1.ffn_gate_exps.3.weight"), nullptr);
}

TEST(ModelFile, Dream) {
  const TempFolder folder;
  const ModelConfig config = tiny_config(&kDreamFamily);
  write_folder(folder, config, Style::standard);
  const auto model = must(ModelFile::open(folder.path()));
  EXPECT_TRUE(model->config().shift_logits);
  EXPECT_EQ(model->config().kv_heads, 2);
  expect_tensors(*model, fake_tensors(config, true));
}

TEST(ModelFile, Llada2FromBothFormats) {
  const TempFolder folder;
  const ModelConfig config = tiny_config(&kLlada2Family);
  const auto tensors = fake_tensors(config, true);
  folder.write("config.json", hf_config_json(config, Style::standard));
  folder.write("model.safetensors", safetensors_bytes(hf_tensors(config), hf_names(config, Style::standard)));
  const auto hf = must(ModelFile::open(folder.path()));
  expect_tensors(*hf, tensors);  // q, k and v are row ranges of the fused matrix
  const auto gguf = ModelFile::open(folder.write("m.gguf", gguf_bytes(config, {.arch = "llada2"})));
  ASSERT_TRUE(gguf) << gguf.error().message;
  for (const ModelConfig& c : {hf->config(), gguf->config()}) {
    EXPECT_EQ(c.family, &kLlada2Family);
    EXPECT_TRUE(c.sigmoid_router && c.norm_topk && c.qk_norm);
    EXPECT_EQ(std::tuple(c.rotary_dims, c.dense_layers, c.expert_groups, c.expert_groups_used, c.expert_scale),
              std::tuple(8, 1, 4, 2, 2.5f));
    EXPECT_EQ(std::tuple(c.shared_expert_ffn_width, c.attention_block, c.shift_logits), std::tuple(32, 32, false));
  }
  // An expert is the same matrix whether its stack is stored whole or split.
  for (int64_t e = 0; e < 8; ++e) {
    const auto split = hf->get_expert("blk.1.ffn_down_exps.weight", 32, 64, e, 8);
    const auto whole = gguf->get_expert("blk.1.ffn_down_exps.weight", 32, 64, e, 8);
    ASSERT_TRUE(split && whole);
    EXPECT_EQ(split->bytes(), whole->bytes());
  }
  EXPECT_FALSE(gguf->get_expert("blk.1.ffn_down_exps.weight", 32, 64, 0, 9));
  auto wrong = hf_tensors(config);
  for (FakeTensor& tensor : wrong)
    if (tensor.name == "blk.1.attn_qkv.weight")
      tensor.shape.dims[1] -= 16, tensor.values.resize(tensor.values.size() - 16 * 64);
  folder.write("model.safetensors", safetensors_bytes(wrong, hf_names(config, Style::standard)));
  EXPECT_THAT(model_outcome(folder.path()), HasSubstr("attention.query_key_value.weight is 64x112, 64x128 needed"));
}

TEST(ModelFile, Shards) {
  const TempFolder folder;
  const ModelConfig config = tiny_config(&kLladaFamily);
  const auto all = fake_tensors(config, true);
  const auto names = hf_names(config, Style::olmo);
  folder.write("config.json", hf_config_json(config, Style::olmo));
  const std::vector<FakeTensor> first(all.begin(), all.begin() + 7), second(all.begin() + 7, all.end());
  folder.write("model-00001-of-00002.safetensors", safetensors_bytes(first, names));
  folder.write("model-00002-of-00002.safetensors", safetensors_bytes(second, names));
  std::string map;
  for (size_t i = 0; i < all.size(); ++i)
    map += fmt::format("{}\"{}\":\"model-0000{}-of-00002.safetensors\"", i > 0 ? "," : "", names.at(all[i].name),
                       i < 7 ? 1 : 2);
  folder.write("model.safetensors.index.json", R"({"metadata":{"total_size":1},"weight_map":{)" + map + "}}");
  const auto model = must(ModelFile::open(folder.path()));
  expect_tensors(*model, all);
  EXPECT_EQ(model->file_bytes(), folder.read("model-00001-of-00002.safetensors").size() +
                                     folder.read("model-00002-of-00002.safetensors").size());
  model->drop_pages(*model->find("output.weight"));
  EXPECT_EQ(values(*model->find("output.weight")), all.back().values);  // pages come back from the file

  folder.write("model-00002-of-00002.safetensors", safetensors_bytes(all, names));
  EXPECT_THAT(model_outcome(folder.path()), HasSubstr("is in two of its files"));
  folder.write("model-00002-of-00002.safetensors", safetensors_bytes({second.begin() + 1, second.end()}, names));
  EXPECT_THAT(model_outcome(folder.path()), HasSubstr("is missing"));
  std::filesystem::remove(folder / "model-00002-of-00002.safetensors");
  EXPECT_THAT(model_outcome(folder.path()), HasSubstr("model-00002-of-00002.safetensors: cannot open"));
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"../../secret.safetensors"}})");
  EXPECT_THAT(model_outcome(folder.path()),
              HasSubstr("weight_map.a: found '../../secret.safetensors', needed a .safetensors file"));
  folder.write("model.safetensors.index.json", R"({"weight_map":{}})");
  EXPECT_THAT(model_outcome(folder.path()), HasSubstr("weight_map: is empty; needed a file for each tensor"));
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":3}})");
  EXPECT_THAT(model_outcome(folder.path()), HasSubstr("weight_map.a: needed the name of a file"));
}

std::string shard_index(const std::vector<std::string>& shards) {
  std::string map;
  for (size_t i = 0; i < shards.size(); ++i) map += fmt::format(R"({}"t{}":"{}")", i > 0 ? "," : "", i, shards[i]);
  return R"({"weight_map":{)" + map + "}}";
}

// transformers leaves an index behind where it saves a model again in one file.
TEST(ModelFile, OneFileComesBeforeAnIndex) {
  using testing::ElementsAre;
  using testing::IsEmpty;
  const TempFolder folder;
  const ModelConfig config = tiny_config(&kLladaFamily);
  write_folder(folder, config, Style::olmo);
  const auto open = [&](const std::string& index) {
    folder.write("model.safetensors.index.json", index);
    return opened(folder.path());
  };
  const ModelFile stale = open(shard_index({"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}));
  expect_tensors(stale, fake_tensors(config, true));
  EXPECT_THAT(stale.config().notes, IsEmpty());
  EXPECT_THAT(stale.config().remarks, ElementsAre(HasSubstr("names files that are not there")));
  EXPECT_THAT(open("{").config().remarks, ElementsAre(HasSubstr("index.json is damaged")));
  EXPECT_THAT(open(shard_index({"model.safetensors"})).config().remarks, IsEmpty());

  // Other weights in files of another name: not computed, and said.
  auto others = fake_tensors(config, true);
  for (FakeTensor& tensor : others) tensor.values[0] += 1;
  folder.write("model-1.safetensors", safetensors_bytes(others, hf_names(config, Style::olmo)));
  const ModelFile both = open(shard_index({"model-1.safetensors"}));
  expect_tensors(both, fake_tensors(config, true));
  EXPECT_THAT(both.config().notes, ElementsAre(HasSubstr("model.safetensors is read, as transformers does")));
  std::filesystem::remove(folder / "model.safetensors");
  expect_tensors(opened(folder.path()), others);
}

TEST(ModelFile, APartOfAFolderNamesTheFolder) {
  const TempFolder folder;
  write_folder(folder, tiny_config(&kLladaFamily), Style::olmo);
  std::filesystem::rename(folder / "model.safetensors", folder / "model-00002-of-00003.safetensors");
  EXPECT_THAT(model_outcome(folder / "model-00002-of-00003.safetensors"),
              HasSubstr("part 2 of 3 of a model; needed the folder: " + folder.path()));
}

TEST(ModelFile, WeightsBeginAtAnyByte) {
  const ModelConfig config = tiny_config(&kLladaMoeFamily);
  for (const DType type : {DType::F32, DType::BF16})
    for (size_t spaces = 0; spaces < 4; ++spaces) {
      std::string bytes = safetensors_bytes(fake_tensors(config, true), hf_names(config, Style::standard), type);
      uint64_t header = 0;
      std::memcpy(&header, bytes.data(), 8);
      bytes.insert(8 + header, spaces, ' ');
      header += spaces;
      std::memcpy(bytes.data(), &header, 8);
      const TempFolder folder;
      folder.write("config.json", hf_config_json(config, Style::standard));
      folder.write("model.safetensors", bytes);
      expect_tensors(opened(folder.path()), fake_tensors(config, true));
    }
}

TEST(ModelFile, BuffersArePassedOverAndNamed) {
  const TempFolder folder;
  const ModelConfig config = tiny_config(&kDreamFamily);
  auto tensors = fake_tensors(config, true);
  auto names = hf_names(config, Style::standard);
  for (const std::string buffer : {"model.layers.0.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq",
                                   "model.position_ids", "model.layers.0.self_attn.masked_bias"}) {
    tensors.push_back({buffer, {{8, 1, 1, 1}, 1}, std::vector<float>(8)});
    names[buffer] = buffer;
  }
  folder.write("config.json", hf_config_json(config, Style::standard));
  folder.write("model.safetensors", safetensors_bytes(tensors, names));
  const ModelFile model = opened(folder.path());
  expect_tensors(model, fake_tensors(config, true));
  EXPECT_THAT(model.config().notes, testing::IsEmpty());
  EXPECT_THAT(
      model.config().remarks,
      testing::ElementsAre("ignored tensors, which are no weights: model.layers.0.self_attn.rotary_emb.inv_freq, "
                           "model.rotary_emb.inv_freq, model.position_ids and 1 more"));
}

TEST(ModelFile, WeightsInOtherFormsAreNamed) {
  const ModelConfig config = tiny_config(&kDreamFamily);
  const auto with = [&](const std::string& entry, size_t bytes) {
    const TempFolder folder;
    std::string file = safetensors_bytes(fake_tensors(config, true), hf_names(config, Style::standard));
    uint64_t header = 0;
    std::memcpy(&header, file.data(), 8);
    const size_t data = file.size() - 8 - header;
    const std::string more = fmt::format(R"({{"{},"data_offsets":[{},{}]}},)", entry, data, data + bytes).substr(1);
    file.insert(9, more);
    header += more.size();
    std::memcpy(file.data(), &header, 8);
    folder.write("config.json", hf_config_json(config, Style::standard));
    folder.write("model.safetensors", file + std::string(bytes, '\0'));
    return model_outcome(folder.path());
  };
  EXPECT_EQ(with(R"(step":{"dtype":"I64","shape":[1])", 8), "accepted");
  EXPECT_THAT(with(R"(model.layers.7.self_attn.q_proj.weight":{"dtype":"F64","shape":[1])", 8),
              HasSubstr("tensor model.layers.7.self_attn.q_proj.weight has dtype F64, F32, F16 or BF16 needed"));
  EXPECT_THAT(with(R"(model.layers.6.mlp.up_proj.weight":{"dtype":"I8","shape":[8])", 8), HasSubstr("has dtype I8"));
  for (const char* part :
       {"qweight", "g_idx", "SCB", "weight_packed", "weight.absmax", "W_q", "codebooks", "weight_blocks"})
    EXPECT_THAT(with(fmt::format(R"(model.layers.1.mlp.up_proj.{}":{{"dtype":"I32","shape":[2])", part), 8),
                HasSubstr(fmt::format("up_proj.{}: part of a matrix that GPTQ, AWQ, bitsandbytes", part)));
  EXPECT_THAT(with(R"(model.layers.1.mlp.up_proj.scales":{"dtype":"F16","shape":[4])", 8),
              HasSubstr("up_proj.scales: part of a matrix that GPTQ"));
  EXPECT_THAT(with(R"(model.layers.1.mlp.up_proj.lora_A.weight":{"dtype":"F16","shape":[4])", 8),
              HasSubstr("lora_A.weight is not part of this architecture"));
}

TEST(ModelFile, WhatIsNoRegularFileIsRefusedAtOnce) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe.gguf").c_str(), 0600), 0);
  EXPECT_THAT(model_outcome(folder / "pipe.gguf"), HasSubstr("pipe.gguf: not a regular file"));
  EXPECT_THAT(model_outcome("/dev/zero"), HasSubstr("not a regular file"));
  EXPECT_THAT(model_outcome(folder.write("empty.gguf", "")), HasSubstr("empty.gguf: is empty"));
  write_folder(folder, tiny_config(&kLladaFamily), Style::olmo);
  for (const std::string file :
       {"config.json", "generation_config.json", "model.safetensors", "model.safetensors.index.json"}) {
    const std::string before = folder.read(file);
    std::filesystem::remove(folder / file);
    ASSERT_EQ(::mkfifo((folder / file).c_str(), 0600), 0);
    if (file.ends_with("index.json"))
      EXPECT_THAT(opened(folder.path()).config().remarks, testing::ElementsAre(HasSubstr("is damaged")));
    else
      EXPECT_THAT(model_outcome(folder.path()), HasSubstr(file + ": not a regular file"));
    std::filesystem::remove(folder / file);
    if (file.ends_with("index.json") || before.empty()) continue;
    folder.write(file, "");
    EXPECT_THAT(model_outcome(folder.path()), HasSubstr(file + ": is empty"));
    folder.write(file, before);
  }
  EXPECT_EQ(model_outcome(folder.path()), "accepted");
}

TEST(ModelFile, ADownloadHasTheNameOfItsRepository) {
  const TempFolder cache;
  const std::string commit = "0123456789abcdef0123456789abcdef01234567";
  for (const std::string repository : {"models--own-er--my--model", "models--X--Y"}) {
    const std::string folder = cache / repository + "/snapshots/" + commit;
    std::filesystem::create_directories(folder);
    const ModelConfig config = tiny_config(&kLladaFamily);
    cache.write(repository + "/snapshots/" + commit + "/config.json", hf_config_json(config, Style::olmo));
    cache.write(repository + "/snapshots/" + commit + "/model.safetensors",
                safetensors_bytes(fake_tensors(config, true), hf_names(config, Style::olmo)));
    const std::string name = repository == "models--X--Y" ? "Y" : "my--model";  // an owner's has no two dashes
    EXPECT_EQ(opened(folder).config().name, name);
    EXPECT_EQ(opened(folder + "/").config().name, name);
  }
}

TEST(ModelFile, NamesOfPaths) {
  EXPECT_EQ(model_name("a/tiny-q8_0.gguf"), "tiny-q8_0");
  EXPECT_EQ(model_name("a/big-00001-of-00009.gguf"), "big");
  EXPECT_EQ(model_name("/no/such/folder/"), "folder");
  EXPECT_EQ(model_name("/no/such/snapshots/0123"), "0123");
  EXPECT_EQ(model_name("/c/models--o--n/snapshots/0123/"), "n");
  EXPECT_EQ(model_name("/c/models--gpt2/snapshots/0123"), "gpt2");
}

TEST(ModelFile, ConfigsThatWouldComputeSomethingElse) {
  const TempFolder folder;
  const ModelConfig config = tiny_config(&kLladaFamily);
  write_folder(folder, config, Style::olmo);
  const std::string good = hf_config_json(config, Style::olmo);
  const auto with = [&](const std::string& field) {
    std::string text = good;
    text.insert(1, field + ",");
    folder.write("config.json", text);
    return model_outcome(folder.path());
  };
  const auto instead = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    folder.write("config.json", text);
    return model_outcome(folder.path());
  };
  EXPECT_EQ(with(R"("use_cache":false)"), "accepted");
  EXPECT_EQ(with(R"("rope_scaling":{"rope_type":"default"})"), "accepted");
  EXPECT_THAT(with(R"("rope_scaling":{"type":"linear","factor":2})"), HasSubstr("rope_scaling.type: found \"linear\""));
  EXPECT_THAT(with(R"("rope_scaling":{"factor":2})"), HasSubstr("rope_scaling.rope_type: is missing"));
  EXPECT_EQ(with(R"("clip_qkv":null)"), "accepted");
  EXPECT_THAT(with(R"("clip_qkv":8.0)"), HasSubstr("clip_qkv: found 8.0, needed null"));
  for (const auto key : {"final_logit_softcapping", "attn_logit_softcapping", "query_pre_attn_scalar",
                         "attention_multiplier", "scale_depth"}) {
    EXPECT_EQ(with(fmt::format(R"("{}":null)", key)), "accepted");
    EXPECT_THAT(with(fmt::format(R"("{}":30.0)", key)), HasSubstr(fmt::format("{}: found 30", key)));
  }
  for (const auto key : {"logit_scale", "logits_scaling", "residual_multiplier", "embedding_multiplier", "scale_emb"}) {
    EXPECT_EQ(with(fmt::format(R"("{}":1)", key)), "accepted");
    EXPECT_THAT(with(fmt::format(R"("{}":2)", key)), HasSubstr(fmt::format("{}: found 2, needed 1", key)));
  }
  const std::string pad = R"("pad_token_id":37)";
  EXPECT_EQ(instead(pad, R"("pad_token_id":[37])"), "accepted");
  EXPECT_THAT(instead(pad, R"("pad_token_id":[37,1])"), HasSubstr("pad_token_id: found 2 ids, needed at most 1"));
  for (const auto& [from, to, says] :
       {std::tuple{R"("activation_type":"silu")", R"("activation_type":"gelu")",
                   "activation_type: found \"gelu\", needed \"silu\""},
        {R"("layer_norm_type":"rms")", R"("layer_norm_type":"default")",
         "layer_norm_type: found \"default\", needed \"rms\""},
        {R"("block_type":"llama")", R"("block_type":"sequential")",
         "block_type: found \"sequential\", needed \"llama\""},
        {R"("alibi":false)", R"("alibi":true)", "alibi: found true"},
        {"LLaDAModelLM", "GPT2LMHeadModel",
         "architectures: found \"GPT2LMHeadModel\", which is an ordinary, autoregressive model's, which "
         "other programs"},
        {"LLaDAModelLM", "LLaDA3ModelLM", "architectures: found \"LLaDA3ModelLM\""},
        {R"("d_model":64)", R"("d_model":63)", "hidden_size is 63, a multiple of the 4 heads needed"},
        {R"("d_model":64)", R"("d_model":128)", "tensor model.transformer.wte.weight is 64x40, 128x40 needed"},
        {R"("n_layers":2)", R"("n_layers":3)", "tensor blk.2.attn_norm.weight is missing"},
        {R"("n_layers":2)", R"("n_layers":1)", "model.transformer.blocks.1.attn_norm.weight is not part"},
        {R"("n_layers":2)", R"("n_layers":-1)", "number of layers is -1"},
        {R"("n_layers":2)", R"("n_layers":"2")", "n_layers: found \"2\", needed a whole number"},
        {R"("n_layers":2)", R"("n_layers":18446744073709551615)", "needed a whole number"},
        {R"("n_layers":2)", R"("n_layers":null)", "num_hidden_layers or n_layers: is missing"},
        {"1e-05", "0", "RMSNorm epsilon is 0"},
        {"1e-05", "-1", "rms_norm_eps: found -1"},
        {"10000.0", "1e300", "rope_theta"},
        {R"("mask_token_id":36)", R"("mask_token_id":40)", "mask token id is 40, below the vocabulary size 40"},
        {R"("n_kv_heads":4)", R"("n_kv_heads":3)", "4 heads over 3 key/value heads"}})
    EXPECT_THAT(instead(from, to), HasSubstr(says)) << to;
  EXPECT_THAT(with(R"("include_bias":true)"), HasSubstr("include_bias: found true, needed false"));
  EXPECT_THAT(with(R"("d_model":64)"), HasSubstr("field \"d_model\" appears twice"));
  folder.write("config.json", "[1,2");
  EXPECT_THAT(model_outcome(folder.path()), HasSubstr("config.json: not valid JSON"));
  folder.write("config.json", std::string(100, '['));
  EXPECT_THAT(model_outcome(folder.path()), HasSubstr("nested more than 64 deep"));
  folder.write("config.json", "[]");
  EXPECT_THAT(model_outcome(folder.path()), HasSubstr("not an object"));
}

TEST(ModelFile, FieldsFromGenerationConfig) {
  const TempFolder folder;
  write_folder(folder, tiny_config(&kLladaFamily), Style::olmo);
  folder.write("generation_config.json", R"({"bos_token_id":35,"eos_token_id":[1,2]})");
  const auto model = must(ModelFile::open(folder.path()));
  EXPECT_EQ(model->config().bos_id, 35);
  EXPECT_EQ(model->config().eos_id, 37);                             // config.json comes first
  EXPECT_THAT(model->config().end_ids, testing::ElementsAre(1, 2));  // and both end an answer
  EXPECT_TRUE(model->config().remarks.empty());
  folder.write("generation_config.json", R"({"do_sample":true,"temperature":0.7,"top_p":1.0,"top_k":20,"min_p":0.1,)"
                                         R"("num_beams":1,"bad_words_ids":null,"suppress_tokens":[5]})");
  EXPECT_THAT(ModelFile::open(folder.path())->config().remarks,
              testing::ElementsAre("generation_config.json has do_sample true, temperature 0.7, top_k 20, min_p 0.1, "
                                   "suppress_tokens [5], which is not read"));
  folder.write("generation_config.json", R"({"eos_token_id":[37,2,2]})");
  EXPECT_THAT(ModelFile::open(folder.path())->config().end_ids, testing::ElementsAre(2));
  folder.write("generation_config.json", R"({"eos_token_id":[37,40]})");
  EXPECT_THAT(model_outcome(folder.path()), HasSubstr("eos token id is 40, below the vocabulary size 40"));
  folder.write("generation_config.json", R"({"eos_token_id":[37,"2"]})");
  EXPECT_THAT(model_outcome(folder.path()), HasSubstr("eos_token_id: found \"2\", needed a token id"));
  std::string many = R"({"eos_token_id":[1)";
  for (int i = 0; i < 100; ++i) many += ",1";
  folder.write("generation_config.json", many + "]}");
  EXPECT_THAT(model_outcome(folder.path()), HasSubstr("eos_token_id: found 101 ids, needed at most 64"));
}

TEST(ModelFile, EveryEndOfAnAnswerInGguf) {
  const TempFolder folder;
  const ModelConfig config = tiny_config(&kLladaFamily);
  const auto open = [&](const std::function<void(GgufWriter&)>& add) {
    GgufWriter writer = gguf_writer(config, {.tokenizer = true});
    add(writer);
    // The tensors' bytes do not matter here.
    return ModelFile::open(folder.write("m.gguf", writer.header() + std::string(writer.data_bytes(), '\0')));
  };
  const std::vector<int32_t> ids = {3, 4};
  const auto both = must(open([&](GgufWriter& out) {
    out.add_u32("tokenizer.ggml.eom_token_id", 5);
    out.add_i32s("llada.tokenizer.end_token_ids", ids);
  }));
  EXPECT_THAT(both->config().end_ids, testing::ElementsAre(5, 3, 4));
  const std::vector<int32_t> large = {40}, negative = {-2}, many(65, 1);
  for (const auto& [list, says] : {std::pair(large, "eos token id is 40"), std::pair(negative, "found -2"),
                                   std::pair(many, "65 x int32, at most 64 x int32 needed")}) {
    const auto refused = open([&](GgufWriter& out) { out.add_i32s("llada.tokenizer.end_token_ids", list); });
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr(says));
  }
}

TEST(ModelFile, TiedHeads) {
  const TempFolder folder;
  ModelConfig config = tiny_config(&kDreamFamily);
  config.tied_head = true;
  write_folder(folder, config, Style::standard);
  EXPECT_THAT(model_outcome(folder.path()), HasSubstr("tensor output.weight is missing"));
  std::string text = hf_config_json(config, Style::standard);
  text.replace(text.find(R"("tie_word_embeddings":false)"), 27, R"("tie_word_embeddings":true)");
  folder.write("config.json", text);
  const auto model = must(ModelFile::open(folder.path()));
  EXPECT_TRUE(model->config().tied_head);
  const auto gguf = must(ModelFile::open(folder.write("m.gguf", gguf_bytes(config, {.arch = "dream"}))));
  EXPECT_TRUE(gguf->config().tied_head);
}

// Writers that drop one of two equal tensors keep either name.
TEST(ModelFile, ATiedModelUnderTheNameOfItsHead) {
  for (const auto& [family, style] : {std::pair{&kLladaFamily, Style::olmo},
                                      {&kDreamFamily, Style::standard},
                                      {&kLladaMoeFamily, Style::standard},
                                      {&kLlada2Family, Style::standard}}) {
    ModelConfig config = tiny_config(family);
    const std::string json = hf_config_json(config, style),
                      key = style == Style::olmo ? "weight_tying" : "tie_word_embeddings";
    config.tied_head = true;
    const TempFolder folder;
    std::string tied = json;
    tied.replace(tied.find('"' + key + "\":false") + key.size() + 3, 5, "true");
    folder.write("config.json", tied);
    auto names = hf_names(config, style);
    names["token_embd.weight"] = names["output.weight"];
    folder.write("model.safetensors", safetensors_bytes(hf_tensors(config), names));
    const ModelFile model = opened(folder.path());
    EXPECT_TRUE(model.config().tied_head);
    expect_tensors(model, fake_tensors(config, true));
    folder.write("config.json", json);
    EXPECT_THAT(model_outcome(folder.path()), HasSubstr("tensor token_embd.weight is missing"));
  }
}

TEST(ModelFile, AHeadBesideTheEmbeddingOfATiedModel) {
  for (const auto& [family, style] : {std::pair{&kLladaFamily, Style::olmo},
                                      {&kDreamFamily, Style::standard},
                                      {&kLladaMoeFamily, Style::standard},
                                      {&kLlada2Family, Style::standard}}) {
    const ModelConfig config = tiny_config(family);  // with a head of its own
    const bool olmo = style == Style::olmo;
    std::string json = hf_config_json(config, style);
    json.replace(json.find(olmo ? R"("weight_tying":false)" : R"("tie_word_embeddings":false)"), olmo ? 20 : 27,
                 olmo ? R"("weight_tying":true)" : R"("tie_word_embeddings":true)");
    for (const bool equal : {false, true}) {
      auto tensors = hf_tensors(config);
      if (equal)
        std::ranges::find(tensors, "output.weight", &FakeTensor::name)->values =
            std::ranges::find(tensors, "token_embd.weight", &FakeTensor::name)->values;
      const TempFolder folder;
      folder.write("config.json", json);
      folder.write("model.safetensors", safetensors_bytes(tensors, hf_names(config, style)));
      const ModelFile model = opened(folder.path());
      EXPECT_EQ(model.config().tied_head, olmo) << "LLaDA's code has no other head";
      if (equal)
        EXPECT_THAT(model.config().notes, testing::IsEmpty());
      else
        EXPECT_THAT(model.config().notes, testing::ElementsAre(HasSubstr("differs from the embedding")));
    }
  }
}

// Numbers that would make another computation of the same tensors.
TEST(ModelFile, GgufNumbersThatChangeTheComputation) {
  const TempFolder folder;
  const ModelConfig config = tiny_config(&kLladaFamily);
  const GgufOptions options = {.alignment_key = false};
  const auto outcome_with = [&](const std::function<void(GgufWriter&)>& add) {
    GgufWriter out = gguf_writer(config, options);
    const std::string plain = out.header();
    add(out);
    return model_outcome(folder.write("m.gguf", out.header() + gguf_bytes(config, options).substr(plain.size())));
  };
  const auto outcome_of = [&](std::string_view key, float value) {
    return outcome_with([&](GgufWriter& out) { out.add_f32(fmt::format("llada.{}", key), value); });
  };
  for (const auto key :
       {"rope.scaling.factor", "rope.scale_linear", "logit_scale", "residual_scale", "embedding_scale"}) {
    EXPECT_EQ(outcome_of(key, 0), "accepted");
    EXPECT_EQ(outcome_of(key, 1), "accepted");
    EXPECT_THAT(outcome_of(key, 2), HasSubstr(fmt::format("llada.{} is 2, 0 or 1 needed", key)));
  }
  for (const auto key : {"attention.clamp_kqv", "attention.max_alibi_bias", "attn_logit_softcapping",
                         "final_logit_softcapping", "attention.scale"}) {
    EXPECT_EQ(outcome_of(key, 0), "accepted");
    EXPECT_THAT(outcome_of(key, 30), HasSubstr(fmt::format("llada.{} is 30, 0 needed", key)));
  }
  EXPECT_THAT(outcome_of("expert_weights_scale", 2.5f), HasSubstr("llada.expert_weights_scale is 2.5, 0 or 1 needed"));
  const auto with_window = [&](uint32_t window) {
    return outcome_with([&](GgufWriter& out) { out.add_u32("llada.attention.sliding_window", window); });
  };
  const auto context = static_cast<uint32_t>(config.context);
  EXPECT_EQ(with_window(0), "accepted");
  EXPECT_EQ(with_window(context), "accepted");
  EXPECT_THAT(with_window(context - 1), HasSubstr("llada.attention.sliding_window is"));
  EXPECT_THAT(outcome_with([](GgufWriter& out) { out.add_bool("llada.use_parallel_residual", true); }),
              HasSubstr("llada.use_parallel_residual is true, false needed"));
  GgufWriter unknown = gguf_writer(config, options);
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) unknown.add_u32(fmt::format("llada.{}", name), 1);
  const auto opened =
      must(ModelFile::open(folder.write("m.gguf", unknown.header() + std::string(unknown.data_bytes(), 0))));
  EXPECT_THAT(opened->config().notes,
              testing::ElementsAre("ignored metadata: llada.a, llada.b, llada.c, llada.d and 2 more"));
}

TEST(ModelFile, GgufMetadataThatDoesNotFit) {
  const TempFolder folder;
  const auto refused = [&](const std::function<void(ModelConfig&)>& change, const GgufOptions& options = {}) {
    ModelConfig config = tiny_config(&kLladaFamily);
    change(config);
    return model_outcome(folder.write("m.gguf", gguf_bytes(config, options)));
  };
  EXPECT_THAT(refused([](ModelConfig&) {}, {.arch = "gpt2"}), HasSubstr("general.architecture is \"gpt2\""));
  EXPECT_THAT(refused([](ModelConfig&) {}, {.arch = "llada2"}), HasSubstr("llada2.expert_count is missing"));
  EXPECT_THAT(refused([](ModelConfig&) {}, {.arch = "diffuse", .model_type = "llada2_moe"}),
              HasSubstr("diffuse.expert_count is missing"));
  EXPECT_THAT(refused([](ModelConfig&) {}, {.arch = "diffuse", .model_type = "llada_moe"}),
              HasSubstr("diffuse.model_type is \"llada_moe\""));
  EXPECT_THAT(refused([](ModelConfig& c) { c.vocab = 41; }),
              HasSubstr("tokenizer.ggml.tokens has 40 tokens, the vocabulary size 41 needed"));
  EXPECT_THAT(refused([](ModelConfig& c) { c.rms_eps = -1; }),
              HasSubstr("llada.attention.layer_norm_rms_epsilon is -1"));
  EXPECT_THAT(refused([](ModelConfig& c) { c.rms_eps = __builtin_nanf(""); }),
              HasSubstr("layer_norm_rms_epsilon is nan"));
  EXPECT_THAT(refused([](ModelConfig& c) { c.context = 1 << 30; }), HasSubstr("context length is 1073741824"));
  EXPECT_THAT(refused([](ModelConfig& c) { c.heads = c.kv_heads = 8; }),
              HasSubstr("blk.0.attn_q.weight is 64x128, 64x64 needed"));
  EXPECT_THAT(model_outcome(folder / "absent.gguf"), HasSubstr("cannot open"));
  EXPECT_THAT(model_outcome(folder.write("text.gguf", "hello")), HasSubstr("not a GGUF file"));
}

}  // namespace
}  // namespace llada
