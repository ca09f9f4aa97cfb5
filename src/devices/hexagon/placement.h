// Which ops the DSP computes, and its module on the host in its place: the same for both, so that an op has the same
// bits whoever computes it. Everything else belongs to the host's kernels.
#pragma once
#include <memory>

#include "devices/device.h"
#include "devices/hexagon/library.h"
#include "devices/hexagon/slabs.h"

namespace llada::hexagon {

struct Placement {
  std::shared_ptr<Library> library;
  std::shared_ptr<Weights> weights;
  bool head_on_dsp = true;

  Unit place(const Op& op) const;
  // Ops that the DSP cannot do, or not in this step: K/V in memory that it does not see, more rows than a batch takes.
  // Stores of one step are of one kind. Where some are beyond a buffer's size and others are not, a row's numbers would
  // depend on its company, and the step is refused (check_stores).
  bool needs_host(const Run& run, const Op& op) const;
  Status check_stores(const Run& run) const;
};

}  // namespace llada::hexagon
