// --gen-length auto on the shipped model: the answers of a canvas that was long enough, and what is handed out of them.
// labels of this file: native
#include "golden.h"

namespace llada::length_run {
namespace {

TEST(LengthRun, AnswersAreThoseOfALongCanvasAndEndWithTheirEnd) {
  const std::string path = LLADA_SOURCE_DIR "/models/tiny-llada";
  const auto model = load_model(path);
  const auto session = open_session(model);
  const auto items = load_golden(path + "/golden.json");
  for (const GoldenItem& item : items) {
    const auto prompt = std::span(item.canvas).first(static_cast<size_t>(item.prompt_tokens));
    decode::DecodeOptions fixed;
    fixed.acceptance = decode::Acceptance::threshold, fixed.threshold = 0.98, fixed.tail = 16;
    decode::DecodeOptions open = fixed;
    open.auto_length = true, open.gen_length = decode::kAutoLength;
    const auto a = session->generate(prompt, fixed, {}), b = session->generate(prompt, open, {});
    ASSERT_TRUE(a && b) << (a ? b.error().message : a.error().message);
    EXPECT_EQ(a->text, b->text);
    EXPECT_EQ(a->stats.decode.nfe, b->stats.decode.nfe);
    EXPECT_EQ(a->stats.decode.rows, b->stats.decode.rows);
    EXPECT_EQ(finish_reason(*b), "stop");
    EXPECT_EQ(std::ssize(b->tokens), b->stats.content_tokens + 1) << "with its end token";
    if (quick()) break;
  }
}

// The cap is what the context leaves, and a short one cuts.
TEST(LengthRun, TheContextIsTheLimit) {
  const std::string path = LLADA_SOURCE_DIR "/models/tiny-llada";
  const auto model = load_model(path);
  const decode::DecodeOptions open = {.gen_length = decode::kAutoLength, .auto_length = true};
  EXPECT_EQ(most_generated(*model, 56, open), model->context() - 56);
  EXPECT_EQ(most_generated(*model, 56, {.gen_length = 40, .auto_length = true}), 40);
  EXPECT_EQ(most_generated(*model, 56, {.gen_length = 4000}), 4000) << "not auto: refused elsewhere";
  const std::vector<int32_t> all(static_cast<size_t>(model->context()), 5);
  const auto none = open_session(model)->generate(all, open, {});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("gen_length: 1 and 256 tokens of prompt"), std::string::npos)
      << none.error().message;
}

}  // namespace
}  // namespace llada::length_run
