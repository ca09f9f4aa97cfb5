#include "engine/scheduler.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace llada {
namespace {

// Runs the work and adds the seconds that it takes.
template <class Work>
auto timed(double& seconds, Work work) {
  const auto begin = std::chrono::steady_clock::now();
  auto result = work();
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace

Scheduler::Scheduler(std::shared_ptr<const Model> model, OwnDevices own, const SchedulerOptions& options)
    : model_(std::move(model)),
      own_(std::move(own)),
      options_(options),
      learned_(model_->config().experts > 0 ? RowBudget::kMostOfMixture : RowBudget::kMost),
      runner_(*model_, device(), options.trace, executor_options(*model_, own_, options.warn)) {
  if (options_.trace != nullptr) device().set_trace(options_.trace);
}

Scheduler::~Scheduler() {
  if (options_.trace != nullptr) device().set_trace(nullptr);
}

Result<std::unique_ptr<Scheduler>> Scheduler::create(std::shared_ptr<const Model> model,
                                                     const SchedulerOptions& options) {
  if (options.row_budget < 0 || options.patience < 0 || options.most_running < 1)
    return invalid("scheduler: found a budget of {} rows, a patience of {}, {} requests; needed at least 0, 0 and 1",
                   options.row_budget, options.patience, options.most_running);
  LLADA_TRY(auto devices, share_devices(*model, options.threads));
  return std::unique_ptr<Scheduler>(new Scheduler(std::move(model), std::move(devices), options));
}

Scheduler::Id Scheduler::enqueue(std::unique_ptr<ForwardJob> job, std::function<void(Entry&)> end) {
  entries_.push_back(std::make_unique<Entry>(next_id_++, std::move(job), std::move(end)));
  return entries_.back()->id;
}

Result<Scheduler::Id> Scheduler::add(const Ready& request, AnswerRun run, DoneCallback on_done) {
  return within_memory([&]() -> Result<Id> {
    LLADA_TRY(auto job, RunningRequest::create(model_, request, options_.threads, std::move(run)));
    RunningRequest* const generation = job.get();
    return enqueue(std::move(job), [this, generation, on_done = std::move(on_done)](Entry& entry) {
      const auto result = [&]() -> Result<Generation> {
        if (entry.error) return std::unexpected(std::move(*entry.error));
        return generation->finish(device());
      };
      if (on_done) on_done(within_memory(result));
    });
  });
}

// Of a job that has its result at its end alone.
template <class T, class Job>
Scheduler::Id Scheduler::enqueue_result(std::unique_ptr<Job> job, std::function<void(Result<T>)> on_done,
                                        const char* what) {
  Job* const asked = job.get();
  return enqueue(std::move(job), [asked, what, on_done = std::move(on_done)](Entry& entry) {
    const auto result = [&]() -> Result<T> {
      if (entry.error) return std::unexpected(std::move(*entry.error));
      if (asked->cancelled()) return failed("{}: cancelled", what);
      return asked->finish();
    };
    if (on_done) on_done(within_memory(result));
  });
}

Result<Scheduler::Id> Scheduler::add_score(const ScoreRequest& request, ScoredCallback on_done) {
  return within_memory([&]() -> Result<Id> {
    LLADA_TRY(auto job, start_score(model_, request));
    return enqueue_result<ScoreResult>(std::move(job), std::move(on_done), "score");
  });
}

Result<Scheduler::Id> Scheduler::add_decide(std::unique_ptr<DecideJob> job, DecidedCallback on_done) {
  return within_memory(
      [&]() -> Result<Id> { return enqueue_result<DecideResult>(std::move(job), std::move(on_done), "decide"); });
}

void Scheduler::cancel(Id id) {
  for (auto& entry : entries_)
    if (entry->id == id) entry->job->cancel();
  end_finished();
}

std::span<const std::unique_ptr<Scheduler::Entry>> Scheduler::running() const {
  const auto waiting = std::ranges::partition_point(entries_, [](const auto& entry) { return entry->begun; });
  return std::span(entries_.begin(), waiting);
}

void Scheduler::begin_some() {
  const auto most = static_cast<size_t>(std::min<int64_t>(options_.most_running, std::ssize(entries_)));
  for (size_t i = running().size(); i < most; ++i) {
    Entry& entry = *entries_[i];
    entry.begun = true;
    const Status status = within_memory([&] { return entry.job->allocate(device(), prefixes()); });
    if (!status) entry.error = status.error();
  }
}

// Everybody's first step, oldest first; then the further ones of those who have more than one.
std::vector<Scheduler::Turn> Scheduler::plan() {
  std::vector<Turn> turns, further;
  for (const auto& entry : running()) {
    if (entry->finished()) continue;
    const auto planned = [&]() -> Status {
      for (const RequestStep& step : entry->job->steps(row_budget())) {
        LLADA_TRY(const decode::StepPlan& plan, step.denoiser->plan());
        const bool first = turns.empty() || turns.back().entry != entry.get();
        (first ? turns : further).push_back({entry.get(), step, decode::rows_of(plan), first ? entry->passed_over : 0});
      }
      return {};
    };
    const Status status = timed(entry->seconds, [&] { return within_memory(planned); });
    if (!status) entry->error = status.error();
  }
  std::erase_if(turns, [](const Turn& turn) { return turn.entry->error.has_value(); });
  std::erase_if(further, [](const Turn& turn) { return turn.entry->error.has_value(); });
  turns.insert(turns.end(), further.begin(), further.end());
  return turns;
}

void Scheduler::end_finished() {
  // Taken out first: their callbacks find a Scheduler without them.
  std::vector<std::unique_ptr<Entry>> ended;
  for (auto& entry : entries_)
    if (entry->finished()) ended.push_back(std::move(entry));
  std::erase(entries_, nullptr);
  for (const auto& entry : ended) entry->end(*entry);
}

void Scheduler::run(std::span<const Turn> turns) {
  std::vector<RequestStep> steps;
  int64_t rows = 0;
  for (const Turn& turn : turns) {
    steps.push_back(turn.step);
    rows += turn.rows;
  }
  ++stats_.forwards;
  stats_.parts += static_cast<int64_t>(steps.size());
  stats_.rows += rows;
  if (steps.size() > 1) stats_.most_rows = std::max(stats_.most_rows, rows);
  Clock* const emulated = device().capabilities().clock;
  const auto clock = [&] { return emulated != nullptr ? emulated->emulated().seconds : runner_.device_seconds(); };
  const double before = runner_.device_seconds(), begin = clock();
  runner_.run(steps);
  const double seconds = runner_.device_seconds() - before;
  learned_.ran(rows, clock() - begin);
  last_seconds_ = seconds;
  for (const Turn& turn : turns) turn.entry->seconds = 0;
  stats_.device_broken = runner_.device_broken();
  for (size_t i = 0; i < turns.size(); ++i) {
    Entry& entry = *turns[i].entry;
    const auto take = [&]() -> Status {
      LLADA_TRY_STATUS(steps[i].status);
      return entry.job->take(steps[i], seconds, prefixes());
    };
    if (entry.error) continue;  // of another of its steps
    const Status status = timed(entry.seconds, [&] { return within_memory(take); });
    if (!status) entry.error = status.error();
  }
}

void Scheduler::run_forward() {
  const auto run_of_the_model = model_->begin_run();
  begin_some();
  const std::vector<Turn> turns = plan();
  std::vector<WaitingStep> waiting;
  for (const Turn& turn : turns) waiting.push_back({turn.rows, turn.passed_over, turn.entry->seconds});
  std::vector<Turn> picked;
  // As much beside the forward as the forward itself takes.
  const double beside = std::max(last_seconds_, kHeavySeconds);
  for (const size_t i : pick(waiting, row_budget(), options_.patience, beside)) picked.push_back(turns[i]);
  for (const auto& entry : running())
    if (!entry->finished()) ++entry->passed_over;
  for (const Turn& turn : picked) turn.entry->passed_over = 0;
  for (const auto& entry : running()) stats_.most_passed_over = std::max(stats_.most_passed_over, entry->passed_over);
  if (!picked.empty()) run(picked);
  end_finished();
}

}  // namespace llada
