// Conversions: every source into every type, the dialect's rules, and that a failed one leaves nothing
// behind.
#include "formats/convert.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <limits>
#include <set>

#include "formats/gguf_model.h"
#include "formats/imatrix.h"
#include "formats/model_fixture.h"
#include "formats/temp_folder.h"
#include "formats/type_mix.h"
#include "must.h"
#include "tensor/quantize.h"

namespace llada {
namespace {

using namespace testing_models;
using testing::HasSubstr;

std::string write_folder(const TempFolder& folder, const ModelConfig& config, const std::vector<FakeTensor>& tensors) {
  folder.write("config.json", hf_config_json(config, Style::standard));
  folder.write("model.safetensors", safetensors_bytes(tensors, hf_names(config, Style::standard), DType::F32));
  return folder.path();
}

std::string write_folder(const TempFolder& folder, const ModelConfig& config) {
  return write_folder(folder, config, hf_tensors(config));
}

// What q and k rows look like in arch llada's file, from Hugging Face's order.
std::vector<float> permuted(const std::vector<float>& rows, int64_t columns, int64_t head_dim) {
  std::vector<float> out(rows.size());
  const int64_t count = static_cast<int64_t>(rows.size()) / columns;
  for (int64_t row = 0; row < count; ++row) {
    const int64_t within = row % head_dim, half = head_dim / 2;
    const int64_t to = row - within + (within < half ? 2 * within : 2 * (within - half) + 1);
    std::copy_n(rows.begin() + row * columns, columns, out.begin() + to * columns);
  }
  return out;
}

// The values of a tensor, whose experts are tensors of their own among `parts`.
std::vector<float> values_of(const std::vector<FakeTensor>& parts, const std::string& name, const Shape& shape) {
  std::vector<float> values;
  const std::string stem = name.substr(0, name.rfind('.'));
  for (const FakeTensor& part : parts)
    if (part.name == name || (shape.rank == 3 && part.name.starts_with(stem + ".")))
      values.insert(values.end(), part.values.begin(), part.values.end());
  return values;
}

class ConvertTypes : public testing::TestWithParam<DType> {};

TEST_P(ConvertTypes, EveryMatrixIsQuantizedRowByRow) {
  const DType type = GetParam();
  for (const Family* family : {&kLladaFamily, &kDreamFamily, &kLladaMoeFamily, &kLlada2Family}) {
    const TempFolder in, out;
    const ModelConfig config = tiny_config(family);
    const ModelFile model = opened(write_folder(in, config));
    const TokenizerSpec spec = tiny_tokenizer();
    const auto status = must(convert_to_gguf(model, &spec, out / "m.gguf", {.type = type, .progress = {}}));
    const ModelFile written = opened(out / "m.gguf");
    EXPECT_EQ(std::tuple(written.config().family, written.config().shift_logits, written.config().mask_id),
              std::tuple(family, family == &kDreamFamily, 36));
    const auto expected = fake_tensors(config, false);
    const auto parts = fake_tensors(config, true);
    ASSERT_EQ(written.tensors().size(), expected.size());
    for (const ModelTensor& tensor : written.tensors()) {
      SCOPED_TRACE(tensor.name);
      std::vector<float> source = values_of(parts, tensor.name, tensor.view.shape);
      const bool qk =
          tensor.name.find("attn_q.") != std::string::npos || tensor.name.find("attn_k.") != std::string::npos;
      if (family == &kLladaFamily && qk) source = permuted(source, 64, 16);
      const bool plain = tensor.view.shape.rank == 1 || tensor.name.find("gate_inp") != std::string::npos;
      EXPECT_EQ(tensor.view.type, plain ? DType::F32 : type);
      std::vector<std::byte> bytes(static_cast<size_t>(tensor.view.bytes()));
      ASSERT_EQ(static_cast<int64_t>(source.size()), tensor.view.shape.elements());
      quantize_row(tensor.view.type, source.data(), bytes.data(), static_cast<int64_t>(source.size()));
      EXPECT_EQ(0, std::memcmp(bytes.data(), tensor.view.data, bytes.size()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ConvertTypes,
                         testing::Values(DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q4_1,
                                         DType::Q5_0, DType::Q5_1),
                         [](const auto& test) { return std::string(traits(test.param).name); });

// An importance matrix of everything but one matrix, other numbers for each expert.
Imatrix importance_of(const TempFolder& folder, const ModelConfig& config, std::string_view without) {
  std::vector<ImatrixSums> sums;
  for (const FakeTensor& tensor : fake_tensors(config, false)) {
    if (tensor.shape.rank == 1 || tensor.name == without) continue;
    const int64_t columns = tensor.shape.columns(), experts = tensor.shape.dims[2];
    ImatrixSums one{.name = tensor.name, .columns = columns, .squares = {}, .counts = {}};
    for (int64_t e = 0; e < experts; ++e) {
      one.counts.push_back(e + 2);
      for (int64_t i = 0; i < columns; ++i) one.squares.push_back(static_cast<float>((i * 7 + e * 5) % 13) / 3);
    }
    sums.push_back(std::move(one));
  }
  const auto written = write_imatrix(folder / "importance.gguf", sums, {.texts = "", .chunks = 1, .chunk_rows = 1});
  EXPECT_TRUE(written);
  auto imatrix = must(Imatrix::open(folder / "importance.gguf"));
  return std::move(*imatrix);
}

TEST(Convert, MixesAndImportanceReachEveryRow) {
  for (const Family* family : {&kLladaFamily, &kLladaMoeFamily}) {
    const TempFolder in, out;
    ModelConfig config = tiny_config(family);
    config.width = 256;
    config.head_dim = config.rotary_dims = 64;
    if (config.ffn_width > 0) config.ffn_width = 320;  // no multiple of 256
    if (config.experts > 0) config.expert_ffn_width = 256;
    const std::string without = "blk.1.attn_output.weight";
    const Imatrix imatrix = importance_of(out, config, without);
    const ModelFile model = opened(write_folder(in, config));
    const TypeMix& mix = *find_type_mix("q4_k_m");
    const auto convert = [&](const std::string& name, int threads) {
      return *must(convert_to_gguf(model, nullptr, out / name,
                                   {.mix = &mix, .imatrix = &imatrix, .threads = threads, .progress = {}}));
    };
    const auto notes = convert("m.gguf", 1);
    convert("again.gguf", 5);
    EXPECT_EQ(out.read("m.gguf"), out.read("again.gguf")) << "bytes depend on the number of threads";
    EXPECT_THAT(notes, testing::Contains(HasSubstr(without)));
    EXPECT_EQ(std::ranges::count_if(notes, [](const auto& n) { return n.find("do not divide") != std::string::npos; }),
              family == &kLladaFamily ? 1 : 0);
    const ModelFile written = opened(out / "m.gguf");
    std::set<std::string_view> types;
    for (const FakeTensor& tensor : fake_tensors(config, false)) {
      const TensorView& view = *written.find(tensor.name);
      if (!traits(view.type).quantized) continue;
      SCOPED_TRACE(tensor.name);
      types.insert(traits(view.type).name);
      std::vector<float> source = values_of(fake_tensors(config, true), tensor.name, tensor.shape);
      const int64_t n = view.shape.columns();
      if (family == &kLladaFamily &&
          (tensor.name.find("attn_q.") != std::string::npos || tensor.name.find("attn_k.") != std::string::npos))
        source = permuted(source, n, 64);
      const Imatrix::Entry* entry = imatrix.find(tensor.name);
      std::vector<std::byte> row(static_cast<size_t>(view.row_stride()));
      for (int64_t r = 0; r < view.shape.rows(); ++r) {
        const float* weights = entry == nullptr ? nullptr : entry->weights.data() + r / view.shape.dims[1] * n;
        quantize_row(view.type, source.data() + r * n, row.data(), n, weights);
        ASSERT_EQ(0, std::memcmp(row.data(), view.row(r), row.size())) << r;
      }
    }
    EXPECT_GE(types.size(), 2u);
  }
}

TEST(Convert, ImportanceOfAnotherModelIsRefused) {
  const TempFolder in, out;
  const ModelConfig config = tiny_config(&kLladaFamily);
  const ModelFile model = opened(write_folder(in, config));
  const auto refusal = [&](const ImatrixSums& sums) {
    EXPECT_TRUE(write_imatrix(out / "i.gguf", {&sums, 1}, {.texts = "", .chunks = 1, .chunk_rows = 1}));
    const auto imatrix = must(Imatrix::open(out / "i.gguf"));
    const auto notes =
        convert_to_gguf(model, nullptr, out / "m.gguf", {.type = DType::Q4_0, .imatrix = &*imatrix, .progress = {}});
    EXPECT_FALSE(std::filesystem::exists(out / "m.gguf"));
    return notes ? "accepted" : notes.error().message;
  };
  EXPECT_THAT(refusal({"blk.0.attn_q.weight", 2, {1, 1}, {1}}),
              HasSubstr("blk.0.attn_q.weight has 2 values, 64 needed for"));
  EXPECT_THAT(refusal({"blk.9.attn_q.weight", 2, {1, 1}, {1}}),
              HasSubstr("has 1 entries (first: blk.9.attn_q.weight), none of which is a matrix of"));
}

// The embedding's rows are looked up: no file of importance has them, and nobody needs to hear of it.
TEST(Convert, ImportanceWithoutUseIsSaidAndOnlyThen) {
  const TempFolder in, out;
  const ModelConfig config = tiny_config(&kLladaFamily);
  const ModelFile model = opened(write_folder(in, config));
  const Imatrix imatrix = importance_of(out, config, "token_embd.weight");
  const auto notes = [&](DType type) {
    return *must(convert_to_gguf(model, nullptr, out / "m.gguf", {.type = type, .imatrix = &imatrix, .progress = {}}));
  };
  EXPECT_THAT(notes(DType::Q4_0), testing::IsEmpty());
  for (const DType type : {DType::F16, DType::Q8_0})
    EXPECT_THAT(notes(type),
                testing::ElementsAre(imatrix.path() + " changes nothing: type " + std::string(traits(type).name) +
                                     " has no use for an importance matrix"));
}

TEST(Convert, ImportanceThatOverflowsASearchIsNamed) {
  const TempFolder in, out;
  const ModelConfig config = tiny_config(&kLladaFamily);
  const ModelFile model = opened(write_folder(in, config));
  for (const DType type : {DType::Q4_0, DType::Q5_0, DType::IQ4_NL}) {
    const auto converted = [&](float importance) {
      const ImatrixSums sums{"blk.1.attn_v.weight", 64, std::vector<float>(64, importance), {1}};
      EXPECT_TRUE(write_imatrix(out / "i.gguf", {&sums, 1}, {.texts = "", .chunks = 1, .chunk_rows = 1}));
      const auto imatrix = must(Imatrix::open(out / "i.gguf"));
      const auto notes =
          convert_to_gguf(model, nullptr, out / "m.gguf", {.type = type, .imatrix = &*imatrix, .progress = {}});
      return notes ? "accepted" : notes.error().message;
    };
    EXPECT_THAT(converted(3e38f), HasSubstr("i.gguf row 0 of blk.1.attn_v.weight rounds to numbers that " +
                                            std::string(traits(type).name) + " cannot hold, finite ones needed"));
    EXPECT_FALSE(std::filesystem::exists(out / "m.gguf"));
    EXPECT_EQ(converted(1e10f), "accepted");
    EXPECT_EQ(converted(0), "accepted");
    std::filesystem::remove(out / "m.gguf");
  }
}

TEST(Convert, TheDiffuseDialectBecomesLlamaCpps) {
  const TempFolder folder;
  const ModelConfig config = tiny_config(&kLladaFamily);
  const ModelFile model = opened(
      folder.write("in.gguf", gguf_bytes(config, {.arch = "diffuse", .model_type = "llada", .tokenizer = false})));
  ASSERT_TRUE(convert_to_gguf(model, nullptr, folder / "out.gguf", {.type = DType::F32, .progress = {}}));
  const ModelFile written = opened(folder / "out.gguf");
  EXPECT_EQ(written.format(), "gguf");
  EXPECT_EQ(written.config().rope_pairing, RopePairing::adjacent);
  EXPECT_EQ(values(*written.find("blk.1.attn_k.weight")), permuted(values(*model.find("blk.1.attn_k.weight")), 64, 16));
  EXPECT_EQ(values(*written.find("blk.1.attn_v.weight")), values(*model.find("blk.1.attn_v.weight")));
  EXPECT_FALSE(written.tokenizer());  // "no_vocab"
  EXPECT_EQ(written.config().mask_id, 36);
}

TEST(Convert, QuantizedSourcesAreWidenedAndRequantized) {
  const TempFolder folder;
  const ModelConfig config = tiny_config(&kLladaFamily);
  const ModelFile model = opened(folder.write("in.gguf", gguf_bytes(config, {.type = DType::Q5_1})));
  ASSERT_TRUE(convert_to_gguf(model, nullptr, folder / "f32.gguf", {.type = DType::F32, .progress = {}}));
  ASSERT_TRUE(convert_to_gguf(model, nullptr, folder / "same.gguf", {.type = DType::Q5_1, .progress = {}}));
  const ModelFile wide = opened(folder / "f32.gguf"), same = opened(folder / "same.gguf");
  for (const ModelTensor& tensor : model.tensors()) {
    EXPECT_EQ(values(*wide.find(tensor.name)), values(tensor.view)) << tensor.name;
    EXPECT_EQ(0, std::memcmp(same.find(tensor.name)->data, tensor.view.data, static_cast<size_t>(tensor.view.bytes())));
  }
}

TEST(Convert, RowsThatDoNotFitStayF16AndAreReported) {
  const TempFolder in, out;
  ModelConfig config = tiny_config(&kLladaFamily);
  config.ffn_width = 80;
  const ModelFile model = opened(write_folder(in, config));
  std::vector<std::string> said;
  double last = 0;
  const auto progress = [&](double fraction, std::string_view what) {
    EXPECT_GE(fraction, last);
    last = fraction;
    said.emplace_back(what);
  };
  ASSERT_TRUE(convert_to_gguf(model, nullptr, out / "m.gguf", {.type = DType::Q4_0, .progress = progress}));
  const ModelFile written = opened(out / "m.gguf");
  EXPECT_EQ(written.find("blk.0.ffn_down.weight")->type, DType::F16);
  EXPECT_EQ(written.find("blk.0.ffn_up.weight")->type, DType::Q4_0);
  EXPECT_THAT(said, testing::Contains("blk.0.ffn_down.weight: rows of 80 values do not fit q4_0, stored as f16"));
  EXPECT_GT(last, 0.9);
  EXPECT_LE(last, 1.0);
}

TEST(Convert, TokenizersSurvive) {
  const TempFolder in, out;
  ModelConfig config = tiny_config(&kLladaFamily);
  config.vocab = 44;
  const std::string folder = write_folder(in, config);
  in.write("generation_config.json", R"({"eos_token_id":[3,4]})");
  const ModelFile model = opened(folder);
  TokenizerSpec spec = tiny_tokenizer();
  spec.pre.clear();
  spec.regexes = {R"(\p{L}+|\p{N}{1,2}|\s+)"};
  spec.nfc = spec.ignore_merges = spec.add_bos = spec.single_turn = true;
  spec.bos = 35;
  spec.chat_template = "{{ messages }}\n";
  spec.tokens[7].clear();  // an id without a text in the middle
  ASSERT_TRUE(convert_to_gguf(model, &spec, out / "m.gguf", {.type = DType::F16, .progress = {}}));
  const ModelFile written = opened(out / "m.gguf");
  ASSERT_TRUE(written.tokenizer());
  const TokenizerSpec& read = *written.tokenizer();
  EXPECT_EQ(std::tuple(read.tokens.size(), read.tokens[7], read.kinds[7], read.tokens[43], read.kinds[43]),
            std::tuple(44u, "[PAD7]", TokenKind::unused, "[PAD43]", TokenKind::unused));
  EXPECT_EQ(std::tuple(read.tokens[36], read.merges, read.regexes, read.pre),
            std::tuple("<|mdm_mask|>", spec.merges, spec.regexes, "default"));
  EXPECT_TRUE(read.nfc && read.ignore_merges && read.add_bos && read.single_turn);
  EXPECT_EQ(read.bos, 35);
  EXPECT_THAT(written.config().end_ids, testing::ElementsAre(3, 4));
  EXPECT_EQ(read.chat_template, spec.chat_template);

  spec.regexes = {
      R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};
  ASSERT_TRUE(convert_to_gguf(model, &spec, out / "m.gguf", {.type = DType::F16, .progress = {}}));
  EXPECT_EQ(opened(out / "m.gguf").tokenizer()->pre, "bailingmoe");
  spec.regexes.clear();  // from a GGUF file: only the name
  spec.nfc = spec.ignore_merges = false;
  for (const std::string pre : {"qwen2", "llama-bpe", "bailingmoe"}) {
    spec.pre = pre;
    ASSERT_TRUE(convert_to_gguf(model, &spec, out / "m.gguf", {.type = DType::F16, .progress = {}}));
    const ModelFile named = opened(out / "m.gguf");
    EXPECT_EQ(named.tokenizer()->nfc, pre == "qwen2");
    EXPECT_EQ(named.tokenizer()->ignore_merges, pre == "llama-bpe");
  }
}

TEST(Convert, BadWeightsAreNamed) {
  const ModelConfig config = tiny_config(&kLladaFamily);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e6f}) {
    const TempFolder in, out;
    auto tensors = fake_tensors(config, true);
    const auto up = std::ranges::find(tensors, "blk.1.ffn_up.weight", &FakeTensor::name);
    up->values[64 * 5 + 9] = bad;
    const ModelFile model = opened(write_folder(in, config, tensors));
    const auto status = convert_to_gguf(model, nullptr, out / "m.gguf", {.type = DType::F16, .progress = {}});
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::invalid_input);
    EXPECT_THAT(status.error().message, HasSubstr("tensor blk.1.ffn_up.weight: value 9 of row 5 is"));
    EXPECT_EQ(out.files(), 0u);
  }
}

// Of every kind of tensor, into every type; the source's own type too, whose rows are copied as they are.
TEST(Convert, WeightsThatAreNotFiniteAreNamedInEveryType) {
  const float infinity = std::numeric_limits<float>::infinity();
  const ModelConfig config = tiny_config(&kLladaMoeFamily);
  for (const std::string tensor : {"token_embd.weight", "blk.0.attn_norm.weight", "blk.1.ffn_gate_inp.weight",
                                   "blk.1.ffn_down_exps.2.weight", "output.weight"}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
      const TempFolder in, out;
      auto tensors = fake_tensors(config, true);
      std::ranges::find(tensors, tensor, &FakeTensor::name)->values[9] = bad;
      const ModelFile model = opened(write_folder(in, config, tensors));
      const std::string stem = tensor.substr(0, tensor.find("_exps.2"));
      for (const DType type :
           {DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1}) {
        const auto status = convert_to_gguf(model, nullptr, out / "m.gguf", {.type = type, .progress = {}});
        ASSERT_FALSE(status) << tensor << " " << traits(type).name;
        EXPECT_EQ(status.error().kind, ErrorKind::invalid_input);
        EXPECT_THAT(status.error().message, HasSubstr("tensor " + stem));
        EXPECT_THAT(status.error().message, HasSubstr("value 9 of row 0 is"));
        EXPECT_EQ(out.files(), 0u);
      }
    }
  }
}

TEST(Convert, WhatATypeCannotHoldIsNamed) {
  const ModelConfig config = tiny_config(&kLladaFamily);
  const auto converts = [&](float value, DType type) {
    const TempFolder in, out;
    auto tensors = fake_tensors(config, true);
    std::ranges::find(tensors, "blk.1.ffn_up.weight", &FakeTensor::name)->values[9] = value;
    const ModelFile model = opened(write_folder(in, config, tensors));
    return convert_to_gguf(model, nullptr, out / "m.gguf", {.type = type, .progress = {}}).has_value();
  };
  EXPECT_TRUE(converts(1e6f, DType::BF16));
  EXPECT_FALSE(converts(1e6f, DType::F16));
  EXPECT_TRUE(converts(3.38e38f, DType::BF16));
  EXPECT_FALSE(converts(3.4e38f, DType::BF16)) << "would round to infinity";
  EXPECT_TRUE(converts(3.4e38f, DType::F32));
}

// A file of a group type whose scale is not finite, into the same type.
TEST(Convert, ABadScaleIsNamed) {
  const TempFolder folder;
  const ModelConfig config = tiny_config(&kLladaFamily);
  std::string bytes = gguf_bytes(config, {.type = DType::Q8_0});
  const ModelFile good = opened(folder.write("good.gguf", bytes));
  const auto& tensors = good.tensors();
  const uint64_t at = std::ranges::find(tensors, "blk.0.ffn_up.weight", &ModelTensor::name)->offset;
  bytes[at] = 0, bytes[at + 1] = 0x7c;  // F16's infinity
  const ModelFile model = opened(folder.write("bad.gguf", bytes));
  for (const DType type : {DType::Q8_0, DType::F32}) {
    const auto status = convert_to_gguf(model, nullptr, folder / "m.gguf", {.type = type, .progress = {}});
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message, HasSubstr("tensor blk.0.ffn_up.weight: value 0 of row 0 is"));
  }
}

TEST(Convert, EveryShapeThatOpensOpensAgain) {
  for (const Family* family : {&kLladaFamily, &kDreamFamily, &kLladaMoeFamily, &kLlada2Family}) {
    for (int shape = 0; shape < 8; ++shape) {
      ModelConfig config = tiny_config(family);
      config.tied_head = (shape & 1) != 0;
      if (family->mixture()) config.qk_norm = (shape & 2) != 0;
      if (family == &kLladaFamily || family == &kLladaMoeFamily) config.qkv_bias = (shape & 4) != 0;
      const TempFolder in, out;
      std::string json = hf_config_json(config, Style::standard);
      const auto set = [&](const std::string& key, bool value) {
        const size_t begin = json.find('"' + key + "\":");
        if (begin != std::string::npos) json.erase(begin, json.find_first_of(",}", begin) + 1 - begin);
        if (json.back() == ',') json.back() = '}';
        json.insert(1, fmt::format("\"{}\":{},", key, value));
      };
      set("tie_word_embeddings", config.tied_head);
      set(family == &kLlada2Family ? "use_qk_norm" : "qk_layernorm", config.qk_norm);
      set("attention_bias", config.qkv_bias);
      in.write("config.json", json);
      in.write("model.safetensors",
               safetensors_bytes(hf_tensors(config), hf_names(config, Style::standard), DType::F32));
      const ModelFile model = opened(in.path());
      ASSERT_TRUE(convert_to_gguf(model, nullptr, out / "m.gguf", {.type = DType::F32, .progress = {}}));
      const ModelFile again = opened(out / "m.gguf");
      EXPECT_EQ(std::tuple(again.config().tied_head, again.config().qk_norm, again.config().qkv_bias),
                std::tuple(config.tied_head, config.qk_norm, config.qkv_bias));
    }
  }
}

TEST(Convert, GatesThatAreRenormalisedStaySo) {
  for (const bool renormalised : {false, true}) {
    const TempFolder in, out;
    const ModelConfig config = tiny_config(&kLladaMoeFamily);
    std::string json = hf_config_json(config, Style::standard);
    json.insert(1, fmt::format("\"llada_renormalise_gates\":{},", renormalised));
    in.write("config.json", json);
    in.write("model.safetensors", safetensors_bytes(hf_tensors(config), hf_names(config, Style::standard), DType::F32));
    ASSERT_TRUE(convert_to_gguf(opened(in.path()), nullptr, out / "m.gguf", {.type = DType::F32, .progress = {}}));
    const ModelFile again = opened(out / "m.gguf");
    EXPECT_EQ(again.config().norm_topk, renormalised);
    EXPECT_TRUE(again.config().notes.empty());
  }
}

TEST(Convert, SaysWhereLlamaCppDiffers) {
  using testing::ElementsAre;
  using testing::IsEmpty;
  TokenizerSpec spec = tiny_tokenizer();
  for (const Family* family : {&kLladaFamily, &kDreamFamily, &kLladaMoeFamily, &kLlada2Family})
    EXPECT_THAT(llama_cpp_notes(tiny_config(family), &spec), IsEmpty());
  ModelConfig dense = tiny_config(&kLladaFamily);
  dense.qkv_bias = true;  // its loader takes them where they are there
  EXPECT_THAT(llama_cpp_notes(dense, nullptr), IsEmpty());
  ModelConfig moe = tiny_config(&kLladaMoeFamily);
  moe.qk_norm = false;
  moe.norm_topk = moe.qkv_bias = moe.tied_head = true;
  EXPECT_THAT(llama_cpp_notes(moe, nullptr), ElementsAre(HasSubstr("has norms on q and k"),
                                                         HasSubstr("has a head of its own"), HasSubstr("renormalise")));
  const ModelConfig plain = tiny_config(&kLladaFamily);
  spec.pre.clear();
  spec.regexes = {R"(\p{L}+|\p{N}{1,2}|\s+)"};
  EXPECT_THAT(llama_cpp_notes(plain, &spec), ElementsAre(HasSubstr("tokenizer.ggml.pre is default")));
  spec.regexes = {R"( ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"};
  EXPECT_THAT(llama_cpp_notes(plain, &spec), ElementsAre(HasSubstr("tokenizer.ggml.pre is bailingmoe")));
  spec.pre = "bailingmoe";  // as read back from a file that was converted so
  EXPECT_THAT(llama_cpp_notes(plain, &spec), ElementsAre(HasSubstr("tokenizer.ggml.pre is bailingmoe")));
}

// Rules as the published tokenizer.json files have them, line ends as themselves or as escapes.
TEST(Convert, PublishedRulesGetTheirNames) {
  const std::string rest = R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^)"
                           "\r\n"
                           R"(\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[)"
                           "\r\n"
                           R"(]*|\s*[)"
                           "\r\n"
                           R"(]+|\s+(?!\S)|\s+)";
  const std::vector<std::pair<std::vector<std::string>, std::string>> published = {
      {{R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+", rest}, "deepseek-v3"},
      {{R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
       "qwen35"}};
  for (const auto& [regexes, name] : published) {
    const TempFolder in, out;
    const ModelFile model = opened(write_folder(in, tiny_config(&kLladaFamily)));
    TokenizerSpec spec = tiny_tokenizer();
    for (const std::string before : {"", "default"}) {  // "default": as this program wrote it earlier
      spec.pre = before;
      spec.regexes = regexes;
      EXPECT_THAT(llama_cpp_notes(model.config(), &spec), testing::IsEmpty());
      ASSERT_TRUE(convert_to_gguf(model, &spec, out / "m.gguf", {.type = DType::F16, .progress = {}}));
      EXPECT_EQ(opened(out / "m.gguf").tokenizer()->pre, name);
      EXPECT_EQ(opened(out / "m.gguf").tokenizer()->regexes, regexes);
    }
  }
}

TEST(Convert, RefusedOutputs) {
  const TempFolder folder;
  const std::string bytes = gguf_bytes(tiny_config(&kLladaFamily));
  const ModelFile model = opened(folder.write("in.gguf", bytes));
  const auto refusal = [&](const std::string& path, DType type = DType::F16) {
    const auto status = convert_to_gguf(model, nullptr, path, {.type = type, .progress = {}});
    return status ? "accepted" : status.error().message;
  };
  std::filesystem::create_symlink("in.gguf", folder / "link.gguf");
  EXPECT_THAT(refusal(folder / "in.gguf"), HasSubstr("is the input file"));
  EXPECT_THAT(refusal(folder / "link.gguf"), HasSubstr("is the input file"));
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("not a regular file"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("not a regular file"));
  EXPECT_THAT(refusal(folder / "absent/out.gguf"), HasSubstr("cannot create"));
  EXPECT_THAT(refusal(folder / "out.gguf", DType::IQ2_XS), HasSubstr("converting to iq2_xs is not supported"));
  EXPECT_EQ(folder.read("in.gguf"), bytes);
  EXPECT_EQ(folder.files(), 2u);
  const TempFolder in;
  const ModelFile whole = opened(write_folder(in, tiny_config(&kLladaFamily)));
  const std::string before = in.read("config.json");
  const auto over = convert_to_gguf(whole, nullptr, in / "config.json", {.type = DType::F16, .progress = {}});
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().message, in / "config.json" + ": is a file of the input folder; another output path needed");
  EXPECT_EQ(in.read("config.json"), before);
}

TEST(Convert, ASymbolicLinkStaysALink) {
  const TempFolder folder;
  const ModelFile model = opened(folder.write("in.gguf", gguf_bytes(tiny_config(&kLladaFamily))));
  folder.write("real.gguf", "old");
  std::filesystem::create_symlink("real.gguf", folder / "link.gguf");
  ASSERT_TRUE(convert_to_gguf(model, nullptr, folder / "link.gguf", {.type = DType::F16, .progress = {}}));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.gguf"));
  EXPECT_EQ(opened(folder / "real.gguf").config().layers, 2);
}

bool nameless_files_work(const TempFolder& folder) {
#ifdef O_TMPFILE
  const int fd = ::open(folder.path().c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
#else
  return false;
#endif
}

// Runs a conversion in a child that `prepare` has crippled; returns its wait status.
int convert_in_child(const ModelFile& model, const std::string& out, const std::function<void()>& prepare,
                     const std::function<void(double, std::string_view)>& progress) {
  const pid_t child = ::fork();
  if (child == 0) {
    prepare();
    const auto status = convert_to_gguf(model, nullptr, out, {.type = DType::F32, .progress = progress});
    ::_exit(status ? 0 : status.error().kind == ErrorKind::failed ? 1 : 2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(ConvertFailure, AFullDiskLeavesTheOldFile) {
  const TempFolder in, out;
  const ModelFile model = opened(write_folder(in, tiny_config(&kLladaFamily)));
  const auto limit = [] {
    ::signal(SIGXFSZ, SIG_IGN);  // writes fail with EFBIG instead
    const rlimit small{50000, 50000};
    ::setrlimit(RLIMIT_FSIZE, &small);
  };
  for (const bool existing : {false, true}) {
    if (existing) out.write("m.gguf", "precious");
    const int status = convert_in_child(model, out / "m.gguf", limit, {});
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 1);  // the machine's failure, not the input's
    EXPECT_EQ(out.files(), existing ? 1u : 0u);
    if (existing) {
      EXPECT_EQ(out.read("m.gguf"), "precious");
    }
  }
}

TEST(ConvertFailure, AKilledProcessLeavesTheOldFile) {
  const TempFolder in, out;
  const ModelFile model = opened(write_folder(in, tiny_config(&kLladaFamily)));
  const auto die = [](double, std::string_view what) {
    if (what == "output_norm.weight") ::raise(SIGKILL);
  };
  for (const bool existing : {false, true}) {
    if (existing) out.write("m.gguf", "precious");
    const int status = convert_in_child(model, out / "m.gguf", [] {}, die);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(std::filesystem::exists(out / "m.gguf"), existing);
    if (existing) {
      EXPECT_EQ(out.read("m.gguf"), "precious");
    }
    if (nameless_files_work(out)) {
      EXPECT_EQ(out.files(), existing ? 1u : 0u);
    }
  }
  EXPECT_TRUE(convert_to_gguf(model, nullptr, out / "m.gguf", {.type = DType::F32, .progress = {}}));
  EXPECT_EQ(opened(out / "m.gguf").config().layers, 2);
}

}  // namespace
}  // namespace llada
