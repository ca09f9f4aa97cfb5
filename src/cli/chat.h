// A conversation on stdin and stdout: every line is a message of the user's.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cli/workspace.h"
#include "engine/session.h"

namespace llada::cli {

struct ChatOptions {
  std::string system;  // empty: none
  decode::DecodeOptions decode;
  // Shows one answer; the stats follow it.
  std::function<Status(const Generation&)> show;
};

// Until the end of stdin, "/exit" or a signal. Empty lines are skipped. When a conversation outgrows the
// model's context the oldest exchanges are forgotten, with a note on stderr. A message that fails ends the
// chat, except at a terminal, where the error is shown and the next message may do better.
Result<int> chat(Workspace& workspace, const ChatOptions& options);

// Forgets the oldest exchanges (a user's message and its answer; never the system message, never the last
// message) until `tokens` of the rest is at most `limit`. Nothing goes for a last message that would not fit
// even alone: it will be refused, and the conversation goes on without it. Returns how many messages went.
Result<size_t> trim_history(std::vector<ChatMessage>& messages, int64_t limit,
                            const std::function<Result<int64_t>(std::span<const ChatMessage>)>& tokens);

}  // namespace llada::cli
