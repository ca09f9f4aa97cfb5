#include "decode/decided_first.h"

#include <algorithm>

#include "decode/canvas.h"
#include "decode/options.h"
#include "decode/row_sets.h"

namespace llada::decode {

std::vector<int32_t> decided_first_places(const std::vector<bool>& decided, int64_t from) {
  auto next = static_cast<int32_t>(std::ranges::count(decided, true));
  std::vector<int32_t> places;
  int32_t first = 0;
  for (const bool is : decided) places.push_back(is ? first++ : next++);
  return {places.begin() + from, places.end()};
}

DecidedFirst::DecidedFirst(const DecodeOptions& options, const Canvas& canvas, std::unique_ptr<Strategy> windows)
    : windows_(std::move(windows)),
      keeps_(options.kv != KvChoice::none),
      begin_(static_cast<int32_t>(generated_begin(canvas))) {}

StepPlan DecidedFirst::plan(const Canvas& canvas) {
  StepPlan plan = windows_->plan(canvas);
  plan.keys = plan.block_end;
  plan.rows = range(keeps_ ? written_ : 0, plan.keys);
  plan.inputs = tokens_at(canvas, plan.rows);
  std::vector<bool> decided;
  for (int32_t p = 0; p < plan.keys; ++p) decided.push_back(!canvas.is_undecided(p));
  plan.places = decided_first_places(decided, plan.rows.front());
  written_ = plan.block_begin;  // the first mask; places and positions are the same before it
  return plan;
}

void DecidedFirst::stored(const Canvas& /*canvas*/, int64_t positions) {
  written_ = std::min(static_cast<int32_t>(positions), begin_);
}

}  // namespace llada::decode
