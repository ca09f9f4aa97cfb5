// From tokens to answers: the best sequence that fits a form under the product of the positions' distributions, sampled
// sequences, and constrained marginals, by dynamic programs over (position, state).
//
// Sources: Viterbi over token automata from DINGO (arXiv 2505.23061), sampling and marginals by forward and backward
// sums as in arXiv 2607.07026. Positions that no forward has predicted may hold anything that fits: of them it only
// matters that there is something.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "forms/token_form.h"

namespace llada::forms {

// One position of a stretch that must fit.
struct Slot {
  int32_t token = -1;                 // what it holds; -1: undecided
  const RowScores* scores = nullptr;  // of an undecided one, where it was predicted
};

// What is chosen at a predicted position, with the numbers that acceptance rules read: all of them given that the
// whole stretch fits.
struct Chosen {
  int32_t slot = 0, token = -1, runner_up = -1;
  float logit = 0;
  double probability = 0, entropy = 0, margin = 0;
};

// What a solution is drawn with; none: the best one is taken.
struct Drawing {
  bool sampled = false;
  uint64_t seed = 0, forward = 0;
  int64_t first_position = 0;  // of the first slot, for the random numbers
};

class Solver {
 public:
  // closed: text goes on behind the stretch, so that it is filled without an end token.
  Solver(std::shared_ptr<const TokenForm> form, bool closed);

  const TokenForm& form() const { return *form_; }

  // Whether what is decided can be completed.
  bool fits(std::span<const Slot> slots);
  // One joint path through all slots: what of it stands at the predicted ones. Empty where nothing fits.
  std::vector<Chosen> solve(std::span<const Slot> slots, const Drawing& drawing = {});
  // What an undecided position must hold, -1 where there is a choice. Looks at the first `count` slots.
  std::vector<int32_t> fixed(std::span<const Slot> slots, size_t count);

  // Writes what follows from the beginning without a choice, up to the first end token.
  void write_fixed(std::span<Slot> slots);
  // The smallest number of open positions that the form can fill.
  int64_t shortest();

 private:
  // The border before a slot: the states that are reached there and can be completed, and logarithms of them by place.
  struct Layer {
    std::vector<int32_t> states;
    std::vector<double> best, behind, heated;  // of what follows: the best sequence, all, all after the temperature
    std::vector<double> before;                // of all that leads there
  };
  struct SetScore {  // of a set at one slot
    int64_t stamp = 0;
    int32_t best_class = -1;
    double best = kImpossible, mass = kImpossible, heated = kImpossible;
  };

  bool can_end(int32_t state, int64_t left);
  const SetScore& score(const Slot& slot, int32_t set);
  void begin_slot() { ++stamp_; }
  void index(const Layer& layer);  // place_ of its states, -1 of all others
  bool lay(std::span<const Slot> slots, size_t count);
  void sum_behind(std::span<const Slot> slots, size_t count, bool heated);
  void sum_before(const Slot& slot, size_t at);
  const TokenForm::Edge* pick(const Slot& slot, size_t at, int32_t state, const Drawing& drawing);
  int32_t pick_class(const Slot& slot, int32_t set, const Drawing& drawing, size_t at);
  void describe(const Slot& slot, size_t at, int32_t chosen_class, Chosen& out);

  const std::shared_ptr<const TokenForm> form_;
  const bool closed_;
  std::vector<Layer> layers_;
  std::vector<int32_t> place_;  // by state
  std::vector<int32_t> placed_;
  std::vector<SetScore> scores_;  // by set, of the slot that was begun last
  std::vector<double> set_weight_, class_weight_;
  std::vector<int32_t> active_sets_, active_classes_;
  int64_t stamp_ = 0;
  std::vector<std::vector<char>> ends_;  // by positions left, where closed: states that fill them exactly
};

}  // namespace llada::forms
