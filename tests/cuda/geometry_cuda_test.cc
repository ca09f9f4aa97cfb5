// Emulated: the peaked models (tied heads, heads of 64 and 128, 100,000 logits) on --device cuda, from files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "formats/convert.h"
#include "geometry/peaked_engine.h"

namespace llada {
namespace {

TEST(GeometryCuda, TiedHeadsGiveTheAnswerThatIsBuiltIn) {
  const bool short_of_time = std::getenv("LLADA_TEST_QUICK") != nullptr;
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("llada_cuda_{}.gguf", ::getpid())).string();
  constexpr DType kTypes[] = {DType::Q4_0, DType::Q8_0, DType::F16};
  size_t next = 0;
  for (const PeakedSpec& spec : peaked_specs()) {
    const std::string& name = spec.name;
    if (name == "far" || (short_of_time && name != "llada")) continue;
    const DType type = kTypes[next++ % std::size(kTypes)];
    const SmallModel weights = make_peaked_model(spec);
    ASSERT_TRUE(convert_to_gguf(in_memory(weights), nullptr, path, {.type = type, .progress = {}}));
    const PeakedEngine engine(name, path, {.device = "cuda:fallback=none", .threads = 1});
    EXPECT_TRUE(engine.model->config().tied_head);
    decode::DecodeOptions o;
    o.gen_length = 3;
    if (spec.config.attention_block > 0) o.block_length = spec.config.attention_block;
    o.acceptance = decode::Acceptance::threshold;
    o.early_stop = decode::EarlyStop::none;
    const auto prompt = random_prompt(engine.spec, engine.spec.offset + 5, 7);
    EXPECT_EQ(engine.generate(prompt, o).tokens, answer_to(engine.spec, prompt, 3)) << name;
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace llada
