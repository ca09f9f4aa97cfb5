// Whole answers of DiffusionGemma: ids are those of its class's own generate(), whose draws are made as here
// (tools/upstream/diffusion_gemma.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/session.h"

namespace llada {
namespace {

using nlohmann::json;
const std::string kMade = LLADA_SOURCE_DIR "/tests/data/diffusion_gemma/";

TEST(DiffusionGemma, AnswersAreThoseOfItsClass) {
  std::ifstream in(kMade + "golden.json");
  const json golden = json::parse(in);
  const auto model = Model::load(kMade + "model.gguf", {.threads = 2});
  ASSERT_TRUE(model) << model.error().message;
  const auto session = Session::create(*model, {});
  ASSERT_TRUE(session) << session.error().message;
  for (const json& answer : golden["answers"]) {
    decode::DecodeOptions o;
    o.gen_length = answer["canvases"].get<int64_t>() * golden["canvas_length"].get<int64_t>();
    o.denoising_steps = answer["steps"], o.t_min = answer["t_min"], o.t_max = answer["t_max"];
    o.entropy_bound = answer["entropy_bound"];
    o.seed = answer["seed"];
    const auto got = (*session)->generate(answer["prompt"].get<std::vector<int32_t>>(), o, {});
    ASSERT_TRUE(got) << got.error().message;
    const auto expected = answer["tokens"].get<std::vector<int32_t>>();
    ASSERT_GE(got->tokens.size(), expected.size());
    EXPECT_EQ(std::vector<int32_t>(got->tokens.begin(), got->tokens.begin() + std::ssize(expected)), expected)
        << "seed " << o.seed;
  }
}

}  // namespace
}  // namespace llada
