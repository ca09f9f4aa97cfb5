// /v1/decisions and /v1/systemone: typed questions, answered by probabilities. A request has one place in the queue,
// whatever the number of its questions; its forwards are shared with everybody's.
#include <utility>

#include "engine/request_memory.h"
#include "serve/protocols/adapter.h"
#include "serve/work/queued.h"
#include "wire/decide_json.h"

namespace llada::serve {
namespace {

using Write = Json (*)(const DecideRequest&, const DecideResult&, const std::string&);

QueuedWork<DecideResult> decision_work(Service& service, const std::string& id,
                                       const std::shared_ptr<const DecideRequest>& request,
                                       std::unique_ptr<DecideJob> made, Write write) {
  const int64_t rows = std::max(service.engine().row_budget(), RowBudget::kMostOfMixture);
  constexpr double kJson = 4096;  // of one label, as values and as text
  const DecideSize size = made->size();
  const double kept = std::ceil(static_cast<double>(size.labels) * kJson);
  const auto ended = [&service, id, questions = std::ssize(request->questions)](double seconds,
                                                                                const Result<DecideResult>& result) {
    if (result) {
      service.metrics().decided(seconds, questions, result->prompt_tokens);
    } else {
      service.metrics().cancelled();
    }
    service.log({{"event", "decisions"},
                 {"id", id},
                 {"questions", questions},
                 {"forwards", result ? Json(result->forwards) : Json(nullptr)},
                 {"ms", static_cast<int64_t>(seconds * 1e3)},
                 {"error", result ? Json(nullptr) : Json(result.error().message)}});
  };
  return {
      .needs = "the decisions need",
      .bytes = {std::ceil(decide_bytes(service.model(), size, rows)) + kept, kept},
      .waiting_bytes = static_cast<double>(request->state.size() + static_cast<size_t>(size.tokens) * sizeof(int32_t)),
      .size = request->questions.size() > 20 ? WorkSize::large : WorkSize::small,
      .submit = [&service, job = std::make_shared<std::unique_ptr<DecideJob>>(std::move(made))](auto on_done)
          -> std::shared_ptr<Submitted> { return service.engine().submit_decide(std::move(*job), std::move(on_done)); },
      .json = [&service, request,
               write](const DecideResult& result) { return write(*request, result, service.name()); },
      .ended = ended};
}

// An error of a field, which stands before the colon.
ApiError about_field(const Service& service, const Error& error) {
  if (error.kind != ErrorKind::invalid_input) return ApiError(error);
  ApiError refused = refuse(error.message, error.message.substr(0, error.message.find_first_of(":[. "))).error();
  if (is_too_long(service, error)) refused.code = kTooLong;
  return refused;
}

template <class Parse>
void answer_decisions(Service& service, const std::shared_ptr<Exchange>& exchange, const Parse& parse, Write write) {
  const auto read = [&]() -> Answered<DecideRequest> {
    LLADA_TRY(Fields body, read_body(*exchange, service.options().strict));
    LLADA_TRY_STATUS(check_model(service, body));
    body.ignore({"prompt_cache_options"});  // nothing is kept by a client's wish
    std::vector<std::string> warnings;
    if (const auto* t = body.find("temperature"); t != nullptr && *t != 1) {
      if (!t->is_number() || *t < 0 || *t > 2) return wrong("temperature", *t, "a number from 0 to 2");
      warnings.emplace_back("temperature: without effect here, where nothing is drawn");
      LLADA_TRY_STATUS(unless_strict(service, warnings.back()));
    }
    if (const auto* images = body.find("images"); images != nullptr && !images->empty())
      return refuse("images: found some, needed none: this server takes text alone", "images");
    auto request = parse(body);
    if (!request) return std::unexpected(about_field(service, request.error()));
    LLADA_TRY_STATUS(body.finish());  // of a faulty one not all has been read
    request->options.temperatures = service.options().temperatures;
    request->warnings = std::move(warnings);
    return std::move(*request);
  };
  auto request = read();
  if (!request) return exchange->respond(error_reply(request.error()));
  // Each question is asked behind all of the state.
  const size_t bytes = request->state.size() * request->questions.size();
  const auto go_on = [&service, exchange, write, asked = std::make_shared<DecideRequest>(std::move(*request))] {
    auto made = start_decide(service.shared_model(), *asked);
    if (!made) return exchange->respond(error_reply(about_field(service, made.error())));
    begin_queued(service, exchange, decision_work(service, exchange->id, asked, std::move(*made), write));
  };
  service.go_on(exchange, bytes, go_on);
}

void decisions(Service& service, const std::shared_ptr<Exchange>& exchange) {
  answer_decisions(service, exchange, parse_decisions, decisions_json);
}

void systemone(Service& service, const std::shared_ptr<Exchange>& exchange) {
  answer_decisions(service, exchange, parse_systemone, systemone_json);
}

}  // namespace

Protocol decisions_protocol() {
  static constexpr Route kRoutes[] = {{"POST", "/v1/decisions", decisions}, {"POST", "/v1/systemone", systemone}};
  return {kRoutes};
}

}  // namespace llada::serve
