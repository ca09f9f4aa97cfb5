#include "serve/beast_connection.h"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>

namespace llada::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

std::string text(boost::string_view view) { return {view.data(), view.size()}; }

template <class Response>
void set_head(Response& response, const HttpReply& reply, bool keep_alive) {
  response.result(static_cast<unsigned>(reply.status));
  response.set(http::field::content_type, reply.type);
  for (const auto& [name, value] : reply.headers) response.set(name, value);
  response.set("X-Content-Type-Options", "nosniff");
  response.keep_alive(keep_alive);
}

}  // namespace

HttpRequest plain_request(http::request<http::string_body>& from) {
  HttpRequest to;
  to.method = from.method() == http::verb::head ? "GET" : text(from.method_string());
  const std::string target = text(from.target());
  const size_t query = std::min(target.find('?'), target.size());
  to.path = target.substr(0, query);
  if (query < target.size()) to.query = target.substr(query + 1);
  to.authorization = text(from[http::field::authorization]);
  to.api_key = text(from["X-Api-Key"]);
  to.origin = text(from[http::field::origin]);
  to.host = text(from[http::field::host]);
  to.if_none_match = text(from[http::field::if_none_match]);
  to.body = std::move(from.body());
  return to;
}

Connection::Connection(StreamProtocol::socket socket, std::shared_ptr<ConnectionHost> host)
    : stream_(std::move(socket)), host_(std::move(host)) {
  host_->opened();
}

Connection::~Connection() {
  if (exchange_) exchange_->gone();
  host_->closed();
}

void Connection::close() {
  Failure ignored;
  stream_.socket().shutdown(asio::socket_base::shutdown_both, ignored);
  stream_.close();
}

void Connection::lost() {
  if (exchange_) exchange_->gone();
  exchange_.reset();
  outflow_.reset();
  close();
}

void Connection::read() {
  if (host_->closing) return close();
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(host_->limits.header_bytes));
  parser_->body_limit(host_->limits.body_bytes);
  stream_.expires_after(std::chrono::seconds(host_->limits.read_seconds));
  http::async_read_header(stream_, buffer_, *parser_, [self = shared_from_this()](Failure failure, size_t) {
    if (failure) return self->refuse_reading(failure);
    self->read_body();
  });
}

void Connection::read_body() {
  const auto go_on = [self = shared_from_this()](Failure failure, size_t) {
    if (failure) return self->refuse_reading(failure);
    http::async_read(self->stream_, self->buffer_, *self->parser_, [self](Failure body_failure, size_t) {
      if (body_failure) return self->refuse_reading(body_failure);
      self->handle();
    });
  };
  // curl waits for this before it sends a long body.
  if (beast::iequals(parser_->get()[http::field::expect], "100-continue") && !parser_->is_done()) {
    chunk_ = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(stream_, asio::buffer(chunk_), go_on);
  } else {
    go_on({}, 0);
  }
}

void Connection::refuse_reading(Failure failure) {
  const bool http_error = failure.category() == http::make_error_code(http::error::bad_method).category();
  if (!http_error || failure == http::error::end_of_stream || failure == http::error::partial_message) return close();
  host_->refused();
  const int status = failure == http::error::body_limit ? 413 : failure == http::error::header_limit ? 431 : 400;
  keep_alive_ = head_ = false;
  unread_ = true;
  const std::string message = status == 413 ? fmt::format("the body is longer than {} bytes", host_->limits.body_bytes)
                              : status == 431
                                  ? fmt::format("the headers are longer than {} bytes", host_->limits.header_bytes)
                                  : "this is no HTTP request: " + failure.message();
  write(error_reply(ApiError(status, message)));
}

void Connection::handle() {
  auto& request = parser_->get();
  keep_alive_ = request.keep_alive();
  head_ = request.method() == http::verb::head;
  chunked_ = request.version() >= 11;
  HttpRequest asked = plain_request(request);
  stream_.expires_never();
  const auto executor = stream_.get_executor();
  exchange_ = std::make_shared<Exchange>(std::move(asked), [weak = weak_from_this(), executor](HttpReply reply) {
    asio::post(executor, [weak, reply = std::move(reply)]() mutable {
      if (const auto self = weak.lock(); self && self->exchange_) self->write(std::move(reply));
    });
  });
  watch();
  host_->handler(exchange_);
}

// A client that closes its side while it is being answered has gone: what is computed for it ends. It is told from one
// that sends its next request early by looking at what there is to read.
void Connection::watch() {
  if (watching_) return;
  watching_ = true;
  stream_.socket().async_wait(asio::socket_base::wait_read, [self = shared_from_this()](Failure failure) {
    self->watching_ = false;
    if (failure || !self->exchange_) return;
    char byte;
    const ssize_t n = ::recv(self->stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) return self->lost();
    if (n < 0) self->watch();
  });
}

void Connection::write(HttpReply reply) {
  keep_alive_ = keep_alive_ && !reply.close && !host_->closing;
  if (reply.stream) return write_stream(std::move(reply));
  stream_.expires_after(std::chrono::seconds(host_->limits.write_seconds));
  const auto done = [self = shared_from_this()](Failure failure, size_t) { self->written(failure); };
  if (head_) {
    head_only_.emplace();
    set_head(*head_only_, reply, keep_alive_);
    head_only_->content_length(reply.body.size());
    return http::async_write(stream_, *head_only_, done);
  }
  response_.emplace();
  set_head(*response_, reply, keep_alive_);
  response_->body() = std::move(reply.body);
  response_->prepare_payload();
  http::async_write(stream_, *response_, done);
}

void Connection::written(Failure failure) {
  if (failure) return lost();
  exchange_.reset();
  outflow_.reset();
  if (keep_alive_) return read();
  unread_ ? linger() : close();
}

// Closing at once would reset the connection, and the client might lose the reply that says what was wrong.
void Connection::linger() {
  if (unread_) {
    Failure ignored;
    stream_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
    stream_.expires_after(std::chrono::seconds(2));  // for all that still comes
    unread_ = false;
  }
  stream_.async_read_some(asio::buffer(ignored_), [self = shared_from_this()](Failure failure, size_t) {
    failure ? self->close() : self->linger();
  });
}

void Connection::write_stream(HttpReply reply) {
  keep_alive_ = keep_alive_ && chunked_;
  head_only_.emplace();
  if (!chunked_) head_only_->version(10);
  set_head(*head_only_, reply, keep_alive_);
  head_only_->set(http::field::cache_control, "no-cache");
  head_only_->set("X-Accel-Buffering", "no");  // a reverse proxy hands events on at once
  if (chunked_) head_only_->chunked(true);
  head_writer_.emplace(*head_only_);
  outflow_ = std::move(reply.stream);
  writing_ = true, last_ = false;
  woken_ = std::make_shared<std::atomic<bool>>(false);
  stream_.expires_after(std::chrono::seconds(host_->limits.write_seconds));
  http::async_write_header(stream_, *head_writer_, [self = shared_from_this()](Failure failure, size_t) {
    self->writing_ = false;
    if (failure) return self->lost();
    if (!self->outflow_) return;
    const auto executor = self->stream_.get_executor();
    self->outflow_->listen([weak = self->weak_from_this(), woken = self->woken_, executor] {
      if (woken->exchange(true)) return;
      asio::post(executor, [weak, woken] {
        *woken = false;
        if (const auto connection = weak.lock()) connection->pump();
      });
    });
    self->pump();
  });
}

void Connection::pump() {
  if (writing_ || last_ || !outflow_) return;
  Outflow::Piece piece = outflow_->take();
  if (piece.bytes.empty() && !piece.last) return stream_.expires_never();
  last_ = piece.last;
  chunk_ = chunked_ && !piece.bytes.empty() ? fmt::format("{:x}\r\n{}\r\n", piece.bytes.size(), piece.bytes)
                                            : std::move(piece.bytes);
  if (chunked_ && last_) chunk_ += "0\r\n\r\n";
  writing_ = true;
  stream_.expires_after(std::chrono::seconds(host_->limits.write_seconds));
  asio::async_write(stream_, asio::buffer(chunk_), [self = shared_from_this()](Failure failure, size_t) {
    self->writing_ = false;
    if (failure) return self->lost();
    if (!self->outflow_) return;
    if (self->last_) return self->written({});
    self->pump();
  });
}

}  // namespace llada::serve
