// A client of the server under test over plain sockets: it sends any bytes and reads what comes.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace llada::serve {

struct Received {
  int status = 0;
  std::string head, body;  // the body with its chunks joined
  bool complete = false;   // all of it came
  std::string header(const std::string& name) const;
  nlohmann::json json() const { return nlohmann::json::parse(body); }
  // The data of an event stream's events.
  std::vector<std::string> events() const;
};

class Client {
 public:
  explicit Client(int port, int receive_buffer = 0);
  explicit Client(const std::string& unix_socket);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(const std::string& bytes);
  // The next reply, for at most so long.
  Received receive(double seconds = 300);
  // Bytes until `text` has come, or the connection ended.
  bool wait_for(const std::string& text, double seconds = 300);
  bool closed(double seconds);  // by the server, within that time
  void close();
  void shut_down_writing();

 private:
  bool read_some(double seconds);
  int fd_ = -1;
  std::string pending_;
  bool ended_ = false;
};

std::string http_request(const std::string& method, const std::string& path, const std::string& body = "",
                         const std::string& headers = "");
Received ask(int port, const std::string& method, const std::string& path, const nlohmann::json& body = nullptr,
             const std::string& headers = "");

}  // namespace llada::serve
