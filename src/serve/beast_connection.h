// One connection: reads a request, hands it on, writes the reply, and so on while the client keeps it open. Everything
// here runs on the server's one thread; replies and news come from other threads and are posted to it.
#pragma once
// clang-format off
#include <utility>  // first: Boost 1.74 uses it and does not include it
// clang-format on
#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <memory>
#include <optional>
#include <string>

#include "serve/server.h"

namespace llada::serve {

using StreamProtocol = boost::asio::generic::stream_protocol;

// What routes see of a request that was read.
HttpRequest plain_request(boost::beast::http::request<boost::beast::http::string_body>& from);

// What a connection needs of the server that it belongs to; outlives it.
struct ConnectionHost {
  ServerLimits limits;
  Server::Handler handler;
  std::function<void()> opened, closed, refused;
  bool closing = false;  // no further request is read; on the server's thread alone
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(StreamProtocol::socket socket, std::shared_ptr<ConnectionHost> host);
  ~Connection();
  void read();
  void close();
  bool busy() const { return exchange_ != nullptr; }

 private:
  using Request = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Failure = boost::beast::error_code;
  void read_body();
  void refuse_reading(Failure failure);
  void handle();
  void watch();
  void write(HttpReply reply);
  void write_stream(HttpReply reply);
  void pump();
  void written(Failure failure);
  void linger();
  void lost();

  boost::beast::basic_stream<StreamProtocol> stream_;
  std::shared_ptr<ConnectionHost> host_;
  boost::beast::flat_buffer buffer_;
  std::optional<Request> parser_;
  std::shared_ptr<Exchange> exchange_;  // the request that is being answered
  bool keep_alive_ = false, head_ = false, chunked_ = false;
  bool unread_ = false;    // the client may still be sending what was refused
  char ignored_[4096];     // of that
  bool watching_ = false;  // for the client's end of the connection
  std::optional<boost::beast::http::response<boost::beast::http::string_body>> response_;
  std::optional<boost::beast::http::response<boost::beast::http::empty_body>> head_only_;
  std::optional<boost::beast::http::response_serializer<boost::beast::http::empty_body>> head_writer_;
  std::shared_ptr<Outflow> outflow_;
  std::string chunk_;  // being written
  bool writing_ = false, last_ = false;
  std::shared_ptr<std::atomic<bool>> woken_;  // pump() is posted and has not run
};

}  // namespace llada::serve
