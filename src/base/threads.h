// A small pool of worker threads for data-parallel loops. Results never depend on the number of threads: a
// loop body writes only what its index names. Workers spin for a few microseconds after a loop (the next op
// follows at once) and then sleep in the kernel, so an idle engine costs no power.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace llada {

class ThreadPool {
 public:
  // threads <= 0: one per physical core that this process may use. The caller's thread works too and counts.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs body(index, thread) for every index in [0, count), handed out in ascending order; returns when all
  // are done. thread is in [0, size()). One loop at a time; called from one thread only (the pool's owner).
  void run(int64_t count, const std::function<void(int64_t index, int thread)>& body);

 private:
  struct alignas(64) Shared;
  void work(int thread);
  std::unique_ptr<Shared> shared_;
  std::vector<std::thread> workers_;
};

int usable_cores();  // physical cores in this process's affinity mask, at least 1

}  // namespace llada
