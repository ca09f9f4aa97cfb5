#include "study/sim/lanes.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace llada {
namespace {

// Ends of tasks that something may still wait for; older ones count as long past.
constexpr size_t kRemembered = 1 << 16;

}  // namespace

const char* name(Lane lane) {
  constexpr const char* kNames[] = {"npu", "cpu", "map", "dma"};
  return kNames[static_cast<size_t>(lane)];
}

TaskId Lanes::add(LaneTask task) {
  const TaskId id = first_ + static_cast<TaskId>(ends_.size());
  LLADA_CHECK(task.after < id && task.joins < id && task.maps[0] < id && task.maps[1] < id);
  LLADA_CHECK(task.bytes <= 0 || task.bytes_per_s > 0);
  ends_.push_back(-1);
  auto& queues = task.background ? background_ : queues_;
  auto& queue = queues[static_cast<size_t>(task.lane)];
  queue.push_back({std::move(task), id, now_});
  return id;
}

double Lanes::end_of(TaskId task) const {
  LLADA_CHECK(done(task));
  return task < first_ ? 0 : ends_[static_cast<size_t>(task - first_)];
}

void Lanes::finish(TaskId task) {
  while (!done(task)) advance();
  while (ends_.size() > kRemembered && ends_.front() >= 0) ends_.pop_front(), ++first_;
}

void Lanes::finish_all() {
  if (!ends_.empty())
    for (TaskId id = first_; id < first_ + static_cast<TaskId>(ends_.size()); ++id)
      while (!done(id)) advance();
}

bool Lanes::cancel(TaskId task) {
  for (auto& queue : background_)
    for (auto it = queue.begin(); it != queue.end(); ++it) {
      if (it->id != task) continue;
      queue.erase(it);
      ends_[static_cast<size_t>(task - first_)] = now_;
      return true;
    }
  return false;
}

bool Lanes::started(TaskId task) const {
  const auto waits = [&](const std::deque<Queued>& queue) { return std::ranges::count(queue, task, &Queued::id) > 0; };
  return std::ranges::none_of(queues_, waits) && std::ranges::none_of(background_, waits);
}

double Lanes::free_in_s(Lane lane) const {
  const auto at = static_cast<size_t>(lane);
  if (!busy_now_[at]) return 0;
  const Work& w = active_[at].work;
  return w.fixed + std::max(w.compute, w.bytes > 0 ? w.bytes / w.wanted_rate : 0);
}

void Lanes::start_ready() {
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    if (busy_now_[lane]) continue;
    const auto ready_at = [&](const std::deque<Queued>& queue) {
      return !queue.empty() && done(queue.front().task.after) && done(queue.front().task.joins) &&
             std::ranges::all_of(queue.front().task.maps, [&](TaskId id) { return done(id); });
    };
    auto* queue = ready_at(queues_[lane]) ? &queues_[lane] : ready_at(background_[lane]) ? &background_[lane] : nullptr;
    if (queue == nullptr) continue;
    const Queued& front = queue->front();
    double ready = std::max(lane_free_[lane], front.not_before), mapped = 0;
    for (const TaskId before : {front.task.after, front.task.joins})
      if (before != kNoTask) ready = std::max(ready, end_of(before));
    for (const TaskId map : front.task.maps)
      if (map != kNoTask) mapped = std::max(mapped, end_of(map));
    exposed_ += std::max(0.0, mapped - ready);
    Active& a = active_[lane];
    a = {front, now_, {front.task.fixed_s, front.task.compute_s, front.task.bytes, front.task.bytes_per_s}};
    queue->pop_front();
    busy_now_[lane] = true;
  }
}

void Lanes::advance() {
  start_ready();
  std::array<Work*, kLaneCount> active;
  size_t count = 0;
  for (size_t lane = 0; lane < kLaneCount; ++lane)
    if (busy_now_[lane]) active[count++] = &active_[lane].work;
  share_bandwidth(std::span(active).first(count), ddr_);
  double step = std::numeric_limits<double>::infinity();
  for (const Work* const work : std::span(active).first(count)) step = std::min(step, work->next_s());
  LLADA_CHECK(step < std::numeric_limits<double>::infinity());  // otherwise tasks wait for each other in a circle
  now_ += step;
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    if (!busy_now_[lane]) continue;
    Active& a = active_[lane];
    busy_[lane] += step;
    a.work.pass(step);
    if (!a.work.done()) continue;
    busy_now_[lane] = false;
    lane_free_[lane] = now_;
    ends_[static_cast<size_t>(a.queued.id - first_)] = now_;
    if (recording_ && !a.queued.task.label.empty())
      spans_.push_back({a.queued.task.lane, a.queued.task.label, a.start, now_});
  }
}

}  // namespace llada
