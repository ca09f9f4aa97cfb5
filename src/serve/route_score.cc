// /v1/llada/score: how probable texts are behind a prompt, as `llada score` has it by the methods chain and exact.
#include <algorithm>
#include <utility>

#include "engine/prompt.h"
#include "engine/request_memory.h"
#include "serve/routes.h"
#include "serve/shapes.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

struct ScoreAsk {
  std::string prompt;
  std::vector<std::string> texts;
  ScoreRequest request;  // its tokens by encode()
};

Answered<ScoreAsk> read_score(Service& service, Body body) {
  LLADA_TRY_STATUS(check_model(service, body));
  LLADA_TRY(const auto prompt, body.text("prompt"));
  ScoreAsk ask{.prompt = prompt.value_or(""), .texts = {}, .request = {}};
  LLADA_TRY(ask.texts, body.texts("continuations"));
  LLADA_TRY(const auto method, body.text("method"));
  LLADA_TRY(const auto top, body.integer("top", 0, kMostAlternatives));
  body.ignore({"seed"});  // nothing is drawn
  LLADA_TRY_STATUS(body.finish());
  if (method && method != "chain" && method != "exact") return wrong("method", *method, "chain or exact");
  ask.request.options.method = method == "exact" ? ScoreMethod::exact : ScoreMethod::chain;
  ask.request.options.top = top.value_or(0);
  if (ask.texts.empty()) return refuse("continuations: needed, a text or a list of them", "continuations");
  LLADA_TRY_STATUS(check_count(service, std::ssize(ask.texts), 1));
  size_t bytes = 0;
  for (const std::string& text : ask.texts) bytes = std::max(bytes, text.size());
  LLADA_TRY_STATUS(check_bytes(service, ask.prompt.size() + bytes, "prompt"));
  return ask;
}

// Bytes that encode() cuts into tokens: each text is behind a prompt of its own.
size_t encoded_bytes(const ScoreAsk& ask) {
  size_t bytes = 0;
  for (const std::string& text : ask.texts) bytes += ask.prompt.size() + text.size();
  return bytes;
}

Done encode(const Model& model, ScoreAsk& ask) {
  for (const std::string& text : ask.texts) {
    auto pair = encode_pair(model, ask.prompt, text);
    if (!pair) return refuse("prompt: " + pair.error().message, "prompt");
    if (pair->continuation.empty())
      return refuse(
          fmt::format("continuations: found {} without a token of its own behind the prompt, needed 1 or more",
                      in_quotes(text)),
          "continuations");
    ask.request.prompt = std::move(pair->context);
    ask.request.continuations.push_back(std::move(pair->continuation));
  }
  if (const Status status = check_score(model, ask.request); !status)
    return refuse("continuations: " + status.error().message, "continuations");
  return {};
}

Json score_json(const Service& service, const ScoreAsk& ask, const ScoreResult& result) {
  const Model& model = service.model();
  const auto token_json = [&](int32_t token, double log_probability) -> Json {
    return {{"id", token}, {"text", token_text(model, token)}, {"log_probability", log_probability + 0.0}};  // not -0
  };
  Json list = Json::array();
  int64_t scored = 0;
  for (size_t i = 0; i < result.continuations.size(); ++i) {
    const ContinuationScore& score = result.continuations[i];
    Json tokens = Json::array();
    for (const TokenScore& t : score.tokens) {
      Json token = token_json(t.token, t.log_probability);
      for (const auto& other : t.top) token["top"].push_back(token_json(other.token, other.log_probability));
      tokens.push_back(std::move(token));
    }
    scored += std::ssize(score.tokens);
    list.push_back({{"text", ask.texts[i]},
                    {"log_probability", score.log_probability + 0.0},
                    {"greedy", score.greedy ? Json(*score.greedy) : Json(nullptr)},
                    {"tokens", std::move(tokens)}});
  }
  return {{"object", "score"},
          {"model", service.name()},
          {"method", method_name(ask.request.options.method)},
          {"continuations", std::move(list)},
          {"usage",
           {{"prompt_tokens", ask.request.prompt.size()},
            {"scored_tokens", scored},
            {"forwards", result.forwards},
            {"rows", result.rows}}}};
}

// A score on its way.
class Scoring : public Pending, public std::enable_shared_from_this<Scoring> {
 public:
  Scoring(Service& service, std::shared_ptr<Exchange> exchange, ScoreAsk ask)
      : service_(service), exchange_(std::move(exchange)), ask_(std::move(ask)) {}

  void begin() {
    if (!service_.began(shared_from_this()))
      return exchange_->respond(error_reply(ApiError(503, "the server is shutting down", "", "shutting_down")));
    constexpr double kJsonOfToken = 1024;  // one token with its log-probability
    const int64_t rows = std::max(service_.engine().row_budget(), RowBudget::kMostOfMixture);
    const double bytes =
        score_bytes(service_.model(), ask_.request, rows) + kJsonOfToken * static_cast<double>(written_tokens());
    if (!service_.admission().could_hold(bytes)) {
      exchange_->respond(
          error_reply(ApiError(400, fmt::format("the score needs {:.3g} MB of memory, {:.3g} MB at most "
                                                "are there",
                                                bytes / 1e6, service_.admission().limits().kv_bytes / 1e6))));
      return service_.ended(shared_from_this());
    }
    const auto known = [&](const std::vector<Admission::Id>& ids) {
      const std::lock_guard lock(mutex_);
      ticket_ = ids.front();
    };
    Admission::Ticket ticket{
        .bytes = {bytes, bytes},
        .start = [self = shared_from_this()] { self->start(); },
        .expired = [self = shared_from_this()] { self->cancel("the queue was full for too long", 503); }};
    std::vector<Admission::Ticket> tickets;
    tickets.push_back(std::move(ticket));
    if (!service_.admission().enter(std::move(tickets), known, exchange_->gives_way)) {
      exchange_->respond(
          error_reply(ApiError(429, "too many requests are waiting; try again later", "", "queue_full")));
      return service_.ended(shared_from_this());
    }
    exchange_->on_gone([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->cancel("the client has gone", kClientGone);
    });
  }

  void tick(double answer_seconds, double) override {
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin_;
    if (!exchange_->gives_way && time.count() > answer_seconds) cancel("the answer took too long", 504);
  }

  void cancel(const std::string& why, int status) override {
    std::shared_ptr<ScoreSubmission> handle;
    {
      const std::lock_guard lock(mutex_);
      if (over_) return;
      if (!cancelled_) cancelled_.emplace(status, why);
      handle = handle_;
    }
    if (handle) {
      handle->cancel();
    } else {
      done(failed("{}", why));
    }
  }

 private:
  int64_t written_tokens() const {
    int64_t tokens = 0;
    for (const auto& text : ask_.request.continuations) tokens += std::ssize(text);
    return tokens * (1 + ask_.request.options.top);
  }

  void start() {
    const auto on_done = [self = shared_from_this()](Result<ScoreResult> result) { self->done(std::move(result)); };
    const Status begun = within_memory([&]() -> Status {
      {
        const std::lock_guard lock(mutex_);
        if (over_) return {};
      }
      auto handle = service_.engine().submit_score(ask_.request, on_done);
      const std::lock_guard lock(mutex_);
      if (cancelled_) handle->cancel();
      handle_ = std::move(handle);
      return {};
    });
    if (!begun) done(std::unexpected(begun.error()));
  }

  // Once, on any thread. The engine's has others to serve: a worker makes the reply.
  void done(Result<ScoreResult> result) {
    Admission::Id ticket;
    std::optional<ApiError> why;
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(over_, true)) return;
      ticket = ticket_;
      why = cancelled_;
      handle_.reset();
    }
    const auto reply = [self = shared_from_this(), ticket, why, result = std::move(result)] {
      answer_guarded(*self->exchange_, [&] {
        if (result && !why)
          return self->exchange_->respond(json_reply(score_json(self->service_, self->ask_, *result)));
        self->exchange_->respond(error_reply(why ? *why : ApiError(result.error())));
      });
      self->service_.admission().leave(ticket);
      self->service_.ended(self);
    };
    try {
      service_.workers().give(reply, written_tokens() > 1000 ? WorkSize::large : WorkSize::small);
    } catch (const std::exception&) {
      reply();
    }
  }

  Service& service_;
  const std::shared_ptr<Exchange> exchange_;
  const ScoreAsk ask_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;  // guards what follows
  Admission::Id ticket_ = -1;
  std::shared_ptr<ScoreSubmission> handle_;
  std::optional<ApiError> cancelled_;
  bool over_ = false;
};

}  // namespace

void score(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto read = [&]() -> Answered<ScoreAsk> {
    LLADA_TRY(Body body, Body::parse(*exchange));
    return read_score(service, std::move(body));
  };
  auto ask = read();
  if (!ask) return exchange->respond(error_reply(ask.error()));
  const auto asked = std::make_shared<ScoreAsk>(std::move(*ask));
  const auto go_on = [&service, exchange, asked] {
    if (const Done encoded = encode(service.model(), *asked); !encoded)
      return exchange->respond(error_reply(encoded.error()));
    const auto scoring = std::make_shared<Scoring>(service, exchange, std::move(*asked));
    try {
      scoring->begin();
    } catch (...) {
      scoring->cancel("memory ran out", 503);
      throw;
    }
  };
  service.go_on(exchange, encoded_bytes(*asked), go_on);
}

}  // namespace llada::serve
