// Which canvases the methods of likelihood.h look at, and which results they need of each: pure functions over tokens.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/likelihood.h"

namespace llada {

// One token whose log-probability a canvas is asked for; `weight` times it is part of the continuation's score.
struct ScoreTarget {
  size_t continuation = 0, offset = 0;
  double weight = 1;
  // Ascending in the order in which the continuation, were it alone, would have asked. One canvas serves several
  // continuations, so its own place among them depends on the company; a sum must not.
  int64_t order = 0;
};

// The prompt and a continuation with masks at some of its offsets, cut or filled with masks to `end` positions.
struct ScoreCanvas {
  size_t continuation = 0;
  std::vector<int32_t> masked;  // offsets of the continuation, ascending; behind its length the canvas has masks anyway
  int64_t end = 0;
  std::vector<ScoreTarget> targets;  // all masked here

  std::vector<int32_t> tokens(const ScoreRequest& request, int32_t mask) const;
  std::vector<bool> decided(const ScoreRequest& request) const;  // each of them
};

// In the order of continuations and their blocks. Not for duel, whose canvases follow from each other.
std::vector<ScoreCanvas> score_canvases(const ScoreRequest& request, const decode::SpecialIds& ids);

// How many of `length` tokens each draw of a stratified batch masks (LLaDA's forward_process). Draw i masks round(first
// + i * length / draws), wrapped into 1..length; halves are rounded to even.
std::vector<int64_t> stratified_counts(int64_t length, int64_t draws, int64_t first);

}  // namespace llada
