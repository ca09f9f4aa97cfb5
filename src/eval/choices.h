// Multiple choice by likelihood: each option of a question is scored as a continuation of its context, and the most
// probable one is the model's answer.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "eval/questions.h"

namespace llada::eval {

struct ChoiceOptions {
  ScoreOptions score = {};
  // Scores as the published evaluation of the model's family: for Dream with a beginning token, an end token behind
  // each option, and mask rates (ScoreOptions::mask_rates). LLaDA's is ScoreOptions' default.
  bool published = true;
  bool chat = false;                        // the context is a user's message in the model's template
  int64_t shots = 0;                        // answered examples before each context
  std::string_view option_name = "option";  // as errors name one
};

struct ChoiceAnswer {
  size_t best = 0, best_normalised = 0;  // the option with the highest score; with the highest score per code point
  std::vector<double> log_probability;   // of the options
  double share = 0;                      // the right ones' share of all options' probability
};

struct ChoiceTotal {
  int64_t questions = 0, right = 0, right_normalised = 0;
  double share = 0;    // summed over the questions; their mean is TruthfulQA's MC2
  int64_t tokens = 0;  // of all options
  int64_t forwards = 0, rows = 0;

  double mean_share() const { return questions != 0 ? share / static_cast<double>(questions) : 0; }
  void operator+=(const ChoiceTotal& other);
};

struct ChoiceReport {
  std::map<std::string, ChoiceTotal> tasks;
  std::vector<ChoiceAnswer> answers;  // in the order of the questions
  double seconds = 0;                 // wall clock
  bool interrupted = false;           // then it has only the first questions

  ChoiceTotal total() const;
};

// The requests that score a question: one, or one per option where each has its own context. Invalid: the question is
// too long for the model, there are too few examples, or an option has no tokens of its own.
Result<std::vector<ScoreRequest>> score_requests(const Model& model, const Question& question,
                                                 std::span<const Question> examples, const ChoiceOptions& options);

// Answers all questions. proceed is called at least ten times a second with the number of questions that are done;
// false ends the work with the answers so far.
Result<ChoiceReport> answer_choices(const std::shared_ptr<const Model>& model, Engine& engine,
                                    const std::vector<Question>& questions, std::span<const Question> examples,
                                    const ChoiceOptions& options,
                                    const std::function<bool(int64_t done, const ChoiceReport& so_far)>& proceed);

}  // namespace llada::eval
