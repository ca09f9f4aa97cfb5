// /v1/completions: text that follows a prompt, as it is or as token ids, or, with a suffix, text between the two.
#include <algorithm>

#include "engine/prompt.h"
#include "serve/infill.h"
#include "serve/job.h"
#include "serve/routes.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

using nlohmann::json;

// A text, a list of texts, a list of token ids, or a list of such lists.
Answered<std::vector<std::vector<int32_t>>> read_prompts(Service& service, Body& body) {
  const json* value = body.find("prompt");
  std::vector<std::vector<int32_t>> prompts;
  const auto add = [&](const json& item) -> std::expected<void, ApiError> {
    if (item.is_string()) {
      LLADA_TRY(auto ids, text_ids(service, item.get_ref<const std::string&>(), "prompt"));
      prompts.push_back(std::move(ids));
      return {};
    }
    if (!item.is_array() || item.empty()) return wrong("prompt", item, "a text or a list of token ids");
    std::vector<int32_t> ids;
    for (const json& id : item) {
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
    for (const json& item : *value) LLADA_TRY_STATUS(add(item));
  } else {
    LLADA_TRY_STATUS(add(*value));
  }
  return prompts;
}

Answered<Ask> read_completion(Service& service, Exchange& exchange) {
  LLADA_TRY(Body body, Body::parse(exchange));
  if (body.find("suffix") != nullptr) return read_fim(service, std::move(body), Shape::completion);
  Ask ask{.shape = Shape::completion, .requests = {}, .preset = {}};
  LLADA_TRY_STATUS(read_streaming(body, ask));
  LLADA_TRY(ask.note, read_hints(body));
  LLADA_TRY_STATUS(read_format(body));
  LLADA_TRY(const auto prompts, read_prompts(service, body));
  LLADA_TRY(const auto stop, read_stop(body));
  LLADA_TRY(const auto n, body.integer("n", 1, service.options().most_answers));
  LLADA_TRY(const bool echo, body.boolean("echo", false));
  LLADA_TRY(const auto logprobs, body.integer("logprobs", 0, kMostAlternatives));
  ask.logprobs = logprobs.has_value();
  ask.alternatives = logprobs.value_or(0);
  ask.scores_prompt = echo && ask.logprobs;
  if (ask.scores_prompt && ask.stream)
    return refuse("stream: log-probabilities of the prompt (echo) come whole; needed no stream", "stream");
  if (const json* most = body.find("max_tokens"); ask.scores_prompt && most != nullptr && *most == 0) {
    ask.drops_answer = true;
    body.put("max_tokens", 1);
  }
  LLADA_TRY(const Decoding decoding, read_decoding(body, service.model().special_ids().attention_block, false));
  body.ignore({"model"});
  LLADA_TRY_STATUS(body.finish());
  LLADA_TRY_STATUS(make_requests(service, ask, "prompt", prompts, decoding, n.value_or(1), stop));
  if (echo)
    for (const Request& request : ask.requests)
      ask.echoed.push_back(to_valid_utf8(service.model().tokenizer().decode(request.tokens)));
  return ask;
}

}  // namespace

void answer_completions(Service& service, const std::shared_ptr<Exchange>& exchange) {
  begin_job(service, exchange, read_completion(service, *exchange));
}

}  // namespace llada::serve
