// The checkup of a DSP, by the stand-in: a phone that has everything, one that refuses whatever phones are known to
// refuse, each with the line that says so, and one that cannot be used.
// labels of this file: device native
#include "lab/hexagon_checkup.h"

#include <cstdlib>

#include "formats/temp_folder.h"
#include "hexagon/hexagon_tools.h"

namespace llada::lab {
namespace {

using Kind = Finding::Kind;

class HexagonCheckup : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_EMULATOR();
    ::setenv("ADSP_LIBRARY_PATH", "/nowhere", 1);  // no module but the emulator's
  }
  void TearDown() override {
    if (!no_emulator().empty()) return;
    ::unsetenv("ADSP_LIBRARY_PATH");
    play_phone("");
    EXPECT_TRUE(dsp_processes().empty());
    EXPECT_EQ(shared_buffers(), 0);
  }
  static Checkup examine(const std::string& phone, const std::string& cache = {}, double deadline_s = 30) {
    play_phone(phone);
    return check_hexagon({.library = standin_path(),
                          .cache = cache,
                          .space_step = 4 << 20,
                          .space_bytes = 64 << 20,
                          .large_map = 4 << 20,
                          .outputs = 32,
                          .calls = 3,
                          .repeats = 1,
                          .deadline_s = deadline_s});
  }
  static const Finding& found(const Checkup& checkup, const std::string& what) {
    static const Finding none;
    for (const Finding& finding : checkup.findings)
      if (finding.what == what) return finding;
    ADD_FAILURE() << "nothing is said of " << what;
    return none;
  }
};

TEST_F(HexagonCheckup, OfADspThatHasEverything) {
  const Checkup checkup = examine("");
  for (const char* what : {"library", "module", "unsigned", "session", "votes", "map call", "latency", "product",
                           "one row", "split", "mapping", "caches", "sessions"})
    EXPECT_EQ(found(checkup, what).kind, Kind::good) << what << ": " << found(checkup, what).text;
  for (const Finding& finding : checkup.findings) EXPECT_EQ(finding.text.find('\n'), std::string::npos);
  EXPECT_EQ(found(checkup, "library").text, std::string(standin_path()) + " (the emulator's), DSP v67");
  EXPECT_EQ(found(checkup, "module").text, "libllada_hexagon_skel.so");
  ASSERT_TRUE(checkup.profile);
  // What is written can be read, and simulated from.
  const auto read = parse_profile(profile_text(*checkup.profile), "written");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->name, "measured-v67");
  EXPECT_EQ(read->dsp->arch, 67);
  EXPECT_EQ(read->dsp->module, "libllada_hexagon_skel.so");
  EXPECT_TRUE(found(checkup, "split").text.ends_with("it has none beside an emulated DSP"));
  EXPECT_EQ(read->dsp->host_share, 0);
  EXPECT_TRUE(read->description.starts_with("EMULATED"));
  EXPECT_GT(read->window_gib->value, 0.01);
  EXPECT_LT(read->window_gib->value, 0.0625);
  EXPECT_EQ(read->sessions.value, 2);
  EXPECT_EQ(read->map("").name, "busy");
}

// Everything that costs speed and not work, at once.
TEST_F(HexagonCheckup, OfADspThatRefusesWhatItCan) {
  const Checkup checkup =
      examine(fmt::format("arch=0x79,unsigned=20,votes=0x80000414,mmap2=0,latency=20,uri=0x14,space={}", 29 << 20));
  const std::pair<std::string, std::string> wanted[] = {
      {"module",
       "libllada_hexagon_skel.so on a v79 DSP: put libllada_hexagon_skel_v79.so into /nowhere if there is one"},
      {"unsigned", "refused: unsupported (20), and the module was loaded nevertheless"},
      {"votes",
       "class, clock, vector units refused: unsupported (0x80000414): the clock is the system's choice; compare the "
       "cycles "
       "below"},
      {"map call", "HAP_mmap, since there is no HAP_mmap2: a buffer has less than 2 GiB, as slabs have anyway"},
      {"sessions", "one: a second was refused: no address for session 1: unsupported (20)"},
  };
  for (const auto& [what, text] : wanted) {
    EXPECT_EQ(found(checkup, what).kind, Kind::less) << what;
    EXPECT_EQ(found(checkup, what).text, text);
  }
  EXPECT_NE(found(checkup, "latency").text.find("us a call; less was refused: unsupported (20); keep the screen on"),
            std::string::npos);
  const std::string window = found(checkup, "window").text;
  EXPECT_NE(window.find(" of address space, then mapping a buffer of 1048576 bytes beside "), std::string::npos)
      << window;
  EXPECT_NE(window.find("; --device hexagon:sessions=2 gives two"), std::string::npos) << window;
  ASSERT_TRUE(checkup.profile);
  EXPECT_EQ(checkup.profile->sessions.value, 1);
}

// ---- The self-test of a matrix unit. Its mark is a file of the folder for caches.

std::string mark(const TempFolder& folder) {
  std::ifstream file(folder.path() + "/hexagon-unit");
  std::string identity, state;
  std::getline(file, identity), std::getline(file, state);
  return state;
}

TEST_F(HexagonCheckup, AMatrixUnitThatIsRightPassesAndIsInTheProfile) {
  const TempFolder cache;
  const Checkup checkup = examine("vtcm=1048576", cache.path());
  const Finding& unit = found(checkup, "matrix unit");
  EXPECT_EQ(unit.kind, Kind::good) << unit.text;
  for (const char* part : {"right, with 1024 KiB of memory; ", "1 row ", "9 rows ", "32 rows ", "33 rows ", "; hash "})
    EXPECT_NE(unit.text.find(part), std::string::npos) << unit.text;
  EXPECT_EQ(mark(cache), "passed");
  ASSERT_TRUE(checkup.profile);
  const auto read = parse_profile(profile_text(*checkup.profile), "written");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->dsp->unit, unit.text);
  EXPECT_EQ(read->npu.row_tile.value, 32);
}

// Before any of its instructions, so there is no mark.
TEST_F(HexagonCheckup, AMatrixUnitThatIsNotGivenIsNotTested) {
  const TempFolder cache;
  for (const auto& [phone, why] :
       {std::pair{"", "none: its memory, or the unit itself was refused; products are the vector unit's"},
        {"vtcm=65536", "none: its memory, or the unit itself was refused; products are the vector unit's"},
        {"vtcm=1048576,unit=20", "none: its power (unsupported (20)) was refused; products are the vector unit's"}}) {
    const Checkup checkup = examine(phone, cache.path());
    EXPECT_EQ(found(checkup, "matrix unit").kind, Kind::less);
    EXPECT_EQ(found(checkup, "matrix unit").text, why);
    EXPECT_EQ(mark(cache), "");
  }
  EXPECT_EQ(found(examine("vtcm=1048576"), "matrix unit").text,
            "not asked, since no mark can be kept that its test began: there is no folder for caches, needed for the "
            "matrix unit's test");
}

TEST_F(HexagonCheckup, AMatrixUnitThatErrsFailsByThePartThatSeesIt) {
  const TempFolder cache;
  for (const auto& [phone, says] :
       {std::pair{"lies=40", "failed: its test: "},
        {"lies=1", "failed: its test: the sum of 32 whole numbers in row 0, output 0 is "},
        {"swaps=1", "failed: its test: the sum of 32 whole numbers in row 0, output "},
        {"drifts=1", "failed: its test: the sum of 32 whole numbers in row "},
        {"drifts=301", "failed: its test: repetition "},
        {"locks=0", "failed: its test: an experiment: the DSP answered op 0: no matrix unit"}}) {
    const Checkup checkup = examine(std::string("vtcm=1048576,") + phone, cache.path());
    const Finding& unit = found(checkup, "matrix unit");
    EXPECT_EQ(unit.kind, Kind::bad) << phone << ": " << unit.text;
    EXPECT_TRUE(mark(cache).starts_with(says)) << phone << ": " << mark(cache);
    ASSERT_TRUE(checkup.profile) << "the vector unit is as good as before";
    EXPECT_EQ(checkup.profile->dsp->unit, unit.text);
  }
}

// The call ends in bounded time, the mark stays, and the unit is not touched again until somebody deletes it.
TEST_F(HexagonCheckup, AMatrixUnitThatHangsIsNotAskedAgain) {
  const TempFolder cache;
  const std::string again =
      "its test began and did not end, so the DSP or the phone may have hung: to try again, delete " + cache.path() +
      "/hexagon-unit and run llada-study doctor --device hexagon";
  const Checkup hung = examine("vtcm=1048576,hangs=1", cache.path(), 1);
  EXPECT_EQ(found(hung, "matrix unit").kind, Kind::bad);
  EXPECT_EQ(found(hung, "matrix unit").text,
            "running a batch: no answer within 1 s; the DSP process was killed; " + again);
  EXPECT_EQ(mark(cache), "began");
  EXPECT_TRUE(hung.profile);
  EXPECT_EQ(found(examine("vtcm=1048576", cache.path()), "matrix unit").text, "not asked: " + again);
  EXPECT_EQ(mark(cache), "began");
  std::filesystem::remove(cache.path() + "/hexagon-unit");
  EXPECT_EQ(found(examine("vtcm=1048576", cache.path()), "matrix unit").kind, Kind::good);
}

TEST_F(HexagonCheckup, OfADspThatCannotBeUsedHasOneLineAndNoProfile) {
  const Checkup checkup = examine("open=0x80000406");
  ASSERT_EQ(checkup.findings.size(), 2u);
  EXPECT_EQ(checkup.findings[1].what, "session");
  EXPECT_EQ(checkup.findings[1].kind, Kind::bad);
  EXPECT_NE(checkup.findings[1].text.find("this program has a signed process on the DSP already"), std::string::npos);
  EXPECT_FALSE(checkup.profile);
}

}  // namespace
}  // namespace llada::lab
