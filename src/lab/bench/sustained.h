// The speed of a machine that works on without a pause. Whole generations at a scripted pace run one after another,
// counted by the minute, with the temperature and clocks that the system tells. A phone that gives its best for half a
// minute and half of it after ten shows here and nowhere else.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "engine/model.h"
#include "lab/bench/scripted_strategy.h"

namespace llada::bench {

// Readings of the processors and the hottest place that is measured; 0: the system does not tell.
struct Heat {
  double celsius = 0;  // of the hottest of /sys/class/thermal
  double mhz = 0;      // mean of the processors' present clocks
};
// root: of the file system ("/").
Heat read_heat(const std::filesystem::path& root);

struct SustainedMinute {
  double seconds = 0;                // a little over a minute: it ends with a forward
  int64_t tokens = 0, forwards = 0;  // in it
  Heat heat;                         // at its end
  double tokens_per_minute() const { return 60 * static_cast<double>(tokens) / seconds; }
  double forwards_per_minute() const { return 60 * static_cast<double>(forwards) / seconds; }
};

struct SustainedWork {
  Script script;
  int64_t prompt_tokens = 0, gen_tokens = 0, minutes = 0;
};

struct SustainedHooks {
  std::function<double()> now_s;                       // a monotonic clock, in seconds
  std::function<Heat()> heat;                          // empty: SustainedMinute::heat stays 0
  std::function<bool()> stopped;                       // asked after every forward; true ends it with an error
  std::function<void(const SustainedMinute&)> minute;  // called at the end of each
};

Result<std::vector<SustainedMinute>> measure_sustained(const Model& model, const SustainedWork& work,
                                                       const SustainedHooks& hooks);

}  // namespace llada::bench
