#include "serve/work/pending.h"

#include <utility>

namespace llada::serve {

HttpReply no_room(const WaitingRoom& room, const char* needs, double bytes) {
  if (room.could_hold(bytes)) return queue_full();
  return error_reply(ApiError(400, fmt::format("{} {:.3g} MB of memory, {:.3g} MB at most are there", needs,
                                               bytes / 1e6, room.limits().kv_bytes / 1e6)));
}

PendingAnswer::~PendingAnswer() {
  for (size_t i = 0; i < parts_.size(); ++i) release(i);
}

void PendingAnswer::begin() {
  try {
    enter();
  } catch (...) {
    cancel("memory ran out");  // parts that have begun end; the server's end does not wait for them
    throw;
  }
}

void PendingAnswer::enter() {
  const auto self = shared_from_this();
  if (!service_.began(self))
    return exchange_->respond(std::unexpected(ApiError(503, "the server is shutting down", "", "shutting_down")));
  const auto refuse_with = [&](HttpReply reply) {
    exchange_->respond(std::move(reply));
    service_.ended(self);
  };
  std::vector<WaitingRoom::Reservation> reservations;
  for (size_t i = 0; i < parts_.size(); ++i)
    reservations.push_back({.bytes = bytes(i),
                            .start = [self, i] { self->start(i); },
                            .expired = [self] { self->cancel("the queue was full for too long"); }});
  WaitingRoom& room = service_.room();
  const double bytes = WaitingRoom::needed(reservations) + WaitingRoom::counted(waiting_bytes());
  const auto known = [&](const std::vector<WaitingRoom::Id>& ids) {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < ids.size(); ++i) parts_[i].place = ids[i];
  };
  if (room.could_hold(bytes)) held_ = room.hold(waiting_bytes());
  if (!held_ || !room.acquire(std::move(reservations), known, exchange_->low_priority))
    return refuse_with(no_room(room, needs(), bytes));
  exchange_->on_gone([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->cancel("the client has gone", kClientGone);
  });
  if (streams()) exchange_->respond(reply());
}

// Called by the room, on any thread.
void PendingAnswer::start(size_t part) {
  Status begun = within_memory([&]() -> Status {
    {
      const std::lock_guard lock(mutex_);
      if (parts_[part].stage != Stage::waiting) return {};
      parts_[part].stage = Stage::running;
    }
    compute(part);
    return {};
  });
  if (!begun) ended(part, [&] { fail(part, std::move(begun.error())); });
}

void PendingAnswer::keep_handle(size_t part, std::shared_ptr<Submitted> handle) {
  const std::lock_guard lock(mutex_);
  if (given_up()) handle->cancel();
  // Of one that has ended it would hold the result a second time.
  if (parts_[part].stage != Stage::ended) parts_[part].handle = std::move(handle);
}

// Under the lock.
WaitingRoom::Id PendingAnswer::end(size_t part) {
  parts_[part].stage = Stage::ended;
  parts_[part].handle.reset();
  --left_;
  return parts_[part].place;
}

void PendingAnswer::release(size_t part) {
  WaitingRoom::Id place;
  {
    const std::lock_guard lock(mutex_);
    place = std::exchange(parts_[part].place, kNone);
  }
  if (place != kNone) service_.room().release(place);
}

void PendingAnswer::tick(double answer_seconds, double ping_seconds) {
  if (!exchange_->low_priority && seconds() > answer_seconds) return cancel("the answer took too long", 504);
  if (ping_seconds > 0) silent(ping_seconds);
}

void PendingAnswer::cancel(const std::string& why, int status) {
  std::vector<size_t> waited;
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    if (left_ == 0) return;
    if (!cancelled_) cancelled_.emplace(status, why);
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].handle) parts_[i].handle->cancel();
      if (parts_[i].stage != Stage::waiting) continue;
      waited.push_back(i);
      fail(i, {ErrorKind::failed, cancelled_->message});
      static_cast<void>(end(i));
    }
    last = left_ == 0;
  }
  for (const size_t part : waited) release(part);
  announce();
  if (last) finish();
}

// All parts have ended. A reply that is not a stream is made by a worker: the engine's thread has others to serve.
void PendingAnswer::finish() {
  const auto self = shared_from_this();
  try {
    all_ended();
  } catch (...) {  // the answers are there without their line in the log
  }
  if (streams()) return service_.ended(self);
  const auto tell = [self] {
    answer_guarded(*self->exchange_, [&] { self->exchange_->respond(self->reply()); });
    for (size_t i = 0; i < self->parts_.size(); ++i) self->release(i);
    self->service_.ended(self);
  };
  try {
    service_.workers().give(tell, reply_size());
  } catch (const std::exception&) {
    tell();
  }
}

}  // namespace llada::serve
