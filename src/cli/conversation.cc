#include "cli/conversation.h"

#include <cstddef>

#include "json/fields.h"
#include "json/parse.h"

namespace llada::cli {

namespace {
constexpr int64_t kChatVersion = 1;
constexpr std::string_view kChatFormat = "llada-chat";
}  // namespace

std::string conversation_text(std::span<const ChatMessage> messages) {
  Json json = {{"format", kChatFormat}, {"version", kChatVersion}, {"messages", Json::array()}};
  for (const ChatMessage& m : messages) json["messages"].push_back({{"role", m.role}, {"content", m.content}});
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

Result<std::vector<ChatMessage>> parse_conversation(std::string_view text, const std::string& source) {
  LLADA_TRY(const Fields fields, Fields::parse(text, source));
  LLADA_TRY_STATUS(fields.head(kChatFormat, kChatVersion));
  LLADA_TRY(const auto found, fields.objects("messages"));
  LLADA_TRY_STATUS(fields.finish());
  std::vector<ChatMessage> messages;
  size_t turns = 0;
  for (const Fields& message : found) {
    ChatMessage m;
    LLADA_TRY(m.role, message.text("role"));
    LLADA_TRY(m.content, message.text("content"));
    LLADA_TRY_STATUS(message.finish());
    const bool system = m.role == "system" && messages.empty();
    const std::string_view expected = turns % 2 == 0 ? "user" : "assistant";
    if (!system && m.role != expected) return message.unfit("role", messages.empty() ? "system or user" : expected);
    turns += !system;
    messages.push_back(std::move(m));
  }
  if (turns % 2 != 0) return fields.fault("messages", "the last one has no answer");
  return messages;
}

Result<size_t> trim_history(std::vector<ChatMessage>& messages, int64_t limit,
                            const std::function<Result<int64_t>(std::span<const ChatMessage>)>& tokens) {
  const size_t first = !messages.empty() && messages.front().role == "system" ? 1 : 0;
  size_t forgotten = 0;
  for (;;) {
    LLADA_TRY(const int64_t needed, tokens(messages));
    if (needed <= limit || messages.size() < first + 3) return forgotten;
    if (forgotten == 0) {
      std::vector<ChatMessage> least(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(first));
      least.push_back(messages.back());
      LLADA_TRY(const int64_t alone, tokens(least));
      if (alone > limit) return forgotten;
    }
    messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(first),
                   messages.begin() + static_cast<std::ptrdiff_t>(first) + 2);
    forgotten += 2;
  }
}

}  // namespace llada::cli
