// Runs strategies over examples on all cores and reports quality beside cost. Examples are independent: each runs on
// one thread, or several share forwards that all threads compute. Neither changes a result.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/session.h"
#include "eval/recording.h"
#include "eval/reference.h"
#include "eval/score.h"
#include "eval/tasks.h"

namespace llada::eval {

struct StrategyResult {
  StrategyUnderTest strategy;
  std::map<std::string, Score> tasks;
  Score total;
  double wall_seconds = 0;   // of all examples together, scoring included
  double accuracy_mean = 0;  // mean over tasks
  // The name of an earlier run with the same options, whose results and times these are; empty: its own run.
  std::string measured_as = {};
};

struct EvaluateOptions {
  int workers = 0;  // 0: one per usable physical core
  // > 0: so many examples at a time share forwards on the model's own device, which nothing else may use then.
  int at_once = 0;
  bool raw_prompts = false;
  // Compare with this run of every example (reference.h); absent: agreement is not counted.
  std::optional<decode::DecodeOptions> reference = {};
  std::string reference_path = {};  // keep its answers in this file; empty: in memory
  bool likelihood = false;
  int64_t likelihood_groups = 0;             // pseudo_log_likelihood()
  std::optional<LatencyTable> latency = {};  // fills Score::table_seconds
  std::function<void(int64_t done, int64_t total, const std::string& what)> progress = {};
  // Called in every step; true ends the evaluation with the examples that are done, which are counted and kept.
  std::function<bool()> stopped = [] { return false; };
  // Gets every run of a strategy in the order of the examples; an error ends the evaluation.
  std::function<Status(const RecordedRun& run)> record = {};
  // Gets every result as soon as it is there, the reference first; an error ends the evaluation.
  std::function<Status(const StrategyResult& result)> finished = {};
};

// Holds the sessions, the reference and earlier scores, so that many strategies can be tried on the same examples. Not
// for use from several threads.
class Evaluator {
 public:
  // Invalid: a prompt that the model cannot take, a reference file that does not fit.
  static Result<std::unique_ptr<Evaluator>> create(std::shared_ptr<const Model> model, std::vector<Example> examples,
                                                   EvaluateOptions options);

  const std::vector<Example>& examples() const { return examples_; }
  std::vector<size_t> all() const;  // every index

  // The answers to the examples at `which` with their scores. Examples after a stop have an empty one (n 0).
  Result<std::vector<Answer>> answers(const StrategyUnderTest& strategy, const std::vector<size_t>& which);

  // Invalid: an example that does not fit the model's context with so many generated tokens; the error has its number.
  Status check_fits(const decode::DecodeOptions& options) const;

  // answers(), summed by task.
  Result<StrategyResult> run(const StrategyUnderTest& strategy, const std::vector<size_t>& which);

  // The reference over `which`; missing runs are computed, and the file saved. Its seconds were measured when each ran.
  // Needs options.reference.
  Result<StrategyResult> reference(const std::vector<size_t>& which);

 private:
  Evaluator(std::shared_ptr<const Model> model, std::vector<Example> examples, EvaluateOptions options,
            ReferenceStore store);
  struct Part {  // for progress over several calls: the number of examples before this one, and of all
    size_t begin, of;
  };
  Status for_each(const std::string& what, const std::vector<size_t>& which,
                  const std::function<Status(Session&, size_t example, size_t index)>& body, Part part = {0, 0});
  Result<Answer> answer(Session& session, size_t example, const decode::DecodeOptions& options,
                        RunRecorder* recorder) const;
  Status add_likelihood(Session& session, size_t example, Answer& answer);
  Status ensure_reference(const std::vector<size_t>& which);
  void judge(size_t example, Answer& answer) const;
  bool ended(const Answer& answer) const;
  bool complete(const Answer& answer) const;
  std::string text(const Answer& answer) const;

  const std::shared_ptr<const Model> model_;
  const std::vector<Example> examples_;
  const EvaluateOptions options_;
  std::vector<std::vector<int32_t>> prompts_;
  std::unique_ptr<Engine> engine_;                  // null: examples do not share forwards
  std::vector<std::unique_ptr<Session>> sessions_;  // one per example at a time
  ReferenceStore store_;
  std::mutex likelihood_mutex_;  // guards likelihoods_
  std::map<std::pair<size_t, std::vector<int32_t>>, Likelihood> likelihoods_;
};

struct Evaluation {
  std::vector<StrategyResult> results;
  std::optional<StrategyResult> reference;
  bool interrupted = false;  // then examples or strategies are missing
};

Result<Evaluation> evaluate(const std::shared_ptr<const Model>& model, std::vector<Example> examples,
                            const std::vector<StrategyUnderTest>& strategies, EvaluateOptions options);

// A warning about answers that were cut at the length; empty where there are none.
std::string cut_warning(const StrategyResult& result);

// One JSON object {model, results[...]} with the keys of the command line's documentation.
std::string report_json(const Model& model, const Evaluation& evaluation);

// For people: a head, then one strategy after the other, each under its name, so that a row fits a terminal of 80
// columns. Values without a column of their own stand in a sentence below and in the JSON.
class TableReport {
 public:
  // task_width: of the longest task's name. compared: with the reference.
  TableReport(size_t task_width, bool compared) : width_(std::max<size_t>(task_width, 8)), compared_(compared) {}
  std::string head() const;
  std::string section(const StrategyResult& result) const;

 private:
  const size_t width_;
  const bool compared_;
};

}  // namespace llada::eval
