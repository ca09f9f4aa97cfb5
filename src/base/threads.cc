#include "base/threads.h"

#include <pthread.h>
#include <sched.h>

#include <fstream>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"

namespace llada {
namespace {

// About 20 us on a 4 GHz core: longer than the gap between two ops of one step, far shorter than a scheduler
// tick.
constexpr int kSpins = 4000;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int read_int(const std::string& path, int fallback) {
  std::ifstream file(path);
  int value = fallback;
  return file >> value ? value : fallback;
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  std::set<std::pair<int, int>> cores;  // (package, core): two hyper-threads of a core share one pair
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    cores.emplace(read_int(topology + "physical_package_id", 0), read_int(topology + "core_id", cpu));
  }
  return cores.empty() ? 1 : static_cast<int>(cores.size());
}

struct alignas(64) ThreadPool::Shared {
  std::atomic<uint32_t> generation{0};  // bumped once per loop; workers wait on it
  alignas(64) std::atomic<int64_t> next{0};
  alignas(64) std::atomic<int> busy{0};
  int64_t count = 0;
  const std::function<void(int64_t, int)>* body = nullptr;
  bool stop = false;
};

ThreadPool::ThreadPool(int threads) : shared_(std::make_unique<Shared>()) {
  if (threads <= 0) threads = usable_cores();
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  shared_->stop = true;
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
  Shared& s = *shared_;
  LLADA_CHECK(s.busy.load(std::memory_order_relaxed) == 0);
  s.count = count;
  s.body = &body;
  s.next.store(0, std::memory_order_relaxed);
  s.busy.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  s.generation.fetch_add(1, std::memory_order_release);
  s.generation.notify_all();
  for (int64_t i; (i = s.next.fetch_add(1, std::memory_order_relaxed)) < count;) body(i, 0);
  // Every worker must have seen this loop before `body` dies, so the wait is for workers, not for indices.
  for (int spin = 0; spin < kSpins; ++spin, relax())
    if (s.busy.load(std::memory_order_acquire) == 0) return;
  for (int left; (left = s.busy.load(std::memory_order_acquire)) != 0;)
    s.busy.wait(left, std::memory_order_acquire);
}

void ThreadPool::work(int thread) {
  Shared& s = *shared_;
  uint32_t seen = 0;
  for (;;) {
    uint32_t now = s.generation.load(std::memory_order_acquire);
    for (int spin = 0; now == seen && spin < kSpins; ++spin, relax())
      now = s.generation.load(std::memory_order_acquire);
    while (now == seen) {
      s.generation.wait(seen, std::memory_order_acquire);
      now = s.generation.load(std::memory_order_acquire);
    }
    seen = now;
    if (s.stop) return;
    const int64_t count = s.count;
    const auto& body = *s.body;
    for (int64_t i; (i = s.next.fetch_add(1, std::memory_order_relaxed)) < count;) body(i, thread);
    if (s.busy.fetch_sub(1, std::memory_order_release) == 1) s.busy.notify_one();
  }
}

}  // namespace llada
