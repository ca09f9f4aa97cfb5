// Of the solver: what each layer sums up of the ways that lead to it and follow it.
#include <algorithm>
#include <cmath>
#include <utility>

#include "forms/solve.h"

namespace llada::forms {
namespace {

// Sums of products are taken without logarithms, each factor beside the largest of its layer. A sum outside these
// bounds has lost parts that count, and is taken again with logarithms.
constexpr double kLeastSum = 1e-200, kMostSum = 1e200;
constexpr double kLost = -1;  // what stands for it
bool trusted(double sum) { return sum > kLeastSum && sum < kMostSum; }

// exp() of logarithms beside their largest, which is returned.
double exps(const std::vector<double>& logs, std::vector<double>& out) {
  const double most = logs.empty() ? kImpossible : *std::ranges::max_element(logs);
  out.resize(logs.size());
  for (size_t i = 0; i < logs.size(); ++i) out[i] = most == kImpossible ? 0 : std::exp(logs[i] - most);
  return most;
}

// The logarithm of the sum of exp() of what each() visits, twice.
template <class Each>
double log_sum(Each each) {
  double most = kImpossible, sum = 0;
  each([&](double value) { most = std::max(most, value); });
  if (most == kImpossible) return most;
  each([&](double value) { sum += std::exp(value - most); });
  return most + std::log(sum);
}

}  // namespace

const Solver::SetScore& Solver::score(const Slot& slot, int32_t set) {
  SetScore& out = scores_[static_cast<size_t>(set)];
  if (out.stamp == stamp_) return out;
  out = {.stamp = stamp_};
  if (slot.token >= 0) {
    const TokenClasses& classes = form_->classes();
    const int32_t c = slot.token < classes.tokens() ? classes.class_of()[static_cast<size_t>(slot.token)] : -1;
    if (c >= 0 && std::ranges::binary_search(form_->classes_of(set), c)) out = {stamp_, c, 0, 0, 0, 1, 1};
    return out;
  }
  if (slot.scores == nullptr) {
    out = {stamp_, -1, 0, 0, 0, 1, 1};
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
    sum += std::exp(s.mass - most);
    if (heats_) heated += std::exp(s.heated - hottest);
  }
  out.mass = most + std::log(sum);
  if (mass_ == kImpossible) mass_ = out.mass;
  out.share = std::exp(out.mass - mass_);
  if (!heats_) return out;
  out.heated = hottest + std::log(heated);
  if (heat_ == kImpossible) heat_ = out.heated;
  out.warm = std::exp(out.heated - heat_);
  return out;
}

// The ways between the layer before a slot and the one behind it, whose states are indexed.
template <class Visit>
void Solver::each_way(const Slot& slot, int32_t state, Visit visit) {
  for (const TokenForm::Edge& edge : form_->edges(state)) {
    const int32_t place = place_[static_cast<size_t>(edge.to)];
    if (place < 0) continue;
    const SetScore& s = score(slot, edge.set);
    if (s.best != kImpossible) visit(s, static_cast<size_t>(place), edge.set);
  }
}

// Of the layer before the slot: states that cannot be completed go, and sums of what follows. Of an open slot it only
// matters that there is something: the likeliest.
void Solver::sum_behind(const Slot& slot, size_t at, Sums sums) {
  begin_slot();
  Layer& layer = this->layer(at);
  const Layer& next = this->layer(at + 1);
  index(next);
  const bool open = slot.token < 0 && slot.scores == nullptr;
  const double behind = sums == Sums::none || open ? 0 : exps(next.behind, into_);
  const double hottest = sums != Sums::all || open ? 0 : exps(next.heated, warm_into_);
  size_t kept = 0;
  layer.best.clear(), layer.behind.clear(), layer.heated.clear();
  for (const int32_t state : layer.states) {
    double best = kImpossible, most = kImpossible, hot = kImpossible, sum = 0, warm = 0;
    if (sums == Sums::none) {
      for (const TokenForm::Edge& edge : form_->edges(state))
        if (place_[static_cast<size_t>(edge.to)] >= 0 && (best = score(slot, edge.set).best) != kImpossible) break;
    } else {
      each_way(slot, state, [&](const SetScore& s, size_t to, int32_t) {
        best = std::max(best, s.best + next.best[to]);
        if (open) {
          most = std::max(most, next.behind[to]), hot = std::max(hot, next.heated[to]);
          return;
        }
        sum += s.share * into_[to];
        if (sums == Sums::all) warm += s.warm * warm_into_[to];
      });
    }
    if (best == kImpossible) continue;
    if (!open && sums != Sums::none) {
      const double mass = slot.token < 0 ? mass_ : 0, heat = slot.token < 0 ? heat_ : 0;
      most = trusted(sum) ? mass + behind + std::log(sum) : log_sum([&](auto add) {
        each_way(slot, state, [&](const SetScore& s, size_t to, int32_t) { add(s.mass + next.behind[to]); });
      });
      if (sums == Sums::all)
        hot = trusted(warm) ? heat + hottest + std::log(warm) : log_sum([&](auto add) {
          each_way(slot, state, [&](const SetScore& s, size_t to, int32_t) { add(s.heated + next.heated[to]); });
        });
    }
    const double cost = sums == Sums::none ? 0 : string_cost(at, state);
    layer.states[kept++] = state;
    layer.best.push_back(best - cost);
    layer.behind.push_back(sums == Sums::none ? 0 : most - cost);
    layer.heated.push_back(sums == Sums::all ? hot - cost : 0);
  }
  layer.states.resize(kept);
}

// `before` of the layer behind the slot, whose states are indexed; weigh: also the weight of each set, which is that of
// all that leads to it and follows it, beside the largest.
void Solver::sum_before(const Slot& slot, size_t at, bool weigh) {
  const Layer& layer = this->layer(at);
  Layer& next = this->layer(at + 1);
  const bool open = slot.token < 0 && slot.scores == nullptr;
  const double before = exps(layer.before, from_);
  if (weigh) exps(next.behind, into_);
  active_sets_.clear();
  const auto add_weight = [&](int32_t set, double value) {
    double& weight = set_weight_[static_cast<size_t>(set)];
    if (weight == 0) active_sets_.push_back(set);
    weight += std::max(value, 1e-300);
  };
  std::vector<double> sum(next.states.size());
  std::vector<double>& most = next.before;
  most.assign(next.states.size(), kImpossible);
  for (size_t k = 0; k < layer.states.size(); ++k)
    each_way(slot, layer.states[k], [&](const SetScore& s, size_t to, int32_t set) {
      if (open) {
        most[to] = std::max(most[to], layer.before[k]);
        return;
      }
      sum[to] += from_[k] * s.share;
      if (weigh) add_weight(set, from_[k] * into_[to]);
    });
  bool lost = false;
  for (size_t to = 0; !open && to < sum.size(); ++to) {
    if (trusted(sum[to]))
      most[to] = before + (slot.token < 0 ? mass_ : 0) + std::log(sum[to]), sum[to] = 0;
    else
      lost = true, sum[to] = kLost;
  }
  const auto each = [&](auto visit) {
    for (size_t k = 0; k < layer.states.size(); ++k)
      each_way(slot, layer.states[k], [&](const SetScore& s, size_t to, int32_t set) { visit(k, s.mass, to, set); });
  };
  if (lost) {
    each([&](size_t k, double mass, size_t to, int32_t) {
      if (sum[to] == kLost) most[to] = std::max(most[to], layer.before[k] + mass);
    });
    for (double& value : sum) value = value == kLost ? 0 : kImpossible;
    each([&](size_t k, double mass, size_t to, int32_t) {
      if (sum[to] >= 0 && most[to] != kImpossible) sum[to] += std::exp(layer.before[k] + mass - most[to]);
    });
    for (size_t to = 0; to < sum.size(); ++to)
      if (sum[to] > 0) most[to] += std::log(sum[to]);
  }
  for (size_t to = 0; to < most.size(); ++to) most[to] -= string_cost(at + 1, next.states[to]);
  double heaviest = 0;
  for (const int32_t set : active_sets_) heaviest = std::max(heaviest, set_weight_[static_cast<size_t>(set)]);
  if (weigh && !trusted(heaviest)) {
    for (const int32_t set : active_sets_) set_weight_[static_cast<size_t>(set)] = 0;
    active_sets_.clear();
    double top = kImpossible;
    each([&](size_t k, double, size_t to, int32_t) { top = std::max(top, layer.before[k] + next.behind[to]); });
    each([&](size_t k, double, size_t to, int32_t set) {
      add_weight(set, std::exp(layer.before[k] + next.behind[to] - top));
    });
  }
}

// From the weights of the sets (sum_before).
void Solver::describe(const Slot& slot, int32_t chosen_class, Chosen& out) {
  active_classes_.clear();
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

}  // namespace llada::forms
