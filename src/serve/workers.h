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
  explicit Workers(int threads);
  ~Workers();  // what was given is done first
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void give(std::function<void()> work);

 private:
  void run();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace llada::serve
