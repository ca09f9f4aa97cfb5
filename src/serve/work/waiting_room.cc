#include "serve/work/waiting_room.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace llada::serve {

double WaitingRoom::needed(const std::vector<Reservation>& reservations) {
  double kept = 0, most = 0;
  for (const Reservation& reservation : reservations) {
    kept += reservation.bytes.kept;
    most = std::max(most, reservation.bytes.computed - reservation.bytes.kept);
  }
  return kept + most;
}

double WaitingRoom::counted(double bytes) {
  constexpr double kFree = 64 << 10;  // an ordinary request is never refused for long ones
  return std::max(std::ceil(bytes) - kFree, 0.0);
}

std::shared_ptr<void> WaitingRoom::hold(double bytes) {
  const double held_bytes = counted(bytes);
  {
    const std::lock_guard lock(mutex_);
    // Without those that run; the most that one of those that wait needs beside that, and beside what waits with it.
    double kept = bytes_, begun = 0, not_begun = 0;
    for (const auto& [id, held] : held_) kept -= held.running ? held.more : 0;
    for (const Group& group : waiting_) {
      const AnswerBytes& next = group.waiting.front().reservation.bytes;
      if (group.begun) begun = std::max(begun, next.computed - next.kept);
      if (!group.begun) not_begun = std::max(not_begun, group.needed);
    }
    const double most = std::max({bytes_, kept + begun, texts_ + not_begun});
    if (held_bytes > 0 && !could_hold(most + held_bytes)) return nullptr;
    bytes_ += held_bytes, texts_ += held_bytes;
  }
  const auto let_go = [this, held_bytes](void*) {
    {
      const std::lock_guard lock(mutex_);
      bytes_ -= held_bytes, texts_ -= held_bytes;
    }
    if (held_bytes > 0) start_some();
  };
  return {static_cast<void*>(this), let_go};
}

// A request that waits for its turn takes one place, and its answers beyond the first are counted beside that: so a few
// requests for many answers leave others their places. Those of low priority take none from others.
bool WaitingRoom::acquire(std::vector<Reservation> reservations,
                          const std::function<void(const std::vector<Id>&)>& known, bool low_priority) {
  {
    const std::lock_guard lock(mutex_);
    int64_t places = 0, further = 0;
    for (const Group& group : waiting_) {
      if (group.low_priority && !low_priority) continue;
      ++places, further += std::ssize(group.waiting) - 1;
    }
    const int64_t free = places == 0 ? std::max<int64_t>(limits_.running - running_, 0) : 0;
    const int64_t queued = std::ssize(reservations) - free;
    if (queued > 0 && (places >= limits_.waiting || further + queued - 1 > limits_.waiting)) return false;
    if (!could_hold(texts_ + needed(reservations))) return false;  // of others': it could wait for ever
    Group group{.waiting = {},
                .since = std::chrono::steady_clock::now(),
                .needed = needed(reservations),
                .low_priority = low_priority};
    std::vector<Id> ids;
    for (Reservation& reservation : reservations) {
      ids.push_back(next_);
      group.kept += reservation.bytes.kept;
      group.waiting.push_back({next_++, std::move(reservation)});
    }
    known(ids);
    answers_waiting_ += std::ssize(ids);
    waiting_.push_back(std::move(group));
  }
  start_some();
  return true;
}

// Where memory runs out it has not begun.
std::function<void()> WaitingRoom::begin(std::list<Group>::iterator group) {
  Waiting& first = group->waiting.front();
  const auto [computed, kept] = first.reservation.bytes;
  held_.emplace(first.id, Held{.kept = kept, .more = computed - kept, .low_priority = group->low_priority});
  std::function<void()> start = std::move(first.reservation.start);
  if (!std::exchange(group->begun, true)) bytes_ += group->kept;
  bytes_ += computed - kept;
  group->kept -= kept;
  ++running_, --answers_waiting_;
  low_running_ += group->low_priority ? 1 : 0;
  group->waiting.pop_front();
  if (group->waiting.empty())
    waiting_.erase(group);
  else
    waiting_.splice(waiting_.end(), waiting_, group);
  return start;
}

// A request of low priority that has begun goes on beside others that wait: the memory that it keeps would block them.
bool WaitingRoom::may_have_place(const Group& group) const {
  if (running_ >= limits_.running) return false;
  if (!group.low_priority) return true;
  const auto has_priority = [](const Group& other) { return !other.low_priority; };
  return low_running_ < std::max<int64_t>(limits_.running - 1, 1) &&
         (group.begun || std::ranges::none_of(waiting_, has_priority));
}

// Where memory is short a request that has not begun is not overtaken by others that have not, or a large one would
// wait for ever. Those that have begun go on meanwhile: the one of them that began last was counted beside the bytes
// that the others keep, so that some answer can always be computed.
std::function<void()> WaitingRoom::next_start() {
  const std::lock_guard lock(mutex_);
  bool blocked = false;
  for (auto group = waiting_.begin(); group != waiting_.end() && running_ < limits_.running; ++group) {
    if (!may_have_place(*group)) continue;
    const AnswerBytes& next = group->waiting.front().reservation.bytes;
    if (group->begun ? fits(next.computed - next.kept) : !blocked && fits(group->needed)) return begin(group);
    blocked = blocked || !group->begun;
  }
  return {};
}

// Where there is no memory to begin one it begins with the next that ends, or when expire() looks.
void WaitingRoom::start_some() noexcept {
  try {
    while (const auto start = next_start()) start();
  } catch (const std::exception&) {
  }
}

// The lock is held. False: it was no longer computed.
bool WaitingRoom::stop(Held& held) noexcept {
  if (!std::exchange(held.running, false)) return false;
  bytes_ -= held.more;
  --running_;
  low_running_ -= held.low_priority ? 1 : 0;
  return true;
}

void WaitingRoom::shrink(Id id) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const auto found = held_.find(id);
    if (found == held_.end() || !stop(found->second)) return;
  }
  start_some();
}

// The lock is held. What is returned waited; its calls may own who would leave, too, so it goes without the lock.
std::optional<WaitingRoom::Waiting> WaitingRoom::take_waiting(Id id) noexcept {
  for (auto group = waiting_.begin(); group != waiting_.end(); ++group) {
    const auto found = std::ranges::find(group->waiting, id, &Waiting::id);
    if (found == group->waiting.end()) continue;
    std::optional<Waiting> gone = std::move(*found);
    group->waiting.erase(found);
    group->kept -= gone->reservation.bytes.kept;
    if (group->begun) bytes_ -= gone->reservation.bytes.kept;
    --answers_waiting_;
    if (group->waiting.empty()) waiting_.erase(group);
    return gone;
  }
  return std::nullopt;
}

void WaitingRoom::release(Id id) noexcept {
  std::optional<Waiting> waited;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = held_.find(id); found != held_.end()) {
      stop(found->second);
      bytes_ -= found->second.kept;
      held_.erase(found);
    } else {
      waited = take_waiting(id);
    }
  }
  start_some();
}

void WaitingRoom::expire() {
  std::list<Group> expired;
  {
    const std::lock_guard lock(mutex_);
    const auto before = std::chrono::steady_clock::now() - std::chrono::duration<double>(limits_.wait_seconds);
    for (auto group = waiting_.begin(); group != waiting_.end();) {
      const auto next = std::next(group);
      if (group->since < before && !group->low_priority) {
        answers_waiting_ -= std::ssize(group->waiting);
        if (group->begun) bytes_ -= group->kept;
        expired.splice(expired.end(), waiting_, group);
      }
      group = next;
    }
  }
  for (const Group& group : expired)
    for (const Waiting& waiting : group.waiting) waiting.reservation.expired();
  start_some();
}

RoomCounts WaitingRoom::counts() const {
  const std::lock_guard lock(mutex_);
  return {running_, answers_waiting_, bytes_};
}

}  // namespace llada::serve
