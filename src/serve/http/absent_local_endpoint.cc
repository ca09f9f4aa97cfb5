// The system's sockets have no paths, or Boost.Asio does not know of them.
#include <boost/asio/error.hpp>

#include "serve/http/local_endpoint.h"

namespace llada::serve {

boost::asio::generic::stream_protocol::endpoint local_endpoint(const std::string&, boost::system::error_code& failure) {
  failure = boost::asio::error::operation_not_supported;
  return {};
}

}  // namespace llada::serve
