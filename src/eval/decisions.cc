#include "eval/decisions.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <utility>

#include "json/lines.h"
#include "text/text_file.h"
#include "wire/decide_json.h"

namespace llada::eval {
namespace {

constexpr size_t kDecisionsInFlight = 64, kBins = 10;

Result<size_t> right_option(const DecideQuestion& question, const Fields& row) {
  if (question.kind == QuestionKind::predicate) {
    LLADA_TRY(const bool yes, row.boolean("answer"));
    return yes ? 0 : 1;
  }
  const Json* found = row.find("answer");
  const Json answer = found == nullptr ? Json() : *found;
  const bool boolean = answer.is_boolean();
  const std::string text = answer.is_string() ? answer.get<std::string>() : answer.dump();
  for (size_t i = 0; i < question.options.size(); ++i)
    if (question.options[i].text == text && question.options[i].boolean == boolean) return i;
  return row.unfit("answer", "one of the question's options");
}

Result<DecideTask> question_row(const Fields& row) {
  DecideTask task;
  LLADA_TRY(task.question, parse_question(row));
  LLADA_TRY(task.state, row.text("state", ""));
  LLADA_TRY(task.right, right_option(task.question, row));
  LLADA_TRY_STATUS(check_decide({task.state, {task.question}, {}}));
  task.task = name(task.question.kind);
  return task;
}

// "A. text" in the place of that letter.
bool is_option_line(std::string_view line, size_t place) {
  return line.size() > 3 && line[0] == static_cast<char>('A' + place) && line.substr(1, 2) == ". ";
}

Result<DecideTask> choice_row(const Fields& row, const std::string& prompt, const std::string& answer) {
  DecideTask task{.task = "choice", .state = {}, .question = {.kind = QuestionKind::choice, .instructions = {}}};
  std::string_view left = prompt;
  while (!left.empty()) {
    const size_t end = std::min(left.find('\n'), left.size());
    const std::string_view line = left.substr(0, end);
    left.remove_prefix(std::min(left.size(), end + 1));
    std::vector<DecideOption>& options = task.question.options;
    if (options.size() < 26 && is_option_line(line, options.size())) {
      options.push_back({std::string(line.substr(3))});
    } else {
      std::string& text = task.question.instructions;
      text += (text.empty() ? "" : "\n") + std::string(line);
    }
  }
  const size_t n = task.question.options.size();
  if (n < 2) return row.fault("prompt", fmt::format("found {} lines like 'A. text', needed 2 or more", n));
  if (answer.size() != 1 || answer[0] < 'A' || static_cast<size_t>(answer[0] - 'A') >= n)
    return row.wrong("answer", answer, "the letter of an option");
  task.right = static_cast<size_t>(answer[0] - 'A');
  return task;
}

Result<DecideTask> prompt_row(const Fields& row) {
  LLADA_TRY(const std::string prompt, row.text("prompt"));
  LLADA_TRY(const std::string answer, row.text("answer"));
  LLADA_TRY(const std::string task, row.text("task"));
  if (task == "choice") return choice_row(row, prompt, answer);
  if (task != "bool") return row.wrong("task", task, "bool, choice, or a question's type");
  if (answer != "yes" && answer != "no") return row.wrong("answer", answer, "yes or no");
  return DecideTask{.task = "bool",
                    .state = {},
                    .question = {.kind = QuestionKind::predicate, .instructions = prompt},
                    .right = answer == "yes" ? size_t{0} : size_t{1}};
}

struct AskedDecision {
  size_t task;
  std::shared_ptr<DecideSubmission> handle;
};

// Sums of one task, and of the probabilities of its best options.
struct Sums {
  DecideMeasures measures;
  std::array<double, kBins> promised{}, right{};
};

}  // namespace

Result<std::vector<DecideTask>> parse_decide_tasks(std::string_view text, const std::string& source, int64_t limit) {
  std::vector<DecideTask> tasks;
  std::map<std::string, int64_t> counts;
  LLADA_TRY_STATUS(for_each_json_object(text, source, [&](const Fields& row) -> Status {
    const bool question = row.has("type");
    const Json* given = row.find("task");
    // A file of tasks has others beside these, which ask for a text.
    if (!question && given != nullptr && row.has("prompt") && *given != "bool" && *given != "choice") return {};
    LLADA_TRY(auto task, question ? question_row(row) : prompt_row(row));
    LLADA_TRY(task.task, row.text("task", task.task));
    if (limit <= 0 || counts[task.task]++ < limit) tasks.push_back(std::move(task));
    return {};
  }));
  if (tasks.empty())
    return invalid("{}: found no question, needed rows with a type, or of the tasks bool and choice", source);
  return tasks;
}

Result<std::vector<DecideTask>> load_decide_tasks(const std::string& path, int64_t limit) {
  LLADA_TRY(const std::string text, read_text_file(path));
  return parse_decide_tasks(text, path, limit);
}

std::map<std::string, DecideMeasures> measure(const DecideReport& report,
                                              const std::array<double, kQuestionKinds>& temperatures,
                                              const std::function<bool(size_t)>& keep) {
  std::map<std::string, Sums> sums;
  const auto add = [&](Sums& to, size_t index, const DecideAnswer& answer) {
    const size_t right = report.answers[index].right;
    DecideMeasures& m = to.measures;
    ++m.questions;
    const bool is_right = answer.best == right;
    m.right += is_right ? 1 : 0;
    for (size_t o = 0; o < answer.probabilities.size(); ++o)
      m.brier += std::pow(answer.probabilities[o] - (o == right ? 1 : 0), 2);
    m.loss -= std::log(std::max(answer.probabilities[right], 1e-300));
    m.label_mass += answer.label_mass;
    m.best_is_label += report.best_is_label[index] ? 1 : 0;
    const double best = answer.probabilities[answer.best];
    const size_t bin = std::min(static_cast<size_t>(best * kBins), kBins - 1);
    to.promised[bin] += best, to.right[bin] += is_right ? 1 : 0;
  };
  for (size_t i = 0; i < report.answers.size(); ++i) {
    if (keep && !keep(i)) continue;
    const DecidedQuestion& q = report.answers[i];
    const DecideAnswer answer = answer_of(q.kind, q.log_probabilities, temperatures[static_cast<size_t>(q.kind)]);
    add(sums[report.tasks[i]], i, answer), add(sums[""], i, answer);
  }
  std::map<std::string, DecideMeasures> all;
  for (auto& [task, sum] : sums) {
    DecideMeasures& m = sum.measures;
    const auto n = static_cast<double>(m.questions);
    m.brier /= n, m.loss /= n, m.label_mass /= n;
    for (size_t bin = 0; bin < kBins; ++bin) m.calibration_error += std::abs(sum.promised[bin] - sum.right[bin]) / n;
    all[task] = m;
  }
  return all;
}

Result<DecideReport> decide_tasks(const std::shared_ptr<const Model>& model, Engine& engine,
                                  const std::vector<DecideTask>& tasks, const DecideOptions& options,
                                  const std::function<bool(int64_t done)>& proceed) {
  DecideReport report;
  const auto begin = std::chrono::steady_clock::now();
  std::deque<AskedDecision> asked;
  size_t next = 0;
  while (next < tasks.size() || !asked.empty()) {
    for (; next < tasks.size() && asked.size() < kDecisionsInFlight; ++next) {
      auto job = start_decide(model, {tasks[next].state, {tasks[next].question}, options});
      if (!job) return invalid("question {}: {}", next + 1, job.error().message);
      asked.push_back({next, engine.submit_decide(std::move(*job))});
    }
    const auto done = [&] { return static_cast<int64_t>(report.answers.size()); };
    while (!report.interrupted && !asked.front().handle->wait_for(std::chrono::milliseconds(100)))
      report.interrupted = !proceed(done());
    if (report.interrupted) break;
    const auto [index, handle] = std::move(asked.front());
    asked.pop_front();
    const auto& result = handle->wait();
    if (!result) return invalid("question {}: {}", index + 1, result.error().message);
    const DecideAnswer& answer = result->answers.front();
    report.answers.push_back({tasks[index].question.kind, answer.log_probabilities, tasks[index].right});
    report.tasks.push_back(tasks[index].task);
    report.best_is_label.push_back(answer.best_is_label);
    report.forwards += result->forwards, report.rows += result->rows;
    report.interrupted = !proceed(done()) && report.answers.size() < tasks.size();
    if (report.interrupted) break;
  }
  for (const AskedDecision& left : asked) left.handle->cancel();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace llada::eval
