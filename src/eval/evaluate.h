// Runs a list of strategies over examples on all cores and reports quality beside cost. Examples are
// independent and each runs on one thread, so neither the number of workers nor their order changes a result.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/session.h"
#include "eval/tasks.h"

namespace llada::eval {

struct StrategyUnderTest {
  std::string name;
  std::string description;  // the options as they were written
  decode::DecodeOptions options;
};

struct Score {
  int64_t n = 0, right = 0, whole_right = 0;
  int64_t nfe = 0, rows = 0, committed = 0, content_tokens = 0;
  double seconds = 0;  // summed over examples, each on one thread; measured

  void operator+=(const Score& other);
  double accuracy() const { return n ? static_cast<double>(right) / static_cast<double>(n) : 0; }
  double mean(int64_t sum) const { return n ? static_cast<double>(sum) / static_cast<double>(n) : 0; }
};

// The 95 % score interval of a proportion (Wilson, 1927): sensible at 0 and 1, unlike the normal
// approximation.
std::pair<double, double> wilson95(int64_t right, int64_t n);

struct StrategyResult {
  StrategyUnderTest strategy;
  std::map<std::string, Score> tasks;
  Score total;
  double wall_seconds = 0;
  double accuracy_mean = 0;  // mean over tasks
};

struct EvaluateOptions {
  int workers = 0;  // 0: one per usable physical core
  bool raw_prompts = false;
  std::function<void(int64_t done, int64_t total, const std::string& strategy)> progress;
};

Result<std::vector<StrategyResult>> evaluate(const std::shared_ptr<const Model>& model,
                                             const std::vector<Example>& examples,
                                             const std::vector<StrategyUnderTest>& strategies,
                                             const EvaluateOptions& options);

// One JSON object {model, results[...]} with the keys of the command line's documentation, and a table for
// people.
std::string report_json(const Model& model, const std::vector<StrategyResult>& results);
std::string report_table(const std::vector<StrategyResult>& results);

}  // namespace llada::eval
