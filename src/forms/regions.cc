#include "forms/regions.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace llada::forms {

// Tarjan's algorithm with a stack of its own: an automaton is as deep as it has states.
Regions::Regions(const Automaton& a)
    : automaton_(a), of_(static_cast<size_t>(a.states()), -1), loops_(static_cast<size_t>(a.states())) {
  const auto letters = static_cast<size_t>(a.letters);
  std::vector<int32_t> low(of_.size()), index(of_.size(), -1), stack;
  struct Frame {
    size_t state, letter;
  };
  std::vector<Frame> frames;
  int32_t count = 0, components = 0;
  const auto open = [&](size_t s) {
    low[s] = index[s] = count++;
    stack.push_back(static_cast<int32_t>(s));
    frames.push_back({s, 0});
  };
  for (size_t root = 0; root < of_.size(); ++root) {
    if (index[root] >= 0) continue;
    open(root);
    while (!frames.empty()) {
      const size_t s = frames.back().state;
      if (frames.back().letter == letters) {
        frames.pop_back();
        if (!frames.empty()) low[frames.back().state] = std::min(low[frames.back().state], low[s]);
        if (low[s] != index[s]) continue;
        const bool alone = stack.back() == static_cast<int32_t>(s);
        for (int32_t member = -1; member != static_cast<int32_t>(s);) {
          member = stack.back();
          stack.pop_back();
          of_[static_cast<size_t>(member)] = components;
          loops_[static_cast<size_t>(member)] |= !alone;
        }
        ++components;
        continue;
      }
      const int32_t next = a.next[s * letters + frames.back().letter++];
      if (next < 0) continue;
      const auto t = static_cast<size_t>(next);
      if (t == s) loops_[s] = 1;
      if (index[t] < 0)
        open(t);
      else if (of_[t] < 0)
        low[s] = std::min(low[s], index[t]);
    }
  }
}

Region Regions::seen_from(int32_t state) const {
  const auto letters = static_cast<size_t>(automaton_.letters);
  Region region{.shape = {}, .inside = {state}, .exits = {}};
  std::unordered_map<int32_t, int32_t> inner = {{state, 0}}, outer;
  for (size_t i = 0; i < region.inside.size(); ++i)
    for (size_t l = 0; l < letters; ++l) {
      const int32_t to = automaton_.next[static_cast<size_t>(region.inside[i]) * letters + l];
      if (to < 0) {
        region.shape.push_back(-1);
      } else if (same(state, to)) {
        const auto [at, fresh] = inner.try_emplace(to, static_cast<int32_t>(region.inside.size()));
        if (fresh) region.inside.push_back(to);
        region.shape.push_back(at->second);
      } else {
        const auto [at, fresh] = outer.try_emplace(to, static_cast<int32_t>(region.exits.size()));
        if (fresh) region.exits.push_back(to);
        region.shape.push_back(-2 - at->second);
      }
    }
  return region;
}

}  // namespace llada::forms
