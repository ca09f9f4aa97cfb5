// Multiple choice by likelihood: every option of a question is scored behind its context, and the most probable one is
// the model's answer.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "eval/questions.h"

namespace llada::eval {

struct ChoiceOptions {
  ScoreOptions score = {};
  // As the published evaluation of the model's family has it: for Dream a beginning token, an end token behind every
  // option, and rates in the place of counts. LLaDA's is the default of the scores.
  bool published = true;
  bool chat = false;                        // the context is a user's message in the model's template
  int64_t shots = 0;                        // answered examples before each context
  std::string_view option_name = "option";  // as errors name one
};

struct ChoiceAnswer {
  size_t best = 0, best_normalised = 0;  // the option of the highest score; of the highest score per code point
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
  bool interrupted = false;           // it has only the first questions

  ChoiceTotal total() const;
};

// The scored requests of a question: its context with the examples and its options as tokens; where every option has
// its own context, one request for each of them. Invalid: it is too long for the model, has too few examples, or an
// option without tokens of its own.
Result<std::vector<ScoreRequest>> score_requests(const Model& model, const Question& question,
                                                 std::span<const Question> examples, const ChoiceOptions& options);

// Asks for every question. proceed is called while it waits, at least ten times a second, with the number of questions
// that are done; false ends the work with the answers so far.
Result<ChoiceReport> answer_choices(const std::shared_ptr<const Model>& model, Engine& engine,
                                    const std::vector<Question>& questions, std::span<const Question> examples,
                                    const ChoiceOptions& options,
                                    const std::function<bool(int64_t done, const ChoiceReport& so_far)>& proceed);

}  // namespace llada::eval
