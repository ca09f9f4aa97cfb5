// Connected sockets, as far as Boost.Asio does not ask the system: sockets_posix.cc or sockets_windows.cc.
#pragma once
#include <cstdint>
#include <string_view>

namespace llada::os {

using Socket = std::intptr_t;  // the system's handle

// The other end, as far as it shows without reading. `ended`: it sends no more; some systems tell that only where no
// bytes wait before it.
enum class Peer : uint8_t { silent, sends, ended, lost };
Peer look_at_peer(Socket socket);

// Sends a few bytes without waiting; false: the connection has broken. Bytes for which there is no room are not sent.
bool send_now(Socket socket, std::string_view bytes);

// Before a port is listened on: an earlier server's ended connections do not keep it, and another server that listens
// there does.
void claim_port(Socket socket);

// Has the system ask a silent peer after `idle` seconds, then every `interval`, and end the connection after `count`
// questions without an answer.
void probe_peer(Socket socket, int idle, int interval, int count);

// Raises the number of files and connections that this process may have open as far as the system lets it, and returns
// it; 0: the system has no such limit.
uint64_t most_open_files();

}  // namespace llada::os
