// A small pool of worker threads for data-parallel loops. Results never depend on the number of threads: a loop body
// writes only the elements that its index names. Every thread begins with its own contiguous share of the indices, in
// ascending order, so that it walks through memory once and forward. A thread that is done takes from the ends of the
// others' shares. A loop waits for the workers alone that have entered it: one that the system does not let run holds
// up nothing. Where cores are of unlike capacity, a share is as large as its core is fast. Workers spin for a few tens
// of microseconds after a loop (the next op follows at once) and then sleep in the kernel, so an idle engine costs no
// power.
//
// Workers are bound to processors (processors.h): each to one when the pool is as large as the preferred set. A smaller
// pool is bound to that whole set, since several small pools would otherwise meet on the same cores. A larger one is
// not bound. The caller's thread belongs to the caller: its mask is left as it is. Where a loop begins and the caller
// shares a processor with a bound worker, the caller is moved to the one that was left for it. The scheduler may take a
// long time to notice (seen: half the machine's rate for seconds).
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/processors.h"

namespace llada {

class ThreadPool {
 public:
  // threads <= 0: one per preferred core. The caller's thread works too and counts. Where the system gives fewer, those
  // that it gave end and std::system_error leaves, as std::bad_alloc does where memory is short.
  explicit ThreadPool(int threads = 0);
  // Over these processors, with as many threads as they say; for tests.
  explicit ThreadPool(const Processors& processors);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_.load(std::memory_order_relaxed); }

  // For a pool whose number of threads was not given: checks every few seconds whether the processors of this process
  // have changed (ProcessorWatch), and uses the new ones. Between two loops, by the owner; size() may
  // change.
  void follow_processors();
  // Workers end and new ones start where other processors are to be used; else shares alone change. Where the system
  // gives no threads, the caller's works alone.
  void use(const Processors& processors);

  // Where the thread's share of `count` indices ends; it begins where the one before it ends.
  int64_t share_end(int64_t count, int thread) const;

  // Runs body(index, thread) for every index in [0, count), count < 2^31; returns when all are done. thread is in
  // [0, size()). One loop at a time; called from one thread only (the pool's owner). The first exception of a body
  // leaves the call; by then no thread uses the body any more, and some indices may not have been run.
  void run(int64_t count, const std::function<void(int64_t index, int thread)>& body);

 private:
  class Gate;
  struct Shared;
  struct Share;
  void start(int threads, const Processors& processors);
  void weigh(const Processors& processors);
  void work(int thread);
  void work_through(int thread) noexcept;
  void stop() noexcept;
  void leave_workers_processor() const;
  std::unique_ptr<Shared> shared_;
  std::unique_ptr<Share[]> shares_;
  std::vector<std::thread> workers_;
  std::atomic<int> size_{1};  // others may ask while the owner follows the processors
  Processors present_;        // that the threads were chosen for
  std::optional<ProcessorWatch> watch_;
  std::vector<int64_t> ends_;  // of the threads' shares, of ends_.back(); empty: all alike
  std::vector<int> bound_;     // the caller's processor, then the workers', where every worker has its own; else empty
};

int usable_cores();  // preferred cores of this process (processors.h), at least 1

}  // namespace llada
