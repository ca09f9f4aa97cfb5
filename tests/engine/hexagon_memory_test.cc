// How many copies of a model's weights are in memory with the DSP in front: its slabs, and of the host's form only what
// the host computes in every step.
#include <unistd.h>

#include <filesystem>

#include "engine/convert.h"
#include "failing/failing_device.h"
#include "golden.h"
#include "hexagon/hexagon_tools.h"

namespace llada {
namespace {

TEST(HexagonMemory, TheHostPacksWhatItComputesAndTheRestWhenTheDspFails) {
  SKIP_WITHOUT_EMULATOR();
  const auto file = std::filesystem::temp_directory_path() / fmt::format("llada_hexagon_memory_{}.gguf", ::getpid());
  const auto golden = load_golden(LLADA_SOURCE_DIR "/models/tiny-llada/golden.json");
  const auto answer = [&](const std::string& device, int64_t& packed) -> Result<std::vector<int32_t>> {
    LLADA_TRY(const auto model,
              Model::load(file, {.device = device, .plugin = &failing_devices(), .isa = "", .threads = 1}));
    LLADA_TRY(const auto session, Session::create(model, {.threads = 0}));
    decode::DecodeOptions options;
    options.gen_length = options.block_length = options.steps = 2;
    LLADA_TRY(auto generation, session->generate(std::span(golden[0].canvas).first(4), options, {}));
    packed = model->fallback() != nullptr ? model->fallback()->memory_bytes() : model->device().memory_bytes();
    return generation.tokens;
  };
  for (const char* source : {"tiny-llada", "tiny-llada-moe"}) {
    ASSERT_TRUE(convert_model(std::string(LLADA_SOURCE_DIR "/models/") + source, file, "q8_0", {}));
    const auto stored = static_cast<double>(std::filesystem::file_size(file));
    int64_t all = 0, beside = 0, alone = 0, on_host = 0;
    const auto expected = answer("cpu", all), works = answer("hexagon", beside),
               fails = answer("hexagon:fail=gone:9", alone), head = answer("hexagon:head=cpu", on_host);
    ASSERT_TRUE(expected && works && fails && head) << source;
    EXPECT_EQ(*fails, *expected) << source;
    EXPECT_GT(static_cast<double>(all), 0.8 * stored) << "the cpu alone packs everything";
    EXPECT_GT(static_cast<double>(alone), 0.8 * stored) << "and so does the fallback that took over";
    if (source == std::string_view("tiny-llada")) {
      EXPECT_EQ(beside, 0) << "of a dense model the DSP computes all";
    } else {
      EXPECT_LT(beside, all * 95 / 100) << "the experts are the host's, the rest is not";
    }
    EXPECT_GT(on_host, beside) << source;
    EXPECT_LT(on_host, all) << source;
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace llada
