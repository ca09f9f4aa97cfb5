// The server's own queue before the engine's: so many answers run at a time, and only while the memory that they may
// come to hold, which is known before they begin, fits in a budget; so many requests wait, no longer than a bound; the
// rest is refused. Those that wait take turns: of each request one answer, then of the next, so that
// nobody waits behind all the answers of another. A request of a batch gives way: it begins while no other waits, and
// all of them leave one place to others. Usable from any thread; nothing is called under a lock.
#pragma once
#include <chrono>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "engine/likelihood.h"
#include "engine/ready_request.h"

namespace llada::serve {

// The most memory that an answer holds beside the model, in bytes: while it is computed (the engine's part, its text in
// all forms, a stream's notes of its steps, its JSON), and from its end until it has been sent.
struct AnswerBytes {
  double computed = 0, kept = 0;  // kept is a part of computed
};
// prompt_score: bytes of the scores of its prompt's tokens, which are computed before it; 0: there are none.
AnswerBytes answer_bytes(const RequestBytes& engine, const Request& request, double prompt_score = 0);

// The score of a prompt of two or more tokens.
ScoreRequest prompt_score(const Request& request);

struct AdmissionLimits {
  int64_t running = 8;    // answers
  int64_t waiting = 256;  // requests, and as many further answers of theirs
  double kv_bytes = 0;    // most that all answers hold together; 0: no bound
  double wait_seconds = 600;
};

struct AdmissionCounts {
  int64_t running = 0, waiting = 0;  // answers
  double kv_bytes = 0;  // of those that run, of those that have ended and were not handed on, and of hold()
};

class Admission {
 public:
  using Id = int64_t;
  struct Ticket {  // of one answer
    AnswerBytes bytes;
    std::function<void()> start, expired;  // one of the two is called, unless leave() comes first
  };

  explicit Admission(const AdmissionLimits& limits) : limits_(limits) {}

  // The answers of one request, all of them or none: nothing where the queue has no room for those that cannot begin at
  // once. An id is known before its start() is called: `known` is told them. gives_way: as a batch's do.
  bool enter(std::vector<Ticket> tickets, const std::function<void(const std::vector<Id>&)>& known,
             bool gives_way = false);
  // Bytes that a request holds from the beginning, until nobody has what is returned; null: no room for them beside
  // what is held and what those that wait need to come to their end. Those of a common request are not counted.
  std::shared_ptr<void> hold(double bytes);
  static double counted(double bytes);  // of them
  // Bytes without which a request could not come to its end: those that all its answers keep, and the rest of one that
  // is being computed.
  static double needed(const std::vector<Ticket>& tickets);
  bool could_hold(double bytes) const { return limits_.kv_bytes <= 0 || bytes <= limits_.kv_bytes; }
  void computed(Id id);  // from now on it holds its kept bytes alone
  void leave(Id id);     // was handed on, or need not begin
  void expire();         // ends the waiting of requests that have waited too long, but for those that give way
  AdmissionCounts counts() const;
  const AdmissionLimits& limits() const { return limits_; }

 private:
  struct Waiting {
    Id id;
    Ticket ticket;
  };
  struct Party {  // answers of one request that wait
    std::deque<Waiting> waiting;
    std::chrono::steady_clock::time_point since;
    double kept = 0, needed = 0;  // bytes that they keep; that they need to come to their end
    bool begun = false;           // their kept bytes are counted
    bool gives_way = false;
  };
  struct Held {
    double kept = 0, more = 0;  // more: while it is computed
    bool running = true, gives_way = false;
  };
  bool may_have_place(const Party& party) const;
  bool fits(double bytes) const { return could_hold(bytes_ + bytes); }
  std::function<void()> begin(Party& party);
  void start_some();

  const AdmissionLimits limits_;
  mutable std::mutex mutex_;  // guards what follows
  Id next_ = 0;
  std::map<Id, Held> held_;
  int64_t running_ = 0, giving_way_ = 0;  // of those that run, so many give way
  int64_t answers_waiting_ = 0;
  double bytes_ = 0;          // of all; whole numbers, so that sums are exact
  double texts_ = 0;          // of them: of hold()
  std::list<Party> waiting_;  // whose turn is next, first
};

}  // namespace llada::serve
