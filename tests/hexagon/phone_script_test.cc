// tools/hexagon_phone.sh without a phone: a compiler and an adb that only write down how they were called.
// labels of this file: device native
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "formats/temp_folder.h"

namespace llada {
namespace {

namespace fs = std::filesystem;

class PhoneScript : public testing::Test {
 protected:
  void SetUp() override {
    const fs::path bin = folder_ / "ndk/toolchains/llvm/prebuilt/linux/bin";
    fs::create_directories(bin);
    fs::create_directories(folder_ / "build/bin/hexagon");
    std::ofstream(folder_ / "build/bin/hexagon/libllada_hexagon_skel_v73.so") << "module";
    program(bin / "aarch64-linux-android31-clang++", "for last; do :; done; echo probe >\"$last\"");
    program(folder_ / "cmake", "exit 0");
    // Of the experiments only those with the vendor's folder on the path work.
    program(folder_ / "adb", "echo \"$*\" >>'" + (folder_ / "calls").string() +
                                 "'\nif [ \"$1\" = push ]; then ls \"$2\" >>'" + (folder_ / "pushed").string() +
                                 "'; fi\ncase \"$*\" in *LD_LIBRARY_PATH*) exit 0 ;; *hexagon_probe*) exit 1 ;; esac");
  }
  static void program(const fs::path& path, const std::string& text) {
    std::ofstream(path) << "#!/bin/sh\n" << text << '\n';
    ::chmod(path.c_str(), 0755);
  }
  std::string text(const char* name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const TempFolder temp_;
  const fs::path folder_ = temp_.path();
};

TEST_F(PhoneScript, PushesOneFolderAndTriesTheVendorsOnlySecond) {
  const std::string at = folder_.string();
  const std::string command =
      "ANDROID_NDK='" + at + "/ndk' ADB='" + at + "/adb' CMAKE='" + at + "/cmake' BUILD='" + at +
      "/build' BUILD_ANDROID='" + at +
      "/none' FMT_HEADERS=/usr/include/fmt '" LLADA_SOURCE_DIR "/tools/hexagon_phone.sh' query >'" + at + "/said' 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << text("said");
  EXPECT_EQ(text("pushed"), "hexagon_probe\nlibllada_hexagon_skel_v73.so\n");
  const std::string calls = text("calls");
  const size_t first = calls.find("./hexagon_probe query"), second = calls.find("./hexagon_probe query", first + 1);
  ASSERT_NE(second, std::string::npos) << calls;
  EXPECT_EQ(calls.substr(0, first).find("LD_LIBRARY_PATH"), std::string::npos) << calls;
  EXPECT_NE(calls.substr(first, second - first).find("LD_LIBRARY_PATH=/vendor/lib64"), std::string::npos) << calls;
  EXPECT_NE(text("said").find("hexagon_phone: worked LD_LIBRARY_PATH=/vendor/lib64 (hexagon_probe query)"),
            std::string::npos)
      << text("said");
}

}  // namespace
}  // namespace llada
