#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "engine/latency.h"
#include "engine/picking.h"

namespace llada {

Scheduler::Scheduler(std::shared_ptr<const Model> model, OwnDevices own, const SchedulerOptions& options,
                     int64_t budget)
    : model_(std::move(model)),
      own_(std::move(own)),
      options_(options),
      budget_(budget),
      runner_(*model_, device(), options.trace, executor_options(*model_, own_, options.warn)) {
  if (options_.trace != nullptr) device().set_trace(options_.trace);
}

Scheduler::~Scheduler() {
  if (options_.trace != nullptr) device().set_trace(nullptr);
}

Result<std::unique_ptr<Scheduler>> Scheduler::create(std::shared_ptr<const Model> model,
                                                     const SchedulerOptions& options) {
  if (options.row_budget < 0 || options.patience < 0 || options.most_running < 1)
    return invalid("scheduler: found {} rows, a patience of {}, {} requests; needed 0, 0, 1 or more",
                   options.row_budget, options.patience, options.most_running);
  LLADA_TRY(auto devices, share_devices(*model, options.threads));
  int64_t budget = options.row_budget;
  if (budget == 0) {
    LLADA_TRY(const LatencyTable table, model->latency(options.threads));
    budget = llada::row_budget(table.points);
  }
  return std::unique_ptr<Scheduler>(new Scheduler(std::move(model), std::move(devices), options, budget));
}

Result<Scheduler::Id> Scheduler::add(const Request& request, StepCallback on_step, DoneCallback on_done) {
  LLADA_TRY(auto running, RunningRequest::create(model_, request, options_.threads));
  waiting_.push_back(std::make_unique<Entry>(next_id_++, std::move(running), std::move(on_step), std::move(on_done)));
  return waiting_.back()->id;
}

void Scheduler::cancel(Id id) {
  for (auto& entry : running_)
    if (entry->id == id) entry->request->denoiser().cancel();
  for (auto& entry : waiting_)
    if (entry->id == id) entry->request->denoiser().cancel();
  end_finished();
}

void Scheduler::admit() {
  while (!waiting_.empty() && static_cast<int64_t>(running_.size()) < options_.most_running) {
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    Entry& entry = *running_.back();
    if (const Status status = entry.request->allocate(device(), prefixes()); !status) entry.error = status.error();
  }
}

void Scheduler::plan(Entry& entry) {
  if (entry.step || entry.error || entry.request->denoiser().done()) return;
  auto step = entry.request->step();
  if (step) {
    entry.step = *step;
  } else {
    entry.error = step.error();
  }
}

void Scheduler::end_finished() {
  const auto finished = [](const std::unique_ptr<Entry>& entry) {
    return entry->error || entry->request->denoiser().done();
  };
  // Taken out first: their callbacks find a Scheduler without them.
  std::vector<std::unique_ptr<Entry>> ended;
  const auto take_out = [&](auto& entries) {
    for (auto& entry : entries)
      if (finished(entry)) ended.push_back(std::move(entry));
    std::erase(entries, nullptr);
  };
  take_out(running_), take_out(waiting_);
  for (const auto& entry : ended) end(*entry);
}

void Scheduler::end(Entry& entry) {
  if (!entry.on_done) return;
  if (entry.error) {
    entry.on_done(std::unexpected(std::move(*entry.error)));
  } else {
    entry.on_done(entry.request->finish(device()));
  }
}

void Scheduler::run_forward() {
  const auto run = model_->begin_run();
  admit();
  std::vector<Candidate> candidates;
  std::vector<Entry*> ready;
  for (auto& entry : running_) {
    plan(*entry);
    if (!entry->step) continue;
    candidates.push_back({decode::rows_of(*entry->step->plan), entry->passed_over});
    ready.push_back(entry.get());
  }
  const std::vector<size_t> picked = pick(candidates, budget_, options_.patience);
  std::vector<RequestStep> steps;
  int64_t rows = 0;
  for (Entry* entry : ready) ++entry->passed_over;
  for (const size_t i : picked) {
    steps.push_back(*ready[i]->step);
    rows += candidates[i].rows;
    ready[i]->passed_over = 0;
    ready[i]->step.reset();
  }
  for (const Entry* entry : ready) stats_.most_passed_over = std::max(stats_.most_passed_over, entry->passed_over);
  if (!steps.empty()) {
    ++stats_.forwards;
    stats_.parts += static_cast<int64_t>(steps.size());
    stats_.rows += rows;
    if (steps.size() > 1) stats_.most_rows = std::max(stats_.most_rows, rows);
    const double before = runner_.device_seconds();
    auto results = runner_.run(steps);
    const double seconds = runner_.device_seconds() - before;
    for (size_t i = 0; i < picked.size(); ++i) {
      Entry& entry = *ready[picked[i]];
      const auto take = [&]() -> Status {
        LLADA_TRY(auto result, std::move(results[i]));
        LLADA_TRY(const decode::StepEvent event, entry.request->take(std::move(result), seconds, prefixes()));
        if (entry.on_step && !entry.on_step(event)) entry.request->denoiser().cancel();
        return {};
      };
      if (const Status status = take(); !status) entry.error = status.error();
    }
  }
  end_finished();
}

}  // namespace llada
