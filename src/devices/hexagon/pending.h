// What waits to become a batch, and which values a batch or the host has to be brought.
#pragma once
#include <cstdint>
#include <set>
#include <vector>

#include "devices/device.h"
#include "devices/hexagon/wire.h"

namespace llada::hexagon {

// Ops that were submitted and not yet run: they wait for what follows them, so that a pass is one batch, whatever is
// mapped and unmapped in between.
inline constexpr size_t kMostSteps = WIRE_MAX_PASSING / 2;  // a slab may have two buffers
struct Pending {
  Run run = {};  // first to last; program: null, there are none
  int session = 0;
  size_t ops = 0;  // of the batch, at most
  struct Step {
    size_t after;  // op of the program
    int slab;
    bool map;
  };
  std::vector<Step> steps = {};  // in their order
  std::set<int> again = {};      // slabs that were used, and are mapped for what comes behind: under another number
};

// In whose arena a value is: bits; none of them: it has not been computed.
enum Where : uint8_t { kOnHost = 1, kOnDsp = 2 };
using Places = std::vector<uint8_t>;  // by value

// The values that ops of the run read and that are not `here`. places: becomes what it is behind them, if all of them
// run there.
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
