// /v1/responses: OpenAI's response object, whose output items are thoughts, where they were wished for, a message with
// one part, its text, and calls of functions. The events of its stream have numbers.
#include <algorithm>
#include <set>
#include <utility>

#include "serve/protocols/adapter.h"

namespace llada::serve {
namespace {

Json text_part(const std::string& text) {
  return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

Json thought_part(const std::string& thoughts) { return {{"type", "summary_text"}, {"text", thoughts}}; }

std::string status_of(const FinishedAnswer& answer) { return answer.reason == "length" ? "incomplete" : "completed"; }

// The counts under the names of this protocol; counts of this engine alone keep their names.
Json usage_of(const Json& usage, int64_t thought_tokens) {
  Json json = {{"input_tokens", usage.at("prompt_tokens")},
               {"input_tokens_details", usage.at("prompt_tokens_details")},
               {"output_tokens", usage.at("completion_tokens")},
               {"output_tokens_details", {{"reasoning_tokens", thought_tokens}}},
               {"total_tokens", usage.at("total_tokens")}};
  for (const char* own : {"forwards", "rows", "seconds"}) json[own] = usage.at(own);
  return json;
}

class ResponseForm final : public AnswerWriter {
 public:
  ResponseForm(AnswerHead head, const Ask& ask) : AnswerWriter(std::move(head), "resp_"), repeated_(ask.repeated) {}

  std::string whole(const FinishedAnswer& answer, const Json& usage) const override {
    return dump(as_json(answer, usage));
  }
  std::string begin() override;
  std::string text(int64_t, const std::string& text, int64_t, Json) override;
  std::string call(int64_t, const AnswerPiece& piece, int64_t) override;
  std::string thought(int64_t, const std::string& text) override;
  std::string end(int64_t, const AnswerEnd& last) override;
  std::string failed(const ApiError& error) override;

 private:
  // item: its number in a stream, where an answer that thinks again behind a text has several items of a kind. The
  // first of each kind have the ids of the whole response, for which it is 0.
  std::string item_id(const char* kind, int64_t item) const {
    return item > 2 ? fmt::format("{}{}_{}", kind, head_.id, item) : kind + head_.id;
  }
  std::string function_id(int64_t call) const { return fmt::format("fc_{}_{}", head_.id, call); }
  Json message(int64_t item, const std::string& status, Json content) const;
  Json reasoning(int64_t item, Json summary) const;
  Json function_call(int64_t number, const std::string& status, const ToolCall& call) const;
  Json response_with(const std::string& status, Json output) const;
  Json as_json(const FinishedAnswer& answer, const Json& usage) const;
  std::string event(const std::string& type, const Json& fields);
  std::string item_event(const std::string& type, const Json& fields, Json more);
  std::string begin_text();
  std::string end_text(const std::string& status);
  std::string end_thoughts();
  std::string end_item(Json item);

  const Json repeated_;
  int64_t next_ = 0;             // event
  int64_t items_ = 0;            // that were begun
  Json output_ = Json::array();  // those of them that have ended
  std::string text_, thoughts_;  // of the item so far
  bool in_text_ = false, in_thoughts_ = false;
  ToolCall call_;  // that is being written
};

Json ResponseForm::message(int64_t item, const std::string& status, Json content) const {
  return {{"type", "message"},
          {"id", item_id("msg_", item)},
          {"status", status},
          {"role", "assistant"},
          {"content", std::move(content)}};
}

Json ResponseForm::reasoning(int64_t item, Json summary) const {
  return {{"type", "reasoning"}, {"id", item_id("rs_", item)}, {"summary", std::move(summary)}};
}

Json ResponseForm::function_call(int64_t number, const std::string& status, const ToolCall& call) const {
  return {{"type", "function_call"}, {"id", function_id(number)},   {"call_id", call_id(head_.id, 0, number)},
          {"name", call.name},       {"arguments", call.arguments}, {"status", status}};
}

// status: in_progress, completed, incomplete or failed.
Json ResponseForm::response_with(const std::string& status, Json output) const {
  Json json = {{"id", id_},
               {"object", "response"},
               {"created_at", head_.created},
               {"status", status},
               {"error", nullptr},
               {"incomplete_details", nullptr},
               {"model", head_.model},
               {"output", std::move(output)},
               {"parallel_tool_calls", true},
               {"previous_response_id", nullptr},
               {"store", false},
               {"truncation", "disabled"},
               {"usage", nullptr}};
  json.update(repeated_);
  return json;
}

Json ResponseForm::as_json(const FinishedAnswer& answer, const Json& usage) const {
  const std::string status = status_of(answer);
  Json output = Json::array();
  if (!answer.thoughts.empty()) output.push_back(reasoning(0, Json::array({thought_part(answer.thoughts)})));
  if (answer.calls.empty() || !answer.text.empty())
    output.push_back(message(0, status, Json::array({text_part(answer.text)})));
  for (size_t i = 0; i < answer.calls.size(); ++i)
    output.push_back(function_call(static_cast<int64_t>(i), "completed", answer.calls[i]));
  Json json = response_with(status, std::move(output));
  if (status == "incomplete") json["incomplete_details"] = {{"reason", "max_output_tokens"}};
  json["usage"] = usage_of(usage, answer.thought_tokens);
  return json;
}

std::string ResponseForm::event(const std::string& type, const Json& fields) {
  Json json = {{"sequence_number", next_++}};
  json.update(fields);
  return event_text(type, json);
}

// About the item that was begun last. `fields` name it.
std::string ResponseForm::item_event(const std::string& type, const Json& fields, Json more) {
  Json json = fields;
  json["output_index"] = items_ - 1;
  json.update(std::move(more));
  return event(type, json);
}

// Events are numbered in the order in which they are made: one statement each.
std::string ResponseForm::begin() {
  const Json response = response_with("in_progress", Json::array());
  std::string text = event("response.created", {{"response", response}});
  text += event("response.in_progress", {{"response", response}});
  return text;
}

std::string ResponseForm::end_item(Json item) {
  output_.push_back(item);
  return item_event("response.output_item.done", Json::object(), {{"item", std::move(item)}});
}

std::string ResponseForm::thought(int64_t, const std::string& text) {
  std::string events = end_text("completed");
  if (!in_thoughts_) ++items_, thoughts_.clear();
  const Json item = {{"item_id", item_id("rs_", items_)}};
  if (!std::exchange(in_thoughts_, true)) {
    events += item_event("response.output_item.added", Json::object(), {{"item", reasoning(items_, Json::array())}});
    events +=
        item_event("response.reasoning_summary_part.added", item, {{"summary_index", 0}, {"part", thought_part("")}});
  }
  thoughts_ += text;
  return events + item_event("response.reasoning_summary_text.delta", item, {{"summary_index", 0}, {"delta", text}});
}

std::string ResponseForm::end_thoughts() {
  if (!std::exchange(in_thoughts_, false)) return "";
  const Json item = {{"item_id", item_id("rs_", items_)}}, part = thought_part(thoughts_);
  std::string events =
      item_event("response.reasoning_summary_text.done", item, {{"summary_index", 0}, {"text", thoughts_}});
  events += item_event("response.reasoning_summary_part.done", item, {{"summary_index", 0}, {"part", part}});
  return events + end_item(reasoning(items_, Json::array({part})));
}

std::string ResponseForm::begin_text() {
  if (std::exchange(in_text_, true)) return "";
  std::string text = end_thoughts();
  ++items_, text_.clear();
  text += item_event("response.output_item.added", Json::object(),
                     {{"item", message(items_, "in_progress", Json::array())}});
  text += item_event("response.content_part.added", {{"item_id", item_id("msg_", items_)}},
                     {{"content_index", 0}, {"part", text_part("")}});
  return text;
}

std::string ResponseForm::end_text(const std::string& status) {
  if (!std::exchange(in_text_, false)) return "";
  const Json item = {{"item_id", item_id("msg_", items_)}}, part = text_part(text_);
  std::string text = item_event("response.output_text.done", item,
                                {{"content_index", 0}, {"text", text_}, {"logprobs", Json::array()}});
  text += item_event("response.content_part.done", item, {{"content_index", 0}, {"part", part}});
  return text + end_item(message(items_, status, Json::array({part})));
}

std::string ResponseForm::text(int64_t, const std::string& text, int64_t, Json) {
  if (text.empty()) return "";
  std::string events = begin_text();
  text_ += text;
  events += item_event("response.output_text.delta", {{"item_id", item_id("msg_", items_)}},
                       {{"content_index", 0}, {"delta", text}, {"logprobs", Json::array()}});
  return events;
}

std::string ResponseForm::call(int64_t, const AnswerPiece& piece, int64_t) {
  std::string events;
  const Json item = {{"item_id", function_id(piece.call)}};
  if (!piece.name.empty()) {
    events = end_thoughts();
    events += end_text("completed");
    ++items_;
    call_ = {piece.name, ""};
    events += item_event("response.output_item.added", Json::object(),
                         {{"item", function_call(piece.call, "in_progress", call_)}});
  }
  call_.arguments += piece.text;
  if (!piece.text.empty())
    events += item_event("response.function_call_arguments.delta", item, {{"delta", piece.text}});
  if (!piece.ends) return events;
  events +=
      item_event("response.function_call_arguments.done", item, {{"name", call_.name}, {"arguments", call_.arguments}});
  return events + end_item(function_call(piece.call, "completed", call_));
}

std::string ResponseForm::end(int64_t, const AnswerEnd& last) {
  const std::string status = status_of(last.answer);
  std::string text = items_ == 0 || in_thoughts_ ? begin_text() : "";
  text += end_text(status);
  Json ended = as_json(last.answer, last.all_usage);
  ended["output"] = output_;
  return text + event("response." + status, {{"response", std::move(ended)}});
}

std::string ResponseForm::failed(const ApiError& error) {
  Json response = response_with("failed", Json::array());
  response["error"] = {{"code", "server_error"}, {"message", error.message}};
  return event("response.failed", {{"response", response}});
}

Wished read_text_format(Fields& body) { return read_typed_form(body, {"text", "format"}, false); }

// A client may send back a message of an earlier answer as it came.
constexpr Dialect kResponse{.writer = write_as<ResponseForm>,
                            .converses = true,
                            .form = read_text_format,
                            .messages = "input",
                            .part = "input_text",
                            .other_part = "output_text",
                            .idle = {"type", "id", "status"},
                            .calls = Calls::items,
                            .stop = nullptr,
                            .lengths = {"max_output_tokens"}};

// Further parts of a response that a client wants; those listed here never occur. Log-probabilities do, and are
// refused.
Done read_include(Fields& body) {
  LLADA_TRY(const auto names, body.texts("include"));
  static const std::set<std::string> kAbsent = {
      "reasoning.encrypted_content",    "file_search_call.results",      "web_search_call.results",
      "web_search_call.action.sources", "code_interpreter_call.outputs", "computer_call_output.output.image_url",
      "message.input_image.image_url"};
  for (const std::string& name : names)
    if (!kAbsent.contains(name))
      return wrong("include", name, "one that adds nothing here, such as reasoning.encrypted_content");
  return {};
}

// Fields that this server cannot follow, but for values that change nothing.
Done read_unstored(Fields& body) {
  if (body.find("previous_response_id") != nullptr)
    return refuse("previous_response_id: nothing is stored here; needed the whole conversation in input",
                  "previous_response_id");
  // The second of truncation is done where all of a conversation fits, and is refused with its own code where not.
  const std::pair<const char*, std::vector<Json>> idle[] = {
      {"truncation", {"disabled", "auto"}}, {"background", {false}}, {"top_logprobs", {0}}};
  for (const auto& [name, values] : idle)
    if (const Json* found = body.find(name); found != nullptr && std::ranges::count(values, *found) == 0)
      return wrong(name, *found, fmt::format("{}", values.front().dump()));
  LLADA_TRY_STATUS(read_include(body));
  const Json* text = body.find("text");
  if (text == nullptr) return {};
  if (!text->is_object()) return wrong("text", *text, "an object with a format");
  for (const auto& [name, value] : text->items())
    if (name != "format" && name != "verbosity" && !asks_nothing(value)) return unsupported("text." + name);
  return {};
}

// Fields that the answer repeats stay in memory as long as it takes, members without a meaning too.
Done check_repeated(Fields& body) {
  constexpr size_t kFew = size_t{16} << 10, kSchemas = size_t{1} << 20;
  for (const auto& [name, most] : {std::pair{"metadata", kFew},
                                   {"parallel_tool_calls", kFew},
                                   {"tool_choice", kFew},
                                   {"text", kSchemas},
                                   {"tools", kSchemas}})
    if (const auto* value = body.find(name); value != nullptr && dump(Json(*value)).size() > most)
      return wrong(name, *value, fmt::format("{} bytes of JSON at most", most));
  return {};
}

// The fields that a response repeats, as they were understood.
Json repeated_fields(Fields& body, const std::optional<std::string>& instructions, const DecodeChoice& choice,
                     const ToolUse& tools) {
  const auto repeat = [&](const char* name, const Json& otherwise) {
    const Json* value = body.find(name);
    return value == nullptr ? otherwise : Json(*value);
  };
  return {{"instructions", instructions ? Json(*instructions) : Json(nullptr)},
          {"max_output_tokens", repeat("max_output_tokens", nullptr)},
          {"metadata", repeat("metadata", Json::object())},
          {"parallel_tool_calls", repeat("parallel_tool_calls", true)},
          {"text", repeat("text", {{"format", {{"type", "text"}}}})},
          {"tools", tools.functions.empty() ? Json::array() : repeat("tools", Json::array())},
          {"tool_choice", repeat("tool_choice", "auto")},
          {"temperature", choice.options.temperature},
          {"top_p", choice.options.top_p}};
}

Answered<Ask> read_response(Service& service, Fields body) {
  LLADA_TRY(Ask ask, read_ask(service, body, kResponse));
  LLADA_TRY_STATUS(read_unstored(body));
  LLADA_TRY(auto messages, read_messages(body, kResponse));
  LLADA_TRY(const auto instructions, body.optional_text("instructions"));
  if (instructions) messages.insert(messages.begin(), {"system", *instructions});
  const auto also = [&](Ask& asked, const Decoding& decoding, const ToolUse& tools) -> Done {
    LLADA_TRY_STATUS(check_repeated(body));
    asked.repeated = repeated_fields(body, instructions, decoding.choice, tools);
    return {};
  };
  return read_talk(service, body, kResponse, std::move(ask), std::move(messages), 1, also);
}

}  // namespace

Protocol responses_protocol() {
  static constexpr Route kRoutes[] = {answers("/v1/responses", generate<read_response>, true)};
  return {kRoutes};
}

}  // namespace llada::serve
