// The text of a question and the labels that are asked for: pure functions. The wording is that of the route
// /v1/systemone of `transformers serve`, so that results can be compared.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/decide.h"

namespace llada {

// The instructions, the options, the first of which is number `first`, and how to answer.
std::string question_text(const DecideQuestion& question, DecideLabels labels, size_t first = 0);

// The label of each option, in the question's own order, where option number `first` stands first.
std::vector<std::string> question_labels(const DecideQuestion& question, DecideLabels labels, size_t first = 0);

// The options that stand first in each rotation: spread evenly, as many as there are options at most. One for other
// kinds than a choice.
std::vector<size_t> rotations_of(const DecideQuestion& question, int64_t rotations);

// Those that are asked at all: not those with one option.
std::vector<size_t> asked_questions(const DecideRequest& request);

// These in one text, numbered from 1.
std::string joint_text(const DecideRequest& request);

}  // namespace llada
