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
  jobs_.push_back(std::move(job));
  changed_.notify_all();
  return ++posted_;
}

Status MapLane::wait(int64_t ticket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= ticket; });
  const auto found = failed_.find(ticket);
  return found == failed_.end() ? Status{} : std::unexpected(found->second);
}

void MapLane::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ == posted_; });
}

Status MapLane::drain() {
  finish();
  const std::lock_guard lock(mutex_);
  const auto failed = std::exchange(failed_, {});
  return failed.empty() ? Status{} : std::unexpected(failed.begin()->second);
}

void MapLane::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return leave_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    const Status status = job();
    lock.lock();
    ++done_;
    if (!status) failed_.emplace(done_, status.error());
    changed_.notify_all();
  }
}

}  // namespace llada::hexagon
