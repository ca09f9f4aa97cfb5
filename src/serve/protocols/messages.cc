// /v1/messages and /v1/messages/count_tokens: Anthropic's protocol.
#include "serve/protocols/forms.h"
#include "serve/protocols/routes.h"
#include "serve/protocols/tools.h"
#include "text/tool_calls.h"

namespace llada::serve {
namespace {

// The conversation, and what stands beside it that asks for nothing.
Answered<std::vector<ChatMessage>> read_conversation(Fields& body) {
  LLADA_TRY(auto messages, read_messages(body, Shape::message));
  if (messages.back().role == "assistant")
    return refuse("messages: the last is the assistant's; needed a user's, since no answer goes on with a text here",
                  "messages");
  LLADA_TRY(auto system, read_system(body));
  if (system && !system->empty()) messages.insert(messages.begin(), {"system", std::move(*system)});
  return messages;
}

}  // namespace

Answered<Ask> read_message_request(Service& service, Fields body) {
  LLADA_TRY(Ask ask, read_ask(service, body, Shape::message));
  ask.writer = write_message;
  if (ask.watch != Watch::none) return refuse("diffusing: not on this route; needed false", "diffusing");
  // What is not stored begins anew in every request.
  if (const Json* thread = body.find("thread"); thread != nullptr && *thread != Json{{"type", "create"}})
    return wrong("thread", *thread, "{\"type\": \"create\"}: nothing is stored here, messages have all of it");
  LLADA_TRY(auto messages, read_conversation(body));
  LLADA_TRY(const ToolUse tools, read_tools(body, Shape::message));
  LLADA_TRY(auto stop, read_stop(body, "stop_sequences"));
  LLADA_TRY(Decoding decoding, read_decoding(body, ask, service.model().special_ids().kind(), false, {"max_tokens"}));
  LLADA_TRY_STATUS(body.finish());
  LLADA_TRY_STATUS(use_tools(service, tools, ask, decoding, messages, stop));
  LLADA_TRY_STATUS(think_without_form(service, ask, decoding));
  LLADA_TRY(auto ids, conversation_ids(service, messages, "messages", ask.think));
  LLADA_TRY_STATUS(make_requests(service, ask, "messages", {std::move(ids)}, std::move(decoding), 1, stop));
  return ask;
}

Answered<HttpReply> count_tokens(Service& service, Fields body) {
  LLADA_TRY_STATUS(check_model(service, body));
  LLADA_TRY(auto messages, read_conversation(body));
  LLADA_TRY(const ToolUse tools, read_tools(body, Shape::message));
  const bool has_tools = !tools.functions.empty();
  Json reply = Json::object();
  LLADA_TRY(const bool think, read_prompt_wishes(service, body, Shape::message, has_tools, reply));
  LLADA_TRY_STATUS(body.finish());
  if (has_tools) show_tools(service.model().chat_format(), tools.functions, messages);
  // However long it is: who asks wants to know how much to leave out.
  const Model& model = service.model();
  LLADA_TRY(const auto ids, render_chat(model.tokenizer(), model.chat_format(), messages, true, think));
  reply["input_tokens"] = ids.size();
  return json_reply(reply);
}

}  // namespace llada::serve
