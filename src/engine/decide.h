// Decisions: typed questions about a text, answered by the probabilities of their labels in one forward each, without
// generating a text. The label's place is a mask, which sees the text on both sides.
//
//   predicate  how probable it is that a statement is true: labels Yes and No
//   choice     one of 2 to 255 options
//   score      one of 2 to 10 ordered levels; the score is the mean of their numbers from 0
// /v1/systemone also takes a single option or level, which is certain without a forward.
//
// The definition. A question's prompt is the state, a blank line, and the question with its options (decide_prompt.h)
// as a user's message in the model's chat template. Behind it the canvas has as many masks as the longest label has
// tokens, and the token that ends an answer. A label of one token has the softmax over the whole vocabulary at the
// first mask, at temperature 1, in double. A label of several tokens has the product of its tokens' probabilities, left
// to right, each with itself and all behind it masked. Where another label goes on behind it, the end token is a
// factor, too. A block-causal model sees nothing behind a slot's block, which end tokens fill. A label's share of the
// sum over all labels, each to the power 1 / temperature, is its option's probability. Over rotations of the options
// these are averaged.
//
// joint: all questions stand in one prompt, and are answered on one canvas with a line "1: [slot]" for each. It takes
// one forward where labels have one token. A block-causal model has as many canvases as it takes for the slots of each
// to lie in a block.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/model.h"
#include "engine/model_runner.h"

namespace llada {

enum class QuestionKind { predicate, choice, score };
inline constexpr size_t kQuestionKinds = 3;

struct DecideOption {
  std::string text;  // of a choice its value, of a score the level's label
  std::string description = {};
  bool boolean = false;  // the value is true or false, and no text
  bool operator==(const DecideOption&) const = default;
};

struct DecideQuestion {
  QuestionKind kind = QuestionKind::predicate;
  std::string instructions;
  std::vector<DecideOption> options = {};  // for a predicate none, or the meanings of true and false, as descriptions
  std::string name = {};
  bool operator==(const DecideQuestion&) const = default;

  size_t answers() const { return kind == QuestionKind::predicate ? 2 : options.size(); }
};

inline constexpr size_t kMostQuestions = 400, kMostOptions = 255, kMostLevels = 10;
inline constexpr int64_t kMostRotations = 255, kMostSamples = 32;
inline constexpr int64_t kMostPromptTokens = int64_t{1} << 22;  // of all questions and rotations of a request
// The limit on all canvases behind their prompts, and on a question's labels with all their beginnings: a label of many
// tokens has a canvas for each of them.
inline constexpr int64_t kMostCanvasTokens = int64_t{1} << 22;

// The label of an option: a letter (a number where there are more than 26), or its own text.
enum class DecideLabels { letters, values };

struct DecideOptions {
  DecideLabels labels = DecideLabels::letters;
  bool joint = false;
  int64_t rotations = 1;  // of a choice, at most; each costs the question's forwards again
  // For a model whose undecided positions hold random tokens: the answers are averaged over so many canvases with other
  // tokens.
  int64_t samples = 1;
  std::array<double, kQuestionKinds> temperatures = {1, 1, 1};  // by kind
  bool operator==(const DecideOptions&) const = default;
};

struct DecideRequest {
  std::string state = {};  // may be empty
  std::vector<DecideQuestion> questions = {};
  DecideOptions options = {};
  std::vector<std::string> warnings = {};  // a line for each option that has no effect
  bool system_one = false;                 // in the form of /v1/systemone, and answered in it
};

struct DecideAnswer {
  std::vector<double> probabilities;  // of the options in their order; of a predicate: true, false
  size_t best = 0;
  double confidence = 0;      // of a choice and a score, 0 (no better than a guess) to 1
  double score = 0;           // of a score: the mean level, counted from 0
  double label_mass = 0;      // probability that all labels have together, mean over rotations
  bool best_is_label = true;  // the most probable token begins a label, in every rotation
  // By rotation: log-probability of each option's label, before temperature.
  std::vector<std::vector<double>> log_probabilities = {};
};

struct DecideResult {
  std::vector<DecideAnswer> answers;
  int64_t prompt_tokens = 0;  // of all prompts
  int64_t reused_tokens = 0;  // of these, whose K/V came from a PrefixCache
  int64_t forwards = 0;       // that it takes alone
  int64_t rows = 0;           // in them
  int64_t canvases = 0;       // of joint questions, on which their first tokens are read; else 0
};

// The sizes of a job (request_memory.h).
struct DecideSize {
  int64_t positions = 0;  // of the longest canvas
  int64_t shared = 0;     // of them that a block-causal model computes once
  int64_t slots = 0;      // of the canvas with the most
  int64_t tokens = 0;     // of all prompts and the canvases behind them
  int64_t labels = 0;     // of all questions and rotations
};

class DecideJob : public ForwardJob {
 public:
  virtual DecideResult finish() = 0;  // once done and not cancelled
  virtual DecideSize size() const = 0;
  bool cancelled() const { return cancelled_; }
  void cancel() final { cancelled_ = true; }

 private:
  bool cancelled_ = false;
};

// Validates the request; the error names the field.
Status check_decide(const DecideRequest& request);
// The same; also refuses parts that the model cannot read.
Result<std::unique_ptr<DecideJob>> start_decide(std::shared_ptr<const Model> model, const DecideRequest& request);

std::string_view name(QuestionKind kind);  // predicate, choice, score

// The names of a question, and of the text before the questions, in errors: the fields in which the request has them.
std::string place_of(const DecideRequest& request, size_t question);
std::string_view state_field(const DecideRequest& request);

}  // namespace llada
