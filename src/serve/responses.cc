#include "serve/responses.h"

namespace llada::serve {
namespace {

std::string message_id(const AnswerHead& head) { return "msg_" + head.id.substr(head.id.find('_') + 1); }

Json text_part(const std::string& text) {
  return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

Json message(const AnswerHead& head, const std::string& status, Json content) {
  return {{"type", "message"},
          {"id", message_id(head)},
          {"status", status},
          {"role", "assistant"},
          {"content", std::move(content)}};
}

// status: in_progress, completed, incomplete or failed.
Json response_with(const AnswerHead& head, const Json& said, const std::string& status, Json output) {
  Json json = {{"id", head.id},
               {"object", "response"},
               {"created_at", head.created},
               {"status", status},
               {"error", nullptr},
               {"incomplete_details", nullptr},
               {"model", head.model},
               {"output", std::move(output)},
               {"parallel_tool_calls", true},
               {"previous_response_id", nullptr},
               {"store", false},
               {"text", {{"format", {{"type", "text"}}}}},
               {"tool_choice", "auto"},
               {"tools", Json::array()},
               {"truncation", "disabled"},
               {"usage", nullptr}};
  json.update(said);
  return json;
}

std::string status_of(const FinishedAnswer& answer) { return answer.reason == "length" ? "incomplete" : "completed"; }

// The counts under the names of this protocol; what only this engine counts keeps its own.
Json usage_of(const Json& usage) {
  Json json = {{"input_tokens", usage.at("prompt_tokens")},
               {"input_tokens_details", usage.at("prompt_tokens_details")},
               {"output_tokens", usage.at("completion_tokens")},
               {"output_tokens_details", {{"reasoning_tokens", 0}}},
               {"total_tokens", usage.at("total_tokens")}};
  for (const char* own : {"forwards", "rows", "seconds"}) json[own] = usage.at(own);
  return json;
}

}  // namespace

Json response_json(const AnswerHead& head, const Json& said, const FinishedAnswer& answer, const Json& usage) {
  const std::string status = status_of(answer);
  const Json parts = Json::array({text_part(answer.text)});
  Json json = response_with(head, said, status, Json::array({message(head, status, parts)}));
  if (status == "incomplete") json["incomplete_details"] = {{"reason", "max_output_tokens"}};
  json["usage"] = usage_of(usage);
  return json;
}

std::string ResponseEvents::event(const std::string& type, Json fields) {
  Json json = {{"type", type}, {"sequence_number", next_++}};
  json.update(fields);
  return "event: " + type + "\n" + event_text(json);
}

std::string ResponseEvents::part_event(const std::string& type, Json fields) {
  Json json = {{"item_id", message_id(head_)}, {"output_index", 0}, {"content_index", 0}};
  json.update(fields);
  return event(type, std::move(json));
}

// Events are numbered in the order in which they are made: one statement each.
std::string ResponseEvents::begin() {
  const Json response = response_with(head_, said_, "in_progress", Json::array());
  std::string text = event("response.created", {{"response", response}});
  text += event("response.in_progress", {{"response", response}});
  text += event("response.output_item.added",
                {{"output_index", 0}, {"item", message(head_, "in_progress", Json::array())}});
  text += part_event("response.content_part.added", {{"part", text_part("")}});
  return text;
}

std::string ResponseEvents::delta(const std::string& text) {
  if (text.empty()) return "";
  return part_event("response.output_text.delta", {{"delta", text}, {"logprobs", Json::array()}});
}

std::string ResponseEvents::end(const std::string& rest, const FinishedAnswer& answer, const Json& usage) {
  const std::string status = status_of(answer);
  const Json part = text_part(answer.text);
  std::string text = delta(rest);
  text += part_event("response.output_text.done", {{"text", answer.text}, {"logprobs", Json::array()}});
  text += part_event("response.content_part.done", {{"part", part}});
  text +=
      event("response.output_item.done", {{"output_index", 0}, {"item", message(head_, status, Json::array({part}))}});
  text += event("response." + status, {{"response", response_json(head_, said_, answer, usage)}});
  return text;
}

std::string ResponseEvents::failed(const ApiError& error) {
  Json response = response_with(head_, said_, "failed", Json::array());
  response["error"] = {{"code", "server_error"}, {"message", error.message}};
  return event("response.failed", {{"response", response}});
}

}  // namespace llada::serve
