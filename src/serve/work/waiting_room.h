// The queue before an engine (admission). A bounded number of answers run at a time, as long as the memory that they
// may hold, which is known before, fits in a budget. A bounded number of requests wait, for a bounded time; the rest is
// refused. The answers of one request are a group, admitted whole or not at all. Groups take turns, one answer of each,
// so that no request waits behind all the answers of another. Requests of low priority, as a batch's, begin only while
// no other waits, and leave one place to others. Usable from any thread; nothing is called under a lock.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace llada::serve {

// The most memory that an answer holds beside the model, in bytes: while it is computed, and from its end until it has
// been handed on.
struct AnswerBytes {
  double computed = 0, kept = 0;  // kept is a part of computed
};

struct RoomLimits {
  int64_t running = 8;    // answers
  int64_t waiting = 256;  // requests, and as many further answers of theirs
  double kv_bytes = 0;    // most that all answers hold together; 0: no bound
  double wait_seconds = 600;
};

struct RoomCounts {
  int64_t running = 0, waiting = 0;  // answers
  double kv_bytes = 0;  // of those that run, of those that have ended and were not handed on, and of hold()
};

class WaitingRoom {
 public:
  using Id = int64_t;
  struct Reservation {  // of one answer
    AnswerBytes bytes;
    std::function<void()> start, expired;  // one of the two is called, unless release() comes first
  };

  explicit WaitingRoom(const RoomLimits& limits) : limits_(limits) {}

  // Reserves the answers of one request, all or none. False: the queue has no room for those that cannot begin at once.
  // known: gets the ids, before any start() is called. low_priority: as for a batch.
  bool acquire(std::vector<Reservation> reservations, const std::function<void(const std::vector<Id>&)>& known,
               bool low_priority = false);
  // Reserves the bytes that a request holds while it waits, as long as the result lives. Null: no room for them beside
  // those that are held, and those that waiting requests need to end. The bytes of a common request are not counted.
  std::shared_ptr<void> hold(double bytes);
  static double counted(double bytes);  // the part that is counted
  // The fewest bytes with which a request can end: those that all its answers keep, and the rest of one that is
  // computed.
  static double needed(const std::vector<Reservation>& reservations);
  bool could_hold(double bytes) const { return limits_.kv_bytes <= 0 || bytes <= limits_.kv_bytes; }
  void shrink(Id id) noexcept;   // the answer has ended, and holds its kept bytes alone
  void release(Id id) noexcept;  // it was handed on, or need not begin
  // Called now and then: expires requests that have waited too long, but for those of low priority.
  void expire();
  RoomCounts counts() const;
  const RoomLimits& limits() const { return limits_; }

 private:
  struct Waiting {
    Id id;
    Reservation reservation;
  };
  struct Group {  // answers of one request that wait
    std::deque<Waiting> waiting;
    std::chrono::steady_clock::time_point since;
    double kept = 0, needed = 0;  // bytes that they keep; that they need to come to their end
    bool begun = false;           // their kept bytes are counted
    bool low_priority = false;
  };
  struct Held {
    double kept = 0, more = 0;  // more: while it is computed
    bool running = true, low_priority = false;
  };
  bool may_have_place(const Group& group) const;
  bool fits(double bytes) const { return could_hold(bytes_ + bytes); }
  bool stop(Held& held) noexcept;
  std::optional<Waiting> take_waiting(Id id) noexcept;
  std::function<void()> begin(std::list<Group>::iterator group);
  std::function<void()> next_start();
  void start_some() noexcept;

  const RoomLimits limits_;
  mutable std::mutex mutex_;  // guards the members below
  Id next_ = 0;
  std::map<Id, Held> held_;
  int64_t running_ = 0, low_running_ = 0;  // answers that run; those of low priority among them
  int64_t answers_waiting_ = 0;
  double bytes_ = 0;          // of all; whole numbers, so that sums are exact
  double texts_ = 0;          // of them: of hold()
  std::list<Group> waiting_;  // whose turn is next, first
};

}  // namespace llada::serve
