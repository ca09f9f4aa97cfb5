// /v1/responses: the answer to a conversation, in the newer of OpenAI's protocols. Nothing is stored between requests.
#include "serve/job.h"
#include "serve/routes.h"

namespace llada::serve {
namespace {

// The fields that a response repeats, as they were understood.
Json said_fields(const std::optional<std::string>& instructions, const DecodeChoice& choice, bool length_given) {
  return {{"instructions", instructions ? Json(*instructions) : Json(nullptr)},
          {"max_output_tokens", length_given ? Json(choice.options.gen_length) : Json(nullptr)},
          {"temperature", choice.options.temperature},
          {"top_p", choice.options.top_p}};
}

Answered<Ask> read_response(Service& service, const Exchange& exchange) {
  LLADA_TRY(Body body, Body::parse(exchange));
  Ask ask{.shape = Shape::response, .requests = {}, .preset = {}};
  LLADA_TRY_STATUS(read_streaming(body, ask));
  if (ask.watch != Watch::none) return refuse("diffusing: not on this route; needed false", "diffusing");
  LLADA_TRY_STATUS(read_unstored(body));
  LLADA_TRY(auto messages, read_input(body));
  LLADA_TRY(const auto instructions, body.text("instructions"));
  if (instructions) messages.insert(messages.begin(), {"system", *instructions});
  const bool length_given = body.find("max_output_tokens") != nullptr;
  LLADA_TRY(DecodeChoice choice,
            read_decoding(body, service.model().special_ids().attention_block, false, {"max_output_tokens"}));
  body.ignore({"model"});
  LLADA_TRY_STATUS(body.finish());
  auto ids = service.model().chat_ids(messages);
  if (!ids) return refuse("input: " + ids.error().message, "input");
  LLADA_TRY(ask.requests, make_requests(service, {std::move(*ids)}, choice, 1, {}, 0));
  ask.preset = choice.preset();
  ask.said = said_fields(instructions, choice, length_given);
  return ask;
}

}  // namespace

void answer_responses(Service& service, const std::shared_ptr<Exchange>& exchange) {
  begin_job(service, exchange, read_response(service, *exchange));
}

}  // namespace llada::serve
