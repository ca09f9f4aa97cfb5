// Mappings beside work: a thread that does its jobs in order, while the caller goes on. Words: ticket = the number of a
// job, from 1.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"

namespace llada::hexagon {

class MapLane {
 public:
  using Job = std::function<Status()>;

  MapLane() = default;
  ~MapLane();  // finishes the jobs given before
  MapLane(const MapLane&) = delete;
  MapLane& operator=(const MapLane&) = delete;

  int64_t post(Job job);
  Status wait(int64_t ticket);  // until the job is done; its result
  bool done(int64_t ticket);
  void finish();   // waits until all are done
  Status drain();  // the same; returns the first error and forgets all

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  int64_t posted_ = 0, done_ = 0;
  std::map<int64_t, Status> ended_;  // by ticket: errors, and jobs that are not done
  bool leave_ = false;
  std::thread thread_;  // from the first job on
};

}  // namespace llada::hexagon
