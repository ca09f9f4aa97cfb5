// The examples of docs/forms.md, pasted into a shell: each answers what stands behind it.
#include "cli/process.h"

namespace llada::cli {
namespace {

using namespace test;

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
    const std::string shell = "llada() { '" LLADA_BINARY "' \"$@\"; }\nM='" + tiny_model() + "'\n" + command;
    const auto result = run_llada({"-c", shell}, {.program = "/bin/sh"});
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
  const auto chat = run_llada({"chat", "-m", tiny_model(), "--choice", "maybe|no"},
                              {.stdin_text = question + "\nSort the numbers from smallest to largest: 3 1\n"});
  EXPECT_EQ(chat.status, 0) << chat.err;
  EXPECT_THAT(lines_of(chat.out), testing::Each(testing::AnyOf("maybe", "no")));
  EXPECT_EQ(lines_of(chat.out).size(), 2u);
  const TempFolder folder;
  folder.write("tasks.jsonl", R"({"task": "bool", "prompt": ")" + question +
                                  R"(", "response": "no", "answer": "no"})"
                                  "\n");
  const auto rows = [&](std::vector<std::string> form) {
    Words words = with({"eval", "-m", tiny_model(), "--tasks", folder / "tasks.jsonl"}, form);
    const auto result = run_llada(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out + result.err;
  };
  const std::string free = rows({}), held = rows({"--choice", "no|maybe"}), wrong = rows({"--choice", "yes|maybe"});
  EXPECT_THAT(free, HasSubstr("bool         1  100.0%"));
  EXPECT_THAT(held, HasSubstr("bool         1  100.0%"));
  EXPECT_THAT(wrong, HasSubstr("bool         1    0.0%"));
}

}  // namespace
}  // namespace llada::cli
