// How far a run is computed in all layers, where plans leave rows behind (StepPlan::keep).
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "decode/types.h"

namespace llada::decode {

class Reach {
 public:
  // All positions before it have K/V in all layers.
  int64_t end() const { return end_; }

  // StepPlan::frontier of a plan that leaves some of its logits rows behind, in a block that ends at block_end.
  int32_t frontier(const StepPlan& plan, int64_t block_end) const {
    return end_ < block_end ? std::max(static_cast<int32_t>(end_), plan.logits.front()) : INT32_MAX;
  }

  // The plan of the next forward, which reads the canvas's own positions [0, keys).
  void planned(const StepPlan& plan, int64_t keys) { next_ = plan.frontier == INT32_MAX ? keys : 0; }
  // That forward is done. From a frontier on rows go on in order, so it reaches as far as the last prediction.
  void computed(std::span<const Prediction> predictions) {
    end_ = std::max(end_, next_);
    if (next_ == 0 && !predictions.empty()) end_ = std::max<int64_t>(end_, predictions.back().position + 1);
  }

 private:
  int64_t end_ = 0;
  int64_t next_ = 0;  // what the forward under way reaches; 0: its predictions tell
};

}  // namespace llada::decode
