// What the C API computes: the recorded answers of the shipped model, step by step, and what the engine's own interface
// gives.
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>

#include "api_fixture.h"
#include "decode/fields.h"
#include "decode/settings.h"
#include "engine/infill_text.h"
#include "must.h"

extern "C" size_t size_of_step_in_c(void);
extern "C" size_t size_of_result_in_c(void);

namespace llada {
namespace {

Pairs pairs_of(const GoldenRun& run) {
  Pairs pairs = {{"preset", "exact"},
                 {"gen_length", std::to_string(run.options.gen_length)},
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

// What of a file is not followed is told to a caller as to a user of the program.
TEST(CApi, NotesOfTheModel) {
  namespace fs = std::filesystem;
  llada_model_info info = LLADA_MODEL_INFO_INIT;
  ASSERT_EQ(llada_model_describe(tiny().model, &info), LLADA_OK);
  EXPECT_STREQ(info.notes, "");
  const fs::path own = fs::temp_directory_path() / ("llada_api_notes_" + std::to_string(::getpid()));
  fs::create_directories(own);
  for (const char* name : {"model.safetensors", "tokenizer.json", "tokenizer_config.json", "config.json"})
    fs::create_symlink(fs::path(kTinyModel) / name, own / name);
  std::ofstream(own / "chat_template.jinja") << "[INST] {{ messages[-1].content }} [/INST]";
  {
    const ModelHandle model = load_tiny(own.string());
    ASSERT_EQ(llada_model_describe(model, &info), LLADA_OK) << llada_error(model);
    const std::string notes = info.notes;
    EXPECT_EQ(notes.find("the chat template of the file is not one of those that are known"), 0u) << notes;
    EXPECT_EQ(notes.find('\n'), notes.npos) << "one note, one line";
    // A program of before the notes has a smaller struct, behind which nothing is written.
    info = LLADA_MODEL_INFO_INIT;
    info.size = offsetof(llada_model_info, notes);
    ASSERT_EQ(llada_model_describe(model, &info), LLADA_OK);
    EXPECT_GT(info.vocabulary, 0);
    EXPECT_EQ(info.notes, nullptr);
  }
  fs::remove_all(own);
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
  const auto layout = must(lay_out_infill(*model, *parse_infill_template(text)));
  decode::DecodeOptions options;
  options.acceptance = decode::Acceptance::threshold;
  const auto expected = must(open_session(model)->run(
      prepare(*model, {.tokens = layout->tokens, .gaps = layout->positions, .options = options}).value(), {}));
  const OptionsHandle chosen = options_of({{"preset", "exact"}, {"threshold", "0.9"}, {"keep_steps", "true"}});
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

TEST(CApi, AGapOfOpenLengthIsAsTheOneThatWasChosen) {
  const OptionsHandle chosen = options_of({{"preset", "exact"}, {"keep_steps", "true"}});
  const auto submit = [&](const std::string& text, RequestHandle& request) {
    ASSERT_EQ(llada_submit_infill(tiny().engine, text.c_str(), LLADA_TEXT, chosen, request.out()), LLADA_OK);
  };
  RequestHandle open, fixed;
  submit("Ken has 20+6=<mask:auto> puzzles.", open);
  llada_step step = LLADA_STEP_INIT;
  ASSERT_EQ(llada_request_next(open, -1, &step), LLADA_OK);
  const llada_result found = result_of(open);
  EXPECT_EQ(step.count, found.count);
  const auto gap = std::ranges::count_if(std::span(found.states, found.count),
                                         [](int32_t state) { return state != LLADA_TOKEN_FIXED; });
  EXPECT_EQ(gap, step.masked + 1);
  submit(fmt::format("Ken has 20+6=<mask:{}> puzzles.", gap), fixed);
  const llada_result same = result_of(fixed);
  EXPECT_EQ(tokens_of(found), tokens_of(same));
  EXPECT_EQ(found.forwards, same.forwards + 10);
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
  const std::string control = "<|eot_id|>";
  ASSERT_EQ(
      llada_tokenize(tiny().model, control.data(), control.size(), LLADA_WITH_CONTROL, ids, std::size(ids), &count),
      LLADA_OK);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(ids[0], 1004);
  ASSERT_EQ(llada_tokenize(tiny().model, control.data(), control.size(), LLADA_WITH_BOS, ids, std::size(ids), &count),
            LLADA_OK);
  EXPECT_GT(count, 5u) << "the text is text";
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

// Where nothing says how tokens are decided: the preset of the command line. Naming it gives the same, `exact` another.
TEST(CApi, PresetsAsOnTheCommandLine) {
  const std::string& prompt = tiny().golden[0].prompt;
  const RequestHandle plain = ask(tiny().engine, prompt, {}),
                      named = ask(tiny().engine, prompt, {{"preset", "balanced"}}),
                      exact = ask(tiny().engine, prompt, {{"preset", "exact"}, {"gen_length", "16"}});
  const llada_result by_default = result_of(plain), balanced = result_of(named);
  EXPECT_EQ(tokens_of(by_default), tokens_of(balanced));
  EXPECT_EQ(by_default.forwards, balanced.forwards);
  EXPECT_LT(by_default.forwards, 20);
  EXPECT_EQ(result_of(exact).forwards, 16);
  // An option replaces that value and nothing else; what the preset has already changes nothing.
  const RequestHandle dual = ask(tiny().engine, prompt, {{"kv", "dual"}, {"tail", "16"}});
  EXPECT_EQ(tokens_of(result_of(dual)), tokens_of(balanced));
  EXPECT_EQ(result_of(dual).rows, balanced.rows);
  llada_request* none = nullptr;
  const auto refused = [&](const Pairs& pairs) {
    const OptionsHandle options = options_of(pairs);
    EXPECT_EQ(llada_submit_text(tiny().engine, "a", LLADA_TEXT, options, &none), LLADA_ERROR_INVALID);
    return std::string(llada_error(tiny().engine));
  };
  EXPECT_EQ(
      refused({{"kv", "none"}}),
      "kv none: does not go with preset balanced: refresh_after (of preset balanced): found 80 with kv none, which "
      "computes everything in every step, so that refresh_after would change nothing; needed kv prefix, dual, block or "
      "frozen; preset exact starts without it");
  const OptionsHandle unknown = options_of({{"preset", "brisk"}});
  EXPECT_EQ(llada_submit_text(tiny().engine, "a", LLADA_TEXT, unknown, &none), LLADA_ERROR_INVALID);
  EXPECT_TRUE(std::string(llada_error(tiny().engine)).starts_with("preset: found 'brisk', needed one of"))
      << llada_error(tiny().engine);
}

// Gaps as prompts: with the preset of the command line.
TEST(CApi, GapsHaveTheDefaultPreset) {
  const char* text = "Ken has 20+6=<mask:2> puzzles. Theo has 26-3=<mask:2> puzzles.";
  const auto forwards = [&](const Pairs& pairs) {
    const OptionsHandle options = options_of(pairs);
    RequestHandle request;
    EXPECT_EQ(llada_submit_infill(tiny().engine, text, LLADA_TEXT, options, request.out()), LLADA_OK);
    return result_of(request).forwards;
  };
  EXPECT_EQ(forwards({}), forwards({{"preset", "balanced"}}));
  EXPECT_EQ(forwards({{"preset", "exact"}}), 4);
  EXPECT_LT(forwards({}), 4);
}

TEST(CApi, PromptsWithoutTextAreRefused) {
  llada_request* none = nullptr;
  const char *user = "user", *system = "system", *blank = " \n", *empty = "", *said = "Be brief.";
  const auto chat = [&](std::vector<const char*> roles, std::vector<const char*> contents) {
    EXPECT_EQ(llada_submit_chat(tiny().engine, roles.data(), contents.data(), roles.size(), nullptr, &none),
              LLADA_ERROR_INVALID);
    return std::string(llada_error(tiny().engine));
  };
  for (const char* nothing : {blank, empty}) {
    EXPECT_EQ(chat({user}, {nothing}), "the prompt is empty; needed a message with text");
    EXPECT_EQ(chat({system, user}, {said, nothing}), "the prompt is empty; needed a message with text");
  }
  EXPECT_EQ(chat({}, {}), "the prompt is empty; needed a message with text");
  EXPECT_EQ(llada_submit_text(tiny().engine, "", LLADA_TEXT, nullptr, &none), LLADA_ERROR_INVALID);
  EXPECT_STREQ(llada_error(tiny().engine), "the prompt is empty; needed text");
  const int32_t token = 0;
  EXPECT_EQ(llada_submit_tokens(tiny().engine, &token, 0, nullptr, &none), LLADA_ERROR_INVALID);
  EXPECT_STREQ(llada_error(tiny().engine), "tokens: found none, needed one or more");
  EXPECT_EQ(none, nullptr);
}

TEST(CApi, ScoresAsTheEngineDoes) {
  const GoldenItem& item = tiny().golden[0];
  const auto prompt_end = item.canvas.begin() + item.prompt_tokens;
  ScoreRequest request{.prompt = {item.canvas.begin(), prompt_end},
                       .continuations = {{item.threshold.tokens.begin(), item.threshold.tokens.begin() + 6}}};
  const auto score = [&](const Pairs& pairs) {
    const OptionsHandle options = options_of(pairs);
    llada_score_result result = LLADA_SCORE_RESULT_INIT;
    const auto& behind = request.continuations[0];
    EXPECT_EQ(llada_score(tiny().model, request.prompt.data(), request.prompt.size(), behind.data(), behind.size(),
                          options, &result),
              LLADA_OK)
        << llada_error(tiny().model);
    return result;
  };
  const auto expect_equal = [&](const Pairs& pairs) {
    const auto expected = must(open_session(load_model(kTinyModel, 1))->score(request));
    const llada_score_result found = score(pairs);
    EXPECT_EQ(found.log_probability, expected->continuations[0].log_probability);
    EXPECT_EQ(found.tokens, 6);
    EXPECT_EQ(found.forwards, expected->forwards);
    const auto& greedy = expected->continuations[0].greedy;
    EXPECT_EQ(found.greedy, greedy ? static_cast<int>(*greedy) : -1);
  };
  expect_equal({});
  EXPECT_LT(score({}).log_probability, 0);
  request.options = {.method = ScoreMethod::monte_carlo, .draws = 5, .seed = 3};
  expect_equal({{"method", "mc"}, {"draws", "5"}, {"seed", "3"}});
  request.options = {.method = ScoreMethod::pseudo, .groups = 2};
  expect_equal({{"method", "pseudo"}, {"groups", "2"}});
  llada_score_result result = LLADA_SCORE_RESULT_INIT;
  const OptionsHandle other = options_of({{"threshold", "0.9"}});
  EXPECT_EQ(llada_score(tiny().model, nullptr, 0, item.canvas.data(), 1, other, &result), LLADA_ERROR_INVALID);
  EXPECT_STREQ(llada_error(tiny().model), "threshold: is no option of a score");
}

// Each continuation has the score that it has alone, bit for bit, and forwards are shared.
TEST(CApi, ManyScoresAreThoseOfEachAlone) {
  const GoldenItem& item = tiny().golden[0];
  const int32_t* begin = item.threshold.tokens.data();
  const int32_t* texts[] = {begin, begin + 1, begin, begin + 3, nullptr};
  const size_t counts[] = {6, 6, 2, 4, 0};
  const auto prompt_count = static_cast<size_t>(item.prompt_tokens);
  for (const Pairs& pairs : {Pairs{}, Pairs{{"method", "mc"}, {"draws", "5"}, {"seed", "3"}},
                             Pairs{{"method", "pseudo"}, {"cfg_scale", "0.5"}}, Pairs{{"method", "duel"}}}) {
    const OptionsHandle options = options_of(pairs);
    llada_score_result many[5] = {LLADA_SCORE_RESULT_INIT};
    ASSERT_EQ(llada_score_many(tiny().model, item.canvas.data(), prompt_count, texts, counts, 5, options, many),
              LLADA_OK)
        << llada_error(tiny().model);
    int64_t forwards = 0;
    for (size_t i = 0; i < 5; ++i) {
      llada_score_result alone = LLADA_SCORE_RESULT_INIT;
      ASSERT_EQ(llada_score(tiny().model, item.canvas.data(), prompt_count, texts[i], counts[i], options, &alone),
                LLADA_OK);
      EXPECT_EQ(many[i].log_probability, alone.log_probability) << i;
      EXPECT_EQ(many[i].tokens, static_cast<int64_t>(counts[i]));
      EXPECT_EQ(many[i].greedy, alone.greedy) << i;
      EXPECT_EQ(many[i].size, sizeof alone);
      EXPECT_EQ(many[i].forwards, many[0].forwards);
      forwards += alone.forwards;
    }
    EXPECT_NE(many[0].log_probability, many[1].log_probability);
    EXPECT_LE(many[0].forwards, forwards);
    if (pairs.empty()) {
      EXPECT_LT(many[0].forwards, forwards) << "the two of 6 tokens begin with the same masks";
    }
  }
}

// The structs of a program that knew less of them lie closer together.
TEST(CApi, ManyScoresInShorterStructs) {
  struct Older {
    size_t size;
    double log_probability;
  };
  const GoldenItem& item = tiny().golden[0];
  const int32_t* texts[] = {item.threshold.tokens.data(), item.threshold.tokens.data() + 1};
  const size_t counts[] = {2, 2};
  Older older[3] = {{sizeof(Older), 0}, {}, {77, 77}};
  llada_score_result whole[2] = {LLADA_SCORE_RESULT_INIT};
  const auto prompt_count = static_cast<size_t>(item.prompt_tokens);
  ASSERT_EQ(llada_score_many(tiny().model, item.canvas.data(), prompt_count, texts, counts, 2, nullptr,
                             reinterpret_cast<llada_score_result*>(older)),
            LLADA_OK);
  ASSERT_EQ(llada_score_many(tiny().model, item.canvas.data(), prompt_count, texts, counts, 2, nullptr, whole),
            LLADA_OK);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(older[i].log_probability, whole[i].log_probability);
  EXPECT_EQ(older[2].size, 77u) << "nothing behind them is written";
}

// What is counted, under every way of decoding that counts something of its own.
TEST(CApi, CountsAsTheEngineDoes) {
  const std::string text = "Sort the numbers from smallest to largest: 38 41 6 51 3";
  const auto model = load_model(kTinyModel, 1);
  const auto prompt = must(model->chat_ids(std::vector<ChatMessage>{{"user", text}}));
  decode::RunStats seen;
  for (const Pairs& pairs : {Pairs{{"accept", "schedule"}, {"steps", "8"}, {"stable_threshold", "1"}},
                             Pairs{{"steps", "0"}, {"block_length", "8"}, {"mbsd", "true"}}}) {
    Pairs given = pairs;
    given.emplace_back("gen_length", "32");
    std::vector<decode::Setting> settings;
    for (const auto& [key, value] : given) settings.push_back(decode::setting(key, value).value());
    const auto options = must(decode::decode_options(settings));
    const auto expected = must(open_session(model)->generate(*prompt, *options, {}));
    given.emplace_back("preset", "exact");
    const RequestHandle request = ask(tiny().engine, text, given);
    const llada_result found = result_of(request);
    const decode::RunStats& stats = expected->stats.decode;
    EXPECT_EQ(found.forwards, stats.nfe);
    EXPECT_EQ(found.full_forwards, stats.full_forwards);
    EXPECT_EQ(found.sparse_forwards, stats.sparse_forwards);
    EXPECT_EQ(found.logit_rows, stats.logit_rows);
    EXPECT_EQ(found.trial_rows, stats.trial_rows);
    EXPECT_EQ(found.drafts_proposed, stats.counters.drafts_proposed);
    EXPECT_EQ(found.drafts_accepted, stats.counters.drafts_accepted);
    EXPECT_EQ(found.revisions_made, stats.counters.revisions_made);
    EXPECT_EQ(found.revisions_changed, stats.counters.revisions_changed);
    EXPECT_EQ(found.committed_tokens, stats.committed);
    EXPECT_EQ(found.kv_bytes, expected->stats.kv_bytes);
    EXPECT_EQ(found.canvas_hash, expected->stats.canvas_hash);
    EXPECT_EQ(found.stopped_early, stats.stopped_early);
    seen.trial_rows += found.trial_rows;
    seen.counters.drafts_accepted += found.drafts_accepted, seen.counters.revisions_made += found.revisions_made;
    seen.stopped_early |= found.stopped_early != 0;
  }
  EXPECT_GT(seen.trial_rows, 0);
  EXPECT_GT(seen.counters.drafts_accepted, 0);
  EXPECT_GT(seen.counters.revisions_made, 0);
  EXPECT_TRUE(seen.stopped_early);
}

TEST(CApi, WhyARequestEnded) {
  const std::string& prompt = tiny().golden[0].prompt;
  const auto reason = [&](const Pairs& pairs) { return result_of(ask(tiny().engine, prompt, pairs)).finish_reason; };
  EXPECT_EQ(reason({}), LLADA_FINISH_STOP);
  EXPECT_EQ(reason({{"gen_length", "2"}}), LLADA_FINISH_LENGTH);
  const RequestHandle cut = ask(tiny().engine, prompt, {{"gen_length", "128"}, {"steps", "128"}});
  ASSERT_EQ(llada_request_cancel(cut), LLADA_OK);
  EXPECT_EQ(result_of(cut).finish_reason, LLADA_FINISH_INTERRUPTED);
  RequestHandle filled;
  ASSERT_EQ(llada_submit_infill(tiny().engine, "2+2=<mask:2>.", LLADA_TEXT, nullptr, filled.out()), LLADA_OK);
  EXPECT_EQ(result_of(filled).finish_reason, LLADA_FINISH_FILLED);
}

TEST(CApi, StructsAreTheSameInC) {
  EXPECT_EQ(size_of_step_in_c(), sizeof(llada_step));
  EXPECT_EQ(size_of_result_in_c(), sizeof(llada_result));
}

}  // namespace
}  // namespace llada
