// What a row of logits says of the classes of a form's tokens: all that the form's choice needs of a position. A
// vocabulary's logits become as many numbers as the form has classes.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "forms/token_form.h"

namespace llada::forms {

inline constexpr double kImpossible = -std::numeric_limits<double>::infinity();

struct ClassScore {
  int32_t token = -1;                // the best, after noise where there is any; -1: none may be sampled
  float logit = 0;                   // its clean one
  int32_t top = -1, runner_up = -1;  // the two best by the clean logits
  float best = 0, second = 0;        // their logits
  double mass = kImpossible;         // log of the sum of exp(logit) over the class
  double heated = kImpossible;       // the same of logit / temperature
  double mean = 0;                   // of the logits, by their share of the mass
};

struct RowScores {
  std::vector<ClassScore> classes;
};

// How a row is read. With a temperature, noise decides inside a class and `heated` between them. confidence_heat
// divides all logits first, for rules that look at the distribution after the temperature (Dream's).
struct Reading {
  double temperature = 0;
  double confidence_heat = 1;
  uint64_t key = 0;  // of the row's random numbers (base/random.h)
};

RowScores read_row(std::span<const float> logits, const TokenForm& form, const Reading& reading);

}  // namespace llada::forms
