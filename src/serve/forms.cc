#include "serve/forms.h"

#include <algorithm>
#include <utility>

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

class AnthropicForm : public AnswerForm {
 public:
  AnthropicForm(AnswerHead head, int64_t prompt) : head_(std::move(head)), prompt_(prompt) {}

  Json whole(const FinishedAnswer& answer, const Json& usage) const override {
    Json json = message(Json::array({{{"type", "text"}, {"text", answer.text}}}), anthropic_usage(usage));
    json.update(stop(answer));
    return json;
  }

  std::string begin() override {
    const Json usage = {{"input_tokens", prompt_},
                        {"cache_creation_input_tokens", 0},
                        {"cache_read_input_tokens", 0},
                        {"output_tokens", 0}};
    return event("message_start", {{"message", message(Json::array(), usage)}}) +
           event("content_block_start", {{"index", 0}, {"content_block", {{"type", "text"}, {"text", ""}}}});
  }

  std::string delta(const std::string& text) override {
    if (text.empty()) return "";
    return event("content_block_delta", {{"index", 0}, {"delta", {{"type", "text_delta"}, {"text", text}}}});
  }

  std::string end(const std::string& rest, const FinishedAnswer& answer, const Json& usage) override {
    return delta(rest) + event("content_block_stop", {{"index", 0}}) +
           event("message_delta", {{"delta", stop(answer)}, {"usage", anthropic_usage(usage)}}) +
           event("message_stop", Json::object());
  }

  std::string failed(const ApiError& error) override {
    return "event: error\n" + event_text(anthropic_error(error.status, error.message));
  }
  std::string ping() override { return event("ping", Json::object()); }

 private:
  Json message(Json content, Json usage) const {
    return {{"id", head_.id},
            {"type", "message"},
            {"role", "assistant"},
            {"model", head_.model},
            {"content", std::move(content)},
            {"stop_reason", nullptr},
            {"stop_sequence", nullptr},
            {"usage", std::move(usage)}};
  }
  static Json stop(const FinishedAnswer& answer) {
    const char* reason = !answer.stopped_by.empty()  ? "stop_sequence"
                         : answer.reason == "length" ? "max_tokens"
                                                     : "end_turn";
    return {{"stop_reason", reason},
            {"stop_sequence", answer.stopped_by.empty() ? Json(nullptr) : Json(answer.stopped_by)}};
  }
  static std::string event(const char* type, const Json& fields) {
    Json json = {{"type", type}};
    json.update(fields);
    return fmt::format("event: {}\n{}", type, event_text(json));
  }

  const AnswerHead head_;
  const int64_t prompt_;
};

// Lines of JSON, whose text is a message's in a chat, a field of its own otherwise.
class OllamaForm : public AnswerForm {
 public:
  explicit OllamaForm(AnswerHead head) : head_(std::move(head)) {}

  Json whole(const FinishedAnswer& answer, const Json& usage) const override {
    Json json = piece(answer.text, true);
    // Nanoseconds; the model was loaded before, and a prompt is not computed apart from its answer.
    const auto time = static_cast<int64_t>(usage.at("seconds").get<double>() * 1e9);
    json.update({{"done_reason", answer.reason},
                 {"total_duration", time},
                 {"load_duration", 0},
                 {"prompt_eval_count", usage.at("prompt_tokens")},
                 {"prompt_eval_duration", 0},
                 {"eval_count", usage.at("completion_tokens")},
                 {"eval_duration", time}});
    return json;
  }
  std::string delta(const std::string& text) override { return text.empty() ? "" : dump(piece(text, false)) + '\n'; }
  std::string end(const std::string& rest, const FinishedAnswer& answer, const Json& usage) override {
    FinishedAnswer last = answer;
    last.text.clear();
    return delta(rest) + dump(whole(last, usage)) + '\n';
  }
  std::string failed(const ApiError& error) override { return dump({{"error", error.message}}) + '\n'; }
  std::string ping() override { return dump(piece("", false)) + '\n'; }
  const char* type() const override { return "application/x-ndjson"; }

 private:
  Json piece(const std::string& text, bool done) const {
    Json json = {{"model", head_.model}, {"created_at", timestamp(std::chrono::system_clock::now())}};
    if (head_.shape == Shape::ollama_chat) {
      json["message"] = {{"role", "assistant"}, {"content", text}};
    } else {
      json["response"] = text;
    }
    json["done"] = done;
    return json;
  }

  const AnswerHead head_;
};

class LlamaForm : public AnswerForm {
 public:
  explicit LlamaForm(AnswerHead head) : head_(std::move(head)) {}

  Json whole(const FinishedAnswer& answer, const Json& usage) const override {
    const double seconds = usage.at("seconds");
    const int64_t tokens = usage.at("completion_tokens");
    Json json = piece(answer.text, true);
    json.update({{"model", head_.model},
                 {"tokens_predicted", tokens},
                 {"tokens_evaluated", usage.at("prompt_tokens")},
                 {"tokens_cached", usage.at("prompt_tokens_details").at("cached_tokens")},
                 {"truncated", false},
                 {"stop_type", !answer.stopped_by.empty()  ? "word"
                               : answer.reason == "length" ? "limit"
                                                           : "eos"},
                 {"stopping_word", answer.stopped_by},
                 {"timings",
                  {{"predicted_n", tokens},
                   {"predicted_ms", seconds * 1e3},
                   {"predicted_per_second", seconds > 0 ? static_cast<double>(tokens) / seconds : 0}}}});
    return json;
  }
  std::string delta(const std::string& text) override { return text.empty() ? "" : event_text(piece(text, false)); }
  Json nothing_yet() const override { return piece("", false); }
  std::string end(const std::string& rest, const FinishedAnswer& answer, const Json& usage) override {
    FinishedAnswer last = answer;
    last.text.clear();
    return delta(rest) + event_text(whole(last, usage));
  }
  std::string failed(const ApiError& error) override { return event_text(error_json(error)); }

 private:
  static Json piece(const std::string& text, bool stop) {
    return {{"index", 0}, {"content", text}, {"tokens", Json::array()}, {"id_slot", 0}, {"stop", stop}};
  }

  const AnswerHead head_;
};

}  // namespace

std::unique_ptr<AnswerForm> make_form(const AnswerHead& head, const Ask& ask) {
  switch (ask.shape) {
    case Shape::response:
      return std::make_unique<ResponseForm>(head, ask.repeated);
    case Shape::message:
      return std::make_unique<AnthropicForm>(head, prompt_tokens(ask.requests.front()));
    case Shape::ollama_chat:
    case Shape::ollama_text:
      return std::make_unique<OllamaForm>(head);
    case Shape::llama:
      return std::make_unique<LlamaForm>(head);
    default:
      return nullptr;
  }
}

void put_error_in_form(std::string_view path, HttpReply& reply) {
  if (path.starts_with("/v1/messages")) {
    reply.body = dump(anthropic_error(reply.status, reply.error));
  } else if (path.starts_with("/api/")) {
    reply.body = dump({{"error", reply.error}});
  }
}

}  // namespace llada::serve
