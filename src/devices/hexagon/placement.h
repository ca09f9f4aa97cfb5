// Which ops the DSP computes, or in its place its module on the host: the same ops for both, so that an op has the same
// bits on either. The host's kernels compute all others.
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
  // Whether the DSP cannot compute the op, at all or in this step: K/V in memory that it does not see, more rows than a
  // batch takes.
  bool needs_host(const Run& run, const Op& op) const;
  // Failed: the DSP sees some of the step's K/V stores and not others, so that a row's bits would depend on its
  // company.
  Status check_stores(const Run& run) const;
};

}  // namespace llada::hexagon
