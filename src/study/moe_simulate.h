// The time that a mixture of experts would take on a machine of a profile. The planner, the cache and the prefetch of
// sched decide, and emulated lanes (study/sim) carry it out layer by layer. The baselines run on the same trace with
// the same slots. Everything here is modelled.
//
// Words:
//   setting  a geometry on a profile with a share of the experts resident
//   line     one way of scheduling in a setting
//   phase    decode (one row a step), prefill (a prompt a step) or denoise (a block a step)
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "sched/moe_run.h"
#include "study/moe_geometry.h"
#include "study/moe_routing.h"
#include "study/simulate.h"

namespace llada {

struct MoeSimulateOptions {
  std::string profile, geometry;
  std::vector<double> shares = {0.25, 0.5, 0.75};  // of the experts, resident
  int32_t tokens = 96;                             // decoded
  int32_t prompts = 4, prompt = 128;
  int32_t blocks = 4, block = 0, steps = 16;  // of a diffusion model; block 0: the geometry's
  std::string routing;                        // a recording instead of a synthetic router: its layers, experts and rows
  int32_t slices = 0;                         // of an expert in the hybrid line; 0: as many as are worthwhile
  std::optional<bool> grouped;  // kernels of the accelerator take a list of experts; instead of the profile's
  std::string map_variant;
};

struct MoeLine {
  std::string name;
  double seconds = 0;                     // per step
  double hit_rate = 0;                    // wanted experts that were resident when their layer was planned
  double moved_bytes = 0;                 // per step, moves ahead included
  double host_share = 0;                  // of the wanted experts that the host computed
  double host = 0, device = 0, link = 0;  // share of the time that each lane is at work
  double bound_s = 0;                     // per step, that no plan can beat from the residents that this line had
  double predicted_off = 0;               // mean over layers of |predicted - executed| / executed makespan
  double predicted_worst = 0;             // of one layer
  double guessed_right = 0;               // share of the moves ahead on a guess that their layer wanted
  double plan_us = 0;                     // measured: time to decide one layer, on the machine that simulates
  int32_t refresh = 0;                    // TIDE's interval, the best of those tried
};

struct MoePhase {
  std::string phase;  // "decode", "prefill", "denoise"
  double share = 0;
  int32_t slots = 0;          // per layer
  int32_t slices = 1;         // of an expert, in the hybrid line
  double resident_bytes = 0;  // of all layers' slots
  TraceStatistics statistics;
  // Per step, that nobody can beat who has so many slots: every layer finds the experts that help it most resident.
  double bound_s = 0;
  // The same for who knows all routing to come, and has to move each missing expert; not in denoise.
  double known_bound_s = 0;
  std::vector<MoeLine> lines;  // the static mapping first
  const MoeLine* find(std::string_view name) const;
  double speed_up(std::string_view line, std::string_view over) const;  // 0 where one of them is absent
  const MoeLine& best_simple() const;  // of the mappings that systems have without a plan per layer
};

struct MoeSimulation {
  std::string profile, geometry, routing_source;
  double dense_bytes = 0;  // all weights but experts
  // How much an accelerator that shares the host's memory can address at once, and how often; 0: there is no such
  // limit.
  double window_bytes = 0, sessions = 0;
  double expert_bytes = 0, host_s = 0, device_s = 0, move_s = 0;  // of one expert with one row
  bool grouped = false;
  std::vector<MoePhase> phases;
};

// Lines of every phase. Simple ones are static (kTransformers), layer split (all experts of the first layers resident,
// as llama.cpp does it), all-cpu and on-demand. "+ guesses" is on-demand with guesses of the next layers' routers
// (AdapMoE, arXiv 2408.10284). Then "+ scheduling", "+ cache", "+ prefetch" (each alone on top of static), and hybrid
// (all three, and slices where they are worthwhile; then "hybrid, whole" is without). denoise also has tide. The cache
// rules alone are "cache mrs" and so on, which give hit rates.
Result<MoeSimulation> simulate_moe(MoeSimulateOptions options);

// Spans of the lanes of the hybrid line's last steps (at most three) at the first share.
Result<std::vector<SimulatedSpan>> simulate_moe_spans(MoeSimulateOptions options);

}  // namespace llada
