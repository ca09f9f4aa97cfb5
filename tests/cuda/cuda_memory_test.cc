// Emulated: how many copies of a model's weights are in memory with an accelerator in front. LLADA_TEST_MIB=100 makes
// the model that large and prints what the process took.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/memory_usage.h"
#include "engine/golden.h"
#include "failing/failing_device.h"
#include "study/synth.h"

namespace llada {
namespace {

namespace fs = std::filesystem;

class CudaMemory : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    path_ = fs::temp_directory_path() / fmt::format("llada_cuda_memory_{}.gguf", ::getpid());
    SynthRequest request{find_preset("tiny").value(), DType::Q4_0};
    ModelConfig& c = request.preset.config;
    const char* mib = std::getenv("LLADA_TEST_MIB");
    c.width = 512, c.heads = c.kv_heads = 8, c.head_dim = c.rotary_dims = 64, c.ffn_width = 1024;
    c.layers = 2;
    const auto bytes_of = [&] { return parameters_of(request.preset) * 18 / 32; };
    while (bytes_of() < (mib != nullptr ? std::stol(mib) : 6) << 20) ++c.layers;
    must(synthesize_file(path_, request, {.threads = 2}));
  }
  static void TearDownTestSuite() { fs::remove(path_); }

  static Result<std::shared_ptr<const Model>> load(const std::string& device) {
    return Model::load(path_, {.device = device, .plugin = &failing_devices(), .isa = "", .threads = 2});
  }
  // Of all tensors as they are stored.
  static int64_t stored(const Model& model) {
    int64_t bytes = 0;
    for (const ModelFile::Entry& entry : model.file().tensors()) bytes += entry.view.bytes();
    return bytes;
  }
  static Result<Generation> answer(const std::shared_ptr<const Model>& model, std::vector<std::string>& warnings) {
    LLADA_TRY(
        const auto session,
        Session::create(model, {.threads = 0, .warn = [&](const std::string& line) { warnings.push_back(line); }}));
    decode::DecodeOptions options;
    options.gen_length = 2, options.block_length = 2;
    options.steps = 2;
    return session->generate(std::vector<int32_t>{5, 6, 7}, options, {});
  }

  static fs::path path_;
};
fs::path CudaMemory::path_;

TEST_F(CudaMemory, OneCopyOfTheWeightsAsLongAsTheGpuWorks) {
  const int64_t before = peak_memory_bytes();
  const auto model = must(load("cuda"));
  const auto copies = [&] {
    return static_cast<double>((*model)->device().memory_bytes()) / static_cast<double>(stored(**model));
  };
  EXPECT_LT(copies(), 1.1);
  EXPECT_GT(copies(), 0.9) << "the weights are there";
  EXPECT_EQ((*model)->fallback()->memory_bytes(), 0);
  std::vector<std::string> warnings;
  const auto got = must(answer(*model, warnings));
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ((*model)->fallback()->memory_bytes(), 0) << "nothing has failed";
  fmt::print("{} bytes stored, {} on the device and the host, peak of the process {} more than before\n",
             stored(**model), (*model)->device().memory_bytes(), peak_memory_bytes() - before);
}

// A budget that is too small is refused before a weight is read, and the one that is named is enough.
TEST_F(CudaMemory, TheNeedIsToldBeforeAndIsEnough) {
  const auto refused = load("cuda:budget=5MiB,fallback=none");
  ASSERT_FALSE(refused);
  const std::string& line = refused.error().message;
  EXPECT_EQ(refused.error().kind, ErrorKind::memory);
  EXPECT_TRUE(line.starts_with("cuda: needs ") && line.find("the budget has 5.0 MiB left") != line.npos) << line;
  const double needed = std::stod(line.substr(std::string("cuda: needs ").size()));
  EXPECT_FALSE(load(fmt::format("cuda:budget={:.1f}MiB,fallback=none", needed - 0.2)));
  const auto model = must(load(fmt::format("cuda:budget={:.1f}MiB,fallback=none", needed + 0.1)));
  const auto session = must(Session::create(*model, {}));
  decode::DecodeOptions options;
  options.gen_length = options.block_length = 56, options.steps = 1;
  const std::vector<int32_t> prompt(200, 5);  // so that the first step has 256 rows
  const auto got = (*session)->generate(prompt, options, {});
  EXPECT_TRUE(got) << got.error().message;
  // Weights that fit alone are no reason to begin.
  const double weights = std::stod(line.substr(line.find("weights ") + 8));
  EXPECT_FALSE(load(fmt::format("cuda:budget={:.1f}MiB,fallback=none", weights + 0.2)));
}

TEST_F(CudaMemory, TheFallbackPacksTheRestWhenItTakesOver) {
  std::vector<std::string> warnings;
  const auto cpu = must(load("cpu"));
  const auto expected = must(answer(*cpu, warnings));
  for (const char* device : {"cuda:fail=submit:0", "cuda:fail=gone:9"}) {
    const auto model = load(device);
    ASSERT_TRUE(model) << device;
    warnings.clear();
    const auto got = answer(*model, warnings);
    ASSERT_TRUE(got) << device << ": " << got.error().message;
    EXPECT_EQ(got->tokens, expected->tokens) << device;
    EXPECT_EQ(warnings.size(), 1u) << device;
  }
}

}  // namespace
}  // namespace llada
