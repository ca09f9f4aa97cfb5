// Folders whose weights other software has rounded: each scheme's values, overrides, names, and damage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "base/file.h"
#include "formats/model_file.h"
#include "formats/rounded_fixture.h"
#include "formats/safetensors.h"
#include "formats/temp_folder.h"
#include "must.h"
#include "tensor/quantize.h"

namespace llada {
namespace {

using namespace testing_models;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

void write(const TempFolder& to, const RoundedFolder& folder) {
  to.write("config.json", folder.config);
  to.write("model.safetensors", folder.weights);
}

std::vector<float> made_values(const ModelFile& file, const TensorView& view) {
  const Status made = file.make(view);
  EXPECT_TRUE(made) << made.error().message;
  return values(view);
}

// The largest difference as a share of the largest magnitude of 32 neighbours.
double largest_share(const std::vector<float>& got, const std::vector<float>& want) {
  double worst = 0;
  for (size_t first = 0; first < want.size(); first += 32) {
    double largest = 0, difference = 0;
    for (size_t i = first; i < std::min(want.size(), first + 32); ++i) {
      largest = std::max(largest, std::fabs(double{want[i]}));
      difference = std::max(difference, std::fabs(double{got[i]} - double{want[i]}));
    }
    if (std::isnan(difference) || (largest == 0 && difference > 0)) return 1;
    if (largest > 0) worst = std::max(worst, difference / largest);
  }
  return worst;
}

void expect_values(const ModelFile& file, const RoundedFolder& folder, double error) {
  for (const FakeTensor& tensor : folder.values) {
    if (tensor.name.contains("attn_qkv")) continue;  // is three tensors then
    const TensorView* view = file.find(tensor.name);
    ASSERT_NE(view, nullptr) << tensor.name;
    const auto got = made_values(file, *view);
    ASSERT_EQ(got.size(), tensor.values.size());
    const double share = largest_share(got, tensor.values);
    EXPECT_LE(share, error) << tensor.name;
  }
}

class Rounded : public testing::TestWithParam<RoundedForm> {};

TEST_P(Rounded, HasTheValuesOfItsScheme) {
  const RoundedForm& form = GetParam();
  for (const Family* family : {&kLladaFamily, &kLladaMoeFamily}) {
    const RoundedFolder folder = rounded_folder(tiny_config(family), form);
    const TempFolder disk;
    write(disk, folder);
    const auto file = ModelFile::open(disk.path());
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->find("blk.0.attn_q.weight")->type, form.type);
    expect_values(*file, folder, form.error);
    EXPECT_THAT(file->config().remarks, Contains(HasSubstr("rounded by other software (")));
    const bool again = form.error > 1e-5 || form.name == "mlx_4_F32";
    const auto note = Contains(HasSubstr("matrices are rounded again"));
    if (again)
      EXPECT_THAT(file->config().notes, note);
    else
      EXPECT_THAT(file->config().notes, Not(note));
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, Rounded, testing::ValuesIn(rounded_forms()),
                         [](const auto& test) { return test.param.name; });

TEST(RoundedFolders, FusedAttentionIsCut) {
  const ModelConfig config = tiny_config(&kLlada2Family);
  for (const char* form : {"mlx_4_BF16", "gptq_4_symmetric", "awq", "packed_4"}) {
    const RoundedFolder folder = rounded_folder(config, rounded_form(form));
    const TempFolder disk;
    write(disk, folder);
    const ModelFile file = opened(disk.path());
    expect_values(file, folder, 1e-3);
    for (const FakeTensor& tensor : folder.values) {
      if (!tensor.name.ends_with("attn_qkv.weight")) continue;
      std::vector<float> all;
      for (const char* part : {"attn_q", "attn_k", "attn_v"}) {
        const auto one =
            made_values(file, *file.find(tensor.name.substr(0, tensor.name.find("attn_")) + part + ".weight"));
        all.insert(all.end(), one.begin(), one.end());
      }
      EXPECT_LE(largest_share(all, tensor.values), 1e-3) << tensor.name;
    }
  }
}

// The experts of a layer as one part each, under MLX's names, in the model's own order.
void stack_experts(std::vector<FilePart>& parts) {
  std::vector<FilePart> kept;
  for (FilePart& part : parts) {
    const size_t at = part.name.find("mlp.experts.");
    if (at == std::string::npos) {
      kept.push_back(std::move(part));
      continue;
    }
    const std::string rest = part.name.substr(at + 12);  // "3.up_proj.scales"
    const std::string name = part.name.substr(0, at) + "mlp.switch_mlp." + rest.substr(rest.find('.') + 1);
    const auto known = std::ranges::find(kept, name, &FilePart::name);
    if (known == kept.end()) {
      part.name = name;
      part.shape.insert(part.shape.begin(), 1);
      kept.push_back(std::move(part));
    } else {
      known->shape[0] += 1;
      known->bytes += part.bytes;
    }
  }
  parts = std::move(kept);
}

TEST(RoundedFolders, StacksOfExpertsAreCut) {
  for (const Family* family : {&kLladaMoeFamily, &kLlada2Family})
    for (const char* form : {"mlx_4_BF16", "mlx_6_BF16", "mlx_mxfp4"}) {
      const RoundedFolder folder = rounded_folder(tiny_config(family), rounded_form(form), [](auto& parts) {
        stack_experts(parts);
        for (FilePart& part : parts) part.name = "language_model." + part.name;
      });
      const TempFolder disk;
      write(disk, folder);
      const auto file = ModelFile::open(disk.path());
      ASSERT_TRUE(file) << file.error().message;
      expect_values(*file, folder, 1e-6);
    }
}

// The made model's matrices whose rows have whole groups, rounded under MLX's names: embeddings, the router, and stacks
// of experts with gate and up in one.
TEST(RoundedFolders, DiffusionGemmaAsMlxHasIt) {
  const std::string source = LLADA_SOURCE_DIR "/tests/data/diffusion_gemma/folder/";
  const std::string weights = *must(read_file(source + "model.safetensors"));
  const auto plain = *must(parse_safetensors(std::as_bytes(std::span(weights)), "plain"));
  const RoundedForm form = rounded_form("mlx_4_BF16");
  std::vector<FilePart> parts;
  std::map<std::string, std::vector<float>> want;  // by the name in the file
  for (const SafetensorsTensor& tensor : plain.tensors) {
    const Shape& shape = tensor.view.shape;
    std::string module = tensor.name;
    if (shape.rank == 1 || shape.columns() % 32 != 0) {
      std::vector<int64_t> dims(shape.dims.begin(), shape.dims.begin() + shape.rank);
      std::ranges::reverse(dims);
      parts.push_back({module, "BF16", dims, {reinterpret_cast<const char*>(tensor.view.data), tensor.bytes()}});
      continue;
    }
    if (module.ends_with(".weight")) module.resize(module.size() - 7);
    RoundedFixture f = form.make(shape.rows(), shape.columns());
    for (FilePart& part : f.parts) {
      part.name = module + "." + part.name;
      part.shape[0] = shape.dims[1];
      if (shape.rank == 3) part.shape.insert(part.shape.begin(), shape.dims[2]);
      parts.push_back(std::move(part));
    }
    want[module] = std::move(f.values);
  }
  std::string json = *must(read_file(source + "config.json"));
  json = json.substr(0, json.rfind('}')) + "," + form.config + "}";
  const TempFolder disk;
  disk.write("config.json", json);
  disk.write("generation_config.json", *must(read_file(source + "generation_config.json")));
  disk.write("model.safetensors", safetensors_of(parts));
  const auto file = ModelFile::open(disk.path());
  ASSERT_TRUE(file) << file.error().message;
  std::map<std::string, size_t> seen;  // values of a module, in the order of its tensors
  for (const ModelTensor& tensor : file->tensors()) {
    const auto found = want.find(tensor.file_name);
    if (found == want.end()) continue;
    const auto got = made_values(*file, tensor.view);
    size_t& at = seen[tensor.file_name];
    ASSERT_LE(at + got.size(), found->second.size()) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(got, std::span(found->second).subspan(at, got.size()))) << tensor.name;
    at += got.size();
  }
  for (const auto& [module, all] : want) EXPECT_EQ(seen[module], all.size()) << module;
  EXPECT_EQ(values(*file->find("blk.1.ffn_up_exps.2.weight")),
            std::vector<float>(want["model.decoder.layers.1.experts.gate_up_proj"].begin() + (2 * 64 + 32) * 32,
                               want["model.decoder.layers.1.experts.gate_up_proj"].begin() + (2 * 64 + 64) * 32));
}

TEST(RoundedFolders, PartsMayLieInSeveralFiles) {
  std::vector<FilePart> second;
  const RoundedFolder folder =
      rounded_folder(tiny_config(&kLladaFamily), rounded_form("mlx_4_BF16"), [&](std::vector<FilePart>& parts) {
        for (size_t i = 0; i < parts.size(); i += 2) second.push_back(parts[i]);
        for (size_t i = parts.size(); i-- > 0;)
          if (i % 2 == 0) parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
      });
  const TempFolder disk;
  disk.write("config.json", folder.config);
  disk.write("a.safetensors", folder.weights);
  disk.write("b.safetensors", safetensors_of(second));
  disk.write("model.safetensors.index.json", R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors"}})");
  const auto file = ModelFile::open(disk.path());
  ASSERT_TRUE(file) << file.error().message;
  expect_values(*file, folder, 0);
}

TEST(RoundedFolders, ModulesMayDifferInMlx) {
  const RoundedForm eight = rounded_form("mlx_8_F16");
  RoundedForm form = rounded_form("mlx_4_BF16");
  form.config = R"("quantization":{"group_size":32,"bits":4,"mode":"affine",)"
                R"("model.layers.0.mlp.down_proj":{"group_size":32,"bits":8},"model.layers.1.mlp.down_proj":false})";
  const ModelConfig config = tiny_config(&kLladaFamily);
  RoundedFixture wide;
  RoundedFolder folder = rounded_folder(config, form, [&](std::vector<FilePart>& parts) {
    wide = eight.make(config.width, config.ffn_width);
    for (const FilePart& better : wide.parts)
      for (FilePart& part : parts)
        if (part.name == "model.layers.0.mlp.down_proj." + better.name) {
          const std::string name = part.name;
          part = better;
          part.name = name;
        }
    std::erase_if(parts, [](const FilePart& part) { return part.name.starts_with("model.layers.1.mlp.down_proj."); });
    parts.push_back({"model.layers.1.mlp.down_proj.weight",
                     "BF16",
                     {config.width, config.ffn_width},
                     std::string(static_cast<size_t>(config.width * config.ffn_width * 2), '\0')});
  });
  for (FakeTensor& tensor : folder.values) {
    if (tensor.name == "blk.0.ffn_down.weight") tensor.values = wide.values;
    if (tensor.name == "blk.1.ffn_down.weight") std::ranges::fill(tensor.values, 0.0f);
  }
  const TempFolder disk;
  write(disk, folder);
  const auto file = ModelFile::open(disk.path());
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->find("blk.0.ffn_down.weight")->type, DType::Q8_M);
  EXPECT_EQ(file->find("blk.1.ffn_down.weight")->type, DType::BF16);
  expect_values(*file, folder, 1e-6);
}

TEST(RoundedFolders, AnotherFileMayNameTheScheme) {
  RoundedForm form = rounded_form("nvfp4_modelopt");
  form.config = R"("quantization_config":null)";
  const RoundedFolder folder = rounded_folder(tiny_config(&kLladaFamily), form);
  const TempFolder disk;
  write(disk, folder);
  EXPECT_THAT(outcome(ModelFile::open(disk.path())),
              HasSubstr("q_proj.weight has dtype U8, F32, F16 or BF16 needed, or a configuration that says how"));
  disk.write("hf_quant_config.json",
             R"({"producer":{"name":"modelopt"},"quantization":{"quant_algo":"NVFP4","kv_cache_quant_algo":"FP8"}})");
  expect_values(opened(disk.path()), folder, form.error);
  disk.write("hf_quant_config.json", R"({"quantization":{"quant_algo":"W4A8_AWQ"}})");
  EXPECT_THAT(outcome(ModelFile::open(disk.path())), HasSubstr("quantization.quant_algo: found \"W4A8_AWQ\""));
}

TEST(RoundedFolders, ScalesOfActivationsAndKeysAreIgnored) {
  const RoundedFolder folder =
      rounded_folder(tiny_config(&kLladaFamily), rounded_form("float8_rows"), [](std::vector<FilePart>& parts) {
        for (const char* name : {"k_scale", "v_scale", "k_proj.input_scale"})
          parts.push_back({fmt::format("model.layers.0.self_attn.{}", name), "F32", {}, std::string(4, '\0')});
      });
  const TempFolder disk;
  write(disk, folder);
  const auto file = ModelFile::open(disk.path());
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_THAT(file->config().remarks, Contains(HasSubstr("ignored scales of activations, keys and values")));
  expect_values(*file, folder, 0.0042);
}

// What was made and given back is made again, and a part alone can be made.
TEST(RoundedFolders, WeightsAreMadeWhenTheyAreWanted) {
  const RoundedFolder folder = rounded_folder(tiny_config(&kLlada2Family), rounded_form("mlx_4_BF16"));
  const TempFolder disk;
  write(disk, folder);
  const ModelFile file = opened(disk.path());
  EXPECT_TRUE(file.makes());
  const TensorView k = *file.find("blk.1.attn_k.weight"), q = *file.find("blk.1.attn_q.weight");
  EXPECT_TRUE(std::ranges::any_of(values(k), [](float x) { return std::isnan(x); })) << "made too early";
  const auto first = made_values(file, k);
  EXPECT_FALSE(std::ranges::any_of(first, [](float x) { return std::isnan(x); }));
  EXPECT_TRUE(std::ranges::any_of(values(q), [](float x) { return std::isnan(x); })) << "made with another";
  file.drop_pages(k);
  EXPECT_NE(values(k), first);
  EXPECT_EQ(made_values(file, k), first);
  ThreadPool pool(3);
  ASSERT_TRUE(file.make(q, &pool));
  const auto threads = values(q);
  file.drop_pages(q);
  EXPECT_EQ(made_values(file, q), threads);
  file.keep_made();
  file.drop_pages(k);
  EXPECT_EQ(values(k), first);
}

TEST(RoundedFolders, DamagedScalesAreAnError) {
  const RoundedFolder folder =
      rounded_folder(tiny_config(&kLladaFamily), rounded_form("mlx_4_BF16"), [](std::vector<FilePart>& parts) {
        for (FilePart& part : parts)
          if (part.name == "model.layers.1.mlp.up_proj.scales") part.bytes[1] = part.bytes[0] = '\x7f';  // 3.4e38
      });
  const TempFolder disk;
  write(disk, folder);
  const ModelFile file = opened(disk.path());
  const Status made = file.make(*file.find("blk.1.ffn_up.weight"));
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message,
              HasSubstr("model.layers.1.mlp.up_proj has a scale that is not finite, or too large for q4_1"));
  EXPECT_TRUE(file.make(*file.find("blk.0.ffn_up.weight")));
}

// ---- Refusals
struct Damage {
  const char *what, *form;
  std::function<void(FilePart&)> change;  // of the part of layer 1's up_proj
  const char *part, *words;
};

FilePart cut(FilePart part, size_t dim, int64_t to) {
  part.bytes.resize(part.bytes.size() / static_cast<size_t>(part.shape[dim]) * static_cast<size_t>(to));
  part.shape[dim] = to;
  return part;
}

TEST(RoundedFolders, PartsThatDoNotFitAreNamed) {
  const auto shape = [](size_t dim, int64_t to) { return [=](FilePart& part) { part = cut(part, dim, to); }; };
  const auto rename = [](FilePart& part) { part.name = "model.layers.1.mlp.up_proj.output_scale"; };
  const std::vector<Damage> damages = {
      {"NoScales", "mlx_4_BF16", rename, "scales",
       "tensor model.layers.1.mlp.up_proj.scales is missing, F32, F16, BF16"},
      {"NoBiases", "mlx_4_BF16", rename, "biases", "tensor model.layers.1.mlp.up_proj.biases is missing"},
      {"FewScales", "mlx_4_BF16", shape(1, 1), "scales", "up_proj.scales is 1x96, 2x96 needed"},
      {"FewOutputs", "mlx_4_BF16", shape(0, 90), "weight", "up_proj.scales is 2x96, 2x90 needed"},
      {"WrongType", "mlx_4_BF16", [](FilePart& part) { part.type = "I32"; }, "weight",
       "up_proj.weight has dtype I32, U32 needed"},
      {"NoWeight", "mlx_4_BF16", rename, "weight", "tensor model.layers.1.mlp.up_proj.weight is missing, U32 needed"},
      {"OddWords", "mlx_6_BF16", shape(1, 11), "weight", "up_proj.weight is 11x96: 11 words of 32 bits are no whole"},
      {"Group", "mlx_4_BF16", shape(1, 6), "weight", "up_proj.weight is 6x96: groups of 32 do not divide 48 inputs"},
      {"NoZeros", "gptq_4_symmetric", rename, "qzeros", "up_proj.qzeros is missing, I32 needed"},
      {"FewZeros", "gptq_4_symmetric", shape(1, 11), "qzeros", "up_proj.qzeros is 11x2, 12x2 needed"},
      {"Order", "gptq_4_symmetric", [](FilePart& part) { std::swap(part.bytes[0], part.bytes[4 * 40]); }, "g_idx",
       "up_proj.g_idx: input 0 is in group 1, 0 needed: groups of inputs out of order (desc_act, actorder)"},
      {"Groups", "gptq_4_symmetric", shape(0, 7), "qweight", "up_proj.g_idx is 64, 56 needed"},
      {"Awq", "awq", shape(1, 11), "qweight", "up_proj.scales is 96x2, 88x2 needed"},
      {"Rank", "gptq_4_symmetric", [](FilePart& part) { part.shape.insert(part.shape.begin(), 1); }, "qweight",
       ", 2 dimensions needed"},
      {"NoShape", "packed_4", rename, "weight_shape", "up_proj.weight_shape is missing, I64, I32 needed"},
      {"WrongShape", "packed_4", [](FilePart& part) { part.bytes[8] = 65; }, "weight_shape",
       "up_proj.weight_packed is 8x96 and model.layers.1.mlp.up_proj.weight_shape says 96 outputs of 65 inputs"},
      {"Bits", "packed_4", [](FilePart& part) { part.bytes[8] = 16; }, "weight_shape", "needed rows of 1 to 8 bits"},
      {"PackedZeros", "packed_4_zeros", shape(0, 11), "weight_zero_point", "weight_zero_point is 2x11, 2x12 needed"},
      {"NoGlobal", "nvfp4_modelopt", rename, "weight_scale_2", "up_proj.weight_scale_2 is missing, F32, F16, BF16"},
      {"FewFloats", "nvfp4_packed", shape(1, 3), "weight_scale", "up_proj.weight_scale is 3x96, 4x96 needed"},
      {"Blocks", "float8_rows", shape(0, 95), "weight_scale", "up_proj.weight_scale is 1x95; needed one number, 1x96"},
      {"FloatZeros", "float8_rows", [](FilePart& part) { part.name = "model.layers.1.mlp.up_proj.weight_zero_point"; },
       "weight_scale", "up_proj.weight_scale is missing"},
      {"NoScale", "float8_blocks", rename, "weight_scale_inv", "up_proj.weight_scale is missing"},
  };
  for (const Damage& damage : damages) {
    const RoundedFolder folder =
        rounded_folder(tiny_config(&kLladaFamily), rounded_form(damage.form), [&](std::vector<FilePart>& parts) {
          const std::string name = fmt::format("model.layers.1.mlp.up_proj.{}", damage.part);
          const auto part = std::ranges::find(parts, name, &FilePart::name);
          ASSERT_NE(part, parts.end()) << damage.what;
          damage.change(*part);
        });
    const TempFolder disk;
    write(disk, folder);
    const auto file = ModelFile::open(disk.path());
    ASSERT_FALSE(file) << damage.what;
    EXPECT_THAT(file.error().message, HasSubstr(damage.words)) << damage.what;
    EXPECT_THAT(file.error().message, Not(HasSubstr("\n"))) << damage.what;
  }
}

TEST(RoundedFolders, SettingsThatAreNotReadAreNamed) {
  const auto with = [](const std::string& form, const std::string& config) {
    RoundedForm changed = rounded_form(form);
    changed.config = config;
    const TempFolder disk;
    write(disk, rounded_folder(tiny_config(&kLladaFamily), changed));
    return outcome(ModelFile::open(disk.path()));
  };
  const std::string gptq = R"("quantization_config":{"quant_method":"gptq","bits":4,)";
  EXPECT_EQ(with("gptq_4_symmetric", gptq + R"("desc_act":true})"), "accepted");  // the groups lie in order
  EXPECT_THAT(with("gptq_4_symmetric", gptq + R"("checkpoint_format":"marlin"})"),
              HasSubstr("quantization_config.checkpoint_format: found \"marlin\", needed gptq, gptq_v2"));
  EXPECT_THAT(with("gptq_4_symmetric", gptq + R"("dynamic":{"+:.*down.*":{"bits":8}}})"),
              HasSubstr("dynamic: found +:.*down.* with other bits, needed 4 for all modules"));
  EXPECT_THAT(with("gptq_4_symmetric", R"("quantization_config":{"quant_method":"gptq","bits":5})"),
              HasSubstr("bits: found 5, needed 2, 3, 4 or 8"));
  EXPECT_THAT(with("awq", R"("quantization_config":{"quant_method":"awq","bits":4,"version":"gemv"})"),
              HasSubstr("quantization_config.version: found \"gemv\", needed gemm"));
  EXPECT_THAT(with("packed_4", R"("quantization_config":{"quant_method":"compressed-tensors","format":"marlin-24"})"),
              HasSubstr("quantization_config.format: found \"marlin-24\", needed pack-quantized"));
  EXPECT_THAT(with("packed_4", R"("quantization_config":{"quant_method":"compressed-tensors",)"
                               R"("transform_config":{"config_groups":{"R1":{}}}})"),
              HasSubstr("transform_config: found {"));
  EXPECT_THAT(with("mlx_4_BF16", R"("quantization":{"group_size":48,"bits":4})"),
              HasSubstr("quantization.group_size: found 48, needed 32, 64 or 128"));
  EXPECT_THAT(with("mlx_4_BF16", R"("quantization":{"bits":4,"mode":"trellis"})"),
              HasSubstr("quantization.mode: found \"trellis\", needed affine, mxfp4, mxfp8, nvfp4"));
  EXPECT_THAT(
      with("mlx_4_BF16", R"("quantization":{"bits":4,"group_size":32,"model.layers.0.mlp.up_proj":{"bits":9}})"),
      HasSubstr("quantization.model.layers.0.mlp.up_proj.bits: found 9, needed a whole number from 2 to 8"));
  EXPECT_THAT(with("float8_blocks", R"("quantization_config":{"quant_method":"fp8","weight_block_size":[64,128]})"),
              HasSubstr("weight_block_size: found [64,128], needed [128, 128]"));
  EXPECT_THAT(with("mlx_4_BF16", R"("quantization_config":{"quant_method":"bitsandbytes"})"),
              AllOf(HasSubstr("quant_method \"bitsandbytes\""), HasSubstr("needed gptq, awq, compressed-tensors")));
}

}  // namespace
}  // namespace llada
