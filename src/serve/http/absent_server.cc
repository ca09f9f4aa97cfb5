// Compiled where Boost is missing.
#include "serve/http/server.h"

namespace llada::serve {

Result<std::unique_ptr<Server>> Server::open(const ServerAddress&, const ServerLimits&, Handler) {
  return failed(
      "serving: this program was built without Boost.Beast and Asio; install Boost's headers (Debian: "
      "libboost-dev) and build again");
}

}  // namespace llada::serve
