#include "serve/http/beast_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/sockets.h"
#include "serve/http/access.h"

namespace llada::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Clock = std::chrono::steady_clock;

constexpr size_t kReadBytes = size_t{64} << 10;  // at a time, of a body

// Where the client is; "unix" of a UNIX socket.
std::string name_of_peer(const StreamProtocol::socket& socket) {
  boost::system::error_code failure;
  const auto end = socket.remote_endpoint(failure);
  if (failure) return "";
  if (end.protocol().family() != AF_INET && end.protocol().family() != AF_INET6) return "unix";
  asio::ip::tcp::endpoint tcp;
  std::memcpy(tcp.data(), end.data(), std::min(end.size(), tcp.capacity()));
  return host_and_port(tcp.address().to_string(failure), tcp.port());
}

}  // namespace

const std::string& ConnectionHost::date() {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  if (now != date_of_ || date_.empty()) date_of_ = now, date_ = http_date(now);
  return date_;
}

Connection::Connection(StreamProtocol::socket socket, std::shared_ptr<ConnectionHost> host, bool spare)
    : socket_(std::move(socket)),
      deadline_(socket_.get_executor()),
      looking_(socket_.get_executor()),
      host_(std::move(host)),
      spare_(spare) {
  peer_ = name_of_peer(socket_);
  unix_socket_ = peer_ == "unix";
  in_open_ = host_->open.insert(host_->open.end(), this);
  ++host_->open_count, ++host_->accepted;
}

Connection::~Connection() {
  if (exchange_) exchange_->gone();
  close();
}

void Connection::leave_idle() {
  if (in_idle_) host_->idle.erase(*in_idle_);
  in_idle_.reset();
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  leave_idle();
  hold_reply(0);
  host_->open.erase(in_open_);
  --host_->open_count;
  Failure ignored;
  looking_.cancel(ignored);
  deadline_.cancel(ignored);
  static_cast<void>(socket_.shutdown(asio::socket_base::shutdown_both, ignored));
  static_cast<void>(socket_.close(ignored));
}

// Closing the socket ends reads and writes with an error. A wait that was over before its end was moved still comes
// here.
void Connection::expire_at(Clock::time_point end) {
  deadline_.expires_at(end);
  if (end == Clock::time_point::max()) return;
  deadline_.async_wait([weak = weak_from_this()](Failure failure) {
    const auto self = weak.lock();
    if (failure || !self || self->deadline_.expiry() > Clock::now()) return;
    static_cast<void>(self->socket_.close(failure));
  });
}

void Connection::lost() {
  if (exchange_) exchange_->gone();
  exchange_.reset();
  outflow_.reset();
  close();
}

std::string_view Connection::buffered() const {
  return {static_cast<const char*>(buffer_.data().data()), buffer_.data().size()};
}

// Of a connection that was closed meanwhile a reply may still turn out to be written: nothing is read from it, and it
// must not stand among the idle ones again.
void Connection::read() {
  if (closed_ || host_->closing) return close();
  if (!in_idle_) in_idle_ = host_->idle.insert(host_->idle.end(), this);
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(host_->limits.header_bytes));
  parser_->body_limit(host_->limits.body_bytes);
  parser_->get().body() = BodyBytes(host_->bodies);
  searched_ = 0;
  expire_at(Clock::now() + std::chrono::seconds(host_->limits.read_seconds));
  read_head();
}

// The head is read whole before it is parsed. Bytes behind it stay in the buffer: a body, or the next request.
void Connection::read_head() {
  buffer_.consume(size_of_empty_lines(buffered()));
  if (const std::string fault = fault_of_begin(buffered()); !fault.empty()) return refuse(400, fault);
  const size_t size = size_of_head(buffered(), searched_);
  searched_ = buffered().size();
  if (size > 0 || searched_ > host_->limits.header_bytes) return take_head(size);
  socket_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](Failure failure, size_t count) {
    if (failure || self->closed_) return self->close();
    self->buffer_.commit(count);
    self->read_head();
  });
}

void Connection::take_head(size_t size) {
  if (size == 0 || size > host_->limits.header_bytes)
    return refuse(431, fmt::format("the headers are longer than {} bytes", host_->limits.header_bytes));
  const std::string_view head = buffered().substr(0, size);
  if (const std::string fault = fault_of_head(head); !fault.empty()) return refuse(400, fault);
  Failure failure;
  parser_->put(asio::buffer(head.data(), head.size()), failure);
  buffer_.consume(size);
  if (failure) return refuse_reading(failure);
  if (const std::string fault = fault_of_fields(parser_->get()); !fault.empty()) return refuse(400, fault);
  if (parser_->is_done()) return handle();
  // curl waits for this before it sends a long body. HTTP/1.0 has no interim replies.
  const auto& request = parser_->get();
  if (request.version() >= 11 && beast::iequals(request[http::field::expect], "100-continue") && !send_interim())
    return close();
  parser_->eager(true);
  read_body();
}

// Takes the bytes in the buffer, then the rest as it comes. The head of a chunk stays in the buffer until it is whole.
void Connection::read_body() {
  Failure failure;
  if (buffer_.size() > 0) buffer_.consume(parser_->put(buffer_.data(), failure));
  if (failure && failure != http::error::need_more) return refuse_reading(failure);
  if (parser_->is_done()) return handle();
  if (buffer_.size() > host_->limits.header_bytes)
    return refuse(400, fmt::format("the head of a chunk is longer than {} bytes", host_->limits.header_bytes));
  socket_.async_read_some(buffer_.prepare(kReadBytes), [self = shared_from_this()](Failure broken, size_t count) {
    if (broken || self->closed_) return self->close();
    self->buffer_.commit(count);
    self->read_body();
  });
}

void Connection::refuse_reading(Failure failure) {
  if (failure == http::error::body_limit)
    return refuse(413, fmt::format("the body is longer than {} bytes", host_->limits.body_bytes));
  if (failure == http::error::buffer_overflow)
    return refuse(503, "the bodies of other requests take all the memory that there is for them; try again later");
  refuse(400, "this is no HTTP request: " + failure.message());
}

// The handler replies to it, so that it stands in the log and has the headers that a browser needs.
void Connection::refuse(int status, const std::string& message) {
  unread_ = true;
  handle(ApiError(status, message));
}

void Connection::handle(const std::optional<ApiError>& fault) {
  auto& request = parser_->get();
  keep_alive_ = request.keep_alive() && !fault && !spare_;
  head_ = request.method() == http::verb::head;
  http11_ = request.version() >= 11;
  HttpRequest asked = plain_request(request);
  asked.peer = peer_, asked.unix_socket = unix_socket_, asked.spare = spare_;
  asked.fault = fault;
  leave_idle();
  expire_at(Clock::time_point::max());
  const auto reply_to = [weak = weak_from_this(), loop = host_->loop](HttpReply reply) {
    loop->post([weak, reply = std::move(reply)]() mutable {
      if (const auto self = weak.lock(); self && self->exchange_) self->write(std::move(reply));
    });
  };
  exchange_ = std::make_shared<Exchange>(std::move(asked), fault ? BodyBytes() : std::move(request.body()), reply_to);
  parser_.reset();
  replying_ = false;
  asked_ = {}, asks_ = 0;
  watch();
  answer_guarded(*exchange_, [&] { host_->handler(exchange_); });
}

// A client that goes away while it is being answered is not computed for. The socket tells when there is something to
// read: the client's end, or its next request, which is left where it is until this one has been answered.
void Connection::watch() {
  if (watching_) return;
  watching_ = true;
  socket_.async_wait(asio::socket_base::wait_read, [self = shared_from_this()](Failure failure) {
    self->watching_ = false;
    if (!failure && self->exchange_) self->look();
  });
}

void Connection::look() {
  const os::Peer peer = os::look_at_peer(static_cast<os::Socket>(socket_.native_handle()));
  if (peer == os::Peer::silent) return watch();
  if (peer == os::Peer::lost || (peer == os::Peer::ended && !may_be_there())) return lost();
  // Reading does not wait any more, so the socket is looked at again: soon after an interim reply or a ping was sent,
  // which a client that has gone answers with a reset; otherwise now and then.
  watching_ = true;
  constexpr auto kSoon = std::chrono::milliseconds(10), kLater = std::chrono::milliseconds(100);
  looking_.expires_after(Clock::now() - asked_ < kLater ? kSoon : kLater);
  looking_.async_wait([self = shared_from_this()](Failure failure) {
    self->watching_ = false;
    if (!failure && self->exchange_) self->look();
  });
}

// The client has ended its direction of the connection: it has gone, or waits for the reply to its last request.
// Sending to it tells which: the system of a client that has gone answers with a reset. In HTTP/1.1 a client skips
// interim replies, but some only five; HTTP/1.0 has none, and such a client counts as gone where its reply takes longer
// than one look. So four are sent, at growing distances; later the system's own probes tell (set_options()).
bool Connection::may_be_there() {
  if (replying_ && !outflow_) return true;  // the reply tells
  constexpr int kMostAsks = 4;
  if (asks_ > 0 && (asks_ == kMostAsks || Clock::now() < asked_ + std::chrono::seconds(10) * (1 << (asks_ - 1))))
    return http11_ || outflow_;
  const bool again = asks_++ > 0;
  asked_ = Clock::now();
  if (!http11_ && !outflow_) return !again;
  if (outflow_) {
    asks_ = 1;  // a stream has no end of pings
    outflow_->ping();
    return true;
  }
  return send_interim();
}

// False: the client has gone.
bool Connection::send_interim() {
  constexpr std::string_view kInterim = "HTTP/1.1 100 Continue\r\n\r\n";
  return os::send_now(static_cast<os::Socket>(socket_.native_handle()), kInterim);
}

void Connection::set_head(const HttpReply& reply, bool chunked) {
  const auto status = http::int_to_status(static_cast<unsigned>(reply.status));
  const boost::string_view reason = http::obsolete_reason(status);
  head_text_ = fmt::format("HTTP/1.{} {} {}\r\nDate: {}\r\nContent-Type: {}\r\n", http11_ ? 1 : 0, reply.status,
                           std::string_view(reason.data(), reason.size()), host_->date(), reply.type);
  const auto add = [this](std::string_view name, std::string_view value) {
    head_text_ += fmt::format("{}: {}\r\n", name, value);
  };
  for (const auto& [name, value] : reply.headers) add(name, value);
  add("X-Content-Type-Options", "nosniff");
  if (reply.stream) {
    add("Cache-Control", "no-cache");
    add("X-Accel-Buffering", "no");  // a reverse proxy hands events on at once
    if (chunked) add("Transfer-Encoding", "chunked");
  } else {
    add("Content-Length", std::to_string(reply.body.size()));
  }
  if (keep_alive_ != http11_) add("Connection", keep_alive_ ? "keep-alive" : "close");
  head_text_ += "\r\n";
}

// Sends head_text_ and chunk_ as fast as the client takes them.
template <class Done>
void Connection::send(Done done) {
  const std::chrono::duration<double> limit(host_->limits.write_seconds);
  if (std::exchange(caught_up_, false)) pace_.begin(Clock::now(), std::chrono::duration_cast<Clock::duration>(limit));
  sent_ = 0;
  hold_reply(std::ssize(head_text_) + std::ssize(chunk_));
  make_room();
  send_rest(std::move(done));
}

template <class Done>
void Connection::send_rest(Done done) {
  const size_t head = std::min(sent_, head_text_.size());
  const std::array<asio::const_buffer, 2> rest = {asio::buffer(head_text_) + head,
                                                  asio::buffer(chunk_) + (sent_ - head)};
  expire_at(pace_.end());
  socket_.async_write_some(rest, [self = shared_from_this(), done = std::move(done)](Failure failure, size_t count) {
    self->sent_ += count;
    self->pace_.took(count, Clock::now());
    if (!failure && self->sent_ < self->head_text_.size() + self->chunk_.size()) return self->send_rest(done);
    self->head_text_.clear();
    self->chunk_ = {};
    self->hold_reply(0);
    done(failure);
  });
}

void Connection::hold_reply(int64_t bytes) {
  host_->unread_bytes += bytes - unread_bytes_;
  unread_bytes_ = bytes;
}

// Replies that their clients do not read have a bound together. Beyond it the longest of the others is given up, so
// that no ordinary one pays for it; this one may be read at once.
void Connection::make_room() {
  while (host_->open.size() > 1 && host_->unread_bytes > std::max(host_->limits.unread_bytes, unread_bytes_)) {
    const auto bytes = [this](const Connection* c) { return c == this ? 0 : c->unread_bytes_; };
    ++host_->pushed_out;
    (*std::ranges::max_element(host_->open, {}, bytes))->lost();
  }
}

void Connection::write(HttpReply reply) {
  replying_ = caught_up_ = true;
  keep_alive_ = keep_alive_ && !reply.close && !host_->closing;
  if (reply.stream && !head_) return write_stream(std::move(reply));
  set_head(reply, reply.stream != nullptr);
  chunk_ = head_ ? std::string() : std::move(reply.body);
  send([self = shared_from_this()](Failure failure) { self->written(failure); });
}

void Connection::written(Failure failure) {
  if (failure) return lost();
  if (outflow_) exchange_->stream_ended();
  exchange_.reset();
  outflow_.reset();
  if (keep_alive_) return read();
  unread_ ? linger() : close();
}

// Closing at once would reset the connection, and the client might lose the reply with the error.
void Connection::linger() {
  if (unread_) {
    Failure ignored;
    static_cast<void>(socket_.shutdown(asio::socket_base::shutdown_send, ignored));
    expire_at(Clock::now() + std::chrono::seconds(2));  // for all that still comes
    unread_ = false;
  }
  socket_.async_read_some(asio::buffer(ignored_), [self = shared_from_this()](Failure failure, size_t) {
    failure ? self->close() : self->linger();
  });
}

void Connection::write_stream(HttpReply reply) {
  keep_alive_ = keep_alive_ && http11_;
  set_head(reply, http11_);
  outflow_ = std::move(reply.stream);
  writing_ = true, last_ = false;
  woken_ = std::make_shared<std::atomic<bool>>(false);
  send([self = shared_from_this()](Failure failure) {
    self->writing_ = false;
    if (failure) return self->lost();
    if (!self->outflow_) return;
    self->outflow_->listen([weak = self->weak_from_this(), woken = self->woken_, loop = self->host_->loop] {
      if (woken->exchange(true)) return;
      try {
        loop->post([weak, woken] {
          *woken = false;
          if (const auto connection = weak.lock()) connection->pump();
        });
      } catch (...) {
        *woken = false;
        throw;
      }
    });
    self->pump();
  });
}

void Connection::pump() {
  if (writing_ || last_ || !outflow_) return;
  Outflow::Piece piece;
  try {
    piece = outflow_->take();
  } catch (const std::exception&) {  // half a reply was sent, so that no other can be
    return lost();
  }
  if (piece.bytes.empty() && !piece.last) {
    caught_up_ = true;
    return expire_at(Clock::time_point::max());
  }
  last_ = piece.last;
  exchange_->streamed(std::ssize(piece.bytes));
  chunk_ = http11_ && !piece.bytes.empty() ? fmt::format("{:x}\r\n{}\r\n", piece.bytes.size(), piece.bytes)
                                           : std::move(piece.bytes);
  if (http11_ && last_) chunk_ += "0\r\n\r\n";
  writing_ = true;
  send([self = shared_from_this()](Failure failure) {
    self->writing_ = false;
    if (failure) return self->lost();
    if (!self->outflow_) return;
    if (self->last_) return self->written({});
    self->pump();
  });
}

}  // namespace llada::serve
