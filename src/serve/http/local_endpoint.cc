#include "serve/http/local_endpoint.h"

#include <boost/asio/error.hpp>
#include <boost/asio/local/stream_protocol.hpp>

namespace llada::serve {

boost::asio::generic::stream_protocol::endpoint local_endpoint(const std::string& path,
                                                               boost::system::error_code& failure) {
  constexpr size_t kMostBytes = 107;
  if (path.size() > kMostBytes) {
    failure = boost::asio::error::name_too_long;
    return {};
  }
  return boost::asio::local::stream_protocol::endpoint(path);
}

}  // namespace llada::serve
