// A server in this process, on a port of its own, with the shipped tiny model.
#pragma once
#include <gtest/gtest.h>

#include <memory>

#include "engine/decode_choice.h"
#include "engine/golden.h"
#include "must.h"
#include "serve/client.h"
#include "serve/http/server.h"
#include "serve/work/ask.h"
#include "serve/work/service.h"

namespace llada::serve {

inline const std::shared_ptr<const Model>& tiny_model() {
  static const auto kModel = load_model(LLADA_SOURCE_DIR "/models/tiny-llada");
  return kModel;
}

inline nlohmann::json chat_body(const std::string& text, nlohmann::json more = nlohmann::json::object()) {
  more["messages"] = {{{"role", "user"}, {"content", text}}};
  return more;
}
inline std::string chat_request(const nlohmann::json& body) {
  return http_request("POST", "/v1/chat/completions", body.dump());
}

// A reply as it is; where its status is another than 200 the test ends.
inline Received ok(Received reply) {
  if (reply.status != 200) throw std::runtime_error(fmt::format("status {}: {}", reply.status, reply.body));
  return reply;
}

// What a reply with this status says of the error.
inline nlohmann::json error_of(const Received& reply, int status = 400) {
  EXPECT_EQ(reply.status, status) << reply.body.substr(0, 300);
  return reply.json().value("error", nlohmann::json::object());
}

class ServeTest : public testing::Test {
 protected:
  ServiceOptions options{.name = "tiny", .row_budget = 256};
  ServerLimits limits;
  ServerAddress address{.port = 0};

  void start(bool load = true) {
    if (log_) options.log = log_;
    options.connections = [this] { return server ? server->counts() : ServerCounts(); };
    service = std::make_unique<Service>(options);
    auto opened = must(Server::open(address, limits, [this](auto exchange) { service->handle(std::move(exchange)); }));
    server = std::move(*opened);
    if (!load) return;
    ASSERT_TRUE(service->set_model(tiny_model()));
  }

  void TearDown() override {
    if (service) service->drain(0);
    server.reset();  // before the service: it hands requests to it
  }

  Received post(const std::string& path, const nlohmann::json& body) { return ask(server->port(), "POST", path, body); }
  Received post_chat(const std::string& text, nlohmann::json more = nlohmann::json::object()) {
    return post("/v1/chat/completions", chat_body(text, std::move(more)));
  }
  Received get(const std::string& path) { return ask(server->port(), "GET", path); }

  // The value of a metric, of the first line that begins with `name`.
  double metric(const std::string& name) {
    const std::string text = "\n" + get("/metrics").body;
    const size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }

  // Waits until the metric has the value.
  bool becomes(const std::string& name, double value, double seconds = 30) {
    for (int i = 0; i < seconds * 100; ++i) {
      if (metric(name) == value) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  // The lines of the log from now on, until the test ends.
  void keep_log() {
    log_ = [this](const std::string& line) {
      const std::lock_guard lock(log_mutex_);
      log_lines_.push_back(nlohmann::json::parse(line));
    };
  }
  // Those of requests with this path.
  std::vector<nlohmann::json> logged(const std::string& path) {
    const std::lock_guard lock(log_mutex_);
    std::vector<nlohmann::json> found;
    for (const auto& line : log_lines_)
      if (line["event"] == "request" && line["path"] == path) found.push_back(line);
    return found;
  }

  std::function<void(const std::string&)> log_;
  std::mutex log_mutex_;  // guards what follows
  std::vector<nlohmann::json> log_lines_;
  std::unique_ptr<Service> service;
  std::unique_ptr<Server> server;
};

// What `llada run` answers to a message with these options; seed: where tokens are sampled.
inline Generation run_alone(const std::vector<int32_t>& prompt,
                            const std::vector<std::pair<std::string, std::string>>& given,
                            const std::string& preset = "", std::vector<std::string> stop = {}) {
  DecodeChoice choice;
  choice.use_defaults();
  if (!preset.empty()) choice.give_preset(preset);
  for (const auto& [key, value] : given) choice.give(decode::setting(key, value).value());
  if (!choice.resolve()) throw std::runtime_error("options");
  const Request request{.tokens = prompt, .options = choice.options, .stop = std::move(stop)};
  return *must(open_session(tiny_model())->run(prepare(*tiny_model(), request).value(), {}));
}

// Of an answer to it.
inline AnswerBytes bytes_of(const Request& request) {
  const Ready ready = prepare(*tiny_model(), request).value();
  return answer_bytes(ready->bytes, ready->request);
}

inline std::vector<int32_t> chat_prompt(const std::string& text) {
  const ChatMessage message{"user", text};
  return tiny_model()->chat_ids({&message, 1}).value();
}

inline const std::string kSum = "There are 40 rings in the bag of Liam. He gives 11 to Cleo. How many rings are left?";

}  // namespace llada::serve
