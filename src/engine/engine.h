// A thread that runs a Scheduler, for whoever has many requests at a time: submit() from any thread, get a handle, take
// events by callback or one by one, wait for the answer, cancel.
//
// Threads: Engine and Submission may be used by any number of threads at a time. Callbacks are called on the engine's
// thread, one at a time and outside all locks: they may submit and cancel, but must not wait for an answer, nor destroy
// the Engine, and every other request waits while one runs. The device computes on the engine's thread and its own. A
// model may be used by sessions at the same time only where SchedulerOptions::threads gives the Engine a share of its
// own.
//
// The end: every on_done is called exactly once, and nothing of a request is called after it. A cancelled request's
// on_step may still be called for the forward that is under way. The destructor cancels what is under way or waits,
// calls all callbacks, those of what they submit meanwhile too, and joins the thread. When it has returned no callback
// runs or will run, and every handle is done; handles stay usable. So whoever owns what callbacks use destroys the
// Engine first. No other thread may submit once the destructor has begun; cancelling by a handle is always allowed.
//
// A request that gets no memory ends with that error (ErrorKind::memory); the others go on.
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

// A step as a handle gives it: a copy, where StepEvent is a view.
struct StepUpdate {
  int64_t step = 0, committed = 0;  // as in StepEvent
  std::vector<decode::Edit> edits;
  std::vector<int32_t> given = {};  // of the first step of a text with gaps: given_tokens()
};

class Submitted {
 public:
  virtual ~Submitted() = default;
  virtual bool done() const = 0;
  void cancel() { cancelled_ = true; }  // before the next forward; nothing where it has ended

 protected:
  friend class Engine;
  std::atomic<bool> cancelled_ = false;
  mutable std::mutex mutex_;  // guards what derived classes have
  mutable std::condition_variable changed_;
};

// With a result of type T.
template <class T>
class SubmittedFor : public Submitted {
 public:
  // Waits until the request has ended and on_done has been called: its answer (of a cancelled generation what there is)
  // or its error. Again the same.
  const Result<T>& wait() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return result_.has_value(); });
    return *result_;
  }
  // Whether it has ended, which it waits for no longer than that.
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
  // The next step; waits for it. Nothing more once the request has ended. Steps are kept only where the request was
  // submitted with keep_steps.
  std::optional<StepUpdate> next();
  // Whether next() would not wait, for which it waits no longer than that.
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
    Scheduler::DoneCallback on_done = {};  // the answer is the handle's as well
    bool keep_steps = false;               // for Submission::next()
  };
  std::shared_ptr<Submission> submit(Ready request, Callbacks callbacks);
  std::shared_ptr<Submission> submit(Ready request) { return submit(std::move(request), {}); }

  // A score and decisions take part in the same forwards and hold nobody up; on_done may be empty.
  std::shared_ptr<ScoreSubmission> submit_score(ScoreRequest request, Scheduler::ScoredCallback on_done = {});
  // job: of start_decide(), which cuts the prompts to tokens on its caller's thread.
  std::shared_ptr<DecideSubmission> submit_decide(std::unique_ptr<DecideJob> job,
                                                  Scheduler::DecidedCallback on_done = {});

  SchedulerStats stats() const;                       // as of the last forward
  int64_t row_budget() const { return row_budget_; }  // of the next forward

 private:
  explicit Engine(std::unique_ptr<Scheduler> scheduler);
  void work();
  // Completes a handle once: with its result, or, where that never comes, with kOutOfMemory. Throws nothing.
  template <class T>
  class Completion;
  void work_on();
  void take_on(const Ready& request, AnswerRun run, bool keep_steps,
               const std::shared_ptr<Completion<Generation>>& completion);
  void cancel_asked();
  void call(std::function<void()> work);
  // Of a request that was taken on, or refused.
  template <class T>
  void track(const Result<Scheduler::Id>& id, const std::shared_ptr<Completion<T>>& completion);

  const std::unique_ptr<Scheduler> scheduler_;  // the thread's alone
  std::atomic<int64_t> row_budget_;
  std::map<Scheduler::Id, std::shared_ptr<Submitted>> running_;  // the thread's alone
  mutable std::mutex mutex_;                                     // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> incoming_;  // what the thread shall do before its next forward
  SchedulerStats stats_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace llada
