// A few threads that do what is given to them, in order: reading JSON and cutting texts into tokens, which would hold
// up the thread that serves connections.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace llada::serve {

class Workers {
 public:
  // Where the system gives fewer threads, those that it gave end and std::system_error leaves.
  explicit Workers(int threads);
  ~Workers() { finish(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // What it throws is lost, so it deals with that itself (answer_guarded).
  void give(std::function<void()> work);
  // What was given is done, and the threads end; what is given later is not done. The object is still one that others'
  // threads may give to, so it is to be destroyed after they have ended.
  void finish();

 private:
  void run();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace llada::serve
