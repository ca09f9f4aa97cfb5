// What the C API computes: the recorded answers of the shipped model, step by step, and what the engine's own interface
// gives.
#include <cmath>
#include <thread>

#include "api_fixture.h"
#include "engine/infill_text.h"

extern "C" size_t size_of_step_in_c(void);
extern "C" size_t size_of_result_in_c(void);

namespace llada {
namespace {

Pairs pairs_of(const GoldenRun& run) {
  Pairs pairs = {{"gen_length", std::to_string(run.options.gen_length)},
                 {"block_length", std::to_string(run.options.block_length)},
                 {"early_stop", "none"}};
  if (run.options.acceptance == decode::Acceptance::threshold)
    pairs.emplace_back("threshold", fmt::format("{}", run.options.threshold));
  else
    pairs.emplace_back("steps", std::to_string(run.options.steps));
  return pairs;
}

TEST(CApi, RecordedAnswers) {
  for (const GoldenItem& item : tiny().golden) {
    const GoldenRun& run = item.threshold;
    const RequestHandle request = ask(tiny().engine, item.prompt, pairs_of(run));
    const llada_result result = result_of(request);
    EXPECT_EQ(tokens_of(result), run.tokens);
    EXPECT_EQ(std::string(result.text, result.text_size), run.text);
    EXPECT_EQ(std::string(result.text), run.text) << "with a NUL behind it";
    EXPECT_EQ(result.forwards, run.nfe);
    EXPECT_EQ(result.prompt_tokens, item.prompt_tokens);
    EXPECT_EQ(result.cancelled, 0);
    EXPECT_EQ(result.has_seed, 0);
    for (size_t i = 0; i < result.count; ++i) {
      EXPECT_EQ(result.states[i], LLADA_TOKEN_STABLE);
      EXPECT_GT(result.confidences[i], 0.0f);
      EXPECT_LE(result.confidences[i], 1.0f);
    }
  }
}

// Steps as recorded; the arrays are what the edits so far make of the masks.
TEST(CApi, RecordedSteps) {
  const GoldenItem& item = tiny().golden[0];
  const GoldenRun& run = item.threshold;
  Pairs pairs = pairs_of(run);
  pairs.emplace_back("keep_steps", "true");
  const RequestHandle request = ask(tiny().engine, item.prompt, pairs);
  llada_model_info info = LLADA_MODEL_INFO_INIT;
  ASSERT_EQ(llada_model_describe(tiny().model, &info), LLADA_OK);
  std::vector<int32_t> canvas(static_cast<size_t>(run.options.gen_length), info.mask_token);
  llada_step step = LLADA_STEP_INIT;
  size_t steps = 0;
  int64_t committed = 0;
  std::string last;
  llada_status status;
  while ((status = llada_request_next(request, -1, &step)) == LLADA_OK) {
    ASSERT_LT(steps, run.trace.size());
    EXPECT_EQ(step.number, static_cast<int64_t>(steps));
    std::vector<std::pair<int32_t, int32_t>> edits;
    for (size_t i = 0; i < step.edit_count; ++i)
      edits.emplace_back(step.edits[i] + static_cast<int32_t>(item.prompt_tokens), step.tokens[step.edits[i]]);
    auto recorded = run.trace[steps];
    std::ranges::sort(recorded);
    EXPECT_EQ(edits, recorded);
    for (const auto& [position, token] : edits) canvas[static_cast<size_t>(position - item.prompt_tokens)] = token;
    EXPECT_EQ((std::vector<int32_t>{step.tokens, step.tokens + step.count}), canvas);
    EXPECT_EQ(step.masked, std::ranges::count(canvas, info.mask_token));
    EXPECT_GE(step.committed, committed);
    committed = step.committed;
    for (size_t i = 0; i < step.count; ++i) {
      const bool masked = canvas[i] == info.mask_token;
      EXPECT_EQ(step.states[i], masked ? LLADA_TOKEN_MASKED : LLADA_TOKEN_STABLE);
      EXPECT_EQ(step.confidences[i] == 0, masked);
      const char* text = nullptr;
      size_t size = 0;
      ASSERT_EQ(llada_token_text(tiny().model, canvas[i], &text, &size), LLADA_OK);
      EXPECT_EQ(std::string(step.texts[i], step.text_sizes[i]), masked ? "\u2591" : std::string(text, size));
    }
    last.assign(step.text, step.text_size);
    ++steps;
  }
  EXPECT_EQ(status, LLADA_END);
  EXPECT_EQ(steps, run.trace.size());
  EXPECT_EQ(last, run.text);
  EXPECT_EQ(llada_request_next(request, -1, &step), LLADA_END) << "again the same";
  EXPECT_EQ(tokens_of(result_of(request)), run.tokens);
}

TEST(CApi, ManyAtOnceAnswerAsAlone) {
  std::vector<RequestHandle> requests;
  for (int round = 0; round < 3; ++round)
    for (const GoldenItem& item : tiny().golden)
      requests.push_back(ask(tiny().engine, item.prompt, pairs_of(item.threshold)));
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(tokens_of(result_of(requests[i])), tiny().golden[i % 4].threshold.tokens);
  llada_engine_stats stats = LLADA_ENGINE_STATS_INIT;
  ASSERT_EQ(llada_engine_describe(tiny().engine, &stats), LLADA_OK);
  EXPECT_GT(stats.parts, stats.forwards) << "forwards were shared";
  EXPECT_EQ(stats.row_budget, 4096);
}

TEST(CApi, InfillAsTheEngineDoes) {
  const char* text = "Ken has 20+6=<mask:2> puzzles. Theo has 26-3=<mask:2> puzzles.";
  const auto model = load_model(kTinyModel, 1);
  const auto layout = lay_out_infill(*model, *parse_infill_template(text));
  ASSERT_TRUE(layout);
  decode::DecodeOptions options;
  options.acceptance = decode::Acceptance::threshold;
  const auto expected = open_session(model)->infill(layout->tokens, layout->positions, options, {});
  ASSERT_TRUE(expected);
  const OptionsHandle chosen = options_of({{"threshold", "0.9"}, {"keep_steps", "true"}});
  RequestHandle by_text, by_tokens;
  ASSERT_EQ(llada_submit_infill(tiny().engine, text, LLADA_TEXT, chosen, by_text.out()), LLADA_OK);
  ASSERT_EQ(llada_submit_gaps(tiny().engine, layout->tokens.data(), layout->tokens.size(), layout->positions.data(),
                              layout->positions.size(), chosen, by_tokens.out()),
            LLADA_OK);
  llada_step step = LLADA_STEP_INIT;
  ASSERT_EQ(llada_request_next(by_text, -1, &step), LLADA_OK);
  EXPECT_EQ(step.count, layout->tokens.size());
  EXPECT_EQ(step.states[0], LLADA_TOKEN_FIXED);
  for (const llada_request* request : {&*by_text, &*by_tokens}) {
    const llada_result result = result_of(const_cast<llada_request*>(request));
    EXPECT_EQ(tokens_of(result), expected->tokens);
    EXPECT_EQ(std::string(result.text, result.text_size), expected->text);
    for (size_t i = 0; i < result.count; ++i) {
      const bool gap = std::ranges::count(layout->positions, static_cast<int32_t>(i)) > 0;
      EXPECT_EQ(result.states[i] == LLADA_TOKEN_FIXED, !gap);
    }
  }
}

TEST(CApi, TextAndTokens) {
  const char* text = "Sort the numbers: 38 41";
  int32_t ids[64];
  size_t count = 0;
  ASSERT_EQ(llada_tokenize(tiny().model, text, LLADA_TEXT, 0, nullptr, 0, &count), LLADA_OK);
  ASSERT_LE(count, std::size(ids));
  EXPECT_EQ(llada_tokenize(tiny().model, text, LLADA_TEXT, 0, ids, count - 1, &count), LLADA_ERROR_SPACE);
  ASSERT_EQ(llada_tokenize(tiny().model, text, LLADA_TEXT, 0, ids, count, &count), LLADA_OK);
  char back[64];
  size_t size = 0;
  EXPECT_EQ(llada_detokenize(tiny().model, ids, count, 0, back, std::strlen(text), &size), LLADA_ERROR_SPACE);
  ASSERT_EQ(llada_detokenize(tiny().model, ids, count, 0, back, std::strlen(text) + 1, &size), LLADA_OK);
  EXPECT_STREQ(back, text);
  EXPECT_EQ(size, std::strlen(text));
  // A conversation's tokens are those that a request of it has.
  const char *role = "user", *content = tiny().golden[0].prompt.c_str();
  std::vector<int32_t> chat(1000);
  ASSERT_EQ(llada_chat_tokens(tiny().model, &role, &content, 1, chat.data(), chat.size(), &count), LLADA_OK);
  EXPECT_EQ(static_cast<int64_t>(count), tiny().golden[0].prompt_tokens);
  const OptionsHandle options = options_of(pairs_of(tiny().golden[0].threshold));
  RequestHandle request;
  ASSERT_EQ(llada_submit_tokens(tiny().engine, chat.data(), count, options, request.out()), LLADA_OK);
  EXPECT_EQ(tokens_of(result_of(request)), tiny().golden[0].threshold.tokens);
}

TEST(CApi, LogitsOfOneForward) {
  const GoldenItem& item = tiny().golden[0];
  llada_model_info info = LLADA_MODEL_INFO_INIT;
  ASSERT_EQ(llada_model_describe(tiny().model, &info), LLADA_OK);
  std::vector<int32_t> positions;
  for (const auto& [position, row] : item.logits) positions.push_back(position);
  std::vector<float> logits(positions.size() * static_cast<size_t>(info.vocabulary));
  ASSERT_EQ(llada_logits(tiny().model, item.canvas.data(), item.canvas.size(), positions.data(), positions.size(),
                         logits.data(), logits.size()),
            LLADA_OK)
      << llada_error(tiny().model);
  for (size_t r = 0; r < positions.size(); ++r)
    for (size_t v = 0; v < item.logits[r].second.size(); ++v)
      ASSERT_NEAR(logits[r * static_cast<size_t>(info.vocabulary) + v], item.logits[r].second[v], 0.05);
  EXPECT_EQ(llada_logits(tiny().model, item.canvas.data(), item.canvas.size(), positions.data(), positions.size(),
                         logits.data(), logits.size() - 1),
            LLADA_ERROR_SPACE);
}

TEST(CApi, StructsAreTheSameInC) {
  EXPECT_EQ(size_of_step_in_c(), sizeof(llada_step));
  EXPECT_EQ(size_of_result_in_c(), sizeof(llada_result));
}

}  // namespace
}  // namespace llada
