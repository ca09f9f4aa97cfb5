// Searches the cheapest decoding options that lose at most so many points of accuracy against the reference run of the
// same examples.
//
// The search is a neighbourhood search with successive halving (Jamieson and Talwalkar, "Non-stochastic best arm
// identification and hyperparameter optimization", AISTATS 2016). Candidates are tried on few examples, the promising
// ones' neighbours (one axis, one choice away) are tried next. The best third goes on to twice the examples. A
// candidate that is beyond the loss by two standard errors after a third of a stage is not tried on the rest of it.
// Half of the examples of each task take no part in all this. They decide in the end, so that a candidate that was
// lucky in the search is found out. Everything is a function of the examples: no random numbers, no clock.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/options.h"
#include "eval/score.h"
#include "eval/tasks.h"

namespace llada::eval {

// Pieces of an options text of which a candidate takes exactly one; neighbours in the list should be alike.
struct Axis {
  std::string name;
  std::vector<std::string> choices;  // an empty piece: the option is not given
  size_t start = 0;                  // where the search begins
};

struct Attempt {
  std::string options;
  Score search, validation;  // over the examples of each half that it was tried on
  double cost = 0;           // per example, over all examples that it was tried on

  double loss() const;             // of accuracy in points of 100, over everything that it was tried on
  double validation_loss() const;  // the same over the validation half alone
  Score total() const;
};

// How far the search is. Work is counted in examples decoded by a candidate.
struct TuneProgress {
  std::string stage;
  int64_t done = 0;
  int64_t expected = 0;  // of the whole search; an estimate that moves, at least `done`
  std::string best;      // the options that lead, with their cost and loss so far; empty at first
};

struct TuneRequest {
  double max_loss = 1;  // points of accuracy below the reference
  int64_t generations = 4;
  int64_t breadth = 3;                                              // promising candidates whose neighbours are tried
  std::function<double(const Score& score)> cost;                   // per example
  std::function<void(const TuneProgress& progress)> progress = {};  // before every measurement
  std::function<void(const std::string& text)> news = {};           // a line for people after every stage
  std::function<bool()> stopped = [] { return false; };             // true: an error of a measurement ends the search
};

struct TuneResult {
  std::vector<Attempt> frontier;   // ascending cost, each more accurate than all cheaper ones; the chosen one may be an
                                   // exception, where a cheaper one was better in the search half alone
  int64_t chosen = -1;             // index into frontier; -1: nothing stays within max_loss
  int64_t tried = 0, refused = 0;  // candidates measured; combinations that make no sense
  int64_t examples = 0;            // decoded, over all candidates
  // Then nothing is chosen, and the frontier has the candidates that were tried most.
  bool interrupted = false;
};

// Returns the summed score of these examples with options that `accepts` has accepted.
using Measure = std::function<Result<Score>(const std::string& options, const std::vector<size_t>& which)>;

// Whether a combination of choices is valid.
using Accepts = std::function<bool(const std::string& options)>;

// Refuses the same requests as tune(), before a reference is computed: fewer than two examples of some task, an axis
// without choices, a start that is not accepted.
Status check_tune(const std::vector<Example>& examples, const std::vector<Axis>& axes, const Accepts& accepts);
// Refuses a reference without a right answer: every candidate would be as good. options: the reference's.
Status check_reference(const Score& total, const decode::DecodeOptions& options);

Result<TuneResult> tune(const std::vector<Example>& examples, const std::vector<Axis>& axes, const Accepts& accepts,
                        const Measure& measure, const TuneRequest& request);

// The halves: every second example of each task, in an order that takes the tasks in turn, so that any prefix
// is balanced.
struct Halves {
  std::vector<size_t> search, validation;
};
Halves split(const std::vector<Example>& examples);

std::string tune_table(const TuneResult& result);

}  // namespace llada::eval
