// /v1/completions: text that follows a prompt, as it is or as token ids, or, with a suffix, text between the two.
#include "serve/protocols/adapter.h"
#include "serve/protocols/choices.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

constexpr Dialect kCompletion{
    .writer = write_as<ChoicesWriter>, .frames = true, .biased = true, .form = read_any_format};

Answered<Ask> read_completion(Service& service, Fields body) {
  LLADA_TRY(Ask ask, read_ask(service, body, kCompletion));
  LLADA_TRY(const int64_t n, read_count(service, body));
  LLADA_TRY_STATUS(read_logprobs(body, ask));
  if (body.find("suffix") != nullptr) return read_between(service, body, std::move(ask), n);
  LLADA_TRY(auto prompts, read_prompts(service, body));
  LLADA_TRY(const auto stop, read_stop(body));
  LLADA_TRY(const bool echo, body.boolean("echo", false));
  ask.scores_prompt = echo && ask.logprobs;
  if (ask.scores_prompt && ask.stream)
    return refuse("stream: log-probabilities of the prompt (echo) come whole; needed no stream", "stream");
  if (const Json* most = body.find("max_tokens"); ask.scores_prompt && most != nullptr && *most == 0) {
    ask.drops_answer = true;
    body.put("max_tokens", 1);
  }
  LLADA_TRY(Decoding decoding, read_decoding(body, ask, kCompletion, kind_of(service)));
  LLADA_TRY_STATUS(body.finish());
  LLADA_TRY_STATUS(make_requests(service, ask, "prompt", std::move(prompts), std::move(decoding), n, stop));
  if (echo)
    for (const Request& request : ask.asked)
      ask.echoed.push_back(to_valid_utf8(service.model().tokenizer().decode(request.tokens)));
  return ask;
}

}  // namespace

Protocol completions_protocol() {
  static constexpr Route kRoutes[] = {answers("/v1/completions", generate<read_completion>, true)};
  return {kRoutes};
}

}  // namespace llada::serve
