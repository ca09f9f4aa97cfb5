#include "serve/workers.h"

#include <algorithm>

namespace llada::serve {

Workers::Workers(int threads) : free_for_large_(std::max(threads - 1, 1)) {
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
  } catch (...) {  // those that there are would be destroyed while they run
    finish();
    throw;
  }
}

void Workers::finish() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Workers::give(std::function<void()> work, WorkSize size) {
  {
    const std::lock_guard lock(mutex_);
    (size == WorkSize::large ? large_ : small_).push_back({given_++, std::move(work)});
  }
  changed_.notify_one();
}

// Where the work stands that a thread may begin now: the oldest.
std::deque<Workers::Work>* Workers::next() {
  const bool large = !large_.empty() && free_for_large_ > 0;
  if (large && (small_.empty() || large_.front().turn < small_.front().turn)) return &large_;
  return small_.empty() ? nullptr : &small_;
}

void Workers::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return next() != nullptr || (stopping_ && small_.empty() && large_.empty()); });
    std::deque<Work>* const from = next();
    if (from == nullptr) return;
    const int large = from == &large_ ? 1 : 0;
    free_for_large_ -= large;
    {
      const std::function<void()> work = std::move(from->front().call);
      from->pop_front();
      lock.unlock();
      try {
        work();
      } catch (...) {  // the next one's work is another's
      }
    }
    lock.lock();
    free_for_large_ += large;
    if (large > 0 || stopping_) changed_.notify_all();
  }
}

}  // namespace llada::serve
