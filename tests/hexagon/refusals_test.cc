// What phones are known to refuse, played by the stand-in: each refusal ends in one line that names the cause and the
// next step, and nothing is left behind. Refusals in the middle of a run are in hexagon_device_test.cc, of the checkup in
// tests/bench.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "devices/hexagon/known_space.h"
#include "hexagon_tools.h"
#include "lab/hexagon/experiments.h"

namespace llada::hexagon {
namespace {

namespace fs = std::filesystem;

struct Refusal {
  const char* name;
  std::string phone;  // what the stand-in refuses
  std::string fault;
  std::vector<std::string> modules;  // files of the folder that ADSP_LIBRARY_PATH names; "NAME=PROGRAM": of that one
  std::string says;                  // {L}: the library, {F}: the folder
  double deadline_s = 20;
};

class ModuleFolder : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_EMULATOR();
    std::string name = (fs::temp_directory_path() / "llada_refusals_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    ::setenv("ADSP_LIBRARY_PATH", folder_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("ADSP_LIBRARY_PATH");
    if (folder_.empty()) return;
    fs::remove_all(folder_);
    play_phone("");
    play_fault("");
  }
  // An empty file, which the host looks for, and the program that the stand-in runs in its place.
  void put_module(const std::string& name, const std::string& program) const {
    std::ofstream(fs::path(folder_) / (name + ".so")).flush();
    fs::create_symlink(std::string(LLADA_BINARY_DIR "/bin/hexagon/") + program,
                       fs::path(folder_) / (name + ".emulated"));
  }
  std::string filled(std::string text) const {
    for (const auto& [mark, by] : {std::pair<std::string, std::string>{"{L}", standin_path()}, {"{F}", folder_}})
      for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += by.size())
        text.replace(at, mark.size(), by);
    return text;
  }
  std::string folder_;
};

class Refusals : public ModuleFolder, public testing::WithParamInterface<Refusal> {};

constexpr const char* kOurs = "libllada_hexagon_skel.emulated";

TEST_P(Refusals, EndInOneLineAndLeaveNothing) {
  const Refusal& refusal = GetParam();
  for (const std::string& module : refusal.modules)
    put_module(module.substr(0, module.find('=')),
               module.find('=') == std::string::npos ? kOurs : module.substr(module.find('=') + 1));
  play_phone(refusal.phone);
  {
    const auto library = *Library::open(standin_path());
    play_fault(refusal.fault);
    const auto session = Session::open(library, 64 << 20, refusal.deadline_s);
    ASSERT_FALSE(session);
    EXPECT_EQ(session.error().message, filled(refusal.says));
    play_fault("");
  }
  EXPECT_TRUE(dsp_processes().empty());
  EXPECT_EQ(shared_buffers(), 0);
  // And what is refused no longer works.
  play_phone("");
  const auto library = *Library::open(standin_path());
  EXPECT_TRUE(Session::open(library, 64 << 20, 20));
}

std::string no_module(const std::string& status, const std::string& step, const std::string& arch = "v67") {
  return "hexagon: {L} of a " + arch + " DSP opened no module: libllada_hexagon_skel.so: " + status +
         ": refused on purpose" + step;
}

const std::vector<Refusal> kRefusals = {
    {"SignedProcess",
     "open=0x80000406",
     "",
     {},
     no_module("unable to load (0x80000406)",
               "; this program has a signed process on the DSP already, or the DSP's loader refused the module; end "
               "all programs that use the DSP, and send the output of 'adb logcat -d -s adsprpc'")},
    {"UnsignedAndOpen",
     "unsigned=0x14,open=0x80000414",
     "",
     {},
     no_module(
         "unsupported (0x80000414)",
         "; unsigned modules were refused: unsupported (20); the driver does not allow it here: run from adb shell, "
         "or name the library in the app's manifest")},
    {"Failed",
     "open=1",
     "",
     {},
     no_module("failed (1)", "; this user may not open the DSP's device: run from adb shell or Termux, or as root")},
    {"OutOfMemory",
     "open=2",
     "",
     {},
     no_module("out of memory (2)", "; the DSP or the phone is full: end other programs that use the DSP")},
    {"UnableToLoad",
     "open=6",
     "",
     {},
     no_module(
         "unable to load (6)",
         "; the DSP's loader refused every variant of the module: send the output of 'adb logcat -d -s adsprpc'")},
    {"NoSuchModule",
     "open=0x8000043e",
     "",
     {},
     no_module("no such module (0x8000043e)",
               "; the module is not where the DSP looks: put it into ADSP_LIBRARY_PATH")},
    {"NoSuchSymbol", "open=66", "", {}, no_module("no such symbol (66)", "; take the module of this build")},
    {"NoSuchDsp",
     "open=39",
     "",
     {},
     no_module("no such session (39)",
               "; the driver knows no DSP of this kind: run 'adb shell ls /dev' and look for fastrpc")},
    {"EndsWhileLoading",
     "open=104",
     "",
     {},
     no_module("connection reset (104)",
               "; the DSP's process ended while it loaded the module: send the output of 'adb logcat -d -s adsprpc'")},
    {"UnknownStatus",
     "open=0x8000047f,arch=0",
     "",
     {},
     "hexagon: {L} of a DSP opened no module: libllada_hexagon_skel.so: error 0x8000047f: refused on purpose; "
     "the driver has no name for it: send the output of 'adb logcat -d -s adsprpc'"},
    // Each variant of the next older architecture is tried, and that of a newer one is not.
    {"EveryVariant",
     "open=6,arch=0x75",
     "",
     {"libllada_hexagon_skel_v79", "libllada_hexagon_skel_v73", "libllada_hexagon_skel_v73_aligned",
      "libllada_hexagon_skel_v68"},
     "hexagon: {L} of a v75 DSP opened no module: libllada_hexagon_skel_v73.so: unable to load (6), "
     "libllada_hexagon_skel_v73_aligned.so: unable to load (6): refused on purpose; the DSP's loader refused every "
     "variant "
     "of the module: send the output of 'adb logcat -d -s adsprpc'"},
    {"WrongModule",
     "arch=0x79",
     "",
     {"libllada_hexagon_skel_v79=test/libecho_skel.emulated"},
     "hexagon: libllada_hexagon_skel_v79.so is another program's module; take the module of this build"},
    {"LostDuringTheVote",
     "",
     "die:1",
     {},
     "hexagon: voting for clock and vector units: the DSP process ended: start again"},
    {"SilentDuringTheVote",
     "",
     "hang:1",
     {},
     "hexagon: voting for clock and vector units: no answer within 0.3 s; the DSP process was killed",
     0.3},
};

INSTANTIATE_TEST_SUITE_P(OfPhones, Refusals, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(NoLibrary, SaysWhatIsNeeded) {
  const auto library = Library::open("/nowhere/libcdsprpc.so");
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().message,
            "hexagon: no FastRPC library: /nowhere/libcdsprpc.so: cannot open shared object file: No such file or "
            "directory; needed a phone or laptop with a Hexagon DSP, in an app <uses-native-library "
            "android:name=\"libcdsprpc.so\"/> in its manifest, or --device hexagon:library=FILE");
}

// The environment is the program's, whose threads may read it at any time.
TEST(NoLibrary, LeavesTheEnvironmentAlone) {
  SKIP_WITHOUT_EMULATOR();
  ::unsetenv("ADSP_LIBRARY_PATH");
  ASSERT_TRUE(Library::open(standin_path()));
  EXPECT_EQ(std::getenv("ADSP_LIBRARY_PATH"), nullptr);
  EXPECT_EQ(Library::search_path(), "");
}

// A v79 DSP of which there is no module, and whose loader takes only the second variant of the next older one.
TEST_F(ModuleFolder, TheNextOlderModuleIsTakenAndTheVariantThatLoads) {
  std::ofstream(fs::path(folder_) / "libllada_hexagon_skel_v73.so").flush();
  put_module("libllada_hexagon_skel_v73_aligned", kOurs);
  put_module("libllada_hexagon_skel_v68", kOurs);
  play_phone("arch=0x79");
  const auto library = *Library::open(standin_path());
  EXPECT_EQ(library->architecture(), 79u);
  const auto session = Session::open(library, 64 << 20, 20);
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ((*session)->module(), "libllada_hexagon_skel_v73_aligned.so");
  EXPECT_EQ(library->modules(), std::vector<std::string>{"libllada_hexagon_skel_v73_aligned.so"})
      << "at once next time";
}

// Not a refusal: what was added to the interface later is optional.
TEST(OldLibrary, LacksLatencyAndArchitectureAndWorks) {
  SKIP_WITHOUT_EMULATOR();
  const std::string path = LLADA_BINARY_DIR "/bin/hexagon/test/libcdsprpc_old.so";
  ::setenv("ADSP_LIBRARY_PATH", LLADA_BINARY_DIR "/bin/hexagon", 1);
  const auto library = *Library::open(path);
  EXPECT_EQ(library->architecture(), std::nullopt);
  // Without an architecture the oldest module is chosen; the emulator's has no number.
  if (library->modules().front() == "libllada_hexagon_skel.so") {
    const auto session = Session::open(library, 64 << 20, 20);
    ASSERT_TRUE(session) << session.error().message;
    const auto latency = (*session)->set_latency(true);
    ASSERT_TRUE(latency);
    EXPECT_EQ(*latency, std::nullopt);
  }
  ::unsetenv("ADSP_LIBRARY_PATH");
}

// Where there is no HAP_mmap2 the older call maps.
TEST(MapCall, IsTheOneThatTheSystemHas) {
  SKIP_WITHOUT_EMULATOR();
  for (const uint32_t call : {2u, 1u}) {
    play_phone(call == 2 ? "" : "mmap2=0");
    const auto library = *Library::open(standin_path());
    const auto session = *Session::open(library, 64 << 20, 20);
    EXPECT_EQ(session->info().map_call, call);
    const auto one = run_one_op(library, *session);
    ASSERT_TRUE(one) << one.error().message;
    EXPECT_NEAR(one->value, one->needed, 1e-4);
  }
  play_phone("");
}

TEST(Votes, AreGivenRefusedAndAbsent) {
  SKIP_WITHOUT_EMULATOR();
  for (const auto& [phone, refused, status] :
       {std::tuple{"", 0u, 0}, {"votes=0x80000414", 7u, static_cast<int>(0x80000414u)}, {"votes=-1", 8u, 0}}) {
    play_phone(phone);
    const auto library = *Library::open(standin_path());
    const auto session = *Session::open(library, 64 << 20, 20);
    EXPECT_EQ(session->votes().refused, refused) << phone;
    EXPECT_EQ(session->votes().status, status) << phone;
    // Given back there is no class to be refused.
    EXPECT_EQ(session->vote(false)->refused, refused & ~1u) << phone;
  }
  play_phone("");
}

// What cycles of a phone are divided by: packets grow with outputs, from what preparing the inputs takes.
TEST(ProductOfAnExperiment, HasThePacketsThatItIsSaidToHave) {
  SKIP_WITHOUT_EMULATOR();
  const auto library = *Library::open(standin_path());
  const auto session = *Session::open(library, 64 << 20, 20);
  double packets[2] = {};
  for (const int64_t outputs : {32, 160}) {
    auto product = Product::make(library, session, outputs);
    ASSERT_TRUE(product) << product.error().message;
    const auto run = product->run(1);
    ASSERT_TRUE(run) << run.error().message;
    EXPECT_TRUE(product->check().right());
    packets[outputs > 32] = static_cast<double>(run->packets);
  }
  const double whole = packets[0] + (packets[1] - packets[0]) / 128 * (4096 - 32);
  EXPECT_NEAR(whole, kProductPackets, 0.02 * kProductPackets);
}

TEST(KeptSpace, IsThatOfThisStartAndArchitecture) {
  std::string folder = (fs::temp_directory_path() / "llada_space_XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  constexpr int64_t kBytes = int64_t{13} << 28;
  EXPECT_EQ(kept_space(folder, "boot", 79), std::nullopt);
  keep_space(folder, "boot", 79, kBytes);
  EXPECT_EQ(kept_space(folder, "boot", 79), kBytes);
  EXPECT_EQ(kept_space(folder, "boot", 73), std::nullopt);
  EXPECT_EQ(kept_space(folder, "boo", 79), std::nullopt);
  EXPECT_EQ(kept_space(folder, "", 79), std::nullopt);
  EXPECT_EQ(kept_space("", "boot", 79), std::nullopt);
  for (const char* text :
       {"boot v79 ", "boot v79 x\n", "boot v79 12", "boot v79 -5\n", "boot v79 99999999999\n", "\n"}) {
    std::ofstream(folder + "/hexagon-space") << text;
    EXPECT_EQ(kept_space(folder, "boot", 79), std::nullopt) << text;
  }
  fs::remove_all(folder);
  keep_space(folder, "boot", 79, kBytes);  // a folder that is not there: nothing is kept, and nothing said
}

TEST(SpaceMeasured, StepsBackToWhatThePhoneGives) {
  SKIP_WITHOUT_EMULATOR();
  play_phone(fmt::format("space={}", 29 << 20));
  const auto library = *Library::open(standin_path());
  const auto session = *Session::open(library, 64 << 20, 20);
  const auto space = measure_space(library, *session, 4 << 20);
  ASSERT_TRUE(space) << space.error().message;
  EXPECT_EQ(space->bytes, 29 << 20) << "seven of 4 MiB and one of 1 MiB";
  EXPECT_EQ(space->refusal,
            fmt::format("hexagon: mapping a buffer of {} bytes beside {} mapped bytes was refused: out of memory (2)",
                        1 << 20, 29 << 20));
  EXPECT_FALSE(space->of_memory);
  EXPECT_EQ(session->mapped_bytes(), 0);
  play_phone(fmt::format("alloc={}", 2 << 20));
  const auto little = measure_space(library, *session, 4 << 20);
  ASSERT_TRUE(little) << little.error().message;
  EXPECT_TRUE(little->of_memory);
  play_phone("");
}

}  // namespace
}  // namespace llada::hexagon
