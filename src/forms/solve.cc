#include "forms/solve.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/random.h"

namespace llada::forms {
namespace {

// Random numbers of a position's choice between states and classes; no token ids, nor kPositionDraw.
constexpr uint64_t kStateDraw = 0xfffffff0, kClassDraw = 0xfffffff1;

// One of `count` things by the logarithms of their weights.
template <class Weight>
size_t drawn(size_t count, double uniform, Weight weight) {
  double most = kImpossible, sum = 0;
  for (size_t i = 0; i < count; ++i) most = std::max(most, weight(i));
  for (size_t i = 0; i < count; ++i) sum += std::exp(weight(i) - most);
  double left = uniform * sum;
  size_t last = count;
  for (size_t i = 0; i < count; ++i) {
    const double part = std::exp(weight(i) - most);
    if (!(part > 0)) continue;
    last = i;
    if ((left -= part) < 0) break;
  }
  return last;
}

}  // namespace

Solver::Solver(std::shared_ptr<const TokenForm> form, bool closed, int64_t call_work)
    : form_(std::move(form)),
      closed_(closed || form_->edges(form_->end()).empty()),
      call_work_(call_work),
      place_(static_cast<size_t>(form_->states()), -1),
      scores_(static_cast<size_t>(form_->sets())),
      seen_(scores_.size()),
      set_weight_(scores_.size()),
      class_weight_(static_cast<size_t>(form_->classes().count())) {}

bool Solver::can_end(int32_t state, int64_t left) {
  if (!closed_) return form_->least(state) <= left;
  const auto states = static_cast<size_t>(form_->states());
  if (ends_.empty()) {
    ends_.emplace_back(states);
    for (int32_t s = 0; s < form_->end(); ++s) ends_[0][static_cast<size_t>(s)] = form_->complete(s);
  }
  while (std::ssize(ends_) <= left) {
    const std::vector<char>& shorter = ends_.back();
    std::vector<char> longer(states);
    for (int32_t s = 0; s < form_->end(); ++s)
      longer[static_cast<size_t>(s)] = std::ranges::any_of(
          form_->edges(s), [&](const TokenForm::Edge& e) { return shorter[static_cast<size_t>(e.to)] != 0; });
    ends_.push_back(std::move(longer));
  }
  return ends_[static_cast<size_t>(left)][static_cast<size_t>(state)];
}

void Solver::index(const Layer& layer) {
  for (const int32_t s : placed_) place_[static_cast<size_t>(s)] = -1;
  placed_ = layer.states;
  for (size_t i = 0; i < placed_.size(); ++i) place_[static_cast<size_t>(placed_[i])] = static_cast<int32_t>(i);
}

std::span<const int32_t> Solver::walk(std::span<const Slot> slots, Track& track) {
  if (track.states.empty()) track.states = {form_->start()};
  size_t i = 0;
  while (i < track.tokens.size() && i < slots.size() && slots[i].token == track.tokens[i]) ++i;
  track.tokens.resize(i);
  track.states.resize(i + 1);
  if (i < track.read) track.read = 0;
  for (; i < slots.size() && slots[i].token >= 0; ++i) {
    const int32_t state = track.states.back();
    work_ += state < 0 ? 0 : std::ssize(form_->edges(state));
    track.tokens.push_back(slots[i].token);
    track.states.push_back(state < 0 ? -1 : form_->step(state, slots[i].token));
  }
  return track.states;
}

// States that are reached at the borders up to `count`, or up to where the work ends.
bool Solver::lay_ahead(std::span<const Slot> slots, size_t count) {
  const auto size = static_cast<int64_t>(slots.size());
  size_t least = first_;  // borders that cannot be left out
  bool predicted = false;
  for (size_t i = first_; i < count; ++i)
    if (slots[i].token >= 0 || (slots[i].scores != nullptr && !std::exchange(predicted, true))) least = i + 1;
  const int64_t begun = work_;
  for (size_t i = first_; i < count; ++i) {
    begin_slot();
    Layer& next = layer(i + 1);
    next.states.clear();
    index({});
    const int64_t left = size - static_cast<int64_t>(i) - 1;
    const bool decided = slots[i].token >= 0;
    for (const int32_t s : layer(i).states) {
      work_ += std::ssize(form_->edges(s));
      for (const TokenForm::Edge& edge : form_->edges(s)) {
        // Of predicted slots sets are looked at on the way back.
        if (!decided && slots[i].scores != nullptr &&
            std::exchange(seen_[static_cast<size_t>(edge.set)], stamp_) != stamp_)
          work_ += std::ssize(form_->classes_of(edge.set));
        int32_t& place = place_[static_cast<size_t>(edge.to)];
        if (place >= 0 || form_->least(edge.to) > left) continue;
        if (decided && score(slots[i], edge.set).best == kImpossible) continue;
        place = 0;
        next.states.push_back(edge.to);
        placed_.push_back(edge.to);
      }
    }
    for (const Turn& turn : turns_)
      if (turn.border == i + 1)
        std::erase_if(next.states, [&](int32_t s) { return std::ranges::find(turn.states, s) == turn.states.end(); });
    if (next.states.empty()) return false;
    if (work_ - begun > call_work_ && i + 1 >= least) {
      count_ = i + 1;
      return true;
    }
  }
  return true;
}

void Solver::find_string(const Track& track) {
  string_ = form_->string_of(track.states.back());
  string_begin_ = first_;
  while (string_ >= 0 && string_begin_ > 0 && form_->string_of(track.states[string_begin_ - 1]) == string_ &&
         !form_->has_quote(track.tokens[string_begin_ - 1]))
    --string_begin_;
}

double Solver::string_cost(size_t border, int32_t state) const {
  if (string_ < 0 || form_->string_of(state) != string_) return 0;
  const auto over = static_cast<double>(border) - static_cast<double>(string_begin_ + size_t{kFreeTokens});
  return std::clamp(over * kTokenCost, 0.0, kMostTokenCost);
}

// The borders from the first undecided slot to the first `count` slots; behind these all are open. False: nothing fits.
bool Solver::lay(std::span<const Slot> slots, size_t count, Track& track, Sums sums) {
  heats_ = sums == Sums::all;
  const std::span<const int32_t> states = walk(slots, track);
  first_ = states.size() - 1;
  count_ = count = std::max(count, first_);
  layers_.resize(std::max(layers_.size(), count - first_ + 1));
  const int32_t state = states.back();
  if (state < 0 || form_->least(state) > std::ssize(slots) - static_cast<int64_t>(first_)) return false;
  layer(first_).states = {state};
  find_string(track);
  if (!lay_ahead(slots, count)) return false;
  Layer& last = layer(count_);
  std::erase_if(last.states, [&](int32_t s) { return !can_end(s, std::ssize(slots) - static_cast<int64_t>(count_)); });
  last.best.assign(last.states.size(), 0);
  last.behind = last.heated = last.best;
  for (size_t i = count_; i-- > first_;) sum_behind(slots[i], i, sums);
  return !layer(first_).states.empty();
}

bool Solver::fits(std::span<const Slot> slots, Track& track) {
  size_t count = 0;
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i].token >= 0 || slots[i].scores != nullptr) count = i + 1;
  turns_.clear();
  if (!lay(slots, count, track, Sums::none)) return false;
  return form_->counted() == nullptr || find_fitting(slots, track);
}

const TokenForm::Edge* Solver::pick(const Slot& slot, size_t at, int32_t state, const Drawing& drawing) {
  const std::span<const TokenForm::Edge> edges = form_->edges(state);
  const Layer& next = layer(at + 1);
  const auto value = [&](size_t e, bool heated) {
    const int32_t place = place_[static_cast<size_t>(edges[e].to)];
    if (place < 0) return kImpossible;
    const SetScore& s = score(slot, edges[e].set);
    const auto to = static_cast<size_t>(place);
    return heated ? s.heated + next.heated[to] : s.best + next.best[to];
  };
  if (drawing.sampled) {
    const double u =
        uniform(drawing.seed, drawing.forward, static_cast<uint64_t>(drawing.first_position) + at, kStateDraw);
    const size_t e = drawn(edges.size(), u, [&](size_t i) { return value(i, true); });
    return e < edges.size() ? &edges[e] : nullptr;
  }
  const TokenForm::Edge* best = nullptr;
  double most = kImpossible;
  for (size_t e = 0; e < edges.size(); ++e)
    if (const double v = value(e, false); v > most) most = v, best = &edges[e];
  return best;
}

int32_t Solver::pick_class(const Slot& slot, int32_t set, const Drawing& drawing, size_t at) {
  if (!drawing.sampled) return score(slot, set).best_class;
  const std::span<const int32_t> classes = form_->classes_of(set);
  const double u =
      uniform(drawing.seed, drawing.forward, static_cast<uint64_t>(drawing.first_position) + at, kClassDraw);
  return classes[drawn(classes.size(), u, [&](size_t i) {
    const ClassScore& s = slot.scores->classes[static_cast<size_t>(classes[i])];
    return s.token < 0 ? kImpossible : s.heated;
  })];
}

// The path through the window, without what is decided.
bool Solver::take_path(std::span<const Slot> slots, const Drawing& drawing) {
  path_.clear();
  int32_t state = layer(first_).states.front();
  for (size_t i = first_; i < count_; ++i) {
    begin_slot();
    index(layer(i + 1));
    const TokenForm::Edge* edge = pick(slots[i], i, state, drawing);
    if (edge == nullptr) return false;
    Taken taken{edge, slots[i].token, -1};
    if (slots[i].token < 0 && slots[i].scores != nullptr) {
      taken.of_class = pick_class(slots[i], edge->set, drawing, i);
      taken.token = slots[i].scores->classes[static_cast<size_t>(taken.of_class)].token;
    }
    path_.push_back(taken);
    state = edge->to;
  }
  return true;
}

std::vector<Chosen> Solver::solve(std::span<const Slot> slots, Track& track, const Drawing& drawing) {
  size_t count = 0;
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i].token >= 0 || slots[i].scores != nullptr) count = i + 1;
  turns_.clear();
  if (form_->counted() != nullptr) {
    if (!bounded_path(slots, count, track, drawing)) return {};
  } else if (!lay(slots, count, track, drawing.sampled ? Sums::all : Sums::best) || !take_path(slots, drawing)) {
    return {};
  }
  std::vector<Chosen> path;
  layer(first_).before = {0};
  for (size_t i = first_; i < count_; ++i) {
    const Taken& taken = path_[i - first_];
    begin_slot();
    index(layer(i + 1));
    sum_before(slots[i], i, taken.of_class >= 0);
    if (taken.of_class >= 0) {
      path.push_back({.slot = static_cast<int32_t>(i)});
      describe(slots[i], taken.of_class, path.back());
      if (path.back().token != taken.token) {  // another one of the class, about which nothing is known
        path.back().token = taken.token;
        path.back().probability = std::min(path.back().probability, 1e-6), path.back().margin = 0;
      }
    }
  }
  return path;
}

std::vector<int32_t> Solver::fixed(std::span<const Slot> slots, size_t count, Track& track) {
  for (size_t i = count; i < slots.size(); ++i)
    if (slots[i].token >= 0) count = i + 1;
  std::vector<int32_t> out(count, -1);
  turns_.clear();
  if (!lay(slots, count, track, Sums::none)) return out;
  for (size_t i = first_; i < count_; ++i) {
    if (slots[i].token >= 0) continue;
    index(layer(i + 1));
    int32_t only = -2;  // none seen
    for (const int32_t s : layer(i).states)
      for (const TokenForm::Edge& edge : form_->edges(s)) {
        if (place_[static_cast<size_t>(edge.to)] < 0) continue;
        const int32_t token = form_->only_token(edge.set);
        only = only == -2 || only == token ? token : -1;
      }
    out[i] = std::max(only, -1);
  }
  return out;
}

void Solver::write_fixed(std::span<Slot> slots, Track& track) {
  int32_t state = form_->start();
  for (size_t i = walk(slots, track).size() - 1; i < slots.size(); ++i) {
    state = i < track.states.size() ? track.states[i] : state;
    if (state < 0 || state == form_->end()) return;
    if (slots[i].token >= 0) {
      state = form_->step(state, slots[i].token);
      continue;
    }
    const TokenForm::Edge* only = nullptr;
    for (const TokenForm::Edge& edge : form_->edges(state)) {
      if (!can_end(edge.to, static_cast<int64_t>(slots.size() - i) - 1)) continue;
      if (only != nullptr) return;
      only = &edge;
    }
    if (only == nullptr || form_->only_token(only->set) < 0) return;
    slots[i].token = form_->only_token(only->set);
    state = only->to;
  }
}

int64_t Solver::bytes(const TokenForm& form, int64_t positions, int64_t call_work) {
  constexpr int64_t kState = sizeof(int32_t) + 4 * sizeof(double);  // of a border
  const int64_t borders = std::min(positions * form.states(), call_work + form.edges_of_all());
  return borders * kState + form.states() * int64_t{sizeof(int32_t)} + form.sets() * int64_t{sizeof(SetScore) + 16} +
         form.classes().count() * int64_t{sizeof(double)} + positions * int64_t{3 * sizeof(int32_t) + sizeof(Taken)};
}

int64_t Solver::work_of(int64_t slots, int64_t most) {
  int64_t work = 0;
  std::vector<int32_t> states = {form_->start()}, next;
  for (int64_t i = 0; i < slots && work <= most; ++i) {
    begin_slot();
    index({});
    next.clear();
    const int64_t before = work;
    for (const int32_t s : states)
      for (const TokenForm::Edge& edge : form_->edges(s)) {
        int64_t& seen = seen_[static_cast<size_t>(edge.set)];
        work += 1 + (std::exchange(seen, stamp_) != stamp_ ? std::ssize(form_->classes_of(edge.set)) : 0);
        int32_t& place = place_[static_cast<size_t>(edge.to)];
        if (place >= 0 || form_->least(edge.to) > slots - i - 1) continue;
        place = 0;
        next.push_back(edge.to);
        placed_.push_back(edge.to);
      }
    std::ranges::sort(next);
    if (next == states) return work + (work - before) * (slots - i - 1);  // what follows is the same
    std::swap(states, next);
  }
  return work;
}

int64_t Solver::shortest() { return form_->least(form_->start()); }

}  // namespace llada::forms
