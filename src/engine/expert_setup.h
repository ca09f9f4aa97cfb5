// Experts shared out between an accelerator and the host in a run: the user's request, whether it is possible, and the
// set-up of the run for it.
#pragma once
#include <memory>
#include <optional>
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

// The run's settings for shared-out experts; the device gets its own by `where`. Costs are the profile's; of a GPU they
// are measured when it is there and belong into the value then. threads: for guesses; 0: one per usable core.
Result<ExpertSplitOptions> set_up_experts(const ExpertRequest& request, const MoeOptions& options, DeviceSpec& where,
                                          const ModelFile& file, const ModelGraph& graph, int threads);

// Where the routing of a model is only listened to.
Result<ExpertSplitOptions> listen_to_experts(const ModelFile& file);

}  // namespace llada
