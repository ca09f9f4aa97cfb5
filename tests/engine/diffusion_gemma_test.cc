// Whole answers of DiffusionGemma: ids are those of its class's own generate(), whose draws are made as here
// (tools/upstream/diffusion_gemma.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/random.h"
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

// A prompt is encoded causally, so what another one begins with may be taken from it.
TEST(DiffusionGemma, KeptPrefixesChangeNoAnswer) {
  const auto model = Model::load(kMade + "model.gguf", {.threads = 2});
  ASSERT_TRUE(model) << model.error().message;
  const auto prefixes = std::make_shared<PrefixCache>(int64_t{16} << 20);
  const auto plain = Session::create(*model, {}), keeping = Session::create(*model, {.prefixes = prefixes});
  ASSERT_TRUE(plain && keeping);
  std::vector<int32_t> prompt;
  const auto more = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      prompt.push_back(3 + static_cast<int32_t>(mix64(prompt.size() * 31 + 7) % 93));
  };
  decode::DecodeOptions o;
  o.gen_length = 16, o.denoising_steps = 5, o.seed = 2;
  o.early_stop = decode::EarlyStop::none;
  more(70);
  int64_t reused = 0;
  for (int turn = 0; turn < 3; ++turn) {
    const auto alone = (*plain)->generate(prompt, o, {}), kept = (*keeping)->generate(prompt, o, {});
    ASSERT_TRUE(alone && kept);
    EXPECT_EQ(alone->tokens, kept->tokens) << "turn " << turn;
    EXPECT_EQ(alone->stats.reused_positions, 0);
    EXPECT_EQ(kept->stats.reused_positions > reused, turn > 0) << "what the turn before has encoded";
    reused = kept->stats.reused_positions;
    prompt.insert(prompt.end(), kept->tokens.begin(), kept->tokens.end());
    more(20);
  }
  prompt[40] = prompt[40] == 5 ? 6 : 5;
  const auto alone = (*plain)->generate(prompt, o, {}), kept = (*keeping)->generate(prompt, o, {});
  ASSERT_TRUE(alone && kept);
  EXPECT_EQ(alone->tokens, kept->tokens);
  EXPECT_EQ(kept->stats.reused_positions, 32) << "up to the token that differs, in pages of 32";
}

}  // namespace
}  // namespace llada
