// /v1/chat/completions and /v1/responses: the answer to a conversation, in OpenAI's two protocols; /v1/completions:
// text that follows a prompt, as it is or as token ids, or, with a suffix, text between the two; /completion: the same
// in llama-server's own protocol.
#include "serve/protocols/choices.h"
#include "serve/protocols/forms.h"
#include "serve/protocols/routes.h"
#include "serve/protocols/tools.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

// A text, a list of texts, a list of token ids, or a list of such lists.
Answered<std::vector<std::vector<int32_t>>> read_prompts(Service& service, Fields& body) {
  const Json* value = body.find("prompt");
  std::vector<std::vector<int32_t>> prompts;
  const auto add = [&](const Json& item) -> Done {
    if (item.is_string()) {
      LLADA_TRY(auto ids, text_ids(service, item.get_ref<const std::string&>(), "prompt"));
      prompts.push_back(std::move(ids));
      return {};
    }
    if (!item.is_array() || item.empty()) return wrong("prompt", item, "a text or a list of token ids");
    std::vector<int32_t> ids;
    for (const Json& id : item) {
      const auto number = whole_number(id);
      if (!number || *number < 0 || *number >= service.model().config().vocab)
        return wrong("prompt", id, fmt::format("token ids below {}", service.model().config().vocab));
      ids.push_back(static_cast<int32_t>(*number));
    }
    prompts.push_back(std::move(ids));
    return {};
  };
  if (value == nullptr || (value->is_array() && value->empty()))
    return refuse("prompt: needed, a text, token ids, or a list of them", "prompt");
  if (value->is_array() && !value->front().is_number()) {
    LLADA_TRY_STATUS(check_count(service, std::ssize(*value), 1));
    for (const Json& item : *value) LLADA_TRY_STATUS(add(item));
  } else {
    LLADA_TRY_STATUS(add(*value));
  }
  return prompts;
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

}  // namespace

Answered<Ask> read_chat(Service& service, Fields body) {
  LLADA_TRY(Ask ask, read_ask(service, body, Shape::chat));
  ask.writer = write_chat;
  LLADA_TRY(auto messages, read_messages(body, Shape::chat));
  LLADA_TRY(const ToolUse tools, read_tools(body, Shape::chat));
  LLADA_TRY(auto stop, read_stop(body));
  LLADA_TRY(const int64_t n, read_count(service, body));
  LLADA_TRY_STATUS(read_chat_logprobs(body, ask));
  LLADA_TRY(Decoding decoding, read_decoding(body, ask, service.model().special_ids().kind(), false));
  LLADA_TRY_STATUS(body.finish());
  LLADA_TRY_STATUS(use_tools(service, tools, ask, decoding, messages, stop));
  LLADA_TRY_STATUS(think_without_form(service, ask, decoding));
  LLADA_TRY(auto ids, conversation_ids(service, messages, "messages", ask.think));
  LLADA_TRY_STATUS(make_requests(service, ask, "messages", {std::move(ids)}, std::move(decoding), n, stop));
  return ask;
}

Answered<Ask> read_completion(Service& service, Fields body) {
  if (body.find("suffix") != nullptr) {
    LLADA_TRY(const auto form, read_format(body, Shape::completion));
    LLADA_TRY(Ask ask, read_between(service, std::move(body), form));
    ask.writer = write_completion;
    return ask;
  }
  LLADA_TRY(Ask ask, read_ask(service, body, Shape::completion));
  ask.writer = write_completion;
  LLADA_TRY(auto prompts, read_prompts(service, body));
  LLADA_TRY(const auto stop, read_stop(body));
  LLADA_TRY(const int64_t n, read_count(service, body));
  LLADA_TRY(const bool echo, body.boolean("echo", false));
  LLADA_TRY_STATUS(read_logprobs(body, ask));
  ask.scores_prompt = echo && ask.logprobs;
  if (ask.scores_prompt && ask.stream)
    return refuse("stream: log-probabilities of the prompt (echo) come whole; needed no stream", "stream");
  if (const Json* most = body.find("max_tokens"); ask.scores_prompt && most != nullptr && *most == 0) {
    ask.drops_answer = true;
    body.put("max_tokens", 1);
  }
  LLADA_TRY(Decoding decoding, read_decoding(body, ask, service.model().special_ids().kind(), false));
  LLADA_TRY_STATUS(body.finish());
  LLADA_TRY_STATUS(make_requests(service, ask, "prompt", std::move(prompts), std::move(decoding), n, stop));
  if (echo)
    for (const Request& request : ask.asked)
      ask.echoed.push_back(to_valid_utf8(service.model().tokenizer().decode(request.tokens)));
  return ask;
}

Answered<Ask> read_llama_completion(Service& service, Fields body) {
  LLADA_TRY(Ask ask, read_ask(service, body, Shape::llama));
  ask.writer = write_llama;
  if (ask.watch != Watch::none) return refuse("diffusing: not on this route; needed false", "diffusing");
  LLADA_TRY(auto prompts, read_prompts(service, body));
  if (prompts.size() > 1 && ask.stream)
    return refuse(fmt::format("stream: found it beside {} prompts, needed one", prompts.size()), "stream");
  LLADA_TRY(const auto stop, read_stop(body));
  if (const Json* most = body.find("n_predict"); most != nullptr && *most == 0) {
    ask.drops_answer = true;  // the prompt alone is computed
    body.put("n_predict", 1);
  }
  LLADA_TRY(Decoding decoding,
            read_decoding(body, ask, service.model().special_ids().kind(), false, {"n_predict", "max_tokens"}));
  ignore_llama_settings(body);
  LLADA_TRY_STATUS(body.finish());
  LLADA_TRY_STATUS(make_requests(service, ask, "prompt", std::move(prompts), std::move(decoding), 1, stop));
  return ask;
}

Answered<Ask> read_response(Service& service, Fields body) {
  LLADA_TRY(Ask ask, read_ask(service, body, Shape::response));
  ask.writer = write_response;
  if (ask.watch != Watch::none) return refuse("diffusing: not on this route; needed false", "diffusing");
  LLADA_TRY_STATUS(read_unstored(body));
  LLADA_TRY(auto messages, read_messages(body, Shape::response));
  LLADA_TRY(const ToolUse tools, read_tools(body, Shape::response));
  LLADA_TRY(const auto instructions, body.optional_text("instructions"));
  if (instructions) messages.insert(messages.begin(), {"system", *instructions});
  std::vector<std::string> stop;  // this protocol has none
  LLADA_TRY(Decoding decoding,
            read_decoding(body, ask, service.model().special_ids().kind(), false, {"max_output_tokens"}));
  LLADA_TRY_STATUS(check_repeated(body));
  ask.repeated = repeated_fields(body, instructions, decoding.choice, tools);
  LLADA_TRY_STATUS(body.finish());
  LLADA_TRY_STATUS(use_tools(service, tools, ask, decoding, messages, stop));
  LLADA_TRY_STATUS(think_without_form(service, ask, decoding));
  LLADA_TRY(auto ids, conversation_ids(service, messages, "input", ask.think));
  LLADA_TRY_STATUS(make_requests(service, ask, "input", {std::move(ids)}, std::move(decoding), 1));
  return ask;
}

}  // namespace llada::serve
