// llada infill as a process: what stands around the gaps is kept byte for byte, wherever the gaps are and however many.
#include "cli/process.h"

namespace llada::test {
namespace {

// Puts the texts of the spans into the gaps, by a way of its own.
std::string with_spans(std::string text, const Json& spans) {
  size_t at = 0;
  for (const Json& span : spans) {
    at = text.find("<mask", at);
    if (at == std::string::npos) return "more spans than gaps";
    const std::string filled = span["text"];
    text.replace(at, text.find('>', at) + 1 - at, filled);
    at += filled.size();
  }
  return text;
}

void expect_kept(const std::string& text, size_t gaps) {
  const TempFolder folder;
  const Json json = json_of({"infill", "-q", "-m", LLADA_SOURCE_DIR "/models/tiny-llada-long", "-f",
                             folder.write("text", text), "--steps", "1", "--block-length", "1024", "--json"});
  ASSERT_EQ(json["spans"].size(), gaps);
  EXPECT_EQ(json["text"], with_spans(text, json["spans"]));
}

TEST(Infill, ATableKeepsEveryOtherByte) {
  std::string table = "| no | name\t| sum |\r\n|---|---|---|\r\n";
  for (int row = 1; row <= 60; ++row) table += fmt::format("|{}|<mask:2>\t|é  {}\r\n", row, row % 7);
  expect_kept(table, 60);
}

TEST(Infill, GapsStandAnywhere) {
  expect_kept("<mask:2> a <mask><mask:3><mask> b <mask>", 5);
  expect_kept("<mask:2>", 1);
  std::string many;
  for (int i = 0; i < 500; ++i) many += i % 3 == 0 ? "<mask>" : "<mask>,";
  expect_kept(many, 500);
}

TEST(Infill, AGapOfOpenLengthIsAsTheOneThatWasChosen) {
  const auto fill = [](const std::string& gap) {
    return json_of({"infill", tiny_model(), "Ken has 20+6=" + gap + " puzzles.", "--json"});
  };
  const Json open = fill("<mask:auto>"), fixed = fill(fmt::format("<mask:{}>", open["spans"][0]["length"].get<int>()));
  EXPECT_EQ(open["text"], fixed["text"]);
  EXPECT_EQ(open["spans"], fixed["spans"]);
  EXPECT_EQ(open["spans"][0]["tokens"].size(), open["spans"][0]["length"].get<size_t>());
  EXPECT_EQ(open["stats"]["nfe"], fixed["stats"]["nfe"].get<int>() + 10) << "1, 2, 3, 4, 6, ... 32";
  expect_one_line(run_llada({"infill", tiny_model(), std::string(600, '7') + "<mask:auto>"}), 2,
                  "maximum context length");
}

TEST(Infill, ABackslashTakesAGapAsText) {
  EXPECT_THAT(done({"infill", "-q", tiny_model(), R"(write \<mask:4> for 20+6=<mask:2>)"}).out,
              StartsWith("write <mask:4> for 20+6="));
}

}  // namespace
}  // namespace llada::test
