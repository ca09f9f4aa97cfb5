// A model in every type of files: it opens and gives the logits of the same model dequantized, but for the rounding of
// the activations; and says once what a type costs that is computed as another.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "engine/session.h"
#include "formats/convert.h"
#include "must.h"
#include "study/synth.h"
#include "tensor/computed.h"

namespace llada {
namespace {

class TypesOfFiles : public testing::TestWithParam<int> {};

TEST_P(TypesOfFiles, OpenWithTheLogitsOfTheirDequantization) {
  const auto type = static_cast<DType>(GetParam());
  const std::string name(traits(type).name);
  const auto folder = std::filesystem::temp_directory_path() / ("llada_types_" + name + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string file = folder / "model.gguf", floats = folder / "floats.gguf";
  const auto request = synth_request("tiny", name, 0);
  ASSERT_TRUE(request && synthesize_file(file, *request, {.threads = 2}));
  const auto model = must(Model::load(file, {.threads = 2}));
  ASSERT_TRUE(convert_to_gguf((*model)->file(), nullptr, floats, {.type = DType::F32, .progress = {}}));
  const auto dequantized = must(Model::load(floats, {.threads = 2}));
  std::filesystem::remove_all(folder);

  const std::vector<int32_t> tokens = {1, 2, 3, 5, 8, 13, 21, 34, 1006, 1006}, wanted = {0, 4, 8, 9};
  const auto logits = [&](const std::shared_ptr<const Model>& of) {
    return Session::create(of, {}).value()->logits(tokens, wanted).value();
  };
  const auto got = logits(*model), want = logits(*dequantized);
  double error2 = 0, norm2 = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error2 += std::pow(static_cast<double>(got[i]) - want[i], 2);
    norm2 += std::pow(static_cast<double>(want[i]), 2);
  }
  EXPECT_LE(std::sqrt(error2 / norm2), traits(type).quantized ? 0.03 : 1e-5);

  size_t about_types = 0;
  for (const std::string& note : (*model)->notes())
    if (note.starts_with("type " + name + ": computed as " + std::string(traits(computed_type(type)).name)))
      ++about_types;
  EXPECT_EQ(about_types, computed_type(type) == type ? 0u : 1u) << testing::PrintToString((*model)->notes());
}

INSTANTIATE_TEST_SUITE_P(All, TypesOfFiles, testing::Range(0, kFileTypeCount),
                         [](const auto& type) { return std::string(traits(static_cast<DType>(type.param)).name); });

}  // namespace
}  // namespace llada
