// Which unit computes which expert of one layer in one step, and which experts are moved to the accelerator for it.
// Pure: costs and loads in, a timeline out.
//
// The rule is HybriMoE's (arXiv 2504.05897) over three timelines:
//   - The accelerator takes resident experts, the heaviest first.
//   - The host takes the others, the lightest first; where none is left it takes resident ones, the lightest first.
//   - The link moves the heaviest expert that is not there. A moved expert that has arrived joins the accelerator's
//     queue.
// The timeline that would finish its next expert first is given it, until none is left. The publication leaves out that
// the host's products and the link read one memory. Here the timeline is evaluated with both sharing it, and a plan is
// kept only where it beats its simple rivals in that evaluation.
//
// Experts are taken whole, or in slices (devices/experts.h) where ExpertCosts says so. Then both units can compute one
// expert, each its slices: the host computes some while others arrive over the link.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "devices/experts.h"

namespace llada {

enum class MoeRule : uint8_t {
  hybrid,        // as above
  static_split,  // resident experts on the accelerator, all others on the host; nothing moves
  all_cpu,       // every expert on the host
  on_demand,     // every expert on the accelerator; missing ones are moved
};
inline constexpr MoeRule kMoeRules[] = {MoeRule::hybrid, MoeRule::static_split, MoeRule::all_cpu, MoeRule::on_demand};
std::string_view name(MoeRule rule);
Result<MoeRule> moe_rule_from_name(std::string_view text);

// An expert that some row chose.
struct ExpertLoad {
  int32_t expert = 0, rows = 0;
  bool resident = false;
  double ready_s = 0;  // of a resident one that is still arriving: when it is there
};

// When each timeline is free for this layer, in seconds from now.
struct PlanStart {
  double host_s = 0, device_s = 0, link_s = 0;
  double toll =
      0;  // seconds that a move has to save for each second of the link; infinite: the hybrid rule moves nothing
};

struct PlannedExpert {
  int32_t expert = 0, rows = 0;
  bool on_device = false, moved = false;
  double start_s = 0, end_s = 0;            // of its products
  double move_start_s = 0, move_end_s = 0;  // where moved
};

struct MoePlan {
  std::vector<PlannedExpert> experts;  // each unit's (and the link's) in the order in which it takes them
  double makespan_s = 0;
  double host_s = 0, device_s = 0, link_s = 0;  // time at work
};

// Loads must have rows > 0 and distinct experts. Costs O(n log n) for n loads.
MoePlan plan_layer(const ExpertCosts& costs, std::span<const ExpertLoad> loads, MoeRule rule,
                   const PlanStart& start = {});

// About the makespan of plan_layer(), for asking "what if" often: no timeline is made, and the memory counts as
// always shared. `sorted`: heaviest first. link_s, where wanted: the link's time in it.
double estimate_makespan(const ExpertCosts& costs, std::span<const ExpertLoad> sorted, MoeRule rule,
                         const PlanStart& start = {}, double* link_s = nullptr);

// The timeline of given queues: times and makespan are filled in. Host experts run in the order in which they
// stand, and so do the accelerator's; moved ones are moved in that order too.
MoePlan evaluate_plan(const ExpertCosts& costs, std::vector<PlannedExpert> experts, std::span<const ExpertLoad> loads,
                      const PlanStart& start = {});

}  // namespace llada
