// What the files of this folder make a table of routes from: functions that answer as handlers of routes. A protocol is
// a file here, and a line of protocols.inc.
#pragma once
#include <optional>
#include <utility>

#include "serve/protocols/reading.h"
#include "serve/work/job.h"
#include "serve/work/route.h"

namespace llada::serve {

template <HttpReply (*reply)(Service&, const HttpRequest&)>
void get(Service& service, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond(reply(service, exchange->request));
}

// Of a body that is answered at once.
template <Answered<HttpReply> (*reply)(Service&, Fields)>
void post(Service& service, const std::shared_ptr<Exchange>& exchange) {
  auto body = read_body(*exchange, service.options().strict);
  auto answer = body ? reply(service, std::move(*body)) : std::unexpected(body.error());
  exchange->respond(answer ? std::move(*answer) : error_reply(answer.error()));
}

// Of a body that asks for answers of the model. It has gone when the job begins, which may take an hour.
template <Answered<Ask> (*read)(Service&, Fields)>
void generate(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto read_ask = [&]() -> Answered<Ask> {
    LLADA_TRY(Fields body, read_body(*exchange, service.options().strict));
    return read(service, std::move(body));
  };
  begin_job(service, exchange, read_ask());
}

constexpr Route answers(std::string_view path, decltype(Route::answer) answer, bool in_batch = false) {
  return {.method = "POST", .path = path, .answer = answer, .streams = true, .in_batch = in_batch};
}

// Text between two others (infill.cc): the gap has as many tokens as `lengths` of the protocol say.
Answered<Ask> read_between(Service& service, Fields body, std::optional<FormWish> form);
// Settings of llama-server's time and of editors, in any request (llama.cc).
void ignore_llama_settings(Fields& body);

}  // namespace llada::serve
