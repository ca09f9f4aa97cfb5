// A hub on 127.0.0.1 for tests: serves files as Hugging Face's does, the large ones from another host, and misbehaves as
// told.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace llada::test {

struct WebRequest {
  std::string method, path;                    // path with its query
  std::map<std::string, std::string> headers;  // names in lower case
  std::string header(const std::string& name) const { return headers.contains(name) ? headers.at(name) : ""; }
};

struct WebReply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;  // Content-Length is added unless one is here
  std::string body;
  int64_t cut = -1;  // bytes of the body after which the connection is closed
  int pause_ms = 0;  // before each 64 KiB of the body
};

// One port, a thread per connection, one request per connection.
class WebServer {
 public:
  using Handler = std::function<WebReply(const WebRequest&)>;
  explicit WebServer(Handler handler);
  ~WebServer();
  int port() const { return port_; }
  std::vector<WebRequest> seen() const;

 private:
  void accept_all();
  void serve(int fd);
  Handler handler_;
  int listener_ = -1, port_ = 0;
  mutable std::mutex mutex_;
  std::vector<WebRequest> seen_;
  std::vector<std::thread> threads_;
  std::atomic<bool> over_ = false;
  std::thread accepting_;
};

class StandInHub {
 public:
  struct File {
    std::string content;
    bool lfs = false;  // named by SHA-256 and served by the other host
  };
  explicit StandInHub(std::map<std::string, File> files, std::string name = "owner/name");

  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(hub_->port()); }
  std::vector<WebRequest> asked() const { return hub_->seen(); }
  std::vector<WebRequest> asked_elsewhere() const { return elsewhere_->seen(); }
  std::string etag(const std::string& path) const;

  // What is different. Both may be called by several threads at once. `instead` answers in place of the hub or of the
  // other host; `change` alters what they answer. Set before the first request.
  std::function<std::optional<WebReply>(const WebRequest&)> instead;
  std::function<void(const WebRequest&, WebReply&)> change;

  const std::string commit = "0123456789abcdef0123456789abcdef01234567";
  std::map<std::string, File> files;

 private:
  WebReply answer(const WebRequest& request);
  WebReply answer_elsewhere(const WebRequest& request);
  WebReply listing() const;
  WebReply with_changes(const WebRequest& request, WebReply (StandInHub::*make)(const WebRequest&));
  std::string name_;
  std::optional<WebServer> elsewhere_, hub_;  // ended before what they serve
};

bool can_download();
#define LLADA_NEEDS_DOWNLOADS() \
  if (!llada::test::can_download()) GTEST_SKIP() << "built without libcurl or libcrypto"

}  // namespace llada::test
