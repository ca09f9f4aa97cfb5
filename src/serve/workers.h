// A few threads that do what is given to them, in order: reading JSON and cutting texts into tokens, which would hold
// up the thread that serves connections. One of them does no large work, so that small requests never wait for it.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace llada::serve {

enum class WorkSize { small, large };  // large: it may take a second

class Workers {
 public:
  // Where the system gives fewer threads, those that it gave end and std::system_error leaves.
  explicit Workers(int threads);
  ~Workers() { finish(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // What it throws is lost, so it deals with that itself (answer_guarded).
  void give(std::function<void()> work, WorkSize size = WorkSize::small);
  // What was given is done, and the threads end; what is given later is not done. The object is still one that others'
  // threads may give to, so it is to be destroyed after they have ended.
  void finish();

 private:
  struct Work {
    int64_t turn;
    std::function<void()> call;
  };
  void run();
  std::deque<Work>* next();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Work> small_, large_;  // oldest first
  int64_t given_ = 0;
  int free_for_large_;  // threads that may still begin large work
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace llada::serve
