#include "text/tool_calls.h"

#include <algorithm>
#include <utility>

namespace llada {
namespace {

constexpr std::string_view kResultBegin = "<tool_response>\n", kResultEnd = "\n</tool_response>";
// The heads of Qwen3's template, and of Ling 2.0's and LLaDA2's.
constexpr std::string_view kHermesHead =
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function "
    "signatures within <tools></tools> XML tags:\n<tools>\n";
constexpr std::string_view kHermesTail =
    "</tools>\n\nFor each function call, return a json object with function name and arguments within "
    "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
    "<args-json-object>}\n</tool_call>";
constexpr std::string_view kPlainHead = "Functions that may be called:\n";
constexpr std::string_view kPlainTail =
    "To call one, answer:\n<tool_call>\n{\"name\": NAME, \"arguments\": OBJECT}\n</tool_call>";

bool is_white(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

bool is_hermes(const ChatFormat& format) {
  return format.style == ChatStyle::chatml || format.style == ChatStyle::bailing;
}

// How many of the last bytes of `text` may begin `mark`.
size_t begun(std::string_view text, std::string_view mark) {
  for (size_t n = std::min(mark.size() - 1, text.size()); n > 0; --n)
    if (text.ends_with(mark.substr(0, n))) return n;
  return 0;
}

}  // namespace

bool is_tool_name(std::string_view name) {
  const auto known = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-.:/").contains(c);
  };
  return !name.empty() && name.size() <= kMostToolName && std::ranges::all_of(name, known);
}

std::string text_with_calls(std::string content, std::span<const ToolCall> calls) {
  constexpr CallSyntax kSyntax = syntax_of(CallForm::json);
  for (const ToolCall& call : calls) {
    if (!content.empty()) content += kSyntax.between;
    content.append(kSyntax.begin).append(call.name).append(kSyntax.middle).append(call.arguments).append(kSyntax.end);
  }
  return content;
}

std::string text_of_results(const ChatFormat& format, std::span<const ToolResult> results) {
  std::string text;
  for (const ToolResult& result : results) {
    // Ling's template has a line end before the first, too.
    if (!text.empty() || format.style == ChatStyle::bailing) text += '\n';
    text.append(kResultBegin).append(result.content).append(kResultEnd);
  }
  return text;
}

void show_tools(const ChatFormat& format, std::span<const std::string> functions, std::vector<ChatMessage>& messages) {
  if (messages.empty() || messages.front().role != "system") {
    // Ling's default stands behind the tools (ChatFormat::ends_system).
    const bool first = format.style == ChatStyle::bailing;
    messages.insert(messages.begin(), {"system", first ? "" : format.default_system});
  }
  if (format.calls == CallForm::gemma) {
    messages.front().tools.assign(functions.begin(), functions.end());
    return;
  }
  const bool hermes = is_hermes(format);
  std::string text(hermes ? kHermesHead : kPlainHead);
  for (const std::string& function : functions)
    text += hermes ? "{\"type\": \"function\", \"function\": " + function + "}\n" : function + "\n";
  text += hermes ? kHermesTail : kPlainTail;
  std::string& system = messages.front().content;
  if (!system.empty()) system += format.style == ChatStyle::bailing ? "\n" : "\n\n";
  system += text;
}

// Text up to a call. White space is held back until it is known to stand before text.
bool CallReader::read_text(bool last, std::vector<AnswerPiece>& pieces) {
  const size_t mark = left_.find(syntax_.mark);
  const bool found = mark != std::string::npos;
  size_t most = found ? mark : left_.size() - (last ? 0 : begun(left_, syntax_.mark));
  while (most > 0 && (found || !last) && is_white(left_[most - 1])) --most;
  if (most > 0) pieces.push_back({.text = left_.substr(0, most)});
  left_.erase(0, found ? mark : most);
  if (found) where_ = Where::begin;
  return found;
}

// Takes the bytes of the arguments off the front of the rest.
std::string CallReader::more_json(bool& complete) {
  if (form_ == CallForm::gemma) {
    std::string json = gemma_.take(left_);
    complete = gemma_.complete();
    return json;
  }
  size_t at = 0;
  for (; at < left_.size() && !complete; ++at) {
    const char c = left_[at];
    if (std::exchange(escaped_, false)) continue;
    if (quoted_) {
      escaped_ = c == '\\';
      quoted_ = c != '"';
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      complete = --depth_ <= 0;
    } else {
      quoted_ = c == '"';
    }
  }
  std::string json = left_.substr(0, at);
  left_.erase(0, at);
  return json;
}

bool CallReader::read_arguments(std::vector<AnswerPiece>& pieces) {
  bool complete = false;
  std::string json = more_json(complete);
  if (!json.empty()) pieces.push_back({.call = call_, .text = std::move(json), .ends = complete});
  if (complete) where_ = Where::end;
  return complete;
}

std::vector<AnswerPiece> CallReader::take(std::string_view more, bool last) {
  std::vector<AnswerPiece> pieces;
  left_ += more;
  // Whether `text` could be read; where something else stands, the answer has no such form, and is over.
  const auto skip = [&](std::string_view text, Where next) {
    if (left_.size() < text.size()) return false;
    where_ = left_.starts_with(text) ? next : Where::over;
    left_.erase(0, text.size());
    return true;
  };
  for (bool goes_on = true; goes_on;) {
    switch (where_) {
      case Where::text:
        goes_on = read_text(last, pieces);
        break;
      case Where::begin:
        goes_on = skip(syntax_.begin, Where::name);
        break;
      case Where::name: {
        // Gemma's name ends where the arguments begin.
        const size_t end = form_ == CallForm::gemma ? left_.find('{') : left_.find(syntax_.middle);
        goes_on = end != std::string::npos;
        if (!goes_on) break;
        if (end == 0) {  // no name, no call
          where_ = Where::over;
          break;
        }
        ++call_, depth_ = 0, gemma_ = {};
        pieces.push_back({.call = call_, .name = left_.substr(0, end)});
        left_.erase(0, end + syntax_.middle.size());
        where_ = Where::arguments;
        break;
      }
      case Where::arguments:
        goes_on = read_arguments(pieces);
        break;
      case Where::end:
        goes_on = skip(std::string(syntax_.end).append(syntax_.between), Where::begin);
        break;
      case Where::over:
        left_.clear();
        goes_on = false;
        break;
    }
  }
  return pieces;
}

AnswerWithCalls read_calls(std::string_view answer, CallForm form) {
  AnswerWithCalls read;
  bool complete = true;
  for (AnswerPiece& piece : CallReader(form).take(answer, true)) {
    if (piece.call < 0) {
      read.text += piece.text;
      continue;
    }
    if (!piece.name.empty()) read.calls.push_back({std::move(piece.name), ""});
    read.calls.back().arguments += piece.text;
    complete = piece.ends;
  }
  if (!complete) read.calls.pop_back();
  return read;
}

}  // namespace llada
