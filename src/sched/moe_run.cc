#include "sched/moe_run.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace llada {
namespace {

// Background moves that may stand in the link's queue: enough that it does not run dry within a layer, few
// enough that they are not out of date when they begin.
constexpr size_t kQueue = 4;

std::vector<int32_t> heaviest_first(const LayerRouting& routing) {
  std::vector<int32_t> order(routing.rows.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) {
    const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
    return std::pair(routing.rows[i], routing.score[i]) > std::pair(routing.rows[j], routing.score[j]);
  });
  return order;
}

}  // namespace

MoeRuntime::MoeRuntime(int32_t layers, int32_t experts, const ExpertCosts& costs, MoeOptions options)
    : layers_(layers),
      experts_(experts),
      costs_(costs),
      options_(std::move(options)),
      cache_(layers, experts, options_.cache),
      residency_(layers, experts, options_.cache.slots, options_.residency),
      placed_(static_cast<size_t>(layers), false) {}

std::vector<ExpertId> MoeRuntime::place(std::span<const LayerRouting> history) {
  LLADA_CHECK(history.size() == static_cast<size_t>(layers_));
  std::vector<ExpertId> ids;
  for (int32_t l = 0; l < layers_; ++l) {
    placed_[static_cast<size_t>(l)] = true;
    for (const int32_t e : heaviest_first(history[static_cast<size_t>(l)])) {
      if (cache_.count(l) >= options_.cache.slots) break;
      cache_.insert({l, e}, {});
      ids.push_back({l, e});
    }
  }
  return ids;
}

void MoeRuntime::begin_step(bool block) {
  ++step_;
  cache_.begin_pass();
  if (block) residency_.begin_block();
}

// Background moves that turned out wrong, or that this layer needs but that have not begun: the plan decides
// about those anew.
void MoeRuntime::settle(const LayerRouting& routing, ExpertsPlan& out, const ExpertLink& link) {
  queued_ = 0;
  for (const ExpertArrival& arrival : link.arriving) {
    const auto found = ahead_.find(arrival.id);
    const bool guessed = found != ahead_.end() && found->second;
    const bool here = arrival.id.layer == out.layer;
    const bool wanted = here && routing.rows[static_cast<size_t>(arrival.id.expert)] > 0;
    if (here && !arrival.started && (wanted || guessed)) {
      out.cancelled.push_back(arrival.id);
      cache_.erase(arrival.id);
      if (found != ahead_.end()) ahead_.erase(found);
      ++stats_.cancelled;
    } else if (!arrival.started) {
      ++queued_;
    }
  }
}

// The residents become the heaviest experts of this step; no more go than come.
void MoeRuntime::refresh(const LayerRouting& routing, ExpertsPlan& out) {
  std::vector<int32_t> coming, going;
  const std::vector<int32_t> order = heaviest_first(routing);
  int32_t taken = 0;
  std::vector<bool> target(static_cast<size_t>(experts_), false);
  for (const int32_t e : order) {
    if (taken++ >= options_.cache.slots || routing.rows[static_cast<size_t>(e)] == 0) break;
    target[static_cast<size_t>(e)] = true;
    if (!cache_.resident({out.layer, e})) coming.push_back(e);
  }
  for (size_t i = order.size(); i-- > 0;)
    if (cache_.resident({out.layer, order[i]}) && !target[static_cast<size_t>(order[i])]) going.push_back(order[i]);
  size_t next = 0;
  for (const int32_t e : coming) {
    ExpertMove move{.layer = out.layer, .expert = e};
    ExpertCache::Admission place;
    if (cache_.count(out.layer) >= options_.cache.slots) {
      if (next >= going.size()) break;
      place.victim = ExpertId{out.layer, going[next++]};
      move.replaced_layer = out.layer, move.replaced = place.victim->expert;
    }
    cache_.insert({out.layer, e}, place);
    out.moves.push_back(move);
    ++stats_.moved;
  }
  out.moves_first = !out.moves.empty();
}

// Whether an expert may become resident, and in whose place.
std::optional<ExpertCache::Admission> MoeRuntime::admission(ExpertId id) const {
  if (!options_.blocks) return cache_.place_for(id);
  if (!residency_.wanted(id)) return std::nullopt;
  if (!cache_.full(id.layer)) return ExpertCache::Admission{};
  std::optional<ExpertId> victim;
  for (const int32_t e : cache_.residents(id.layer)) {
    const ExpertId old{id.layer, e};
    if (ahead_.contains(old) || !residency_.replaces(id, old)) continue;
    if (!victim || residency_.load(old) < residency_.load(*victim)) victim = old;
  }
  if (!victim) return std::nullopt;
  return ExpertCache::Admission{victim};
}

void MoeRuntime::move_ahead(ExpertId id, const ExpertCache::Admission& place, bool guessed, ExpertsPlan& out) {
  ExpertMove move{.layer = id.layer, .expert = id.expert, .background = true};
  if (place.victim) {
    move.replaced_layer = place.victim->layer, move.replaced = place.victim->expert;
    ahead_.erase(*place.victim);
  }
  cache_.insert(id, place);
  ahead_[id] = guessed;
  out.moves.push_back(move);
  ++queued_;
  ++stats_.ahead;
}

ExpertsPlan MoeRuntime::layer(int32_t layer, const LayerRouting& routing, std::span<const LayerRouting> ahead,
                              const LayerClock& clock) {
  ExpertsPlan out;
  out.layer = layer;
  ++stats_.layers;
  settle(routing, out, clock.link);
  cache_.observe(layer, routing);
  if (options_.blocks && residency_.observe(layer, routing)) ++stats_.replans;
  const bool first = !placed_[static_cast<size_t>(layer)];
  placed_[static_cast<size_t>(layer)] = true;
  if (options_.cache.slots > 0 && (first || (options_.refresh > 0 && step_ % options_.refresh == 0)))
    refresh(routing, out);

  PlanStart start{.host_s = 0, .device_s = clock.device_busy_s, .link_s = clock.link.free_s};
  if (out.moves_first) {
    start.link_s += static_cast<double>(out.moves.size()) * costs_.move_s();
    start.host_s = start.link_s;
    start.device_s = std::max(start.device_s, start.link_s);
  }
  std::vector<ExpertLoad> loads;
  for (int32_t e = 0; e < experts_; ++e) {
    const ExpertId id{layer, e};
    const int32_t rows = routing.rows[static_cast<size_t>(e)];
    if (rows == 0) continue;
    ExpertLoad load{e, rows, cache_.resident(id), 0};
    for (const ExpertArrival& arrival : clock.link.arriving)
      if (load.resident && arrival.id == id) load.ready_s = arrival.ready_s;
    ++stats_.used;
    stats_.hits += load.resident ? 1 : 0;
    if (const auto found = ahead_.find(id); found != ahead_.end()) {
      if (load.resident) ++stats_.ahead_used;
      ahead_.erase(found);
    }
    loads.push_back(load);
  }
  const MoePlan plan = plan_layer(costs_, loads, options_.plan, start);
  out.predicted_s = plan.makespan_s;
  double link_end = start.link_s;
  for (const PlannedExpert& e : plan.experts) {
    out.work.push_back({e.expert, e.rows, e.on_device});
    stats_.on_host += e.on_device ? 0 : 1;
    if (!e.moved) continue;
    ++stats_.moved;
    link_end = std::max(link_end, e.move_end_s);
    ExpertMove move{.layer = layer, .expert = e.expert, .stays = false};
    const ExpertId id{layer, e.expert};
    if (const auto place = options_.cached ? admission(id) : std::nullopt) {
      // What is to go may be in this layer's own queue (a block's set is planned by load, not by use).
      const bool in_use = place->victim && place->victim->layer == layer &&
                          routing.rows[static_cast<size_t>(place->victim->expert)] > 0;
      if (!in_use) {
        move.stays = true;
        if (place->victim) {
          move.replaced_layer = place->victim->layer, move.replaced = place->victim->expert;
          ahead_.erase(*place->victim);
        }
        cache_.insert(id, *place);
      }
    }
    out.moves.push_back(move);
  }
  if (options_.prefetch && !ahead.empty())
    prefetch(layer, ahead, clock, link_end, plan.makespan_s, out);
  if (options_.cached && options_.plan != MoeRule::all_cpu)
    promote(routing, plan.makespan_s + clock.between_s - link_end, out);
  return out;
}

void MoeRuntime::prefetch(int32_t layer, std::span<const LayerRouting> ahead, const LayerClock& clock,
                          double link_free_s, double layer_s, ExpertsPlan& out) {
  std::vector<LayerAhead> guesses;
  double begins = layer_s + clock.between_s;
  for (size_t d = 0; d < ahead.size() && layer + static_cast<int32_t>(d) + 1 < layers_; ++d) {
    LayerAhead guess{.layer = layer + static_cast<int32_t>(d) + 1, .loads = {}, .begins_s = begins,
                     .device_s = clock.device_busy_s};
    for (int32_t e = 0; e < experts_; ++e) {
      const int32_t rows = ahead[d].rows[static_cast<size_t>(e)];
      if (rows == 0) continue;
      const ExpertId id{guess.layer, e};
      guess.loads.push_back({e, rows, cache_.resident(id), 0});
      cache_.protect(id);  // a guessed expert does not make room for another
    }
    guesses.push_back(std::move(guess));
    begins += layer_s + clock.between_s;
  }
  const double free_s = link_free_s + static_cast<double>(queued_) * costs_.move_s();
  for (const PrefetchChoice& choice : choose_prefetch(costs_, guesses, free_s, options_.plan, options_.prefetching)) {
    if (queued_ >= kQueue) break;
    if (cache_.resident(choice.id)) continue;
    // A guess that was chosen by its gain does not have to be worth more by its history.
    if (const auto place = cache_.place_for(choice.id, true)) move_ahead(choice.id, *place, true, out);
  }
}

// Experts that this layer wanted and did not have, or that its block should have, for later steps. What goes may
// still be in this layer's queue: its place is taken over after its use.
void MoeRuntime::promote(const LayerRouting& routing, double idle_s, ExpertsPlan& out) {
  std::vector<int32_t> missing;
  if (options_.blocks) {
    for (const int32_t e : residency_.target(out.layer))
      if (!cache_.resident({out.layer, e})) missing.push_back(e);
  } else {
    for (const int32_t e : heaviest_first(routing))
      if (routing.rows[static_cast<size_t>(e)] > 0 && !cache_.resident({out.layer, e})) missing.push_back(e);
    std::ranges::stable_sort(missing, [&](int32_t a, int32_t b) {
      return cache_.worth({out.layer, a}) > cache_.worth({out.layer, b});
    });
  }
  for (const int32_t e : missing) {
    if (queued_ >= kQueue || idle_s <= 0) break;
    const auto place = admission({out.layer, e});
    if (!place) continue;
    const ExpertId id{out.layer, e};
    bool staged = false;
    for (const ExpertMove& move : out.moves) staged |= move.layer == id.layer && move.expert == id.expert;
    if (staged) continue;
    move_ahead(id, *place, false, out);
    idle_s -= costs_.move_s();
  }
}

}  // namespace llada
