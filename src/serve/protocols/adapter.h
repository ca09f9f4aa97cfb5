// Handlers of routes made from a protocol's functions, for the tables of routes in this folder. A protocol is a file
// here, and a line of protocols.inc.
#pragma once
#include <utility>

#include "serve/protocols/reading.h"
#include "serve/work/job.h"
#include "serve/work/queued.h"
#include "serve/work/route.h"

namespace llada::serve {

template <auto reply>
void get(Service& service, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond(reply(service, exchange->request));
}

// Calls `read` with the request's body, which is freed before the work begins, since that may take an hour.
template <auto read>
auto read_with(Service& service, Exchange& exchange) -> decltype(read(service, std::declval<Fields>())) {
  LLADA_TRY(Fields body, read_body(exchange, service.options().strict));
  return read(service, std::move(body));
}

// Handlers for a body that is answered at once, for one that asks for answers of the model, and for one with a single
// place in the queue.
template <auto reply>
void post(Service& service, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond(read_with<reply>(service, *exchange));
}
template <auto read>
void generate(Service& service, const std::shared_ptr<Exchange>& exchange) {
  begin_job(service, exchange, read_with<read>(service, *exchange));
}
template <auto read, auto bytes, auto work>
void compute(Service& service, const std::shared_ptr<Exchange>& exchange) {
  begin_queued(service, exchange, read_with<read>(service, *exchange), bytes, work);
}

constexpr Route answers(std::string_view path, decltype(Route::answer) answer, bool in_batch = false) {
  return {.method = "POST", .path = path, .answer = answer, .streams = true, .in_batch = in_batch};
}

// Text between two others (infill.cc): the gap has as many tokens as `lengths` of the protocol say.
Answered<Ask> read_between(Service& service, Fields& body, Ask ask, int64_t n = 1);
// Settings of llama-server's time and of editors, in any request (llama.cc).
void ignore_llama_settings(Fields& body);

// How Anthropic's protocol and Ollama's chat write answers.
std::unique_ptr<AnswerWriter> write_message(AnswerHead head, const Ask& ask);
std::unique_ptr<AnswerWriter> write_ollama_chat(AnswerHead head, const Ask& ask);

}  // namespace llada::serve
