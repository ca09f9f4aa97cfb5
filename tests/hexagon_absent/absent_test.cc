// What is left of the Hexagon device where its tools are missing: a stub that says so, a build that says so once, tests
// that are skipped and never pass.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include "devices/hexagon/hexagon_device.h"

namespace llada {
namespace {

// What a shell command prints, with its exit status behind it.
std::string output(const std::string& command) {
  std::string out;
  FILE* pipe = ::popen(("(" + command + ") 2>&1; echo status $?").c_str(), "r");
  std::array<char, 4096> part;
  while (pipe != nullptr && std::fgets(part.data(), part.size(), pipe) != nullptr) out += part.data();
  if (pipe != nullptr) ::pclose(pipe);
  return out;
}
int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++n;
  return n;
}

TEST(HexagonAbsent, TheStubSaysWhatTheBuildLacked) {
  const auto device = make_hexagon_device({}, {}, {}, nullptr);
  const auto found = describe_hexagon({});
  ASSERT_FALSE(device);
  ASSERT_FALSE(found);
  EXPECT_EQ(device.error().message, found.error().message);
  EXPECT_NE(found.error().message.find("clang with the Hexagon target and lld were missing"), std::string::npos);
  EXPECT_EQ(found.error().message.find('\n'), std::string::npos);
  EXPECT_EQ(exit_status(found.error()), 2);
}

TEST(HexagonAbsent, TheBuildSaysOnceWhichToolIsMissing) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("llada_hexagon_absent_" + std::to_string(::getpid()))).string();
  const auto configured = [&](const std::string& hidden) {
    std::filesystem::remove_all(folder);
    return output(LLADA_CMAKE " -S " LLADA_SOURCE_DIR "/tests/hexagon_absent/configure -B " + folder + " " + hidden);
  };
  for (const char* hidden : {"-DLLADA_HEXAGON_CLANG=", "-DLLADA_HEXAGON_LLD="}) {
    const std::string text = configured(hidden);
    EXPECT_EQ(count(text, "Hexagon: "), 1) << text;
    EXPECT_NE(text.find("the device is a stub, its tests are skipped"), std::string::npos) << text;
    EXPECT_NE(text.find("LLADA_HEXAGON is FALSE"), std::string::npos) << text;
    EXPECT_NE(text.find("status 0"), std::string::npos) << "and goes on";
  }
  const std::string text = configured("-DLLADA_HEXAGON_QEMU=");
  EXPECT_EQ(count(text, "Hexagon: "), 1) << text;
  if (text.find("LLADA_HEXAGON is TRUE") != std::string::npos) {
    EXPECT_NE(text.find("nothing here can run it, its tests are skipped"), std::string::npos) << text;
  }
  std::filesystem::remove_all(folder);
}

TEST(HexagonAbsent, TestsAreSkippedNotPassedWithoutTheEmulator) {
  for (const char* program : {"test_hexagon --gtest_filter='HexagonTest.*:StandIn.*:Overlap.*:Probe.*:MapSequence.*'",
                              "test_hexagon_dsp --gtest_filter='*Packets*:*Layer*:*Head*'"}) {
    const std::string text = output(
        "LLADA_HEXAGON_QEMU=/nowhere/qemu-hexagon " LLADA_EMULATOR " " LLADA_BINARY_DIR "/bin/" + std::string(program));
    EXPECT_GT(count(text, "[  SKIPPED ]"), 5) << text;
    EXPECT_EQ(count(text, "[       OK ]"), 0) << text;
    EXPECT_EQ(count(text, "[  FAILED  ]"), 0) << text;
    EXPECT_NE(text.find("status 0"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace llada
