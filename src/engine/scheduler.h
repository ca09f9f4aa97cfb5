// Many requests in shared forwards. Between two forwards requests join, leave and are cancelled; each forward picks who
// takes part (picking.h), merges their plans into one step with a stream for each, runs it once, and hands everybody
// their own results. The contract: the answer of a request, its recording and its counted stats are bit for bit those
// that it has alone, whoever else is there.
//
// Not thread-safe: one thread owns a Scheduler and drives it (engine.h is such a thread). Callbacks are called by it,
// from inside run_forward() or cancel(), and call nothing of the Scheduler.
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
  std::shared_ptr<PrefixCache> prefixes = {};         // kept blocks of block-causal models; null: none are
  Trace* trace = nullptr;                             // outlives the Scheduler; may be null
  std::function<void(const std::string&)> warn = {};  // one line when a device failed and the fallback took over
};

struct SchedulerStats {
  int64_t forwards = 0;          // shared ones
  int64_t parts = 0;             // of requests in them
  int64_t rows = 0;              // in all forwards
  int64_t most_rows = 0;         // of one forward of several requests
  int64_t most_passed_over = 0;  // forwards in a row that somebody was not part of
  bool device_broken = false;    // so the last forward failed
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

  // Takes the request on; on_done is called exactly once. Failed: nothing of it was taken on.
  Result<Id> add(const Ready& request, AnswerRun run, DoneCallback on_done);

  // The same for a score (likelihood.h), which takes part in forwards beside generations, with more than one of its
  // canvases where rows are left.
  Result<Id> add_score(const ScoreRequest& request, ScoredCallback on_done);
  // And for decisions (decide.h), which have been started.
  Result<Id> add_decide(std::unique_ptr<DecideJob> job, DecidedCallback on_done);

  // Ends the request with what there is of its answer, a score and decisions with an error. Nothing where it has ended.
  void cancel(Id id);

  // Forgets everybody without a word: where no memory was left for the scheduler's own books, with whatever state that
  // left. A request that gets none ends with that error, and the others go on.
  void drop() { entries_.clear(); }

  // One forward for those whose turn it is. A request that fails ends with its error; the others do not notice.
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
    std::function<void(Entry&)> end;  // hands its outcome to whoever asked
    bool begun = false;               // it holds its store
    int64_t passed_over = 0;
    double seconds = 0;  // that its last step took beside the forward, with the plan of the next
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
