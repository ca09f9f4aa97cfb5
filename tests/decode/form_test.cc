// Runs that are held to a form: whatever the options and the logits, every canvas can be completed and every answer fits.
#include "forms/form.h"

#include <gmock/gmock.h>

#include "decode/answer.h"
#include "decode/form_keeper.h"
#include "decode/options.h"
#include "decode/random_options.h"
#include "decode/script.h"

namespace llada::decode {
namespace {

using testing::HasSubstr;

// Tokens 0 to 6 and those from 10 on are text; 7, 8 and 9 are the special ones of test_ids().
const std::vector<std::string_view> kPieces = {"{",  "}",   "\"", "a",   "b",    ": ",  ", ",   "",      "",   "",  "1",
                                               "2",  "0",   "-",  "\"a", "\": ", "{\"", "true", "false", "ab", "[", "]",
                                               "12", "\"}", "n",  "ull", "t",    "rue", " ",    ":",     ","};

struct FormCase {
  forms::Automaton automaton;
  std::shared_ptr<const forms::TokenForm> form;

  FormCase(forms::FormKind kind, const std::string& text) {
    automaton = *forms::automaton_of({kind, text});
    form = std::make_shared<const forms::TokenForm>(
        *forms::TokenForm::create(automaton, forms::Vocabulary(kPieces), {{kEos, kEot}, kEos}));
  }
};

std::string text_of(std::span<const int32_t> tokens) {
  std::string text;
  for (const int32_t t : tokens) text += kPieces[static_cast<size_t>(t)];
  return text;
}

// Predictions as a script has them, and logits that depend on the canvas.
class LogitRunner : public StepRunner {
 public:
  LogitRunner(uint64_t seed, const FormCase& c, const DecodeOptions& options, const Canvas& canvas,
              const SpecialIds& ids)
      : seed_(seed),
        case_(c),
        options_(options),
        rule_(head_rule(options, ids, canvas.infill)),
        script_(random_script(seed)) {}

  Result<StepResult> run(const StepPlan& plan, int64_t forward) override {
    LLADA_TRY(StepResult result, script_.run(plan, forward));
    const auto read = [&](const std::vector<Prediction>& rows, int64_t number, uint64_t salt) {
      std::vector<RowScores> scores;
      std::vector<float> logits(kPieces.size());
      for (const Prediction& row : rows) {
        for (float& logit : logits)
          logit = static_cast<float>(mix64(seed_ + mix64(digest(plan) + salt++)) % 1000) / 100;
        SamplingRule rule = rule_;
        rule.forward_number = number;
        RowReader reader(class_reading(*case_.form, options_), rule.key(row.position));
        reader.read_all(logits);
        scores.push_back(reader.take());
      }
      return scores;
    };
    for (auto* list : {&result.predictions, &result.trials, &result.sparse})
      for (Prediction& p : *list) p.position = std::max(p.position, 0);
    result.scores = read(result.predictions, forward, 0);
    result.trial_scores = read(result.trials, forward, 100'000);
    result.sparse_scores = read(result.sparse, result.landed.value_or(0), 200'000);
    return result;
  }
  size_t logit_rows() const {
    size_t rows = 0;
    for (const StepPlan& plan : script_.plans) rows += plan.logits.size();
    return rows;
  }

 private:
  const uint64_t seed_;
  const FormCase& case_;
  const DecodeOptions& options_;
  const SamplingRule rule_;
  ScriptRunner script_;
};

// A run's answer, or of infilling every gap, as texts.
std::vector<std::string> texts_of(const Canvas& canvas, const std::vector<TokenState>& laid, const SpecialIds& ids) {
  const int64_t begin = generated_begin(canvas);
  if (!canvas.infill) {
    const int64_t length = answer_length(canvas, begin, ids.end_ids);
    return {text_of(std::span(canvas.tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(length)))};
  }
  std::vector<std::string> texts;
  for (size_t p = 0; p < canvas.tokens.size(); ++p) {
    size_t end = p;
    while (end < canvas.tokens.size() && laid[end] != TokenState::fixed) ++end;
    if (end > p) texts.push_back(text_of(std::span(canvas.tokens).subspan(p, end - p)));
    p = end;
  }
  return texts;
}

// What a run left behind, all masks of the answer decided by one forward of any logits.
void complete(Canvas& canvas, FormKeeper& keeper, const FormCase& c, const DecodeOptions& options,
              const SpecialIds& ids, Rng& rng) {
  std::vector<int32_t> open;
  StepResult result;
  for (int32_t p = 0; p < canvas.answer_end(); ++p) {
    if (!canvas.is_undecided(p)) continue;
    open.push_back(p);
    const int32_t row = ids.row_of(p);
    if (!result.predictions.empty() && result.predictions.back().position == row) continue;
    result.predictions.push_back({.position = row});
    std::vector<float> logits(kPieces.size());
    for (float& logit : logits) logit = static_cast<float>(rng() % 1000) / 100;
    RowReader reader(class_reading(*c.form, options), rng());
    reader.read_all(logits);
    result.scores.push_back(reader.take());
  }
  for (const Prediction& p : keeper.predict(canvas, open, result, 0)) {
    canvas.tokens[static_cast<size_t>(p.position)] = p.token;
    canvas.states[static_cast<size_t>(p.position)] = TokenState::stable;
  }
}

// Under any options (orders of commits, revision, editing, drafts, guidance), after every step the canvas can be
// completed: a run that is cancelled at any of them is, by other logits, and its answer fits as well.
TEST(Form, EveryRunEndsWithATextThatFits) {
  const FormCase cases[] = {
      {forms::FormKind::json_schema, R"({"properties": {"a": {"type": "integer"}, "b": {"type": ["boolean", "null"]},
        "ab": {"type": "string", "maxLength": 6}}, "required": ["a"]})"},
      {forms::FormKind::regex, "(a|b)*(12|0)?"},
      {forms::FormKind::choice, "true|false|null|ab12ab12"},
      {forms::FormKind::json_schema, R"({"type": "array", "items": {"enum": [1, 2, true]}, "minItems": 2})"}};
  Rng rng(5);
  int runs = 0, revised = 0, drafted = 0, sampled = 0, infilled = 0, block_causal = 0, causal_text = 0, shifted = 0;
  int cancelled = 0, edited = 0, guided = 0, any_order = 0;
  for (int round = 0; round < 6000; ++round) {
    DecodeOptions options = random_options(rng);
    options.auto_length = options.auto_length && rng() % 2;
    const FormCase& c = cases[rng() % std::size(cases)];
    SpecialIds ids = test_ids();
    ids.shift_logits = rng() % 4 == 0;
    ids.attention_block = rng() % 4 == 0 ? 8 : 0;
    ids.causal_text = ids.attention_block > 0 && round % 2 > 0;
    if (ids.attention_block > 0) options.block_length = 8;
    const bool infill = rng() % 5 == 0;
    const int32_t least = c.form->least(c.form->start());
    options.gen_length = std::max<int64_t>(1, least + between(rng, 0, 20));
    options.choice = "a";  // that there is one
    if (!validate(options, infill, ids.kind())) continue;
    Canvas canvas;
    if (infill) {
      std::vector<int32_t> gaps, text(static_cast<size_t>(options.gen_length) + 12, 3);
      for (int32_t p = 0; p < least; ++p) gaps.push_back(1 + p);
      for (int32_t p = 0; p < options.gen_length; ++p) gaps.push_back(least + 4 + p);
      text.resize(text.size() + static_cast<size_t>(least), 3);
      canvas = *lay_infill(text, gaps, ids);
    } else {
      canvas = lay_generation(std::vector<int32_t>(1 + rng() % 9, 4), options.gen_length, ids);
    }
    if (const Status begun = begin_form(c.form, options, ids, canvas); !begun) {
      ASSERT_TRUE(infill) << begun.error().message;
      continue;
    }
    auto strategy = make_strategy(options, ids, canvas, c.form);
    if (!strategy) continue;
    LogitRunner runner(rng(), c, options, canvas, ids);
    const auto laid = canvas.states;
    FormKeeper keeper(c.form, options, ids, canvas);
    const auto last = rng() % 3 == 0 ? static_cast<int64_t>(rng() % 12) : options.gen_length;
    const auto look = [&](const StepEvent& event) {
      EXPECT_TRUE(keeper.check(event.canvas)) << as_flags(options);
      return !testing::Test::HasFailure() && event.step < last;
    };
    const auto stats = denoise(canvas, **strategy, runner, look);
    ASSERT_TRUE(stats) << stats.error().message << " " << as_flags(options);
    ASSERT_FALSE(testing::Test::HasFailure());
    ++runs;
    revised += stats->counters.revisions_changed > 0, drafted += stats->counters.drafts_accepted > 0;
    sampled += samples(options), infilled += infill, block_causal += ids.attention_block > 0,
        causal_text += ids.causal_text, shifted += ids.shift_logits;
    edited += options.revision == Revision::edit, guided += options.cfg_scale > 0,
        any_order += options.acceptance == Acceptance::random;
    if (stats->cancelled) {
      ++cancelled;
      complete(canvas, keeper, c, options, ids, rng);
    }
    for (const std::string& text : texts_of(canvas, laid, ids))
      ASSERT_TRUE(c.automaton.fits(text)) << text << " " << as_flags(options);
    for (int64_t p = 0; !infill && p < answer_length(canvas, generated_begin(canvas), ids.end_ids); ++p)
      ASSERT_NE(canvas.tokens[static_cast<size_t>(generated_begin(canvas) + p)], kMask) << as_flags(options);
  }
  EXPECT_GT(runs, 700);
  for (const int kind :
       {revised, drafted, sampled, infilled, block_causal, causal_text, shifted, cancelled, edited, guided, any_order})
    EXPECT_GT(kind, 10);
}

TEST(Form, WhatIsFixedIsNoQuestion) {
  const FormCase c(forms::FormKind::regex, "\\{ab12");
  const DecodeOptions options = {LengthOptions{.gen_length = 32}, FormOptions{.regex = "x"}};
  Canvas canvas = lay_generation(kPrompt, 32, test_ids());
  ASSERT_TRUE(begin_form(c.form, options, test_ids(), canvas));
  EXPECT_EQ(canvas.tokens[2], 0);  // the only way to begin
  EXPECT_EQ(canvas.states[2], TokenState::stable);
  EXPECT_TRUE(canvas.is_undecided(3));  // "a" or "ab"
  auto strategy = make_strategy(options, test_ids(), canvas, c.form);
  ASSERT_TRUE(strategy);
  LogitRunner runner(3, c, options, canvas, test_ids());
  std::vector<int32_t> told(static_cast<size_t>(canvas.size()), -1);
  std::vector<bool> by_form(told.size());
  const auto stats = denoise(canvas, **strategy, runner, [&](const StepEvent& event) {
    for (const Edit& edit : event.edits) {
      told[static_cast<size_t>(edit.position)] = edit.token;
      by_form[static_cast<size_t>(edit.position)] = edit.by_form;
    }
    return true;
  });
  ASSERT_TRUE(stats);
  EXPECT_EQ(told[2], 0) << "whoever follows the edits has the whole answer";
  EXPECT_TRUE(by_form[2]);
  EXPECT_FALSE(by_form[3]) << "a or ab";
  EXPECT_TRUE(by_form.back()) << "nothing but the end";
  EXPECT_LE(stats->steps, 4);  // the end needs none
  EXPECT_EQ(text_of(std::span(canvas.tokens).subspan(2, static_cast<size_t>(answer_length(canvas, 2, {{kEos, kEot}})))),
            "{ab12");
}

TEST(Form, ImpossibleRequestsSayWhatWouldDo) {
  const FormCase c(forms::FormKind::choice, "ababab|12121212");
  const DecodeOptions options = {LengthOptions{.gen_length = 2}, FormOptions{.choice = "x"}};
  Canvas canvas = lay_generation(kPrompt, 2, test_ids());
  EXPECT_EQ(begin_form(c.form, options, test_ids(), canvas).error().message,
            "gen_length: found 2, needed 3 at least for choice");
  const std::vector<int32_t> text(8, 3), gaps = {2, 3};
  Canvas infill = *lay_infill(text, gaps, test_ids());
  EXPECT_EQ(begin_form(c.form, options, test_ids(), infill).error().message,
            "choice: found a gap of 2 tokens at position 2; needed 3 at least");
}

TEST(Form, OptionsThatCannotGoWithOne) {
  DecodeOptions options = {FormOptions{.choice = "a|b"}};
  EXPECT_TRUE(validate(options));
  options.temperature = 1, options.top_k = 4;
  EXPECT_EQ(validate(options).error().message,
            "top_k: found 4 with a form of the answer, which decides which tokens may be sampled; needed it left out");
  options = {FormOptions{.choice = "a|b", .regex = "x"}};
  EXPECT_EQ(validate(options).error().message,
            "choice: found a text with regex, another form of the answer; needed one alone");
  options.choice = std::string(1000, 'a') + "\nb";
  EXPECT_EQ(validate(options).error().message,
            "choice: found a text with regex, another form of the answer; needed one alone");
  ModelKind other;
  other.attention_block = 32;
  options = {FormOptions{.choice = "a|b"}};
  options.kv = KvChoice::none;
  options.acceptance = Acceptance::causal;
  EXPECT_THAT(validate(options, false, other).error().message,
              HasSubstr("which keeps a causal forward's tokens as they are; needed"));
  other.moves_text = true;
  options.acceptance = Acceptance::threshold;
  options.revision = Revision::levenshtein;
  EXPECT_THAT(validate(options, false, other).error().message,
              HasSubstr("which takes the best tokens, as the model ranks them; needed"));
  options = {FormOptions{.choice = "a|b", .regex = "x"}};
  ModelKind kind;
  kind.uniform.length = 32;
  EXPECT_TRUE(validate({FormOptions{.choice = "a\nb"}}, false, kind)) << "canvases of random tokens take one, too";
  EXPECT_THAT(set_field(options, "regex", "a(").error().message,
              HasSubstr("regex: found the end inside a group at byte 2"));
  EXPECT_EQ(set_field(options, "json_schema", R"({"type": "x"})").error().message,
            R"(json_schema: $.type: found "x", needed string, number, integer, boolean, null, array, object)");
}

}  // namespace
}  // namespace llada::decode
