// HTTP as routes see it: a request that was read whole, a reply that is there or grows; the log's lines. Sockets are
// beast_connection.h's.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "json/parse.h"

namespace llada::serve {

// The bytes of bodies that are held, of all connections together, have a bound: neither many connections nor requests
// that wait for a worker fill the memory. Usable from any thread.
class BodyBudget {
 public:
  explicit BodyBudget(size_t most) : most_(most) {}

  bool take(size_t bytes) {
    if (held_.fetch_add(bytes) + bytes <= most_) return true;
    held_ -= bytes;
    return false;
  }
  void give_back(size_t bytes) { held_ -= bytes; }
  size_t held() const { return held_; }

 private:
  const size_t most_;
  std::atomic<size_t> held_ = 0;
};

// The bytes of one body, from the socket until they have been read.
class BodyBytes {
 public:
  // Bytes that each body may have whatever the others hold: an ordinary request is never refused for long ones.
  static constexpr size_t kFree = size_t{64} << 10;

  BodyBytes() = default;
  explicit BodyBytes(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
  BodyBytes(BodyBytes&& other) noexcept { *this = std::move(other); }
  BodyBytes& operator=(BodyBytes&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(counted_, other.counted_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~BodyBytes() {
    if (budget_) budget_->give_back(counted_);
  }

  std::string_view text() const { return bytes_; }
  // False: there is no room for more.
  bool append(std::string_view more) {
    const size_t size = bytes_.size() + more.size(), counted = size > kFree ? size - kFree : 0;
    if (budget_ && counted > counted_) {
      if (!budget_->take(counted - counted_)) return false;
      counted_ = counted;
    }
    bytes_ += more;
    return true;
  }

 private:
  std::shared_ptr<BodyBudget> budget_;
  size_t counted_ = 0;
  std::string bytes_;
};

// An error of the engine without the folders of the file that it begins with: they are nobody's business over HTTP.
std::string without_folders(std::string_view message);

inline constexpr const char* kTooLong = "context_length_exceeded";  // the code by which clients know to shorten it

// A refusal in OpenAI's form. status 400: the request is wrong.
struct ApiError {
  int status = 400;
  std::string message, param = {}, code = {};

  ApiError(int with_status, std::string text, std::string about = {}, std::string with_code = {})
      : status(with_status), message(std::move(text)), param(std::move(about)), code(std::move(with_code)) {}
  // An error of the engine: an invalid input is the client's, the rest the machine's.
  // One about a field may repeat the client's words.
  ApiError(const Error& error);  // NOLINT: LLADA_TRY hands it on
};

struct HttpRequest {
  std::string method, path, query;     // path without the query, and without a slash at its end
  std::string authorization, api_key;  // the headers Authorization and X-Api-Key
  std::string origin, host, if_none_match;
  std::string type, coding;            // Content-Type, Content-Encoding
  std::string request_id;              // X-Request-Id
  std::string asked_headers;           // Access-Control-Request-Headers, of a browser that asks first
  std::string peer = {};               // address and port of the client
  bool unix_socket = false;            // came by one, which no browser reaches: its Host is not checked
  bool spare = false;                  // its connection is over the limit: only routes with at_once answer it
  std::optional<ApiError> fault = {};  // why it could not be read, or is no HTTP: the error to reply
};

// Connections. pushed_out: healthy ones that were closed because there were too many, or because unread replies took
// too much memory.
struct ServerCounts {
  int64_t open = 0, accepted = 0, pushed_out = 0;
  int64_t body_bytes = 0;  // of bodies that are received or wait, beyond BodyBytes::kFree of each
};

// A reply's body that grows (a stream). The memory of its ready part is bounded, however slowly the client reads.
class Outflow {
 public:
  struct Piece {
    std::string bytes;
    bool last = false;  // nothing follows
  };
  virtual ~Outflow() = default;
  // Called by the connection when it can write: the bytes that are ready, or none.
  virtual Piece take() = 0;
  // From now on ready() is called, from any thread, when take() has something; nothing was announced before.
  virtual void listen(std::function<void()> ready) = 0;
  // Called by the connection: take() shall soon have bytes, even without content. Writing shows a reader that has gone.
  virtual void ping() = 0;
};

struct HttpReply {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::shared_ptr<Outflow> stream = {};  // in the place of the body
  bool close = false;                    // the connection, afterwards
  std::string error = {}, param = {};    // of a refusal, for the log
};

template <class T>
using Answered = std::expected<T, ApiError>;
using Done = Answered<void>;

// An error of status 400. message, param: may repeat the client's words; characters that a line of the log must not
// have are escaped.
std::unexpected<ApiError> refuse(const std::string& message, const std::string& param);

Json error_json(const ApiError& error);
HttpReply error_reply(const ApiError& error);
HttpReply queue_full();  // 429
HttpReply json_reply(const Json& json);
std::string dump(const Json& json);  // valid UTF-8 whatever it holds

// 2026-01-31T23:59:59.999Z
std::string timestamp(std::chrono::system_clock::time_point time);
// Sun, 06 Nov 1994 08:49:37 GMT, as the header Date has it.
std::string http_date(std::chrono::system_clock::time_point time);
// A line of the log without its end: one JSON object, the time and these fields.
std::string log_line(const Json& fields);

// The text of a path's part, in which clients write %2F for a slash.
std::string without_percent(std::string_view part);

inline constexpr int kClientGone = 499;  // nginx's status, for the log and the metrics: nobody was there to be answered

// One request on its way through the server. respond() is called once, from any thread.
class Exchange {
 public:
  // How it ended.
  struct End {
    int status = 0;
    int64_t bytes = 0;  // of the body
    bool stream = false;
    std::string error = {}, param = {};
  };

  Exchange(HttpRequest with, BodyBytes body, std::function<void(HttpReply)> respond)
      : request(std::move(with)), respond_(std::move(respond)), body_(std::move(body)) {}

  const HttpRequest request;
  std::string id;             // of this request, in answers and in the log
  bool low_priority = false;  // to others, as a batch's does (serve/work/waiting_room.h)

  // By the route, once: an answer may take an hour, and does not need it any more.
  BodyBytes take_body() { return std::move(body_); }
  size_t body_bytes() const { return body_.text().size(); }  // before that

  void respond(Answered<HttpReply> answer);
  // Called with every reply before it is handed to the connection.
  void before_reply(std::function<void(const Exchange&, HttpReply&)> call) { before_ = std::move(call); }
  // Called once: when the reply is handed to the connection; of a stream when all of it was, or the client has gone.
  void on_end(std::function<void(const Exchange&, const End&)> call) { on_end_ = std::move(call); }

  // Called once the client has gone away, from the connection's thread; at once where it has already.
  void on_gone(std::function<void()> cancel);
  bool is_gone() const { return gone_; }

  // By the connection.
  void gone();
  void streamed(int64_t bytes) { streamed_ += bytes; }
  void stream_ended();

 private:
  void end(const End& end);

  const std::function<void(HttpReply)> respond_;
  BodyBytes body_;
  std::function<void(const Exchange&, HttpReply&)> before_;
  std::function<void(const Exchange&, const End&)> on_end_;
  std::atomic<bool> gone_ = false, responded_ = false, streaming_ = false, ended_ = false;
  std::atomic<int64_t> streamed_ = 0;  // bytes of the stream's body
  std::mutex mutex_;                   // guards cancel_
  std::function<void()> cancel_;
};

// Does the work of a request. No exception ends the server: it is this request's reply, where there was none.
template <class Work>
void answer_guarded(Exchange& exchange, const Work& work) {
  const auto tell = [&](const ApiError& error) noexcept {
    try {
      exchange.respond(std::unexpected(error));
    } catch (...) {  // not even that: the client finds out by its own patience
    }
  };
  try {
    work();
  } catch (const std::bad_alloc&) {
    tell(ApiError(503, "memory ran out", "", "out_of_memory"));
  } catch (const std::exception& error) {
    tell(ApiError(500, fmt::format("internal error of the server: {}", error.what())));
  } catch (...) {
    tell(ApiError(500, "internal error of the server"));
  }
}

}  // namespace llada::serve
