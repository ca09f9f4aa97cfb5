// The price of one op on one unit of a profile: its work (graph/ops.h) at the unit's rates. Weights are streamed from
// DRAM, everything but products and attention costs the bytes of its activations. Deliberately absent: caches, and
// bandwidth taken by the activations of products.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "devices/experts.h"
#include "graph/program.h"
#include "study/sim/profile.h"

namespace llada {

struct WeightSize {
  int64_t bytes = 0;
  DType type = DType::F32;
  bool matrix = false;
};

struct OpCost {
  int kernels = 1;  // hand-overs to the unit
  double compute_s = 0;
  double stream_bytes = 0;  // from DRAM, at most at the unit's streaming rate
};

// row_keys: the keys that the rows of an attention op read, all rows together.
OpCost price_op(const UnitProfile& unit, const Program& program, const Op& op, std::span<const WeightInfo> infos,
                std::span<const WeightSize> sizes, double row_keys);

// The price of one expert of a mixture; the profile must have experts. flops_per_row: operations of one row of
// one expert; a map variant matters where experts are mapped and not copied.
ExpertCosts expert_costs(const Profile& profile, std::string_view map_variant, std::array<double, 3> piece_bytes,
                         double flops_per_row);

}  // namespace llada
