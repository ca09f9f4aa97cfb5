// The examples of docs/forms.md, pasted into a shell: each answers what stands behind it.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "cli/process.h"
#include "formats/temp_folder.h"

namespace llada::cli {
namespace {

TEST(FormExamples, AnswerWhatTheDocumentSays) {
  std::ifstream document(LLADA_SOURCE_DIR "/docs/forms.md");
  std::string command;
  int examples = 0;
  for (std::string line; std::getline(document, line);) {
    if (!line.starts_with("    ")) {
      command.clear();
      continue;
    }
    line.erase(0, 4);
    if (!line.starts_with("# ")) {
      command += line + "\n";
      continue;
    }
    if (!command.starts_with("llada")) {  // asks a server
      command.clear();
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

// Every turn of a chat, and every answer of an evaluation, is one of the form; the right one where the form has it.
TEST(FormExamples, ChatsAndEvaluationsTakeForms) {
  const std::string question = "Jane is 52 years old. Paul is 84 years old. Is Jane older than Paul?";
  const auto chat = test::run_llada({"chat", "-m", test::tiny_model(), "--choice", "maybe|no"},
                                    {.stdin_text = question + "\nSort the numbers from smallest to largest: 3 1\n"});
  EXPECT_EQ(chat.status, 0) << chat.err;
  std::istringstream answers(chat.out);
  int turns = 0;
  for (std::string line; std::getline(answers, line); ++turns) EXPECT_TRUE(line == "maybe" || line == "no") << chat.out;
  EXPECT_EQ(turns, 2);
  const TempFolder folder;
  folder.write("tasks.jsonl", R"({"task": "bool", "prompt": ")" + question +
                                  R"(", "response": "no", "answer": "no"})"
                                  "\n");
  const auto rows = [&](std::vector<std::string> form) {
    std::vector<std::string> words = {"eval", "-m", test::tiny_model(), "--tasks", folder / "tasks.jsonl"};
    words.insert(words.end(), form.begin(), form.end());
    const auto result = test::run_llada(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out + result.err;
  };
  const std::string free = rows({}), held = rows({"--choice", "no|maybe"}), wrong = rows({"--choice", "yes|maybe"});
  EXPECT_NE(free.find("bool         1  100.0%"), std::string::npos) << free;
  EXPECT_NE(held.find("bool         1  100.0%"), std::string::npos) << held;
  EXPECT_NE(wrong.find("bool         1    0.0%"), std::string::npos) << wrong;
}

}  // namespace
}  // namespace llada::cli
