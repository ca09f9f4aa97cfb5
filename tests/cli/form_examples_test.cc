// The examples of docs/forms.md, pasted into a shell: each answers what stands behind it.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "cli/process.h"

namespace llada::cli {
namespace {

TEST(FormExamples, AnswerWhatTheDocumentSays) {
  std::ifstream document(LLADA_SOURCE_DIR "/docs/forms.md");
  std::string command;
  int examples = 0;
  for (std::string line; std::getline(document, line);) {
    if (!line.starts_with("    ")) continue;
    line.erase(0, 4);
    if (!line.starts_with("# ")) {
      command += line + "\n";
      continue;
    }
    const std::string shell = "llada() { '" LLADA_BINARY "' \"$@\"; }\nM='" + test::tiny_model() + "'\n" + command;
    const auto result = test::run_llada({"-c", shell}, {.program = "/bin/sh"});
    EXPECT_EQ(result.status, 0) << command << result.err;
    std::string answer = result.out;
    if (answer.ends_with('\n')) answer.pop_back();
    EXPECT_EQ(answer, line.substr(2)) << command;
    command.clear();
    ++examples;
  }
  EXPECT_EQ(examples, 5);
}

}  // namespace
}  // namespace llada::cli
