// Exact drafts: the induction of FreeDave (arXiv 2510.00294). The predictions of the last forward say which states the
// rule would come to next if nothing were predicted otherwise. Such states are computed beside the step, each as it
// would be in a step of its own. When the run then comes to one of them, its predictions are there, and the step needs
// no forward; when it does not, they are dropped. So tokens, their order and every confidence are those without drafts,
// bit for bit, and only forwards and rows change. It pays where rows are free: on accelerators whose step takes as long
// for 32 rows as for one, and below the knee of a CPU.
//
// Which states: the strategy itself is copied and goes on with the last predictions, step by step; what it comes to is
// a chain of states. A rule with a schedule takes them one after another. Others commit more than they could with old
// confidences, so they skip along the chain, often to the state in which the block is complete; how far they go is
// counted in the run, and the likeliest states are computed.
//
// Where the rule decides one token at a time, each of the first states of the chain has a branch beside it: the state
// in which the second most certain token was decided in place of the first. What leaves the chain goes there most
// often, and comes back with its next step, when the first token is decided after all. These are the trees of Spiffy
// (arXiv 2509.18085) as far as recordings ask for them: of all sets of up to eight tokens, those that would have
// spared most forwards are the chain's and these branches in turns (tools/tree_drafts.py).
//
// Exactness needs that a step of its own would have read what the draft read. A draft reads what is stored once the
// step's own rows are, and it stores nothing. So its predictions are used only where the plan that follows computes
// again every row that a step of its own would have stored (ask() looks that plan up before it hands anything out).
// That holds within a block for all policies that compute the block's rows, and from block to block where everything is
// computed. It never holds for kv `delayed`, which is refused.
//
// How many: `most` states, or (-1) what the table of the device says will pay. Then a state is added only where
// chance x time of the forward saved >= time added, and only as long as, by the table, all that drafts have cost so far
// is at most what they have saved plus `slack` of the run's time: with slack 0 no run is slower than without.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "decode/strategy.h"

namespace llada::decode {

struct DraftLimits {
  int64_t most = 0;                      // states beside a forward; -1: by the table
  std::vector<LatencyPoint> table = {};  // ascending in rows and ms
  double slack = 0;                      // share of the run's time that drafts may cost before they have saved any
  bool scheduled = false;                // the rule takes states one after another
};

// What the options ask for. own_table: the device's, for -1 where the options have no table.
DraftLimits draft_limits(const DecodeOptions& options, std::vector<LatencyPoint> own_table = {});

// Milliseconds of a step by the table: those of its first point with so many rows; behind the end in proportion.
double step_ms(std::span<const LatencyPoint> table, int64_t rows);

class ExactDrafts {
 public:
  explicit ExactDrafts(DraftLimits limits) : limits_(std::move(limits)) {}

  // Adds drafts to a plan that is about to be computed. `planned` has just made it for the canvas.
  void add(StepPlan& plan, const Strategy& planned, const Canvas& canvas);

  // The forward of the plan that drafts were added to. Their results are kept, and taken out of `result`.
  void ran(const StepPlan& plan, StepResult& result);

  // `planned` has just made the next plan for the canvas: its result, where it is known and may be used.
  std::optional<StepResult> ask(const StepPlan& plan, const Strategy& planned, const Canvas& canvas);
  // What ask() said was used.
  void used(const StepPlan& plan, const StepResult& result);

  double spent_ms() const { return spent_ms_; }  // by the table: added to forwards
  double saved_ms() const { return saved_ms_; }  // of forwards that were not needed

 private:
  struct State {
    StepPlan plan;
    size_t depth = 0;        // steps from the forward's own plan if the rule takes them one after another
    bool completes = false;  // the block of the forward that the chain starts from
    bool branch = false;     // it stands behind the chain's state of its depth; nothing is laid on from it
    bool usable = false;
    std::vector<Prediction> predictions = {};  // empty: not computed
  };

  // Where the run went from states of one depth. By depth, as what a state is guessed from is older the deeper it is:
  // the second of two steps comes as guessed half as often as the first.
  struct Moves {
    std::map<size_t, int64_t> steps = {};          // how often so many states along the chain
    int64_t completed = 0, branched = 0, all = 0;  // to the state that completes the block; to the branch; anywhere
  };

  void remember(const std::vector<Prediction>& predictions);
  std::optional<StepResult> guess(const StepPlan& plan) const;
  void lay_chain(const StepPlan& plan, const Strategy& planned, const Canvas& canvas);
  std::optional<StepPlan> branch_off(Strategy& strategy, const Canvas& canvas, StepResult guessed,
                                     int32_t surest) const;
  void come_to(const StepPlan& plan);
  double chance(size_t from, size_t to) const;
  std::optional<size_t> likeliest(double& chance_of_it) const;
  bool pays(const StepPlan& draft, double chance, int64_t rows);

  const DraftLimits limits_;
  std::map<int32_t, Prediction> last_;  // of every row, the last prediction
  std::vector<State> chain_;            // [0] is the forward's own plan; ascending in depth
  std::optional<size_t> at_;            // where on the chain the run is
  std::vector<int32_t> unstored_;       // rows of used states that a step of its own would have stored
  std::map<size_t, Moves> moves_;       // by the depth of the state that the run went on from
  double spent_ms_ = 0, saved_ms_ = 0, plain_ms_ = 0;
};

}  // namespace llada::decode
