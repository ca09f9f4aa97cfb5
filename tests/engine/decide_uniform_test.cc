// Decisions of a model whose canvases hold random tokens: by the definition, which is a prompt that is encoded and one
// forward of the canvas behind it; alone, in company and with kept prefixes.
#include <gtest/gtest.h>

#include <numeric>

#include "decode/canvas.h"
#include "decode/strategy.h"
#include "decode/uniform_canvas.h"
#include "engine/decide.h"
#include "engine/decide_prompt.h"
#include "engine/engine.h"
#include "engine/prompt.h"
#include "engine/token_score.h"
#include "formats/temp_folder.h"
#include "geometry/tiny_gemma.h"
#include "label_tokens.h"
#include "must.h"

namespace llada {
namespace {

using Ids = std::vector<int32_t>;

const std::string kScene = "the sheep is in the garden and eats a cherry";
const DecideQuestion kAnimal = {
    .kind = QuestionKind::choice, .instructions = "Which one?", .options = {{"sheep"}, {"horse"}, {"sheepdog"}}};
const DecideQuestion kIs = {.kind = QuestionKind::predicate, .instructions = "Is it a sheep?"};

class UniformDecisions : public testing::Test {
 protected:
  void SetUp() override { open(tiny_gemma()); }
  void open(const Preset& preset) {
    model_ = *must(Model::load(write_tiny_gemma(folder_ / "tiny.gguf", DType::F32, preset), {.threads = 1}));
  }
  DecideResult decide(const DecideRequest& request, SchedulerOptions options = {}) const {
    auto engine = must(Engine::create(model_, options));
    auto job = must(start_decide(model_, request));
    return *must((*engine)->submit_decide(std::move(*job))->wait());
  }
  // Of the token at `position`; negative tokens of the canvas are undecided.
  double log_of(const Ids& prompt, const Ids& tail, int64_t position, int32_t token, uint64_t noise) const {
    Ids all = prompt;
    all.insert(all.end(), tail.begin(), tail.end());
    for (size_t p = 0; p < all.size(); ++p)
      if (all[p] < 0) all[p] = decode::random_token(noise, 0, static_cast<int64_t>(p), TinyGemma::kVocab);
    const auto part = [&](size_t begin, size_t end) {
      decode::StepPlan plan;
      plan.rows.resize(end - begin);
      std::iota(plan.rows.begin(), plan.rows.end(), static_cast<int32_t>(begin));
      plan.inputs.assign(all.begin() + static_cast<std::ptrdiff_t>(begin),
                         all.begin() + static_cast<std::ptrdiff_t>(end));
      plan.keys = static_cast<int32_t>(end);
      return plan;
    };
    decode::StepPlan encode = part(0, prompt.size()), denoise = part(prompt.size(), all.size());
    encode.encode = true;
    denoise.logits = {static_cast<int32_t>(position)};
    auto state = RequestState::create(*model_, model_->device(), std::ssize(all), false, {});
    state->keep_logits = true;
    decode::Denoiser denoiser(decode::fixed_canvas(all), decode::planned_forwards({encode, denoise}));
    ModelRunner runner(*model_, model_->device(), nullptr, {});
    while (!denoiser.done()) {
      RequestStep step{&denoiser, &*state};
      runner.run({&step, 1});
      if (!step.status) throw std::runtime_error(step.status.error().message);
      if (!denoiser.take(std::move(step.result))) throw std::runtime_error("take");
    }
    return LogSoftmax(state->logits)[token];
  }
  // A canvas of a multiple of 16 positions: the label's beginning, undecided tokens up to the longest label's end, an end token,
  // ends behind it.
  double label_log(const std::string& text, const std::vector<std::string>& labels, size_t label,
                   uint64_t noise = 0) const {
    const ChatMessage message{"user", text};
    const Ids prompt = *chat_prompt(*model_, {&message, 1});
    const auto [wanted, width] = label_tokens(model_->tokenizer(), labels, label, TinyGemma::kTurnEnd);
    double sum = 0;
    for (size_t t = 0; t < wanted.size(); ++t) {
      Ids tail(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(t));
      tail.resize(width, -1);
      tail.push_back(TinyGemma::kTurnEnd);
      tail.resize((tail.size() + TinyGemma::kCanvas - 1) / TinyGemma::kCanvas * TinyGemma::kCanvas, TinyGemma::kEnd);
      sum += log_of(prompt, tail, static_cast<int64_t>(prompt.size() + t), wanted[t], noise);
    }
    return sum;
  }

  const TempFolder folder_;
  std::shared_ptr<const Model> model_;
};

TEST_F(UniformDecisions, EqualTheDefinition) {
  for (const int64_t length : {TinyGemma::kCanvas, int64_t{256}}) {  // a decision needs a short canvas alone
    Preset preset = tiny_gemma();
    preset.config.canvas.length = length;
    open(preset);
    for (const auto& [question, how] :
         {std::pair{kIs, DecideLabels::letters}, {kAnimal, DecideLabels::letters}, {kAnimal, DecideLabels::values}}) {
      const DecideResult result = decide({kScene, {question}, {.labels = how}});
      ASSERT_EQ(result.answers.size(), 1u);
      const auto labels = question_labels(question, how);
      for (size_t l = 0; l < labels.size(); ++l)
        EXPECT_EQ(result.answers[0].log_probabilities[0][l],
                  label_log(kScene + "\n\n" + question_text(question, how), labels, l))
            << labels[l];
    }
  }
}

// The definition encodes the prompt in one forward, whose layers with a window read 20 positions.
TEST_F(UniformDecisions, LongPromptsAreEncodedInPieces) {
  std::string state;
  for (int i = 0; i < 30; ++i) state += fmt::format("{}: {}, ", i, kScene);
  ASSERT_GT(model_->tokenizer().encode(state).size(), size_t{2 * kPromptPiece + 100});
  const DecideResult result = decide({state, {kIs}, {}});
  const auto labels = question_labels(kIs, DecideLabels::letters);
  for (size_t l = 0; l < labels.size(); ++l)
    EXPECT_EQ(result.answers[0].log_probabilities[0][l],
              label_log(state + "\n\n" + question_text(kIs, DecideLabels::letters), labels, l));
}

// Over canvases with other random tokens is averaged; the first one's are those of a single read.
TEST_F(UniformDecisions, SamplesHaveFreshNoise) {
  const DecideResult once = decide({kScene, {kAnimal}, {}}), result = decide({kScene, {kAnimal}, {.samples = 3}});
  ASSERT_EQ(result.answers[0].log_probabilities.size(), 3u);
  const auto labels = question_labels(kAnimal, DecideLabels::letters);
  for (uint64_t noise = 0; noise < 3; ++noise)
    for (size_t l = 0; l < labels.size(); ++l)
      EXPECT_EQ(result.answers[0].log_probabilities[noise][l],
                label_log(kScene + "\n\n" + question_text(kAnimal, DecideLabels::letters), labels, l, noise));
  EXPECT_EQ(result.answers[0].log_probabilities[0], once.answers[0].log_probabilities[0]);
  EXPECT_NE(result.answers[0].log_probabilities[1], once.answers[0].log_probabilities[0]);
  EXPECT_EQ(result.prompt_tokens, once.prompt_tokens) << "the prompt is encoded once";
  const DecideResult joint = decide({kScene, {kAnimal, kIs}, {.joint = true, .samples = 2}});
  EXPECT_EQ(joint.canvases, 1);
  for (const DecideAnswer& answer : joint.answers) {
    ASSERT_EQ(answer.log_probabilities.size(), 2u);
    EXPECT_NE(answer.log_probabilities[0], answer.log_probabilities[1]);
  }
}

TEST_F(UniformDecisions, DoNotDependOnTheirCompany) {
  std::string state;
  for (int i = 0; i < 8; ++i) state += kScene;
  DecideRequest many{state, {}, {}};
  for (int i = 0; i < 9; ++i) {
    many.questions.push_back(i % 2 == 0 ? kIs : kAnimal);
    many.questions.back().instructions += std::to_string(i);
  }
  std::vector<DecideResult> alone;
  for (const DecideQuestion& question : many.questions) alone.push_back(decide({state, {question}, {}}));
  const auto prefixes = std::make_shared<PrefixCache>(int64_t{64} << 20);
  for (const SchedulerOptions& options : {SchedulerOptions{.row_budget = 1},
                                          SchedulerOptions{.row_budget = 500},
                                          SchedulerOptions{.prefixes = prefixes},
                                          {.prefixes = prefixes}}) {
    const DecideResult together = decide(many, options);
    for (size_t i = 0; i < many.questions.size(); ++i)
      EXPECT_EQ(together.answers[i].log_probabilities, alone[i].answers[0].log_probabilities);
    EXPECT_GT(together.reused_tokens, 0) << "the state is encoded once";
  }
  EXPECT_GT(prefixes->stats().pages, 0);
}

TEST_F(UniformDecisions, JointQuestionsStandOnAsFewCanvasesAsHoldThem) {
  const DecideRequest two{kScene, {kAnimal, kAnimal}, {.joint = true}};
  const DecideResult result = decide(two);
  EXPECT_EQ(result.canvases, 1);
  DecideRequest many = two;
  many.questions.resize(8, kAnimal);
  const DecideResult more = decide(many);
  EXPECT_GT(more.canvases, 1);
  EXPECT_EQ(more.answers.size(), 8u);
}

}  // namespace
}  // namespace llada
