#include "serve/work/workers.h"

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
    queue_.push_back({size, std::move(work)});
  }
  changed_.notify_one();
}

// The oldest work that a thread may begin now.
std::deque<Workers::Work>::iterator Workers::next() {
  return std::ranges::find_if(queue_,
                              [&](const Work& work) { return work.size == WorkSize::small || free_for_large_ > 0; });
}

void Workers::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return next() != queue_.end() || (stopping_ && queue_.empty()); });
    const auto first = next();
    if (first == queue_.end()) return;
    const int large = first->size == WorkSize::large ? 1 : 0;
    free_for_large_ -= large;
    {
      const std::function<void()> work = std::move(first->call);
      queue_.erase(first);
      lock.unlock();
      try {
        work();
      } catch (...) {  // the next work belongs to another request
      }
    }
    lock.lock();
    free_for_large_ += large;
    if (large > 0 || stopping_) changed_.notify_all();
  }
}

}  // namespace llada::serve
