// How many copies of a model's weights are in memory with the DSP in front: its slabs, which the host reads too when it
// computes beside the DSP or after it, and of the cpu device's form only what the host alone can compute.
#include <unistd.h>

#include <filesystem>

#include "devices/hexagon/reserve.h"
#include "engine/convert.h"
#include "failing/failing_device.h"
#include "golden.h"
#include "hexagon/hexagon_tools.h"

namespace llada {
namespace {

TEST(HexagonMemory, TheSlabsAreTheOneCopyWhoeverComputes) {
  SKIP_WITHOUT_EMULATOR();
  const auto file = std::filesystem::temp_directory_path() / fmt::format("llada_hexagon_memory_{}.gguf", ::getpid());
  const auto golden = load_golden(LLADA_SOURCE_DIR "/models/tiny-llada/golden.json");
  // packed: what the cpu device has packed, be it as host, beside a step or for the fallback, which share it.
  const auto answer = [&](const std::string& device, bool beside, int64_t& packed) -> Result<std::vector<int32_t>> {
    LLADA_TRY(const auto model,
              Model::load(file, {.device = device, .plugin = &failing_devices(), .isa = "", .threads = 1}));
    LLADA_TRY(const auto session, Session::create(model, {.threads = 0}));
    decode::DecodeOptions options;
    options.gen_length = options.block_length = options.steps = 2;
    if (beside) {
      options.kv = decode::KvChoice::dual, options.revision = decode::Revision::dual_path;
      options.revise_lateness = 0, options.stable_threshold = 1;
    }
    LLADA_TRY(auto generation, session->generate(std::span(golden[0].canvas).first(4), options, {}));
    if (beside && generation.stats.decode.sparse_forwards == 0) return failed("nothing ran beside");
    packed = model->fallback() != nullptr ? model->fallback()->memory_bytes() : model->device().memory_bytes();
    return generation.tokens;
  };
  for (const char* source : {"tiny-llada", "tiny-llada-moe"}) {
    ASSERT_TRUE(convert_model(
        {.path = std::string(LLADA_SOURCE_DIR "/models/") + source, .out_path = file, .type = "q8_0", .imatrix = {}},
        {}));
    const auto stored = static_cast<double>(std::filesystem::file_size(file));
    int64_t all = 0, works = 0, beside = 0, gone = 0, on_host = 0;
    const auto expected = answer("cpu", false, all), by_dsp = answer("hexagon", false, works),
               by_both = answer("hexagon", true, beside), fails = answer("hexagon:fail=gone:9", false, gone),
               head = answer("hexagon:head=cpu", false, on_host);
    for (const auto* a : {&expected, &by_dsp, &by_both, &fails, &head})
      ASSERT_TRUE(*a) << source << ": " << a->error().message;
    EXPECT_EQ(*by_dsp, *expected) << source;
    EXPECT_EQ(*fails, *by_dsp) << source;
    EXPECT_GT(static_cast<double>(all), 0.8 * stored) << "the cpu alone packs everything";
    EXPECT_EQ(beside, works) << source << ": nothing is packed for the path beside";
    // The kernels' scratch and what is staged of a step; the fallback that took over has its own.
    const int64_t work = kFirstScratch + (int64_t{3} << 19);
    EXPECT_LT(gone, works + work) << source << ": nor for the fallback that took over";
    if (source == std::string_view("tiny-llada")) {
      EXPECT_EQ(works, 0) << "of a dense model the DSP computes all";
    } else {
      EXPECT_LT(works, all * 95 / 100) << "the experts are the host's, the rest is not";
    }
    EXPECT_GT(on_host, works) << source;
    EXPECT_LT(on_host, all) << source;
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace llada
