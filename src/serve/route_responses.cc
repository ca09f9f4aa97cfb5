// /v1/responses: the answer to a conversation, in the newer of OpenAI's protocols. Nothing is stored between requests.
#include "engine/prompt.h"
#include "serve/job.h"
#include "serve/routes.h"

namespace llada::serve {
namespace {

// What is repeated stays in memory as long as the answer takes.
std::expected<void, ApiError> check_repeated(Body& body) {
  constexpr size_t kMostBytes = size_t{16} << 10;
  for (const char* name : {"metadata", "parallel_tool_calls"})
    if (const auto* value = body.find(name); value != nullptr && dump(Json(*value)).size() > kMostBytes)
      return wrong(name, *value, fmt::format("{} bytes of JSON at most", kMostBytes));
  return {};
}

// The fields that a response repeats, as they were understood.
Json said_fields(Body& body, const std::optional<std::string>& instructions, const DecodeChoice& choice) {
  const auto repeat = [&](const char* name, const Json& otherwise) {
    const nlohmann::json* value = body.find(name);
    return value == nullptr ? otherwise : Json(*value);
  };
  return {{"instructions", instructions ? Json(*instructions) : Json(nullptr)},
          {"max_output_tokens", repeat("max_output_tokens", nullptr)},
          {"metadata", repeat("metadata", Json::object())},
          {"parallel_tool_calls", repeat("parallel_tool_calls", true)},
          {"temperature", choice.options.temperature},
          {"top_p", choice.options.top_p}};
}

Answered<Ask> read_response(Service& service, Exchange& exchange) {
  LLADA_TRY(Body body, Body::parse(exchange));
  Ask ask{.shape = Shape::response, .requests = {}, .preset = {}};
  LLADA_TRY_STATUS(read_streaming(body, ask));
  if (ask.watch != Watch::none) return refuse("diffusing: not on this route; needed false", "diffusing");
  LLADA_TRY_STATUS(read_unstored(body));
  LLADA_TRY(ask.note, read_hints(body, true));
  LLADA_TRY(auto messages, read_input(body));
  LLADA_TRY(const auto instructions, body.text("instructions"));
  if (instructions) messages.insert(messages.begin(), {"system", *instructions});
  LLADA_TRY(const Decoding decoding,
            read_decoding(body, service.model().special_ids().attention_block, false, {"max_output_tokens"}));
  LLADA_TRY_STATUS(check_repeated(body));
  ask.said = said_fields(body, instructions, decoding.choice);
  body.ignore({"model"});
  LLADA_TRY_STATUS(body.finish());
  LLADA_TRY(auto ids, conversation_ids(service, messages, "input"));
  LLADA_TRY_STATUS(make_requests(service, ask, "input", {std::move(ids)}, decoding, 1));
  return ask;
}

}  // namespace

void answer_responses(Service& service, const std::shared_ptr<Exchange>& exchange) {
  begin_job(service, exchange, read_response(service, *exchange));
}

}  // namespace llada::serve
