// Work of a unit or a link in an event-driven simulation. It first takes its fixed time; then it computes and streams
// its bytes at the same time, and ends when both are done. Streams that together ask for more than the memory's
// bandwidth share it evenly, and none gets more than it asked for. The planner of a layer's experts (sched/moe_plan.h)
// and the simulator (study/sim/lanes.h) use it.
#pragma once
#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

namespace llada {

struct Work {
  double fixed = 0, compute = 0, bytes = 0;
  double wanted_rate = 0;  // bytes per second
  double rate = 0;         // as share_bandwidth() says

  bool done() const { return fixed <= 0 && compute <= 0 && bytes <= 0; }
  bool streams() const { return fixed <= 0 && bytes > 0; }
  // Seconds until its next part ends.
  double next_s() const {
    if (fixed > 0) return fixed;
    if (done()) return 0;
    double step = std::numeric_limits<double>::infinity();
    if (compute > 0) step = std::min(step, compute);
    if (bytes > 0) step = std::min(step, bytes / rate);
    return step;
  }
  // Advances by `step` seconds. Rests below rounding errors become 0, so that a step of next_s() ends its part.
  void pass(double step) {
    const auto shrink = [](double left, double by) { return left - by <= 1e-12 * left ? 0 : left - by; };
    if (fixed > 0) {
      fixed = shrink(fixed, step);
      return;
    }
    compute = compute > 0 ? shrink(compute, step) : 0;
    bytes = bytes > 0 ? shrink(bytes, step * rate) : 0;
  }
};

inline constexpr size_t kMostStreams = 4;

// Water filling: the smallest demands are met in full, the rest is split evenly. At most kMostStreams of `active`, of
// which some may not stream.
inline void share_bandwidth(std::span<Work* const> active, double bytes_per_s) {
  std::array<Work*, kMostStreams> streams{};
  size_t count = 0;
  for (Work* const work : active)
    if (work->streams()) streams[count++] = work;
  for (size_t i = 1; i < count; ++i)
    for (size_t j = i; j > 0 && streams[j]->wanted_rate < streams[j - 1]->wanted_rate; --j)
      std::swap(streams[j], streams[j - 1]);
  for (size_t i = 0; i < count; ++i) {
    streams[i]->rate = std::min(streams[i]->wanted_rate, bytes_per_s / static_cast<double>(count - i));
    bytes_per_s -= streams[i]->rate;
  }
}

}  // namespace llada
