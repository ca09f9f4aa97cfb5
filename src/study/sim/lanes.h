// Emulated time: tasks on four lanes (npu, cpu, map, dma), with dependencies between them and one DRAM that they share.
// Each lane is first in, first out. Background tasks have a queue of their own, which yields to the other one between
// tasks and not within one. How long a task takes beside others is devices/work.h's rule. Time is simulated from event
// to event: nothing sleeps, and equal tasks give equal times.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "devices/work.h"

namespace llada {

enum class Lane : uint8_t { npu, cpu, map, dma };
inline constexpr int kLaneCount = 4;
const char* name(Lane lane);

using TaskId = int64_t;               // from 1, ascending
inline constexpr TaskId kNoTask = 0;  // counts as done long ago

struct LaneTask {
  Lane lane = Lane::npu;
  double fixed_s = 0, compute_s = 0;
  double bytes = 0, bytes_per_s = 0;                // from or to DRAM; rate > 0 where bytes > 0
  TaskId after = kNoTask;                           // work that this one continues
  TaskId joins = kNoTask;                           // work of another lane whose results it needs, too
  std::array<TaskId, 2> maps = {kNoTask, kNoTask};  // mappings that it waits for
  bool background = false;                          // runs where the lane's other tasks are not ready
  std::string label = {};                           // for traces; empty: not recorded
};

struct LaneSpan {
  Lane lane;
  std::string label;
  double start_s, end_s;
};

class Lanes {
 public:
  explicit Lanes(double ddr_bytes_per_s) : ddr_(ddr_bytes_per_s) {}

  // Dependencies must have been added before. The task starts at now() or later.
  TaskId add(LaneTask task);
  // Simulates until the task has ended; now() is then at least its end.
  void finish(TaskId task);
  void finish_all();

  // Takes a background task that has not started out of its queue; tasks that wait for it see it as done. False: it has
  // started, and ends as usual.
  bool cancel(TaskId task);
  bool started(TaskId task) const;
  bool finished(TaskId task) const { return done(task); }
  // Seconds until the task that the lane works on has ended, if nobody shares the DRAM with it; 0: it is idle.
  double free_in_s(Lane lane) const;

  double now() const { return now_; }
  double end_of(TaskId task) const;  // of a finished task
  double busy_s(Lane lane) const { return busy_[static_cast<size_t>(lane)]; }
  // Time that work waited for a mapping and for nothing else.
  double exposed_s() const { return exposed_; }
  // Time that mappings and copies took in all.
  double transfer_s() const { return busy_[static_cast<size_t>(Lane::map)] + busy_[static_cast<size_t>(Lane::dma)]; }

  void record(bool on) { recording_ = on; }
  std::vector<LaneSpan> take_spans() { return std::move(spans_); }

 private:
  struct Queued {
    LaneTask task;
    TaskId id;
    double not_before;
  };
  struct Active {
    Queued queued;
    double start;
    Work work;
  };
  bool done(TaskId id) const { return id < first_ || ends_[static_cast<size_t>(id - first_)] >= 0; }
  void start_ready();
  void advance();  // to the next event

  double ddr_, now_ = 0, exposed_ = 0;
  std::array<std::deque<Queued>, kLaneCount> queues_, background_;
  std::array<bool, kLaneCount> busy_now_{};
  std::array<Active, kLaneCount> active_{};
  std::array<double, kLaneCount> lane_free_{}, busy_{};
  std::deque<double> ends_;  // -1: not finished; the first is task first_'s
  TaskId first_ = 1;
  bool recording_ = false;
  std::vector<LaneSpan> spans_;
};

}  // namespace llada
