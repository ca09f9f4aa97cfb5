#include "serve/work/service.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstring>
#include <limits>

#include "base/fnv.h"
#include "base/memory_usage.h"
#include "formats/model_file.h"
#include "memory/prefix_cache.h"
#include "serve/work/pending.h"
#include "serve/work/route.h"
#include "text/utf8.h"

namespace llada::serve {

Service::Service(ServiceOptions options)
    : options_(std::move(options)), room_(options_.admission), workers_(2), ticker_([this] { tick(); }) {}

Service::~Service() {
  drain(0);
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  ticker_.join();
  workers_.finish();
  engine_.reset();
}

// Whoever has waited too long is told so; whoever waits for a stream's next event learns that it goes on. Memory that
// requests have left in pieces goes back to the system.
void Service::tick() {
  constexpr int kTicksToTrim = 25;  // five seconds
  int ticks = 0;
  const auto look = [&] {
    room_.expire();
    std::unique_lock lock(mutex_);
    const auto jobs = jobs_;
    lock.unlock();
    for (const auto& job : jobs) job->tick(options_.answer_seconds, options_.ping_seconds);
  };
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(200), [&] { return stopping_; })) {
    lock.unlock();
    try {
      look();
    } catch (const std::exception&) {  // no memory: the next time will do
    }
    if (++ticks % kTicksToTrim == 0) return_free_pages();
    lock.lock();
  }
}

Status Service::set_model(std::shared_ptr<const Model> model) {
  if (!model->has_tokenizer()) return invalid("{}: has no tokenizer; needed one to serve texts", model->file().path());
  SchedulerOptions scheduler{.threads = options_.threads,
                             .row_budget = options_.row_budget,
                             .most_running = std::numeric_limits<int64_t>::max(),  // the room bounds them
                             .warn = [this](const std::string& line) {
                               metrics_.fell_back();
                               log({{"event", "fallback"}, {"message", line}});
                             }};
  if (options_.kept_prefix_bytes > 0) scheduler.prefixes = std::make_shared<PrefixCache>(options_.kept_prefix_bytes);
  LLADA_TRY(engine_, Engine::create(model, scheduler));
  model_ = std::move(model);
  created_ =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  loaded_ = true;
  State loading = State::loading;
  if (state_.compare_exchange_strong(loading, State::ready) && batches_) batches_->start();
  return {};
}

Status Service::keep_batches(const std::string& folder, const BatchLimits& limits) {
  LLADA_TRY(batches_, Batches::open(*this, folder, limits));
  return {};
}

void Service::set_keys(std::vector<std::string> keys) {
  const std::lock_guard lock(mutex_);
  keys_ = std::move(keys);
}

bool Service::has_key(const HttpRequest& request) const {
  const std::lock_guard lock(mutex_);
  return keys_.empty() || holds_key(keys_, key_of(request));
}

// It tells keys apart and is kept with the objects, in a folder that nobody else may read: no defence against whoever
// may choose keys, who is the server's master.
std::string Service::asker(const HttpRequest& request) const {
  const std::lock_guard lock(mutex_);
  if (keys_.empty()) return "";
  Fnv hash;
  hash.add(key_of(request));
  return fmt::format("{:016x}", hash.hash());
}

std::string Service::name() const {
  if (!options_.name.empty()) return options_.name;
  return model_name(model_->file().path());
}

Metrics::Now Service::now() const {
  const RoomCounts counts = room_.counts();
  const SchedulerStats stats = loaded_ ? engine_->stats() : SchedulerStats();
  return {.waiting = counts.waiting,
          .running = counts.running,
          .forwards = stats.forwards,
          .rows = stats.rows,
          .parts = stats.parts,
          .connections = options_.connections ? options_.connections() : ServerCounts(),
          .kv_bytes = counts.kv_bytes,
          .ready = ready()};
}

bool Service::began(std::shared_ptr<PendingAnswer> answer) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::draining) return false;
  jobs_.insert(std::move(answer));
  return true;
}

void Service::ended(const std::shared_ptr<PendingAnswer>& answer) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.erase(answer);
  }
  changed_.notify_all();
}

void Service::drain(double seconds) {
  state_ = State::draining;
  if (batches_) batches_->stop();
  std::unique_lock lock(mutex_);
  const auto idle = [&] { return jobs_.empty(); };
  if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), idle)) return;
  const auto jobs = jobs_;
  lock.unlock();
  for (const auto& job : jobs) job->cancel("the server is shutting down", 503);
  lock.lock();
  changed_.wait(lock, idle);
}

namespace {

// A client's own name of its request goes back to it and into the log, where it is one that harms neither.
bool is_sane_id(std::string_view id) {
  const auto belongs = [](unsigned char c) { return std::isalnum(c) != 0 || std::strchr("-_.:/+=@", c) != nullptr; };
  return !id.empty() && id.size() <= 128 && std::ranges::all_of(id, belongs);
}

std::string cut(std::string_view text, size_t most) { return std::string(text.substr(0, most)); }

}  // namespace

std::optional<HttpReply> Service::refusal(const HttpRequest& request, const Route* route) const {
  if (request.fault) {
    HttpReply reply = error_reply(*request.fault);
    reply.close = true;
    return reply;
  }
  if (!request.unix_socket && !request.host.empty() && !options_.hosts.allows(request.host))
    return error_reply(ApiError(403,
                                fmt::format("Host: found {}, needed localhost, an address, or a name of "
                                            "--allow-host",
                                            in_quotes(cut(request.host, 100))),
                                "Host", "host_not_allowed"));
  if (options_.cors.is_preflight(request)) return options_.cors.preflight(request);
  if (!options_.cors.allow(request))
    return error_reply(
        ApiError(403, "requests from this origin are not allowed (--cors)", "Origin", "origin_not_allowed"));
  if (route == nullptr) {
    const auto same_path = [&](const Route& r) { return has_path(r, request.path); };
    const auto other = std::ranges::find_if(routes(), same_path);
    if (other == routes().end()) return error_reply(missing_route(request.path));
    HttpReply reply = error_reply(ApiError(405, fmt::format("this route takes {}", other->method)));
    reply.headers.emplace_back("Allow", other->method);
    return reply;
  }
  if (!route->open && !has_key(request)) {
    HttpReply reply = error_reply(ApiError(401, "needed an API key: Authorization: Bearer KEY", "", "invalid_api_key"));
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
  }
  if (const std::string_view coding = request.coding; !coding.empty() && coding != "identity") {
    HttpReply reply = error_reply(ApiError(415,
                                           fmt::format("Content-Encoding: found {}, needed identity: bodies are "
                                                       "taken as they are",
                                                       in_quotes(cut(coding, 100))),
                                           "Content-Encoding"));
    reply.headers.emplace_back("Accept-Encoding", "identity");
    return reply;
  }
  if (request.spare && !route->at_once)
    return error_reply(ApiError(503, "too many connections are open (--max-connections)", "", "too_many_connections"));
  if (ready() || route->early) return std::nullopt;
  if (state_ == State::draining) return error_reply(ApiError(503, "the server is shutting down", "", "shutting_down"));
  return error_reply(ApiError(503, "the model is being loaded", "", "loading"));
}

// One line of the log and one count per request, when it is over.
void Service::tell_ends(Exchange& exchange, const Route* route) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string own_id = is_sane_id(exchange.request.request_id) ? exchange.request.request_id : "";
  exchange.before_reply([this, own_id](const Exchange& of, HttpReply& reply) {
    if (!reply.error.empty()) put_error_in_form(of.request.path, reply);
    reply.headers.emplace_back("X-Request-Id", own_id.empty() ? of.id : own_id);
    options_.cors.add_headers(of.request, reply);
  });
  exchange.on_end([this, begin, route, own_id](const Exchange& of, const Exchange::End& end) {
    metrics_.replied(route ? std::string(route->path) : "other", end.status);
    if (!options_.log) return;
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
    Json line = {{"event", "request"}, {"id", of.id}};
    if (!own_id.empty()) line["request_id"] = own_id;
    line["peer"] = of.request.peer;
    line["method"] = cut(of.request.method, 20);
    line["path"] = cut(of.request.path, 100);
    line["status"] = end.status;
    line["stream"] = end.stream;
    line["bytes"] = end.bytes;
    line["ms"] = ms.count();
    if (!end.error.empty()) line["error"] = end.error;
    if (!end.param.empty()) line["param"] = end.param;
    log(line);
  });
}

void Service::handle(std::shared_ptr<Exchange> exchange) {
  const HttpRequest& request = exchange->request;
  const Route* const route = find_route(request.method, request.path);
  exchange->id = fmt::format("{:08x}{:08x}", created_.load(), next_.fetch_add(1));
  tell_ends(*exchange, route);
  answer_guarded(*exchange, [&] {
    if (auto refused = refusal(request, route)) return exchange->respond(std::move(*refused));
    if (route->at_once) return route->answer(*this, exchange);
    give(exchange, exchange->body_bytes() > BodyBytes::kFree ? WorkSize::large : WorkSize::small,
         [this, exchange, route] { route->answer(*this, exchange); });
  });
}

void Service::give(const std::shared_ptr<Exchange>& exchange, WorkSize size, std::function<void()> work) {
  const auto guarded = [exchange, work = std::move(work)] {
    answer_guarded(*exchange, [&] {
      // Nobody waits for the work that was to be done.
      if (exchange->is_gone()) return exchange->respond(std::unexpected(ApiError(kClientGone, "the client has gone")));
      work();
    });
  };
  workers_.give(guarded, size);
}

void Service::go_on(const std::shared_ptr<Exchange>& exchange, size_t bytes, const std::function<void()>& work) {
  if (bytes > BodyBytes::kFree) return give(exchange, WorkSize::large, work);
  work();
}

}  // namespace llada::serve
