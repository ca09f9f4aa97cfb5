// A thread that runs a Scheduler, for many requests at a time. submit(), from any thread, returns a handle that gives
// the steps one by one and the answer, and cancels; callbacks get the same.
//
// Threads: any number of threads may use an Engine and a Submission at a time. Callbacks run on the engine's thread,
// one at a time, outside all locks. They may submit and cancel, but must not wait for an answer nor destroy the Engine;
// all requests wait while one runs. The device computes on the engine's thread and its own. Sessions may use the model
// at the same time only where SchedulerOptions::threads gives the Engine a share of its own.
//
// The end: every on_done is called exactly once, after all other callbacks of its request. A cancelled request's
// on_step may still be called for the forward that is under way. The destructor cancels all requests, calls their
// callbacks and those of requests that callbacks submit meanwhile, and joins the thread. Afterwards no callback runs,
// every handle is done, and handles stay usable. So objects that callbacks use are destroyed after the Engine. No other
// thread may submit once the destructor has begun; cancelling by a handle is always allowed.
//
// A request for which there is no memory ends with that error (ErrorKind::memory); the others go on.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/scheduler.h"

namespace llada {

// A copy of the parts of a StepEvent that Submission::next() gives.
struct StepUpdate {
  int64_t step = 0, committed = 0;  // as in StepEvent
  std::vector<decode::Edit> edits;
  std::vector<int32_t> given = {};  // given_tokens(), in the first step of a text with gaps
};

class Submitted {
 public:
  virtual ~Submitted() = default;
  virtual bool done() const = 0;
  void cancel() { cancelled_ = true; }  // takes effect before the next forward; none where the request has ended

 protected:
  friend class Engine;
  std::atomic<bool> cancelled_ = false;
  mutable std::mutex mutex_;  // guards the members of derived classes
  mutable std::condition_variable changed_;
};

template <class T>
class SubmittedFor : public Submitted {
 public:
  // Waits until the request has ended and on_done has been called. Returns its error or its answer, which is partial
  // where a generation was cancelled; each call returns the same.
  const Result<T>& wait() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return result_.has_value(); });
    return *result_;
  }
  // Waits for that at most so long; false: the request has not ended.
  bool wait_for(std::chrono::milliseconds time) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return result_.has_value(); });
  }
  // No wait_for(0): Linux sleeps 50 us even then, which the engine's thread did for every request before each forward.
  bool done() const override {
    const std::lock_guard lock(mutex_);
    return result_.has_value();
  }

 protected:
  friend class Engine;
  std::optional<Result<T>> result_;
};

class Submission : public SubmittedFor<Generation> {
 public:
  // Waits for the next step; nothing once the request has ended and all steps are taken. Needs Callbacks::keep_steps.
  std::optional<StepUpdate> next();
  // Waits at most so long; true: next() returns at once.
  bool wait_for_step(std::chrono::milliseconds time) const;

 private:
  friend class Engine;
  std::deque<StepUpdate> steps_;
};

using ScoreSubmission = SubmittedFor<ScoreResult>;
using DecideSubmission = SubmittedFor<DecideResult>;

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> create(std::shared_ptr<const Model> model, const SchedulerOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  struct Callbacks {
    AnswerRun run = {};
    Scheduler::DoneCallback on_done = {};  // gets the same result as the handle; may be empty
    bool keep_steps = false;               // for Submission::next()
  };
  std::shared_ptr<Submission> submit(Ready request, Callbacks callbacks);
  std::shared_ptr<Submission> submit(Ready request) { return submit(std::move(request), {}); }

  // Scores and decisions take part in the same forwards as generations. on_done may be empty.
  std::shared_ptr<ScoreSubmission> submit_score(ScoreRequest request, Scheduler::ScoredCallback on_done = {});
  // job: made by start_decide(), which cuts the prompts into tokens on its caller's thread.
  std::shared_ptr<DecideSubmission> submit_decide(std::unique_ptr<DecideJob> job,
                                                  Scheduler::DecidedCallback on_done = {});

  SchedulerStats stats() const;                       // as of the last forward
  int64_t row_budget() const { return row_budget_; }  // of the next forward

 private:
  explicit Engine(std::unique_ptr<Scheduler> scheduler);
  void work();
  // Completes a handle once: with its result or, where it is destroyed without one, with kOutOfMemory.
  template <class T>
  class Completion;
  void work_on();
  void take_on(const Ready& request, AnswerRun run, bool keep_steps,
               const std::shared_ptr<Completion<Generation>>& completion);
  void cancel_asked();
  void call(std::function<void()> work);
  // Keeps the handle of a request that the scheduler took on; completes that of a refused one with the error.
  template <class T>
  void track(const Result<Scheduler::Id>& id, const std::shared_ptr<Completion<T>>& completion);

  const std::unique_ptr<Scheduler> scheduler_;  // used by the engine's thread alone
  std::atomic<int64_t> row_budget_;
  std::map<Scheduler::Id, std::shared_ptr<Submitted>> running_;  // the same
  mutable std::mutex mutex_;                                     // guards the members below
  std::condition_variable changed_;
  std::deque<std::function<void()>> incoming_;  // work of the thread before its next forward
  SchedulerStats stats_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace llada
