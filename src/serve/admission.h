// Who may begin. The server's own queue before the engine's: so many answers run at a time, and only while the memory
// that they may come to hold (answer_bytes), which is known before they begin, fits in a budget; so many wait, in the
// order in which they came, no longer than a bound; the rest is refused. Usable from any thread; nothing is called
// under a lock.
#pragma once
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "engine/likelihood.h"
#include "engine/request.h"

namespace llada::serve {

// What an answer holds at most beside the model: what the engine needs for it (request_bytes), its text in all forms, a
// stream's notes of its steps, and its JSON. scores_prompt: its prompt's tokens are scored before.
double answer_bytes(const Model& model, const Request& request, bool scores_prompt = false, int64_t row_budget = 0);

// The score of a prompt of two or more tokens.
ScoreRequest prompt_score(const Request& request);

struct AdmissionLimits {
  int64_t running = 8, waiting = 256;
  double kv_bytes = 0;  // most that all running answers hold together; 0: no bound
  double wait_seconds = 600;
};

struct AdmissionCounts {
  int64_t running = 0, waiting = 0;
  double kv_bytes = 0;  // of those that run
};

class Admission {
 public:
  using Id = int64_t;
  struct Ticket {
    double kv_bytes = 0;
    std::function<void()> start, expired;  // one of the two is called, unless leave() comes first
  };

  explicit Admission(const AdmissionLimits& limits) : limits_(limits) {}

  // All of them or none: nothing where the queue has no room for those that cannot begin at once. An id is known before
  // its start() is called: `known` is told them.
  bool enter(std::vector<Ticket> tickets, const std::function<void(const std::vector<Id>&)>& known);
  // Whether so much could ever be held.
  bool could_hold(double kv_bytes) const { return limits_.kv_bytes <= 0 || kv_bytes <= limits_.kv_bytes; }
  void leave(Id id);  // has ended, or need not begin
  void expire();      // ends the waiting of those that have waited too long
  AdmissionCounts counts() const;
  const AdmissionLimits& limits() const { return limits_; }

 private:
  struct Waiting {
    Id id;
    Ticket ticket;
    std::chrono::steady_clock::time_point since;
  };
  bool fits(double kv_bytes) const;
  void start_some();

  const AdmissionLimits limits_;
  mutable std::mutex mutex_;  // guards what follows
  Id next_ = 0;
  std::map<Id, double> running_;  // id to bytes
  double kv_bytes_ = 0;
  std::deque<Waiting> waiting_;
};

}  // namespace llada::serve
