#include "devices/hexagon/map_lane.h"

#include <utility>

namespace llada::hexagon {

MapLane::~MapLane() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    leave_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

int64_t MapLane::post(Job job) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  ended_.try_emplace(posted_ + 1);
  jobs_.push_back(std::move(job));
  changed_.notify_all();
  return ++posted_;
}

Status MapLane::wait(int64_t ticket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= ticket; });
  const auto found = ended_.find(ticket);
  return found == ended_.end() ? Status{} : found->second;
}

bool MapLane::done(int64_t ticket) {
  const std::lock_guard lock(mutex_);
  return done_ >= ticket;
}

void MapLane::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ == posted_; });
}

Status MapLane::drain() {
  finish();
  const std::lock_guard lock(mutex_);
  const auto ended = std::exchange(ended_, {});
  return ended.empty() ? Status{} : ended.begin()->second;
}

void MapLane::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return leave_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    Status status = within_memory(job);
    lock.lock();
    const auto entry = ended_.find(++done_);
    if (status)
      ended_.erase(entry);
    else
      entry->second = std::move(status);
    changed_.notify_all();
  }
}

}  // namespace llada::hexagon
