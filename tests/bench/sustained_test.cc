// Work without a pause, on a clock that the test moves.
#include "lab/bench/sustained.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "formats/temp_folder.h"
#include "must.h"
#include "study/presets.h"
#include "study/synth.h"

namespace llada::bench {
namespace {

std::shared_ptr<const Model> tiny() {
  auto preset = parse_preset("tiny:q4_0");
  EXPECT_TRUE(preset);
  LoadOptions load;
  load.threads = 1;
  auto model = synthesize_model({.preset = preset->preset, .type = preset->type}, {}, load);
  EXPECT_TRUE(model) << model.error().message;
  return model ? *model : nullptr;
}

constexpr SustainedWork kWork{
    .script = {.block_length = 4, .tokens_per_step = 2}, .prompt_tokens = 6, .gen_tokens = 8, .minutes = 3};

// A forward takes 7 s for two tokens, and twice as long from the second minute on, as a hot machine's do.
TEST(Sustained, CountsByTheMinute) {
  const auto model = must(tiny());
  double clock = 0, pace = 7;
  size_t told = 0;
  SustainedHooks hooks;
  hooks.now_s = [&] {
    const double now = clock;
    clock += pace;
    return now;
  };
  hooks.heat = [&] { return Heat{.celsius = 40 + clock / 100, .mhz = 1000}; };
  hooks.minute = [&](const SustainedMinute&) { ++told, pace = 14; };
  const auto minutes = must(measure_sustained(*model, kWork, hooks));
  ASSERT_EQ(minutes->size(), 3u);
  EXPECT_EQ(told, 3u);
  const auto &first = minutes->front(), &last = minutes->back();
  EXPECT_EQ(first.forwards, 9);  // the first that ends after a minute, in its 63rd second
  EXPECT_EQ(first.tokens, 18);   // across the borders of runs
  EXPECT_EQ(first.seconds, 63);
  EXPECT_EQ(last.forwards, 5);
  EXPECT_EQ(last.seconds, 70);
  EXPECT_DOUBLE_EQ(last.forwards_per_minute() / first.forwards_per_minute(), 0.5);
  EXPECT_GT(last.heat.celsius, first.heat.celsius);
}

TEST(Sustained, EndsWhenItIsStopped) {
  const auto model = must(tiny());
  int asked = 0;
  SustainedHooks hooks;
  hooks.now_s = [] { return 0.0; };
  hooks.stopped = [&] { return ++asked == 5; };
  EXPECT_FALSE(measure_sustained(*model, kWork, hooks));
  EXPECT_EQ(asked, 5);
}

TEST(Sustained, ReadsHeatWhereTheSystemTells) {
  const TempFolder folder;
  const auto put = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories((folder / path).substr(0, (folder / path).rfind('/')));
    std::ofstream(folder / path) << text << "\n";
  };
  const std::string root = folder / "root";
  EXPECT_EQ(read_heat(root).celsius, 0);
  EXPECT_EQ(read_heat(root).mhz, 0);
  put("root/sys/class/thermal/thermal_zone0/temp", "41500");
  put("root/sys/class/thermal/thermal_zone12/temp", "73250");
  put("root/sys/class/thermal/thermal_zone3/temp", "-274000");
  put("root/sys/class/thermal/thermal_zone4/temp", "2147483");  // no sensor
  put("root/sys/class/thermal/cooling_device0/temp", "99000");
  put("root/sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq", "1000000");
  put("root/sys/devices/system/cpu/cpufreq/policy6/scaling_cur_freq", "3000000");
  EXPECT_DOUBLE_EQ(read_heat(root).celsius, 73.25);
  EXPECT_DOUBLE_EQ(read_heat(root).mhz, 2000);
}

}  // namespace
}  // namespace llada::bench
