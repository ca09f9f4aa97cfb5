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
  Status wait(int64_t ticket);  // until it is done; how it ended
  bool done(int64_t ticket);
  void finish();   // until all are done
  Status drain();  // the same, and forgets how they ended; the first error

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  int64_t posted_ = 0, done_ = 0;
  std::map<int64_t, Status> ended_;  // by ticket, of those that have not ended well; made when a job is posted
  bool leave_ = false;
  std::thread thread_;  // from the first job on
};

}  // namespace llada::hexagon
