// Sockets: accepts connections on TCP and on a UNIX socket, reads requests within limits, hands each to a handler and
// writes the reply. One thread serves all connections without blocking, so a slow client costs memory that is bounded
// and no thread. HTTP is Boost.Beast's over Asio; a library with a thread per connection (cpp-httplib) would let slow
// readers use up its threads. TLS is deliberately absent: a reverse proxy ends it.
//
// Who refers to whom: a server owns its loop, its thread and its connections, and calls the handler on that thread
// only. So the handler's owner outlives the server. An Exchange is shared by whoever works on it, and may outlive all
// of them: it reaches its connection through the loop, which drops calls once the server has ended.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/http/http.h"

namespace llada::serve {

struct ServerLimits {
  size_t header_bytes = size_t{16} << 10;
  size_t body_bytes = size_t{4} << 20;
  size_t all_body_bytes = size_t{64} << 20;   // of bodies that are received or wait, beyond BodyBytes::kFree of each
  int64_t unread_bytes = int64_t{128} << 20;  // of replies that are being written
  int connections = 1024;                     // for a further one the one that has asked nothing for longest is closed
  int read_seconds = 60;                      // for a request to arrive, from the end of the one before
  int send_buffer_bytes = 64 << 10;           // of a connection, in the kernel
  double write_seconds = 60;                  // for each 16 KiB of a reply to be taken (reading_pace.h)
};

struct ServerAddress {
  std::string host = "127.0.0.1";  // a name: all of its addresses
  int port = 8080;                 // 0: any free one
  std::string socket = {};         // path of a UNIX socket in place of host and port
};

class Server {
 public:
  // Called on the server's thread; must not block.
  using Handler = std::function<void(std::shared_ptr<Exchange>)>;

  // Listens, and serves until it is destroyed.
  static Result<std::unique_ptr<Server>> open(const ServerAddress& address, const ServerLimits& limits,
                                              Handler handler);
  // Replies that are not written by then are cut off; connections are closed.
  virtual ~Server() = default;

  virtual int port() const = 0;                            // 0: a UNIX socket
  virtual std::vector<std::string> addresses() const = 0;  // where it listens, each with its port; none: a UNIX socket
  virtual ServerCounts counts() const = 0;
  // Ends once nothing is being answered, or after so many seconds: connections close.
  virtual void finish(double seconds) = 0;
};

}  // namespace llada::serve
