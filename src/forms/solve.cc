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

Solver::Solver(std::shared_ptr<const TokenForm> form, bool closed)
    : form_(std::move(form)),
      closed_(closed || form_->edges(form_->end()).empty()),
      place_(static_cast<size_t>(form_->states()), -1),
      scores_(static_cast<size_t>(form_->sets())),
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

const Solver::SetScore& Solver::score(const Slot& slot, int32_t set) {
  SetScore& out = scores_[static_cast<size_t>(set)];
  if (out.stamp == stamp_) return out;
  out = {.stamp = stamp_};
  if (slot.token >= 0) {
    const TokenClasses& classes = form_->classes();
    const int32_t c = slot.token < classes.tokens() ? classes.class_of()[static_cast<size_t>(slot.token)] : -1;
    if (c >= 0 && std::ranges::binary_search(form_->classes_of(set), c))
      out.best_class = c, out.best = out.mass = out.heated = 0;
    return out;
  }
  if (slot.scores == nullptr) {
    out.best = out.mass = out.heated = 0;
    return out;
  }
  double most = kImpossible, hottest = kImpossible, sum = 0, heated = 0;
  const auto& classes = slot.scores->classes;
  for (const int32_t c : form_->classes_of(set)) {
    const ClassScore& s = classes[static_cast<size_t>(c)];
    if (s.token < 0) continue;
    if (s.best > out.best) out.best = s.best, out.best_class = c;
    most = std::max(most, s.mass), hottest = std::max(hottest, s.heated);
  }
  if (out.best_class < 0) return out;
  for (const int32_t c : form_->classes_of(set)) {
    const ClassScore& s = classes[static_cast<size_t>(c)];
    if (s.token < 0) continue;
    sum += std::exp(s.mass - most), heated += std::exp(s.heated - hottest);
  }
  out.mass = most + std::log(sum), out.heated = hottest + std::log(heated);
  return out;
}

void Solver::index(const Layer& layer) {
  for (const int32_t s : placed_) place_[static_cast<size_t>(s)] = -1;
  placed_ = layer.states;
  for (size_t i = 0; i < placed_.size(); ++i) place_[static_cast<size_t>(placed_[i])] = static_cast<int32_t>(i);
}

// Lays the borders of the first `count` slots; behind these all are open. False: nothing fits.
bool Solver::lay(std::span<const Slot> slots, size_t count) {
  layers_.resize(std::max(layers_.size(), count + 1));
  layers_[0].states = {form_->start()};
  const auto size = static_cast<int64_t>(slots.size());
  for (size_t i = 0; i < count; ++i) {
    begin_slot();
    Layer& next = layers_[i + 1];
    next.states.clear();
    index({});
    const int64_t left = size - static_cast<int64_t>(i) - 1;
    for (const int32_t s : layers_[i].states)
      for (const TokenForm::Edge& edge : form_->edges(s)) {
        int32_t& place = place_[static_cast<size_t>(edge.to)];
        if (place >= 0 || form_->least(edge.to) > left || score(slots[i], edge.set).best == kImpossible) continue;
        place = 0;
        next.states.push_back(edge.to);
        placed_.push_back(edge.to);
      }
  }
  std::erase_if(layers_[count].states, [&](int32_t s) { return !can_end(s, size - static_cast<int64_t>(count)); });
  for (size_t i = count; i-- > 0;) {
    begin_slot();
    index(layers_[i + 1]);
    std::erase_if(layers_[i].states, [&](int32_t s) {
      return std::ranges::none_of(form_->edges(s), [&](const TokenForm::Edge& edge) {
        return place_[static_cast<size_t>(edge.to)] >= 0 && score(slots[i], edge.set).best != kImpossible;
      });
    });
  }
  return !layers_[0].states.empty();
}

bool Solver::fits(std::span<const Slot> slots) {
  size_t count = 0;
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i].token >= 0 || slots[i].scores != nullptr) count = i + 1;
  return lay(slots, count);
}

void Solver::sum_behind(std::span<const Slot> slots, size_t count, bool heated) {
  Layer& last = layers_[count];
  last.best.assign(last.states.size(), 0);
  last.behind = last.heated = last.best;
  std::vector<double> parts, hot;
  for (size_t i = count; i-- > 0;) {
    begin_slot();
    Layer& layer = layers_[i];
    const Layer& next = layers_[i + 1];
    index(next);
    layer.best.assign(layer.states.size(), kImpossible);
    layer.behind = layer.heated = layer.best;
    const bool open = slots[i].token < 0 && slots[i].scores == nullptr;
    const auto total = [&](const std::vector<double>& values) {
      const double most = *std::ranges::max_element(values);
      if (open || most == kImpossible) return most;
      double sum = 0;
      for (const double v : values) sum += std::exp(v - most);
      return most + std::log(sum);
    };
    for (size_t k = 0; k < layer.states.size(); ++k) {
      parts.clear(), hot.clear();
      for (const TokenForm::Edge& edge : form_->edges(layer.states[k])) {
        const int32_t place = place_[static_cast<size_t>(edge.to)];
        if (place < 0) continue;
        const SetScore& s = score(slots[i], edge.set);
        if (s.best == kImpossible) continue;
        const auto to = static_cast<size_t>(place);
        layer.best[k] = std::max(layer.best[k], s.best + next.best[to]);
        parts.push_back(s.mass + next.behind[to]);
        if (heated) hot.push_back(s.heated + next.heated[to]);
      }
      layer.behind[k] = total(parts);
      if (heated) layer.heated[k] = total(hot);
    }
  }
}

// `before` of the layer behind the slot, whose states are indexed.
void Solver::sum_before(const Slot& slot, size_t at) {
  const Layer& layer = layers_[at];
  Layer& next = layers_[at + 1];
  const bool open = slot.token < 0 && slot.scores == nullptr;
  std::vector<double> most(next.states.size(), kImpossible), sum(next.states.size(), 0);
  const auto each = [&](auto visit) {
    for (size_t k = 0; k < layer.states.size(); ++k)
      for (const TokenForm::Edge& edge : form_->edges(layer.states[k])) {
        const int32_t place = place_[static_cast<size_t>(edge.to)];
        if (place < 0) continue;
        const double value = layer.before[k] + score(slot, edge.set).mass;
        if (value != kImpossible) visit(static_cast<size_t>(place), value);
      }
  };
  each([&](size_t to, double value) { most[to] = std::max(most[to], value); });
  if (!open) each([&](size_t to, double value) { sum[to] += std::exp(value - most[to]); });
  next.before = std::move(most);
  for (size_t to = 0; !open && to < sum.size(); ++to)
    if (sum[to] > 0) next.before[to] += std::log(sum[to]);
}

const TokenForm::Edge* Solver::pick(const Slot& slot, size_t at, int32_t state, const Drawing& drawing) {
  const std::span<const TokenForm::Edge> edges = form_->edges(state);
  const Layer& next = layers_[at + 1];
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

// The weight of a class is that of all that leads to and follows each of its sets.
void Solver::describe(const Slot& slot, size_t at, int32_t chosen_class, Chosen& out) {
  const Layer& layer = layers_[at];
  const Layer& next = layers_[at + 1];
  const auto each = [&](auto visit) {
    for (size_t k = 0; k < layer.states.size(); ++k)
      for (const TokenForm::Edge& edge : form_->edges(layer.states[k])) {
        const int32_t place = place_[static_cast<size_t>(edge.to)];
        if (place >= 0 && score(slot, edge.set).best_class >= 0)
          visit(edge.set, layer.before[k] + next.behind[static_cast<size_t>(place)]);
      }
  };
  double most = kImpossible;
  each([&](int32_t, double value) { most = std::max(most, value); });
  active_sets_.clear(), active_classes_.clear();
  each([&](int32_t set, double value) {
    double& weight = set_weight_[static_cast<size_t>(set)];
    if (weight == 0) active_sets_.push_back(set);
    weight += std::max(std::exp(value - most), 1e-300);
  });
  const auto& scores = slot.scores->classes;
  for (const int32_t set : active_sets_) {
    const double weight = std::exchange(set_weight_[static_cast<size_t>(set)], 0);
    for (const int32_t c : form_->classes_of(set)) {
      if (scores[static_cast<size_t>(c)].token < 0) continue;
      double& total = class_weight_[static_cast<size_t>(c)];
      if (total == 0) active_classes_.push_back(c);
      total += weight;
    }
  }
  double peak = kImpossible;
  for (const int32_t c : active_classes_) {
    double& weight = class_weight_[static_cast<size_t>(c)];
    weight = std::log(weight);
    peak = std::max(peak, weight + scores[static_cast<size_t>(c)].mass);
  }
  double sum = 0, weighted = 0, first = kImpossible, second = kImpossible;
  int32_t best = -1;
  const auto rank = [&](double value, int32_t token) {
    if (value > first)
      second = std::exchange(first, value), out.runner_up = std::exchange(best, token);
    else if (value > second)
      second = value, out.runner_up = token;
  };
  for (const int32_t c : active_classes_) {
    const ClassScore& s = scores[static_cast<size_t>(c)];
    const double weight = class_weight_[static_cast<size_t>(c)], part = std::exp(weight + s.mass - peak);
    sum += part;
    weighted += part * (weight + s.mean - peak);
    rank(weight + s.best - peak, s.top);
    if (s.runner_up >= 0) rank(weight + s.second - peak, s.runner_up);
  }
  const ClassScore& chosen = scores[static_cast<size_t>(chosen_class)];
  out.token = chosen.token, out.logit = chosen.logit;
  out.probability =
      std::min(1.0, std::exp(class_weight_[static_cast<size_t>(chosen_class)] + chosen.logit - peak) / sum);
  out.entropy = std::max(0.0, std::log(sum) - weighted / sum);
  out.margin = std::max(0.0, (std::exp(first) - (second == kImpossible ? 0 : std::exp(second))) / sum);
  for (const int32_t c : active_classes_) class_weight_[static_cast<size_t>(c)] = 0;
}

std::vector<Chosen> Solver::solve(std::span<const Slot> slots, const Drawing& drawing) {
  std::vector<Chosen> path;
  size_t count = 0;
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i].token >= 0 || slots[i].scores != nullptr) count = i + 1;
  if (!lay(slots, count)) return path;
  sum_behind(slots, count, drawing.sampled);
  layers_[0].before = {0};
  int32_t state = form_->start();
  for (size_t i = 0; i < count; ++i) {
    begin_slot();
    index(layers_[i + 1]);
    const TokenForm::Edge* edge = pick(slots[i], i, state, drawing);
    if (edge == nullptr) return {};
    if (slots[i].token < 0 && slots[i].scores != nullptr) {
      path.push_back({.slot = static_cast<int32_t>(i)});
      describe(slots[i], i, pick_class(slots[i], edge->set, drawing, i), path.back());
    }
    sum_before(slots[i], i);
    state = edge->to;
  }
  return path;
}

std::vector<int32_t> Solver::fixed(std::span<const Slot> slots, size_t count) {
  for (size_t i = count; i < slots.size(); ++i)
    if (slots[i].token >= 0) count = i + 1;
  std::vector<int32_t> out(count, -1);
  if (!lay(slots, count)) return out;
  for (size_t i = 0; i < count; ++i) {
    if (slots[i].token >= 0) continue;
    index(layers_[i + 1]);
    int32_t only = -2;  // none seen
    for (const int32_t s : layers_[i].states)
      for (const TokenForm::Edge& edge : form_->edges(s)) {
        if (place_[static_cast<size_t>(edge.to)] < 0) continue;
        const int32_t token = form_->only_token(edge.set);
        only = only == -2 || only == token ? token : -1;
      }
    out[i] = std::max(only, -1);
  }
  return out;
}

void Solver::write_fixed(std::span<Slot> slots) {
  int32_t state = form_->start();
  for (size_t i = 0; i < slots.size() && state >= 0 && state != form_->end(); ++i) {
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

int64_t Solver::shortest() { return form_->least(form_->start()); }

}  // namespace llada::forms
