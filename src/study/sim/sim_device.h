// A phone's SoC as a device: its NPU (the accelerator, with a window of addressable weights) and its CPU (the host),
// timed by a profile on emulated lanes. With a device of this machine behind it the numerics are that device's, bit for
// bit; without one ("dry") programs of any geometry are priced and predictions stay empty. Everything that the real
// chip would refuse is refused: ops and types that the profile lacks, weights that are not mapped, mappings beyond the
// window.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "devices/device.h"
#include "study/sim/cost.h"
#include "study/sim/divided.h"
#include "study/sim/expert_lanes.h"
#include "study/sim/lanes.h"
#include "study/sim/profile.h"

namespace llada {

struct SimOptions {
  std::string map_variant = {};              // of the profile; empty: its default
  std::optional<int64_t> window_bytes = {};  // for weights, overrides the profile's; -1: unlimited
  std::optional<bool> head_on_npu = {};      // overrides the profile's
  bool host_only = false;                    // nothing runs on the NPU
  // Experts of which the accelerator holds some; none: they are computed where the op lists say.
  struct Experts {
    ExpertCosts costs;
    ExpertWindow window;
  };
  std::optional<Experts> experts = {};
  // By weight: the share of a product's columns that the host computes beside the NPU (study/sim/divided.h), whose
  // tiles are not mapped. Empty: products are undivided.
  std::vector<double> host_shares = {};
  bool record_spans = false;  // keep every task for take_spans()
};

class SimDevice : public Device, public Window, public ExpertHost, public Clock, public SidePasses {
 public:
  // Spans of the lanes since the last call; only with record_spans.
  virtual std::vector<LaneSpan> take_spans() = 0;
};

// sizes[i] belongs to infos[i]. numerics may be null: then the device is dry. The embedding table is read by
// the host and needs no mapping.
Result<std::unique_ptr<SimDevice>> make_sim_device(const Profile& profile, const SimOptions& options,
                                                   std::span<const WeightInfo> infos, std::span<const WeightSize> sizes,
                                                   std::unique_ptr<Device> numerics);

}  // namespace llada
