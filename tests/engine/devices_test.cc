// What is listed of this machine, and that the environment is the caller's business.
#include "engine/devices.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

namespace llada {
namespace {

std::string hexagon_description(const std::string& cdsprpc) {
  const auto devices = list_devices("", 1, cdsprpc);
  if (!devices) return devices.error().message;
  const auto dsp = std::ranges::find(*devices, "hexagon", &DeviceSummary::name);
  return dsp == devices->end() ? "not listed" : dsp->description;
}

TEST(Devices, TheLibraryOfHexagonIsAnArgumentAndNotTheEnvironments) {
  ASSERT_EQ(::setenv("LLADA_CDSPRPC", "/nonexistent/environment.so", 1), 0);
  EXPECT_THAT(hexagon_description(""), testing::Not(testing::HasSubstr("/nonexistent")));
  const std::string asked = hexagon_description("/nonexistent/argument.so");
  ::unsetenv("LLADA_CDSPRPC");
  if (LLADA_HEXAGON_BUILT == 0) GTEST_SKIP() << "built without the device hexagon";
  EXPECT_THAT(asked, testing::HasSubstr("/nonexistent/argument.so"));
}

}  // namespace
}  // namespace llada
