// /v1/messages and /v1/messages/count_tokens: Anthropic's protocol.
#include <algorithm>
#include <utility>

#include "serve/protocols/adapter.h"

namespace llada::serve {
namespace {

Json anthropic_error(int status, const std::string& message) {
  const char* type = status == 401   ? "authentication_error"
                     : status == 403 ? "permission_error"
                     : status == 404 ? "not_found_error"
                     : status == 429 ? "rate_limit_error"
                     : status == 503 ? "overloaded_error"
                     : status == 504 ? "timeout_error"
                     : status >= 500 ? "api_error"
                                     : "invalid_request_error";
  return {{"type", "error"}, {"error", {{"type", type}, {"message", message}}}};
}

// Anthropic's counts: what came from a cache is counted beside the input, not in it.
Json anthropic_usage(const Json& usage) {
  const int64_t cached = usage.at("prompt_tokens_details").at("cached_tokens");
  const int64_t prompt = usage.at("prompt_tokens");
  return {{"input_tokens", std::max<int64_t>(prompt - cached, 0)},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", cached},
          {"output_tokens", usage.at("completion_tokens")}};
}

class AnthropicForm final : public AnswerWriter {
 public:
  AnthropicForm(AnswerHead head, const Ask& ask)
      : AnswerWriter(std::move(head), "msg_"), prompt_(ask.requests.front()->prompt_tokens) {}

  std::string whole(const FinishedAnswer& answer, const Json& usage) const override {
    std::vector<std::string> blocks;
    if (!answer.thoughts.empty()) blocks.push_back(dump(thinking_block(answer.thoughts)));
    if (answer.calls.empty() || !answer.text.empty()) blocks.push_back(dump({{"type", "text"}, {"text", answer.text}}));
    for (size_t i = 0; i < answer.calls.size(); ++i)
      blocks.push_back(with_value(call_block(static_cast<int64_t>(i), answer.calls[i].name, nullptr), "input",
                                  arguments_object(answer.calls[i].arguments)));
    Json json = message(nullptr, anthropic_usage(usage));
    json.update(stop(answer));
    return with_value(json, "content", fmt::format("[{}]", fmt::join(blocks, ",")));
  }

  std::string begin() override {
    const Json usage = {{"input_tokens", prompt_},
                        {"cache_creation_input_tokens", 0},
                        {"cache_read_input_tokens", 0},
                        {"output_tokens", 0}};
    return event_text("message_start", {{"message", message(Json::array(), usage)}});
  }

  std::string text(int64_t, const std::string& text, int64_t, Json) override {
    if (text.empty()) return "";
    std::string events = std::exchange(thinking_, false) ? end_block() : "";
    if (!open_) events += begin_block({{"type", "text"}, {"text", ""}});
    return events + block_delta({{"type", "text_delta"}, {"text", text}});
  }

  std::string thought(int64_t, const std::string& text) override {
    std::string events;
    if (!thinking_) {
      events = end_block();
      events += begin_block(thinking_block(""));
    }
    thinking_ = true;
    return events + block_delta({{"type", "thinking_delta"}, {"thinking", text}});
  }

  std::string call(int64_t, const AnswerPiece& piece, int64_t) override {
    std::string events;
    if (!piece.name.empty()) {
      thinking_ = false;
      events = end_block();
      events += begin_block(call_block(piece.call, piece.name, Json::object()));
    }
    if (!piece.text.empty()) events += block_delta({{"type", "input_json_delta"}, {"partial_json", piece.text}});
    return events + (piece.ends ? end_block() : "");
  }

  std::string end(int64_t, const AnswerEnd& last) override {
    std::string events = blocks_ == 0 ? begin_block({{"type", "text"}, {"text", ""}}) : "";
    events += end_block();
    return events +
           event_text("message_delta", {{"delta", stop(last.answer)}, {"usage", anthropic_usage(last.all_usage)}}) +
           event_text("message_stop", Json::object());
  }

  std::string failed(const ApiError& error) override {
    return "event: error\n" + event_text(anthropic_error(error.status, error.message));
  }
  std::string ping() override { return event_text("ping", Json::object()); }

 private:
  Json message(Json content, Json usage) const {
    return {{"id", id_},
            {"type", "message"},
            {"role", "assistant"},
            {"model", head_.model},
            {"content", std::move(content)},
            {"stop_reason", nullptr},
            {"stop_sequence", nullptr},
            {"usage", std::move(usage)}};
  }
  Json call_block(int64_t call, const std::string& name, Json input) const {
    return {{"type", "tool_use"}, {"id", call_id(head_.id, 0, call)}, {"name", name}, {"input", std::move(input)}};
  }
  // Nobody signs thoughts here.
  static Json thinking_block(const std::string& thoughts) {
    return {{"type", "thinking"}, {"thinking", thoughts}, {"signature", ""}};
  }
  std::string begin_block(const Json& block) {
    open_ = true;
    return event_text("content_block_start", {{"index", blocks_++}, {"content_block", block}});
  }
  std::string block_delta(const Json& delta) const {
    return event_text("content_block_delta", {{"index", blocks_ - 1}, {"delta", delta}});
  }
  std::string end_block() {
    return std::exchange(open_, false) ? event_text("content_block_stop", {{"index", blocks_ - 1}}) : "";
  }
  static Json stop(const FinishedAnswer& answer) {
    const char* reason = !answer.calls.empty()        ? "tool_use"
                         : !answer.stopped_by.empty() ? "stop_sequence"
                         : answer.reason == "length"  ? "max_tokens"
                                                      : "end_turn";
    return {{"stop_reason", reason},
            {"stop_sequence", answer.stopped_by.empty() ? Json(nullptr) : Json(answer.stopped_by)}};
  }

  const int64_t prompt_;
  int64_t blocks_ = 0;     // that were begun
  bool open_ = false;      // the last one
  bool thinking_ = false;  // it is open, and of thoughts
};

// The form in the field of its first version, or of the later one.
Wished read_output_format(Fields& body) {
  LLADA_TRY(auto older, read_typed_form(body, {"output_format"}, false));
  return older ? older : read_typed_form(body, {"output_config", "format"}, false);
}

constexpr Dialect kMessage{.writer = write_message,
                           .converses = true,
                           .form = read_output_format,
                           .idle = {"thinking", "cache_control"},
                           .calls = Calls::blocks,
                           .stop = "stop_sequences",
                           .lengths = {"max_tokens"}};

// The conversation, and what stands beside it that asks for nothing.
Answered<std::vector<ChatMessage>> read_conversation(Fields& body) {
  LLADA_TRY(auto messages, read_messages(body, kMessage));
  if (messages.back().role == "assistant")
    return refuse("messages: the last is the assistant's, needed a user's: an answer cannot continue a given text here",
                  "messages");
  LLADA_TRY(auto system, read_system(body));
  if (system && !system->empty()) messages.insert(messages.begin(), {"system", std::move(*system)});
  return messages;
}

Answered<Ask> read_message_request(Service& service, Fields body) {
  LLADA_TRY(Ask ask, read_ask(service, body, kMessage));
  // What is not stored begins anew in every request.
  if (const Json* thread = body.find("thread"); thread != nullptr && *thread != Json{{"type", "create"}})
    return wrong("thread", *thread, "{\"type\": \"create\"}: nothing is stored here, messages have all of it");
  LLADA_TRY(auto messages, read_conversation(body));
  return read_talk(service, body, kMessage, std::move(ask), std::move(messages));
}

Answered<HttpReply> count_tokens(Service& service, Fields body) {
  Json reply = Json::object();
  LLADA_TRY_STATUS(check_model(service, body));
  LLADA_TRY(auto messages, read_conversation(body));
  LLADA_TRY(const bool think, read_talk_prompt(service, body, kMessage, messages, reply));
  // However long it is: who asks wants to know how much to leave out.
  const Model& model = service.model();
  LLADA_TRY(const auto ids, render_chat(model.tokenizer(), model.chat_format(), messages, true, think));
  reply["input_tokens"] = ids.size();
  return json_reply(reply);
}

}  // namespace

std::unique_ptr<AnswerWriter> write_message(AnswerHead head, const Ask& ask) {
  return std::make_unique<AnthropicForm>(std::move(head), ask);
}

Protocol messages_protocol() {
  static constexpr Route kRoutes[] = {answers("/v1/messages", generate<read_message_request>),
                                      {"POST", "/v1/messages/count_tokens", post<count_tokens>}};
  return {kRoutes, "/v1/messages", anthropic_error};
}

}  // namespace llada::serve
