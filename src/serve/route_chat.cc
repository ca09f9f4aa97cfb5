// /v1/chat/completions: the answer to a conversation.
#include "engine/prompt.h"
#include "serve/job.h"
#include "serve/routes.h"

namespace llada::serve {
namespace {

Answered<Ask> read_chat(Service& service, Exchange& exchange) {
  LLADA_TRY(Body body, Body::parse(exchange));
  Ask ask{.shape = Shape::chat, .requests = {}, .preset = {}};
  LLADA_TRY_STATUS(read_streaming(body, ask));
  LLADA_TRY(ask.note, read_hints(body));
  LLADA_TRY_STATUS(read_format(body));
  LLADA_TRY(const auto messages, read_messages(body));
  LLADA_TRY(const auto stop, read_stop(body));
  LLADA_TRY(const auto n, body.integer("n", 1, service.options().most_answers));
  LLADA_TRY(ask.logprobs, body.boolean("logprobs", false));
  LLADA_TRY(const auto top, body.integer("top_logprobs", 0, kMostAlternatives));
  if (top && *top > 0 && !ask.logprobs)
    return refuse("top_logprobs: found it without logprobs, needed logprobs true", "top_logprobs");
  ask.alternatives = top.value_or(0);
  LLADA_TRY(const Decoding decoding, read_decoding(body, service.model().special_ids().attention_block, false));
  body.ignore({"model"});
  LLADA_TRY_STATUS(body.finish());
  LLADA_TRY(auto ids, conversation_ids(service, messages, "messages"));
  LLADA_TRY_STATUS(make_requests(service, ask, "messages", {std::move(ids)}, decoding, n.value_or(1), stop));
  return ask;
}

}  // namespace

void answer_chat(Service& service, const std::shared_ptr<Exchange>& exchange) {
  begin_job(service, exchange, read_chat(service, *exchange));
}

}  // namespace llada::serve
