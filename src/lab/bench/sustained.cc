#include "lab/bench/sustained.h"

#include <algorithm>
#include <fstream>

#include "lab/bench/end_to_end.h"
#include "lab/bench/whole_run.h"

namespace llada::bench {
namespace {

// The numbers in `file` of those folders in `folder` whose names begin so.
std::vector<double> read_each(const std::filesystem::path& folder, std::string_view begin, const char* file) {
  std::vector<double> values;
  std::error_code failure;
  for (std::filesystem::directory_iterator at(folder, failure), end; !failure && at != end; at.increment(failure)) {
    if (!at->path().filename().string().starts_with(begin)) continue;
    std::ifstream text(at->path() / file);
    if (double value = 0; text >> value) values.push_back(value);
  }
  return values;
}

}  // namespace

Heat read_heat(const std::filesystem::path& root) {
  Heat heat;
  constexpr double kNonsense = 150e3;  // thousandths of a degree: zones without a sensor say anything
  for (const double value : read_each(root / "sys/class/thermal", "thermal_zone", "temp"))
    if (value < kNonsense) heat.celsius = std::max(heat.celsius, value / 1e3);
  const auto khz = read_each(root / "sys/devices/system/cpu/cpufreq", "policy", "scaling_cur_freq");
  for (const double value : khz) heat.mhz += value / 1e3 / static_cast<double>(khz.size());
  return heat;
}

Result<std::vector<SustainedMinute>> measure_sustained(const Model& model, const SustainedWork& work,
                                                       const SustainedHooks& hooks) {
  constexpr double kMinute = 60;
  std::vector<SustainedMinute> minutes;
  SustainedMinute present;
  double begin = hooks.now_s();
  const auto over = [&] { return std::ssize(minutes) >= work.minutes; };
  const auto stepped = [&](int64_t tokens) {
    if (over()) return;  // the last run goes no further
    ++present.forwards;
    present.tokens += tokens;
    const double now = hooks.now_s();
    if (now - begin < kMinute) return;
    present.seconds = now - begin;
    if (hooks.heat) present.heat = hooks.heat();
    minutes.push_back(present);
    if (hooks.minute) hooks.minute(present);
    present = {};
    begin = now;
  };
  const auto paced = [&](const decode::Canvas& canvas) {
    return std::make_unique<ScriptedStrategy>(work.script, canvas);
  };
  const std::vector<int32_t> prompt = random_prompt(model, work.prompt_tokens);
  bool asked = false;
  const auto ends = [&] { return (asked = hooks.stopped && hooks.stopped()) || over(); };
  while (!over()) {
    const auto run = run_whole(model, prompt, work.gen_tokens, paced, ends, stepped);
    if (!run && (asked || !over())) return std::unexpected(run.error());
  }
  return minutes;
}

}  // namespace llada::bench
