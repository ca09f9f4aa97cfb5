#include "base/threads.h"

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/system.h"

namespace llada {
namespace {

// Tens of microseconds: longer than the gap between two ops of one step, far shorter than a scheduler tick.
constexpr int kSpins = 4000;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

int usable_cores() { return usable_processors().threads; }

// Who is in a loop. A worker that the system lets run only when all indices are taken must not be waited for. So a loop
// is closed then, and waits for those alone that have entered it.
class ThreadPool::Gate {
 public:
  void open() { word_.store(0, std::memory_order_release); }
  bool enter() {
    uint32_t now = word_.load(std::memory_order_relaxed);
    while ((now & kClosed) == 0)
      if (word_.compare_exchange_weak(now, now + 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
    return false;
  }
  void leave() {
    if (word_.fetch_sub(1, std::memory_order_release) == kClosed + 1) word_.notify_one();
  }
  void close_and_wait(int spins) {
    uint32_t now = word_.fetch_or(kClosed, std::memory_order_acquire) | kClosed;
    for (int spin = 0; now != kClosed && spin < spins; ++spin, now = word_.load(std::memory_order_acquire)) relax();
    for (; now != kClosed; now = word_.load(std::memory_order_acquire)) word_.wait(now, std::memory_order_acquire);
  }
  bool closed() const { return word_.load(std::memory_order_relaxed) == kClosed; }

 private:
  static constexpr uint32_t kClosed = uint32_t{1} << 31;
  std::atomic<uint32_t> word_{kClosed};  // and the workers within
};

struct ThreadPool::Shared {
  alignas(64) std::atomic<uint32_t> generation{0};  // bumped once per loop; workers wait on it
  alignas(64) Gate gate;
  alignas(64) const std::function<void(int64_t, int)>* body = nullptr;
  std::atomic<bool> threw{false};  // a body, in this loop
  std::exception_ptr thrown;       // by the first that did
  int spins = kSpins;
  std::atomic<bool> stop{false};
};

// Indices left to one thread: the first in the low half, the end in the high half, so that its owner (from the front)
// and a helper (from the end) cannot take the same one.
struct ThreadPool::Share {
  alignas(64) std::atomic<uint64_t> range{0};

  static uint64_t pack(int64_t begin, int64_t end) {
    return static_cast<uint64_t>(end) << 32 | static_cast<uint64_t>(begin);
  }
  int64_t take(bool front) {
    uint64_t now = range.load(std::memory_order_relaxed);
    for (;;) {
      const auto begin = static_cast<int64_t>(now & 0xffffffffu), end = static_cast<int64_t>(now >> 32);
      if (begin >= end) return -1;
      const uint64_t after = front ? pack(begin + 1, end) : pack(begin, end - 1);
      if (range.compare_exchange_weak(now, after, std::memory_order_relaxed)) return front ? begin : end - 1;
    }
  }
};

ThreadPool::ThreadPool(int threads) {
  const Processors processors = usable_processors();
  if (threads <= 0) watch_.emplace();
  start(threads > 0 ? threads : processors.threads, processors);
}

ThreadPool::ThreadPool(const Processors& processors) { start(processors.threads, processors); }

void ThreadPool::start(int threads, const Processors& processors) {
  shared_ = std::make_unique<Shared>();
  shares_ = std::make_unique<Share[]>(static_cast<size_t>(threads));
  present_ = processors;
  if (threads > static_cast<int>(processors.order.size())) shared_->spins = 0;  // a spin would keep others from working
  bound_.clear();
  if (threads > 1 && threads == processors.preferred)
    bound_.assign(processors.order.begin(), processors.order.begin() + threads);
  weigh(processors);
  size_ = threads;
  for (int i = 1; i < threads; ++i) {
    const std::span order(processors.order);
    ProcessorMask mask;
    if (threads == processors.preferred) mask = mask_of(order.subspan(static_cast<size_t>(i), 1));
    if (threads < processors.preferred) mask = mask_of(order.first(static_cast<size_t>(processors.preferred)));
    try {
      // A refusal (a mask that shrank meanwhile) leaves the thread where the scheduler puts it.
      workers_.emplace_back([this, i, mask] {
        if (!mask.empty()) static_cast<void>(bind_thread(mask));
        work(i);
      });
    } catch (...) {
      stop();
      throw;
    }
  }
}

// For threads that are bound, each to a processor whose capacity is known. Ends of equal shares are left to
// share_end(), which rounds them as a machine with equal cores has always had them.
void ThreadPool::weigh(const Processors& processors) {
  ends_.clear();
  int64_t sum = 0;
  bool alike = true;
  for (const int cpu : bound_) {
    const auto at = static_cast<size_t>(std::ranges::find(processors.order, cpu) - processors.order.begin());
    if (at >= processors.capacity.size()) return ends_.clear();
    alike = alike && processors.capacity[at] == processors.capacity[0];
    ends_.push_back(sum += processors.capacity[at]);
  }
  if (alike) ends_.clear();
}

int64_t ThreadPool::share_end(int64_t count, int thread) const {
  if (ends_.empty()) return count * (thread + 1) / size();
  return count * ends_[static_cast<size_t>(thread)] / ends_.back();
}

void ThreadPool::follow_processors() {
  if (!watch_) return;
  if (const auto changed = watch_->changed(ProcessorWatch::Clock::now(), present_)) use(*changed);
}

void ThreadPool::use(const Processors& processors) {
  if (processors.threads == size() && processors.used() == present_.used()) {
    present_ = processors;
    weigh(processors);
    return;
  }
  stop();
  workers_.clear();
  try {
    start(processors.threads, processors);
  } catch (const std::exception&) {  // no thread, or no memory for one
    workers_.clear();
    bound_.clear();
    ends_.clear();
    size_ = 1;
  }
}

void ThreadPool::leave_workers_processor() const {
  if (bound_.empty()) return;
  const int here = this_processor();
  if (std::find(bound_.begin() + 1, bound_.end(), here) == bound_.end()) return;
  const ProcessorMask own = own_mask();
  if (contains(own, bound_[0]) && bind_thread(mask_of({&bound_[0], 1}))) static_cast<void>(bind_thread(own));
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() noexcept {
  shared_->stop.store(true, std::memory_order_relaxed);
  shared_->generation.fetch_add(1, std::memory_order_release);
  shared_->generation.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::run(int64_t count, const std::function<void(int64_t, int)>& body) {
  if (count <= 0) return;
  if (count == 1 || workers_.empty()) {
    for (int64_t i = 0; i < count; ++i) body(i, 0);
    return;
  }
  LLADA_CHECK(count < int64_t{1} << 31);
  leave_workers_processor();
  Shared& s = *shared_;
  LLADA_CHECK(s.gate.closed());
  s.body = &body;
  for (int64_t i = 0, begin = 0; i < size(); ++i) {
    const int64_t end = share_end(count, static_cast<int>(i));
    shares_[static_cast<size_t>(i)].range.store(Share::pack(begin, end), std::memory_order_relaxed);
    begin = end;
  }
  s.gate.open();
  s.generation.fetch_add(1, std::memory_order_release);
  s.generation.notify_all();
  work_through(0);
  s.gate.close_and_wait(s.spins);
  if (s.threw.exchange(false, std::memory_order_relaxed)) std::rethrow_exception(std::exchange(s.thrown, nullptr));
}

void ThreadPool::work_through(int thread) noexcept {
  try {
    const auto& body = *shared_->body;
    for (int offset = 0; offset < size(); ++offset) {
      Share& share = shares_[static_cast<size_t>((thread + offset) % size())];
      for (int64_t i; (i = share.take(offset == 0)) >= 0;) body(i, thread);
    }
  } catch (...) {
    if (!shared_->threw.exchange(true, std::memory_order_relaxed)) shared_->thrown = std::current_exception();
  }
}

void ThreadPool::work(int thread) {
  Shared& s = *shared_;
  uint32_t seen = 0;
  for (;;) {
    uint32_t now = s.generation.load(std::memory_order_acquire);
    for (int spin = 0; now == seen && spin < s.spins; ++spin, relax())
      now = s.generation.load(std::memory_order_acquire);
    while (now == seen) {
      s.generation.wait(seen, std::memory_order_acquire);
      now = s.generation.load(std::memory_order_acquire);
    }
    seen = now;
    if (s.stop.load(std::memory_order_relaxed)) return;
    if (!s.gate.enter()) continue;
    work_through(thread);
    s.gate.leave();
  }
}

}  // namespace llada
