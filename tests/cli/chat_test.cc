// A conversation: what is remembered, what is forgotten when the context is full.
#include "cli/chat.h"

#include <csignal>

#include "cli/conversation.h"
#include "cli/process.h"

namespace llada::cli {
namespace {

using namespace test;
using test::Json;

std::vector<ChatMessage> conversation(bool system, int exchanges) {
  std::vector<ChatMessage> messages;
  if (system) messages.push_back({"system", "s"});
  for (int i = 0; i < exchanges; ++i) {
    messages.push_back({"user", "u" + std::to_string(i)});
    messages.push_back({"assistant", "a" + std::to_string(i)});
  }
  messages.push_back({"user", "now"});
  return messages;
}

Result<int64_t> ten_each(std::span<const ChatMessage> messages) { return static_cast<int64_t>(messages.size()) * 10; }

std::string contents(const std::vector<ChatMessage>& messages) {
  std::string out;
  for (const ChatMessage& m : messages) out += m.content + ' ';
  return out;
}

TEST(TrimHistory, ForgetsOldestExchangesOnly) {
  auto messages = conversation(false, 3);
  EXPECT_EQ(trim_history(messages, 70, ten_each), 0u);
  EXPECT_EQ(trim_history(messages, 69, ten_each), 2u);
  EXPECT_EQ(contents(messages), "u1 a1 u2 a2 now ");
  EXPECT_EQ(trim_history(messages, 10, ten_each), 4u);
  EXPECT_EQ(contents(messages), "now ");
}

TEST(TrimHistory, KeepsSystemAndLastMessage) {
  auto messages = conversation(true, 2);
  EXPECT_EQ(trim_history(messages, 40, ten_each), 2u);
  EXPECT_EQ(contents(messages), "s u1 a1 now ");
  EXPECT_EQ(trim_history(messages, 20, ten_each), 2u);
  EXPECT_EQ(contents(messages), "s now ");
}

TEST(TrimHistory, AMessageThatNeverFitsForgetsNothing) {
  for (const int64_t limit : {19, 0, -1}) {  // system and last message need 20
    auto messages = conversation(true, 2);
    EXPECT_EQ(trim_history(messages, limit, ten_each), 0u);
    EXPECT_EQ(contents(messages), "s u0 a0 u1 a1 now ");
  }
}

TEST(TrimHistory, PassesErrorsOn) {
  auto messages = conversation(false, 1);
  const auto result = trim_history(messages, 1, [](auto) -> Result<int64_t> { return invalid("no tokenizer"); });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "no tokenizer");
}

Words chat_arguments(const std::string& model = several_turns_model()) {
  return {"run", "-m", model, "--chat", "--gen-length", "24", "--threshold", "0.9", "--json"};
}

std::vector<Json> answers(const std::string& out) {
  std::vector<Json> list;
  for (const std::string& line : lines_of(out)) list.push_back(Json::parse(line));
  return list;
}

TEST(Chat, EveryLineIsAnsweredWithTheHistoryBeforeIt) {
  const auto result = done(chat_arguments(), {.stdin_text = "Sort: 3 1 2\n\nSort: 9 7 8\r\n/exit\nnever read\n"});
  EXPECT_EQ(result.err, "");  // no prompt sign on a pipe
  const auto list = answers(result.out);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_GT(list[1]["stats"]["prompt_tokens"], list[0]["stats"]["prompt_tokens"]);
}

// The shipped model was trained on single questions: the second answer is that of the question alone.
TEST(Chat, AMessageOfASingleQuestionModelStandsAlone) {
  const std::string first = "Sort the numbers from smallest to largest: 38 41 6 51 3\n",
                    second = "Write as JSON: Eric is 31 years old, lives in Oslo and works as a baker.\n";
  const auto both = run_llada(chat_arguments(tiny_model()), {.stdin_text = first + second});
  const auto alone = run_llada(chat_arguments(tiny_model()), {.stdin_text = second});
  ASSERT_EQ(answers(both.out).size(), 2u) << both.err;
  EXPECT_EQ(answers(both.out)[1]["tokens"], answers(alone.out)[0]["tokens"]);
  EXPECT_EQ(answers(both.out)[1]["stats"]["prompt_tokens"], answers(alone.out)[0]["stats"]["prompt_tokens"]);
}

TEST(Chat, TheFirstAnswerIsThatOfASinglePrompt) {
  const auto chat = run_llada(chat_arguments(), {.stdin_text = "Sort: 3 1 2"});  // no newline at the end
  const Json single =
      json_of({"run", "-m", tiny_model(), "-p", "Sort: 3 1 2", "--gen-length", "24", "--threshold", "0.9", "--json"});
  ASSERT_EQ(answers(chat.out).size(), 1u);
  EXPECT_EQ(answers(chat.out)[0]["tokens"], single["tokens"]);
}

// labels: long
TEST(Chat, OldTurnsAreForgottenWhenTheContextIsFull) {
  std::string lines;
  for (int i = 0; i < 4; ++i) lines += "Sort the numbers from smallest to largest: 38 41 6 51 3 17 20 99 4\n";
  auto arguments = chat_arguments();
  arguments[5] = "96";
  const auto result = done(arguments, {.stdin_text = lines});
  EXPECT_THAT(result.err, HasSubstr("were forgotten to fit the context of 256 tokens"));
  for (const auto& answer : answers(result.out)) EXPECT_LE(answer["stats"]["prompt_tokens"].get<int>(), 256 - 96);
}

TEST(Chat, AMessageThatNeverFitsEndsAPipedChat) {
  expect_one_line(run_llada(chat_arguments(), {.stdin_text = std::string(4000, '7') + "\nSort: 1\n"}), 2, "too long");
}

TEST(Chat, ATerminalGetsAPromptSign) {
  LLADA_NEEDS_TERMINAL();
  const auto result = run_llada_on_terminal(
      {"run", "-m", tiny_model(), "--chat", "--gen-length", "8", "--threshold", "0.5", "--no-history"},
      {.typed = "Sort: 2 1\n/exit\n", .environment = {"TERM=xterm"}});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, HasSubstr("> "));
}

TEST(Chat, AnInterruptWhileWaitingForALineDoesNotEndIt) {
  LLADA_NEEDS_TERMINAL();
  for (const char* term : {"TERM=xterm", "TERM=dumb"}) {  // with the editor, and without
    TerminalSession chat({"run", "-m", tiny_model(), "--chat", "--no-history"}, {.environment = {term}});
    ASSERT_TRUE(chat.shows("> "));
    chat.signal(SIGINT);
    EXPECT_TRUE(chat.shows("(Ctrl-D or /exit leaves)")) << chat.screen().text();
    chat.type("/exit\r");
    EXPECT_EQ(chat.finish(), 0);
  }
}

TEST(Chat, CommandsWorkOnAPipe) {
  auto arguments = chat_arguments();
  const auto result =
      done(arguments, {.stdin_text = "\"\"\"\nSort:\n3 1 2\n\"\"\"\n/clear\n/set n 16\nSort: \\\n2 1\n/bye \nnever\n"});
  const auto list = answers(result.out);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1]["tokens"].size(), 16u);
  EXPECT_LT(list[1]["stats"]["prompt_tokens"], list[0]["stats"]["prompt_tokens"]);
  expect_one_line(run_llada(arguments, {.stdin_text = "/nope\n"}), 2,
                  "llada run: unknown command /nope; /help lists them\n");
}

// Only a switch needs no value.
TEST(Chat, AnOptionWithoutItsValueIsRefused) {
  for (const std::string name : {"regex", "choice", "temperature", "gen-length", "preset-decode"})
    expect_one_line(run_llada(chat_arguments(), {.stdin_text = "/set " + name + "\n"}), 2,
                    "llada run: --" + name + ": found '', needed ");
  done(chat_arguments(), {.stdin_text = "/set slide\n"});
}

TEST(Conversation, RoundTripsAndRefusesWhatIsNone) {
  const auto messages = conversation(true, 2);
  const std::vector<ChatMessage> whole(messages.begin(), messages.end() - 1);
  const auto read = parse_conversation(conversation_text(whole), "c.json");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(contents(*read), contents(whole));
  EXPECT_TRUE(parse_conversation(conversation_text({}), "c")->empty());
  const std::string head = R"({"format":"llada-chat","version":1,"messages":)";
  const std::pair<std::string, const char*> cases[] = {
      {"", "c.json"},
      {"[]", "c.json"},
      {R"({"format":"llada-preset","version":1,"messages":[]})", "format"},
      {R"({"format":"llada-chat","version":1})", "messages: is missing; needed a list"},
      {head + R"([]  ,"more":1})", "more: is not known here"},
      {head + "7}", "messages: found 7, needed a list"},
      {head + "[7]}", "messages[0]: found 7, needed an object"},
      {head + R"([{"role":"user"}]})", "content"},
      {head + R"([{"role":"assistant","content":"a"}]})", "messages[0].role: found \"assistant\", needed"},
      {head + R"([{"role":"user","content":"a"}]})", "the last one has no answer"},
      {head + R"([{"role":"user","content":"a"},{"role":"system","content":"b"}]})", "needed assistant"},
      {head + R"([{"role":"user","content":3},{"role":"assistant","content":"b"}]})", "content"}};
  for (const auto& [text, says] : cases) {
    const auto refused = parse_conversation(text, "c.json");
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().kind, ErrorKind::invalid_input);
    EXPECT_THAT(refused.error().message, HasSubstr(says));
  }
}

}  // namespace
}  // namespace llada::cli
