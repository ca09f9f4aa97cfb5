// The experts of a model over a run: takes each layer's routing, plans the work of the units and the link, and records
// which experts are on the accelerator. Decisions are made here, times pass on the device (real or simulated). Nothing
// decided here changes a result by more than the rounding of the unit that an expert is computed on.
//
// With sliced costs everything here is about slices: layers x (experts * slices), and options made by sliced().
//
// Beside the hybrid plan with its cache and its prefetch stand rivals to compare it with. They are a fixed mapping by
// frequency, everything on the host, everything moved on demand, and TIDE's refresh (arXiv 2605.20179). The last makes
// the experts with the most rows of a step resident in every `refresh`-th step, by copies that everything waits for.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "sched/moe_cache.h"
#include "sched/moe_plan.h"
#include "sched/moe_prefetch.h"
#include "sched/moe_trials.h"

namespace llada {

struct MoeOptions {
  MoeRule plan = MoeRule::hybrid;
  CacheOptions cache;
  bool cached = true;    // residents change by cache.rule; false: the first residents stay
  bool prefetch = true;  // experts of the next layers while the link is idle
  int32_t refresh = 0;   // TIDE's: steps between two refreshes; 0: none
  PrefetchOptions prefetching;
  int32_t buffer = 4;  // places for experts moved ahead on a guess

  // The same for slices of experts, `count` to each.
  MoeOptions sliced(int32_t count) const;
};

// How many slices an expert of `hidden` values is worth dividing into, at most 16, where a layer's step lacks about
// `missing` experts with so many rows each. At its end the host or the link waits for about half a slice's move of the
// other, and each slice that is moved starts copies of its own. The sum of both is the least where the number of slices
// is the root of move / (2 x starts x moved experts). A slice's columns of the down matrix must begin at a multiple of
// `group` values.
int32_t worthwhile_slices(const ExpertCosts& whole, int64_t hidden, int64_t group, double missing, double rows);

// The state of the link and the units when a layer's routing is known.
struct LayerClock {
  ExpertLink link;
  double device_busy_s = 0;  // work of the accelerator before its experts (a shared expert)
  double between_s = 0;      // from the end of a layer's experts to the next layer's routing
};

struct MoeStats {
  int64_t layers = 0;                      // layer passes
  int64_t used = 0, hits = 0;              // experts wanted; of them resident when their layer was planned
  int64_t on_host = 0, moved = 0;          // experts computed by the host; moved for the layer at hand
  int64_t guessed = 0, guessed_right = 0;  // moved ahead on a guess; of those wanted by their layer
  int64_t promoted = 0;                    // moved in the background for later steps
  int64_t cancelled = 0;                   // background moves that never began
  ExpertTraffic traffic;                   // as the device last said
  double guess_s = 0, plan_s = 0;          // wall clock of asking the next layers' routers, and of planning
};

class MoeRuntime {
 public:
  MoeRuntime(int32_t layers, int32_t experts, const ExpertCosts& costs, MoeOptions options);

  // Chooses the first residents: of each layer the experts with the most rows in `history`, which has an entry a layer.
  // Where layers share their slots, the first layers fill them. Returns the experts to place.
  std::vector<ExpertId> place(std::span<const LayerRouting> history);

  void begin_step();

  // Whether guesses are worth the time that add_seconds() says. Where they are not, they are still tried now and again.
  bool wants_guesses() const;

  // A layer whose routing has become known. `ahead`: guesses for the layers after it, nearest first; may be
  // empty. The plan must be carried out: the books count on it. Residents without history are the first step's
  // heaviest, moved before anything computes.
  ExpertsPlan layer(int32_t layer, const LayerRouting& routing, std::span<const LayerRouting> ahead,
                    const LayerClock& clock);

  const MoeStats& stats() const { return stats_; }
  // Adds the caller's seconds of asking for guesses (0: it did not ask) and of planning the last layer.
  void add_seconds(double guessing, double planning) {
    stats_.guess_s += guessing, stats_.plan_s += planning;
    if (guessing > 0) asking_s_ = guessing;
  }
  // The loads and the start that the last layer was planned from.
  const std::vector<ExpertLoad>& loads() const { return loads_; }
  const PlanStart& start() const { return start_; }

 private:
  bool holds(ExpertId id) const { return cache_.books().holds(id); }
  std::vector<ExpertId> guesses(int32_t layer) const;  // in the buffer
  // It cannot make room for another before it is there.
  void mark_in_flight(ExpertId id) { in_flight_.insert(id), cache_.protect(id); }
  void sort_arriving(const LayerRouting& routing, ExpertsPlan& out, const ExpertLink& link);
  void refresh(const LayerRouting& routing, ExpertsPlan& out);
  std::vector<ExpertLoad> loads_of(const LayerRouting& routing, int32_t layer, const ExpertLink& link) const;
  std::optional<ExpertCache::Admission> admission(ExpertId id) const;
  void keep_or_release(const LayerRouting& routing, ExpertsPlan& out);
  void prefetch(int32_t layer, std::span<const LayerRouting> ahead, const LayerClock& clock, double link_free_s,
                double layer_s, ExpertsPlan& out);
  // Loads with those alone resident that are in a slot, heaviest first.
  std::vector<ExpertLoad> in_slots(std::vector<ExpertLoad> loads, int32_t layer) const;
  void promote(const LayerRouting& routing, double idle_s, ExpertsPlan& out);

  int32_t layers_, experts_;
  ExpertCosts costs_;
  MoeOptions options_;
  ExpertCache cache_;
  std::vector<bool> placed_;      // per layer
  std::set<ExpertId> in_flight_;  // residents that are not there yet
  size_t queued_ = 0;             // background moves that have not begun
  MoeTrials trials_;
  int64_t step_ = -1;
  bool asked_ = false;   // about the layer to come
  double asking_s_ = 0;  // the last time
  std::vector<ExpertLoad> loads_;
  PlanStart start_;
  MoeStats stats_;
};

}  // namespace llada
