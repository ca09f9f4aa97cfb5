#include "serve/work/batch.h"

#include <algorithm>
#include <utility>

#include "base/fnv.h"
#include "engine/prompt.h"
#include "serve/http/body.h"
#include "serve/work/route.h"

namespace llada::serve {
namespace {

using std::chrono::milliseconds;

// A body is as deep as one that comes alone (body.cc), and a line has two levels around it.
constexpr JsonLimits kLineLimits{.depth = 66, .values = size_t{1} << 20, .run_bytes = size_t{1} << 26};
constexpr int kMostFailures = 16;  // of the machine, one behind the other

const Route* find_batch_route(std::string_view url) {
  const auto found =
      std::ranges::find_if(routes(), [&](const Route& route) { return route.in_batch && route.path == url; });
  return found == routes().end() ? nullptr : &*found;
}

std::string batch_urls() {
  std::vector<std::string_view> urls;
  for (const Route& route : routes())
    if (route.in_batch) urls.push_back(route.path);
  return fmt::format("{}", fmt::join(urls, ", "));
}

uint64_t hash_of(const std::string& salt, const std::string& id) {
  Fnv hash;
  hash.add(salt);
  hash.add(int64_t{0});
  hash.add(id);
  return hash.hash();
}

// The text of a body with a seed, without which sampled tokens would not be the same after an interruption.
std::string with_seed(const Json& body, const JsonNumbers& numbers, uint64_t hash) {
  const auto has = [](const Json& object, const char* key) { return !member(object, key).is_null(); };
  if (has(body, "seed") || has(body, "random_seed") || has(member(body, "llada"), "seed"))
    return json_text(body, numbers);
  // A whole number that any reader takes for one of 64 bits with a sign.
  std::string text = fmt::format("{{\"seed\":{}", hash >> 1);
  for (const auto& [name, value] : body.get_ref<const Json::object_t&>())
    if (name != "seed") text.append(",").append(dump(name)).append(":").append(json_text(value, numbers));
  return text + "}";
}

std::string line_text(const std::string& id, const std::string& custom_id, const std::string& response,
                      const Json& error) {
  return fmt::format("{}{}\",\"custom_id\":{},\"response\":{},\"error\":{}}}\n", kBatchLineBegin, id, custom_id,
                     response, dump(error));
}

}  // namespace

Batch::Batch(Service& service, LineSource& input, const BatchDone& done, BatchOptions options)
    : service_(service), input_(input), done_(done), options_(std::move(options)) {}

Batch::~Batch() {
  try {
    cancel();
  } catch (const std::bad_alloc&) {  // those under way are answered
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return under_way_.empty(); });
}

std::expected<Batch::Asked, BatchFault> Batch::read(const JsonDocument& document) const {
  const Json& line = document.root;
  const auto fault = [](std::string message) { return std::unexpected(BatchFault{std::move(message)}); };
  if (const Json& method = member(line, "method"); !method.is_null() && method != "POST")
    return fault(fmt::format("method: found {}, needed \"POST\"", shown(method)));
  const Json& url = member(line, "url");
  const Route* route = url.is_string() ? find_batch_route(url.get<std::string>()) : nullptr;
  if (route == nullptr) return fault(fmt::format("url: found {}, needed one of {}", shown(url), batch_urls()));
  if (!options_.url.empty() && url != options_.url)
    return fault(fmt::format("url: found {}, needed the batch's endpoint {}", shown(url), options_.url));
  const Json& body = member(line, "body");
  if (!body.is_object()) return fault("body: needed the JSON object of a request");
  if (member(body, "stream") == true) return fault("body.stream: found true, needed false in a batch");
  const std::string id = member(line, "custom_id").get<std::string>();
  return Asked{id, route, with_seed(body, document.numbers, hash_of("", id))};
}

void Batch::add(bool failed, const std::string& line) {
  if (!status_) return;
  status_ = options_.write(failed, line);
  if (status_) ++counts_.answered, counts_.failed += failed ? 1 : 0;
}

void Batch::flush_failures() {
  for (const std::string& line : std::exchange(failures_, {})) add(true, line);
}

Status Batch::refuse_line(int64_t number, const std::string& custom_id, const BatchFault& fault) {
  const std::string id =
      fmt::format("{:016x}", hash_of(options_.salt, custom_id.empty() ? fmt::format("line {}", number) : custom_id));
  const std::lock_guard lock(mutex_);
  const std::string message = fmt::format("line {}: {}", number, fault.message);
  if (custom_id.empty()) {
    add(true, line_text(id, "null", "null", {{"code", fault.code}, {"message", message}, {"line", number}}));
  } else {
    const ApiError error(400, message, "", fault.code);
    const Json response = {{"status_code", 400}, {"request_id", "req_" + id}, {"body", error_json(error)}};
    add(true, line_text(id, dump(custom_id), dump(response), {{"code", fault.code}, {"message", message}}));
  }
  return status_;
}

Status Batch::take_line() {
  LLADA_TRY(const auto line, input_.next());
  if (!line) {
    at_end_ = true;
    return {};
  }
  const int64_t before = counts_.read_bytes;
  const bool own = (line->number - 1) % options_.shards == options_.shard - 1;
  const int64_t there = counts_.there;
  LLADA_TRY_STATUS(take(*line, own));
  counts_.read_bytes = input_.position();
  if (counts_.there != there) counts_.skipped_bytes += counts_.read_bytes - before;
  return {};
}

// Lines of other shards are read for their ids: one that stands twice is known to all.
Status Batch::take(const LineSource::Line& line, bool own) {
  if (is_blank(line.text) && !line.too_long) return {};
  const auto fault = [&](std::string message, const char* code, const std::string& custom_id = "") -> Status {
    if (!own) return {};
    if (custom_id.empty() ? done_.lines.contains(line.number) : done_.ids.contains(custom_id)) {
      ++counts_.there;
      return {};
    }
    return refuse_line(line.number, custom_id, {std::move(message), code});
  };
  if (line.too_long)
    return fault(fmt::format("found more than {} bytes, needed a request of so many at most", kMostBatchLine),
                 "line_too_long");
  const auto object = parse_ordered_object(line.text, "the request", kLineLimits);
  if (!object) return fault(object.error().message, "invalid_json");
  const Json& custom_id = member(object->root, "custom_id");
  if (!custom_id.is_string() || custom_id.get_ref<const std::string&>().empty())
    return fault(fmt::format("custom_id: found {}, needed a text of its own", shown(custom_id)), "invalid_custom_id");
  const std::string id = custom_id.get<std::string>();
  if (const auto [first, is_new] = seen_.try_emplace(id, line.number); !is_new)
    return fault(fmt::format("custom_id: found {}, which line {} has", shown(custom_id), first->second),
                 "duplicate_custom_id");
  if (!own) return {};
  if (done_.ids.contains(id)) {
    ++counts_.there;
    return {};
  }
  if (!options_.refusal.empty()) return fault(options_.refusal, options_.refusal_code.c_str(), id);
  auto request = read(*object);
  if (!request) return fault(request.error().message, "invalid_request", id);
  begin(std::move(*request));
  return {};
}

void Batch::begin(Asked request) {
  BodyBytes body;
  body.append(request.body);
  // The exchange is owned by whoever works on it; it finds itself in under_way_ by this.
  auto self = std::make_shared<std::weak_ptr<Exchange>>();
  const Route* const route = request.route;
  HttpRequest asked;
  asked.method = "POST", asked.path = route->path;
  const auto exchange = std::make_shared<Exchange>(std::move(asked), std::move(body), [this, self](HttpReply reply) {
    if (const auto own = self->lock()) ended(own, reply);
  });
  *self = exchange;
  exchange->id = fmt::format("{:016x}", hash_of(options_.salt, request.custom_id));
  exchange->low_priority = options_.low_priority;
  {
    const std::lock_guard lock(mutex_);
    under_way_.emplace(exchange, std::move(request));
  }
  answer_guarded(*exchange, [&] { route->answer(service_, exchange); });
}

// Called once for each request, on any thread.
void Batch::ended(const std::shared_ptr<Exchange>& exchange, const HttpReply& reply) {
  const std::lock_guard lock(mutex_);
  auto own = under_way_.extract(exchange);
  if (own.empty()) return;
  try {
    take_reply(*exchange, std::move(own.mapped()), reply);
  } catch (const std::bad_alloc&) {  // the request has no line, so the run must not be over
    if (status_) status_ = no_memory("batch: an answer found no memory for its line");
  }
  changed_.notify_all();
}

void Batch::take_reply(const Exchange& exchange, Asked request, const HttpReply& reply) {
  const bool failed = reply.status != 200;
  if (cancelled_ ? failed : reply.status == kClientGone || (reply.status == 503 && !service_.ready())) {
    given_up_ = true;  // the next run asks again
  } else if (reply.status == 429) {
    again_.push_back(std::move(request));
  } else {
    const std::string response = fmt::format("{{\"status_code\":{},\"request_id\":\"req_{}\",\"body\":{}}}",
                                             reply.status, exchange.id, reply.body);
    Json error;
    if (failed) {
      const auto body = parse_json_object(reply.body, "reply", kOwnJson);
      const Json told = body ? body->value("error", Json::object()) : Json::object();
      const Json code = told.value("code", Json());
      error = {{"code", code.is_string() ? Json(code) : Json(told.value("type", "server_error"))},
               {"message", told.value("message", reply.error)}};
    }
    std::string line = line_text(exchange.id, dump(request.custom_id), response, error);
    if (reply.status < 500) {
      flush_failures();
      add(failed, line);
    } else {
      failures_.push_back(std::move(line));
      if (std::ssize(failures_) >= kMostFailures && status_)
        status_ = llada::failed("the last {} requests failed: {}", failures_.size(), reply.error);
    }
  }
}

void Batch::cancel() {
  std::vector<std::shared_ptr<Exchange>> left;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    for (const auto& [exchange, request] : under_way_) left.push_back(exchange);
  }
  for (const auto& exchange : left) exchange->gone();
}

BatchCounts Batch::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

bool Batch::tick() {
  constexpr milliseconds kWait(100);
  std::unique_lock lock(mutex_);
  const bool all_taken = at_end_ && again_.empty();
  if (cancelled_ || !status_ || (all_taken && under_way_.empty())) return false;
  if (all_taken || std::ssize(under_way_) >= options_.in_flight) {
    changed_.wait_for(lock, kWait);
  } else if (!again_.empty()) {
    changed_.wait_for(lock, kWait);  // others fill the queue: a moment later there may be room
    Asked request = std::move(again_.front());
    again_.pop_front();
    lock.unlock();
    begin(std::move(request));
  } else {
    lock.unlock();
    const auto ready = input_.ready(kWait);
    Status read = !ready ? std::unexpected(ready.error()) : *ready ? take_line() : Status();
    lock.lock();
    if (!read) status_ = std::move(read);
  }
  return true;
}

Result<BatchCounts> Batch::finish() {
  const bool cancelled = cancelled_;
  cancel();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return under_way_.empty(); });
  if (!cancelled && status_) flush_failures();
  if (!status_) return std::unexpected(status_.error());
  counts_.over = !cancelled && !given_up_;
  return counts_;
}

Status check_batch_url(std::string_view url) {
  if (find_batch_route(url) != nullptr) return {};
  return invalid("found {}, needed one of {}", shown(std::string(url)), batch_urls());
}

}  // namespace llada::serve
