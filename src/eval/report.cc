// Evaluation results as JSON and as a table.

#include "base/figures.h"
#include "eval/evaluate.h"
#include "json/parse.h"

namespace llada::eval {
namespace {

Json score_json(const Score& s) {
  const auto [low, high] = wilson95(s.right, s.n);
  const auto [whole_low, whole_high] = wilson95(s.whole_right, s.n);
  Json json = {{"n", s.n},
               {"accuracy", s.accuracy()},
               {"ci95", {low, high}},
               {"whole_accuracy", Score::ratio(s.whole_right, s.n)},
               {"whole_ci95", {whole_low, whole_high}},
               {"cut", s.cut},
               {"nfe_mean", s.mean(s.nfe)},
               {"rows_mean", s.mean(s.rows)},
               {"tokens_per_forward", Score::ratio(s.content_tokens, s.nfe)},
               {"committed_tokens_mean", s.mean(s.committed)},
               {"content_tokens_mean", s.mean(s.content_tokens)},
               {"content_tokens_per_s", s.seconds > 0 ? static_cast<double>(s.content_tokens) / s.seconds : 0},
               {"seconds_mean", s.n ? s.seconds / static_cast<double>(s.n) : 0},
               {"cpu_seconds_mean", s.n ? s.cpu_seconds / static_cast<double>(s.n) : 0}};
  if (s.compared > 0) {
    const auto [agree_low, agree_high] = wilson95(s.agreed, s.compared);
    const PairedDifference difference = paired95(s.won, s.lost, s.compared);
    json["agreement"] = Score::ratio(s.agreed, s.compared);
    json["agreement_ci95"] = {agree_low, agree_high};
    json["edit_distance_mean"] = Score::ratio(s.edit_distance, s.compared);
    json["accuracy_difference"] = difference.value + 0.0;  // not -0
    json["accuracy_difference_ci95"] = {difference.low, difference.high};
  }
  if (s.likelihood.tokens > 0) {
    json["log_probability_per_token"] = s.likelihood.per_token() + 0.0;
    json["scored_tokens"] = s.likelihood.tokens;
  }
  return json;
}

Json result_json(const StrategyResult& r) {
  Json tasks = Json::object();
  for (const auto& [task, score] : r.tasks) tasks[task] = score_json(score);
  Json entry = {{"name", r.strategy.name},
                {"options", r.strategy.description},
                {"tasks", std::move(tasks)},
                {"accuracy_mean", r.accuracy_mean}};
  const Json total = score_json(r.total);
  for (const char* key :
       {"n", "whole_accuracy", "cut", "nfe_mean", "rows_mean", "tokens_per_forward", "content_tokens_per_s",
        "seconds_mean", "cpu_seconds_mean", "agreement", "agreement_ci95", "edit_distance_mean", "accuracy_difference",
        "accuracy_difference_ci95", "log_probability_per_token", "scored_tokens"})
    if (total.contains(key)) entry[key] = total[key];
  entry["wall_seconds"] = r.wall_seconds;
  if (!r.measured_as.empty()) entry["measured_as"] = r.measured_as;
  return entry;
}

}  // namespace

std::string cut_warning(const StrategyResult& r) {
  if (r.total.cut == 0) return {};
  return fmt::format("WARNING: cut at --gen-length {} before their end: {} of {}",
                     decode::get_field(r.strategy.options, "gen_length").value_or(""), r.total.cut,
                     counted(r.total.n, "answer"));
}

std::string report_json(const Model& model, const Evaluation& evaluation) {
  Json list = Json::array();
  for (const StrategyResult& r : evaluation.results) list.push_back(result_json(r));
  Json report = {{"model", model.file().path()}, {"device", model.device().info().description}, {"label", "measured"}};
  if (evaluation.reference) {
    report["reference"] = result_json(*evaluation.reference);
    report["reference"].erase("wall_seconds");  // it may come from a file
  }
  report["results"] = std::move(list);
  report["interrupted"] = evaluation.interrupted;
  return report.dump(1, ' ', false, Json::error_handler_t::replace);
}

std::string TableReport::head() const {
  std::string out = fmt::format("{:<{}} {:>5} {:>7} {:>12}", "task", width_, "n", "right", "95 %");
  if (compared_) out += fmt::format(" {:>6} {:>6}", "diff", "same");
  return out + fmt::format(" {:>6} {:>7} {:>8}\n", "NFE", "rows", "tok/s");
}

std::string TableReport::section(const StrategyResult& r) const {
  std::string out;
  const auto line = [&](std::string_view task, const Score& s) {
    const auto [low, high] = wilson95(s.right, s.n);
    out += fmt::format("{:<{}} {:>5} {:>6.1f}% {:>12}", task, width_, s.n, s.accuracy() * 100,
                       fmt::format("{:.1f}..{:.1f}", low * 100, high * 100));
    if (compared_)
      out += fmt::format(" {:>+6.1f} {:>5.1f}%", rounded(Score::ratio(s.won - s.lost, s.compared) * 100, 1),
                         Score::ratio(s.agreed, s.compared) * 100);
    out += fmt::format(" {:>6.1f} {:>7.0f} {:>8.1f}\n", s.mean(s.nfe), s.mean(s.rows),
                       s.seconds > 0 ? static_cast<double>(s.content_tokens) / s.seconds : 0);
  };
  out +=
      fmt::format("\n{}{}\n", r.strategy.name,
                  r.measured_as.empty() ? "" : fmt::format(" (the same options as {}, measured once)", r.measured_as));
  for (const auto& [task, score] : r.tasks) line(task, score);
  const Score& all = r.total;
  line("all", all);
  out += fmt::format("  whole answer right {:.1f}%", Score::ratio(all.whole_right, all.n) * 100);
  if (compared_) out += fmt::format(", {:.2f} edits", Score::ratio(all.edit_distance, all.compared));
  if (all.likelihood.tokens > 0) out += fmt::format(", log p {:.4f}", rounded(all.likelihood.per_token(), 4));
  out += fmt::format("\n  {:.2f} tokens per forward", Score::ratio(all.content_tokens, all.nfe));
  if (all.cpu_seconds > 0) out += fmt::format(", CPU {:.1f} ms", all.cpu_seconds / static_cast<double>(all.n) * 1e3);
  if (const std::string cut = cut_warning(r); !cut.empty()) out += "\n  " + cut;
  return out + '\n';
}

}  // namespace llada::eval
