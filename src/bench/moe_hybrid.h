// Layers of a mixture shared out between this machine's CPU and an emulated accelerator: what the planner said a
// layer would take, and what it took. The host's experts are computed and timed (measured); the accelerator and
// the link are a profile's, on emulated lanes (emulated); a layer ends when both have. The planner's costs of the
// host are measured when the benchmark begins. That the link would read the host's memory too does not happen here,
// and is not planned for. Routing is synthetic, as steady as TIDE measured of LLaDA2.
#pragma once
#include <string>
#include <vector>

#include "bench/moe.h"
#include "study/sim/profile.h"

namespace llada::bench {

struct MoeHybridOptions {
  std::string profile;
  double share = 0;  // of the experts that the accelerator holds
  int32_t rows = 32, blocks = 2, steps = 6, layers = 4;
  int repeats = 5;  // of measuring the host's costs
};

struct MoeHybridLayer {
  double predicted_ms = 0, real_ms = 0;  // means over the steps
  double host_ms = 0;                    // measured
};

struct MoeHybridLine {
  std::string name;
  std::vector<MoeHybridLayer> layers;
  double predicted_off = 0;  // mean over layers and steps of |predicted - real| / real
  double hit_rate = 0, host_share = 0;
  double moved_bytes = 0;                 // per step
  double host = 0, device = 0, link = 0;  // share of the time that each is at work
  double step_ms() const;                 // all layers of a step, real
};

struct MoeHybridResult {
  std::string profile;
  double share = 0;
  int32_t slots = 0, rows = 0;
  ExpertCosts costs;  // the host's measured
  std::vector<MoeHybridLine> lines;
};

// `config`: of the experts of `test`.
Result<MoeHybridResult> measure_hybrid(MoeTest& test, const ModelConfig& config, const MoeHybridOptions& options);

}  // namespace llada::bench
