// LLaDA2 in its three dialects, LLaDA2.2's keys, and files that were cut into parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "formats/convert.h"
#include "formats/diffuse_llada2.h"
#include "formats/gguf_model.h"
#include "formats/model_fixture.h"
#include "formats/part_name.h"
#include "formats/temp_folder.h"

namespace llada {
namespace {

using namespace testing_models;
using testing::HasSubstr;

ModelConfig config_of(bool routes_by_blocks) {
  ModelConfig c = tiny_config(&kLlada2Family);
  if (!routes_by_blocks) return c;
  c.expert_capacity = 4, c.expert_block = 16;
  c.expert_groups = c.expert_groups_used = 1;
  c.delete_id = 20, c.split_id = 21;
  return c;
}

// The experts of a layer as one tensor, which the fixture would fill with other values.
std::vector<FakeTensor> with_stacked_experts(const std::vector<FakeTensor>& tensors, int64_t experts) {
  std::vector<FakeTensor> stacked;
  for (const FakeTensor& tensor : tensors) {
    const size_t at = tensor.name.find("_exps.");
    const std::string name = at == std::string::npos ? tensor.name : tensor.name.substr(0, at) + "_exps.weight";
    const auto begun = std::ranges::find(stacked, name, &FakeTensor::name);
    FakeTensor& whole = begun != stacked.end() ? *begun : stacked.emplace_back(FakeTensor{name, tensor.shape, {}});
    if (at != std::string::npos) whole.shape.dims[2] = experts, whole.shape.rank = 3;
    whole.values.insert(whole.values.end(), tensor.values.begin(), tensor.values.end());
  }
  return stacked;
}

std::string diffuse_bytes(const ModelConfig& config, GgufWriter metadata) {
  auto tensors = with_stacked_experts(with_fused_qkv(fake_tensors(config, true)), config.experts);
  for (FakeTensor& tensor : tensors) tensor.name = diffuse_llada2_name(tensor.name);
  return gguf_bytes(std::move(metadata), tensors, DType::F16);
}
std::string diffuse_bytes(const ModelConfig& config) { return diffuse_bytes(config, diffuse_llada2_metadata(config)); }

std::string folder_json(ModelConfig c) {
  const bool together = c.expert_capacity > 0;
  if (together) c.expert_groups = 4, c.expert_groups_used = 2;  // the published folder has groups, too
  std::string json = hf_config_json(c, Style::standard);
  if (together)
    json.insert(json.size() - 1,
                fmt::format(R"(,"expert_capacity":{},"block_size":{},"delete_token_id":{},"split_token_id":{})",
                            c.expert_capacity, c.expert_block, c.delete_id, c.split_id));
  return json;
}

void expect_config(const ModelConfig& found, const ModelConfig& c, bool routes_by_blocks) {
  EXPECT_EQ(std::tuple(found.family, found.rotary_dims, found.dense_layers, found.attention_block),
            std::tuple(&kLlada2Family, c.rotary_dims, c.dense_layers, 32));
  EXPECT_EQ(found.shared_expert_ffn_width, c.shared_expert_ffn_width);
  EXPECT_EQ(found.expert_scale, c.expert_scale);
  EXPECT_TRUE(found.norm_topk && found.sigmoid_router && found.qk_norm);
  EXPECT_EQ(found.mask_id, c.mask_id);
  EXPECT_EQ(found.expert_groups, routes_by_blocks ? 1 : c.expert_groups);
  EXPECT_EQ(found.expert_groups_used, routes_by_blocks ? 1 : c.expert_groups_used);
  EXPECT_EQ(std::tuple(found.expert_capacity, found.expert_block, found.delete_id),
            std::tuple(routes_by_blocks ? 4 : 0, routes_by_blocks ? 16 : 0, routes_by_blocks ? 20 : -1));
  EXPECT_EQ(found.split_id, routes_by_blocks ? 21 : -1);
}

TEST(Llada2Files, AllDialectsAreOneModel) {
  for (const bool routes_by_blocks : {false, true}) {
    const ModelConfig config = config_of(routes_by_blocks);
    const TempFolder folder, files;
    folder.write("config.json", folder_json(config));
    folder.write("model.safetensors",
                 safetensors_bytes(hf_tensors(config), hf_names(config, Style::standard), DType::F32));
    const ModelFile whole = opened(folder.path());
    expect_config(whole.config(), config, routes_by_blocks);
    ASSERT_TRUE(convert_to_gguf(whole, nullptr, files / "ours.gguf", {.type = DType::F16, .progress = {}}));
    const ModelFile ours = opened(files / "ours.gguf");
    const ModelFile diffuse = opened(files.write("diffuse.gguf", diffuse_bytes(config)));
    EXPECT_EQ(diffuse.format(), "gguf (diffuse)");
    for (const ModelFile* file : {&ours, &diffuse}) expect_config(file->config(), config, routes_by_blocks);
    ASSERT_EQ(diffuse.tensors().size(), ours.tensors().size());
    for (const ModelTensor& tensor : ours.tensors()) {
      const TensorView* view = diffuse.find(tensor.name);
      ASSERT_NE(view, nullptr) << tensor.name;
      EXPECT_EQ(values(*view), values(tensor.view)) << tensor.name;
    }
  }
}

TEST(Llada2Files, ThePretokenizerThatDiffuseCppLeavesOut) {
  const ModelConfig config = config_of(true);
  const TempFolder folder;
  GgufWriter metadata = diffuse_llada2_metadata(config);
  TokenizerSpec spec = tiny_tokenizer();
  spec.tokens.pop_back();  // nor does it name the ids without text
  metadata.add_string("tokenizer.ggml.model", "gpt2");
  metadata.add_strings("tokenizer.ggml.tokens", spec.tokens);
  metadata.add_strings("tokenizer.ggml.merges", spec.merges);
  const std::string path = folder.write("m.gguf", diffuse_bytes(config, std::move(metadata)));
  ASSERT_EQ(outcome(ModelFile::open(path)), "accepted");
  const ModelFile model = opened(path);
  ASSERT_TRUE(model.tokenizer());
  EXPECT_EQ(model.tokenizer()->pre, "bailingmoe2");
  EXPECT_EQ(model.tokenizer()->tokens.size(), 39u);
}

TEST(Llada2Files, FieldsThatContradictAreOneLine) {
  const TempFolder folder;
  const auto refusal = [&](auto change) {
    ModelConfig config = config_of(true);
    const ModelConfig tensors = config;
    change(config);
    return outcome(ModelFile::open(folder.write("m.gguf", diffuse_bytes(tensors, diffuse_llada2_metadata(config)))));
  };
  ASSERT_EQ(refusal([](auto&) {}), "accepted");
  EXPECT_THAT(refusal([](auto& c) { c.expert_capacity = 9; }), HasSubstr("expert capacity of a block is 9, 2 to 8"));
  EXPECT_THAT(refusal([](auto& c) { c.expert_capacity = 1; }), HasSubstr("expert capacity of a block is 1, 2 to 8"));
  EXPECT_THAT(refusal([](auto& c) { c.expert_block = 24; }), HasSubstr("needed a divisor of the attention block 32"));
  EXPECT_THAT(refusal([](auto& c) { c.expert_block = 0; }), HasSubstr("0 positions choose experts together"));
  EXPECT_THAT(refusal([](auto& c) { c.attention_block = 0; }), HasSubstr("needed a divisor of the attention block 0"));
  ModelConfig shifted = config_of(true);
  shifted.shift_logits = true;
  EXPECT_THAT(check_config(shifted, "m").error().message, HasSubstr("rows predict the next position"));
  EXPECT_THAT(refusal([](auto& c) { c.split_id = 40; }), HasSubstr("split token id is 40"));
  EXPECT_THAT(refusal([](auto& c) { c.split_id = 20; }), HasSubstr("delete token id is 20 and split token id 20"));
  EXPECT_THAT(refusal([](auto& c) { c.rotary_dims = 32; }), HasSubstr("rotary dimensions is 32, 2 to 16 needed"));
  EXPECT_THAT(refusal([](auto& c) { c.shared_expert_ffn_width = 64; }),
              HasSubstr("tensor blk.1.moe_shared_gate.weight is 64x32, 64x64 needed"));
  const ModelConfig config = config_of(true);
  ModelConfig plain = config;
  plain.qk_norm = false;
  EXPECT_THAT(outcome(ModelFile::open(folder.write("m.gguf", diffuse_bytes(plain, diffuse_llada2_metadata(config))))),
              HasSubstr("diffuse.use_qk_norm is 1, and tensor blk.0.attn_q_norm.weight is missing"));
}

TEST(Llada2Files, AnyMutationIsReadOrRefused) {
  const std::string good = diffuse_bytes(config_of(true));
  int refused = 0;
  for (size_t at = 0; at < std::min<size_t>(good.size(), 5000); at += 3) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ (at % 2 == 0 ? 0x41 : 0x80));
    const auto file = GgufFile::parse({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, "f");
    if (!file) continue;
    const auto model = read_gguf_model(*file, bytes.size(), "f");
    if (model) continue;
    ++refused;
    EXPECT_EQ(model.error().message.find('\n'), std::string::npos) << model.error().message;
  }
  EXPECT_GT(refused, 100);
}

TEST(CutFiles, AreOneLineWithTheCommandThatJoinsThem) {
  const TempFolder folder;
  const std::string bytes = gguf_bytes(tiny_config(&kLladaFamily));
  std::string joined = "cat";
  for (int i = 1; i <= 11; ++i) {
    const std::string name = fmt::format("m.gguf.part{}of11", i);
    folder.write(name, bytes.substr(bytes.size() * static_cast<size_t>(i - 1) / 11, bytes.size() / 11 + 1));
    joined += " " + folder / name;
  }
  joined += " > " + folder / "m.gguf";
  EXPECT_EQ(outcome(ModelFile::open(folder / "m.gguf")),
            folder / "m.gguf" + ": found in parts alone, which are no model; needed in one piece: " + joined);
  EXPECT_EQ(outcome(ModelFile::open(folder / "m.gguf.part2of11")),
            folder / "m.gguf.part2of11" + ": a part of a file that was cut; needed in one piece: " + joined);
  std::filesystem::remove(folder / "m.gguf.part7of11");
  EXPECT_THAT(outcome(ModelFile::open(folder / "m.gguf")),
              testing::EndsWith("; found 10 of 11 pieces of " + std::string(folder / "m.gguf") + ", needed all"));
  folder.write("m.gguf", bytes);
  EXPECT_EQ(outcome(ModelFile::open(folder / "m.gguf")), "accepted");
  EXPECT_THAT(outcome(ModelFile::open(folder / "m.gguf.part2of11")),
              testing::EndsWith("needed the whole file: " + folder / "m.gguf"));
}

// As a browser names what it downloads a second time.
TEST(CutFiles, AWholeFileWithANumberIsNoPart) {
  const TempFolder folder;
  const std::string bytes = gguf_bytes(tiny_config(&kLladaFamily));
  EXPECT_EQ(outcome(ModelFile::open(folder.write("m.gguf.1", bytes))), "accepted");
  folder.write("m.gguf", bytes);
  EXPECT_EQ(outcome(ModelFile::open(folder / "m.gguf.1")), "accepted");
  folder.write("m.gguf.2", bytes);
  EXPECT_THAT(outcome(ModelFile::open(folder / "m.gguf.1")), HasSubstr("a part of a file that was cut"));
}

TEST(CutFiles, TheCommandIsQuotedForTheShell) {
  const TempFolder folder;
  folder.write("it's.gguf.part1of1", gguf_bytes(tiny_config(&kLladaFamily)));
  const std::string whole = folder / "it'\\''s.gguf";
  EXPECT_THAT(outcome(ModelFile::open(folder / "it's.gguf")),
              testing::EndsWith("cat '" + whole + ".part1of1' > '" + whole + "'"));
}

TEST(CutFiles, Names) {
  for (const auto& [name, count] : {std::pair{"a/b.gguf.part2of3", 3},
                                    {"a/b.gguf.part-00002-of-00003", 3},
                                    {"a/b.gguf.part-00001", 0},
                                    {"a/b.gguf-split-b", 0},
                                    {"a/b.gguf.001", 0},
                                    {"a/b.gguf-part-aa", 0}}) {
    EXPECT_EQ(cut_name(name).whole, "a/b.gguf") << name;
    EXPECT_EQ(cut_name(name).count, count) << name;
  }
  for (const char* name : {"", ".gguf.001", "m.gguf", "m.gguf.part", "m.gguf.sha256", "m-00001-of-00002.gguf",
                           "m.gguf.partial/x", "m.gguf.", "m.bin.001", "m.gguf.1a", "m.gguf.partial",
                           "m.gguf.part1.sha256", "m.gguf.part1of3.sha256", "m.gguf.part1of", "m.gguf.part-aa.txt"})
    EXPECT_EQ(cut_name(name).whole, "") << name;
}

TEST(CutFiles, AreOneCutWithoutAGap) {
  using Names = std::vector<std::string>;
  const auto ordered = [](const Names& pieces, const std::string& name = "m.gguf") {
    const auto all = pieces_of_cut(pieces, name);
    return all ? *all : Names{all.error().message};
  };
  EXPECT_EQ(ordered({"m.gguf.part10", "m.gguf.part9", "m.gguf.part8", "m.gguf.part7", "m.gguf.part6", "m.gguf.part5",
                     "m.gguf.part4", "m.gguf.part3", "m.gguf.part2", "m.gguf.part1"})
                .back(),
            "m.gguf.part10");
  EXPECT_EQ(ordered({"m.gguf.001", "m.gguf.000"}), (Names{"m.gguf.000", "m.gguf.001"}));
  EXPECT_EQ(ordered({"m.gguf-split-b", "m.gguf-split-a"}), (Names{"m.gguf-split-a", "m.gguf-split-b"}));
  EXPECT_EQ(ordered({"m.gguf.partba", "m.gguf.partaa"}), Names{"found m.gguf.partba and no piece number 1 of m.gguf, "
                                                               "needed all"});
  EXPECT_EQ(ordered({"m.gguf-split-b", "m.gguf-split-c"}),
            Names{"found m.gguf-split-b and no piece number 0 of m.gguf, needed all"});
  EXPECT_EQ(ordered({"m.gguf.part1", "m.gguf.part3"}),
            Names{"found m.gguf.part3 and no piece number 2 of m.gguf, needed all"});
  EXPECT_EQ(ordered({"m.gguf.part2", "m.gguf.part3"}),
            Names{"found m.gguf.part2 and no piece number 1 of m.gguf, needed all"});
  EXPECT_EQ(ordered({"m.gguf.part1of2", "m.gguf.part7of2"}),
            Names{"found m.gguf.part7of2 and no piece number 2 of m.gguf, needed all"});
  EXPECT_EQ(ordered({"m.gguf.part01of2", "m.gguf.part1of2"}),
            Names{"found m.gguf.part1of2 and no piece number 2 of m.gguf, needed all"});
  const Names both = {"m.gguf-split-a", "m.gguf-split-b", "m.gguf.part1of2", "m.gguf.part2of2"};
  EXPECT_EQ(ordered(both),
            Names{"found m.gguf-split-a and m.gguf.part1of2, pieces of two cuts; needed one, by the name "
                  "of a piece"});
  EXPECT_EQ(ordered(both, both[3]), (Names{both[2], both[3]}));
}

}  // namespace
}  // namespace llada
