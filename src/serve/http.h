// HTTP as routes see it: a request that was read whole, a reply that is there or grows. Sockets are connection.h's.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace llada::serve {

using Json = nlohmann::ordered_json;

struct HttpRequest {
  std::string method, path, query, body;  // path without the query
  std::string authorization, api_key;     // the headers Authorization and X-Api-Key
  std::string origin, host, if_none_match;
};

// A body that grows. What is ready lies in memory that is bounded, however slowly the client reads.
class Outflow {
 public:
  struct Piece {
    std::string bytes;
    bool last = false;  // nothing follows
  };
  virtual ~Outflow() = default;
  // By the connection, when it can write: what is ready, or nothing.
  virtual Piece take() = 0;
  // ready() is called from any thread when take() has something; before this call nothing was announced.
  virtual void listen(std::function<void()> ready) = 0;
};

struct HttpReply {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::shared_ptr<Outflow> stream = {};  // in the place of the body
  bool close = false;                    // the connection, afterwards
};

// A refusal in OpenAI's form. status 400: the request is wrong.
struct ApiError {
  int status = 400;
  std::string message, param = {}, code = {};

  ApiError(int with_status, std::string text, std::string about = {}, std::string with_code = {})
      : status(with_status), message(std::move(text)), param(std::move(about)), code(std::move(with_code)) {}
  // An error of the engine: what it calls invalid is the client's, the rest the machine's.
  ApiError(const Error& error)  // NOLINT: LLADA_TRY hands it on
      : status(error.kind == ErrorKind::invalid_input ? 400 : 500), message(error.message) {}
};

template <class T>
using Answered = std::expected<T, ApiError>;

// Both may repeat what the client wrote, such as a field's name: what has no place on a line of the log is escaped.
std::unexpected<ApiError> refuse(const std::string& message, const std::string& param);

Json error_json(const ApiError& error);
HttpReply error_reply(const ApiError& error);
HttpReply json_reply(const Json& json);
std::string dump(const Json& json);  // valid UTF-8 whatever it holds

// The text of a path's part, in which clients write %2F for a slash.
std::string without_percent(std::string_view part);

// One request on its way through the server. respond() is called once, from any thread.
class Exchange {
 public:
  Exchange(HttpRequest with, std::function<void(HttpReply)> respond)
      : request(std::move(with)), respond_(std::move(respond)) {}

  const HttpRequest request;
  std::string id;  // of this request, in answers and in the log

  void respond(HttpReply reply);
  // Called with every reply before it is handed to the connection.
  void before_reply(std::function<void(const Exchange&, HttpReply&)> call) { before_ = std::move(call); }

  // Called once the client has gone away, from the connection's thread; at once where it has already.
  void on_gone(std::function<void()> cancel);
  void gone();  // by the connection
  bool is_gone() const { return gone_; }

 private:
  const std::function<void(HttpReply)> respond_;
  std::function<void(const Exchange&, HttpReply&)> before_;
  std::atomic<bool> gone_ = false, responded_ = false;
  std::mutex mutex_;  // guards cancel_
  std::function<void()> cancel_;
};

}  // namespace llada::serve
