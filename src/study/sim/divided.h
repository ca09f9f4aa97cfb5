// Products of the accelerator whose columns are divided: the host computes the last tiles of every weight beside it, in
// its arithmetic. The host's tiles need no mapping. Head, attention and all other ops stay undivided.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "graph/program.h"
#include "study/sim/cost.h"
#include "study/sim/profile.h"

namespace llada {

// The share of each weight's columns that the host has, in whole tiles and the same for all passes. With it the
// programs' products take the least time together, the exchange included. on_accelerator: whether the op runs there.
// Nothing is divided where the profile has no `divide`.
std::vector<double> host_shares(const Profile& profile, std::span<const Program> programs,
                                std::span<const WeightInfo> infos, std::span<const WeightSize> sizes,
                                const std::function<bool(const Op&)>& on_accelerator);

struct DividedOp {
  OpCost accelerator, host;  // of their tiles, without the times below
  double show_s = 0;         // the accelerator's, before both begin: the op's input is copied to where the host reads
  double meet_s = 0;         // from one unit's word to the other one's going on
  double join_s = 0;         // the accelerator's, at the end: the host's columns are copied to its own
};
// share: of the columns that the host has.
DividedOp divide_op(const Profile& profile, const Program& program, const Op& op, std::span<const WeightInfo> infos,
                    std::span<const WeightSize> sizes, double share);

}  // namespace llada
