// Tools in a conversation: how they are shown to a model, how its answer calls them (call_syntax.h), how their results
// come back. No text follows calls. Tools stand at the end of the first system message. The styles chatml (Qwen3,
// Qwen2.5) and bailing (Ling 2.0) use the words of the published templates. LLaDA2's own template was not found, so its
// words are uncertain. The style gemma uses the markup of Gemma 4's templates, from which DiffusionGemma's layout is
// taken. Other models know no form of their own and get shorter words. Nemotron's templates write calls as XML; its
// models get chatml's here.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/gemma_tools.h"

namespace llada {

// 1 to 128 letters, digits and _ - . : / (ASCII), so that a name needs no escapes.
inline constexpr size_t kMostToolName = 128;
bool is_tool_name(std::string_view name);
inline constexpr size_t kMostTools = 128;  // of a request

// The text of an answer with calls, as it goes back into a conversation.
std::string text_with_calls(std::string content, std::span<const ToolCall> calls);
// The turn that follows it, of role "tool": the results of its calls.
std::string text_of_results(const ChatFormat& format, std::span<const ToolResult> results);

// Puts tools into the first system message, or makes one. functions: each one's JSON object with name, description and
// parameters, of one line.
void show_tools(const ChatFormat& format, std::span<const std::string> functions, std::vector<ChatMessage>& messages);

// A piece of an answer that is read while it grows.
struct AnswerPiece {
  int64_t call = -1;      // of the answer's, from 0; -1: text
  std::string name = {};  // in a call's first piece alone
  std::string text = {};  // more of the text, or of the call's arguments
  bool ends = false;      // the call is complete
};

// Cuts an answer into text and calls, whose arguments are JSON. White space before the first call, and a call that is
// not complete, are no part of the answer.
class CallReader {
 public:
  explicit CallReader(CallForm form = CallForm::json) : form_(form), syntax_(syntax_of(form)) {}
  // Reads more of the answer and returns its new pieces. last: nothing follows.
  std::vector<AnswerPiece> take(std::string_view more, bool last);

 private:
  bool read_text(bool last, std::vector<AnswerPiece>& pieces);
  bool read_arguments(std::vector<AnswerPiece>& pieces);
  std::string more_json(bool& complete);

  CallForm form_;
  CallSyntax syntax_;
  enum class Where { text, begin, name, arguments, end, over } where_ = Where::text;
  std::string left_;  // not yet read
  int64_t call_ = -1;
  int depth_ = 0;  // of braces and brackets in the arguments
  bool quoted_ = false, escaped_ = false;
  GemmaArguments gemma_;
};

struct AnswerWithCalls {
  std::string text;
  std::vector<ToolCall> calls;
};
AnswerWithCalls read_calls(std::string_view answer, CallForm form = CallForm::json);

}  // namespace llada
