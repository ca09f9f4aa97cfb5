#include "serve/client.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>

namespace llada::serve {
namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

std::string Received::header(const std::string& name) const {
  const size_t at = lower(head).find("\r\n" + lower(name) + ": ");
  if (at == std::string::npos) return "";
  const size_t begin = at + 4 + name.size();
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

std::vector<std::string> Received::events() const {
  std::vector<std::string> events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find("\n\n", at), body.size());
    std::string line = body.substr(at, end - at);
    at = end + 2;
    if (line.starts_with(": ")) continue;  // a comment
    if (line.starts_with("event: ")) line.erase(0, line.find('\n') + 1);
    if (!line.starts_with("data: ") || line.contains('\n')) throw std::runtime_error("no event: " + line);
    events.push_back(line.substr(6));
  }
  return events;
}

Client::Client(int port, int receive_buffer) {
  fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
  if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("connect failed");
}

Client::Client(const std::string& unix_socket) {
  fd_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, unix_socket.c_str(), sizeof address.sun_path - 1);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("connect failed");
}

Client::~Client() { close(); }

void Client::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void Client::shut_down_writing() { ::shutdown(fd_, SHUT_WR); }

void Client::send(const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::send(fd_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (n <= 0) return;  // the server may refuse before it has read all
    at += static_cast<size_t>(n);
  }
}

bool Client::read_some(double seconds) {
  pollfd ready{fd_, POLLIN, 0};
  if (ended_ || ::poll(&ready, 1, static_cast<int>(seconds * 1e3)) <= 0) return false;
  char bytes[1 << 16];
  const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
  if (n <= 0) ended_ = true;
  if (n > 0) pending_.append(bytes, static_cast<size_t>(n));
  return n > 0;
}

bool Client::wait_for(const std::string& text, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!pending_.contains(text)) {
    const double left = std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count();
    if (left <= 0 || !read_some(left)) return false;
  }
  return true;
}

bool Client::closed(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!ended_) {
    const double left = std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    read_some(left);
  }
  return true;
}

Received Client::receive(double seconds) {
  Received reply;
  if (!wait_for("\r\n\r\n", seconds)) return reply;
  const size_t head = pending_.find("\r\n\r\n") + 4;
  reply.head = pending_.substr(0, head);
  pending_.erase(0, head);
  reply.status = std::stoi(reply.head.substr(9, 3));
  if (reply.status == 100) return receive(seconds);
  if (reply.header("Transfer-Encoding") == "chunked") {
    for (;;) {
      if (!wait_for("\r\n", seconds)) return reply;
      const size_t line = pending_.find("\r\n");
      const size_t size = std::stoul(pending_.substr(0, line), nullptr, 16);
      while (pending_.size() < line + 2 + size + 2)
        if (!read_some(seconds)) return reply;
      reply.body += pending_.substr(line + 2, size);
      pending_.erase(0, line + 2 + size + 2);
      if (size == 0) break;
    }
  } else if (const std::string length = reply.header("Content-Length"); !length.empty()) {
    const size_t size = std::stoul(length);
    while (pending_.size() < size)
      if (!read_some(seconds)) return reply;
    reply.body = pending_.substr(0, size);
    pending_.erase(0, size);
  } else {
    while (read_some(seconds)) continue;
    reply.body = std::move(pending_);
  }
  reply.complete = true;
  return reply;
}

std::string http_request(const std::string& method, const std::string& path, const std::string& body,
                         const std::string& headers) {
  return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
         (body.empty() ? ""
                       : "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n") +
         "\r\n" + body;
}

Received ask(int port, const std::string& method, const std::string& path, const nlohmann::json& body,
             const std::string& headers) {
  Client client(port);
  client.send(http_request(method, path, body.is_null() ? "" : body.dump(), headers));
  return client.receive();
}

}  // namespace llada::serve
