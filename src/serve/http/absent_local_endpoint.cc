// The system's sockets have no paths, or Boost.Asio does not know of them.
#include <boost/system/error_code.hpp>

#include "serve/http/local_endpoint.h"

namespace llada::serve {
namespace {

class NoPaths : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "sockets"; }
  std::string message(int) const override { return "sockets with a path are not supported on this system"; }
};

}  // namespace

boost::asio::generic::stream_protocol::endpoint local_endpoint(const std::string&, boost::system::error_code& failure) {
  static const NoPaths category;
  failure.assign(1, category);
  return {};
}

}  // namespace llada::serve
