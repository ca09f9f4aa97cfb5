// llada doctor: what it says of this machine, of a DSP that is not there, and the way from an emulated DSP to a profile
// that simulate and the device read.
#include <unistd.h>

#include "cli/process.h"

namespace llada::test {
namespace {

TEST(Doctor, SaysWhatThisMachineHas) {
  const auto text = done({"doctor"});
  for (const char* what : {"ok cpu ", "ok cores ", "ok memory ", " hexagon ", " cuda "})
    EXPECT_THAT(text.out, HasSubstr(what));
  const Json findings = json_of({"doctor", "--json"})["findings"];
  EXPECT_EQ(findings[0]["finding"], "cpu");
  EXPECT_EQ(findings[0]["kind"], "good");
}

TEST(Doctor, NamesWhatADspLacks) {
  const auto text =
      run_llada({"doctor", "--device", "hexagon", "--library", "/nowhere/lib.so", "-o", "/nowhere/x.json"});
  EXPECT_EQ(text.status, 1);
  EXPECT_EQ(text.err, "");
  EXPECT_THAT(text.out, StartsWith("NO library    no FastRPC library: /nowhere/lib.so: cannot open"));
  const auto json = run_llada({"doctor", "--device", "hexagon", "--library", "/nowhere/lib.so", "--json"});
  EXPECT_EQ(json.status, 1);
  EXPECT_EQ(Json::parse(json.out)["profile"], nullptr);
  EXPECT_THAT(run_llada({"doctor", "--device", "cuda"}).err, HasSubstr("--device: cuda not in {hexagon}"));
}

// labels: long device
TEST(Doctor, WritesAProfileThatSimulateAndTheDeviceRead) {
  const std::string library = fs::path(LLADA_BINARY).parent_path() / "hexagon/libcdsprpc.so";
  if (::access(library.c_str(), R_OK) != 0 || ::access("/usr/bin/qemu-hexagon", X_OK) != 0)
    GTEST_SKIP() << "no emulated DSP here";
  const TempFolder folder;
  const std::string file = folder / "profile.json";
  const auto examined = done({"doctor", "--device", "hexagon", "--library", library, "-o", file});
  EXPECT_THAT(examined.out, HasSubstr("ok product"));
  EXPECT_THAT(examined.out, HasSubstr("for --device hexagon:profile=" + file));
  EXPECT_THAT(done({"simulate", "--profile", file}).out, HasSubstr("EMULATED"));
  done({"run", "-m", tiny_model(), "-p", "1", "--gen-length", "2", "--device",
        "hexagon:deadline=60,fallback=none,library=" + library + ",profile=" + file});
}

}  // namespace
}  // namespace llada::test
