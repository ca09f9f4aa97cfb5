// Folders whose weights other software has rounded, run: alike at every load, on other instruction sets, and from packed
// weights on disk. That they have their values is tested in tests/formats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/convert.h"
#include "engine/inspect.h"
#include "engine/pack_cache.h"
#include "engine/session.h"
#include "formats/rounded_fixture.h"
#include "formats/temp_folder.h"
#include "must.h"

namespace llada {
namespace {

using namespace testing_models;

// The folder, with a tokenizer of bytes.
void write(const TempFolder& to, const RoundedFolder& folder) {
  for (const auto& [name, content] : files_of(folder)) to.write(name, content);
}

class RoundedRuns : public testing::TestWithParam<RoundedForm> {};

std::vector<float> logits_of(const std::shared_ptr<const Model>& model) {
  const std::vector<int32_t> tokens = {1, 2, 3, 5, 8, 13, 21, 34, kByteMask, kByteMask}, wanted = {0, 4, 8, 9};
  return Session::create(model, {}).value()->logits(tokens, wanted).value();
}

double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double error2 = 0, norm2 = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error2 += std::pow(static_cast<double>(got[i]) - want[i], 2);
    norm2 += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(error2 / norm2);
}

TEST_P(RoundedRuns, AreAlikeAtEveryLoad) {
  const RoundedForm& form = GetParam();
  for (const Family* family : {&kLladaFamily, &kLladaMoeFamily, &kLlada2Family}) {
    const TempFolder disk;
    const RoundedFolder folder = rounded_folder(config_of_bytes(family), form);
    write(disk, folder);
    const auto model = Model::load(disk.path(), {.threads = 2});
    ASSERT_TRUE(model) << model.error().message;
    const auto got = logits_of(*model);
    const bool mixture = (*model)->config().experts > 0;  // whose router's choice the last bit can turn
    // Another instruction set uses other weights in place; a second load makes everything anew. Rounded activations
    // make these networks of drawn weights differ by percents: by as much on every set.
    const auto plain = Model::load(disk.path(), {.isa = "scalar", .threads = 1});
    ASSERT_TRUE(plain) << plain.error().message;
    if (!mixture) {
      const std::string twin = disk / "twin.gguf";
      must(convert_model({disk.path(), twin, "f32", ""}, {}));
      const auto exact = logits_of(*must(Model::load(twin, {.threads = 1})));
      const double own = relative_error(got, exact), of_plain = relative_error(logits_of(*plain), exact);
      EXPECT_LE(own, 1.5 * of_plain + 0.005) << family->name;
    }
    const auto again = Model::load(disk.path(), {.threads = 1});
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(got, logits_of(*again)) << family->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, RoundedRuns, testing::ValuesIn(rounded_forms()),
                         [](const auto& test) { return test.param.name; });

TEST(RoundedModels, PackedWeightsOnDiskAreUsed) {
  const TempFolder disk, cache;
  const RoundedFolder folder = rounded_folder(config_of_bytes(&kLladaMoeFamily), rounded_form("gptq_4_symmetric"));
  write(disk, folder);
  LoadOptions options{.threads = 2};
  options.pack_cache.folder = cache.path();
  options.pack_cache.use = PackCache::Use::found;
  const auto in_memory = Model::load(disk.path(), options);
  ASSERT_TRUE(in_memory) << in_memory.error().message;
  const auto packed = make_packed(disk.path(), options, {});
  if (!packed) GTEST_SKIP() << packed.error().message;  // an instruction set that packs nothing
  EXPECT_TRUE(packed->made);
  const auto from_disk = Model::load(disk.path(), options);
  ASSERT_TRUE(from_disk) << from_disk.error().message;
  EXPECT_EQ(logits_of(*in_memory), logits_of(*from_disk));
}

TEST(RoundedModels, DamagedScalesEndTheLoading) {
  const TempFolder disk;
  const RoundedFolder folder =
      rounded_folder(config_of_bytes(&kLladaFamily), rounded_form("mlx_4_BF16"), [](std::vector<FilePart>& parts) {
        for (FilePart& part : parts)
          if (part.name == "model.layers.1.mlp.up_proj.scales") part.bytes[1] = part.bytes[0] = '\x7f';
      });
  write(disk, folder);
  const auto model = Model::load(disk.path(), {.threads = 2});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::invalid_input);
  EXPECT_THAT(model.error().message, testing::HasSubstr("up_proj has a scale that is not finite"));
}

TEST(RoundedModels, InspectNamesTheScheme) {
  const TempFolder disk;
  const RoundedFolder folder = rounded_folder(config_of_bytes(&kLladaFamily), rounded_form("gptq_4_symmetric"));
  write(disk, folder);
  const auto summary = inspect_model(disk.path());
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_THAT(summary->config.remarks,
              testing::Contains("rounded by other software (gptq, 4 bits); matrices are read as: 14 q4_0"));
}

TEST(Inspect, ANameThatSaysAnotherTypeIsNamed) {
  const TempFolder disk;
  const std::string bytes = gguf_bytes(tiny_config(&kLladaFamily), {.type = DType::Q4_0, .tokenizer = false});
  const auto remarks = [&](const std::string& name) {
    const auto summary = inspect_model(disk.write(name, bytes));
    EXPECT_TRUE(summary) << summary.error().message;
    return summary->config.remarks;
  };
  const std::string other = "the file's name says tq2_0, and no tensor has that type: most of it is q4_0";
  EXPECT_THAT(remarks("Model-TQ2_0.gguf"), testing::Contains(other));
  EXPECT_THAT(remarks("Model-Q4_0.gguf"), testing::Not(testing::Contains(testing::HasSubstr("the file's name says"))));
}

}  // namespace
}  // namespace llada
