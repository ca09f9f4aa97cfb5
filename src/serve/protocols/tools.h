// Tools of a request, whatever its protocol: functions that the model may call. They are shown to the model
// (text/tool_calls.h), the answer is held to text and calls whose arguments fit the functions' schemas
// (forms/tool_form.h), and what comes is read as text and calls.
#pragma once
#include <string>
#include <vector>

#include "serve/protocols/reading.h"

namespace llada::serve {

struct ToolUse {
  std::vector<std::string> functions = {};  // shown to the model, a line of JSON each; none: there are no tools
  std::string list = {};                    // of the functions that may be called, for decode::set_tools()
  bool must_call = false;
  int64_t most = 0;  // calls; 0: any number
};

// tools, tool_choice, parallel_tool_calls, as the protocol has them.
Answered<ToolUse> read_tools(Fields& body, const Dialect& dialect);

// Has a request use them: conversation, options and the reading of its answers. stop: of the request, which the server
// looks for itself then, in text alone.
Done use_tools(Service& service, const ToolUse& use, Ask& ask, Decoding& decoding, std::vector<ChatMessage>& messages,
               std::vector<std::string>& stop);

}  // namespace llada::serve
