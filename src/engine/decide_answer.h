// From log-probabilities of labels to an answer, and the temperatures that make probabilities honest: pure functions.
#pragma once
#include <array>
#include <span>
#include <vector>

#include "engine/decide.h"

namespace llada {

// log_probabilities: by rotation, of each option's label. Sets everything but best_is_label.
DecideAnswer answer_of(QuestionKind kind, std::vector<std::vector<double>> log_probabilities, double temperature);

// How sure a distribution is: 0 for a guess, 1 where all of it is on one option. For a choice the best option's
// probability beyond a guess's. For a score, by how much its levels lie closer to the best one than a guess's to the
// middle.
double confidence_of(QuestionKind kind, std::span<const double> probabilities);

// A question whose answer is known.
struct DecidedQuestion {
  QuestionKind kind;
  std::vector<std::vector<double>> log_probabilities;  // as of DecideAnswer
  size_t right = 0;
};

// The temperature of each kind that gives the right options the highest likelihood, from 0.05 to 20; 1 where no
// question of the kind is there.
std::array<double, kQuestionKinds> fit_temperatures(std::span<const DecidedQuestion> questions);

// Mean negative log-probability of the right options of one kind, nats.
double decide_loss(std::span<const DecidedQuestion> questions, QuestionKind kind, double temperature);

}  // namespace llada
