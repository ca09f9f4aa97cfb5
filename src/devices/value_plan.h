// What every device that runs programs derives from a program and a step in the same way: where values lie in the
// arena, which positions and spans a row set has, the rotary table. Devices that share an arena agree by using this.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "graph/program.h"
#include "memory/arena_plan.h"

namespace llada {

// Offsets of the values (F32, rows x columns) in one arena, multiples of 128 bytes; values that do not live at the
// same time share bytes.
ArenaPlan plan_values(const Program& program);

struct RowSets {
  std::array<std::vector<int32_t>, 3> positions;  // by RowSet
  std::array<std::vector<RowSpan>, 2> spans;      // all, wanted
};
RowSets bind_row_sets(const StepInputs& inputs, const StepShape& shape);

// cos and sin of position * theta^(-2j/rotary), j < rotary / 2, computed in double once per position and kept.
class RopeTable {
 public:
  void extend(float theta, int rotary, int64_t positions);  // to positions [0, positions)
  const float* cos(int64_t position) const { return &cos_[static_cast<size_t>(position * half_)]; }
  const float* sin(int64_t position) const { return &sin_[static_cast<size_t>(position * half_)]; }

 private:
  std::vector<float> cos_, sin_;
  float theta_ = 0;
  int64_t half_ = 0;
};

}  // namespace llada
