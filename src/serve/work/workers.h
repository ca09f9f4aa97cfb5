// A few threads that do the work given to them, in order: reading JSON and cutting texts into tokens, which would hold
// up the thread that serves connections. One of them does no large work, so that small requests never wait for it.
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
  // Where the system has fewer threads, those that were started end and std::system_error is thrown.
  explicit Workers(int threads);
  ~Workers() { finish(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Exceptions of the work are dropped, so it deals with them itself (answer_guarded).
  void give(std::function<void()> work, WorkSize size = WorkSize::small);
  // Does the work that was given and ends the threads; later work is not done. Other threads may still call give(), so
  // the object is destroyed after they have ended.
  void finish();

 private:
  struct Work {
    WorkSize size;
    std::function<void()> call;
  };
  void run();
  std::deque<Work>::iterator next();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Work> queue_;  // oldest first
  int free_for_large_;      // threads that may still begin large work
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace llada::serve
