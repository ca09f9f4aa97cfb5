// Finds the tokens of a stretch that fit a form, by dynamic programming over (position, state). Gives the best sequence
// under the product of the positions' distributions, sampled sequences, and marginals given that the whole stretch
// fits.
//
// Sources: Viterbi over token automata from DINGO (arXiv 2505.23061), sampling and marginals by forward and backward
// sums as in arXiv 2607.07026. Positions without a prediction may hold any tokens that fit, at no cost.
//
// The work of a call is bounded: it counts edges and classes that are visited. Where they reach the bound the window of
// positions ends, and predictions behind it are ignored in that call. Decided positions at the beginning cost nothing,
// since Track keeps their states.
//
// Strings of any length have a soft bound. Where the decided tokens at the beginning end inside a string, its tokens
// from the kFreeTokens-th on cost the path more and more. So a model that does not know how to go on ends the string; a
// string that the model is sure of is not ended.
//
// Bounds of loops (nfa.h) are checked on the text of the best sequence. Where it breaks one, that position must move
// towards the end, and the best sequence with this constraint is taken. After a few such turns the call takes the whole
// text that is known to fit all decided tokens, from an earlier call or made of short tokens.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "forms/token_form.h"

namespace llada::forms {

// One position of a stretch that must fit.
struct Slot {
  int32_t token = -1;                 // -1: undecided
  const RowScores* scores = nullptr;  // of an undecided one; null: it was not predicted
};

// The choice at a predicted position, with the numbers that acceptance rules read, all given that the stretch fits.
struct Chosen {
  int32_t slot = 0, token = -1, runner_up = -1;
  float logit = 0;
  double probability = 0, entropy = 0, margin = 0;
};

// How a sequence is drawn; by default the best one is taken.
struct Drawing {
  bool sampled = false;
  uint64_t seed = 0, forward = 0;
  int64_t first_position = 0;  // of the first slot, for the random numbers
};

// The memory of a stretch between calls.
struct Track {
  std::vector<int32_t> tokens;       // decided ones at the beginning
  std::vector<int32_t> states = {};  // before each of them and behind the last; -1: they do not fit
  // Where bounds are counted: the ways to read the first `read` tokens, and a whole text that fits all decided ones.
  Counted::Ways ways = {};
  size_t read = 0;
  std::vector<int32_t> fitting = {};
};

class Solver {
 public:
  // Bound on edges and classes that a call visits; the first predicted and all decided positions are visited anyway.
  static constexpr int64_t kStepWork = 160'000;
  // The soft bound: tokens of a string that cost nothing, by how much the cost grows with each further one, and the
  // most that one costs (nats).
  static constexpr int64_t kFreeTokens = 64;
  static constexpr double kTokenCost = 1.0 / 16, kMostTokenCost = 4;

  // closed: text follows the stretch, so that it is filled without an end token. call_work: the bound of a call.
  Solver(std::shared_ptr<const TokenForm> form, bool closed, int64_t call_work = kStepWork);

  const TokenForm& form() const { return *form_; }

  // Whether the decided tokens can be completed.
  bool fits(std::span<const Slot> slots, Track& track);
  // The predicted slots of one sequence through the window, ascending; empty where nothing fits.
  std::vector<Chosen> solve(std::span<const Slot> slots, Track& track, const Drawing& drawing = {});
  // By slot, of the first `count`: the token that an undecided one must hold; -1 where it has a choice, is decided or
  // not known.
  std::vector<int32_t> fixed(std::span<const Slot> slots, size_t count, Track& track);

  // Writes the tokens that have no alternative, from the beginning to the first choice or end token.
  void write_fixed(std::span<Slot> slots, Track& track);
  // The states before the decided slots at the beginning and behind the last.
  std::span<const int32_t> walk(std::span<const Slot> slots, Track& track);
  // The smallest number of open positions that the form can fill.
  int64_t shortest();
  // At least the edges and classes that a call visits where all slots are predicted. A result above `most` says no more
  // than that.
  int64_t work_of(int64_t slots, int64_t most);

  int64_t work() const { return work_; }  // edges and classes visited in all calls
  // Upper bound on the solver's memory, without the form, for a stretch of so many positions.
  static int64_t bytes(const TokenForm& form, int64_t positions, int64_t call_work = kStepWork);

 private:
  // The border before a slot: the states that are reached there and can be completed; log-sums by place of the state.
  struct Layer {
    std::vector<int32_t> states;
    std::vector<double> best, behind, heated;  // over later slots: the best sequence, all, all after the temperature
    std::vector<double> before;                // over earlier slots: all
  };
  struct SetScore {     // of a set at one slot
    int64_t stamp = 0;  // the slot
    int32_t best_class = -1;
    double best = kImpossible, mass = kImpossible, heated = kImpossible;
    double share = 0, warm = 0;  // exp(mass), exp(heated) beside those of the slot's first set
  };
  struct Taken {  // of the path at one slot
    const TokenForm::Edge* edge;
    int32_t token, of_class;  // -1: it was decided
  };
  struct Turn {  // at a border: the states that may stand there
    size_t border;
    std::vector<int32_t> states;
  };
  enum class Sums { none, best, all };

  bool can_end(int32_t state, int64_t left);
  const SetScore& score(const Slot& slot, int32_t set);
  void begin_slot() { ++stamp_, mass_ = heat_ = kImpossible; }
  void index(const Layer& layer);  // place_ of its states, -1 of all others
  Layer& layer(size_t border) { return layers_[border - first_]; }
  bool lay(std::span<const Slot> slots, size_t count, Track& track, Sums sums);
  void find_string(const Track& track);
  double string_cost(size_t border, int32_t state) const;
  bool lay_ahead(std::span<const Slot> slots, size_t count);
  void sum_behind(const Slot& slot, size_t at, Sums sums);
  void sum_before(const Slot& slot, size_t at, bool weigh);
  template <class Visit>
  void each_way(const Slot& slot, int32_t state, Visit visit);
  bool take_path(std::span<const Slot> slots, const Drawing& drawing);
  bool take_fitting(std::span<const Slot> slots, const Track& track);
  const TokenForm::Edge* pick(const Slot& slot, size_t at, int32_t state, const Drawing& drawing);
  int32_t pick_class(const Slot& slot, int32_t set, const Drawing& drawing, size_t at);
  void describe(const Slot& slot, int32_t chosen_class, Chosen& out);

  int32_t to_end(int32_t state) const;
  std::vector<int32_t> completed(std::span<const Slot> slots);
  size_t broken_at(std::span<const int32_t> tokens, Track& track);
  bool find_fitting(std::span<const Slot> slots, Track& track);
  bool bounded_path(std::span<const Slot> slots, size_t count, Track& track, const Drawing& drawing);

  const std::shared_ptr<const TokenForm> form_;
  const bool closed_;
  const int64_t call_work_;
  size_t first_ = 0, count_ = 0;  // borders of the window
  std::vector<Layer> layers_;     // from border first_ on
  int32_t string_ = -1;           // the string that the decided tokens at the beginning end in
  size_t string_begin_ = 0;       // its first border
  std::vector<Turn> turns_;
  std::vector<Taken> path_;     // from slot first_ on
  std::vector<int32_t> place_;  // by state
  std::vector<int32_t> placed_;
  std::vector<SetScore> scores_;                 // by set, of the slot that was begun last
  std::vector<int64_t> seen_;                    // by set: the slot in which it was looked at
  std::vector<double> from_, into_, warm_into_;  // by place: exp() of a layer's logarithms beside its largest
  std::vector<double> set_weight_, class_weight_;
  std::vector<int32_t> active_sets_, active_classes_;
  int64_t stamp_ = 0, work_ = 0;
  double mass_ = kImpossible, heat_ = kImpossible;  // of the first set that was summed in this slot
  bool heats_ = false;                              // whether `heated` is summed
  std::vector<std::vector<char>> ends_;             // by positions left, where closed: states that fill them exactly
};

}  // namespace llada::forms
