// Tensors that files store as one and the engine knows as several: q, k and v; the experts of a layer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "formats/convert.h"
#include "formats/model_fixture.h"
#include "formats/temp_folder.h"

namespace llada {
namespace {

using namespace testing_models;
using testing::HasSubstr;

void expect_same(const ModelFile& model, const ModelFile& plain) {
  ASSERT_EQ(model.tensors().size(), plain.tensors().size());
  for (const ModelTensor& tensor : plain.tensors()) {
    const TensorView* view = model.find(tensor.name);
    ASSERT_NE(view, nullptr) << tensor.name;
    EXPECT_EQ(view->shape, tensor.view.shape) << tensor.name;
    EXPECT_EQ(view->type, tensor.view.type) << tensor.name;
    EXPECT_EQ(0, std::memcmp(view->data, tensor.view.data, static_cast<size_t>(tensor.view.bytes()))) << tensor.name;
  }
}

TEST(FusedQkv, InGgufIsRowsOfTheMatrix) {
  for (const auto& [family, arch] :
       {std::pair{&kLladaFamily, "llada"}, std::pair{&kDreamFamily, "dream"}, std::pair{&kLladaMoeFamily, "llada-moe"},
        std::pair{&kLlada2Family, "llada2"}, std::pair{&kDreamFamily, "diffuse"}}) {
    for (const bool bias : {false, true}) {
      for (const DType type : {DType::F32, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q5_1}) {
        ModelConfig config = tiny_config(family);
        if (family == &kLlada2Family && bias) continue;
        if (family != &kDreamFamily) config.qkv_bias = bias;
        const GgufOptions options{
            .arch = arch, .model_type = std::string(arch) == "diffuse" ? "dream" : "", .type = type};
        const auto tensors = fake_tensors(config, false);
        const TempFolder folder;
        const ModelFile plain =
            opened(folder.write("plain.gguf", gguf_bytes(gguf_metadata(config, options), tensors, type)));
        const ModelFile fused = opened(
            folder.write("fused.gguf", gguf_bytes(gguf_metadata(config, options), with_fused_qkv(tensors), type)));
        EXPECT_EQ(fused.config().qkv_bias, plain.config().qkv_bias);
        expect_same(fused, plain);
        const ModelTensor& v = *std::ranges::find(fused.tensors(), "blk.1.attn_v.weight", &ModelTensor::name);
        const std::string bytes = folder.read("fused.gguf");
        EXPECT_EQ(0, std::memcmp(bytes.data() + v.offset, v.view.data, static_cast<size_t>(v.view.bytes())));
      }
    }
  }
}

TEST(FusedQkv, OtherShapesAndTwoOfThemAreRefused) {
  const ModelConfig config = tiny_config(&kDreamFamily);
  const auto refusal = [&](const std::function<void(std::vector<FakeTensor>&)>& change, DType type = DType::F32) {
    auto tensors = with_fused_qkv(fake_tensors(config, false));
    change(tensors);
    const TempFolder folder;
    return outcome(
        ModelFile::open(folder.write("m.gguf", gguf_bytes(gguf_metadata(config, {.arch = "dream"}), tensors, type))));
  };
  const auto named = [](std::vector<FakeTensor>& tensors, std::string_view name) -> FakeTensor& {
    return *std::ranges::find(tensors, name, &FakeTensor::name);
  };
  ASSERT_EQ(refusal([](auto&) {}), "accepted");
  EXPECT_THAT(refusal([&](auto& t) {
                FakeTensor& qkv = named(t, "blk.1.attn_qkv.weight");
                qkv.shape.dims[1] -= 1, qkv.values.resize(qkv.values.size() - 64);
              }),
              HasSubstr("tensor blk.1.attn_qkv.weight is 64x127, 64x128 needed"));
  EXPECT_THAT(refusal([&](auto& t) {
                named(t, "blk.0.attn_qkv.weight").shape = {{128, 64, 1, 1}, 2};
              }),
              HasSubstr("tensor blk.0.attn_qkv.weight is 128x64, 64x128 needed"));
  EXPECT_THAT(refusal([&](auto& t) {
                named(t, "blk.0.attn_qkv.bias").shape = {{64, 2, 1, 1}, 2};
              }),
              HasSubstr("tensor blk.0.attn_qkv.bias is 64x2, 128 needed"));
  EXPECT_EQ(refusal([&](auto& t) { named(t, "blk.0.attn_qkv.bias").shape = {{128, 1, 1, 1}, 2}; }), "accepted");
  EXPECT_THAT(refusal(
                  [&](auto& t) {
                    named(t, "blk.0.attn_qkv.bias").shape = {{128, 1, 1, 1}, 2};
                  },
                  DType::Q8_0),
              HasSubstr("tensor blk.0.attn_qkv.bias has type q8_0, a float type needed"));
  EXPECT_THAT(refusal([&](auto& t) {
                FakeTensor k = named(t, "blk.0.attn_qkv.weight");
                k.name = "blk.0.attn_k.weight";
                k.shape.dims[1] = 32, k.values.resize(64 * 32);
                t.push_back(k);
              }),
              HasSubstr("are both blk.0.attn_k.weight"));
  EXPECT_THAT(refusal([&](auto& t) { std::erase_if(t, [](auto& x) { return x.name == "blk.1.attn_qkv.bias"; }); }),
              HasSubstr("tensor blk.1.attn_q.bias is missing"));
}

// The experts of every layer in one tensor, under the names of dFactory's training code or of dInfer, which stores
// gate and up of an expert behind each other.
struct Stacks {
  std::vector<FakeTensor> tensors;
  std::map<std::string, std::string> names;
};

Stacks stacked(const ModelConfig& config, bool dinfer) {
  Stacks out{{}, hf_names(config, Style::standard)};
  for (const FakeTensor& tensor : hf_tensors(config)) {
    const size_t at = tensor.name.find("_exps.");
    if (at == std::string::npos) {
      out.tensors.push_back(tensor);
      continue;
    }
    const std::string stem = tensor.name.substr(0, at), layer = stem.substr(0, stem.find(".ffn_"));
    const std::string kind = stem.substr(stem.rfind('_') + 1);
    const std::string name = dinfer && kind != "down" ? layer + ".w1" : stem;
    const std::string mlp = "model.layers." + layer.substr(4) + ".mlp.";
    out.names[name] = mlp + (!dinfer ? "experts." + kind + "_proj" : kind == "down" ? "w2" : "w1");
    const auto begun = std::ranges::find(out.tensors, name, &FakeTensor::name);
    FakeTensor& stack = begun != out.tensors.end() ? *begun : out.tensors.emplace_back(FakeTensor{name, {{}, 3}, {}});
    const bool second = kind == "up" && dinfer;
    if (!second)
      stack.shape.dims = {tensor.shape.dims[0], tensor.shape.dims[1] * (dinfer && kind == "gate" ? 2 : 1),
                          config.experts, 1};
    const int64_t expert = std::stoll(tensor.name.substr(at + 6)), matrix = tensor.shape.elements();
    const int64_t step = matrix * (dinfer && kind != "down" ? 2 : 1);
    stack.values.resize(static_cast<size_t>(stack.shape.elements()));
    std::ranges::copy(tensor.values, stack.values.begin() + expert * step + (second ? matrix : 0));
  }
  return out;
}

std::string write_folder(const TempFolder& folder, const Stacks& stacks, const std::string& json) {
  folder.write("config.json", json);
  folder.write("model.safetensors", safetensors_bytes(stacks.tensors, stacks.names));
  return folder.path();
}

TEST(StackedExperts, AreTheModel) {
  for (const Family* family : {&kLladaMoeFamily, &kLlada2Family})
    for (const bool dinfer : {false, true}) {
      const ModelConfig config = tiny_config(family);
      const TempFolder plain, folder, out;
      const std::string json = hf_config_json(config, Style::standard);
      write_folder(plain, {hf_tensors(config), hf_names(config, Style::standard)}, json);
      std::string class_name = json;
      if (dinfer && family == &kLladaMoeFamily)
        class_name.replace(class_name.find("LLaDAMoEModelLM"), 15, "FusedLLaDAMoEModelLM");
      const ModelFile model = opened(write_folder(folder, stacked(config, dinfer), class_name));
      const ModelFile expected = opened(plain.path());
      expect_same(model, expected);
      for (const auto& [file, name] : {std::pair{&model, "a.gguf"}, {&expected, "b.gguf"}})
        ASSERT_TRUE(convert_to_gguf(*file, nullptr, out / name, {.type = DType::Q8_0, .progress = {}}));
      const auto a = opened(out / "a.gguf"), b = opened(out / "b.gguf");
      expect_same(a, b);
    }
}

TEST(StackedExperts, OfOtherShapesAreRefused) {
  const ModelConfig config = tiny_config(&kLladaMoeFamily);
  const auto refusal = [&](bool dinfer, const std::function<void(Stacks&)>& change) {
    Stacks stacks = stacked(config, dinfer);
    change(stacks);
    const TempFolder folder;
    return outcome(ModelFile::open(write_folder(folder, stacks, hf_config_json(config, Style::standard))));
  };
  const auto reshape = [](Stacks& s, std::string_view name, std::initializer_list<int64_t> dims) {
    FakeTensor& tensor = *std::ranges::find(s.tensors, name, &FakeTensor::name);
    tensor.shape = {{}, static_cast<int>(dims.size())};
    tensor.shape.dims = {1, 1, 1, 1};
    std::ranges::copy(dims, tensor.shape.dims.begin());
    tensor.values.resize(static_cast<size_t>(tensor.shape.elements()));
  };
  EXPECT_THAT(refusal(false,
                      [&](Stacks& s) {
                        reshape(s, "blk.1.ffn_up", {64, 32, 3});
                      }),
              HasSubstr("tensor model.layers.1.mlp.experts.up_proj is 64x32x3, 64x32x4 needed"));
  EXPECT_THAT(refusal(false,
                      [&](Stacks& s) {
                        reshape(s, "blk.0.ffn_down", {64, 32, 4});
                      }),
              HasSubstr("tensor model.layers.0.mlp.experts.down_proj is 64x32x4, 32x64x4 needed"));
  EXPECT_THAT(refusal(true,
                      [&](Stacks& s) {
                        reshape(s, "blk.0.w1", {64, 32, 4});
                      }),
              HasSubstr("tensor model.layers.0.mlp.w1 is 64x32x4, 64x64x4 needed"));
  EXPECT_THAT(refusal(true,
                      [&](Stacks& s) {
                        reshape(s, "blk.0.w1", {64, 256});
                      }),
              HasSubstr("tensor model.layers.0.mlp.w1 is 64x256, 64x64x4 needed"));
  EXPECT_THAT(refusal(false,
                      [&](Stacks& s) {
                        const auto one = fake_tensors(config, true);
                        s.tensors.push_back(*std::ranges::find(one, "blk.1.ffn_up_exps.2.weight", &FakeTensor::name));
                      }),
              HasSubstr("are both blk.1.ffn_up_exps.2.weight"));
  const ModelConfig dense = tiny_config(&kLladaFamily);
  Stacks stacks{fake_tensors(dense, true), hf_names(dense, Style::standard)};
  stacks.tensors.push_back({"w1", {{2, 2, 2, 1}, 3}, std::vector<float>(8)});
  stacks.names["w1"] = "model.layers.0.mlp.w1";
  const TempFolder folder;
  EXPECT_THAT(outcome(ModelFile::open(write_folder(folder, stacks, hf_config_json(dense, Style::standard)))),
              HasSubstr("tensor model.layers.0.mlp.w1 is not part of this architecture"));
}

}  // namespace
}  // namespace llada
