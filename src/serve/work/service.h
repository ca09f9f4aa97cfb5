// The objects that routes work with: the model on its engine, admission, keys, counts; and the life of the server:
// loading, ready, draining. It knows no sockets; whoever has some passes requests to handle().
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "serve/http/access.h"
#include "serve/http/http.h"
#include "serve/work/batches.h"
#include "serve/work/metrics.h"
#include "serve/work/waiting_room.h"
#include "serve/work/workers.h"

namespace llada::serve {

class PendingAnswer;

struct ServiceOptions {
  RoomLimits admission = {};
  std::string name = {};          // the model's, in answers; empty: of its file
  double answer_seconds = 3600;   // most of one answer's
  double ping_seconds = 15;       // of silence before a stream sends a comment, so that no proxy cuts it; 0: never
  int64_t most_answers = 128;     // of one request: prompts times n
  int64_t kept_prefix_bytes = 0;  // of K/V between requests, of a block-causal model
  int threads = 0;                // of the engine's share of the device; 0: the device itself
  int64_t row_budget = 0;         // rows of a forward; 0: learned
  HostNames hosts = {};           // by which requests may call the server, beside this machine's and addresses
  bool strict = false;            // fields that have no effect here are refused
  bool strict_model = false;      // only the model's own name is answered
  std::array<double, kQuestionKinds> temperatures = {1, 1, 1};  // of decisions, by kind of question
  Origins cors = {};                                      // further web pages that may send requests from a browser
  std::function<void(const std::string& line)> log = {};  // one JSON object per request, and warnings; from any thread
  std::function<ServerCounts()> connections = {};         // for the metrics
};

class Service {
 public:
  explicit Service(ServiceOptions options);
  // Cancels the answers that are not finished. Callers of handle() have ended before.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Before set_model(): files and batches are kept in this folder.
  Status keep_batches(const std::string& folder, const BatchLimits& limits);
  // Requests are taken from now on. Failed: the model has no tokenizer, or its device gave up.
  Status set_model(std::shared_ptr<const Model> model);
  void set_keys(std::vector<std::string> keys);  // empty: requests need none

  // Answers the request, now or later. From any thread; returns at once.
  void handle(std::shared_ptr<Exchange> exchange);

  // Does a request's work, in which so many bytes are read or cut into tokens: here or, where it would take long, on a
  // worker. Drops it if the client has gone by then.
  void go_on(const std::shared_ptr<Exchange>& exchange, size_t bytes, const std::function<void()>& work);

  // Takes on no more requests; waits until all have been answered, at most so long, then cancels the rest and waits for
  // these.
  void drain(double seconds);

  // For routes; only while ready().
  bool ready() const { return state_ == State::ready; }
  bool loading() const { return state_ == State::loading; }
  const Model& model() const { return *model_; }
  const std::shared_ptr<const Model>& shared_model() const { return model_; }
  Engine& engine() const { return *engine_; }
  WaitingRoom& room() { return room_; }
  Metrics& metrics() { return metrics_; }
  Workers& workers() { return workers_; }
  Batches* batches() { return batches_.get(); }  // null: nothing is kept
  const ServiceOptions& options() const { return options_; }
  // Whose files and batches a request is shown (batches.h).
  std::string asker(const HttpRequest& request) const;
  std::string name() const;
  int64_t created() const { return created_; }  // seconds since 1970, of the model's loading
  Metrics::Now now() const;

  // Answers that are under way, for drain().
  bool began(std::shared_ptr<PendingAnswer> answer);  // false: nothing begins any more
  void ended(const std::shared_ptr<PendingAnswer>& answer);
  void log(const Json& fields) const {
    if (options_.log) options_.log(log_line(fields));
  }

 private:
  enum class State { loading, ready, draining };
  // The reply to a request that no route may answer; nothing: the route may.
  std::optional<HttpReply> refusal(const HttpRequest& request, const struct Route* route) const;
  bool has_key(const HttpRequest& request) const;
  void give(const std::shared_ptr<Exchange>& exchange, WorkSize size, std::function<void()> work);
  void tell_ends(Exchange& exchange, const struct Route* route);
  void tick();

  const ServiceOptions options_;
  std::atomic<State> state_ = State::loading;
  std::atomic<bool> loaded_ = false;
  std::atomic<int64_t> next_ = 0, created_ = 0;
  std::shared_ptr<const Model> model_;
  WaitingRoom room_;
  Metrics metrics_;
  mutable std::mutex mutex_;  // guards the members below, up to stopping_
  std::condition_variable changed_;
  std::vector<std::string> keys_;
  std::set<std::shared_ptr<PendingAnswer>> jobs_;
  bool stopping_ = false;
  // Who uses whom: jobs, the engine's thread, the workers' threads and the ticker use all that stands above them, and
  // hold no owner of it. The engine's thread gives to the workers, whose threads use the engine. So the destructor ends
  // in this order: the batches' thread and jobs (drain), the ticker, the workers' threads, the engine's thread, and
  // only then the objects.
  Workers workers_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Batches> batches_;
  std::thread ticker_;
};

}  // namespace llada::serve
