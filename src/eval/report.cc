// Evaluation results as JSON and as a table.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "eval/evaluate.h"

namespace llada::eval {
namespace {

using Json = nlohmann::ordered_json;

double ratio(int64_t a, int64_t b) { return b != 0 ? static_cast<double>(a) / static_cast<double>(b) : 0; }

Json score_json(const Score& s) {
  const auto [low, high] = wilson95(s.right, s.n);
  const auto [whole_low, whole_high] = wilson95(s.whole_right, s.n);
  return {{"n", s.n},
          {"accuracy", s.accuracy()},
          {"ci95", {low, high}},
          {"whole_accuracy", ratio(s.whole_right, s.n)},
          {"whole_ci95", {whole_low, whole_high}},
          {"nfe_mean", s.mean(s.nfe)},
          {"rows_mean", s.mean(s.rows)},
          {"tokens_per_forward", ratio(s.committed, s.nfe)},
          {"content_tokens_mean", s.mean(s.content_tokens)},
          {"content_tokens_per_s", s.seconds > 0 ? static_cast<double>(s.content_tokens) / s.seconds : 0},
          {"seconds_mean", s.n ? s.seconds / static_cast<double>(s.n) : 0}};
}

}  // namespace

std::string report_json(const Model& model, const std::vector<StrategyResult>& results) {
  Json list = Json::array();
  for (const StrategyResult& r : results) {
    Json tasks = Json::object();
    for (const auto& [task, score] : r.tasks) tasks[task] = score_json(score);
    Json entry = {{"name", r.strategy.name},
                  {"options", r.strategy.description},
                  {"tasks", std::move(tasks)},
                  {"accuracy_mean", r.accuracy_mean}};
    const Json total = score_json(r.total);
    for (const char* key : {"n", "whole_accuracy", "nfe_mean", "rows_mean", "tokens_per_forward",
                            "content_tokens_per_s", "seconds_mean"})
      entry[key] = total[key];
    entry["wall_seconds"] = r.wall_seconds;
    list.push_back(std::move(entry));
  }
  const Json report = {{"model", model.file().path()},
                       {"device", model.device().info().description},
                       {"label", "measured"},
                       {"results", std::move(list)}};
  return report.dump(1, ' ', false, Json::error_handler_t::replace);
}

std::string report_table(const std::vector<StrategyResult>& results) {
  size_t width = 8;
  for (const StrategyResult& r : results) width = std::max(width, r.strategy.name.size());
  std::string out =
      fmt::format("{:<{}}  {:<10} {:>5} {:>7} {:>15} {:>7} {:>7} {:>8} {:>9} {:>9}\n", "strategy", width,
                  "task", "n", "answer", "95 %", "whole", "NFE", "tok/fwd", "tok/s", "ms");
  for (const StrategyResult& r : results) {
    const auto line = [&](std::string_view task, const Score& s, double accuracy) {
      const auto [low, high] = wilson95(s.right, s.n);
      out += fmt::format(
          "{:<{}}  {:<10} {:>5} {:>6.1f}% {:>6.1f} .. {:>5.1f} {:>6.1f}% {:>7.1f} {:>8.2f} {:>9.1f} "
          "{:>9.1f}\n",
          r.strategy.name, width, task, s.n, accuracy * 100, low * 100, high * 100,
          ratio(s.whole_right, s.n) * 100, s.mean(s.nfe), ratio(s.committed, s.nfe),
          s.seconds > 0 ? static_cast<double>(s.content_tokens) / s.seconds : 0,
          s.n ? s.seconds / static_cast<double>(s.n) * 1e3 : 0);
    };
    for (const auto& [task, score] : r.tasks) line(task, score, score.accuracy());
    line("all", r.total, r.total.accuracy());
  }
  return out;
}

}  // namespace llada::eval
