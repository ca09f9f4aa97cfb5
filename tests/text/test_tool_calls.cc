// Tools in conversations: the words of published templates, and answers that are read while they grow.
#include <gtest/gtest.h>

#include <random>

#include "text/chat_template.h"
#include "text/tool_calls.h"

namespace llada {
namespace {

ChatFormat plain_format(ChatStyle style) {
  ChatFormat format;
  format.style = style;
  return format;
}

// As Jinja renders Qwen3's template, and Ling 2.0's.
TEST(ToolCalls, AreShownInTheWordsOfPublishedTemplates) {
  const std::string function = R"({"name": "add", "parameters": {"type": "object"}})";
  const std::string tools =
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function "
      "signatures within <tools></tools> XML tags:\n<tools>\n{\"type\": \"function\", \"function\": {\"name\": "
      "\"add\", "
      "\"parameters\": {\"type\": \"object\"}}}\n</tools>\n\nFor each function call, return a json object with "
      "function "
      "name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, "
      "\"arguments\": <args-json-object>}\n</tool_call>";
  const auto shown = [&](ChatFormat format, std::vector<ChatMessage> messages) {
    show_tools(format, std::vector{function}, messages);
    EXPECT_EQ(messages.size(), 2u);
    EXPECT_EQ(messages[0].role, "system");
    return messages[0].content;
  };
  const ChatMessage user{"user", "Hi"}, system{"system", "Be brief."};
  ChatFormat format = plain_format(ChatStyle::chatml);
  EXPECT_EQ(shown(format, {user}), tools);
  EXPECT_EQ(shown(format, {system, user}), "Be brief.\n\n" + tools);
  format.default_system = "You help.";
  EXPECT_EQ(shown(format, {user}), "You help.\n\n" + tools);
  format = plain_format(ChatStyle::bailing);
  format.default_system = "detailed thinking off";
  format.ends_system = "\ndetailed thinking off";
  EXPECT_EQ(shown(format, {user}), tools);  // behind which render_chat() puts ends_system
  EXPECT_EQ(shown(format, {system, user}), "Be brief.\n" + tools);
  EXPECT_EQ(shown(plain_format(ChatStyle::llada), {system, user}),
            "Be brief.\n\nFunctions that may be called:\n" + function +
                "\nTo call one, answer:\n<tool_call>\n{\"name\": NAME, \"arguments\": OBJECT}\n</tool_call>");
}

TEST(ToolCalls, ResultsAndCallsOfHistory) {
  const std::vector<ToolCall> calls = {{"add", "{\"a\": 1}"}, {"ping", "{}"}};
  const std::string text =
      "So:\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": "
      "\"ping\", "
      "\"arguments\": {}}\n</tool_call>";
  EXPECT_EQ(text_with_calls("So:", calls), text);
  EXPECT_EQ(text_with_calls("", calls), text.substr(4));
  const std::vector<std::string> results = {"1", "2"};
  const std::string two = "<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>";
  EXPECT_EQ(text_of_results(plain_format(ChatStyle::chatml), results), two);
  EXPECT_EQ(text_of_results(plain_format(ChatStyle::bailing), results), "\n" + two);
}

// However an answer is cut, its pieces make the same text and calls; a call ends once, and its name comes first.
TEST(ToolCalls, AreReadInAnyPieces) {
  const std::vector<ToolCall> calls = {{"add", R"({"a": "} \" \\", "b": [{"c": "</tool_call>"}]})"}, {"a.b/c:d", "{}"}};
  std::mt19937 random(5);
  for (const std::string text : {"", "Two <tools>: ", "é<tool_call", "\n"}) {
    const std::string answer = text_with_calls(text, calls);
    const AnswerWithCalls whole = read_calls(answer);
    EXPECT_EQ(whole.text, text == "Two <tools>: " ? "Two <tools>:" : text == "\n" ? "" : text);
    ASSERT_EQ(whole.calls.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(whole.calls[i].name, calls[i].name);
      EXPECT_EQ(whole.calls[i].arguments, calls[i].arguments);
    }
    for (int round = 0; round < 200; ++round) {
      CallReader reader;
      AnswerWithCalls read;
      std::vector<int> ends(2);
      for (size_t at = 0; at < answer.size();) {
        const size_t n = std::min<size_t>(1 + random() % 9, answer.size() - at);
        for (const AnswerPiece& piece : reader.take(answer.substr(at, n), at + n == answer.size())) {
          if (piece.call < 0) {
            read.text += piece.text;
            continue;
          }
          if (!piece.name.empty()) read.calls.push_back({piece.name, ""});
          ASSERT_EQ(piece.call, std::ssize(read.calls) - 1);
          read.calls.back().arguments += piece.text;
          ends[static_cast<size_t>(piece.call)] += piece.ends;
        }
        at += n;
      }
      EXPECT_EQ(read.text, whole.text);
      ASSERT_EQ(read.calls.size(), 2u);
      EXPECT_EQ(read.calls[0].arguments, calls[0].arguments);
      EXPECT_EQ(read.calls[1].arguments, "{}");
      EXPECT_EQ(ends, (std::vector{1, 1}));
    }
  }
  EXPECT_EQ(read_calls("only <text> \n").text, "only <text> \n");
  const AnswerWithCalls cut = read_calls(text_with_calls("a", calls).substr(0, 60));
  EXPECT_TRUE(cut.text == "a" && cut.calls.empty()) << "a call that is not complete is none";
}

}  // namespace
}  // namespace llada
