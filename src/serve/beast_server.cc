// The server over Boost.Asio: accepts on a port or a UNIX socket, counts connections, and runs the loop that serves
// them all on one thread.
#include <netinet/tcp.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <set>
#include <thread>

#include "serve/beast_connection.h"

namespace llada::serve {
namespace {

namespace asio = boost::asio;
using Failure = boost::system::error_code;
using Acceptor = asio::basic_socket_acceptor<StreamProtocol>;

class BeastServer : public Server {
 public:
  explicit BeastServer(const ServerLimits& limits, Handler handler) : acceptor_(io_), retry_(io_) {
    host_ = std::make_shared<ConnectionHost>();
    host_->limits = limits;
    host_->handler = std::move(handler);
    host_->opened = [this] { ++open_, ++accepted_; };
    host_->closed = [this] {
      --open_;
      if (paused_) paused_ = false, accept();
    };
    host_->refused = [this] { ++refused_; };
  }

  Status listen(const ServerAddress& address) {
    const auto open = [&]() -> Failure {
      Failure failure;
      StreamProtocol::endpoint endpoint;
      if (!address.socket.empty()) {
        if (address.socket.size() >= 108) return asio::error::name_too_long;
        socket_path_ = address.socket;
        endpoint = asio::local::stream_protocol::endpoint(address.socket);
      } else {
        asio::ip::tcp::resolver resolver(io_);
        const auto found = resolver.resolve(address.host, std::to_string(address.port), failure);
        if (failure) return failure;
        endpoint = found.begin()->endpoint();
      }
      acceptor_.open(endpoint.protocol(), failure);
      if (failure) return failure;
      if (socket_path_.empty()) acceptor_.set_option(asio::socket_base::reuse_address(true));
      acceptor_.bind(endpoint, failure);
      if (failure) {
        socket_path_.clear();  // another server's
        return failure;
      }
      acceptor_.listen(asio::socket_base::max_listen_connections, failure);
      return failure;
    };
    if (const Failure failure = open(); failure) {
      const std::string where =
          address.socket.empty() ? fmt::format("{}:{}", address.host, address.port) : address.socket;
      return invalid("{}: cannot listen there: {}", where, failure.message());
    }
    if (socket_path_.empty()) {
      const auto bound = acceptor_.local_endpoint();
      asio::ip::tcp::endpoint tcp;
      std::memcpy(tcp.data(), bound.data(), bound.size());
      port_ = tcp.port();
    }
    accept();
    thread_ = std::thread([this] { io_.run(); });
    return {};
  }

  ~BeastServer() override {
    finish(0);
    io_.stop();
    if (thread_.joinable()) thread_.join();
    connections_.clear();
    host_->closed = [] {};  // what waits in io_ keeps connections until that is gone
    if (!socket_path_.empty()) ::unlink(socket_path_.c_str());
  }

  int port() const override { return port_; }
  ServerCounts counts() const override { return {open_, accepted_, refused_}; }

  void finish(double seconds) override {
    if (!thread_.joinable()) return;
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (;;) {
      std::promise<bool> busy;
      asio::post(io_, [&] { busy.set_value(close_idle()); });
      if (!busy.get_future().get() || std::chrono::steady_clock::now() >= end) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

 private:
  bool close_idle() {
    Failure ignored;
    acceptor_.close(ignored);
    host_->closing = true;
    bool busy = false;
    for (const auto& weak : connections_)
      if (const auto connection = weak.lock()) connection->busy() ? busy = true : (connection->close(), false);
    return busy;
  }

  void accept() {
    acceptor_.async_accept([this](Failure failure, StreamProtocol::socket socket) {
      if (!acceptor_.is_open()) return;
      if (failure) return wait_a_little();  // no descriptor was left
      if (socket_path_.empty()) set_options(socket);
      std::erase_if(connections_, [](const auto& weak) { return weak.expired(); });
      auto connection = std::make_shared<Connection>(std::move(socket), host_);
      connections_.insert(connection);
      connection->read();
      if (open_ >= host_->limits.connections) {
        paused_ = true;
      } else {
        accept();
      }
    });
  }

  // Events leave at once; what a slow reader leaves in the kernel is bounded; a client that vanished without a word is
  // found within two minutes.
  void set_options(StreamProtocol::socket& socket) const {
    Failure ignored;
    socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::send_buffer_size(host_->limits.send_buffer_bytes), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    using Idle = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPIDLE>;
    using Interval = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPINTVL>;
    using Count = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPCNT>;
    socket.set_option(Idle(60), ignored);
    socket.set_option(Interval(15), ignored);
    socket.set_option(Count(4), ignored);
  }

  void wait_a_little() {
    retry_.expires_after(std::chrono::milliseconds(50));
    retry_.async_wait([this](Failure failure) {
      if (!failure && acceptor_.is_open()) accept();
    });
  }

  asio::io_context io_{1};
  // Without it the thread would end once nothing is open, and finish() would wait for an answer from it.
  asio::executor_work_guard<asio::io_context::executor_type> alive_{io_.get_executor()};
  Acceptor acceptor_;
  asio::steady_timer retry_;
  std::shared_ptr<ConnectionHost> host_;
  std::set<std::weak_ptr<Connection>, std::owner_less<>> connections_;
  std::atomic<int64_t> open_ = 0, accepted_ = 0, refused_ = 0;
  bool paused_ = false;  // as many connections as may be
  int port_ = 0;
  std::string socket_path_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::open(const ServerAddress& address, const ServerLimits& limits,
                                             Handler handler) {
  auto server = std::make_unique<BeastServer>(limits, std::move(handler));
  LLADA_TRY_STATUS(server->listen(address));
  return server;
}

}  // namespace llada::serve
