// A request that is being answered, whatever its answers are: from its reservations in the waiting room to its reply.
// begin() reserves its parts. Each part is started by the room, computed by the engine, and ends. When all have ended a
// worker makes the reply; a stream takes pieces before. cancel() and tick() end it early.
#pragma once
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "serve/work/service.h"

namespace llada::serve {

// The refusal of a request without room: 429 where so many bytes would fit once others have ended, else 400.
HttpReply no_room(const WaitingRoom& room, const char* needs, double bytes);

class PendingAnswer : public std::enable_shared_from_this<PendingAnswer> {
 public:
  PendingAnswer(Service& service, std::shared_ptr<Exchange> exchange, size_t parts)
      : service_(service), exchange_(std::move(exchange)), parts_(parts), left_(parts) {}
  virtual ~PendingAnswer();
  PendingAnswer(const PendingAnswer&) = delete;
  PendingAnswer& operator=(const PendingAnswer&) = delete;

  // Replies 429 where the queue is full; otherwise the reply follows later.
  void begin();
  // Ends the parts that have not ended. why, status: the error for the client, where it is still there.
  void cancel(const std::string& why, int status = 503);
  // Called now and then: cancels a request that has taken longer than answer_seconds, but for those of a batch.
  void tick(double answer_seconds, double ping_seconds);

 protected:
  using Clock = std::chrono::steady_clock;
  static constexpr WaitingRoom::Id kNone = -1;

  virtual const char* needs() const = 0;  // begins an error about memory: "the score needs"
  virtual double waiting_bytes() const = 0;
  virtual AnswerBytes bytes(size_t part) const = 0;
  // Submits a part, whose memory is reserved, and calls keep_handle(); later ended(), at least once.
  virtual void compute(size_t part) = 0;
  virtual void fail(size_t part, Error error) = 0;  // its result is that error; under the lock
  virtual HttpReply reply() = 0;                    // once all have ended; of a stream at once, and it grows
  virtual WorkSize reply_size() const = 0;
  virtual void all_ended() = 0;  // counts, the log
  virtual bool streams() const { return false; }
  virtual void announce() {}                       // of a stream: take() has something
  virtual void silent(double /*ping_seconds*/) {}  // of a stream: sends a ping after so long a silence

  void keep_handle(size_t part, std::shared_ptr<Submitted> handle);
  // Called when a part has its result, on any thread: `keep` stores it under the lock. No effect the second time.
  template <class Keep>
  void ended(size_t part, Keep keep) {
    WaitingRoom::Id place;
    bool last;
    {
      const std::lock_guard lock(mutex_);
      if (parts_[part].stage == Stage::ended) return;  // where there was no memory to begin it, two say so
      keep();
      place = end(part), last = left_ == 0;
    }
    service_.room().shrink(place);
    announce();
    if (last) finish();
  }
  // Called when nothing of the part is held any more.
  void release(size_t part);
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  // Under the lock: whether nobody waits for it any more; why it failed.
  bool given_up() const { return cancelled_.has_value() || exchange_->is_gone(); }
  ApiError failure(const Error& error) const { return cancelled_ ? *cancelled_ : ApiError(error); }

  Service& service_;
  const std::shared_ptr<Exchange> exchange_;
  const Clock::time_point begin_ = Clock::now();
  // Guards the members below, and those that derived classes name. Once all parts have ended they no longer change.
  mutable std::mutex mutex_;
  std::optional<ApiError> cancelled_;
  size_t count() const { return parts_.size(); }
  size_t left() const { return left_; }  // parts that have not ended

 private:
  enum class Stage { waiting, running, ended };
  struct Part {
    WaitingRoom::Id place = kNone;  // kNone again once nothing of it is held any more
    Stage stage = Stage::waiting;
    std::shared_ptr<Submitted> handle = {};
  };
  WaitingRoom::Id end(size_t part);
  void enter();
  void start(size_t part);
  void finish();

  std::shared_ptr<void> held_;  // its waiting_bytes() in the room's count
  std::vector<Part> parts_;
  size_t left_;
};

}  // namespace llada::serve
