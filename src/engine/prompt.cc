#include "engine/prompt.h"

#include <algorithm>

namespace llada {

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos; }

Result<std::vector<int32_t>> text_prompt(const Model& model, std::string_view text) {
  if (text.empty()) return invalid("the prompt is empty; needed text");
  return model.prompt_ids(text);
}

Result<std::vector<int32_t>> chat_prompt(const Model& model, std::span<const ChatMessage> messages, bool think) {
  const auto says_nothing = [](const ChatMessage& message) {
    return is_blank(message.content) && message.calls.empty() && message.results.empty();
  };
  if (std::ranges::all_of(messages, says_nothing) || (messages.back().role == "user" && says_nothing(messages.back())))
    return invalid("the prompt is empty; needed a message with text");
  return model.chat_ids(messages, think);
}

Result<TextPair> encode_pair(const Model& model, std::string context, std::string continuation) {
  const size_t last = context.find_last_not_of(" \t\r\n\f\v");
  const size_t end = last == std::string::npos ? 0 : last + 1;
  continuation.insert(0, context.substr(end));
  context.resize(end);
  TextPair pair;
  LLADA_TRY(auto both, model.prompt_ids(context + continuation));
  LLADA_TRY(pair.context, model.prompt_ids(context));
  const size_t begin = std::min(pair.context.size(), both.size());
  pair.continuation.assign(both.begin() + static_cast<std::ptrdiff_t>(begin), both.end());
  return pair;
}

}  // namespace llada
