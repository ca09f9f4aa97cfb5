// Of the solver: sequences that keep the bounds which the automaton leaves out.
#include <algorithm>
#include <utility>

#include "forms/solve.h"

namespace llada::forms {
namespace {

constexpr int kMostTurns = 4;
constexpr int64_t kMostReading = 4'000'000;  // steps of counting in one text
constexpr size_t kUnbroken = SIZE_MAX;

}  // namespace

// How far the end is: the state behind it is nearer than one that may end.
int32_t Solver::to_end(int32_t state) const { return state == form_->end() ? -1 : form_->least(state); }

// The whole text of the path: what is decided, the window, and behind it the shortest way to the end. Empty: there is
// none, which a stretch that must be filled may do.
std::vector<int32_t> Solver::completed(std::span<const Slot> slots) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < first_; ++i) tokens.push_back(slots[i].token);
  int32_t state = layer(first_).states.front();
  for (const Taken& taken : path_) {
    tokens.push_back(taken.token >= 0 ? taken.token : form_->short_token(taken.edge->set));
    state = taken.edge->to;
  }
  while (tokens.size() < slots.size()) {
    const auto left = static_cast<int64_t>(slots.size() - tokens.size()) - 1;
    const TokenForm::Edge* best = nullptr;
    work_ += std::ssize(form_->edges(state));
    for (const TokenForm::Edge& edge : form_->edges(state))
      if (can_end(edge.to, left) && (best == nullptr || to_end(edge.to) < to_end(best->to))) best = &edge;
    if (best == nullptr) return {};
    tokens.push_back(form_->short_token(best->set));
    state = best->to;
  }
  return tokens;
}

// The slot at which the text breaks a bound. What is decided at the beginning is read once.
size_t Solver::broken_at(std::span<const int32_t> tokens, Track& track) {
  const Counted& counted = *form_->counted();
  if (track.read == 0 || track.read > first_) track.ways = counted.begin(), track.read = 0;
  int64_t steps = 0;
  Counted::Ways ways = track.ways;
  int32_t state = track.states[track.read];
  for (size_t i = track.read; i < tokens.size(); ++i) {
    if (i == first_) track.ways = ways, track.read = first_;
    state = form_->step(state, tokens[i]);
    if (state < 0) return i;
    if (state == form_->end()) return counted.complete(ways) ? kUnbroken : i;
    if (!counted.read(ways, form_->piece(tokens[i]), steps) || steps > kMostReading) return i;
  }
  work_ += steps;
  return counted.complete(ways) ? kUnbroken : tokens.size() - 1;
}

// A whole text that fits all that is decided: the one that is known, with that in its place, or one with the shortest
// tokens.
bool Solver::find_fitting(std::span<const Slot> slots, Track& track) {
  if (track.fitting.size() == slots.size()) {
    std::vector<int32_t> tokens = track.fitting;
    for (size_t i = 0; i < slots.size(); ++i)
      if (slots[i].token >= 0) tokens[i] = slots[i].token;
    if (broken_at(tokens, track) == kUnbroken) {
      track.fitting = std::move(tokens);
      return true;
    }
  }
  path_.clear();
  int32_t state = layer(first_).states.front();
  for (size_t i = first_; i < count_; ++i) {
    begin_slot();
    index(layer(i + 1));
    const Slot known{slots[i].token, nullptr};
    const TokenForm::Edge* best = nullptr;
    for (const TokenForm::Edge& edge : form_->edges(state))
      if (place_[static_cast<size_t>(edge.to)] >= 0 && score(known, edge.set).best != kImpossible &&
          (best == nullptr || to_end(edge.to) < to_end(best->to)))
        best = &edge;
    if (best == nullptr) return false;
    path_.push_back({best, slots[i].token, -1});
    state = best->to;
  }
  std::vector<int32_t> tokens = completed(slots);
  if (tokens.size() != slots.size() || broken_at(tokens, track) != kUnbroken) return false;
  track.fitting = std::move(tokens);
  return true;
}

// The path of the known text that fits.
bool Solver::take_fitting(std::span<const Slot> slots, const Track& track) {
  if (track.fitting.size() != slots.size()) return false;
  path_.clear();
  int32_t state = layer(first_).states.front();
  for (size_t i = first_; i < count_; ++i) {
    const int32_t token = track.fitting[i];
    if (slots[i].token >= 0 && slots[i].token != token) return false;
    const int32_t of_class = form_->classes().class_of()[static_cast<size_t>(token)];
    const std::span<const TokenForm::Edge> edges = form_->edges(state);
    const auto edge = std::ranges::find_if(edges, [&](const TokenForm::Edge& e) {
      return std::ranges::binary_search(form_->classes_of(e.set), of_class);
    });
    if (edge == edges.end()) return false;
    const bool predicted = slots[i].token < 0 && slots[i].scores != nullptr;
    path_.push_back({&*edge, token, predicted ? of_class : -1});
    state = edge->to;
  }
  return true;
}

bool Solver::bounded_path(std::span<const Slot> slots, size_t count, Track& track, const Drawing& drawing) {
  const Sums sums = drawing.sampled ? Sums::all : Sums::best;
  for (int turn = 0; turn <= kMostTurns; ++turn) {
    if (!lay(slots, count, track, sums) || !take_path(slots, drawing)) break;
    std::vector<int32_t> tokens = completed(slots);
    if (tokens.size() != slots.size()) break;
    const size_t broken = broken_at(tokens, track);
    if (broken == kUnbroken) {
      track.fitting = std::move(tokens);
      return true;
    }
    if (broken < first_ || broken >= count_) break;
    const int32_t from = broken == first_ ? layer(first_).states.front() : path_[broken - first_ - 1].edge->to;
    Turn next{broken + 1, {}};
    for (const TokenForm::Edge& edge : form_->edges(from))
      if (to_end(edge.to) < to_end(from)) next.states.push_back(edge.to);
    turns_.push_back(std::move(next));
  }
  turns_.clear();
  if (!lay(slots, count, track, sums)) return false;
  return (track.fitting.size() == slots.size() || find_fitting(slots, track)) && take_fitting(slots, track);
}

}  // namespace llada::forms
