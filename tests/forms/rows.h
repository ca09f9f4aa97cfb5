// What a head says of a position.
#pragma once
#include <span>

#include "forms/token_form.h"

namespace llada::forms {

inline RowScores read_row(std::span<const float> logits, const TokenForm& form, double temperature = 0, double heat = 1,
                          uint64_t key = 0) {
  RowReader reader({&form.classes(), temperature, heat}, key);
  reader.read_all(logits);
  return reader.take();
}

}  // namespace llada::forms
