#include "devices/value_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace llada {

ArenaPlan plan_values(const Program& program) {
  constexpr int64_t kAlign = 128;  // the widest vector register of any device here
  std::vector<Lifetime> lifetimes(program.values.size(), {0, INT32_MAX, -1});
  for (size_t i = 0; i < program.values.size(); ++i) {
    const int64_t bytes = int64_t{program.shape.count(program.values[i].rows)} * program.values[i].columns * 4;
    lifetimes[i].bytes = (bytes + kAlign - 1) / kAlign * kAlign;
  }
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const auto touch = [&](ValueId id) {
      if (id == kNoValue) return;
      Lifetime& l = lifetimes[static_cast<size_t>(id)];
      l.first = std::min(l.first, static_cast<int32_t>(i));
      l.last = std::max(l.last, static_cast<int32_t>(i));
    };
    std::ranges::for_each(program.ops[i].in, touch);
    std::ranges::for_each(program.ops[i].out, touch);
  }
  return plan_arena(lifetimes);
}

RowSets bind_row_sets(const StepInputs& in, const StepShape& shape) {
  RowSets sets;
  auto& positions = sets.positions;
  positions[0] = in.positions;
  sets.spans[0] = in.spans;
  for (const int32_t row : in.wanted) positions[1].push_back(in.positions[static_cast<size_t>(row)]);
  size_t next = 0;
  for (const RowSpan& span : in.spans) {
    RowSpan wanted{static_cast<int32_t>(next), 0, span.sequence, span.keys, span.trial};
    while (next < in.wanted.size() && in.wanted[next] < span.begin + span.count) ++next, ++wanted.count;
    sets.spans[1].push_back(wanted);
  }
  // A prediction stands for the same position in both streams; the first half of `wanted` is the conditional one.
  positions[2].assign(positions[1].begin(), positions[1].begin() + shape.count(RowSet::guided));
  return sets;
}

void RopeTable::extend(float theta, int rotary, int64_t positions) {
  const int64_t half = rotary / 2;
  if (theta_ != theta || half_ != half) cos_.clear(), sin_.clear();
  theta_ = theta;
  half_ = half;
  for (auto p = static_cast<int64_t>(cos_.size()) / half; p < positions; ++p) {
    for (int64_t j = 0; j < half; ++j) {
      const double angle = static_cast<double>(p) *
                           std::pow(static_cast<double>(theta), -2.0 * static_cast<double>(j) / rotary);
      cos_.push_back(static_cast<float>(std::cos(angle)));
      sin_.push_back(static_cast<float>(std::sin(angle)));
    }
  }
}

const RopeTable& RopeTables::of(float theta, int rotary, int64_t positions) {
  constexpr size_t kMost = 8;  // a model has one or two
  auto found = std::ranges::find_if(kept_, [&](const Kept& k) { return k.theta == theta && k.rotary == rotary; });
  if (found == kept_.end()) {
    if (kept_.size() >= kMost) kept_.pop_back();
    kept_.push_front({theta, rotary, {}});
  } else {
    kept_.splice(kept_.begin(), kept_, found);
  }
  kept_.front().table.extend(theta, rotary, positions);
  return kept_.front().table;
}

}  // namespace llada
