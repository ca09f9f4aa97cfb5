// One connection: reads a request, hands it on, writes the reply, and so on while the client keeps it open. Everything
// here runs on the server's one thread; replies and news come from other threads and are posted to it.
#pragma once
// clang-format off
#include <utility>  // first: Boost 1.74 uses it and does not include it
// clang-format on
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "serve/http/beast_head.h"
#include "serve/http/reading_pace.h"
#include "serve/http/server.h"

namespace llada::serve {

using StreamProtocol = boost::asio::generic::stream_protocol;
class Connection;

// The way to the server's thread for other threads, which may still have something to say when it has ended.
class Loop {
 public:
  explicit Loop(boost::asio::io_context& io) : io_(&io) {}

  template <class Call>
  void post(Call call) {
    const std::lock_guard lock(mutex_);
    if (io_ != nullptr) boost::asio::post(*io_, std::move(call));
  }
  void close() {
    const std::lock_guard lock(mutex_);
    io_ = nullptr;
  }

 private:
  std::mutex mutex_;  // guards io_
  boost::asio::io_context* io_;
};

// The state that connections share. On the server's thread alone, but for the counts and the loop.
struct ConnectionHost {
  ServerLimits limits;
  std::shared_ptr<BodyBudget> bodies;  // of all connections
  int64_t unread_bytes = 0;            // of replies that are being written
  Server::Handler handler;
  std::shared_ptr<Loop> loop;
  bool closing = false;               // no further request is read
  std::list<Connection*> open, idle;  // idle: nothing is answered on them; that which waits for longest first
  std::atomic<int64_t> open_count = 0, accepted = 0, pushed_out = 0;

  const std::string& date();  // now, as the header has it

 private:
  std::string date_;
  std::chrono::sys_seconds date_of_{};
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // spare: one more than may be open (HttpRequest::spare).
  Connection(StreamProtocol::socket socket, std::shared_ptr<ConnectionHost> host, bool spare);
  ~Connection();
  void read();
  void close();
  bool busy() const { return exchange_ != nullptr; }

 private:
  using Request = boost::beast::http::request_parser<CountedBody>;
  using Failure = boost::beast::error_code;
  void read_head();
  void take_head(size_t size);
  void read_body();
  void refuse_reading(Failure failure);
  void refuse(int status, const std::string& message);
  void handle(const std::optional<ApiError>& fault = {});
  void watch();
  void look();
  bool may_be_there();
  bool send_interim();
  void write(HttpReply reply);
  void hold_reply(int64_t bytes);
  void make_room();
  void set_head(const HttpReply& reply, bool chunked);
  template <class Done>
  void send(Done done);
  template <class Done>
  void send_rest(Done done);
  void write_stream(HttpReply reply);
  void pump();
  void written(Failure failure);
  void linger();
  void lost();
  void leave_idle();
  void expire_at(std::chrono::steady_clock::time_point end);
  std::string_view buffered() const;

  StreamProtocol::socket socket_;
  boost::asio::steady_timer deadline_;  // when the read or write in progress has to be over
  boost::asio::steady_timer looking_;   // until look() is called again
  std::shared_ptr<ConnectionHost> host_;
  std::list<Connection*>::iterator in_open_;
  std::optional<std::list<Connection*>::iterator> in_idle_;
  std::string peer_;
  bool unix_socket_ = false, closed_ = false;
  const bool spare_;
  boost::beast::flat_buffer buffer_;
  size_t searched_ = 0;  // bytes of the buffer in which a head's end was looked for
  std::optional<Request> parser_;
  std::shared_ptr<Exchange> exchange_;  // the request that is being answered
  bool keep_alive_ = false, head_ = false, http11_ = false;
  bool unread_ = false;                            // the client may still be sending a refused request
  char ignored_[4096];                             // of that
  bool watching_ = false;                          // for the client's end of the connection
  int64_t unread_bytes_ = 0;                       // of ConnectionHost::unread_bytes
  bool replying_ = false;                          // a reply is being written
  std::chrono::steady_clock::time_point asked_{};  // whether the client is there: when, at last
  int asks_ = 0;                                   // of this request
  std::string head_text_, chunk_;                  // being written, one behind the other
  size_t sent_ = 0;                                // bytes of the two
  ReadingPace pace_;
  bool caught_up_ = true;  // the client has taken all that there was
  std::shared_ptr<Outflow> outflow_;
  bool writing_ = false, last_ = false;
  std::shared_ptr<std::atomic<bool>> woken_;  // pump() is posted and has not run
};

}  // namespace llada::serve
