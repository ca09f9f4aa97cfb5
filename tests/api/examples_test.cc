// The example programs, run: the recorded answers, and one line where something is wrong. They stay short.
// labels of this file: native -threads
#include <cstdio>
#include <fstream>

#include "api_fixture.h"

namespace llada {
namespace {

struct Ran {
  int status = -1;
  std::string out;
};

// A shell's command line behind an example's name.
Ran run_example(const std::string& name, const std::string& rest) {
  const std::string command = std::string(LLADA_EMULATOR) + " " + LLADA_EXAMPLES + name + " " + rest;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  Ran ran;
  for (int c; (c = std::fgetc(pipe)) != EOF;) ran.out += static_cast<char>(c);
  ran.status = WEXITSTATUS(::pclose(pipe));
  return ran;
}

const std::string kModel = "'" + kTinyModel + "' ";
const GoldenItem& sums() { return tiny().golden[0]; }

TEST(Examples, GenerateAnswersAndShowsSteps) {
  const std::string options = "' preset=exact gen_length=128 block_length=32 threshold=0.9 early_stop=none 2>&1";
  const Ran ran = run_example("generate", kModel + "'" + sums().prompt + options);
  EXPECT_EQ(ran.status, 0);
  EXPECT_TRUE(ran.out.ends_with("\n" + sums().threshold.text + "\n")) << ran.out;
  EXPECT_NE(ran.out.find("step 0, "), std::string::npos);
  EXPECT_NE(ran.out.find(fmt::format("step {}, 0 left", sums().threshold.nfe - 1)), std::string::npos) << ran.out;
}

TEST(Examples, GenerateSaysWhatIsWrong) {
  const Ran ran = run_example("generate", kModel + "text treshold=0.9 2>&1");
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(ran.out, "'treshold' is no decoding option\n");
}

TEST(Examples, InfillFillsTheGaps) {
  const Ran ran = run_example("infill", kModel + "'Ken has 20+6=<mask:2> puzzles. Theo has 26-3=<mask:2> puzzles.'");
  EXPECT_EQ(ran.status, 0);
  EXPECT_TRUE(ran.out.starts_with("Ken has 20+6=26 puzzles. Theo has 26-3=23 puzzles.\n")) << ran.out;
  EXPECT_EQ(std::ranges::count(ran.out, '\n'), 5) << "the text and four tokens: " << ran.out;
}

TEST(Examples, ManyAnswersAsAlone) {
  std::string prompts, answers;
  for (const GoldenItem& item : tiny().golden) {
    if (item.prompt.contains('\n') || item.prompt.contains('\'') || item.threshold.text.contains('\n')) continue;
    prompts += item.prompt + "\n";
    answers += item.threshold.text + "\n";
  }
  ASSERT_NE(prompts, "");
  const Ran ran = run_example("many", kModel + "2>/dev/null <<'END'\n" + prompts + "END");
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.out, answers);
}

TEST(Examples, AreShort) {
  for (const char* name : {"generate.c", "infill.c", "many.cc"}) {
    std::ifstream file(std::string(LLADA_SOURCE_DIR "/examples/") + name);
    const auto lines = std::count(std::istreambuf_iterator<char>(file), {}, '\n');
    EXPECT_GT(lines, 10) << name;
    EXPECT_LE(lines, 40) << name;
  }
}

}  // namespace
}  // namespace llada
