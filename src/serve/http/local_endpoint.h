// UNIX sockets by their path: local_endpoint.cc, or absent_local_endpoint.cc where Boost.Asio has none for the system.
#pragma once
#include <boost/asio/generic/stream_protocol.hpp>
#include <string>

namespace llada::serve {

boost::asio::generic::stream_protocol::endpoint local_endpoint(const std::string& path,
                                                               boost::system::error_code& failure);

}  // namespace llada::serve
