// The server over Boost.Asio: accepts on a port or a UNIX socket, keeps the number of connections in bounds, and runs
// the loop that serves them all on one thread.
#include <algorithm>
#include <cstring>
#include <future>
#include <thread>

#include "base/os.h"
#include "base/sockets.h"
#include "serve/http/access.h"
#include "serve/http/beast_connection.h"
#include "serve/http/local_endpoint.h"

namespace llada::serve {
namespace {

namespace asio = boost::asio;
using Failure = boost::system::error_code;
using Endpoint = StreamProtocol::endpoint;

// Beyond ServerLimits::connections: room to tell those who come then, and for /health.
constexpr size_t kSpare = 16;

int port_of(const Endpoint& endpoint) {
  asio::ip::tcp::endpoint tcp;
  std::memcpy(tcp.data(), endpoint.data(), std::min(endpoint.size(), tcp.capacity()));
  return tcp.port();
}

// Where it listens.
struct Listener {
  explicit Listener(asio::io_context& io) : acceptor(io), retry(io) {}

  Failure open(const Endpoint& endpoint, bool port) {
    Failure failure;
    if (acceptor.open(endpoint.protocol(), failure)) return failure;
    if (port) os::claim_port(static_cast<os::Socket>(acceptor.native_handle()));
    if (acceptor.bind(endpoint, failure)) return failure;
    return acceptor.listen(asio::socket_base::max_listen_connections, failure);
  }

  asio::basic_socket_acceptor<StreamProtocol> acceptor;
  asio::steady_timer retry;
};

// Whether the path is a socket that a server left behind: nobody listens there.
bool is_left_behind(const std::string& path, const Endpoint& endpoint) {
  const auto found = os::link_info(path);
  if (!found || found->kind != os::FileKind::socket) return false;
  asio::io_context io;
  StreamProtocol::socket socket(io);
  Failure failure;
  return socket.connect(endpoint, failure) == asio::error::connection_refused;
}

class BeastServer : public Server {
 public:
  explicit BeastServer(const ServerLimits& limits, Handler handler) {
    host_ = std::make_shared<ConnectionHost>();
    host_->limits = limits;
    host_->bodies = std::make_shared<BodyBudget>(std::max(limits.all_body_bytes, limits.body_bytes));
    host_->handler = std::move(handler);
    host_->loop = std::make_shared<Loop>(io_);
  }

  Status listen(const ServerAddress& address) {
    const Failure failure = address.socket.empty() ? listen_on(address.host, address.port) : listen_on(address.socket);
    if (failure) {
      const std::string where = address.socket.empty() ? host_and_port(address.host, address.port) : address.socket;
      return invalid("{}: cannot listen there: {}", where, failure.message());
    }
    for (const auto& listener : listeners_) accept(*listener);
    thread_ = std::thread([this] { run(); });
    return {};
  }

  ~BeastServer() override {
    finish(0);
    io_.stop();
    if (thread_.joinable()) thread_.join();
    host_->loop->close();
    const auto found = socket_path_.empty() ? std::nullopt : os::link_info(socket_path_);
    if (found && found->number == socket_file_) os::remove(socket_path_);
  }

  int port() const override { return port_; }
  std::vector<std::string> addresses() const override { return addresses_; }
  ServerCounts counts() const override {
    return {host_->open_count, host_->accepted, host_->pushed_out, static_cast<int64_t>(host_->bodies->held())};
  }

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
  // An exception on this thread is about one connection, which ends with the call that threw.
  void run() {
    for (;;) try {
        io_.run();
        return;
      } catch (const std::exception&) {
      }
  }

  // All addresses of a name, as localhost has two; one of a family that this machine lacks is left out. Where any
  // free port will do it is the same for all.
  Failure listen_on(const std::string& host, int port) {
    constexpr int kTries = 20;  // of free ports of one address, until one is free at the others
    Failure failure, absent;
    std::vector<asio::ip::tcp::endpoint> ends;
    if (host == "localhost") {  // both loopback addresses, whatever a hosts file says (RFC 6761, 6.3)
      for (const asio::ip::address& loopback :
           {asio::ip::address(asio::ip::address_v4::loopback()), asio::ip::address(asio::ip::address_v6::loopback())})
        ends.emplace_back(loopback, static_cast<unsigned short>(port));
    } else {
      asio::ip::tcp::resolver resolver(io_);
      const auto found = resolver.resolve(host, std::to_string(port), failure);
      if (failure) return failure;
      for (const auto& entry : found)
        if (std::ranges::find(ends, entry.endpoint()) == ends.end()) ends.push_back(entry.endpoint());
    }
    for (int i = 0; i < kTries; ++i) {
      listeners_.clear(), addresses_.clear(), failure = {}, port_ = port;
      for (asio::ip::tcp::endpoint end : ends) {
        end.port(static_cast<unsigned short>(port_));
        auto listener = std::make_unique<Listener>(io_);
        failure = listener->open(end, true);
        if (failure == asio::error::address_family_not_supported ||
            failure == boost::system::errc::address_not_available) {
          absent = std::exchange(failure, {});
          continue;
        }
        if (failure) break;
        port_ = port_of(listener->acceptor.local_endpoint());
        listeners_.push_back(std::move(listener));
        addresses_.push_back(host_and_port(end.address().to_string(), port_));
      }
      if (!failure) return listeners_.empty() ? absent : failure;
      if (port != 0 || failure != asio::error::address_in_use) break;
    }
    return failure;
  }

  Failure listen_on(const std::string& path) {
    Failure failure;
    const Endpoint endpoint = local_endpoint(path, failure);
    if (failure) return failure;
    auto listener = std::make_unique<Listener>(io_);
    failure = listener->open(endpoint, false);
    if (failure == asio::error::address_in_use && is_left_behind(path, endpoint)) {
      os::remove(path);
      listener = std::make_unique<Listener>(io_);
      failure = listener->open(endpoint, false);
    }
    if (failure) return failure;
    if (const auto made = os::link_info(path)) socket_path_ = path, socket_file_ = made->number;
    listeners_.push_back(std::move(listener));
    return {};
  }

  bool close_idle() {
    Failure ignored;
    for (const auto& listener : listeners_) static_cast<void>(listener->acceptor.close(ignored));
    host_->closing = true;
    bool busy = false;
    const auto open = host_->open;  // closing takes it out of the list
    for (Connection* connection : open) connection->busy() ? busy = true : (connection->close(), false);
    return busy;
  }

  void accept(Listener& listener) {
    listener.acceptor.async_accept([this, &listener](Failure failure, StreamProtocol::socket socket) {
      if (!listener.acceptor.is_open()) return;
      // No descriptor was left: whoever asks nothing keeps nobody out.
      if (failure) {
        const bool full = failure == boost::system::errc::too_many_files_open ||
                          failure == boost::system::errc::too_many_files_open_in_system;
        if (!full || host_->idle.empty()) return accept_later(listener, std::chrono::milliseconds(50));
        ++host_->pushed_out;
        host_->idle.front()->close();
        return accept_later(listener, std::chrono::milliseconds(0));
      }
      try {
        take(std::move(socket));
      } catch (const std::exception&) {  // nor memory
        return accept_later(listener, std::chrono::milliseconds(50));
      }
      accept(listener);
    });
  }

  // Whoever asks nothing keeps nobody out: the connection that has been idle for longest makes room.
  void take(StreamProtocol::socket socket) {
    const auto most = static_cast<size_t>(host_->limits.connections);
    if (host_->open.size() >= most) {
      const bool full = host_->idle.empty() && host_->open.size() >= most + kSpare;
      if (full || !host_->idle.empty()) ++host_->pushed_out;
      if (full) return;  // and so closes it
      if (!host_->idle.empty()) host_->idle.front()->close();
    }
    if (socket_path_.empty()) set_options(socket);
    std::make_shared<Connection>(std::move(socket), host_, host_->open.size() >= most)->read();
  }

  // Events leave at once; the bytes that wait in the kernel for a slow reader are bounded; a client that vanished
  // without a word is found within two minutes.
  void set_options(StreamProtocol::socket& socket) const {
    const auto set = [&](const auto& option) {
      Failure ignored;
      static_cast<void>(socket.set_option(option, ignored));
    };
    set(asio::ip::tcp::no_delay(true));
    set(asio::socket_base::send_buffer_size(host_->limits.send_buffer_bytes));
    os::probe_peer(static_cast<os::Socket>(socket.native_handle()), 60, 15, 4);
  }

  void accept_later(Listener& listener, std::chrono::milliseconds pause) {
    listener.retry.expires_after(pause);
    listener.retry.async_wait([this, &listener](Failure failure) {
      if (!failure && listener.acceptor.is_open()) accept(listener);
    });
  }

  std::shared_ptr<ConnectionHost> host_;
  asio::io_context io_{1};
  // Without it the thread would end once nothing is open, and finish() would wait for an answer from it.
  asio::executor_work_guard<asio::io_context::executor_type> alive_{io_.get_executor()};
  std::vector<std::unique_ptr<Listener>> listeners_;
  int port_ = 0;
  std::vector<std::string> addresses_;
  std::string socket_path_;  // empty: no UNIX socket
  uint64_t socket_file_ = 0;
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
