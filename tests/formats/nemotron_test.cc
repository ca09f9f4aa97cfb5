// Nemotron-Labs-Diffusion's files (tools/upstream/nemotron.py): a folder with its names, a GGUF of the architecture
// that llama.cpp's converter writes.
#include <gmock/gmock.h>

#include "formats/convert.h"
#include "formats/family.h"
#include "formats/model_file.h"
#include "formats/same_shape.h"
#include "temp_folder.h"

namespace llada::nemotron {
namespace {

const std::string kMade = LLADA_SOURCE_DIR "/tests/data/nemotron/";

void expect_equal(const ModelConfig& a, const ModelConfig& b) {
  expect_same_shape(a, b);
  EXPECT_EQ(a.context, b.context);
  EXPECT_EQ(a.rms_eps, b.rms_eps);
  EXPECT_EQ(a.rope_theta, b.rope_theta);
  ASSERT_TRUE(a.yarn && b.yarn);
  EXPECT_EQ(a.yarn->factor, b.yarn->factor);
  EXPECT_EQ(a.yarn->original_context, b.yarn->original_context);
  EXPECT_EQ(a.yarn->beta_fast, b.yarn->beta_fast);
  EXPECT_NEAR(a.yarn->attention_factor.value_or(-1), b.yarn->attention_factor.value_or(-2), 1e-6);
  EXPECT_EQ(a.query_scale, b.query_scale);
  EXPECT_TRUE(a.causal_text && b.causal_text);
}

TEST(NemotronFiles, FolderAndGgufSayTheSame) {
  const auto folder = ModelFile::open(kMade + "folder"), gguf = ModelFile::open(kMade + "model.gguf");
  ASSERT_TRUE(folder) << folder.error().message;
  ASSERT_TRUE(gguf) << gguf.error().message;
  const ModelConfig& c = folder->config();
  EXPECT_EQ(c.family->name, "nemotron-labs-diffusion");
  EXPECT_EQ(c.attention_block, 8);
  EXPECT_EQ(c.mask_id, 90);
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
  const auto converted = ModelFile::open(path);
  ASSERT_TRUE(converted) << converted.error().message;
  EXPECT_EQ(converted->config().family, folder->config().family);
  EXPECT_EQ(converted->config().attention_block, 8);
  EXPECT_EQ(converted->config().mask_id, 90);
  EXPECT_EQ(converted->config().rope_pairing, RopePairing::half_split);
  expect_equal(folder->config(), converted->config());
}

}  // namespace
}  // namespace llada::nemotron
