#include "hub/stand_in.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "hub/http.h"

namespace llada::test {
namespace {

void send_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

WebRequest parse(const std::string& text) {
  WebRequest request;
  const size_t line = text.find("\r\n"), first = text.find(' '), second = text.find(' ', first + 1);
  request.method = text.substr(0, first);
  for (size_t at = first + 1; at < second; ++at) {  // "%20" as it is meant
    const bool escape = text[at] == '%' && at + 2 < second;
    request.path += escape ? static_cast<char>(std::stoi(text.substr(at + 1, 2), nullptr, 16)) : text[at];
    at += escape ? 2 : 0;
  }
  for (size_t at = line + 2; at < text.size();) {
    const size_t end = text.find("\r\n", at), colon = text.find(": ", at);
    if (end == at || end == std::string::npos) break;
    if (colon < end) request.headers[lower(text.substr(at, colon - at))] = text.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  return request;
}

WebReply part_of(const std::string& content, const WebRequest& request) {
  const std::string range = request.header("range");
  if (range.empty()) return {.status = 200, .headers = {}, .body = content};
  const size_t from = std::stoull(range.substr(range.find('=') + 1));
  if (from >= content.size()) return {.status = 416, .headers = {}, .body = "no such range"};
  return {.status = 206,
          .headers = {{"Content-Range", "bytes " + std::to_string(from) + "-" + std::to_string(content.size() - 1) +
                                            "/" + std::to_string(content.size())}},
          .body = content.substr(from)};
}

}  // namespace

WebServer::WebServer(Handler handler) : handler_(std::move(handler)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (listener_ < 0 || ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 64) != 0 || ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no port on 127.0.0.1");
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { accept_all(); });
}

WebServer::~WebServer() {
  over_ = true;
  accepting_.join();
  for (std::thread& thread : threads_) thread.join();
  ::close(listener_);
}

std::vector<WebRequest> WebServer::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

void WebServer::accept_all() {
  while (!over_) {
    pollfd waiting{listener_, POLLIN, 0};
    if (::poll(&waiting, 1, 20) <= 0) continue;
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void WebServer::serve(int fd) {
  std::string text;
  char buffer[4096];
  while (!text.contains("\r\n\r\n")) {
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n <= 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  if (text.contains("\r\n\r\n")) {
    const WebRequest request = parse(text);
    {
      const std::lock_guard lock(mutex_);
      seen_.push_back(request);
    }
    const WebReply reply = handler_(request);
    std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " As told\r\nConnection: close\r\n";
    bool has_length = false;
    for (const auto& [name, value] : reply.headers) {
      head += name + ": " + value + "\r\n";
      has_length |= lower(name) == "content-length";
    }
    if (!has_length) head += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
    send_all(fd, head + "\r\n");
    std::string_view body = reply.body;
    if (reply.cut >= 0) body = body.substr(0, static_cast<size_t>(reply.cut));
    if (request.method == "HEAD") body = {};
    while (!body.empty() && !over_) {
      if (reply.pause_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(reply.pause_ms));
      const std::string_view piece = body.substr(0, 64 << 10);
      send_all(fd, piece);
      body.remove_prefix(piece.size());
    }
  }
  ::shutdown(fd, SHUT_WR);
  ::close(fd);
}

StandInHub::StandInHub(std::map<std::string, File> given, std::string name)
    : files(std::move(given)), name_(std::move(name)) {
  elsewhere_.emplace([this](const WebRequest& r) { return with_changes(r, &StandInHub::answer_elsewhere); });
  hub_.emplace([this](const WebRequest& r) { return with_changes(r, &StandInHub::answer); });
}

WebReply StandInHub::with_changes(const WebRequest& request, WebReply (StandInHub::*make)(const WebRequest&)) {
  if (instead)
    if (const auto reply = instead(request)) return *reply;
  WebReply reply = (this->*make)(request);
  if (change) change(request, reply);
  return reply;
}

std::string StandInHub::etag(const std::string& path) const {
  const File& file = files.at(path);
  auto sum = file.lfs ? hub::Checksum::sha256() : hub::Checksum::git_blob(static_cast<int64_t>(file.content.size()));
  if (!sum) return "";
  (*sum)->update(std::as_bytes(std::span(file.content)));
  return (*sum)->hex();
}

WebReply StandInHub::listing() const {
  nlohmann::json siblings = nlohmann::json::array();
  for (const auto& [path, file] : files) siblings.push_back({{"rfilename", path}, {"size", file.content.size()}});
  return {.status = 200, .headers = {}, .body = nlohmann::json{{"sha", commit}, {"siblings", siblings}}.dump()};
}

WebReply StandInHub::answer(const WebRequest& request) {
  if (request.path.starts_with("/api/models/" + name_ + "/revision/main")) return listing();
  const std::string folder = "/" + name_ + "/resolve/" + commit + "/";
  if (!request.path.starts_with(folder) || !files.contains(request.path.substr(folder.size())))
    return {.status = 404, .headers = {{"X-Error-Code", "EntryNotFound"}}, .body = "not here"};
  const std::string path = request.path.substr(folder.size());
  const File& file = files.at(path);
  if (!file.lfs) {
    WebReply reply = part_of(file.content, request);
    reply.headers.emplace_back("ETag", "\"" + etag(path) + "\"");
    reply.headers.emplace_back("X-Repo-Commit", commit);
    return reply;
  }
  return {.status = 302,
          .headers = {{"Location", "http://localhost:" + std::to_string(elsewhere_->port()) + "/bytes/" + path},
                      {"X-Linked-Etag", "\"" + etag(path) + "\""},
                      {"X-Linked-Size", std::to_string(file.content.size())},
                      {"X-Repo-Commit", commit}},
          .body = "elsewhere"};
}

WebReply StandInHub::answer_elsewhere(const WebRequest& request) {
  const std::string path = request.path.substr(std::min(request.path.size(), std::string("/bytes/").size()));
  if (!files.contains(path)) return {.status = 404, .headers = {}, .body = "not here"};
  return part_of(files.at(path).content, request);
}

bool can_download() { return hub::Http::create({}).has_value(); }

}  // namespace llada::test
