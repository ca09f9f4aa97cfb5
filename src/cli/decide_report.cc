#include "cli/decide_report.h"

#include "base/figures.h"
#include "cli/progress.h"
#include "cli/terminal.h"

namespace llada::cli {
namespace {

std::string measures_line(const std::string& name, const eval::DecideMeasures& m) {
  return fmt::format("{:<12} {:>6} {:>7.1f}% {:>7.4f} {:>11.4f} {:>8.4f} {:>7.4f} {:>7.1f}%\n", name, m.questions,
                     100 * m.accuracy(), m.brier, m.calibration_error, m.loss, m.label_mass,
                     100 * static_cast<double>(m.best_is_label) / static_cast<double>(m.questions));
}

}  // namespace

Result<eval::DecideReport> run_decide_tasks(const std::shared_ptr<const Model>& model,
                                            const std::vector<eval::DecideTask>& tasks, const DecideOptions& options) {
  LLADA_TRY(const auto engine, Engine::create(model, {}));
  Progress progress("decide");
  return eval::decide_tasks(model, *engine, tasks, options, [&](int64_t done) {
    progress.update(static_cast<double>(done) / static_cast<double>(tasks.size()),
                    fmt::format("{} of {}", done, tasks.size()));
    return InterruptGuard::signal_number() == 0;
  });
}

std::string measures_table(const std::string& title, const std::map<std::string, eval::DecideMeasures>& measures) {
  std::string out = fmt::format("{:<12} {:>6} {:>8} {:>7} {:>11} {:>8} {:>7} {:>8}\n", title, "n", "right", "brier",
                                "calibration", "loss", "mass", "is label");
  for (const auto& [task, m] : measures)
    if (!task.empty()) out += measures_line(one_line(task), m);
  if (measures.size() > 2) out += measures_line("all", measures.at(""));
  return out;
}

Json measures_json(const std::map<std::string, eval::DecideMeasures>& measures) {
  Json tasks = Json::object();
  for (const auto& [task, m] : measures)
    tasks[task.empty() ? "all" : task] = {{"n", m.questions},
                                          {"accuracy", m.accuracy()},
                                          {"brier", m.brier},
                                          {"calibration_error", m.calibration_error},
                                          {"loss", m.loss},
                                          {"label_mass", m.label_mass},
                                          {"best_is_label", m.best_is_label}};
  return tasks;
}

}  // namespace llada::cli
