#include "engine/engine.h"

#include <utility>

namespace llada {

const Result<Generation>& Submission::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return result_.has_value(); });
  return *result_;
}

bool Submission::done() const {
  const std::lock_guard lock(mutex_);
  return result_.has_value();
}

bool Submission::wait_for(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return result_.has_value(); });
}

bool Submission::wait_for_step(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return !steps_.empty() || result_.has_value(); });
}

std::optional<StepUpdate> Submission::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !steps_.empty() || result_.has_value(); });
  if (steps_.empty()) return std::nullopt;
  StepUpdate step = std::move(steps_.front());
  steps_.pop_front();
  return step;
}

Result<std::unique_ptr<Engine>> Engine::create(std::shared_ptr<const Model> model, const SchedulerOptions& options) {
  LLADA_TRY(auto scheduler, Scheduler::create(std::move(model), options));
  return std::unique_ptr<Engine>(new Engine(std::move(scheduler)));
}

Engine::Engine(std::unique_ptr<Scheduler> scheduler)
    : scheduler_(std::move(scheduler)), row_budget_(scheduler_->row_budget()), thread_([this] { work(); }) {}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::shared_ptr<Submission> Engine::submit(Request request, Callbacks callbacks) {
  auto handle = std::make_shared<Submission>();
  {
    const std::lock_guard lock(mutex_);
    incoming_.push_back({std::move(request), std::move(callbacks), handle});
  }
  changed_.notify_all();
  return handle;
}

SchedulerStats Engine::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void Engine::settle(Submission& handle, const Scheduler::DoneCallback& on_done, Result<Generation> result) {
  if (on_done) on_done(result);
  {
    const std::lock_guard lock(handle.mutex_);
    handle.result_ = std::move(result);
  }
  handle.changed_.notify_all();
}

void Engine::take_on(Incoming incoming) {
  const std::shared_ptr<Submission> handle = incoming.handle;
  const bool keep = incoming.callbacks.keep_steps;
  const auto on_step = [handle, keep, on_step = std::move(incoming.callbacks.on_step)](const decode::StepEvent& event) {
    if (keep) {
      {
        const std::lock_guard lock(handle->mutex_);
        handle->steps_.push_back({event.step, event.committed, {event.edits.begin(), event.edits.end()}});
      }
      handle->changed_.notify_all();
    }
    return !on_step || on_step(event);
  };
  const auto id = scheduler_->add(incoming.request, on_step,
                                  [handle, on_done = incoming.callbacks.on_done](Result<Generation> result) {
                                    settle(*handle, on_done, std::move(result));
                                  });
  if (id) {
    running_.emplace(*id, handle);
  } else {
    settle(*handle, incoming.callbacks.on_done, std::unexpected(id.error()));
  }
}

void Engine::cancel_asked() {
  std::erase_if(running_, [](const auto& entry) { return entry.second->done(); });
  std::vector<Scheduler::Id> cancelled;
  for (const auto& [id, handle] : running_)
    if (handle->cancelled_) cancelled.push_back(id);
  for (const Scheduler::Id id : cancelled) scheduler_->cancel(id);
}

void Engine::work() {
  for (;;) {
    std::deque<Incoming> incoming;
    bool stopping;
    {
      std::unique_lock lock(mutex_);
      stats_ = scheduler_->stats();
      changed_.wait(lock, [&] { return stopping_ || !incoming_.empty() || !scheduler_->idle(); });
      stopping = stopping_;
      incoming.swap(incoming_);
    }
    for (Incoming& one : incoming) take_on(std::move(one));
    if (stopping)
      for (const auto& [id, handle] : running_) handle->cancelled_ = true;
    cancel_asked();
    if (!scheduler_->idle()) {
      scheduler_->run_forward();
    } else if (stopping) {
      const std::lock_guard lock(mutex_);
      if (incoming_.empty()) return;  // a callback may have submitted
    }
  }
}

}  // namespace llada
