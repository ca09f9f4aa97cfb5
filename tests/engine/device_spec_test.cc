// The text of --device: what a measured profile brings, and what is refused.
#include "engine/device_spec.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "must.h"
#include "study/devices.h"
#include "study/sim/profile.h"

namespace llada {
namespace {

class DeviceSpecs : public testing::Test {
 protected:
  void SetUp() override {
    file_ = (std::filesystem::temp_directory_path() / fmt::format("llada_spec_{}.json", ::getpid())).string();
    Profile profile = *load_profile("v79-8elite");
    profile.window_gib->value = 3.25;
    profile.dsp = {.arch = 73, .threads = 6, .module = "libllada_hexagon_skel_v73_aligned.so", .host_share = 0.47};
    std::ofstream(file_) << profile_text(profile);
  }
  void TearDown() override { std::filesystem::remove(file_); }
  static std::string error(const std::string& text) { return why_not(parse_device_spec(text, &study_devices())); }
  std::string file_;
};

TEST_F(DeviceSpecs, AProfileBringsWindowThreadsAndModule) {
  const auto spec = must(parse_device_spec("hexagon:profile=" + file_, nullptr));
  EXPECT_EQ(spec->window.gib, 3.25);
  EXPECT_EQ(spec->dsp.threads, 6);
  EXPECT_EQ(spec->dsp.module, "libllada_hexagon_skel_v73_aligned.so");
  EXPECT_EQ(spec->dsp.host_share, 0.47);
  EXPECT_EQ(must(parse_device_spec("hexagon:split=off,profile=" + file_, nullptr))->dsp.host_share, 0);
  for (const std::string& text :
       {"hexagon:window=2GiB,profile=" + file_, "hexagon:profile=" + file_ + ",window=2GiB"}) {
    const auto given = must(parse_device_spec(text, &study_devices()));
    EXPECT_EQ(given->window.gib, 2) << text;
  }
  const auto plain = parse_device_spec("hexagon", &study_devices());
  EXPECT_EQ(plain->window.gib, 0);
  EXPECT_EQ(plain->dsp.threads, 0);
}

TEST_F(DeviceSpecs, WhatIsNoMeasuredProfileIsRefused) {
  const std::string said = "device 'hexagon': " + file_ + ": ";
  for (const auto& [text, message] :
       {std::pair{"{}", "dsp: is missing; needed the output of 'llada-study doctor --device hexagon'"},
        {R"({"dsp": {"arch": 73, "threads": 6}})", "dsp.module: is missing; needed a string"},
        {R"({"dsp": {"arch": 73, "threads": 6, "module": "a.so", "cores": 1}})", "dsp.cores: is not known here"},
        {R"({"dsp": {"arch": 73, "threads": 6, "module": "a.so", "host_share": 1}})",
         "dsp.host_share: found 1, needed a number from 0 to 0.999"},
        {R"({"dsp": {"arch": 73, "threads": 9, "module": "a.so"}})",
         "dsp.threads: found 9, needed a whole number from 1 to 8"},
        {R"({"dsp": {"arch": 73, "threads": 6, "module": "../a.so"}})",
         "dsp.module: found \"../a.so\", needed the name of a .so file"},
        {R"({"dsp": {"arch": 73, "threads": 6, "module": "a.so"}, "window": {"gib": {"value": 0}}})",
         "window.gib.value: found 0, needed a number from 0.001 to 1024"}}) {
    std::ofstream(file_) << text;
    EXPECT_EQ(error("hexagon:profile=" + file_), said + message);
  }
  EXPECT_NE(error("hexagon:profile=/nowhere/x.json").find("/nowhere/x.json"), std::string::npos);
  EXPECT_NE(error("sim:v79-8elite,profile=x.json").find("'profile': needed one of"), std::string::npos);
}

TEST_F(DeviceSpecs, HexagonsUnitIsOneOfThreeAndASplitIsBesideNoMatrixUnit) {
  for (const auto& [value, share] : {std::pair{"40%", 0.4}, {"0.5%", 0.005}, {"off", 0.0}, {"auto", 0.0}})
    EXPECT_EQ(must(parse_device_spec(std::string("hexagon:split=") + value, nullptr))->dsp.host_share, share) << value;
  EXPECT_EQ(must(parse_device_spec("hexagon:split=40%", nullptr))->dsp.unit, HexagonUnit::vector);
  EXPECT_EQ(must(parse_device_spec("hexagon:split=auto", nullptr))->dsp.unit, HexagonUnit::automatic);
  EXPECT_EQ(must(parse_device_spec("hexagon:unit=matrix,split=off", nullptr))->dsp.unit, HexagonUnit::matrix);
  EXPECT_EQ(error("hexagon:unit=matrix,split=40%"),
            "device 'hexagon': split: found a share beside unit=matrix, whose products are not divided");
  for (const char* bad : {"", "0%", "100%", "40", "-1%", "nan%"})
    EXPECT_EQ(
        error(std::string("hexagon:split=") + bad),
        fmt::format("device 'hexagon': split: found '{}', needed auto, off, or the host's share such as 40%", bad));
  for (const auto& [value, unit] : {std::pair{"vector", HexagonUnit::vector}, std::pair{"matrix", HexagonUnit::matrix},
                                    std::pair{"auto", HexagonUnit::automatic}})
    EXPECT_EQ(must(parse_device_spec(std::string("hexagon:unit=") + value, nullptr))->dsp.unit, unit);
  EXPECT_EQ(must(parse_device_spec("hexagon", nullptr))->dsp.unit, HexagonUnit::automatic);
  EXPECT_EQ(error("hexagon:unit=fast"), "device 'hexagon': unit: found 'fast', needed vector, matrix or auto");
  EXPECT_EQ(error("cuda:unit=matrix"), "device 'cuda': 'unit': needed one of budget, products, fallback");
}

TEST_F(DeviceSpecs, HexagonDoesNotCopy) {
  EXPECT_EQ(error("hexagon:memory=copy"),
            "device 'hexagon': memory: found 'copy', but its slabs are mapped, needed plan or sessions");
  EXPECT_EQ(error("hexagon:memory=sessions"), "");
  EXPECT_EQ(error("sim:v79-8elite,memory=copy"), "");
}

}  // namespace
}  // namespace llada
