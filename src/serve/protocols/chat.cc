// /v1/chat/completions: the answer to a conversation, in OpenAI's first protocol.
#include "serve/protocols/adapter.h"
#include "serve/protocols/choices.h"

namespace llada::serve {
namespace {

class ChatWriter final : public ChoicesWriter {
 public:
  ChatWriter(AnswerHead head, const Ask& ask) : ChoicesWriter(std::move(head), ask, "chatcmpl-", "chat.completion") {}
  Json logprobs(const Model& model, std::span<const ScoredToken> tokens) const override {
    return {{"content", chat_logprobs(model, tokens, true)}, {"refusal", nullptr}};
  }

 protected:
  void put_answer(Json& choice, const FinishedAnswer& answer, int64_t index) const override {
    Json message = {{"role", "assistant"}, {"content", answer.text}, {"refusal", nullptr}};
    if (!answer.calls.empty() && answer.text.empty()) message["content"] = nullptr;
    for (size_t i = 0; i < answer.calls.size(); ++i)
      message["tool_calls"].push_back(
          {{"id", call_id(head_.id, index, static_cast<int64_t>(i))},
           {"type", "function"},
           {"function", {{"name", answer.calls[i].name}, {"arguments", answer.calls[i].arguments}}}});
    if (!answer.thoughts.empty()) message["reasoning_content"] = answer.thoughts;
    choice["message"] = std::move(message);
  }
  void put_delta(Json& choice, const std::string& delta, bool ends) const override {
    choice["delta"] = delta.empty() && ends ? Json::object() : Json{{"content", delta}};
  }
  std::string first_event(int64_t index) const override {
    if (ask_.watch == Watch::replace) return "";
    return event_text(piece_with(index, {{"role", "assistant"}, {"content", ask_.calls ? Json(nullptr) : Json("")}}));
  }
  Json head_json(bool chunk) const override {
    Json json = ChoicesWriter::head_json(chunk);
    if (chunk) json["object"] = "chat.completion.chunk";
    return json;
  }
};

constexpr Dialect kChat{.writer = write_as<ChatWriter>,
                        .converses = true,
                        .frames = true,
                        .biased = true,
                        .form = read_any_format,
                        .idle = {"name", "reasoning_content"}};

Answered<Ask> read_chat(Service& service, Fields body) {
  LLADA_TRY(Ask ask, read_ask(service, body, kChat));
  LLADA_TRY(auto messages, read_messages(body, kChat));
  LLADA_TRY(const int64_t n, read_count(service, body));
  LLADA_TRY_STATUS(read_chat_logprobs(body, ask));
  return read_talk(service, body, kChat, std::move(ask), std::move(messages), n);
}

Answered<HttpReply> apply_template(Service& service, Fields body) {
  Json reply = Json::object();
  LLADA_TRY(auto messages, read_messages(body, kChat));
  LLADA_TRY(const bool think, read_talk_prompt(service, body, kChat, messages, reply));
  LLADA_TRY(const auto ids, service.model().chat_ids(messages, think));
  reply["prompt"] = to_valid_utf8(service.model().tokenizer().decode(ids, true));
  reply["tokens"] = ids;
  return json_reply(reply);
}

}  // namespace

Protocol chat_protocol() {
  static constexpr Route kRoutes[] = {answers("/v1/chat/completions", generate<read_chat>, true),
                                      {"POST", "/apply-template", post<apply_template>}};
  return {kRoutes};
}

}  // namespace llada::serve
