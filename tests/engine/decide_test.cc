// Decisions: the prompts and formulas of `transformers serve`, labels as trees, the definition by the forward in double
// arithmetic and by a plain forward per question, the same bits alone and in company, temperatures.
// labels of this file: native -threads
#include "engine/decide.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>

#include "engine/decide_answer.h"
#include "engine/decide_canvases.h"
#include "engine/decide_prompt.h"
#include "engine/engine.h"
#include "engine/prompt.h"
#include "engine/request.h"
#include "engine/token_score.h"
#include "formats/family.h"
#include "golden.h"
#include "label_tokens.h"
#include "llada2_files.h"
#include "wire/decide_json.h"

namespace llada {
namespace {

using Ids = std::vector<int32_t>;
using enum QuestionKind;
using json = nlohmann::json;

// ---- The text: what `transformers serve` 5.24 renders

const DecideQuestion kTone = {
    .kind = choice, .instructions = "What is the tone?", .options = {{"calm", "A polite message"}, {"angry"}, {"sad"}}};
const DecideQuestion kUrgent = {
    .kind = score, .instructions = "How urgent is it?", .options = {{"Can wait"}, {"This week"}, {"Today"}}};

TEST(DecidePrompt, IsThatOfTransformersServe) {
  EXPECT_EQ(question_text({.kind = predicate, .instructions = "Is this message spam?"}, DecideLabels::letters),
            "Is this message spam?\nAnswer Yes or No only.");
  EXPECT_EQ(question_text({.kind = predicate,
                           .instructions = "Is this message spam?",
                           .options = {{"true", "Unsolicited ads"}, {"false", "A real conversation"}}},
                          DecideLabels::letters),
            "Is this message spam?\nYes: Unsolicited ads\nNo: A real conversation\nAnswer Yes or No only.");
  EXPECT_EQ(question_text(kTone, DecideLabels::letters),
            "What is the tone?\nA. calm: A polite message\nB. angry\nC. sad\n"
            "Answer with the letter of the option that fits best (A to C) only.");
  EXPECT_EQ(question_text(kUrgent, DecideLabels::letters),
            "How urgent is it?\nA. Can wait\nB. This week\nC. Today\n"
            "Answer with the letter of the level that fits best (A to C) only.");
}

TEST(DecidePrompt, ARotationMovesTheOptionsAndTheirLetters) {
  EXPECT_EQ(question_text(kTone, DecideLabels::letters, 1),
            "What is the tone?\nA. angry\nB. sad\nC. calm: A polite message\n"
            "Answer with the letter of the option that fits best (A to C) only.");
  EXPECT_EQ(question_labels(kTone, DecideLabels::letters, 1), (std::vector<std::string>{"C", "A", "B"}));
  EXPECT_EQ(question_labels(kTone, DecideLabels::values, 1), (std::vector<std::string>{"calm", "angry", "sad"}));
  EXPECT_EQ(rotations_of(kTone, 1), (std::vector<size_t>{0}));
  EXPECT_EQ(rotations_of(kTone, 2), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(rotations_of(kTone, 255), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(rotations_of(kUrgent, 255), (std::vector<size_t>{0})) << "levels have an order";
}

TEST(DecidePrompt, MoreThan26OptionsHaveNumbers) {
  DecideQuestion many{.kind = choice, .instructions = "Which?"};
  for (int i = 0; i < 27; ++i) many.options.push_back({fmt::format("o{}", i)});
  EXPECT_TRUE(question_text(many, DecideLabels::letters)
                  .ends_with("27. o26\nAnswer with the number of the option that fits best (1 to 27) only."));
  EXPECT_EQ(question_labels(many, DecideLabels::letters)[26], "27");
}

// ---- Trees and canvases

TEST(LabelTrees, ALabelThatAnotherGoesOnBehindHasItsEndScored) {
  const std::vector<Ids> labels = {{7}, {7, 8}, {9, 8, 6}};
  const auto tree = must(label_tree(labels, 99));
  EXPECT_EQ(tree->width, 3);
  ASSERT_EQ(tree->nodes.size(), 4u) << "the root, behind 7, behind 9, behind 9 8";
  EXPECT_EQ(tree->nodes[0].tokens, (Ids{7, 9}));
  EXPECT_EQ(tree->nodes[1].before, (Ids{7}));
  EXPECT_EQ(tree->nodes[1].tokens, (Ids{8, 99}));
  EXPECT_EQ(tree->labels[0].size(), 2u) << "7 and its end";
  EXPECT_EQ(tree->labels[1].size(), 2u) << "nothing goes on behind it";
  EXPECT_EQ(tree->labels[2].size(), 3u);
  EXPECT_FALSE(label_tree(labels, -1)) << "no end token";
  EXPECT_TRUE(label_tree(std::vector<Ids>{{7}, {8, 7}}, -1));
  EXPECT_EQ(label_tree(std::vector<Ids>{{7}, {8}, {7}}, 9).error().message,
            "labels 1 and 3: found the same tokens, needed different ones");
  EXPECT_FALSE(label_tree(std::vector<Ids>{{7}, {}}, 9));
}

TEST(DecideCanvases, TheTailEndsTheAnswerAndFillsTheBlock) {
  const auto tree = label_tree(std::vector<Ids>{{7}, {8, 6}}, 90);
  decode::SpecialIds ids{.mask = 50, .eos = 91, .eot = 90};
  auto canvases = question_canvases(0, *tree, 10, ids);
  ASSERT_EQ(canvases.size(), 2u);
  EXPECT_EQ(canvases[0].tail, (Ids{50, 50, 90}));
  EXPECT_EQ(canvases[1].tail, (Ids{8, 50, 90}));
  EXPECT_EQ(canvases[1].slots[0].position, 11);
  ids.attention_block = 8;
  canvases = question_canvases(0, *tree, 10, ids);
  EXPECT_EQ(canvases[0].tail, (Ids{50, 50, 90, 91, 91, 91})) << "up to position 16";
  canvases = question_canvases(0, *tree, 15, ids);
  EXPECT_EQ(canvases[0].tail, (Ids{50})) << "nothing behind the block is seen";
  EXPECT_EQ(canvases[1].tail, (Ids{8, 50, 90, 91, 91, 91, 91, 91, 91}));
  for (bool decode::SpecialIds::* kind :
       {&decode::SpecialIds::causal_text, &decode::SpecialIds::decided_first, &decode::SpecialIds::prompt_ends_block}) {
    decode::SpecialIds behind = ids;
    behind.*kind = true;
    canvases = question_canvases(0, *tree, 15, behind);
    EXPECT_EQ(canvases[0].tail, (Ids{50, 50, 90, 91, 91, 91, 91, 91})) << "a block begins behind the prompt";
    EXPECT_EQ(canvases[1].tail, (Ids{8, 50, 90, 91, 91, 91, 91, 91}));
  }
}

TEST(DecideCanvases, JointSlotsOfABlockCausalModelLieInOneBlock) {
  const auto letters = label_tree(std::vector<Ids>{{60}, {61}}, 91);
  const auto words = label_tree(std::vector<Ids>{{60, 61}, {62}}, 91);
  std::vector<JointLine> lines = {{{1, 5}, &*letters}, {{2, 5}, &*letters}, {{3, 5}, &*letters}};
  const Ids between = {4};
  decode::SpecialIds ids{.mask = 50, .eos = 91};
  auto canvases = joint_canvases(lines, between, 6, ids);
  ASSERT_EQ(canvases.size(), 1u);
  EXPECT_EQ(canvases[0].tail, (Ids{1, 5, 50, 4, 2, 5, 50, 4, 3, 5, 50, 91}));
  ids.attention_block = 8;  // the first slot is position 8, the second 12, the third 16
  canvases = joint_canvases(lines, between, 6, ids);
  ASSERT_EQ(canvases.size(), 2u);
  EXPECT_EQ(canvases[0].tail, (Ids{1, 5, 50, 4, 2, 5, 50, 91, 91, 91}));
  EXPECT_EQ(canvases[1].tail, (Ids{3, 5, 50, 91, 91, 91, 91, 91, 91, 91}));
  for (const DecideCanvas& canvas : canvases)
    for (const DecideSlot& slot : canvas.slots) EXPECT_EQ(slot.position / 8, canvas.slots[0].position / 8);
  // A label of two tokens has two slots, and a canvas for its second token.
  lines[1].tree = &*words;
  ids.attention_block = 0;
  canvases = joint_canvases(lines, between, 6, ids);
  ASSERT_EQ(canvases.size(), 2u);
  EXPECT_EQ(canvases[0].tail, (Ids{1, 5, 50, 4, 2, 5, 50, 50, 4, 3, 5, 50, 91}));
  EXPECT_EQ(canvases[1].tail, (Ids{1, 5, 50, 4, 2, 5, 60, 50, 4, 3, 5, 50, 91}));
  EXPECT_EQ(canvases[1].slots[0].position, 13);
}

// ---- Numbers: those of transformers' Question.answer()

std::vector<double> logs(std::vector<double> probabilities) {
  for (double& p : probabilities) p = std::log(p);
  return probabilities;
}

TEST(DecideAnswers, ConfidenceAndScoreAreThoseOfTransformers) {
  const DecideAnswer tone = answer_of(choice, {logs({.35, .1, .05})}, 1);
  EXPECT_NEAR(tone.probabilities[0], .7, 1e-12);
  EXPECT_NEAR(tone.confidence, 0.55, 1e-12);
  EXPECT_NEAR(tone.label_mass, .5, 1e-12);
  const DecideAnswer urgent = answer_of(score, {logs({.7, .2, .1})}, 1);
  EXPECT_NEAR(urgent.score, 0.4, 1e-12);
  EXPECT_NEAR(urgent.confidence, 0.4, 1e-12);
  const DecideAnswer other = answer_of(score, {logs({.1, .5, .4})}, 1);
  EXPECT_NEAR(other.score, 1.3, 1e-12);
  EXPECT_NEAR(other.confidence, 0.25, 1e-12);
}

TEST(DecideAnswers, RotationsAreAveragedAfterTheTemperature) {
  const DecideAnswer a = answer_of(choice, {logs({.9, .1}), logs({.2, .8})}, 1);
  EXPECT_NEAR(a.probabilities[0], .55, 1e-12);
  const DecideAnswer cold = answer_of(choice, {logs({.8, .2})}, 0.5);
  EXPECT_NEAR(cold.probabilities[0], .64 / .68, 1e-12);
  EXPECT_NEAR(answer_of(choice, {logs({1e-300, 1e-301})}, 1).probabilities[0], 1 / 1.1, 1e-9) << "no underflow";
}

// Answers that are right as often as half their logits say: the temperature that is fitted is 2.
TEST(DecideAnswers, ATemperatureIsFound) {
  std::vector<DecidedQuestion> questions;
  for (const double p : {.5, .6, .7, .8, .9}) {
    const double odds = std::log(p / (1 - p));
    for (int i = 0; i < 100; ++i)
      questions.push_back({choice, {{2 * odds, 0}}, i < std::lround(100 * p) ? size_t{0} : size_t{1}});
  }
  const auto t = fit_temperatures(questions);
  EXPECT_NEAR(t[1], 2, 0.01);
  EXPECT_EQ(t[0], 1) << "no question of that kind";
  for (const double other : {0.5, 1.0, 1.8, 2.2, 4.0})
    EXPECT_LT(decide_loss(questions, choice, t[1]), decide_loss(questions, choice, other));
}

// ---- Models: every family with the tokenizer of the shipped mixture

class Decisions : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    if (!folder_.empty()) return;
    folder_ = std::filesystem::temp_directory_path() / fmt::format("llada_decide_{}", ::getpid());
    ModelConfig full = small_config(), shifted = small_dream(), causal = small_llada2();
    shifted.family = &kDreamFamily;
    shifted.shift_logits = true;
    causal.attention_block = 32;
    ModelConfig wedlm = small_config(RopePairing::half_split, 2), bd3lm = wedlm;
    wedlm.family = find_family("wedlm"), wedlm.attention_block = 16, wedlm.decided_first = true;
    bd3lm.family = find_family("a2d-qwen3"), bd3lm.attention_block = 32, bd3lm.prompt_ends_block = true;
    bd3lm.qk_norm = wedlm.qkv_bias = true;
    for (auto& [name, config] :
         {std::pair{"full", &full}, {"shifted", &shifted}, {"causal", &causal}, {"wedlm", &wedlm}, {"bd3lm", &bd3lm}}) {
      config->layers = 2, config->vocab = 1024, config->context = 1024, config->mask_id = 1005;
      config->eos_id = config->pad_id = 1001;
      config->rms_eps = 1e-5f, config->rope_theta = 10000;
      made_[name] = make_small_model(DType::F32, *config);
      write_hf_folder(made_[name], (folder_ / name).string());
    }
  }
  static void TearDownTestSuite() {
    std::filesystem::remove_all(folder_);
    folder_.clear();
  }
  void SetUp() override {
    model_ = *must(Model::load((folder_ / GetParam()).string(), {.isa = isa_from_environment(), .threads = 1}));
  }
  const SmallModel& made() const { return made_[GetParam()]; }
  bool causal() const { return model_->special_ids().attention_block > 0; }
  bool counts_from_prompt() const { return model_->special_ids().behind(1).block_origin > 0; }

  std::unique_ptr<Engine> engine(SchedulerOptions options = {}) const { return *must(Engine::create(model_, options)); }
  DecideResult decide(const DecideRequest& request) const {
    const auto running = engine();
    auto job = must(start_decide(model_, request));
    return *must(running->submit_decide(std::move(*job))->wait());
  }
  // The definition, written down again: log-probability of a label behind a text, token by token, each read off one
  // forward over the whole canvas.
  double label_log(const std::string& text, const std::vector<std::string>& labels, size_t label,
                   const std::function<double(const Ids&, int64_t, int64_t, int32_t)>& log_of) const {
    const ChatMessage message{"user", text};
    const Ids prompt = *chat_prompt(*model_, {&message, 1});
    const auto [wanted, width] = label_tokens(model_->tokenizer(), labels, label, 1004);
    double sum = 0;
    for (size_t t = 0; t < wanted.size(); ++t) {
      Ids canvas = prompt;
      canvas.insert(canvas.end(), wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(t));
      canvas.resize(prompt.size() + width, 1005);
      canvas.push_back(1004);
      const auto behind = std::ssize(prompt), position = behind + static_cast<int64_t>(t);
      if (causal()) canvas.resize(static_cast<size_t>(model_->special_ids().behind(behind).block_end(position)), 1001);
      sum += log_of(canvas, behind, position, wanted[t]);
    }
    return sum;
  }
  double by_reference(const Ids& canvas, int64_t /*prompt*/, int64_t position, int32_t token) const {
    const std::vector<double> logits =
        reference_forward(made(), canvas)[static_cast<size_t>(model_->special_ids().row_of(position))];
    double sum = 0;
    for (const double l : logits) sum += std::exp(l);
    return logits[static_cast<size_t>(token)] - std::log(sum);
  }
  double by_forward(const Ids& canvas, int64_t prompt, int64_t position, int32_t token) const {
    const Ids row = {model_->special_ids().row_of(position)};
    return log_probability(*open_session(model_)->logits(canvas, row, prompt), token);
  }

  static inline std::filesystem::path folder_;
  static inline std::map<std::string, SmallModel> made_;
  std::shared_ptr<const Model> model_;
};
INSTANTIATE_TEST_SUITE_P(Families, Decisions, testing::Values("full", "shifted", "causal", "wedlm", "bd3lm"),
                         [](const auto& info) { return std::string(info.param); });

DecideQuestion many_options(int n) {
  DecideQuestion many{.kind = choice, .instructions = "Which one?"};
  for (int i = 0; i < n; ++i) many.options.push_back({fmt::format("o{}", i)});
  return many;
}

const DecideQuestion kSpam = {.kind = predicate, .instructions = "Is it spam?"};
const std::string kState = "Buy now! The last sheep are 5 coins, the cherry is free.";

// Everything but company and rotations: labels of one token, of several, labels that begin others.
TEST_P(Decisions, EqualTheDefinition) {
  const DecideQuestion begins = {
      .kind = choice, .instructions = "Who?", .options = {{"Jane"}, {"Jane is older"}, {"B"}}};
  const std::pair<DecideQuestion, DecideLabels> cases[] = {
      {kSpam, DecideLabels::letters}, {kTone, DecideLabels::letters}, {kUrgent, DecideLabels::letters},
      {kTone, DecideLabels::values},  {begins, DecideLabels::values}, {many_options(30), DecideLabels::letters}};
  for (const auto& [question, how] : cases) {
    SCOPED_TRACE(question.instructions);
    const DecideResult result = decide({kState, {question}, {.labels = how}});
    ASSERT_EQ(result.answers.size(), 1u);
    const auto labels = question_labels(question, how);
    const std::string text = kState + "\n\n" + question_text(question, how);
    const auto reference = [this](auto... asked) { return by_reference(asked...); };
    const auto forward = [this](auto... asked) { return by_forward(asked...); };
    for (size_t l = 0; l < labels.size(); l += question.options.size() > 20 ? 11 : 1) {
      const double got = result.answers[0].log_probabilities[0][l];
      if (!counts_from_prompt()) {
        EXPECT_NEAR(got, label_log(text, labels, l, reference), 2e-4) << labels[l];
      }
      EXPECT_NEAR(got, label_log(text, labels, l, forward), 1e-10) << labels[l];
    }
  }
}

TEST_P(Decisions, ARotationIsTheQuestionWithItsOptionsMoved) {
  DecideQuestion moved = kTone;
  std::ranges::rotate(moved.options, moved.options.begin() + 1);
  const DecideResult both = decide({kState, {kTone}, {.rotations = 3}}), plain = decide({kState, {moved}});
  ASSERT_EQ(both.answers[0].log_probabilities.size(), 3u);
  EXPECT_EQ(both.forwards, 3);
  for (size_t o = 0; o < 3; ++o)
    EXPECT_EQ(both.answers[0].log_probabilities[1][(o + 1) % 3], plain.answers[0].log_probabilities[0][o]);
}

std::vector<DecideRequest> mixed_requests() {
  std::vector<DecideRequest> requests;
  for (int i = 0; i < 7; ++i) {
    DecideRequest r{fmt::format("{} Number {}.", kState, i), {}, {}};
    for (int q = 0; q <= i; ++q) {
      r.questions.push_back(q % 3 == 0 ? kSpam : q % 3 == 1 ? kTone : kUrgent);
      r.questions.back().instructions += std::string(static_cast<size_t>(q), '?');
    }
    if (i == 4) r.options.rotations = 2;
    if (i == 5) r.options.labels = DecideLabels::values;
    if (i == 6) r.options.joint = true;
    requests.push_back(std::move(r));
  }
  return requests;
}

void expect_same(const DecideResult& a, const DecideResult& b) {
  ASSERT_EQ(a.answers.size(), b.answers.size());
  for (size_t i = 0; i < a.answers.size(); ++i) {
    EXPECT_EQ(a.answers[i].log_probabilities, b.answers[i].log_probabilities) << "bit for bit";
    EXPECT_EQ(a.answers[i].probabilities, b.answers[i].probabilities);
    EXPECT_EQ(a.answers[i].best_is_label, b.answers[i].best_is_label);
  }
  EXPECT_EQ(a.forwards, b.forwards);
  EXPECT_EQ(a.rows, b.rows);
}

TEST_P(Decisions, DoNotDependOnTheirCompany) {
  const std::vector<DecideRequest> requests = mixed_requests();
  std::vector<DecideResult> alone;
  for (const DecideRequest& r : requests) alone.push_back(decide(r));
  for (const int64_t rows : {1, 300, 4000}) {
    const auto running = engine({.row_budget = rows});
    std::vector<std::shared_ptr<DecideSubmission>> handles;
    for (const DecideRequest& r : requests) handles.push_back(running->submit_decide(*start_decide(model_, r)));
    for (size_t i = 0; i < handles.size(); ++i) {
      ASSERT_TRUE(handles[i]->wait()) << handles[i]->wait().error().message;
      expect_same(*handles[i]->wait(), alone[i]);
    }
    const SchedulerStats stats = running->stats();
    const int64_t forwards = std::accumulate(alone.begin(), alone.end(), int64_t{0},
                                             [](int64_t sum, const DecideResult& r) { return sum + r.forwards; });
    if (rows == 4000) {
      EXPECT_LT(stats.forwards, forwards / 3) << "forwards are shared";
    }
  }
}

// One request with many questions against each question alone.
TEST_P(Decisions, ManyQuestionsAreThoseOfEachAlone) {
  DecideRequest many{kState, {}, {}};
  for (int i = 0; i < 400; ++i) many.questions.push_back(i % 2 == 0 ? kSpam : kTone);
  for (size_t i = 0; i < 400; ++i) many.questions[i].instructions += std::to_string(i);
  const DecideResult together = decide(many);
  for (const size_t i : {size_t{0}, size_t{1}, size_t{77}, size_t{399}}) {
    const DecideResult alone = decide({kState, {many.questions[i]}, {}});
    EXPECT_EQ(together.answers[i].log_probabilities, alone.answers[0].log_probabilities);
  }
}

// The state's whole blocks are computed once for all questions of a block-causal model, and not at all where they are
// kept; with full attention for every question.
TEST_P(Decisions, AStateIsComputedOnceWhereThatIsExact) {
  std::string state;
  for (int i = 0; i < 30; ++i) state += kState;
  DecideRequest request{state, {kSpam, kTone, kUrgent}, {}};
  const DecideResult result = decide(request);
  const auto prefixes = std::make_shared<PrefixCache>(int64_t{64} << 20);
  const auto keeping = engine({.prefixes = prefixes});
  const Result<DecideResult> first = keeping->submit_decide(*start_decide(model_, request))->wait();
  request.questions.resize(2);
  const Result<DecideResult> second = keeping->submit_decide(*start_decide(model_, request))->wait();
  ASSERT_TRUE(first && second);
  expect_same(*first, result);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(second->answers[i].log_probabilities, result.answers[i].log_probabilities);
  if (model_->special_ids().prefix_unit() == 0) {
    EXPECT_EQ(result.reused_tokens, 0);
    EXPECT_GT(result.rows, result.prompt_tokens);
    return;
  }
  const int64_t blocks = result.reused_tokens / 2;
  EXPECT_EQ(blocks % 32, 0);
  EXPECT_GT(blocks, result.prompt_tokens / 3 - 2 * 64) << "all of the state but for a block's rest";
  EXPECT_EQ(second->reused_tokens, 2 * blocks);
  // Several canvases of a prompt, as with labels of several tokens, count what was there of it once.
  request.questions = {kSpam};
  request.options.labels = DecideLabels::values;
  const Result<DecideResult> values = keeping->submit_decide(*start_decide(model_, request))->wait();
  ASSERT_TRUE(values);
  EXPECT_GT(values->forwards, 1);
  EXPECT_EQ(values->reused_tokens, blocks);
  EXPECT_GT(prefixes->stats().pages, 0);
}

// Of a model whose blocks are counted from the end of the prompt within one request, and where that is alike.
TEST_P(Decisions, WhatOneRequestComputedOfItsPromptIsNotComputedAgain) {
  if (!model_->special_ids().prompt_ends_block) return;
  std::string state;
  for (int i = 0; i < 30; ++i) state += kState;
  const auto prefixes = std::make_shared<PrefixCache>(int64_t{64} << 20);
  const auto keeping = engine({.prefixes = prefixes});
  const auto ask = [&](const DecideRequest& request) {
    return *keeping->submit_decide(*start_decide(model_, request))->wait();
  };
  const DecideResult values = ask({state, {kSpam}, {.labels = DecideLabels::values}});
  EXPECT_GT(values.forwards, 1);
  EXPECT_LT(values.rows, values.prompt_tokens + values.forwards * 2 * 64) << "the prompt once";
  const DecideResult two = ask({state, {kSpam, kSpam}, {}}), again = ask({state, {kSpam, kSpam}, {}});
  EXPECT_GT(two.reused_tokens, two.prompt_tokens / 2 - 64);
  expect_same(two, again);
  EXPECT_EQ(again.reused_tokens, two.reused_tokens) << "nothing is kept for other requests";
  EXPECT_EQ(prefixes->stats().pages, 0);
  EXPECT_EQ(two.answers[0].log_probabilities, ask({state, {kSpam}, {}}).answers[0].log_probabilities);
  const DecideResult longer = ask({state, {kSpam, kTone}, {}});
  EXPECT_EQ(longer.reused_tokens, 0) << "blocks that begin elsewhere";
  EXPECT_EQ(longer.answers[0].log_probabilities, two.answers[0].log_probabilities);
}

TEST_P(Decisions, JointIsOneCanvasAndItsDefinition) {
  const DecideRequest request{kState, {kTone, kUrgent, kTone}, {.joint = true}};
  const DecideResult result = decide(request);
  EXPECT_EQ(result.canvases, result.forwards);
  const DecideResult words = decide({kState, {kSpam, kTone}, {.joint = true}});
  EXPECT_GT(words.forwards, words.canvases) << "Yes has several tokens here";
  if (causal()) return;  // the prompt's length decides how many
  EXPECT_EQ(result.forwards, 1);
  const std::string tone = question_text(kTone, DecideLabels::letters);
  const ChatMessage message{"user", kState + "\n\n1. " + tone + "\n\n2. " +
                                        question_text(kUrgent, DecideLabels::letters) + "\n\n3. " + tone +
                                        "\n\nAnswer every question on a line of its own, its number first."};
  Ids canvas = *chat_prompt(*model_, {&message, 1});
  std::vector<int64_t> slots;
  for (const char* line : {"1:", "2:", "3:"}) {
    for (const int32_t token : model_->tokenizer().encode(slots.empty() ? line : "\n" + std::string(line)))
      canvas.push_back(token);
    slots.push_back(std::ssize(canvas));
    canvas.push_back(1005);
  }
  canvas.push_back(1004);
  const Ids c = model_->tokenizer().encode(" C");
  ASSERT_EQ(c.size(), 1u);
  EXPECT_NEAR(result.answers[2].log_probabilities[0][2], by_reference(canvas, 0, slots[2], c[0]), 2e-4);
}

// What is said of a long prompt before it is computed.
TEST_P(Decisions, FullAttentionAloneComputesAPromptAgain) {
  decode::DecodeOptions o;
  o.gen_length = 8;
  const std::string said = prompt_cost(*model_, 600, o);
  EXPECT_EQ(said.empty(), causal()) << said;
}

TEST_P(Decisions, WhatCannotBeReadIsRefused) {
  const auto refusal = [&](const DecideRequest& r) { return why_not(start_decide(model_, r)); };
  EXPECT_EQ(refusal({kState, {}, {}}), "questions: found 0, needed 1 to 400");
  EXPECT_EQ(refusal({kState, {many_options(1)}, {}}), "questions[0].choices: found 1, needed 2 to 255");
  EXPECT_EQ(refusal({kState, {kSpam, many_options(256)}, {}}), "questions[1].choices: found 256, needed 2 to 255");
  EXPECT_EQ(refusal({kState, {kTone}, {.joint = true, .rotations = 2}}), "rotations: found 2, needed 1 with joint");
  EXPECT_THAT(refusal({kState, std::vector<DecideQuestion>(400, many_options(255)), {.rotations = 255}}),
              testing::HasSubstr("input: with questions[0] it needs"))
      << "at once";
  EXPECT_THAT(
      refusal({std::string(1100, '7'), {kSpam}, {}}),
      testing::MatchesRegex("input: with questions.0. it needs [0-9]+ positions; the model was trained for 1024"));
}

TEST_P(Decisions, ACancelledOneEndsWithAnError) {
  const auto running = engine({.row_budget = 1});
  DecideRequest many{kState, std::vector<DecideQuestion>(400, kSpam), {}};
  const auto handle = running->submit_decide(*start_decide(model_, many));
  handle->cancel();
  ASSERT_FALSE(handle->wait());
  EXPECT_EQ(handle->wait().error().message, "decide: cancelled");
}

// ---- JSON

Result<DecideRequest> parsed(const json& body) { return parse_decide(Fields(JsonDocument{.root = Json(body)}, "")); }

std::string error_of(const std::string& body) { return why_not(parsed(json::parse(body))); }

TEST(DecideJson, ReadsBothRoutes) {
  const auto ours = parsed(json::parse(R"({"input": [
    {"role": "user", "content": [{"type": "input_text", "text": "Hi"}, {"type": "input_json", "data": {"b": 1, "a": null}}]},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "rain"},
    {"role": "assistant", "content": [{"type": "output_text", "text": "It rains."}]}],
    "questions": [{"type": "predicate", "instructions": "Is it spam?"},
      {"type": "choice", "name": "tone", "instructions": "What is the tone?",
       "choices": [{"value": true, "description": "yes"}, {"value": "true"}]},
      {"type": "score", "instructions": "How urgent is it?", "levels": [{"label": "low"}, {"label": "high"}]}],
    "llada": {"rotations": 2, "labels": "values"}})"));
  ASSERT_TRUE(ours) << ours.error().message;
  EXPECT_EQ(ours->state, "user: Hi\n{\"a\":null,\"b\":1}\n\ncall of look: {}\n\nresult: rain\n\nassistant: It rains.");
  EXPECT_EQ(ours->questions[0], kSpam);
  EXPECT_EQ(ours->questions[1].options, (std::vector<DecideOption>{{"true", "yes", true}, {"true", "", false}}));
  EXPECT_EQ(ours->options.rotations, 2);
  EXPECT_EQ(ours->options.labels, DecideLabels::values);
  const auto other = must(parsed(json::parse(R"({"state": {"message": "WIN!"}, "questions": {
    "spam": {"type": "noul", "instructions": "Is it spam?"},
    "tone": {"type": "choice", "instructions": "Tone?", "criteria": {"calm": "polite", "angry": null}},
    "urgent": {"type": "score", "criteria": ["Can wait", "Today"]}}, "joint": true})")));
  EXPECT_EQ(other->state, R"({"message":"WIN!"})");
  EXPECT_EQ(other->questions[1].options, (std::vector<DecideOption>{{"angry"}, {"calm", "polite"}}));
  EXPECT_EQ(other->questions[2].kind, score);
  EXPECT_TRUE(other->options.joint);
}

// The order decides what the model reads, so it is the caller's.
TEST(DecideJson, KeepsTheOrderOfFields) {
  const auto request = must(read_decide(R"({"questions": {"b": {"type": "choice", "criteria": {"z": null, "a": null}},
    "a": {"type": "noul", "instructions": "?"}}, "state": {"z": {"y": 1, "x": 2}, "a": null}})",
                                        "body"));
  EXPECT_EQ(request->state, R"({"z":{"y":1,"x":2},"a":null})");
  EXPECT_EQ(request->questions[0].name, "b");
  EXPECT_EQ(request->questions[0].options, (std::vector<DecideOption>{{"z"}, {"a"}}));
}

TEST(DecideJson, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(error_of("{}"), "input: is missing; needed a string or a list of messages");
  EXPECT_EQ(error_of(R"({"input": "a", "questions": 3})"), "questions: found 3, needed a list");
  EXPECT_EQ(error_of(R"({"input": "a", "questions": []})"), "questions: found 0, needed 1 to 400");
  EXPECT_EQ(error_of(R"({"input": "a", "questions": [{"type": "guess", "instructions": "b"}]})"),
            "questions[0].type: found \"guess\", needed predicate, choice or score");
  EXPECT_EQ(error_of(R"({"input": "a", "questions": [{"type": "choice", "instructions": "b",
                        "choices": [{"value": "c"}, {"value": "c"}]}]})"),
            "questions[0].choices[1]: found 'c' again, needed each once");
  EXPECT_EQ(error_of(R"({"input": "a", "questions": [{"type": "choice", "instructions": "b",
                        "choices": [{"value": 1}, {"value": "c"}]}]})"),
            "questions[0].choices[0].value: found 1, needed a string, true or false");
  EXPECT_EQ(error_of(R"({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]})"),
            "input[0].content[0].type: found \"input_image\", needed input_text, input_json, output_text or refusal");
  EXPECT_EQ(error_of(R"({"input": [{"type": "function_call_output", "call_id": "q", "output": "x"}]})"),
            "input[0].call_id: found \"q\", needed that of a call before it");
  EXPECT_EQ(error_of(R"({"input": "a", "questions": [{"type": "predicate", "instructions": "b"}], "llada": {"k": 1}})"),
            "llada.k: is not known here");
  EXPECT_EQ(error_of(R"({"state": 1, "questions": {"a": {"type": "noul"}}})"),
            "questions.a: found neither instructions nor criteria, needed one");
}

// Every value of a body in turn by others: it is read, or refused in one line.
TEST(DecideJson, AnyValueIsReadOrRefused) {
  const json others =
      json::parse(R"([null, true, -1, 1e300, 18446744073709551615, "", " ", "x", [], [[]], {}, {"a": 1}])");
  const char* const bodies[] = {
      R"({"input": [{"role": "user", "content": [{"type": "input_json", "data": {"a": 1}}, {"type": "refusal", "refusal": "r"}]},
          {"type": "custom_tool_call", "call_id": "c", "name": "n", "input": "i"},
          {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "t"}]}],
          "questions": [{"type": "choice", "name": "q", "instructions": "a", "choices": [{"value": "b", "description": "d"},
          {"value": true}]}, {"type": "score", "instructions": "a", "levels": [{"label": "l"}, {"label": "m"}]}],
          "llada": {"labels": "values", "rotations": 2, "joint": false}})",
      R"({"state": [1], "instructions": "i", "joint": true, "questions": {"q": {"type": "noul", "instructions": "a",
          "criteria": {"true": "t", "false": null}}, "r": {"type": "choice", "criteria": {"a": null, "b": "c"}},
          "s": {"type": "score", "criteria": ["l", 3]}}})"};
  int64_t read = 0, refused = 0;
  for (const char* const text : bodies) {
    const json body = json::parse(text);
    ASSERT_TRUE(parsed(body)) << parsed(body).error().message;
    const json flat = body.flatten();
    for (const auto& [path, value] : flat.items())
      for (json::json_pointer at(path); !at.empty(); at.pop_back())
        for (const json& other : others) {
          json changed = body;
          changed[at] = other;
          const auto request = parsed(changed);
          (request ? read : refused) += 1;
          if (!request) {
            EXPECT_EQ(request.error().message.find('\n'), std::string::npos) << request.error().message;
          }
        }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 500);
}

TEST(DecideJson, WritesWhatTheClientsRead) {
  const DecideQuestion pair = {
      .kind = choice, .instructions = "?", .options = {{"true", "", true}, {"true"}}, .name = "n"};
  DecideRequest request{"", {kSpam, pair, kUrgent}, {}};
  DecideResult result{.answers = {}, .prompt_tokens = 12, .reused_tokens = 4, .forwards = 3, .rows = 20};
  result.answers = {answer_of(predicate, {logs({.25, .25})}, 1), answer_of(choice, {logs({.1, .3})}, 1),
                    answer_of(score, {logs({.7, .2, .1})}, 1)};
  const auto out = decide_json(request, result, "m");
  EXPECT_EQ(out["answers"][0]["probability"], 0.5);
  EXPECT_TRUE(out["answers"][0]["name"].is_null());
  EXPECT_EQ(out["answers"][1]["choice"], "true");
  EXPECT_EQ(out["answers"][1]["probabilities"][0]["value"], true);
  EXPECT_EQ(out["answers"][2]["probabilities"][2]["value"], 2);
  EXPECT_EQ(out["usage"]["input_tokens_details"]["cached_tokens"], 4);
  request.questions[0].name = "spam", request.questions[2].name = "urgent";
  request.system_one = true;
  const auto other = decide_json(request, result, "m");
  EXPECT_EQ(other["answers"]["spam"]["noul"], 0.5);
  EXPECT_EQ(other["answers"]["urgent"]["legend"]["1"], "This week");
}

TEST(DecideJson, TemperaturesComeBack) {
  const std::array<double, 3> t = {0.5, 1.25, 3};
  const auto read = must(parse_temperatures(temperatures_text(t, "m.gguf", {10, 20, 0}), "file"));
  EXPECT_EQ(*read, t);
  EXPECT_EQ(parse_temperatures(R"({"format":"x","version":1})", "file").error().message,
            "file: format: found \"x\", needed llada-decide-temperatures");
}

}  // namespace
}  // namespace llada
