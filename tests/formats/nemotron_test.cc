// Nemotron-Labs-Diffusion's files (tools/upstream/nemotron.py): a folder with its names, a GGUF of the architecture
// that llama.cpp's converter writes.
#include <gmock/gmock.h>

#include "formats/convert.h"
#include "formats/family.h"
#include "formats/model_file.h"
#include "formats/same_shape.h"
#include "must.h"
#include "temp_folder.h"

namespace llada::nemotron {
namespace {

const std::string kMade = LLADA_SOURCE_DIR "/tests/data/nemotron/";

void expect_equal(const ModelConfig& a, const ModelConfig& b) {
  expect_same_shape(a, b);
  EXPECT_EQ(std::tuple(a.context, a.rms_eps, a.rope_theta), std::tuple(b.context, b.rms_eps, b.rope_theta));
  ASSERT_TRUE(a.yarn && b.yarn);
  EXPECT_EQ(std::tuple(a.yarn->factor, a.yarn->original_context, a.yarn->beta_fast),
            std::tuple(b.yarn->factor, b.yarn->original_context, b.yarn->beta_fast));
  EXPECT_NEAR(a.yarn->attention_factor.value_or(-1), b.yarn->attention_factor.value_or(-2), 1e-6);
  EXPECT_EQ(a.query_scale, b.query_scale);
  EXPECT_TRUE(a.causal_text && b.causal_text);
}

TEST(NemotronFiles, FolderAndGgufSayTheSame) {
  const auto folder = must(ModelFile::open(kMade + "folder")), gguf = must(ModelFile::open(kMade + "model.gguf"));
  const ModelConfig& c = folder->config();
  EXPECT_EQ(std::tuple(c.family->name, c.attention_block, c.mask_id), std::tuple("nemotron-labs-diffusion", 8, 90));
  EXPECT_EQ(c.yarn->attention_factor, 1.0) << "both magnitudes are 1";
  EXPECT_EQ(c.query_scale, (QueryScale{0.5, 24}));
  EXPECT_FALSE(c.shift_logits);
  EXPECT_TRUE(c.notes.empty());
  EXPECT_EQ(gguf->config().family->name, "mistral3");
  EXPECT_EQ(gguf->config().attention_block, -1) << "options say it";
  EXPECT_EQ(gguf->config().rope_pairing, RopePairing::adjacent);
  expect_equal(c, gguf->config());
  EXPECT_EQ(folder->tensors().size(), gguf->tensors().size());
}

TEST(NemotronFiles, AConversionSaysTheSame) {
  const auto folder = ModelFile::open(kMade + "folder");
  ASSERT_TRUE(folder);
  const TempFolder out;
  const std::string path = out.path() + "/converted.gguf";
  ASSERT_TRUE(convert_to_gguf(*folder, nullptr, path, {.type = DType::F32, .progress = {}}));
  const auto converted = must(ModelFile::open(path));
  EXPECT_EQ(std::tuple(converted->config().family, converted->config().attention_block, converted->config().mask_id),
            std::tuple(folder->config().family, 8, 90));
  EXPECT_EQ(converted->config().rope_pairing, RopePairing::half_split);
  expect_equal(folder->config(), converted->config());
}

}  // namespace
}  // namespace llada::nemotron
