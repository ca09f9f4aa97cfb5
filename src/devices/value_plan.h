// Derivations from a program and a step that all devices share: where values lie in the arena, which positions and
// spans a row set has, the rotary table. Devices that share an arena agree by using this.
#pragma once
#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/recent.h"
#include "devices/routing_rule.h"
#include "graph/program.h"
#include "memory/arena_plan.h"

namespace llada {

// The lifetime of each value: the first and last op that names it, and its bytes. Where no op names it, first > last.
std::vector<Lifetime> value_lifetimes(const Program& program, int64_t bytes_per_element);

// The values (F32, rows x columns) in one arena: offsets are multiples of 128 bytes, and values that do not live at the
// same time share bytes.
struct ValuePlan {
  std::vector<Lifetime> lives;   // by value
  std::vector<int64_t> offsets;  // by value
  int64_t bytes = 0;             // of the arena
};
ValuePlan plan_values(const Program& program);

// How many plans a device keeps, by the program's address (base/recent.h). They are more than the programs of an
// executor, since sparse passes and a fallback device have some of their own.
inline constexpr size_t kRecentPlans = 64;
template <class Plan>
using RecentPlans = Recent<std::shared_ptr<const Program>, Plan>;

struct RowSets {
  template <class T>
  using BySet = std::array<std::vector<T>, kRowSetCount>;
  BySet<int32_t> positions;      // by row; a prediction's is that of its conditional row
  BySet<RowSpan> spans;          // as many as the step has, some of them empty; none of predicted rows
  std::vector<int32_t> streams;  // by prediction
  std::vector<int64_t> kept;     // by prediction: its row in its stream's logits, or -1
  std::vector<int64_t> scored;   // the same in its stream's scores

  // The ranges of keys that rows read with one window.
  struct Reads {
    KeyWindow window;
    BySet<KeyRange> ranges;  // by row; none of predicted rows
    BySet<KeyRange> reach;   // by span: the smallest range over all its rows; {0, 0} for an empty one
  };
  // The first without a window: the ranges of the step, which all others lie in.
  std::vector<Reads> reads;
  const Reads& of(const Attention& attention) const;  // one of the program's
};
// Windows are applied here and nowhere else.
RowSets bind_row_sets(const StepInputs& inputs, const Program& program);

// Makes room for the logits and scores that the step's streams keep.
void reserve_logits(const StepInputs& inputs, const RowSets& sets, int64_t vocabulary, StepOutputs& outputs);
// Where a prediction's logits go; null where they are not kept.
float* kept_logits(const RowSets& sets, int64_t prediction, int64_t vocabulary, StepOutputs& outputs);
// Where a prediction's scores go, and the reader of its row; null and none where they are not asked for.
RowScores* kept_scores(const RowSets& sets, int64_t prediction, StepOutputs& outputs);
std::optional<RowReader> row_reader(const StepInputs& inputs, const RowSets& sets, int64_t prediction);
// Writes a prediction's scores from its whole row of logits.
void read_scores(const StepInputs& inputs, const RowSets& sets, int64_t prediction, std::span<const float> logits,
                 StepOutputs& outputs);

// The rule of a route op.
RoutingRule routing_rule(const Op& op);

// cos and sin of position * frequency[j], times the magnitude and the scale there, computed in double once per position
// and kept. Which elements of a head make a pair is the kernel's business: both pairings read the same angles.
class RopeTable {
 public:
  void extend(const Rope& rope, int64_t positions);  // to positions [0, positions), of one geometry always
  const float* cos(int64_t position) const { return &cos_[static_cast<size_t>(position * half_)]; }
  const float* sin(int64_t position) const { return &sin_[static_cast<size_t>(position * half_)]; }

 private:
  std::vector<float> cos_, sin_;
  int64_t half_ = 0;
};

// A table for every rotary geometry in use, so that a program whose layers rotate in two ways computes no angle twice.
class RopeTables {
 public:
  // Holds positions [0, positions) at least; stays where it is until the next call.
  const RopeTable& of(const Rope& rope, int64_t positions);

 private:
  struct Kept {
    Rope rope;
    RopeTable table;
  };
  std::list<Kept> kept_;  // most recent first
};

}  // namespace llada
