#include "engine/engine.h"

#include <utility>

namespace llada {

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

void Engine::call(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    incoming_.push_back(std::move(work));
  }
  changed_.notify_all();
}

std::shared_ptr<Submission> Engine::submit(Request request, Callbacks callbacks) {
  auto handle = std::make_shared<Submission>();
  call([this, request = std::move(request), callbacks = std::move(callbacks), handle] {
    take_on(request, callbacks, handle);
  });
  return handle;
}

std::shared_ptr<ScoreSubmission> Engine::submit_score(ScoreRequest request, Scheduler::ScoredCallback on_done) {
  auto handle = std::make_shared<ScoreSubmission>();
  call([this, request = std::move(request), on_done = std::move(on_done), handle] {
    const auto done = [handle, on_done](Result<ScoreResult> result) { settle(*handle, on_done, std::move(result)); };
    track(scheduler_->add_score(request, done), handle, on_done);
  });
  return handle;
}

SchedulerStats Engine::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

template <class T>
void Engine::settle(SubmittedFor<T>& handle, const std::function<void(Result<T>)>& on_done, Result<T> result) {
  if (on_done) on_done(result);
  {
    const std::lock_guard lock(handle.mutex_);
    handle.result_ = std::move(result);
  }
  handle.changed_.notify_all();
}

template <class T>
void Engine::track(const Result<Scheduler::Id>& id, const std::shared_ptr<SubmittedFor<T>>& handle,
                   const std::function<void(Result<T>)>& on_done) {
  if (id) {
    running_.emplace(*id, handle);
  } else {
    settle<T>(*handle, on_done, std::unexpected(id.error()));
  }
}

void Engine::take_on(const Request& request, const Callbacks& callbacks, const std::shared_ptr<Submission>& handle) {
  const auto on_step = [handle, keep = callbacks.keep_steps,
                        on_step = callbacks.on_step](const decode::StepEvent& event) {
    if (keep) {
      {
        const std::lock_guard lock(handle->mutex_);
        handle->steps_.push_back({event.step, event.committed, {event.edits.begin(), event.edits.end()}});
      }
      handle->changed_.notify_all();
    }
    return !on_step || on_step(event);
  };
  const auto done = [handle, on_done = callbacks.on_done](Result<Generation> result) {
    settle<Generation>(*handle, on_done, std::move(result));
  };
  track<Generation>(scheduler_->add(request, on_step, done), handle, callbacks.on_done);
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
    std::deque<std::function<void()>> incoming;
    bool stopping;
    {
      std::unique_lock lock(mutex_);
      stats_ = scheduler_->stats();
      changed_.wait(lock, [&] { return stopping_ || !incoming_.empty() || !scheduler_->idle(); });
      stopping = stopping_;
      incoming.swap(incoming_);
    }
    for (const auto& take_on_one : incoming) take_on_one();
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
