// Connected sockets of Linux, Android and macOS.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <iterator>

#include "base/sockets.h"

namespace llada::os {
namespace {

#ifdef __APPLE__  // the end of the peer's sending is a read of nothing there
constexpr short kEnd = 0;
constexpr int kIdleOption = TCP_KEEPALIVE, kQuietly = 0;
bool has_ended(int fd, short) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}
rlim_t most_of(const rlimit& limit) { return std::min<rlim_t>(limit.rlim_max, OPEN_MAX); }  // more is refused there
#else
constexpr short kEnd = POLLRDHUP;
constexpr int kIdleOption = TCP_KEEPIDLE, kQuietly = MSG_NOSIGNAL;
bool has_ended(int, short events) { return (events & POLLRDHUP) != 0; }
rlim_t most_of(const rlimit& limit) { return limit.rlim_max; }
#endif

}  // namespace

Peer look_at_peer(Socket socket) {
  const int fd = static_cast<int>(socket);
  pollfd look{fd, static_cast<short>(POLLIN | kEnd), 0};
  if (::poll(&look, 1, 0) == 0) return Peer::silent;
  if ((look.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return Peer::lost;
  return has_ended(fd, look.revents) ? Peer::ended : Peer::sends;
}

bool send_now(Socket socket, std::string_view bytes) {
  const ssize_t sent = ::send(static_cast<int>(socket), bytes.data(), bytes.size(), MSG_DONTWAIT | kQuietly);
  return sent == std::ssize(bytes) || (sent < 0 && (errno == EAGAIN || errno == EINTR));
}

void claim_port(Socket socket) {
  const int yes = 1;
  ::setsockopt(static_cast<int>(socket), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

void probe_peer(Socket socket, int idle, int interval, int count) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(static_cast<int>(socket), level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, kIdleOption, idle);
  set(IPPROTO_TCP, TCP_KEEPINTVL, interval);
  set(IPPROTO_TCP, TCP_KEEPCNT, count);
}

uint64_t most_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlimit raised{most_of(limit), limit.rlim_max};
  return ::setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

}  // namespace llada::os
