#include "engine/engine.h"

#include <new>
#include <system_error>
#include <type_traits>
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
    : scheduler_(std::move(scheduler)), row_budget_(scheduler_->row_budget()), thread_([this] { work_on(); }) {}

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

template <class T>
class Engine::Completion {
 public:
  using Handle = std::shared_ptr<std::conditional_t<std::is_same_v<T, Generation>, Submission, SubmittedFor<T>>>;
  Completion(Handle handle, std::function<void(Result<T>)> on_done)
      : handle_(std::move(handle)), on_done_(std::move(on_done)) {}
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  ~Completion() {
    if (!completed_) complete(std::unexpected(Error{ErrorKind::memory, kOutOfMemory}));
  }

  const Handle& handle() const { return handle_; }
  void complete(Result<T> result) noexcept {
    completed_ = true;
    if (on_done_) {
      auto copy = within_memory([&]() -> Result<T> { return result; });
      if (!copy) result = std::unexpected(copy.error());
      // An action of a callback that got no memory is its own affair; the handle has its answer.
      static_cast<void>(within_memory([&]() -> Status {
        on_done_(std::move(copy));
        return {};
      }));
    }
    {
      const std::lock_guard lock(handle_->mutex_);
      handle_->result_ = std::move(result);
    }
    handle_->changed_.notify_all();
  }

 private:
  const Handle handle_;
  const std::function<void(Result<T>)> on_done_;
  bool completed_ = false;
};

std::shared_ptr<Submission> Engine::submit(Ready request, Callbacks callbacks) {
  auto handle = std::make_shared<Submission>();
  const auto completion = std::make_shared<Completion<Generation>>(handle, std::move(callbacks.on_done));
  call([this, request = std::move(request), run = std::move(callbacks.run), keep = callbacks.keep_steps, completion] {
    take_on(request, run, keep, completion);
  });
  return handle;
}

std::shared_ptr<ScoreSubmission> Engine::submit_score(ScoreRequest request, Scheduler::ScoredCallback on_done) {
  auto handle = std::make_shared<ScoreSubmission>();
  const auto completion = std::make_shared<Completion<ScoreResult>>(handle, std::move(on_done));
  call([this, request = std::move(request), completion] {
    const auto done = [completion](Result<ScoreResult> result) { completion->complete(std::move(result)); };
    track(scheduler_->add_score(request, done), completion);
  });
  return handle;
}

std::shared_ptr<DecideSubmission> Engine::submit_decide(std::unique_ptr<DecideJob> job,
                                                        Scheduler::DecidedCallback on_done) {
  auto handle = std::make_shared<DecideSubmission>();
  const auto completion = std::make_shared<Completion<DecideResult>>(handle, std::move(on_done));
  call([this, job = std::make_shared<std::unique_ptr<DecideJob>>(std::move(job)), completion] {
    const auto done = [completion](Result<DecideResult> result) { completion->complete(std::move(result)); };
    track(scheduler_->add_decide(std::move(*job), done), completion);
  });
  return handle;
}

SchedulerStats Engine::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

template <class T>
void Engine::track(const Result<Scheduler::Id>& id, const std::shared_ptr<Completion<T>>& completion) {
  if (id) {
    running_.emplace(*id, completion->handle());
  } else {
    completion->complete(std::unexpected(id.error()));
  }
}

void Engine::take_on(const Ready& request, AnswerRun run, bool keep_steps,
                     const std::shared_ptr<Completion<Generation>>& completion) {
  if (keep_steps)
    run.on_step = [handle = completion->handle(), on_step = std::move(run.on_step)](const decode::StepEvent& event) {
      {
        const std::lock_guard lock(handle->mutex_);
        handle->steps_.push_back({event.step, event.committed, {event.edits.begin(), event.edits.end()}});
        if (event.step == 0 && event.canvas.infill) handle->steps_.back().given = given_tokens(event.canvas);
      }
      handle->changed_.notify_all();
      return !on_step || on_step(event);
    };
  const auto done = [completion](Result<Generation> result) { completion->complete(std::move(result)); };
  track(scheduler_->add(request, std::move(run), done), completion);
}

void Engine::cancel_asked() {
  std::erase_if(running_, [](const auto& entry) { return entry.second->done(); });
  std::vector<Scheduler::Id> cancelled;
  for (const auto& [id, handle] : running_)
    if (handle->cancelled_) cancelled.push_back(id);
  for (const Scheduler::Id id : cancelled) scheduler_->cancel(id);
}

void Engine::work_on() {
  for (;;) try {
      return work();
    } catch (const std::bad_alloc&) {
      scheduler_->drop();  // their completions tell them
    } catch (const std::system_error&) {
      scheduler_->drop();  // a thread that could not be had: as without memory
    }
}

void Engine::work() {
  for (;;) {
    std::deque<std::function<void()>> incoming;
    bool stopping;
    {
      std::unique_lock lock(mutex_);
      stats_ = scheduler_->stats();
      row_budget_ = scheduler_->row_budget();
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
