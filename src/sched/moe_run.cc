#include "sched/moe_run.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace llada {
namespace {

constexpr int64_t kTryAgain = 16;  // steps, to guesses that did not pay

constexpr int32_t kMostSlices = 16;

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

MoeOptions MoeOptions::sliced(int32_t count) const {
  MoeOptions o = *this;
  o.cache.slots *= count;
  o.prefetching.most *= count;
  o.buffer *= count;
  return o;
}

int32_t worthwhile_slices(const ExpertCosts& whole, int64_t hidden, int64_t group, double missing, double rows) {
  const double host = whole.host_s(static_cast<int32_t>(std::ceil(rows))), move = whole.move_s();
  const double moved = std::max(1.0, missing) * host / (host + move);  // both end together
  for (int32_t count = kMostSlices; count > 1; --count)
    if (hidden % (count * group) == 0 && 2 * 3 * whole.piece_s * moved * count * count <= move) return count;
  return 1;
}

MoeRuntime::MoeRuntime(int32_t layers, int32_t experts, const ExpertCosts& costs, MoeOptions options)
    : layers_(layers),
      experts_(experts),
      costs_(costs),
      options_(std::move(options)),
      cache_(layers, experts, options_.cache, options_.buffer),
      placed_(static_cast<size_t>(layers), false),
      trials_(costs, options_.plan, options_.buffer) {}

std::vector<ExpertId> MoeRuntime::place(std::span<const LayerRouting> history) {
  LLADA_CHECK(history.size() == static_cast<size_t>(layers_));
  std::vector<ExpertId> ids;
  for (int32_t l = 0; l < layers_; ++l) {
    placed_[static_cast<size_t>(l)] = true;
    for (const int32_t e : heaviest_first(history[static_cast<size_t>(l)])) {
      if (cache_.full(l)) break;
      cache_.insert({l, e}, {});
      ids.push_back({l, e});
    }
  }
  return ids;
}

void MoeRuntime::begin_step() {
  ++step_;
  cache_.begin_pass();
}

bool MoeRuntime::wants_guesses() const { return options_.prefetch && (trials_.guesses() || step_ % kTryAgain == 0); }

// Background moves that this layer needs but that have not begun are given up: the plan decides about those
// anew. So are guesses that have not begun, since there are better ones now, and wrong ones about this layer.
void MoeRuntime::sort_arriving(const LayerRouting& routing, ExpertsPlan& out, const ExpertLink& link) {
  queued_ = 0;
  in_flight_.clear();
  for (const ExpertArrival& arrival : link.arriving) {
    const ExpertId id = arrival.id;
    const bool here = id.layer == out.layer;
    const bool wanted = here && routing.rows[static_cast<size_t>(id.expert)] > 0;
    const bool guess = cache_.books().where(id) == ExpertBooks::Where::buffer;
    if (!arrival.started && (guess || (here && wanted))) {
      out.cancelled.push_back(id);
      ++stats_.cancelled;
      cache_.erase(id);
      continue;
    }
    queued_ += arrival.started ? 0 : 1;
    if (!guess) mark_in_flight(id);
  }
  for (const ExpertId id : guesses(out.layer)) {
    if (routing.rows[static_cast<size_t>(id.expert)] > 0) continue;
    out.released.push_back(id);
    cache_.erase(id);
  }
}

std::vector<ExpertId> MoeRuntime::guesses(int32_t layer) const {
  std::vector<ExpertId> list;
  for (const ExpertId id : cache_.books().buffered())
    if (id.layer == layer) list.push_back(id);
  return list;
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
    if (!holds({out.layer, e})) coming.push_back(e);
  }
  for (size_t i = order.size(); i-- > 0;) {
    const ExpertId id{out.layer, order[i]};
    if (cache_.resident(id) && !in_flight_.contains(id) && !target[static_cast<size_t>(id.expert)])
      going.push_back(id.expert);
  }
  size_t next = 0;
  for (const int32_t e : coming) {
    ExpertMove move{.id = {out.layer, e}};
    if (cache_.full(out.layer)) {
      if (next >= going.size()) break;
      move.replaces = ExpertId{out.layer, going[next++]};
    }
    cache_.insert(move.id, {move.replaces});
    mark_in_flight(move.id);
    out.moves.push_back(move);
    ++stats_.moved;
  }
  out.moves_first = !out.moves.empty();
}

// Whether an expert may become resident, and in whose place.
std::optional<ExpertCache::Admission> MoeRuntime::admission(ExpertId id) const {
  if (!options_.cached) return std::nullopt;
  return cache_.place_for(id);
}

std::vector<ExpertLoad> MoeRuntime::loads_of(const LayerRouting& routing, int32_t layer, const ExpertLink& link) const {
  std::vector<ExpertLoad> loads;
  for (int32_t e = 0; e < experts_; ++e) {
    const ExpertId id{layer, e};
    const int32_t rows = routing.rows[static_cast<size_t>(e)];
    if (rows == 0) continue;
    ExpertLoad load{e, rows, holds(id), 0};
    for (const ExpertArrival& arrival : link.arriving)
      if (load.resident && arrival.id == id) load.ready_s = arrival.ready_s;
    loads.push_back(load);
  }
  return loads;
}

ExpertsPlan MoeRuntime::layer(int32_t layer, const LayerRouting& routing, std::span<const LayerRouting> ahead,
                              const LayerClock& clock) {
  ExpertsPlan out;
  out.layer = layer;
  out.slices = costs_.slices;
  ++stats_.layers;
  stats_.traffic = clock.link.traffic;
  sort_arriving(routing, out, clock.link);
  cache_.observe(layer, routing);
  const bool first = !placed_[static_cast<size_t>(layer)];
  placed_[static_cast<size_t>(layer)] = true;
  if (options_.cache.slots > 0 && (first || (options_.refresh > 0 && step_ % options_.refresh == 0)))
    refresh(routing, out);

  PlanStart& start = start_ = {.host_s = 0, .device_s = clock.device_busy_s, .link_s = clock.link.free_s};
  if (options_.prefetch && !ahead.empty()) start.toll = trials_.toll();
  if (out.moves_first) {
    start.link_s += static_cast<double>(out.moves.size()) * costs_.move_s();
    start.host_s = start.link_s;
    start.device_s = std::max(start.device_s, start.link_s);
  }
  const std::vector<ExpertLoad>& loads = loads_ = loads_of(routing, layer, clock.link);
  stats_.used += static_cast<int64_t>(loads.size());
  stats_.hits += std::ranges::count(loads, true, &ExpertLoad::resident);
  const MoePlan plan = plan_layer(costs_, loads, options_.plan, start);
  out.predicted_s = plan.makespan_s;
  double link_end = start.link_s;
  for (const PlannedExpert& e : plan.experts) {
    out.work.push_back({e.expert, e.rows, e.on_device});
    stats_.on_host += e.on_device ? 0 : 1;
    if (!e.moved) continue;
    ++stats_.moved;
    link_end = std::max(link_end, e.move_end_s);
    ExpertMove move{.id = {layer, e.expert}, .to = MoveTo::staging};
    const auto place = admission(move.id);
    // A move of this layer's own cannot take the place of an expert that this layer uses.
    if (place && !(place->victim && place->victim->layer == layer &&
                   routing.rows[static_cast<size_t>(place->victim->expert)] > 0)) {
      move.to = MoveTo::slot;
      move.replaces = place->victim;
      cache_.insert(move.id, *place);
      mark_in_flight(move.id);
    }
    out.moves.push_back(move);
  }
  keep_or_release(routing, out);
  if (options_.prefetch && (!ahead.empty() || asked_)) {
    prefetch(layer, ahead, clock, link_end, plan.makespan_s, out);
  }
  if (options_.cached && options_.plan != MoeRule::all_cpu)
    promote(routing, plan.makespan_s + clock.between_s - link_end, out);
  return out;
}

// Guesses about this layer that came true: where a slot is to be had for them they stay.
void MoeRuntime::keep_or_release(const LayerRouting& routing, ExpertsPlan& out) {
  for (const ExpertId id : guesses(out.layer)) {
    LLADA_CHECK(routing.rows[static_cast<size_t>(id.expert)] > 0);
    ++stats_.guessed_right;
    const auto place = admission(id);
    cache_.erase(id);
    if (place) {
      out.kept.push_back({.id = id, .replaces = place->victim});
      cache_.insert(id, *place);
      mark_in_flight(id);
    } else {
      out.released.push_back(id);
    }
  }
}

void MoeRuntime::prefetch(int32_t layer, std::span<const LayerRouting> ahead, const LayerClock& clock,
                          double link_free_s, double layer_s, ExpertsPlan& out) {
  std::vector<LayerAhead> guesses;
  double begins = layer_s + clock.between_s;
  for (size_t d = 0; d < ahead.size() && layer + static_cast<int32_t>(d) + 1 < layers_; ++d) {
    LayerAhead guess{
        .layer = layer + static_cast<int32_t>(d) + 1, .loads = {}, .begins_s = begins, .device_s = clock.device_busy_s};
    guess.loads = loads_of(ahead[d], guess.layer, {});
    const std::vector<float>& score = ahead[d].score;
    std::ranges::sort(guess.loads, [&](const ExpertLoad& a, const ExpertLoad& b) {
      return score[static_cast<size_t>(a.expert)] > score[static_cast<size_t>(b.expert)];
    });
    guesses.push_back(std::move(guess));
    begins += layer_s + clock.between_s;
  }
  asked_ = !guesses.empty();
  std::vector<LayerAhead> trials = guesses;
  for (LayerAhead& a : trials) a.loads = in_slots(std::move(a.loads), a.layer);
  trials_.observe(layer, in_slots(loads_, layer), trials, clock.device_busy_s, clock.between_s, asked_ ? asking_s_ : 0);
  const size_t room = static_cast<size_t>(options_.buffer) - cache_.books().buffered().size();
  // The link must not run dry before the next layer is planned. What begins later is better chosen there.
  const double idle_s = std::max(0.0, layer_s + clock.between_s - link_free_s);
  const auto most = static_cast<size_t>(std::ceil(idle_s / costs_.move_s()));
  const size_t queue = most - std::min(queued_, most);
  PrefetchOptions choosing = options_.prefetching;
  choosing.most = std::min(choosing.most, static_cast<int32_t>(std::min(room, queue)));
  choosing.toll = start_.toll;
  if (choosing.most <= 0) return;
  const double free_s = link_free_s + static_cast<double>(queued_) * costs_.move_s();
  for (const PrefetchChoice& choice : choose_prefetch(costs_, guesses, free_s, options_.plan, choosing)) {
    cache_.insert_guess(choice.id);
    out.moves.push_back({.id = choice.id, .to = MoveTo::buffer, .background = true});
    ++queued_;
    ++stats_.guessed;
  }
}

std::vector<ExpertLoad> MoeRuntime::in_slots(std::vector<ExpertLoad> loads, int32_t layer) const {
  for (ExpertLoad& load : loads) load.resident = cache_.resident({layer, load.expert}), load.ready_s = 0;
  std::ranges::stable_sort(loads, std::greater<>(), &ExpertLoad::rows);
  return loads;
}

// Experts that this layer wanted and did not have, for later steps. The victim may still
// be in this layer's queue: its place is taken over after its use.
void MoeRuntime::promote(const LayerRouting& routing, double idle_s, ExpertsPlan& out) {
  std::vector<int32_t> missing;
  const auto staged = [&](int32_t e) {
    return std::ranges::any_of(out.moves, [&](const ExpertMove& m) { return m.id == ExpertId{out.layer, e}; });
  };
  const auto worth = [&](int32_t e) { return cache_.worth({out.layer, e}); };
  for (const int32_t e : heaviest_first(routing))
    if (routing.rows[static_cast<size_t>(e)] > 0 && !holds({out.layer, e}) && !staged(e)) missing.push_back(e);
  std::ranges::stable_sort(missing, [&](int32_t a, int32_t b) { return worth(a) > worth(b); });
  idle_s -= static_cast<double>(queued_) * costs_.move_s();
  for (const int32_t e : missing) {
    // One that would still be moving when the next layer wants the link is in its way.
    if (idle_s < costs_.move_s()) break;
    const ExpertId id{out.layer, e};
    const auto place = admission(id);
    if (!place) continue;
    cache_.insert(id, *place);
    mark_in_flight(id);
    out.moves.push_back({.id = id, .replaces = place->victim, .background = true});
    ++queued_;
    ++stats_.promoted;
    idle_s -= costs_.move_s();
  }
}

}  // namespace llada
