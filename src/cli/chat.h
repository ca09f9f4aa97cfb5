// A conversation on stdin: messages, commands that begin with a slash, answers. docs/chat.md tells the rules.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cli/line_reader.h"
#include "cli/options.h"
#include "cli/workspace.h"
#include "engine/session.h"

namespace llada::cli {

struct ChatOptions {
  std::string system;   // empty: none
  bool think = false;   // before it answers
  DecodeFlags& decode;  // resolved; /set changes it
  std::vector<std::string> stop;
  bool interactive = false;  // somebody types at a terminal: a banner, and mistakes do not end it
  bool quiet = false;
  std::string history;                            // a file of typed messages; empty: none
  std::function<Status(const Generation&)> show;  // one answer; the stats follow it
};

// Runs until the end of stdin, /exit or a signal; at a terminal Ctrl-C only ends an answer. A message that fails ends
// the chat, except at a terminal, where the error is shown and the next message may do better. Returns the exit
// status.
Result<int> chat(Workspace& workspace, const ChatOptions& options);

// One message from one or several lines: a backslash at the end of a line, or """ around the message, joins them; so
// does a paste. The line is of another kind than text where nothing was entered.
Line read_message(LineReader& reader);

}  // namespace llada::cli
