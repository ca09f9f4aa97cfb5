// Connected sockets of Windows 10 and later.

#include <iterator>

#include "base/api_windows.h"
#include "base/sockets.h"

namespace llada::os {
namespace {

short ready(Socket socket, short events) {
  WSAPOLLFD look{static_cast<SOCKET>(socket), events, 0};
  return ::WSAPoll(&look, 1, 0) > 0 ? look.revents : 0;
}

}  // namespace

Peer look_at_peer(Socket socket) {
  if (ready(socket, POLLRDNORM) == 0) return Peer::silent;
  char byte = 0;  // a read that need not wait
  const int count = ::recv(static_cast<SOCKET>(socket), &byte, 1, MSG_PEEK);
  if (count > 0) return Peer::sends;
  return count == 0 ? Peer::ended : ::WSAGetLastError() == WSAEWOULDBLOCK ? Peer::silent : Peer::lost;
}

bool send_now(Socket socket, std::string_view bytes) {
  const short events = ready(socket, POLLWRNORM);
  if (events == 0) return true;
  if ((events & (POLLERR | POLLNVAL)) != 0) return false;
  const int sent = ::send(static_cast<SOCKET>(socket), bytes.data(), static_cast<int>(bytes.size()), 0);
  return sent == std::ssize(bytes) || (sent < 0 && ::WSAGetLastError() == WSAEWOULDBLOCK);
}

// Ended connections keep no port here; SO_REUSEADDR would let several servers have one.
void claim_port(Socket socket) {
  const int yes = 1;
  ::setsockopt(static_cast<SOCKET>(socket), SOL_SOCKET, SO_EXCLUSIVEADDRUSE, reinterpret_cast<const char*>(&yes),
               sizeof yes);
}

// The system asks ten times, whatever is wanted here.
void probe_peer(Socket socket, int idle, int interval, int) {
  tcp_keepalive how{1, static_cast<ULONG>(idle) * 1000, static_cast<ULONG>(interval) * 1000};
  DWORD bytes = 0;
  ::WSAIoctl(static_cast<SOCKET>(socket), SIO_KEEPALIVE_VALS, &how, sizeof how, nullptr, 0, &bytes, nullptr, nullptr);
}

uint64_t most_open_files() { return 0; }

}  // namespace llada::os
