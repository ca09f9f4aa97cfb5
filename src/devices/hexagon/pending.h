// Ops that wait to become a batch, and the values that must be copied to a batch or the host.
#pragma once
#include <cstdint>
#include <set>
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
};

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
