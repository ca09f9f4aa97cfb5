// Many requests in shared forwards (continuous batching). Between two forwards requests join, leave and are cancelled.
// Each forward picks requests (picking.h), merges their plans into one step with a stream for each, and hands each its
// own results. The contract: a request's answer, recording and counts are bit for bit those that it has alone.
//
// Not thread-safe: one thread owns a Scheduler and drives it (engine.h). Callbacks are called from inside run_forward()
// or cancel(), and must not call the Scheduler.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/decide.h"
#include "engine/likelihood.h"
#include "engine/picking.h"
#include "engine/request.h"

namespace llada {

struct SchedulerOptions {
  int threads = 0;            // 0: use the model's device itself; otherwise a share with that many threads
  int64_t row_budget = 0;     // rows of a forward; 0: learned from the forwards that are run (RowBudget)
  int64_t patience = 4;       // forwards that a request is passed over before it comes before older ones
  int64_t most_running = 64;  // requests that hold a K/V store; the others wait in the order in which they came
  std::shared_ptr<PrefixCache> prefixes = {};         // final K/V of earlier requests; null: none is kept
  Trace* trace = nullptr;                             // outlives the Scheduler; may be null
  std::function<void(const std::string&)> warn = {};  // gets one line when the fallback replaces a failed device
};

struct SchedulerStats {
  int64_t forwards = 0;          // shared ones
  int64_t parts = 0;             // steps of requests in them
  int64_t rows = 0;              // in all forwards
  int64_t most_rows = 0;         // of one forward of several requests
  int64_t most_passed_over = 0;  // forwards in a row that a running request was not part of
  bool device_broken = false;    // the last forward failed because of it
};

class Scheduler {
 public:
  using Id = int64_t;
  using DoneCallback = std::function<void(Result<Generation>)>;
  using ScoredCallback = std::function<void(Result<ScoreResult>)>;
  using DecidedCallback = std::function<void(Result<DecideResult>)>;

  static Result<std::unique_ptr<Scheduler>> create(std::shared_ptr<const Model> model, const SchedulerOptions& options);

  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Takes the request on; on_done is called exactly once. On an error it is not taken on, and nothing is called.
  Result<Id> add(const Ready& request, AnswerRun run, DoneCallback on_done);

  // The same for a score (likelihood.h); several of its canvases join a forward where rows are left.
  Result<Id> add_score(const ScoreRequest& request, ScoredCallback on_done);
  // The same for decisions (decide.h); job: made by start_decide().
  Result<Id> add_decide(std::unique_ptr<DecideJob> job, DecidedCallback on_done);

  // Ends a generation with its partial answer, a score or decisions with an error. No effect where it has ended.
  void cancel(Id id);

  // Drops all requests without calling on_done: for when memory ran out in the scheduler's own bookkeeping.
  void drop() { entries_.clear(); }

  // Runs one forward for the picked requests. A request that fails ends with its error; the others go on.
  void run_forward();

  const Model& model() const { return *model_; }
  bool idle() const { return entries_.empty(); }
  int64_t row_budget() const { return options_.row_budget > 0 ? options_.row_budget : learned_.rows(); }
  const SchedulerStats& stats() const { return stats_; }
  bool fell_back() const { return runner_.fell_back(); }

 private:
  struct Entry {
    Id id;
    std::unique_ptr<ForwardJob> job;
    std::function<void(Entry&)> end;  // calls on_done with its result
    bool begun = false;               // it holds a K/V store
    int64_t passed_over = 0;
    double seconds = 0;  // of its last step outside the forward, planning included
    std::optional<Error> error = {};

    bool finished() const { return error || job->done(); }
  };
  struct Turn {  // a step that could be part of the next forward
    Entry* entry;
    RequestStep step;
    int64_t rows, passed_over;
  };

  Scheduler(std::shared_ptr<const Model> model, OwnDevices own, const SchedulerOptions& options);
  Device& device() const { return device_of(*model_, own_); }
  PrefixCache* prefixes() const { return runner_.usable(options_.prefixes.get()); }
  std::span<const std::unique_ptr<Entry>> running() const;  // those that have begun
  void begin_some();
  Id enqueue(std::unique_ptr<ForwardJob> job, std::function<void(Entry&)> end);
  template <class T, class Job>
  Id enqueue_result(std::unique_ptr<Job> job, std::function<void(Result<T>)> on_done, const char* what);
  std::vector<Turn> plan();
  void run(std::span<const Turn> turns);
  void end_finished();

  const std::shared_ptr<const Model> model_;
  OwnDevices own_;  // not const: g++ 12 emits no destructor of a const member of this type
  const SchedulerOptions options_;
  RowBudget learned_;
  ModelRunner runner_;
  SchedulerStats stats_;
  double last_seconds_ = 0;  // of the last forward
  Id next_id_ = 0;
  std::vector<std::unique_ptr<Entry>> entries_;  // oldest first; those that have begun stand before the others
};

}  // namespace llada
