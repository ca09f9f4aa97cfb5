#include "forms/regions.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace llada::forms {

static constexpr int kManyBytes = 24;

Regions::Regions(const Automaton& a)
    : automaton_(a), of_(static_cast<size_t>(a.states()), -1), stamp_(of_.size(), 0), number_(of_.size(), 0) {
  const auto letters = static_cast<size_t>(a.letters);
  std::array<int, 256> bytes{};  // by letter
  for (int byte = 0; byte < 256; ++byte) ++bytes[a.letter[byte]];
  const auto row = [&](size_t state) { return a.next.begin() + static_cast<std::ptrdiff_t>(state * letters); };
  std::vector<char> wide(of_.size());
  for (size_t s = 0; s < of_.size(); ++s) {
    int alive = 0;
    for (size_t l = 0; l < letters; ++l)
      if (row(s)[static_cast<std::ptrdiff_t>(l)] >= 0) alive += bytes[l];
    wide[s] = alive >= kManyBytes;
  }
  // Wide states that follow each other are one region.
  std::vector<int32_t> leader(of_.size());
  std::iota(leader.begin(), leader.end(), 0);
  const auto lead = [&](int32_t s) {
    while (leader[static_cast<size_t>(s)] != s)
      s = leader[static_cast<size_t>(s)] = leader[static_cast<size_t>(leader[static_cast<size_t>(s)])];
    return s;
  };
  for (size_t s = 0; s < of_.size(); ++s)
    for (size_t l = 0; wide[s] && l < letters; ++l)
      if (const int32_t t = row(s)[static_cast<std::ptrdiff_t>(l)]; t >= 0 && wide[static_cast<size_t>(t)])
        leader[static_cast<size_t>(lead(t))] = lead(static_cast<int32_t>(s));
  for (size_t s = 0; s < of_.size(); ++s)
    if (wide[s]) of_[s] = lead(static_cast<int32_t>(s));
  // In the middle of a character: everything that follows is of one region. Three times, for its longest sequence.
  for (int round = 0; round < 3; ++round)
    for (size_t s = 0; s < of_.size(); ++s) {
      int32_t region = -1;
      bool one = of_[s] < 0;
      for (size_t l = 0; one && l < letters; ++l)
        if (const int32_t t = row(s)[static_cast<std::ptrdiff_t>(l)]; t >= 0) {
          const int32_t other = of_[static_cast<size_t>(t)];
          one = other >= 0 && (region < 0 || region == other);
          region = other;
        }
      if (one && region >= 0) of_[s] = region;
    }
}

Region Regions::seen_from(int32_t state) {
  const auto letters = static_cast<size_t>(automaton_.letters);
  const int32_t own = of_[static_cast<size_t>(state)];
  Region region{.shape = {}, .inside = {state}, .exits = {}};
  ++seen_;
  const auto number = [&](int32_t s, std::vector<int32_t>& list) {
    const auto i = static_cast<size_t>(s);
    if (std::exchange(stamp_[i], seen_) != seen_) number_[i] = static_cast<int32_t>(list.size()), list.push_back(s);
    return number_[i];
  };
  number_[static_cast<size_t>(state)] = 0, stamp_[static_cast<size_t>(state)] = seen_;
  // Breadth first, a byte at a time.
  size_t reached = 1;
  int bytes = 0;
  for (size_t i = 0; i < region.inside.size(); ++i) {
    if (i == reached) reached = region.inside.size(), ++bytes;
    for (size_t l = 0; l < letters; ++l) {
      const int32_t to = automaton_.next[static_cast<size_t>(region.inside[i]) * letters + l];
      if (to < 0 || bytes >= kReach)
        region.shape.push_back(Region::kNowhere);
      else if (of_[static_cast<size_t>(to)] == own)
        region.shape.push_back(number(to, region.inside));
      else
        region.shape.push_back(Region::kFirstExit - number(to, region.exits));
    }
  }
  return region;
}

}  // namespace llada::forms
