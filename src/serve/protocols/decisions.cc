// /v1/decisions and /v1/systemone: typed questions, answered by probabilities. A request has one place in the queue,
// whatever the number of its questions; its forwards are shared with everybody's.
#include <utility>

#include "engine/request_memory.h"
#include "serve/protocols/adapter.h"
#include "wire/decide_json.h"

namespace llada::serve {
namespace {

// An error of a field, which stands before the colon.
std::unexpected<ApiError> about_field(const Error& error) {
  if (!error.of_input()) return std::unexpected(ApiError(error));
  auto refused = refuse(error.message, error.message.substr(0, error.message.find_first_of(":[. ")));
  if (error.kind == ErrorKind::too_large) refused.error().code = kTooLong;
  return refused;
}

template <auto parse>
Answered<DecideRequest> read_decisions(Service& service, Fields body) {
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
  if (!request) return about_field(request.error());
  LLADA_TRY_STATUS(body.finish());  // of a faulty one not all has been read
  request->options.temperatures = service.options().temperatures;
  request->warnings = std::move(warnings);
  return std::move(*request);
}

// Each question is asked behind all of the state.
size_t state_bytes(const DecideRequest& request) { return request.state.size() * request.questions.size(); }

Answered<QueuedWork<DecideResult>> decision_work(Service& service, const std::string& id,
                                                 const std::shared_ptr<DecideRequest>& request) {
  auto made = start_decide(service.shared_model(), *request);
  if (!made) return about_field(made.error());
  const int64_t rows = std::max(service.engine().row_budget(), RowBudget::kMostOfMixture);
  constexpr double kJson = 4096;  // of one label, as values and as text
  const DecideSize size = (*made)->size();
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
  return QueuedWork<DecideResult>{
      .needs = "the decisions need",
      .bytes = {std::ceil(decide_bytes(service.model(), size, rows)) + kept, kept},
      .waiting_bytes = static_cast<double>(request->state.size() + static_cast<size_t>(size.tokens) * sizeof(int32_t)),
      .size = request->questions.size() > 20 ? WorkSize::large : WorkSize::small,
      .submit = [&service, job = std::make_shared<std::unique_ptr<DecideJob>>(std::move(*made))](auto on_done)
          -> std::shared_ptr<Submitted> { return service.engine().submit_decide(std::move(*job), std::move(on_done)); },
      .json = [&service, request](const DecideResult& result) { return decide_json(*request, result, service.name()); },
      .ended = ended};
}

}  // namespace

Protocol decisions_protocol() {
  static constexpr Route kRoutes[] = {
      {"POST", "/v1/decisions", compute<read_decisions<parse_decisions>, state_bytes, decision_work>},
      {"POST", "/v1/systemone", compute<read_decisions<parse_systemone>, state_bytes, decision_work>}};
  return {kRoutes};
}

}  // namespace llada::serve
