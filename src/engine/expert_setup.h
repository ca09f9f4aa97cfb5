// Experts split between an accelerator and the host: the user's request, its checks, and the run's settings for it.
#pragma once
#include <string>

#include "base/error.h"
#include "sched/expert_split.h"

namespace llada {

class ModelFile;
struct DeviceSpec;
struct ModelGraph;

// As on the command line. Resident experts are planned per block, with experts moved ahead, in as many slices as are
// worthwhile; studies compare other rules (study/moe_simulate.h).
struct ExpertRequest {
  double share = 0;       // of the experts that the accelerator holds, 0 to 1; 0: not asked for
  std::string plan = {};  // hybrid (the default), static, all-cpu or on-demand
};

// Before a file is opened: checks values, and options that exclude each other. `where`: of the device.
Result<MoeOptions> check_experts(const ExpertRequest& request, const DeviceSpec& where, const std::string& device);

// The run's settings for split experts; the device's are set in `where`. Costs are those of the profile; for a GPU the
// caller sets them in the result once it is open (OpenedDevice). threads: for guesses; 0: one per usable core.
Result<ExpertSplitOptions> set_up_experts(const ExpertRequest& request, const MoeOptions& options, DeviceSpec& where,
                                          const ModelFile& file, const ModelGraph& graph, int threads);

// Settings of a run that only reports the router's choices.
Result<ExpertSplitOptions> listen_to_experts(const ModelFile& file);

}  // namespace llada
