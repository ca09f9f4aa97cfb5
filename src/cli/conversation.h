// The memory of a chat: messages, their form in a file, and the rule of which go when the context is full.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/chat_template.h"

namespace llada::cli {

// {"format": "llada-chat", "version": 1, "messages": [{"role": "user", "content": "..."}, ...]}
std::string conversation_text(std::span<const ChatMessage> messages);

// Invalid: anything else; roles that do not follow each other as system (once, first), then user and assistant in
// turns, an assistant last.
Result<std::vector<ChatMessage>> parse_conversation(std::string_view text, const std::string& source);

// Forgets the oldest exchanges (a user's message and its answer; never the system message, never the last
// message) until `tokens` of the rest is at most `limit`. Nothing goes for a last message that would not fit
// even alone: it will be refused, and the conversation goes on without it. Returns how many messages went.
Result<size_t> trim_history(std::vector<ChatMessage>& messages, int64_t limit,
                            const std::function<Result<int64_t>(std::span<const ChatMessage>)>& tokens);

}  // namespace llada::cli
