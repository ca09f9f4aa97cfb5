#include "serve/service.h"

#include <algorithm>
#include <chrono>

#include "formats/model_file.h"
#include "memory/prefix_cache.h"
#include "serve/job.h"
#include "serve/keys.h"
#include "serve/routes.h"

namespace llada::serve {

std::span<const Route> routes() {
  static constexpr Route kRoutes[] = {
      {"GET", "/", answer_page, true, true},
      {"GET", "/health", answer_health, true, true},
      {"GET", "/ready", answer_ready, true, true},
      {"GET", "/openapi.json", answer_openapi, true, true},
      {"GET", "/v1/llada/options", answer_options, true, true},
      {"GET", "/v1/models", answer_models, true},
      {"GET", "/v1/models/{id}", answer_model, true},
      {"GET", "/props", answer_props},
      {"GET", "/metrics", answer_metrics, false, true},
      {"POST", "/v1/chat/completions", answer_chat},
      {"POST", "/v1/responses", answer_responses},
      {"POST", "/v1/completions", answer_completions},
      {"POST", "/v1/fim/completions", answer_fim},
      {"POST", "/infill", answer_infill},
      {"POST", "/tokenize", answer_tokenize},
      {"POST", "/detokenize", answer_detokenize},
      {"POST", "/apply-template", answer_apply_template},
      {"GET", "/tokenizer_info", answer_tokenizer_info},
  };
  return kRoutes;
}

Service::Service(ServiceOptions options)
    : options_(std::move(options)), admission_(options_.admission), workers_(2), ticker_([this] { tick(); }) {}

Service::~Service() {
  drain(0);
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  ticker_.join();
}

// Whoever has waited too long is told so; whoever waits for a stream's next event learns that it goes on.
void Service::tick() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(200), [&] { return stopping_; })) {
    lock.unlock();
    admission_.expire();
    lock.lock();
    const auto jobs = jobs_;
    lock.unlock();
    for (const auto& job : jobs) job->tick(options_.answer_seconds, options_.ping_seconds);
    lock.lock();
  }
}

Status Service::set_model(std::shared_ptr<const Model> model) {
  if (!model->has_tokenizer()) return invalid("{}: has no tokenizer; needed one to serve texts", model->file().path());
  SchedulerOptions scheduler{.threads = options_.threads,
                             .row_budget = options_.row_budget,
                             .most_running = options_.admission.running,
                             .warn = [this](const std::string& line) {
                               metrics_.fell_back();
                               log(dump({{"event", "fallback"}, {"message", line}}));
                             }};
  if (options_.kept_prefix_bytes > 0) scheduler.prefixes = std::make_shared<PrefixCache>(options_.kept_prefix_bytes);
  LLADA_TRY(engine_, Engine::create(model, scheduler));
  model_ = std::move(model);
  created_ =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  loaded_ = true;
  State loading = State::loading;
  state_.compare_exchange_strong(loading, State::ready);
  return {};
}

void Service::set_keys(std::vector<std::string> keys) {
  const std::lock_guard lock(mutex_);
  keys_ = std::move(keys);
}

bool Service::has_key(const HttpRequest& request) const {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view given = request.authorization.starts_with(kBearer)
                                     ? std::string_view(request.authorization).substr(kBearer.size())
                                     : std::string_view(request.api_key);
  const std::lock_guard lock(mutex_);
  return keys_.empty() || holds_key(keys_, given);
}

// A page of another origin may not ask through somebody's browser, unless it was let in: a local server often has no
// key.
bool Service::may_ask(const HttpRequest& request) const {
  if (request.origin.empty() || options_.cors == "*" || request.origin == options_.cors) return true;
  const size_t host = request.origin.find("://");
  return host != std::string::npos && request.origin.substr(host + 3) == request.host;
}

std::string Service::name() const {
  if (!options_.name.empty()) return options_.name;
  return model_name(model_->file().path());
}

Metrics::Now Service::now() const {
  const AdmissionCounts counts = admission_.counts();
  const SchedulerStats stats = loaded_ ? engine_->stats() : SchedulerStats();
  return {.waiting = counts.waiting,
          .running = counts.running,
          .forwards = stats.forwards,
          .rows = stats.rows,
          .parts = stats.parts,
          .connections = options_.connections ? options_.connections() : 0,
          .kv_bytes = counts.kv_bytes,
          .ready = ready()};
}

bool Service::began(std::shared_ptr<Job> job) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::draining) return false;
  jobs_.insert(std::move(job));
  return true;
}

void Service::ended(const std::shared_ptr<Job>& job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.erase(job);
  }
  changed_.notify_all();
}

void Service::drain(double seconds) {
  state_ = State::draining;
  std::unique_lock lock(mutex_);
  const auto idle = [&] { return jobs_.empty(); };
  if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), idle)) return;
  const auto jobs = jobs_;
  lock.unlock();
  for (const auto& job : jobs) job->cancel("the server is shutting down");
  lock.lock();
  changed_.wait(lock, idle);
}

namespace {

// A path that ends with {id} stands for all that go on where it begins.
bool has_path(const Route& route, std::string_view path) {
  if (!route.path.ends_with(kPathId)) return path == route.path;
  const std::string_view begin = route.path.substr(0, route.path.size() - kPathId.size());
  return path.size() > begin.size() && path.starts_with(begin);
}

bool takes(const Route& route, const HttpRequest& request) {
  return has_path(route, request.path) && route.method == request.method;
}

// Browsers ask first whether they may.
HttpReply preflight(const std::string& origin) {
  HttpReply reply{.status = 204, .type = "text/plain"};
  reply.headers = {{"Access-Control-Allow-Origin", origin},
                   {"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
                   {"Access-Control-Allow-Headers", "Authorization, Content-Type, X-Api-Key"},
                   {"Access-Control-Max-Age", "600"}};
  return reply;
}

}  // namespace

HttpReply Service::refusal(const HttpRequest& request, const Route* route) const {
  if (route == nullptr) {
    const auto same_path = [&](const Route& r) { return has_path(r, request.path); };
    const auto other = std::ranges::find_if(routes(), same_path);
    if (other == routes().end()) return error_reply(missing_route(request.path));
    HttpReply reply = error_reply(ApiError(405, fmt::format("this route takes {}", other->method)));
    reply.headers.emplace_back("Allow", other->method);
    return reply;
  }
  if (state_ == State::draining && !route->early)
    return error_reply(ApiError(503, "the server is shutting down", "", "shutting_down"));
  return error_reply(ApiError(503, "the model is being loaded", "", "loading"));
}

void Service::handle(std::shared_ptr<Exchange> exchange) {
  const HttpRequest& request = exchange->request;
  const auto found = std::ranges::find_if(routes(), [&](const Route& r) { return takes(r, request); });
  const Route* route = found == routes().end() ? nullptr : &*found;
  const auto begin = std::chrono::steady_clock::now();
  exchange->id = fmt::format("{:08x}{:08x}", created_.load(), next_.fetch_add(1));
  exchange->before_reply([this, begin, route, cors = options_.cors](const Exchange& of, HttpReply& reply) {
    if (!cors.empty() && !of.request.origin.empty())
      reply.headers.emplace_back("Access-Control-Allow-Origin", cors == "*" ? "*" : cors);
    metrics_.replied(route ? std::string(route->path) : "other", reply.status);
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
    log(dump({{"event", "request"},
              {"id", of.id},
              {"method", of.request.method},
              {"path", of.request.path.substr(0, 100)},
              {"status", reply.status},
              {"bytes", reply.body.size()},
              {"ms", ms.count()}}));
  });
  if (request.method == "OPTIONS" && !options_.cors.empty()) return exchange->respond(preflight(options_.cors));
  if (!may_ask(request)) return exchange->respond(error_reply(ApiError(403, "this origin may not ask (--cors)")));
  if (route == nullptr) return exchange->respond(refusal(request, nullptr));
  if (!route->open && !has_key(request)) {
    HttpReply reply = error_reply(ApiError(401, "needed an API key: Authorization: Bearer KEY", "", "invalid_api_key"));
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    return exchange->respond(std::move(reply));
  }
  if (!ready() && !route->early) return exchange->respond(refusal(request, route));
  workers_.give([this, exchange = std::move(exchange), route] { route->answer(*this, exchange); });
}

}  // namespace llada::serve
