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

// Keys and values are made room for as the answer grows: what it is, is none of their business, whichever rows are read
// from the store.
TEST(LengthRun, TheStoreGrowsAndTheAnswerIsThatOfALargeOne) {
  const std::string path = LLADA_SOURCE_DIR "/models/tiny-llada";
  const auto model = load_model(path);
  const auto session = open_session(model);
  const auto items = load_golden(path + "/golden.json");
  const auto prompt = std::span(items.front().canvas).first(static_cast<size_t>(items.front().prompt_tokens));
  const int64_t most = model->context() - std::ssize(prompt);
  ASSERT_GT(most, 128) << "or nothing grows";
  for (const char* policy : {"none", "dual", "frozen"}) {
    decode::DecodeOptions fixed;
    fixed.acceptance = decode::Acceptance::factor, fixed.factor = 1e6, fixed.tail = 16, fixed.gen_length = most;
    fixed.kv = decode::from_name<decode::KvChoice>(policy).value();
    const auto opened = [](decode::DecodeOptions o) {
      o.auto_length = true, o.gen_length = decode::kAutoLength;
      return o;
    };
    const auto small = session->generate(prompt, opened(fixed), {});
    // Noise in which no end token happens to be is as long as it may be.
    fixed.temperature = 1000, fixed.logits_eos_inf = true;
    auto a = session->generate(prompt, fixed, {});
    while (a && finish_reason(*a) != "length" && ++fixed.seed < 20) a = session->generate(prompt, fixed, {});
    const auto b = session->generate(prompt, opened(fixed), {});
    ASSERT_TRUE(small && a && b) << (b ? "" : b.error().message);
    ASSERT_EQ(std::ssize(b->tokens), most) << policy;
    EXPECT_EQ(a->tokens, b->tokens) << policy;
    EXPECT_EQ(a->stats.decode, b->stats.decode) << policy;
    EXPECT_EQ(a->stats.kv_bytes, b->stats.kv_bytes) << policy;
    const auto positions = static_cast<double>(std::ssize(prompt) + 128);
    EXPECT_NEAR(static_cast<double>(small->stats.kv_bytes),
                static_cast<double>(a->stats.kv_bytes) * positions / static_cast<double>(model->context()), 65536)
        << "an answer of common length holds no more than before";
  }
}

// The cap is what the context leaves, and a short one cuts.
TEST(LengthRun, TheContextIsTheLimit) {
  const std::string path = LLADA_SOURCE_DIR "/models/tiny-llada";
  const auto model = load_model(path);
  const decode::DecodeOptions open = {decode::LengthOptions{.gen_length = decode::kAutoLength, .auto_length = true}};
  const auto generated = [&](int64_t length, bool auto_length) {
    const Request request{.tokens = std::vector<int32_t>(56, 5),
                          .options = {decode::LengthOptions{.gen_length = length, .auto_length = auto_length}}};
    return prepare(*model, request).value()->most_generated;
  };
  EXPECT_EQ(generated(decode::kAutoLength, true), model->context() - 56);
  // A store that has room for all of a long prompt's answer never grows.
  const auto first = [&](int64_t prompt, int64_t all) {
    return first_positions(*model, {.tokens = std::vector<int32_t>(static_cast<size_t>(prompt)), .options = open}, all);
  };
  EXPECT_EQ(first(56, 256), 56 + 128);
  EXPECT_EQ(first(20'000, 21'024), 21'024);
  EXPECT_EQ(first(1'000, 2'024), 1'128);
  EXPECT_EQ(generated(40, true), 40);
  const std::vector<int32_t> all(static_cast<size_t>(model->context()), 5);
  EXPECT_EQ(why_not(open_session(model)->generate(all, open, {})),
            "the prompt is too long: 256 tokens; this model's maximum context length is 256 tokens, answer included");
  const auto request = [&](size_t prompt, int64_t length) -> Request {
    return {.tokens = std::vector<int32_t>(prompt, 5), .options = {decode::LengthOptions{.gen_length = length}}};
  };
  EXPECT_TRUE(prepare(*model, request(255, 1)) && check_text(*model, all)) << "each fits to the last position";
  EXPECT_EQ(check_text(*model, std::vector<int32_t>(257, 5)).error().message,
            "the prompt is too long: 257 tokens; this model's maximum context length is 256 tokens");
  const auto refused = prepare(*model, request(200, 57));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().about, Refusal::About::length);
  EXPECT_EQ(refused.error().message,
            "gen_length: 57 and 200 tokens of prompt need 257 positions; the model was trained for 256; needed 56 at "
            "most, or a shorter prompt");
  const auto shortened = must(prepare(*model, request(200, 57), {.shortens = true}));
  EXPECT_EQ((*shortened)->most_generated, 56);
  EXPECT_EQ((*shortened)->asked_length, 57);
}

}  // namespace
}  // namespace llada::length_run
