// Which experts a row goes to, and with which weights (a route op, graph/program.h): one source, compiled for the host
// and by the GPU's compiler. It is written for `kLanes` lanes that work in phases: lanes.each(f) calls f(lane) for all
// of them and returns when all are done (a GPU: threads and a barrier). The order of every sum and comparison is fixed,
// so that the number of lanes does not change a result.
#pragma once
#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define LLADA_ROUTING __device__ __forceinline__
#else
#define LLADA_ROUTING inline
#endif

namespace llada {

struct RoutingRule {
  int32_t experts, used, groups, groups_used;
  float scale;  // of the gates
  bool sigmoid, renormalise;
};

// Scratch of a row's routing; `experts` values each but for `best` and `sum`.
struct RoutingScratch {
  double* sum;  // one
  float *probability, *rank, *worth;
  int32_t* best;  // one per lane
};

namespace routing {

inline constexpr double kNotZero = 1e-20;       // LLaDA2's guard of the division
inline constexpr float kOutOfRace = -INFINITY;  // of a rank: below every finite one

LLADA_ROUTING bool finite(float x) { return x - x == 0; }

// The order of a choice: the higher rank first, of equals the lower index.
LLADA_ROUTING bool goes_before(float rank, int index, float other_rank, int other_index) {
  return rank > other_rank || (rank == other_rank && index < other_index);
}

// The first of index, index + step ... below n.
LLADA_ROUTING int first_of(const float* rank, int index, int step, int n) {
  int first = index;
  float best = rank[index];
  for (int i = index + step; i < n; i += step) {  // ascending: of equals the one that was found stays
    first = rank[i] > best ? i : first;
    best = rank[i] > best ? rank[i] : best;
  }
  return first;
}

// A group is worth the sum of its two best.
LLADA_ROUTING float worth_of_group(const float* rank, int size) {
  float best = kOutOfRace, second = kOutOfRace;
  for (int i = 0; i < size; ++i) {
    if (rank[i] > best) {
      second = best;
      best = rank[i];
    } else if (rank[i] > second) {
      second = rank[i];
    }
  }
  return size > 1 ? best + second : best;
}

LLADA_ROUTING bool group_stays(const float* worth, int group, int groups, int groups_used) {
  int before = 0;
  for (int other = 0; other < groups; ++other) before += goes_before(worth[other], other, worth[group], group) ? 1 : 0;
  return before < groups_used;
}

}  // namespace routing

// One row: `experts` scores to as many gates, 0 where not chosen. bias: of the choice alone, `experts` values or null.
// Routers are sensitive: everything is F32 and sums run in double, softmax over the experts in ascending order, the
// chosen ones' in the order of the choice. A chosen expert whose gate rounds to 0 counts as not chosen. Damaged scores
// must not look like a choice among the others. Where a score or a bias is not finite, the first gate is NaN, which
// makes the row NaN, and the others are 0. allowed: 0 for an expert that the row's block did not choose; null: all are.
template <int kLanes, class Lanes>
LLADA_ROUTING void route_by(const RoutingRule& rule, const float* scores, const float* bias, const RoutingScratch& s,
                            float* gates, const Lanes& lanes, const unsigned char* allowed = nullptr) {
  using namespace routing;
  const int n = rule.experts;
  lanes.each([&](int t) {
    if (t != 0 || rule.sigmoid) return;
    float max = scores[0];
    for (int i = 1; i < n; ++i) max = scores[i] > max ? scores[i] : max;
    s.worth[0] = max;
  });
  lanes.each([&](int t) {
    s.best[t] = 0;
    for (int i = t; i < n; i += kLanes) {
      if (!finite(scores[i]) || (bias != nullptr && !finite(bias[i]))) s.best[t] = 1;
      s.probability[i] = rule.sigmoid ? 1.0f / (1.0f + expf(-scores[i])) : expf(scores[i] - s.worth[0]);
    }
  });
  lanes.each([&](int t) {
    if (t != 0) return;
    double all = 0;
    for (int i = 0; !rule.sigmoid && i < n; ++i) all += s.probability[i];
    s.sum[0] = all;
    for (int lane = 0; lane < kLanes; ++lane)
      if (s.best[lane] != 0) s.sum[0] = NAN;
  });
  const bool damaged = s.sum[0] != s.sum[0];
  lanes.each([&](int t) {
    for (int i = t; i < n; i += kLanes) {
      if (!rule.sigmoid) s.probability[i] = static_cast<float>(s.probability[i] / s.sum[0]);
      s.rank[i] = s.probability[i] + (bias != nullptr ? bias[i] : 0.0f);
      gates[i] = damaged && i == 0 ? NAN : 0;
    }
  });
  if (damaged) return;
  if (allowed != nullptr) {
    lanes.each([&](int t) {
      for (int i = t; i < n; i += kLanes)
        if (allowed[i] == 0) s.rank[i] = kOutOfRace;
    });
  }

  // Only the best groups stay in the race.
  if (rule.groups > 1) {
    const int size = n / rule.groups;
    lanes.each([&](int t) {
      for (int g = t; g < rule.groups; g += kLanes) s.worth[g] = worth_of_group(s.rank + g * size, size);
    });
    lanes.each([&](int t) {
      for (int g = t; g < rule.groups; g += kLanes)
        if (!group_stays(s.worth, g, rule.groups, rule.groups_used))
          for (int i = g * size; i < (g + 1) * size; ++i) s.rank[i] = kOutOfRace;
    });
  }

  // Each lane knows the first of its own; the first of those is chosen, and its lane looks for the next.
  lanes.each([&](int t) {
    if (t == 0) s.sum[0] = 0;
    s.best[t] = t < n ? first_of(s.rank, t, kLanes, n) : 0;
  });
  for (int k = 0; k < rule.used; ++k) {
    lanes.each([&](int t) {
      if (t != 0) return;
      int winner = s.best[0];
      for (int lane = 1; lane < kLanes; ++lane)
        if (goes_before(s.rank[s.best[lane]], s.best[lane], s.rank[winner], winner)) winner = s.best[lane];
      s.rank[winner] = kOutOfRace;
      s.sum[0] += s.probability[winner];
      gates[winner] = 1;
    });
    lanes.each([&](int t) {
      if (t < n && s.rank[s.best[t]] == kOutOfRace) s.best[t] = first_of(s.rank, t, kLanes, n);
    });
  }
  lanes.each([&](int t) {
    const double scale = rule.renormalise ? rule.scale / (s.sum[0] + kNotZero) : static_cast<double>(rule.scale);
    for (int i = t; i < n; i += kLanes)
      if (gates[i] != 0) gates[i] = static_cast<float>(s.probability[i] * scale);
  });
}

}  // namespace llada
