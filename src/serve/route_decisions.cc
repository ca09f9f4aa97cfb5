// /v1/decisions and /v1/systemone: typed questions, answered by probabilities. A request has one place in the queue,
// whatever the number of its questions; its forwards are shared with everybody's.
#include <utility>

#include "engine/decide_json.h"
#include "engine/request_memory.h"
#include "serve/routes.h"

namespace llada::serve {
namespace {

using Write = Json (*)(const DecideRequest&, const DecideResult&, const std::string&);

// From admission to the reply. The engine's thread only hands the result on.
class DecisionJob final : public Pending, public std::enable_shared_from_this<DecisionJob> {
 public:
  DecisionJob(Service& service, std::shared_ptr<Exchange> exchange, DecideRequest request,
              std::unique_ptr<DecideJob> job, Write write)
      : service_(service),
        exchange_(std::move(exchange)),
        request_(std::move(request)),
        write_(write),
        job_(std::move(job)) {}
  ~DecisionJob() override {
    if (ticket_ != kNone) service_.admission().leave(ticket_);
  }

  void begin();
  void tick(double answer_seconds, double /*ping_seconds*/) override {
    if (seconds() > answer_seconds) cancel("the answer took too long", 504);
  }
  void cancel(const std::string& why, int status) override;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Admission::Id kNone = -1;
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  void start();
  void done(Result<DecideResult> result);
  void finish();
  HttpReply reply() const;

  Service& service_;
  const std::shared_ptr<Exchange> exchange_;
  const DecideRequest request_;
  const Write write_;
  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;  // guards what follows, until done_
  std::unique_ptr<DecideJob> job_;
  std::shared_ptr<DecideSubmission> handle_;
  std::optional<Result<DecideResult>> result_;
  std::string why_cancelled_;
  int cancelled_status_ = 503;
  Admission::Id ticket_ = kNone;
  bool done_ = false;
};

void DecisionJob::begin() {
  const auto self = shared_from_this();
  if (!service_.began(self))
    return exchange_->respond(error_reply(ApiError(503, "the server is shutting down", "", "shutting_down")));
  const int64_t rows = std::max(service_.engine().row_budget(), RowBudget::kMostOfMixture);
  constexpr double kJson = 4096;  // of one label, as values and as text
  const DecideSize size = job_->size();
  const double kept = std::ceil(static_cast<double>(size.labels) * kJson);
  const AnswerBytes bytes{std::ceil(decide_bytes(service_.model(), size, rows)) + kept, kept};
  const auto refuse_with = [&](const ApiError& error) {
    exchange_->respond(error_reply(error));
    service_.ended(self);
  };
  if (!service_.admission().could_hold(bytes.computed))
    return refuse_with(ApiError(400, fmt::format("the decisions need {:.3g} MB of memory, {:.3g} MB at most are there",
                                                 bytes.computed / 1e6, service_.admission().limits().kv_bytes / 1e6)));
  const auto known = [&](const std::vector<Admission::Id>& ids) {
    const std::lock_guard lock(mutex_);
    ticket_ = ids.front();
  };
  std::vector<Admission::Ticket> tickets;
  tickets.push_back({.bytes = bytes,
                     .start = [self] { self->start(); },
                     .expired = [self] { self->cancel("the queue was full for too long", 503); }});
  if (!service_.admission().enter(std::move(tickets), known))
    return refuse_with(ApiError(429, "too many requests are waiting; try again later", "", "queue_full"));
  exchange_->on_gone([weak = weak_from_this()] {
    if (const auto job = weak.lock()) job->cancel("", kClientGone);
  });
}

// Called by admission, on any thread.
void DecisionJob::start() {
  const Status begun = within_memory([&]() -> Status {
    std::unique_ptr<DecideJob> job;
    {
      const std::lock_guard lock(mutex_);
      if (done_) return {};
      job = std::move(job_);
    }
    auto handle = service_.engine().submit_decide(
        std::move(job), [self = shared_from_this()](auto result) { self->done(std::move(result)); });
    const std::lock_guard lock(mutex_);
    if (!why_cancelled_.empty() || exchange_->is_gone()) handle->cancel();
    if (!done_) handle_ = std::move(handle);
    return {};
  });
  if (!begun) done(std::unexpected(begun.error()));
}

void DecisionJob::done(Result<DecideResult> result) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(done_, true)) return;
    result_ = std::move(result);
    handle_.reset();
  }
  if (ticket_ != kNone) service_.admission().computed(ticket_);
  finish();
}

void DecisionJob::cancel(const std::string& why, int status) {
  {
    const std::lock_guard lock(mutex_);
    if (done_) return;
    if (why_cancelled_.empty()) why_cancelled_ = why.empty() ? "the client has gone" : why, cancelled_status_ = status;
    if (handle_) return handle_->cancel();  // and done() follows
    if (!job_) return;                      // it is being handed on, and is cancelled there
    job_.reset();
    done_ = true;
    result_ = failed("{}", why_cancelled_);
  }
  finish();
}

// Once, when nothing changes any more. JSON is made by a worker: the engine's thread has others to serve.
void DecisionJob::finish() {
  if (*result_) {
    service_.metrics().decided(seconds(), std::ssize(request_.questions), (*result_)->prompt_tokens);
  } else {
    service_.metrics().cancelled();
  }
  const auto answer = [self = shared_from_this()] {
    answer_guarded(*self->exchange_, [&] { self->exchange_->respond(self->reply()); });
    if (self->ticket_ != kNone) self->service_.admission().leave(std::exchange(self->ticket_, kNone));
    self->service_.ended(self);
  };
  try {
    service_.log({{"event", "decisions"},
                  {"id", exchange_->id},
                  {"questions", request_.questions.size()},
                  {"forwards", *result_ ? Json((*result_)->forwards) : Json(nullptr)},
                  {"ms", static_cast<int64_t>(seconds() * 1e3)},
                  {"error", *result_ ? Json(nullptr) : Json((*result_).error().message)}});
    service_.workers().give(answer, request_.questions.size() > 20 ? WorkSize::large : WorkSize::small);
  } catch (const std::exception&) {
    answer();
  }
}

HttpReply DecisionJob::reply() const {
  if (*result_) return json_reply(write_(request_, **result_, service_.name()));
  if (!why_cancelled_.empty()) return error_reply(ApiError(cancelled_status_, why_cancelled_));
  return error_reply(ApiError((*result_).error()));
}

// An error of a field, which stands before the colon.
ApiError about_field(const Error& error) {
  if (error.kind != ErrorKind::invalid_input) return ApiError(error);
  return refuse(error.message, error.message.substr(0, error.message.find_first_of(":[. "))).error();
}

template <class Parse>
void answer_decisions(Service& service, const std::shared_ptr<Exchange>& exchange, const Parse& parse,
                      std::initializer_list<const char*> fields, Write write) {
  const auto read = [&]() -> Answered<DecideRequest> {
    LLADA_TRY(Body body, Body::parse(*exchange));
    LLADA_TRY_STATUS(check_model(service, body));
    for (const char* name : fields) body.find(name);
    body.ignore({"prompt_cache_options"});  // nothing is kept by a client's wish
    if (const auto* images = body.find("images"); images != nullptr && !images->empty())
      return refuse("images: found some, needed none: this server takes text alone", "images");
    LLADA_TRY_STATUS(body.finish());
    auto request = parse(body.all());
    if (!request) return std::unexpected(about_field(request.error()));
    request->options.temperatures = service.options().temperatures;
    return std::move(*request);
  };
  auto request = read();
  if (!request) return exchange->respond(error_reply(request.error()));
  // Each question is asked behind all of the state.
  const size_t bytes = request->state.size() * request->questions.size();
  const auto go_on = [&service, exchange, write, asked = std::make_shared<DecideRequest>(std::move(*request))] {
    auto made = start_decide(service.shared_model(), *asked);
    if (!made) return exchange->respond(error_reply(about_field(made.error())));
    const auto job = std::make_shared<DecisionJob>(service, exchange, std::move(*asked), std::move(*made), write);
    try {
      job->begin();
    } catch (...) {
      job->cancel("memory ran out", 503);
      throw;
    }
  };
  service.go_on(exchange, bytes, go_on);
}

}  // namespace

void decisions(Service& service, const std::shared_ptr<Exchange>& exchange) {
  answer_decisions(service, exchange, parse_decisions, {"input", "questions", "llada"}, decisions_json);
}

void systemone(Service& service, const std::shared_ptr<Exchange>& exchange) {
  answer_decisions(service, exchange, parse_systemone, {"state", "questions", "instructions", "joint", "llada"},
                   systemone_json);
}

}  // namespace llada::serve
