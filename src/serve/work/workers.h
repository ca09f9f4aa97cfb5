// A pool of threads for reading JSON and cutting texts into tokens, which would hold up the thread that serves
// connections. Work begins in order, but one of two or more threads takes no large work: small work passes it.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace llada::serve {

enum class WorkSize { small, large };  // large: it may take a second

class Workers {
 public:
  // Throws std::system_error where the system refuses a thread; those that were started have ended by then.
  explicit Workers(int threads);
  ~Workers() { finish(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // The work handles its own exceptions (answer_guarded); those that leave it are dropped.
  void give(std::function<void()> work, WorkSize size = WorkSize::small);
  // Waits until all work that was given is done, and joins the threads. give() is still safe then, without effect.
  void finish();

 private:
  struct Work {
    WorkSize size;
    std::function<void()> call;
  };
  void run();
  std::deque<Work>::iterator next();

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Work> queue_;  // oldest first
  int free_for_large_;      // threads that may still begin large work
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace llada::serve
