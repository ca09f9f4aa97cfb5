#include "engine/prompt.h"

#include <algorithm>

namespace llada {

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos; }

Result<std::vector<int32_t>> text_prompt(const Model& model, std::string_view text) {
  if (text.empty()) return invalid("the prompt is empty; needed text");
  return model.prompt_ids(text);
}

Result<std::vector<int32_t>> chat_prompt(const Model& model, std::span<const ChatMessage> messages, bool think) {
  const auto says_nothing = [](const ChatMessage& message) { return is_blank(message.content); };
  if (std::ranges::all_of(messages, says_nothing) || (messages.back().role == "user" && says_nothing(messages.back())))
    return invalid("the prompt is empty; needed a message with text");
  return model.chat_ids(messages, think);
}

}  // namespace llada
