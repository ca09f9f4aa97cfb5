#include "serve/protocols/forms.h"

#include <algorithm>
#include <span>
#include <utility>

#include "serve/work/ask.h"
#include "serve/protocols/response_form.h"

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

class AnthropicForm final : public OneAnswerWriter {
 public:
  AnthropicForm(AnswerHead head, int64_t prompt) : request_(head.id), head_(std::move(head)), prompt_(prompt) {
    head_.id = "msg_" + head_.id;
  }

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
    return event("message_start", {{"message", message(Json::array(), usage)}});
  }

  std::string delta(const std::string& text) override {
    if (text.empty()) return "";
    std::string events = std::exchange(thinking_, false) ? end_block() : "";
    if (!open_) events += begin_block({{"type", "text"}, {"text", ""}});
    return events + block_delta({{"type", "text_delta"}, {"text", text}});
  }

  std::string thought(const std::string& text) override {
    std::string events;
    if (!thinking_) {
      events = end_block();
      events += begin_block(thinking_block(""));
    }
    thinking_ = true;
    return events + block_delta({{"type", "thinking_delta"}, {"thinking", text}});
  }

  std::string call(const AnswerPiece& piece) override {
    std::string events;
    if (!piece.name.empty()) {
      thinking_ = false;
      events = end_block();
      events += begin_block(call_block(piece.call, piece.name, Json::object()));
    }
    if (!piece.text.empty()) events += block_delta({{"type", "input_json_delta"}, {"partial_json", piece.text}});
    return events + (piece.ends ? end_block() : "");
  }

  std::string end(const FinishedAnswer& answer, const Json& usage) override {
    std::string events = blocks_ == 0 ? begin_block({{"type", "text"}, {"text", ""}}) : "";
    events += end_block();
    return events + event("message_delta", {{"delta", stop(answer)}, {"usage", anthropic_usage(usage)}}) +
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
  Json call_block(int64_t call, const std::string& name, Json input) const {
    return {{"type", "tool_use"}, {"id", call_id(request_, 0, call)}, {"name", name}, {"input", std::move(input)}};
  }
  // Nobody signs thoughts here.
  static Json thinking_block(const std::string& thoughts) {
    return {{"type", "thinking"}, {"thinking", thoughts}, {"signature", ""}};
  }
  std::string begin_block(const Json& block) {
    open_ = true;
    return event("content_block_start", {{"index", blocks_++}, {"content_block", block}});
  }
  std::string block_delta(const Json& delta) const {
    return event("content_block_delta", {{"index", blocks_ - 1}, {"delta", delta}});
  }
  std::string end_block() {
    return std::exchange(open_, false) ? event("content_block_stop", {{"index", blocks_ - 1}}) : "";
  }
  static Json stop(const FinishedAnswer& answer) {
    const char* reason = !answer.calls.empty()        ? "tool_use"
                         : !answer.stopped_by.empty() ? "stop_sequence"
                         : answer.reason == "length"  ? "max_tokens"
                                                      : "end_turn";
    return {{"stop_reason", reason},
            {"stop_sequence", answer.stopped_by.empty() ? Json(nullptr) : Json(answer.stopped_by)}};
  }
  static std::string event(const char* type, const Json& fields) {
    Json json = {{"type", type}};
    json.update(fields);
    return fmt::format("event: {}\n{}", type, event_text(json));
  }

  const std::string request_;
  AnswerHead head_;
  const int64_t prompt_;
  int64_t blocks_ = 0;     // that were begun
  bool open_ = false;      // the last one
  bool thinking_ = false;  // it is open, and of thoughts
};

// Lines of JSON, whose text is a message's in a chat, a field of its own otherwise.
class OllamaForm final : public OneAnswerWriter {
 public:
  OllamaForm(AnswerHead head, bool chat) : head_(std::move(head)), chat_(chat) {}

  std::string whole(const FinishedAnswer& answer, const Json& usage) const override {
    Json json = piece(answer.text, true);
    if (!answer.thoughts.empty()) place(json)["thinking"] = answer.thoughts;
    // Nanoseconds; the model was loaded before, and a prompt is not computed apart from its answer.
    const auto time = static_cast<int64_t>(usage.at("seconds").get<double>() * 1e9);
    json.update({{"done_reason", answer.reason == "tool_calls" ? "stop" : answer.reason},
                 {"total_duration", time},
                 {"load_duration", 0},
                 {"prompt_eval_count", usage.at("prompt_tokens")},
                 {"prompt_eval_duration", 0},
                 {"eval_count", usage.at("completion_tokens")},
                 {"eval_duration", time}});
    if (!answer.logprobs.is_null()) json["logprobs"] = answer.logprobs;
    return with_calls(std::move(json), answer.calls);
  }
  std::string delta(const std::string& text) override { return text.empty() ? "" : dump(piece(text, false)) + '\n'; }
  std::string thought(const std::string& text) override {
    Json json = piece("", false);
    place(json)["thinking"] = text;
    return dump(json) + '\n';
  }
  // This protocol has calls whole.
  std::string call(const AnswerPiece& more) override {
    if (!more.name.empty()) call_ = {more.name, ""};
    call_.arguments += more.text;
    return more.ends ? with_calls(piece("", false), {&call_, 1}) + '\n' : "";
  }
  std::string end(const FinishedAnswer& answer, const Json& usage) override {
    FinishedAnswer last = answer;
    last.text.clear(), last.calls.clear(), last.thoughts.clear();
    return whole(last, usage) + '\n';
  }
  std::string failed(const ApiError& error) override { return dump({{"error", error.message}}) + '\n'; }
  std::string ping() override { return dump(piece("", false)) + '\n'; }
  const char* type() const override { return "application/x-ndjson"; }
  Json logprobs(const Model& model, std::span<const ScoredToken> tokens) const override {
    return chat_logprobs(model, tokens, false);
  }

 private:
  Json piece(const std::string& text, bool done) const {
    Json json = {{"model", head_.model}, {"created_at", timestamp(std::chrono::system_clock::now())}};
    if (chat_) {
      json["message"] = {{"role", "assistant"}, {"content", text}};
    } else {
      json["response"] = text;
    }
    json["done"] = done;
    return json;
  }
  // Where a message's fields are.
  static Json& place(Json& json) { return json.contains("message") ? json["message"] : json; }
  static std::string with_calls(Json json, std::span<const ToolCall> calls) {
    if (calls.empty()) return dump(json);
    json["message"]["tool_calls"] = nullptr;
    std::string list;
    for (const ToolCall& call : calls)
      list += (list.empty() ? "[" : ",") + with_value({{"function", {{"name", call.name}, {"arguments", nullptr}}}},
                                                      "arguments", arguments_object(call.arguments));
    return with_value(json, "tool_calls", list + "]");
  }

  const AnswerHead head_;
  const bool chat_;
  ToolCall call_;  // that is being written
};

class LlamaForm final : public OneAnswerWriter {
 public:
  explicit LlamaForm(AnswerHead head) : head_(std::move(head)) {}

  // To a list of prompts a list of answers.
  std::string body(const EndedAnswers& answers, const Json& beside) override {
    if (answers.count == 1) return OneAnswerWriter::body(answers, beside);
    std::string list;
    for (size_t i = 0; i < answers.count; ++i) {
      Json more = {{"index", i}};
      more.update(beside);
      Json one = whole_json(answers.take(i), answers.usage_of(i));
      one.update(more);
      list += (list.empty() ? "[" : ",") + dump(one);
    }
    return list + "]";
  }

  std::string whole(const FinishedAnswer& answer, const Json& usage) const override {
    return dump(whole_json(answer, usage));
  }
  Json whole_json(const FinishedAnswer& answer, const Json& usage) const {
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
  Json nothing_yet(int64_t) const override { return piece("", false); }
  std::string end(const FinishedAnswer& answer, const Json& usage) override {
    FinishedAnswer last = answer;
    last.text.clear();
    return "data: " + whole(last, usage) + "\n\n";
  }
  std::string failed(const ApiError& error) override { return event_text(error_json(error)); }

 private:
  static Json piece(const std::string& text, bool stop) {
    return {{"index", 0}, {"content", text}, {"tokens", Json::array()}, {"id_slot", 0}, {"stop", stop}};
  }

  const AnswerHead head_;
};

}  // namespace

std::unique_ptr<AnswerWriter> write_response(AnswerHead head, const Ask& ask) {
  return std::make_unique<ResponseForm>(std::move(head), ask.repeated);
}
std::unique_ptr<AnswerWriter> write_message(AnswerHead head, const Ask& ask) {
  return std::make_unique<AnthropicForm>(std::move(head), ask.requests.front()->prompt_tokens);
}
std::unique_ptr<AnswerWriter> write_ollama_chat(AnswerHead head, const Ask&) {
  return std::make_unique<OllamaForm>(std::move(head), true);
}
std::unique_ptr<AnswerWriter> write_ollama_text(AnswerHead head, const Ask&) {
  return std::make_unique<OllamaForm>(std::move(head), false);
}
std::unique_ptr<AnswerWriter> write_llama(AnswerHead head, const Ask&) {
  return std::make_unique<LlamaForm>(std::move(head));
}

void put_error_in_form(std::string_view path, HttpReply& reply) {
  if (path.starts_with("/v1/messages")) {
    reply.body = dump(anthropic_error(reply.status, reply.error));
  } else if (path.starts_with("/api/")) {
    reply.body = dump({{"error", reply.error}});
  }
}

}  // namespace llada::serve
