// Ops that wait to become a batch, and the values that must be copied to a batch or the host.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "devices/device.h"
#include "devices/hexagon/wire.h"

namespace llada::hexagon {

// Ops that were submitted and not yet run. They wait for later ops, so that a pass is one batch in which slabs are
// mapped and unmapped.
inline constexpr size_t kMostSteps = WIRE_MAX_PASSING / 2;  // a slab may have two buffers
struct Pending {
  Run run = {};  // program null: there are none
  int session = 0;
  size_t ops = 0;  // of the batch, at most
  struct Step {
    size_t after;  // op of the program
    int slab;
    bool map;
  };
  std::vector<Step> steps = {};  // in their order
  std::set<int> again = {};      // slabs that are unmapped and mapped again in the batch, under another number

  bool moves(int slab) const {
    return std::ranges::any_of(steps, [&](const Step& step) { return step.slab == slab; });
  }
  bool maps_once(int slab) const {
    return !again.contains(slab) &&
           std::ranges::any_of(steps, [&](const Step& step) { return step.map && step.slab == slab; });
  }
};

// A batch's slabs, as far as is known now: those that are not there for all of it, and the others.
struct PartedSlabs {
  std::set<int> passing, there;
};
inline PartedSlabs part_slabs(const Pending& pending, const std::set<int>& used,
                              const std::function<bool(int)>& mapped) {
  PartedSlabs out;
  for (const int slab : used) (pending.moves(slab) || !mapped(slab) ? out.passing : out.there).insert(slab);
  // Pinned slabs are awaited where a batch cannot name them all.
  if (out.passing.size() > kMostSteps)
    for (const int slab : std::exchange(out.passing, {})) (pending.moves(slab) ? out.passing : out.there).insert(slab);
  return out;
}

// The arenas that have a value, as bits; 0: it has not been computed.
enum Where : uint8_t { kOnHost = 1, kOnDsp = 2 };
using Places = std::vector<uint8_t>;  // by value

// Inputs of the run that must be copied to `here`. On return, `places` is the state after the run, if all its ops run
// there.
inline std::vector<ValueId> to_bring(const Run& run, Where here, Places& places) {
  std::vector<ValueId> values;
  for (size_t i = run.first; i < run.last; ++i) {
    const Op& op = run.program->ops[i];
    for (const ValueId id : op.in) {
      if (id == kNoValue || (places[static_cast<size_t>(id)] & here) != 0) continue;
      if (run.program->shape.count(run.program->values[static_cast<size_t>(id)].rows) > 0) values.push_back(id);
      places[static_cast<size_t>(id)] |= here;
    }
    if (rule_of(op.kind).values.in_place) places[static_cast<size_t>(op.in[0])] = here;
    for (const ValueId id : op.out)
      if (id != kNoValue) places[static_cast<size_t>(id)] = here;
  }
  return values;
}

}  // namespace llada::hexagon
